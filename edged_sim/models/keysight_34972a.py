"""Keysight 34972A: the 34970A with LAN and USB, and a serial number of its own.

Source: what profiles/keysight_34972a.yaml names.
"""

from __future__ import annotations

import dataclasses
from typing import Final

from edged_sim.models import keysight_34970a

MODEL: Final = dataclasses.replace(
    keysight_34970a.MODEL,
    idn="Agilent Technologies,34972A,{serial},1.16-1.12-02-02",
    serial="MY{number:08d}",
    first_number=49_021_266,
)
