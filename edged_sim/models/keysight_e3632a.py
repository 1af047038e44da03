"""HP, Agilent, Keysight E3632A: the E3634A's sister with other ranges and trip levels.

Source: the manuals that profiles/keysight_e3632a.yaml names.
"""

from __future__ import annotations

import dataclasses
from typing import Final

from edged_sim.models import keysight_e3634a
from edged_sim.models.families.e3600 import E3600Unit


class E3632a(E3600Unit):
    """The state of one unit."""

    outputs = {  # noqa: RUF012 - the family's class variable
        1: {
            "ranges": {"P15V": (15.0, 7.0), "P30V": (30.0, 4.0)},
            "most_over_volts": 32.0,
            "most_over_amps": 7.5,
        }
    }


MODEL: Final = dataclasses.replace(
    keysight_e3634a.MODEL,
    idn="HEWLETT-PACKARD,E3632A,{serial},1.2-5.0-1.0",
    build=E3632a,
)
