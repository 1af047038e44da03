"""Experiments: one file over several instruments, as data. Pure.

``grammar`` has the keys, ``reading`` makes an ``Experiment`` of a file (``model``) and
``contradictions`` are those of one step. ``check`` judges it against a bench; for that ``scope``
knows names and values, ``targets`` the commands of the units, ``sending`` what is sent, and
``beside_steps`` plots, report and resume. ``checked`` is what a check takes and gives, ``problem``
one error of it. ``draft`` makes a plan of what was sent by hand. ``runs.experiments`` runs it.
"""
