"""Lake Shore 335: two heaters, each warming the stage of one sensor that nitrogen cools.

Quirks kept: lines end in CR LF; what comes within 30 ms of a command is lost; with its ramp
on, the instrument moves its set-point by itself and ``SETP?`` tells where it is by now; a heater
whose output is not in a closed loop stays cold; there is no error queue, only ``*ESR?``; names come
padded. Source: the manuals that
profiles/lakeshore_335.yaml names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from edged_sim.models.families.stage import BASE_K, NOISE_K, Stage
from edged_sim.scpi import OWN, Dialect, ModelSpec, SimCall, SimUnit, Vocabulary, flag

RISE_K: Final = (0.0, 10.0, 100.0, 400.0, 400.0, 400.0)
"""What off, low, medium and high, or five ranges, can warm a stage by."""
KELVIN_AT_ZERO_C: Final = 273.15
CLOSED_LOOP: Final = 1
HIGHEST_K: Final = 1000.0


@dataclass(slots=True, kw_only=True)
class Loop(Stage):
    """One output with the stage that it warms."""

    setpoint: float = BASE_K
    goal: float = BASE_K
    is_ramping: bool = False
    rate_k_per_min: float = 1.0
    heater: int = 0
    mode: int = CLOSED_LOOP
    input: int = 1
    powers_up: bool = False
    gains: tuple[float, float, float] = (50.0, 20.0, 0.0)

    def advance(self, now: float) -> Loop:
        """Let the time since the last look pass; returns the loop itself."""
        passed_s = self.passed(now)
        if self.is_ramping:
            step = self.rate_k_per_min / 60 * passed_s
            self.setpoint += max(-step, min(step, self.goal - self.setpoint))
        else:
            self.setpoint = self.goal
        target = BASE_K
        if self.mode == CLOSED_LOOP and self.heater:
            target = min(max(self.setpoint, BASE_K), BASE_K + RISE_K[self.heater])
        self.warm(target, passed_s)
        return self

    @property
    def output_percent(self) -> float:
        """How much of the heater's range is given."""
        return self.percent(self.setpoint, RISE_K[self.heater] if self.mode == CLOSED_LOOP else 0)


class Model335:
    """The state of one unit; each of its outputs warms the stage of one of its inputs."""

    inputs: ClassVar[tuple[str, ...]] = ("A", "B")
    highest_ranges: ClassVar[tuple[int, ...]] = (3, 3)
    """The highest range of each output."""

    def __init__(self, unit: SimUnit) -> None:
        self.random = unit.random
        self.loops = {number: Loop(input=number) for number in range(1, len(self.inputs) + 1)}
        self.reset(0.0)
        unit.world.connect_stage(unit.name, self._sample_celsius)

    def _sample_celsius(self, now: float) -> float:
        return self.loops[1].advance(now).kelvin - KELVIN_AT_ZERO_C

    def reset(self, now: float) -> None:  # noqa: ARG002 - the seam's argument
        """See ``ModelState``: the settings; a stage keeps its temperature."""
        for number, loop in self.loops.items():
            self.loops[number] = Loop(input=number, kelvin=loop.kelvin, seen=loop.seen)
        self.limits = dict.fromkeys(self.inputs, 0.0)
        self.names = {name: f"Input {name}" for name in self.inputs}
        self.mode = 1

    def describe(self, now: float) -> Mapping[str, Any]:
        return {
            f"out{number}": {
                "setpoint": loop.advance(now).setpoint,
                "goal": loop.goal,
                "kelvin": loop.kelvin,
                "heater": loop.heater,
                "is_ramping": loop.is_ramping,
            }
            for number, loop in self.loops.items()
        }

    def named(self, call: SimCall) -> str:
        """The input that the first argument names."""
        return call.choice(0, {name: name for name in self.inputs})

    def kelvin(self, call: SimCall) -> float:
        """What the sensor of the named input feels; above its limit all heaters go off."""
        name = self.named(call)
        loop = self.loops[self.inputs.index(name) + 1].advance(call.now)
        if self.limits[name] and loop.kelvin > self.limits[name]:
            for each in self.loops.values():
                each.heater = 0
        return loop.kelvin + self.random.gauss(0.0, NOISE_K)

    def loop(self, call: SimCall) -> Loop:
        """The output that the first argument names."""
        return self.loops[call.whole(0, lowest=1, highest=len(self.loops))].advance(call.now)


def _number(value: float, digits: int = 3) -> str:
    return f"{value:+08.{digits}f}"


def set_goal(unit: Model335, call: SimCall) -> None:
    """``SETP 1,100``: at once, or as a ramp where that is on."""
    loop = unit.loop(call)
    loop.goal = call.number(1, lowest=0.0, highest=HIGHEST_K)
    if not loop.is_ramping:
        loop.setpoint = loop.goal


