"""Rohde & Schwarz (Hameg) HMP4030: the HMP4040's sister with three channels of 10 A.

Source: the manuals that profiles/rs_hmp4030.yaml names.
"""

from __future__ import annotations

import dataclasses
from typing import Final

from edged_sim.models import rs_hmp4040


class Hmp4030(rs_hmp4040.Hmp4040):
    """The state of one unit."""

    count = 3
    highest_a = 10.0


MODEL: Final = dataclasses.replace(
    rs_hmp4040.MODEL,
    idn="HAMEG,HMP4030,{serial},HW50020001/SW2.50",
    serial="{number:09d}",
    first_number=22982747,
    build=Hmp4030,
)
