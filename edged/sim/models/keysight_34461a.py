"""Keysight 34461A: a multimeter across the main load; its current terminals are open.

Quirks kept: a reading takes NPLC power line cycles, twice that with autozero (NPLC 100: 4 s); AC
functions have no NPLC (-113); values between steps are taken up to the next step; booleans answer 1
and 0; no error is ``+0,"No error"``; an overload is 9.9E37; READ? with a bus trigger is a deadlock.
Ohms of a load that carries a voltage are an overload too. Source: the manuals that
profiles/keysight_34461a.yaml names.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from edged.sim.physics import RIPPLE_HZ
from edged.sim.scpi import (
    Answer,
    Dialect,
    Later,
    ModelSpec,
    ScpiError,
    SimCall,
    SimUnit,
    Vocabulary,
    nearest_at_least,
)

LINE_CYCLE_S: Final = 0.02
NPLC_STEPS: Final = (0.02, 0.2, 1.0, 10.0, 100.0)
AC_READING_S: Final = 0.2
OVERLOAD: Final = 9.9e37
OVER_RANGE: Final = 1.2
GAIN_ERROR: Final = 30e-6
NOISE_OF_RANGE: Final = 1e-6
LIVE_V: Final = 0.01
"""A resistance measurement means nothing above this voltage across the resistor."""
MOST_SAMPLES: Final = 10_000
MOST_MEMORY: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One measuring function: its header, ranges and what it measures."""

    header: str
    ranges: tuple[float, ...]
    has_nplc: bool = True


VOLTS: Final = (0.1, 1.0, 10.0, 100.0, 1000.0)
OHMS: Final = (100.0, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8)
KINDS: Final[Mapping[str, Kind]] = {
    "VOLT": Kind(header=":VOLTage[:DC]", ranges=VOLTS),
    "VOLT:AC": Kind(header=":VOLTage:AC", ranges=(0.1, 1.0, 10.0, 100.0, 750.0), has_nplc=False),
    "CURR": Kind(header=":CURRent[:DC]", ranges=(1e-4, 1e-3, 1e-2, 0.1, 1.0, 3.0)),
    "CURR:AC": Kind(header=":CURRent:AC", ranges=(1e-4, 1e-3, 1e-2, 0.1, 1.0, 3.0), has_nplc=False),
    "RES": Kind(header=":RESistance", ranges=OHMS),
    "FRES": Kind(header=":FRESistance", ranges=OHMS),
    "FREQ": Kind(header=":FREQuency", ranges=VOLTS, has_nplc=False),
}
FUNCTION_NAMES: Final[Mapping[str, str]] = {
    "VOLTage": "VOLT",
    "VOLTage:DC": "VOLT",
    "VOLTage:AC": "VOLT:AC",
    "CURRent": "CURR",
    "CURRent:DC": "CURR",
    "CURRent:AC": "CURR:AC",
    "RESistance": "RES",
    "FRESistance": "FRES",
    "FREQuency": "FREQ",
}


@dataclass(slots=True)
class Settings:
    """What one function is set to; ``range`` counts only while ``is_auto`` is False."""

    range: float
    is_auto: bool = True
    nplc: float = 10.0
    has_autozero: bool = True
    bandwidth_hz: float = 20.0


class Truevolt:
    """The state of one unit; ``nplc_steps`` are the integration times that its model has."""

    def __init__(self, unit: SimUnit, nplc_steps: tuple[float, ...] = NPLC_STEPS) -> None:
        self.nplc_steps = nplc_steps
        self.node = unit.world.main()
        self.world = unit.world
        self.gain = 1 + unit.random.uniform(-GAIN_ERROR, GAIN_ERROR)
        self.memory: list[float] = []
        self.ready_at: float | None = None
        self.is_armed = False
        self.reset(0.0)

    def reset(self, now: float) -> None:  # noqa: ARG002 - the seam's argument
        """See ``State``."""
        self.function = "VOLT"
        self.settings = {name: Settings(kind.ranges[-1]) for name, kind in KINDS.items()}
        self.samples = 1
        self.trigger = "IMM"
        self.memory.clear()
        self.ready_at, self.is_armed = None, False

    def describe(self, now: float) -> Mapping[str, Any]:
        """See ``State``."""
        settings = self.settings[self.function]
        return {
            "function": self.function,
            "nplc": settings.nplc,
            "range": None if settings.is_auto else settings.range,
            "samples": self.samples,
            "trigger": self.trigger,
            "volts": self.node.advance(now).volts,
        }

    def reading_s(self) -> float:
        """Seconds that one reading of the present function takes."""
        if not KINDS[self.function].has_nplc:
            return AC_READING_S
        settings = self.settings[self.function]
        return settings.nplc * LINE_CYCLE_S * (2 if settings.has_autozero else 1)

    def read(self, call: SimCall, now: float) -> float:
        """One reading at ``now``: what the wires carry, range, noise and calibration."""
        value = self._true_value(now)
        settings = self.settings[self.function]
        ranges = KINDS[self.function].ranges
        limit = nearest_at_least(abs(value) / OVER_RANGE, ranges)
        if not settings.is_auto:
            limit = settings.range
        if not math.isfinite(value) or (
            self.function != "FREQ" and abs(value) > limit * OVER_RANGE
        ):
            return OVERLOAD
        spread = NOISE_OF_RANGE * limit / math.sqrt(max(settings.nplc, 0.02))
        if self.function == "FREQ":
            spread = abs(value) * 1e-6
        return value * self.gain + call.random.gauss(0.0, spread)

    def _true_value(self, now: float) -> float:
        node = self.node.advance(now)
        wave = node.seen_by_scope()
        match self.function:
            case "VOLT":
                return node.volts
            case "VOLT:AC":
                return wave.rms_ac()
            case "RES" | "FRES":
                return node.load_ohms if abs(node.volts) < LIVE_V else math.inf
            case "FREQ":
                return RIPPLE_HZ if wave.rms_ac() > 0 else 0.0
            case _:
                return 0.0


