"""Lake Shore 336: the 335's bigger sister, with four inputs and four outputs.

Quirks kept: the third and the fourth output are on or off and have no ranges. Source: the manuals
that profiles/lakeshore_336.yaml names.
"""

from __future__ import annotations

import dataclasses
from typing import Final

from edged_sim.models import lakeshore_335


class Model336(lakeshore_335.Model335):
    """The state of one unit."""

    inputs = ("A", "B", "C", "D")
    highest_ranges = (3, 3, 1, 1)


MODEL: Final = dataclasses.replace(
    lakeshore_335.MODEL,
    idn="LSCI,MODEL336,{serial},2.9",
    serial="LSA{number:d}CMQ/LSA2C8R",
    first_number=2,
    build=Model336,
)