def set_ramp(unit: Model335, call: SimCall) -> None:
    """``RAMP 1,1,10``: on or off, and kelvin a minute; off stops where it is."""
    loop = unit.loop(call)
    is_on = bool(call.whole(1, lowest=0, highest=1))
    loop.rate_k_per_min = call.number(2, lowest=0.1, highest=100.0)
    if loop.is_ramping and not is_on:
        loop.goal = loop.setpoint
    loop.is_ramping = is_on


def ramp_state(unit: Model335, call: SimCall) -> str:
    """``RAMPST? 1``."""
    loop = unit.loop(call)
    return flag(loop.is_ramping and loop.setpoint != loop.goal)


def set_heater(unit: Model335, call: SimCall) -> None:
    """``RANGE 1,2``."""
    loop = unit.loop(call)
    most = unit.highest_ranges[call.whole(0, lowest=1, highest=len(unit.loops)) - 1]
    loop.heater = call.whole(1, lowest=0, highest=most)


def set_gains(unit: Model335, call: SimCall) -> None:
    """``PID 1,50,20,0``."""
    loop = unit.loop(call)
    p = call.number(1, lowest=0.1, highest=1000.0)
    i = call.number(2, lowest=0.1, highest=1000.0)
    loop.gains = (p, i, call.number(3, lowest=0.0, highest=200.0))


def gains(unit: Model335, call: SimCall) -> str:
    """``PID? 1``."""
    return ",".join(_number(value, 1) for value in unit.loop(call).gains)


def set_mode(unit: Model335, call: SimCall) -> None:
    """``OUTMODE 1,1,1,0``: mode, input, on at power-up."""
    loop = unit.loop(call)
    mode = call.whole(1, lowest=0, highest=5)
    loop.input = call.whole(2, lowest=0, highest=len(unit.inputs))
    loop.powers_up = bool(call.whole(3, lowest=0, highest=1))
    loop.mode = mode


def mode(unit: Model335, call: SimCall) -> str:
    """``OUTMODE? 1``."""
    loop = unit.loop(call)
    return f"{loop.mode},{loop.input},{int(loop.powers_up)}"


def set_limit(unit: Model335, call: SimCall) -> None:
    """``TLIMIT A,350``: 0 is none."""
    unit.limits[unit.named(call)] = call.number(1, lowest=0.0, highest=HIGHEST_K)


def limit(unit: Model335, call: SimCall) -> str:
    """``TLIMIT? A``."""
    return _number(unit.limits[unit.named(call)], 1)


def set_name(unit: Model335, call: SimCall) -> None:
    """``INNAME A,"stage"``: fifteen characters."""
    unit.names[unit.named(call)] = call.text(1)[:15]


def name(unit: Model335, call: SimCall) -> str:
    """``INNAME? A``: padded with blanks."""
    return f"{unit.names[unit.named(call)]:<15}"


def reading_status(unit: Model335, call: SimCall) -> str:
    """``RDGST? A``: the sensors are well."""
    unit.kelvin(call)
    return "0"


def sensor(unit: Model335, call: SimCall) -> str:
    """``SRDG? A``: volts of a silicon diode."""
    return _number(1.68 - 0.0024 * unit.kelvin(call), 4)


def ramp(unit: Model335, call: SimCall) -> str:
    """``RAMP? 1``."""
    loop = unit.loop(call)
    return f"{int(loop.is_ramping)},{_number(loop.rate_k_per_min, 1)}"


def heater_status(unit: Model335, call: SimCall) -> str:
    """``HTRST? 1``: neither open nor short."""
    unit.loop(call)
    return "0"


WORDS: Final[Mapping[str, Any]] = {
    "KRDG?": lambda u, c: _number(u.kelvin(c)),
    "CRDG?": lambda u, c: _number(u.kelvin(c) - KELVIN_AT_ZERO_C),
    "SRDG?": sensor,
    "RDGST?": reading_status,
    "SETP": set_goal,
    "SETP?": lambda u, c: _number(u.loop(c).setpoint),
    "RAMP": set_ramp,
    "RAMP?": ramp,
    "RAMPST?": ramp_state,
    "RANGE": set_heater,
    "RANGE?": lambda u, c: str(u.loop(c).heater),
    "HTR?": lambda u, c: _number(u.loop(c).output_percent, 1),
    "HTRST?": heater_status,
    "PID": set_gains,
    "PID?": gains,
    "OUTMODE": set_mode,
    "OUTMODE?": mode,
    "TLIMIT": set_limit,
    "TLIMIT?": limit,
    "INNAME": set_name,
    "INNAME?": name,
    **OWN.whole("MODE", "mode", 0, 2),
}
"""What every controller of this kind understands."""

MODEL: Final = ModelSpec(
    idn="LSCI,MODEL335,{serial},1.2",
    serial="335A{number:02d}T/#######",
    first_number=12,
    dialect=Dialect(error_format="", line_end=b"\r\n", latency_s=0.005, deaf_s=0.03),
    vocabulary=Vocabulary(WORDS),
    build=Model335,
)