def _number(value: float) -> str:
    return f"{value:+.8E}"


def configure(unit: Truevolt, call: SimCall, function: str) -> None:
    """``CONF:…``: the function with its defaults, and a range if one is given."""
    unit.function = function
    unit.samples, unit.trigger, unit.is_armed = 1, "IMM", False
    unit.settings[function] = Settings(KINDS[function].ranges[-1])
    unit.memory.clear()
    if call.has(0) and call.text(0).upper() not in ("AUTO", "DEF", "DEFAULT"):
        set_range(unit, call, function)


def set_range(unit: Truevolt, call: SimCall, function: str) -> None:
    """``…:RANG``: the range that holds the value; autorange is off after it."""
    ranges = KINDS[function].ranges
    asked = abs(call.number(0, lowest=-ranges[-1], highest=ranges[-1], default=ranges[-1]))
    if call.text(0).upper() in ("MIN", "MINIMUM"):
        asked = ranges[0]
    unit.settings[function].range = nearest_at_least(asked, ranges)
    unit.settings[function].is_auto = False


def get_range(unit: Truevolt, call: SimCall, function: str) -> str:
    """``…:RANG?``, also with MIN or MAX."""
    ranges = KINDS[function].ranges
    if call.has(0):
        return _number(call.choice(0, {"MINimum": ranges[0], "MAXimum": ranges[-1]}))
    return _number(unit.settings[function].range)


def set_nplc(unit: Truevolt, call: SimCall, function: str) -> None:
    """``…:NPLC``: taken up to the next step."""
    steps = unit.nplc_steps
    asked = call.number(0, lowest=steps[0], highest=steps[-1], default=10.0)
    unit.settings[function].nplc = nearest_at_least(asked, steps)


def set_auto(unit: Truevolt, call: SimCall, function: str) -> None:
    """``…:RANG:AUTO``."""
    unit.settings[function].is_auto = call.boolean(0)


def set_autozero(unit: Truevolt, call: SimCall, function: str) -> None:
    """``…:ZERO:AUTO``."""
    unit.settings[function].has_autozero = call.boolean(0)


def set_bandwidth(unit: Truevolt, call: SimCall, function: str) -> None:
    """``…:BAND``: 3, 20 or 200 Hz."""
    asked = call.number(0, lowest=3.0, highest=200.0, default=20.0)
    unit.settings[function].bandwidth_hz = nearest_at_least(asked, (3.0, 20.0, 200.0))


def take_readings(unit: Truevolt, call: SimCall) -> Answer:
    """``READ?``: all samples, after the time that they take."""
    if unit.trigger != "IMM":
        raise ScpiError(-214)
    each_s = unit.reading_s()
    return Later(each_s * unit.samples, lambda now: _join(_acquire(unit, call, now)))


def _acquire(unit: Truevolt, call: SimCall, now: float) -> Sequence[float]:
    unit.memory = [unit.read(call, now) for _ in range(unit.samples)][:MOST_MEMORY]
    return unit.memory


def _join(values: Sequence[float]) -> str:
    return ",".join(map(_number, values))


def measure(unit: Truevolt, call: SimCall, function: str) -> Answer:
    """``MEAS:…?``: configure and read in one."""
    configure(unit, call, function)
    return take_readings(unit, call)


def initiate(unit: Truevolt, call: SimCall) -> None:
    """``INIT``: begin measuring, or wait for ``*TRG``."""
    unit.memory.clear()
    unit.is_armed = True
    unit.ready_at = None
    if unit.trigger == "IMM":
        unit.ready_at = call.now + unit.reading_s() * unit.samples


def trigger(unit: Truevolt, call: SimCall) -> None:
    """``*TRG``: what ``INIT`` with a bus trigger waits for."""
    if not unit.is_armed or unit.trigger != "BUS" or unit.ready_at is not None:
        raise ScpiError(-211, "Trigger ignored")
    unit.ready_at = call.now + unit.reading_s() * unit.samples


