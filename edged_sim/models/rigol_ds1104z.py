"""Rigol DS1104Z: the DS1054Z's sister of 100 MHz.

Source: what profiles/rigol_ds1104z.yaml names.
"""

from __future__ import annotations

import dataclasses
from typing import Final

from edged_sim.models import rigol_ds1054z

MODEL: Final = dataclasses.replace(
    rigol_ds1054z.MODEL,
    idn="RIGOL TECHNOLOGIES,DS1104Z,{serial},00.04.05.SP2",
    serial="DS1ZA{number:03d}M00140",
    first_number=266,
)
