"""Lake Shore 350: as the 336, with five ranges of each heater.

Source: the manuals and drivers that profiles/lakeshore_350.yaml names.
"""

from __future__ import annotations

import dataclasses
from typing import Final

from edged_sim.models import lakeshore_335
from edged_sim.scpi import SimCall, Vocabulary


class Model350(lakeshore_335.Model335):
    """The state of one unit."""

    inputs = ("A", "B", "C", "D")
    highest_ranges = (5, 5, 1, 1)


def analog(unit: Model350, call: SimCall) -> str:
    """``AOUT? 3``: percent of 10 V."""
    call.whole(0, lowest=3, highest=4)
    return f"{unit.loop(call).output_percent:+08.3f}"


MODEL: Final = dataclasses.replace(
    lakeshore_335.MODEL,
    idn="LSCI,MODEL350,{serial},1.7",
    serial="LSA{number:d}FKB/#######",
    first_number=2,
    vocabulary=Vocabulary({**lakeshore_335.WORDS, "AOUT?": analog}),
    build=Model350,
)
