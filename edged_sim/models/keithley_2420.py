"""Keithley 2420: the 2400's sister with other ranges and another envelope.

Source: the manuals that profiles/keithley_2420.yaml names.
"""

from __future__ import annotations

import dataclasses
from typing import Final

from edged_sim.models import keithley_2400


class Smu2420(keithley_2400.Smu2400):
    """The state of one unit."""

    highest_v = 63.0
    highest_a = 3.15
    corner_v = 21.0
    corner_a = 1.05
    ranges = {  # noqa: RUF012 - the class variable
        "VOLT": (0.2, 2.0, 20.0, 60.0),
        "CURR": (1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 3.0),
    }


MODEL: Final = dataclasses.replace(
    keithley_2400.MODEL,
    idn="KEITHLEY INSTRUMENTS INC.,MODEL 2420,{serial},C30   Mar 17 2006 09:29:29/A02  /H/L",
    first_number=1230523,
    build=Smu2420,
)
