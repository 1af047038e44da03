"""American Magnetics Model 430: it ramps the current of a magnet, which takes its time.

Quirks kept: whoever connects is told two lines; the identity has no serial number; a new target is
ramped to at once while it ramps, so it is paused before; what a ramp comes to is ``STATE?`` and
nothing else; each segment of currents has a rate of its own. Source: the manual and drivers that
profiles/ami_430.yaml names.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from edged_sim.scpi import Dialect, ModelSpec, ScpiError, SimCall, SimUnit, Vocabulary, flag

LIMIT_A: Final = 80.0
"""What the magnet of the bench can bear."""
TESLA_PER_AMP: Final = 0.1125
HENRY: Final = 12.0
LEAD_OHMS: Final = 0.002
MOST_SEGMENTS: Final = 10
FASTEST_A_S: Final = 10.0
KILOGAUSS_PER_TESLA: Final = 10.0
PER_MINUTE: Final = 60.0


class State(enum.IntEnum):
    """What ``STATE?`` says."""

    RAMPING = 1
    HOLDING = 2
    PAUSED = 3
    ZEROING = 6
    AT_ZERO = 8


@dataclass(slots=True)
class Segment:
    """A rate that holds up to so many amperes."""

    rate_a_s: float
    upper_a: float


class Programmer:
    """The state of one unit, with a supply and a magnet without a persistent switch."""

    def __init__(self, unit: SimUnit) -> None:
        self.random = unit.random
        self.reset(0.0)

    def reset(self, now: float) -> None:
        """See ``ModelState``: paused at nothing."""
        self.state = State.PAUSED
        self.target_a, self.amps, self._seen = 0.0, 0.0, now
        self.segments = [Segment(0.05, LIMIT_A)]
        self.spare = [Segment(0.05, LIMIT_A) for _ in range(MOST_SEGMENTS)]
        self.is_tesla, self.is_per_minute = True, False

    def describe(self, now: float) -> Mapping[str, Any]:
        self.advance(now)
        return {
            "ramp": {"is_on": self.state in {State.RAMPING, State.ZEROING}},
            "target_a": self.target_a,
            "amps": self.amps,
        }

    def rate(self) -> float:
        """The rate of the segment in which the current is."""
        found = (s.rate_a_s for s in self.segments if abs(self.amps) <= s.upper_a)
        return next(found, self.segments[-1].rate_a_s)

    def advance(self, now: float) -> Programmer:
        """Let the time since the last look pass; returns the unit itself."""
        passed, self._seen = max(0.0, now - self._seen), now
        if self.state not in {State.RAMPING, State.ZEROING}:
            return self
        goal = self.target_a if self.state is State.RAMPING else 0.0
        step = self.rate() * passed
        if abs(goal - self.amps) <= step:
            self.amps = goal
            self.state = State.HOLDING if self.state is State.RAMPING else State.AT_ZERO
        else:
            self.amps += math.copysign(step, goal - self.amps)
        return self

    def volts(self) -> float:
        """What drives the ramp."""
        moving = self.state in {State.RAMPING, State.ZEROING}
        goal = self.target_a if self.state is State.RAMPING else 0.0
        return math.copysign(HENRY * self.rate(), goal - self.amps) if moving else 0.0

    def field(self, amps: float) -> float:
        """In the unit that was chosen."""
        return amps * TESLA_PER_AMP * (1 if self.is_tesla else KILOGAUSS_PER_TESLA)

    def told_rate(self, rate_a_s: float) -> float:
        """In the unit of time that was chosen."""
        return rate_a_s * (PER_MINUTE if self.is_per_minute else 1)


def set_target(unit: Programmer, call: SimCall) -> None:
    """``CONF:CURR:TARG``: within the limit of the magnet."""
    unit.advance(call.now).target_a = call.number(0, lowest=-LIMIT_A, highest=LIMIT_A)
    if unit.state is State.HOLDING:
        unit.state = State.RAMPING


def ramp(unit: Programmer, call: SimCall) -> None:
    """``RAMP``: to the target."""
    unit.advance(call.now).state = State.RAMPING


def pause(unit: Programmer, call: SimCall) -> None:
    """``PAUSE``: the current stays as it is."""
    unit.advance(call.now).state = State.PAUSED


def zero(unit: Programmer, call: SimCall) -> None:
    """``ZERO``: to nothing, at the same rates."""
    unit.advance(call.now).state = State.ZEROING


def state(unit: Programmer, call: SimCall) -> str:
    """``STATE?``."""
    return str(int(unit.advance(call.now).state))


def set_segments(unit: Programmer, call: SimCall) -> None:
    """``CONF:RAMP:RATE:SEG``: how many there are."""
    count = call.whole(0, lowest=1, highest=MOST_SEGMENTS)
    unit.segments = [*unit.segments, *unit.spare][:count]


def set_rate(unit: Programmer, call: SimCall) -> None:
    """``CONF:RAMP:RATE:CURR 1,0.05,80``."""
    number = call.whole(0, lowest=1, highest=MOST_SEGMENTS)
    rate = call.number(1, lowest=0.0, highest=unit.told_rate(FASTEST_A_S))
    upper = call.number(2, lowest=0.0, highest=LIMIT_A)
    if number > len(unit.segments):
        raise ScpiError(-222)
    per_s = rate / (PER_MINUTE if unit.is_per_minute else 1)
    unit.segments[number - 1] = Segment(per_s, upper or LIMIT_A)


def _rate_of(number: int) -> Any:
    """``RAMP:RATE:CURR:1?``: the rate, and how far it holds."""

    def told(unit: Programmer, _call: SimCall) -> str:
        if number > len(unit.segments):
            raise ScpiError(-222)
        segment = unit.segments[number - 1]
        return f"{unit.told_rate(segment.rate_a_s):.6f},{segment.upper_a:.4f}"

    return told


def set_field_unit(unit: Programmer, call: SimCall) -> None:
    """``CONF:FIELD:UNITS 1``: tesla."""
    unit.is_tesla = call.boolean(0)


def set_rate_unit(unit: Programmer, call: SimCall) -> None:
    """``CONF:RAMP:RATE:UNITS 0``: seconds."""
    unit.is_per_minute = call.boolean(0)


def measured(unit: Programmer, call: SimCall) -> float:
    """The current, with what the meter adds."""
    return unit.advance(call.now).amps + unit.random.gauss(0.0, 1e-4)


def supply_volts(unit: Programmer, call: SimCall) -> str:
    """``VOLT:SUPP?``: also over the leads."""
    amps = measured(unit, call)
    return f"{unit.volts() + amps * LEAD_OHMS:.3f}"


VOCABULARY: Final = Vocabulary(
    {
        "CONFigure:CURRent:TARGet": set_target,
        "CURRent:TARGet?": lambda u, _c: f"{u.target_a:.4f}",
        "FIELD:TARGet?": lambda u, _c: f"{u.field(u.target_a):.5f}",
        "CURRent:MAGnet?": lambda u, c: f"{measured(u, c):.4f}",
        "CURRent:SUPPly?": lambda u, c: f"{measured(u, c):.4f}",
        "FIELD:MAGnet?": lambda u, c: f"{u.field(measured(u, c)):.5f}",
        "VOLTage:MAGnet?": lambda u, c: f"{u.advance(c.now).volts():.3f}",
        "VOLTage:SUPPly?": supply_volts,
        "CURRent:LIMit?": lambda _u, _c: f"{LIMIT_A:.4f}",
        "COILconst?": lambda u, _c: f"{u.field(1.0):.5f}",
        "CONFigure:FIELD:UNITS": set_field_unit,
        "FIELD:UNITS?": lambda u, _c: flag(u.is_tesla),
        "CONFigure:RAMP:RATE:UNITS": set_rate_unit,
        "RAMP:RATE:UNITS?": lambda u, _c: flag(u.is_per_minute),
        "CONFigure:RAMP:RATE:SEGments": set_segments,
        "RAMP:RATE:SEGments?": lambda u, _c: str(len(u.segments)),
        "CONFigure:RAMP:RATE:CURRent": set_rate,
        **{f"RAMP:RATE:CURRent:{n}?": _rate_of(n) for n in range(1, MOST_SEGMENTS + 1)},
        "RAMP": ramp,
        "PAUSE": pause,
        "ZERO": zero,
        "STATE?": state,
        "QUench?": lambda _u, _c: "0",
        "PERSistent?": lambda _u, _c: "0",
        "PSwitch?": lambda _u, _c: "0",
        "PSwitch:INSTalled?": lambda _u, _c: "0",
    }
)

MODEL: Final = ModelSpec(
    idn="AMERICAN MAGNETICS INC.,MODEL 430,1.62",
    serial="0",
    first_number=0,
    dialect=Dialect(
        line_end=b"\r\n",
        latency_s=0.005,
        banner=b"American Magnetics Model 430 IP Interface\r\nHello.\r\n",
    ),
    vocabulary=VOCABULARY,
    build=Programmer,
)
