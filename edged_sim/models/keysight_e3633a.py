"""HP, Agilent, Keysight E3633A: the E3634A's sister with other ranges and trip levels.

Source: the manuals that profiles/keysight_e3633a.yaml names.
"""

from __future__ import annotations

import dataclasses
from typing import Final

from edged_sim.models import keysight_e3634a
from edged_sim.models.families.e3600 import E3600Unit


class E3633a(E3600Unit):
    """The state of one unit."""

    outputs = {  # noqa: RUF012 - the family's class variable
        1: {
            "ranges": {"P8V": (8.0, 20.0), "P20V": (20.0, 10.0)},
            "most_over_volts": 22.0,
            "most_over_amps": 22.0,
        }
    }


MODEL: Final = dataclasses.replace(
    keysight_e3634a.MODEL,
    idn="HEWLETT-PACKARD,E3633A,{serial},1.7-5.0-1.0",
    build=E3633a,
)
