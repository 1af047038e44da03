"""Yokogawa GS200: a quiet source of voltage or current, with a monitor where the option is fitted.

Quirks kept: it calls itself GS210; the function changes only with the output off; a level goes to
1.2 times the range; a level that is set while a program is edited is a step of the program and
leaves the output alone; a program moves on a 10 Hz clock; the monitor measures nothing on the
ranges below 1 V, with itself off or with the output off. Source: the manuals that
profiles/yokogawa_gs200.yaml names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from edged_sim import scpi
from edged_sim.models.families.source import LINE_CYCLE_S, SourceUnit

VOLT_RANGES: Final = (10e-3, 100e-3, 1.0, 10.0, 30.0)
AMP_RANGES: Final = (1e-3, 10e-3, 100e-3, 200e-3)
OVER_RANGE: Final = 1.2
HIGHEST_V: Final = 32.0
HIGHEST_A: Final = 0.2
"""The two largest ranges end before 1.2 times: 32 V and 200 mA."""
LOWEST_MONITORED_V: Final = 1.0
TICK_S: Final = 0.1
MOST_STEPS: Final = 10_000
SHORTEST_INTERVAL_S: Final = 0.1
LONGEST_S: Final = 3600.0
RUNNING_BIT: Final = 1 << 0


class Gs200(SourceUnit):
    """The state of one unit."""

    gain_error = 20e-6
    noise = 5e-6
    amps_limit = 0.2
    volts_limit = 30.0

    def reset(self, now: float) -> None:
        super().reset(now)
        self.ranges = {"VOLT": 10.0, "CURR": 10e-3}
        self.has_monitor = False
        self.nplc = 1
        self.monitor_delay_ms = 0
        self.has_remote_sense = self.has_guard = False
        self.program: list[float] = []
        self.is_editing = False
        self.is_repeating = False
        self.slope_s, self.interval_s = 0.0, 1.0
        self.started: float | None = None
        self.start_level = 0.0
        self.events = 0

    def describe(self, now: float) -> Mapping[str, Any]:
        self.move(now)
        out = self.output
        return {
            "is_on": out.is_on,
            "function": self.function,
            "level": out.level,
            "range": self.ranges[self.function],
            "volts": out.node.advance(now).terminal_volts,
            "amps": out.node.amps,
            "is_running": self.started is not None,
            "program": list(self.program),
        }

    def hold(self, level: float, now: float) -> None:
        """Source that."""
        if self.output.is_current:
            self.output.amps = level
        else:
            self.output.volts = level
        self.output.apply(now)

    def highest(self) -> float:
        """The largest level of the present range."""
        bound = HIGHEST_A if self.output.is_current else HIGHEST_V
        return min(bound, self.ranges[self.function] * OVER_RANGE)

    def move(self, now: float) -> None:
        """Let a running program come to where it is by now, in ticks of its clock."""
        if self.started is None or not self.program:
            return
        passed = (now - self.started) // TICK_S * TICK_S
        steps = [self.start_level, *self.program]
        each_s = max(self.interval_s, TICK_S)
        index = int(passed / each_s + 1e-9)
        if index >= len(self.program):
            self.hold(self.program[-1], now)
            self.started = None
            self.events |= RUNNING_BIT
            return
        share = 1.0
        if self.slope_s > 0:
            share = min(1.0, (passed - index * each_s) / self.slope_s)
        self.hold(steps[index] + (steps[index + 1] - steps[index]) * share, now)


def set_function(unit: Gs200, call: scpi.SimCall) -> None:
    """``:SOUR:FUNC VOLT``: with the output off only."""
    is_current = call.choice(0, {"VOLTage": False, "CURRent": True})
    if is_current is not unit.output.is_current and unit.output.is_on:
        raise scpi.ScpiError(-221)
    unit.output.is_current = is_current
    unit.output.apply(call.now)


def set_range(unit: Gs200, call: scpi.SimCall) -> None:
    """``:SOUR:RANG 10``; the level comes down with the range."""
    steps = AMP_RANGES if unit.output.is_current else VOLT_RANGES
    asked = call.number(0, lowest=0.0, highest=steps[-1], default=steps[-1])
    unit.ranges[unit.function] = scpi.nearest_at_least(asked, steps)
    if abs(unit.output.level) > unit.highest():
        unit.hold(0.0, call.now)


def set_level(unit: Gs200, call: scpi.SimCall) -> None:
    """``:SOUR:LEV 1.5``: now, or a step while a program is edited."""
    unit.move(call.now)
    highest = unit.highest()
    level = call.number(0, lowest=-highest, highest=highest, default=0.0)
    if unit.is_editing:
        if len(unit.program) >= MOST_STEPS:
            raise scpi.ScpiError(-221)
        unit.program.append(level)
        return
    if unit.started is not None:
        raise scpi.ScpiError(-221)
    unit.hold(level, call.now)


def set_level_auto(unit: Gs200, call: scpi.SimCall) -> None:
    """``:SOUR:LEV:AUTO 1.5``: the range goes along, and the output glitches when it does."""
    unit.move(call.now)
    if unit.started is not None or unit.is_editing:
        raise scpi.ScpiError(-221)
    steps = AMP_RANGES if unit.output.is_current else VOLT_RANGES
    bound = HIGHEST_A if unit.output.is_current else HIGHEST_V
    level = call.number(0, lowest=-bound, highest=bound, default=0.0)
    unit.ranges[unit.function] = scpi.nearest_at_least(abs(level), steps)
    unit.hold(level, call.now)


def get_level(unit: Gs200, call: scpi.SimCall) -> str:
    """``:SOUR:LEV?``."""
    unit.move(call.now)
    return _number(unit.output.level)


def switch(unit: Gs200, call: scpi.SimCall) -> None:
    """``:OUTP ON``; off ends a program."""
    unit.move(call.now)
    is_on = call.boolean(0)
    if not is_on:
        unit.started = None
    unit.output.switch(is_on=is_on, now=call.now)


def measure(unit: Gs200, call: scpi.SimCall) -> scpi.Answer:
    """``:MEAS?``: the current of a voltage, the voltage of a current."""
    unit.move(call.now)
    is_too_small = not unit.output.is_current and unit.ranges["VOLT"] < LOWEST_MONITORED_V
    if not unit.has_monitor or not unit.output.is_on or is_too_small:
        raise scpi.ScpiError(-221)

    def finish(now: float) -> str:
        volts, amps = unit.output.measure(now, call.random)
        return _number(volts if unit.output.is_current else amps)

    return scpi.Later(unit.nplc * LINE_CYCLE_S + unit.monitor_delay_ms / 1000, finish)


def begin_edit(unit: Gs200, _call: scpi.SimCall) -> None:
    """``:PROG:EDIT:STAR``: the program is empty after it."""
    unit.program.clear()
    unit.is_editing, unit.started = True, None


def end_edit(unit: Gs200, _call: scpi.SimCall) -> None:
    """``:PROG:EDIT:END``."""
    unit.is_editing = False


def run(unit: Gs200, call: scpi.SimCall) -> None:
    """``:PROG:RUN``."""
    if unit.is_editing or not unit.program:
        raise scpi.ScpiError(-221)
    unit.started, unit.start_level = call.now, unit.output.level


def pause(unit: Gs200, call: scpi.SimCall) -> None:
    """``:PROG:HOLD``: the level stays where it is."""
    unit.move(call.now)
    unit.started = None


def condition(unit: Gs200, call: scpi.SimCall) -> str:
    """``:STAT:COND?``."""
    unit.move(call.now)
    return str(RUNNING_BIT if unit.started is not None else 0)


def event(unit: Gs200, call: scpi.SimCall) -> str:
    """``:STAT:EVEN?``: read once."""
    unit.move(call.now)
    events, unit.events = unit.events, 0
    return str(events)


def _number(value: float) -> str:
    return f"{value:+.6E}"


LIMIT: Final = scpi.Settings(
    of=lambda u, _c: u.output, say=_number, then=lambda _u, c, output: output.apply(c.now)
)
OWN: Final = scpi.Settings(say=_number)

VOCABULARY: Final = scpi.Vocabulary(
    {
        "*OPT?": lambda _u, _c: "/MON",
        "[:SOURce]:FUNCtion": set_function,
        "[:SOURce]:FUNCtion?": lambda u, _c: u.function,
        "[:SOURce]:RANGe": set_range,
        "[:SOURce]:RANGe?": lambda u, _c: _number(u.ranges[u.function]),
        "[:SOURce]:LEVel[:FIXed]": set_level,
        "[:SOURce]:LEVel[:FIXed]?": get_level,
        "[:SOURce]:LEVel:AUTO": set_level_auto,
        **LIMIT.number(
            "[:SOURce]:PROTection:VOLTage", "volts_limit", 1.0, 30.0, default=30.0, unit="V"
        ),
        **LIMIT.number(
            "[:SOURce]:PROTection:CURRent", "amps_limit", 0.001, 0.2, default=0.2, unit="A"
        ),
        ":OUTPut[:STATe]": switch,
        ":OUTPut[:STATe]?": lambda u, _c: scpi.flag(u.output.is_on),
        **OWN.switch(":SENSe[:STATe]", "has_monitor"),
        # 1 to 25.
        **OWN.whole(":SENSe:NPLC", "nplc", 1, 25),
        # In milliseconds.
        **OWN.whole(":SENSe:DELay", "monitor_delay_ms", 0, 999_999),
        **OWN.switch(":SENSe:REMote", "has_remote_sense"),
        **OWN.switch(":SENSe:GUARd", "has_guard"),
        ":MEASure?": measure,
        ":PROGram:EDIT:STARt": begin_edit,
        ":PROGram:EDIT:END": end_edit,
        # Seconds that a step takes.
        **OWN.number(":PROGram:SLOPe", "slope_s", 0.0, LONGEST_S, unit="S"),
        # Seconds from step to step.
        **OWN.number(":PROGram:INTerval", "interval_s", SHORTEST_INTERVAL_S, LONGEST_S, unit="S"),
        **OWN.switch(":PROGram:REPeat", "is_repeating"),
        ":PROGram:RUN": run,
        ":PROGram:HOLD": pause,
        ":STATus:CONDition?": condition,
        ":STATus:EVENt?": event,
    }
)

MODEL: Final = scpi.ModelSpec(
    idn="YOKOGAWA,GS210,{serial},2.01",
    serial="91N{number:06d}",
    first_number=928756,
    dialect=scpi.Dialect(error_format='{code},"{text}"', latency_s=0.003),
    vocabulary=VOCABULARY,
    build=Gs200,
)
