"""Agilent E5062A: the E5061A's sister for 300 kHz to 3 GHz.

Source: what profiles/keysight_e5062a.yaml names.
"""

from __future__ import annotations

import dataclasses
from typing import Final

from edged_sim.models import keysight_e5061a


class E5062a(keysight_e5061a.Ena):
    """The state of one unit."""

    highest_hz = 3e9


MODEL: Final = dataclasses.replace(
    keysight_e5061a.MODEL,
    idn="Agilent Technologies,E5062A,{serial},03.00",
    build=E5062a,
)
