"""Rigol DG1062Z: the DG1022Z's sister whose sine reaches 60 MHz.

Source: the manuals that profiles/rigol_dg1062z.yaml names.
"""

from __future__ import annotations

import dataclasses
from types import MappingProxyType
from typing import Final

from edged_sim.models import rigol_dg1022z


class Dg1062z(rigol_dg1022z.Dg1022z):
    """The state of one unit."""

    highest_hz = MappingProxyType({**rigol_dg1022z.HIGHEST_HZ, "SIN": 60e6})


MODEL: Final = dataclasses.replace(
    rigol_dg1022z.MODEL,
    idn="Rigol Technologies,DG1062Z,{serial},03.01.12",
    serial="DG1ZA{number:09d}",
    first_number=232_603_118,
    build=Dg1062z,
)
