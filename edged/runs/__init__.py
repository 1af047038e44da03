"""Long work that lives in the daemon: sweeps, streams, sequences, and what they record.

``bench`` is what the parts of one engine share, and ``ports`` the seam: what a run needs of the
floors around it. ``states`` holds the state tables as data, ``points`` what is measured;
``stop_all`` makes the bench safe and ``crash_recovery`` what a killed daemon left. A folder for
each kind of run, with a ``book`` that knows all of its runs.
"""
