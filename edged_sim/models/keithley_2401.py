"""Keithley 2401: the 2400's sister with other ranges and another envelope.

Source: the manuals that profiles/keithley_2401.yaml names.
"""

from __future__ import annotations

import dataclasses
from typing import Final

from edged_sim.models import keithley_2400


class Smu2401(keithley_2400.Smu2400):
    """The state of one unit."""

    highest_v = 21.0
    highest_a = 1.05
    corner_v = 21.0
    corner_a = 1.05
    ranges = {  # noqa: RUF012 - the class variable
        "VOLT": (0.2, 2.0, 20.0),
        "CURR": (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0),
    }


MODEL: Final = dataclasses.replace(
    keithley_2400.MODEL,
    idn="KEITHLEY INSTRUMENTS INC.,MODEL 2401,{serial},A01 Aug 25 2011 12:57:43/A02  /T/K",
    first_number=4095154,
    build=Smu2401,
)
