"""The map that every peer measures: a transistor's drain current over its gate and its drain.

Runs in the clients' own virtual environments, so it uses the standard library alone.
"""

from __future__ import annotations

GATE = (0.4, 2.0, 5)
"""Volts from, to, and how many."""
DRAIN = (0.5, 3.5, 7)
SETTLES_S = 0.1
"""After each set-point: the outputs of the simulated bench take 8 ms for all but a third."""
GATE_LIMIT_A = 1e-6
DRAIN_LIMIT_A = 0.02
