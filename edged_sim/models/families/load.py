"""Electronic loads: what they hold constant, and within which ratings. Pure.

Which words choose a mode, how they are answered and what a range does is the model's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from edged_sim.physics import SinkKind
from edged_sim.scpi import SimCall, SimUnit

KINDS: Final[Mapping[str, SinkKind]] = {
    "CC": SinkKind.CURRENT,
    "CV": SinkKind.VOLTAGE,
    "CR": SinkKind.RESISTANCE,
    "CP": SinkKind.POWER,
}


class ElectronicLoad:
    """The state of one unit; its class says what the model is rated for."""

    highest_v: ClassVar[float]
    highest_a: ClassVar[float]
    highest_w: ClassVar[float]
    lowest_ohm: ClassVar[float]
    highest_ohm: ClassVar[float]
    low_range_a: ClassVar[float]
    noise_v: ClassVar[float] = 0.0005
    noise_a: ClassVar[float] = 0.0001

    def __init__(self, unit: SimUnit) -> None:
        self.node, self.sink = unit.world.connect_sink(unit.name)
        self.reset(0.0)

    def reset(self, now: float) -> None:
        self.node.advance(now)
        self.sink.is_on = False
        self.mode = "CC"
        self.levels = {"CC": 0.0, "CV": self.highest_v, "CR": self.highest_ohm, "CP": 0.0}
        self.range_a = self.highest_a
        self.slew = {"rise": 0.5, "fall": 0.5}
        self.von = 0.0
        self.has_sense = False
        self.is_on = False

    def describe(self, now: float) -> Mapping[str, Any]:
        volts, amps = self.wires(now)
        return {
            "is_on": self.is_on,
            "mode": self.mode,
            **{f"level_{mode.lower()}": level for mode, level in self.levels.items()},
            "volts": volts,
            "amps": amps,
        }

    def bounds(self, mode: str) -> tuple[float, float]:
        """The lowest and the highest level of a mode; the range bounds the current."""
        return {
            "CC": (0.0, self.range_a),
            "CV": (0.0, self.highest_v),
            "CR": (self.lowest_ohm, self.highest_ohm),
            "CP": (0.0, self.highest_w),
        }[mode]

    def wires(self, now: float) -> tuple[float, float]:
        """Volts across the load's terminals, and what it takes."""
        self.apply(now)
        volts = max(0.0, self.node.advance(now).volts)
        return volts, self.sink.amps(volts)

    def apply(self, now: float) -> None:
        """Hand what is set to the wires."""
        self.node.advance(now)
        self.sink.kind = KINDS[self.mode]
        self.sink.value = self.levels[self.mode]
        self.sink.is_on = self.is_on and self.node.volts >= self.von

    def choose_range(self, asked: float, now: float) -> None:
        """The range that holds ``asked`` amperes; a level beyond it is taken down to it."""
        self.range_a = self.low_range_a if asked <= self.low_range_a else self.highest_a
        self.levels["CC"] = min(self.levels["CC"], self.range_a)
        self.apply(now)

    def read(self, call: SimCall) -> tuple[float, float]:
        """Volts and amperes as its meter shows them: never below zero."""
        volts, amps = self.wires(call.now)
        volts += call.random.gauss(0.0, self.noise_v)
        amps += call.random.gauss(0.0, self.noise_a)
        return max(0.0, volts), max(0.0, amps)


def set_load_level(unit: ElectronicLoad, call: SimCall, mode: str) -> None:
    """The level of one mode."""
    lowest, highest = unit.bounds(mode)
    unit.levels[mode] = call.number(0, lowest=lowest, highest=highest)
    unit.apply(call.now)


def switch_input(unit: ElectronicLoad, call: SimCall) -> None:
    """``:SOUR:INP:STAT ON``."""
    unit.is_on = call.boolean(0)
    unit.apply(call.now)
