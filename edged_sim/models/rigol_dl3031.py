"""Rigol DL3031: the DL3021's bigger sister.

Source: the manuals that profiles/rigol_dl3031.yaml names.
"""

from __future__ import annotations

import dataclasses
from typing import Final

from edged_sim.models import rigol_dl3021


class Dl3031(rigol_dl3021.Dl3021):
    """The state of one unit."""

    highest_a = 60.0
    highest_w = 350.0
    low_range_a = 6.0


MODEL: Final = dataclasses.replace(
    rigol_dl3021.MODEL,
    idn="RIGOL TECHNOLOGIES,DL3031A,{serial},00.01.05.00.01",
    serial="DL3D{number:09d}",
    first_number=232300106,
    build=Dl3031,
)
