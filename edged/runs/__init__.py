"""Long work that lives in the daemon: sweeps, streams, sequences, and what they record.

``bench`` is what the parts of one engine share, and ``ports`` the seam: what a run needs of the
floors around it. ``states`` holds the state tables as data, ``points`` what is measured;
``stop_all`` makes the bench safe and ``crash_recovery`` what a killed daemon left. ``run`` is how
every run lives and ends, ``registry`` all of them, and ``moving`` the ramp of sweeps and plans. A
folder for each kind of run, with a ``registry`` that starts and stops its runs.
"""
