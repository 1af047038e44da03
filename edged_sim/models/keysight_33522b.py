"""Keysight 33522B: two outputs, 30 MHz; the 33220A's words with a channel before them.

What it has besides: start phases, triangles, bits at random; its smallest amplitude is ten times
smaller. Source: the manuals that profiles/keysight_33522b.yaml names.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from edged_sim.models import keysight_33220a
from edged_sim.scpi import Vocabulary

WAVEFORMS: Final[Mapping[str, str]] = {
    "SINusoid": "SIN",
    "SQUare": "SQU",
    "TRIangle": "TRI",
    "RAMP": "RAMP",
    "PULSe": "PULS",
    "PRBS": "PRBS",
    "NOISe": "NOIS",
    "ARBitrary": "ARB",
    "DC": "DC",
}


class Keysight33522b(keysight_33220a.Agilent33220a):
    """The state of one unit."""

    count = 2
    # Its sources give one end for all waveforms, a sine's; the real ones' ramps end far below.
    highest_hz = MappingProxyType(dict.fromkeys(WAVEFORMS.values(), 30e6))
    functions = WAVEFORMS
    lowest_open_pp = 0.002
    duty = (0.01, 99.98)


PHASE_WORDS: Final = {
    **keysight_33220a.OUTPUT.number("[:SOURce<n>]:PHASe", "phase", -360.0, 360.0, default=0.0),
    "[:SOURce<n>]:PHASe:SYNChronize": lambda _u, _c: None,
}

MODEL: Final = dataclasses.replace(
    keysight_33220a.MODEL,
    idn="Agilent Technologies,33522B,{serial},2.09-1.19-2.00-52-00",
    first_number=52_802_702,
    vocabulary=Vocabulary({**keysight_33220a.WORDS, **PHASE_WORDS}),
    build=Keysight33522b,
)
