"""HP 4284A: what the E4980A followed, to 1 MHz and with a least level.

Source: the drivers that profiles/hp_4284a.yaml names.
"""

from __future__ import annotations

import dataclasses
from typing import Final

from edged_sim.models import keysight_e4980a


class Hp4284a(keysight_e4980a.E4980a):
    """The state of one unit."""

    highest_hz = 1e6
    lowest_v = 0.005
    lowest_a = 50e-6


MODEL: Final = dataclasses.replace(
    keysight_e4980a.MODEL,
    idn="HEWLETT-PACKARD,4284A,{serial},REV01.20",
    serial="0",
    first_number=0,
    build=Hp4284a,
)
