"""Tektronix TBS2204B: four channels, and longer records than the TBS1102C.

Source: what profiles/tektronix_tbs2204b.yaml names.
"""

from __future__ import annotations

import dataclasses
from typing import Final

from edged_sim.models import tektronix_tbs1000c


class Tbs2204b(tektronix_tbs1000c.Tbs):
    """The state of one unit."""

    channel_count = 4
    depths = (1000, 2000, 20_000, 200_000, 2_000_000)


MODEL: Final = dataclasses.replace(
    tektronix_tbs1000c.MODEL,
    idn="TEKTRONIX,TBS2204B,{serial},CF:91.1CT FV:v1.29.30; FPGA:v20.78;",
    first_number=10_302,
    build=Tbs2204b,
)
