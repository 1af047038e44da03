"""Siglent SPD1305X: the SPD1168X's sister of 30 V/5 A; its identity has four fields.

Source: the manuals that profiles/siglent_spd1305x.yaml names.
"""

from __future__ import annotations

import dataclasses
from typing import Final

from edged_sim.models import siglent_spd1168x


class Spd1305x(siglent_spd1168x.Spd1000x):
    """The state of one unit."""

    highest_v = 30.0
    highest_a = 5.0


MODEL: Final = dataclasses.replace(
    siglent_spd1168x.MODEL,
    idn="Siglent Technologies,SPD1305X,{serial},2.1.1.8",
    serial="SPD13DCC8R{number:04d}",
    first_number=195,
    build=Spd1305x,
)
