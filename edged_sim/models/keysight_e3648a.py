"""HP, Agilent, Keysight E3648A: the E3646A's sister with other ranges.

Source: the manuals that profiles/keysight_e3648a.yaml names.
"""

from __future__ import annotations

import dataclasses
from typing import Final

from edged_sim.models import keysight_e3646a


class E3648a(keysight_e3646a.E3646a):
    """The state of one unit."""

    ranges = {  # noqa: RUF012 - the class variable
        "P8V": (8.0, 5.0),
        "P20V": (20.0, 2.5),
    }


MODEL: Final = dataclasses.replace(
    keysight_e3646a.MODEL,
    idn="Agilent Technologies,E3648A,{serial},1.7-5.0-1.0",
    build=E3648a,
)
