"""Keithley's source meters: source ranges, envelope and commands as the 2400 had them first. Pure.

How a limit is set, what is sensed and how a reading is asked for have changed since: the model's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

from edged_sim.models.families.source import SourceUnit
from edged_sim.scpi import OWN, ScpiError, SimCall, below, flag, nearest_at_least

OVER_RANGE: Final = 1.05
LONGEST_DELAY_S: Final = 999.9999
OFF_STATES: Final = {"HIMPedance": "HIMP", "NORMal": "NORM", "ZERO": "ZERO", "GUARd": "GUAR"}


class KeithleySmu(SourceUnit):
    """The state of one unit; the model says its ``ranges`` by function, and what it can at most.

    Beyond one of its corners only the other is to be had.
    """

    highest_v: ClassVar[float] = 210.0
    highest_a: ClassVar[float] = 1.05
    corner_v: ClassVar[float] = 21.0
    corner_a: ClassVar[float] = 0.105
    amps_limit = 105e-6
    volts_limit = 21.0
    ranges: ClassVar[Mapping[str, tuple[float, ...]]]

    source_range: dict[str, float]

    def reset(self, now: float) -> None:
        super().reset(now)
        self.is_source_auto = {"VOLT": True, "CURR": True}
        self.terminals = "FRON"

    def describe(self, now: float) -> Mapping[str, Any]:
        return {**super().describe(now), "is_limited": self.output.is_in_compliance(now)}

    def check_envelope(self, volts: float, amps: float) -> None:
        """Raises -221 where the instrument cannot deliver both at once."""
        if abs(volts) > self.corner_v and abs(amps) > self.corner_a:
            raise ScpiError(-221)

    def check_range(self, function: str, level: float) -> None:
        """Let the range follow ``level``, or raise -222 where a chosen one does not hold it."""
        if self.is_source_auto[function]:
            steps = self.ranges[function]
            self.source_range[function] = nearest_at_least(abs(level) / OVER_RANGE, steps)
        elif abs(level) > self.source_range[function] * OVER_RANGE:
            raise ScpiError(-222)

    def tripped(self, call: SimCall, *, is_current: bool) -> str:
        """Whether it sources that, and the limit on the other determines the output."""
        out = self.output
        return flag(out.is_current is is_current and out.is_in_compliance(call.now))


def set_function(unit: KeithleySmu, call: SimCall) -> None:
    """``:SOUR:FUNC VOLT``: the output goes off when it changes."""
    is_current = call.choice(0, {"VOLTage": False, "CURRent": True})
    if is_current is not unit.output.is_current:
        unit.output.switch(is_on=False, now=call.now)
    unit.output.is_current = is_current
    unit.output.apply(call.now)


def set_volts(unit: KeithleySmu, call: SimCall) -> None:
    """``:SOUR:VOLT:LEV``."""
    volts = call.number(0, lowest=-unit.highest_v, highest=unit.highest_v, default=0.0, unit="V")
    unit.check_envelope(volts, unit.output.amps_limit)
    unit.check_range("VOLT", volts)
    unit.output.volts = volts
    unit.output.apply(call.now)


def set_amps(unit: KeithleySmu, call: SimCall) -> None:
    """``:SOUR:CURR:LEV``."""
    amps = call.number(0, lowest=-unit.highest_a, highest=unit.highest_a, default=0.0, unit="A")
    unit.check_envelope(unit.output.volts_limit, amps)
    unit.check_range("CURR", amps)
    unit.output.amps = amps
    unit.output.apply(call.now)


def set_source_range(unit: KeithleySmu, call: SimCall, function: str) -> None:
    """``:SOUR:VOLT:RANG``: one that holds the level; autorange is off after it."""
    steps = unit.ranges[function]
    highest = steps[-1] * OVER_RANGE
    asked = abs(call.number(0, lowest=-highest, highest=highest, default=steps[-1]))
    chosen = nearest_at_least(asked / OVER_RANGE, steps)
    level = unit.output.volts if function == "VOLT" else unit.output.amps
    if abs(level) > chosen * OVER_RANGE:
        raise ScpiError(-221)
    unit.source_range[function], unit.is_source_auto[function] = chosen, False


def set_terminals(unit: KeithleySmu, call: SimCall) -> None:
    """``:ROUT:TERM REAR``: the output goes off."""
    unit.output.switch(is_on=False, now=call.now)
    unit.terminals = call.choice(0, {"FRONt": "FRON", "REAR": "REAR"})


def keithley_words(number: Callable[[float], str]) -> dict[str, Any]:
    """What every ``KeithleySmu`` understands; ``number`` writes its numbers."""
    level = "[:LEVel][:IMMediate][:AMPLitude]"
    ranges = {
        ":RANGe": set_source_range,
        ":RANGe?": lambda u, _c, function: number(u.source_range[function]),
        **OWN.switch(":RANGe:AUTO", "is_source_auto"),
    }
    return {
        ":SOURce<n>:FUNCtion[:MODE]": set_function,
        ":SOURce<n>:FUNCtion[:MODE]?": lambda u, _c: u.function,
        f":SOURce<n>:VOLTage{level}": set_volts,
        f":SOURce<n>:VOLTage{level}?": lambda u, _c: number(u.output.volts),
        f":SOURce<n>:CURRent{level}": set_amps,
        f":SOURce<n>:CURRent{level}?": lambda u, _c: number(u.output.amps),
        **below(":SOURce<n>:VOLTage", "VOLT", ranges),
        **below(":SOURce<n>:CURRent", "CURR", ranges),
        ":ROUTe:TERMinals": set_terminals,
        ":ROUTe:TERMinals?": lambda u, _c: u.terminals,
        ":SYSTem:VERSion?": lambda _u, _c: "1996.0",
        ":ABORt": lambda _u, _c: None,
    }
