"""HP, Agilent, Keysight E3647A: the E3646A's sister with other ranges.

Source: the manuals that profiles/keysight_e3647a.yaml names.
"""

from __future__ import annotations

import dataclasses
from typing import Final

from edged_sim.models import keysight_e3646a


class E3647a(keysight_e3646a.E3646a):
    """The state of one unit."""

    ranges = {  # noqa: RUF012 - the class variable
        "P35V": (35.0, 0.8),
        "P60V": (60.0, 0.5),
    }


MODEL: Final = dataclasses.replace(
    keysight_e3646a.MODEL,
    idn="Agilent Technologies,E3647A,{serial},1.7-5.0-1.0",
    build=E3647a,
)
