"""Siglent SDL1030X: the SDL1020X's sister of 300 W.

Source: the manuals that profiles/siglent_sdl1030x.yaml names.
"""

from __future__ import annotations

import dataclasses
from typing import Final

from edged_sim.models import siglent_sdl1020x


class Sdl1030x(siglent_sdl1020x.Sdl1020x):
    """The state of one unit."""

    highest_w = 300.0


MODEL: Final = dataclasses.replace(
    siglent_sdl1020x.MODEL,
    idn="Siglent Technologies,SDL1030X-E,{serial},1.1.1.23R4",
    serial="SDL13GCQ7R{number:04d}",
    first_number=669,
    build=Sdl1030x,
)
