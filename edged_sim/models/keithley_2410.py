"""Keithley 2410: the 2400's sister with other ranges and another envelope.

Source: the manuals that profiles/keithley_2410.yaml names.
"""

from __future__ import annotations

import dataclasses
from typing import Final

from edged_sim.models import keithley_2400


class Smu2410(keithley_2400.Smu2400):
    """The state of one unit."""

    highest_v = 1100.0
    highest_a = 1.05
    corner_v = 21.0
    corner_a = 0.021
    ranges = {  # noqa: RUF012 - the class variable
        "VOLT": (0.2, 2.0, 20.0, 1000.0),
        "CURR": (1e-6, 1e-5, 1e-4, 1e-3, 2e-2, 0.1, 1.0),
    }


MODEL: Final = dataclasses.replace(
    keithley_2400.MODEL,
    idn="KEITHLEY INSTRUMENTS INC.,MODEL 2410,{serial},C34 Sep 21 2016 15:30:00/A02  /L/M",
    first_number=4406455,
    build=Smu2410,
)
