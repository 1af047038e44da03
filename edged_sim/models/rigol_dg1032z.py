"""Rigol DG1032Z: the DG1022Z's sister whose sine reaches 30 MHz.

Source: the manuals that profiles/rigol_dg1032z.yaml names.
"""

from __future__ import annotations

import dataclasses
from types import MappingProxyType
from typing import Final

from edged_sim.models import rigol_dg1022z


class Dg1032z(rigol_dg1022z.Dg1022z):
    """The state of one unit."""

    highest_hz = MappingProxyType({**rigol_dg1022z.HIGHEST_HZ, "SIN": 30e6})


MODEL: Final = dataclasses.replace(
    rigol_dg1022z.MODEL,
    idn="Rigol Technologies,DG1032Z,{serial},03.01.12",
    serial="DG1ZA{number:010d}",
    first_number=2_012_604_407,
    build=Dg1032z,
)