def fetch(unit: Truevolt, call: SimCall) -> Answer:
    """``FETC?``: the readings of the last INIT, waiting for them where they are under way."""
    if unit.ready_at is None:
        if unit.is_armed:
            raise ScpiError(-214)
        if unit.memory:
            return _join(unit.memory)
        raise ScpiError(-230)
    wait_s = max(0.0, unit.ready_at - call.now)

    def finish(now: float) -> str:
        unit.ready_at, unit.is_armed = None, False
        return _join(_acquire(unit, call, now))

    return Later(wait_s, finish)


def abort(unit: Truevolt, _call: SimCall) -> None:
    """``ABOR``."""
    unit.ready_at, unit.is_armed = None, False


def set_function(unit: Truevolt, call: SimCall) -> None:
    """``FUNC "VOLT:DC"``."""
    unit.function = call.choice(0, FUNCTION_NAMES)
    unit.memory.clear()


def configuration(unit: Truevolt, _call: SimCall) -> str:
    """``CONF?`` → ``"VOLT +1.00000000E+01,+3.00000000E-06"``."""
    settings = unit.settings[unit.function]
    return f'"{unit.function} {_number(settings.range)},{_number(settings.range * 3e-7)}"'


def set_samples(unit: Truevolt, call: SimCall) -> None:
    """``SAMP:COUN``."""
    unit.samples = call.whole(0, lowest=1, highest=MOST_SAMPLES)


def set_trigger(unit: Truevolt, call: SimCall) -> None:
    """``TRIG:SOUR``."""
    unit.trigger = call.choice(0, {"IMMediate": "IMM", "EXTernal": "EXT", "BUS": "BUS"})


def show_text(_unit: Truevolt, call: SimCall) -> None:
    """``DISP:TEXT``: nobody stands before this one."""
    call.text(0)


def _per_function() -> dict[str, Any]:
    """The headers that every measuring function has for itself."""
    table: dict[str, Any] = {}
    for name, kind in KINDS.items():
        sense = f"[:SENSe]{kind.header}"
        table[f":CONFigure{kind.header}"] = lambda u, c, f=name: configure(u, c, f)
        table[f":MEASure{kind.header}?"] = lambda u, c, f=name: measure(u, c, f)
        table[f"{sense}:RANGe[:UPPer]"] = lambda u, c, f=name: set_range(u, c, f)
        table[f"{sense}:RANGe[:UPPer]?"] = lambda u, c, f=name: get_range(u, c, f)
        table[f"{sense}:RANGe:AUTO"] = lambda u, c, f=name: set_auto(u, c, f)
        table[f"{sense}:RANGe:AUTO?"] = lambda u, _c, f=name: str(int(u.settings[f].is_auto))
        if kind.has_nplc:
            table[f"{sense}:NPLCycles"] = lambda u, c, f=name: set_nplc(u, c, f)
            table[f"{sense}:NPLCycles?"] = lambda u, _c, f=name: _number(u.settings[f].nplc)
            table[f"{sense}:ZERO:AUTO"] = lambda u, c, f=name: set_autozero(u, c, f)
            table[f"{sense}:ZERO:AUTO?"] = lambda u, _c, f=name: str(
                int(u.settings[f].has_autozero)
            )
        else:
            table[f"{sense}:BANDwidth"] = lambda u, c, f=name: set_bandwidth(u, c, f)
            table[f"{sense}:BANDwidth?"] = lambda u, _c, f=name: _number(u.settings[f].bandwidth_hz)
    return table


VOCABULARY: Final = Vocabulary(
    {
        **_per_function(),
        ":CONFigure?": configuration,
        "[:SENSe]:FUNCtion[:ON]": set_function,
        "[:SENSe]:FUNCtion[:ON]?": lambda u, _c: f'"{u.function}"',
        ":READ?": take_readings,
        ":INITiate[:IMMediate]": initiate,
        ":FETCh?": fetch,
        ":ABORt": abort,
        "*TRG": trigger,
        ":SAMPle:COUNt": set_samples,
        ":SAMPle:COUNt?": lambda u, _c: f"{u.samples:+d}",
        ":TRIGger:SOURce": set_trigger,
        ":TRIGger:SOURce?": lambda u, _c: u.trigger,
        ":DATA:POINts?": lambda u, _c: f"{len(u.memory):+d}",
        ":ROUTe:TERMinals?": lambda _u, _c: "FRON",
        ":DISPlay:TEXT[:DATA]": show_text,
        ":DISPlay:TEXT:CLEar": lambda _u, _c: None,
        ":SYSTem:BEEPer[:IMMediate]": lambda _u, _c: None,
        ":SYSTem:VERSion?": lambda _u, _c: "+1994.0",
    }
)

MODEL: Final = ModelSpec(
    idn="Keysight Technologies,34461A,{serial},A.02.14-02.40-02.14-00.49-01-01",
    serial="MY{number:08d}",
    first_number=54506462,
    dialect=Dialect(latency_s=0.001),
    vocabulary=VOCABULARY,
    build=Truevolt,
)
