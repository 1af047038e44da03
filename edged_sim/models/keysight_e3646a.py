"""HP, Agilent, Keysight E3646A: two outputs with two ranges each, behind one switch.

Quirks kept: whatever names no output means the selected one, the range too; the over-voltage
protection is on after a reset, and clearing a trip brings the output back; with the track mode on
the outputs follow each other. Source: the manuals that profiles/keysight_e3646a.yaml names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from edged_sim.models.families.e3600 import (
    E3600_DIALECT,
    E3600_WORDS,
    INSTRUMENT_WORDS,
    OVP_WORDS,
    RANGE_WORDS,
    E3600Unit,
    Ranges,
    set_volts,
)
from edged_sim.scpi import OWN, ModelSpec, SimCall, SimUnit, Vocabulary

BEYOND: Final = 1.1
"""Highest protection level, of the highest voltage."""


class E3646a(E3600Unit):
    """The state of one unit; ``ranges`` are those of both outputs."""

    ranges: ClassVar[Ranges] = {"P8V": (8.0, 3.0), "P20V": (20.0, 1.5)}
    outputs: ClassVar[Mapping[int, Mapping[str, Any]]]

    def __init__(self, unit: SimUnit) -> None:
        most = max(volts for volts, _amps in self.ranges.values())
        kind = {"ranges": self.ranges, "most_over_volts": most * BEYOND}
        self.outputs = {1: kind, 2: kind}  # type: ignore[misc]
        super().__init__(unit)

    def reset(self, now: float) -> None:
        super().reset(now)
        self.has_tracking = False


def set_tracked_volts(unit: E3646a, call: SimCall) -> None:
    """``VOLT 5``."""
    set_volts(unit, call)
    if unit.has_tracking:
        other = unit.channels[3 - unit.selected]
        other.set_volts(min(unit.channel.source.volts, other.most[0]), call.now)


VOCABULARY: Final = Vocabulary(
    {
        **E3600_WORDS,
        **INSTRUMENT_WORDS,
        **RANGE_WORDS,
        **OVP_WORDS,
        "[:SOURce]:VOLTage[:LEVel][:IMMediate][:AMPLitude]": set_tracked_volts,
        **OWN.switch(":OUTPut:TRACk[:STATe]", "has_tracking"),
    }
)

MODEL: Final = ModelSpec(
    idn="Agilent Technologies,E3646A,{serial},1.4-5.0-1.0",
    serial="0",
    first_number=0,
    dialect=E3600_DIALECT,
    vocabulary=VOCABULARY,
    build=E3646a,
)
