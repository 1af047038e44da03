"""Drafts of profiles from drivers that others wrote for PyMeasure. Pure; none of them is run.

Read ``source`` first: a tree of files as classes, each with its bases; ``literals`` says what an
expression is worth. ``declarations`` finds what a class declares and inherits, ``conversion`` makes
commands of it, ``drafting`` a profile, ``importing`` all of a tree: drafts, and with line and
reason whatever was left out. What a driver's code does beyond its declarations is never guessed.
Only facts and figures are taken over: commands, limits, options, units; no sentence and no code.
"""
