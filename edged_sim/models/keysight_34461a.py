"""Keysight 34461A: a multimeter across the main load; its current terminals are open.

Quirks kept: a reading takes NPLC power line cycles, twice that with autozero (NPLC 100: 4 s); AC
functions have no NPLC (-113); values between steps are taken up to the next step; booleans answer 1
and 0; no error is ``+0,"No error"``; an overload is 9.9E37; READ? with a bus trigger is a deadlock.
Ohms of a load that carries a voltage are an overload too. Source: the manuals that
profiles/keysight_34461a.yaml names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from edged_sim import scpi
from edged_sim.models.families import meter
from edged_sim.models.families.meter import Meter, MeterFunction
from edged_sim.physics import RIPPLE_HZ

NPLC_STEPS: Final = (0.02, 0.2, 1.0, 10.0, 100.0)
MOST_SAMPLES: Final = 10_000
MOST_MEMORY: Final = 10_000
VOLTS: Final = (0.1, 1.0, 10.0, 100.0, 1000.0)
AMPS: Final = (1e-4, 1e-3, 1e-2, 0.1, 1.0, 3.0)
OHMS: Final = (100.0, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8)
FUNCTIONS: Final[Mapping[str, MeterFunction]] = {
    "VOLT": MeterFunction(header=":VOLTage[:DC]", ranges=VOLTS, has_nplc=True),
    "VOLT:AC": MeterFunction(
        header=":VOLTage:AC", ranges=(0.1, 1.0, 10.0, 100.0, 750.0), has_band=True
    ),
    "CURR": MeterFunction(header=":CURRent[:DC]", ranges=AMPS, has_nplc=True),
    "CURR:AC": MeterFunction(header=":CURRent:AC", ranges=AMPS, has_band=True),
    "RES": MeterFunction(header=":RESistance", ranges=OHMS, has_nplc=True),
    "FRES": MeterFunction(header=":FRESistance", ranges=OHMS, has_nplc=True),
    "FREQ": MeterFunction(header=":FREQuency", ranges=VOLTS, has_band=True),
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


class Truevolt(Meter):
    """The state of one unit; ``nplc_steps`` are the integration times that its model has."""

    functions = FUNCTIONS
    gain_error = 30e-6
    nplc = 10.0
    band_hz = 20.0
    least_nplc = 0.02
    unclocked_s = 0.2
    nplc_steps: ClassVar[tuple[float, ...]] = NPLC_STEPS

    def reset(self, now: float) -> None:
        super().reset(now)
        self.trigger = "IMM"
        self.ready_at: float | None = None
        self.is_armed = False

    def describe(self, now: float) -> Mapping[str, Any]:
        settings = self.settings[self.function]
        return {
            "function": self.function,
            "nplc": settings.nplc,
            "range": None if settings.is_auto else settings.range,
            "samples": self.samples,
            "trigger": self.trigger,
            "volts": self.node.advance(now).volts,
        }

    def read(self, call: scpi.SimCall, now: float) -> float:
        """One reading at ``now``."""
        node = self.node.advance(now)
        match self.function:
            case "FREQ":
                value = RIPPLE_HZ if node.seen_by_scope().rms_ac() > 0 else 0.0
                return value * self.gain + call.random.gauss(0.0, value * 1e-6)
            case "VOLT":
                return self.ranged(node.volts, call)
            case "VOLT:AC":
                return self.ranged(node.seen_by_scope().rms_ac(), call)
            case "RES" | "FRES":
                return self.ranged(self.ohms(now), call)
            case _:
                return self.ranged(0.0, call)


def _number(value: float) -> str:
    return f"{value:+.8E}"


def configure(unit: Truevolt, call: scpi.SimCall, function: str) -> None:
    """``CONF:…``: the function with its defaults, and a range if one is given."""
    unit.function = function
    unit.samples, unit.trigger, unit.is_armed = 1, "IMM", False
    unit.settings[function] = unit.delivered(function)
    unit.memory.clear()
    if call.has(0) and call.text(0).upper() not in ("AUTO", "DEF", "DEFAULT"):
        set_range(unit, call, function)


def set_range(unit: Truevolt, call: scpi.SimCall, function: str) -> None:
    """``…:RANG``, also with MIN."""
    meter.set_range(unit, call, function)
    if call.text(0).upper() in ("MIN", "MINIMUM"):
        unit.settings[function].range = unit.functions[function].ranges[0]


def get_range(unit: Truevolt, call: scpi.SimCall, function: str) -> str:
    """``…:RANG?``, also with MIN or MAX."""
    ranges = unit.functions[function].ranges
    if call.has(0):
        return _number(call.choice(0, {"MINimum": ranges[0], "MAXimum": ranges[-1]}))
    return _number(unit.settings[function].range)


def asked_nplc(unit: Truevolt, call: scpi.SimCall) -> float:
    """``…:NPLC``: taken up to the next step."""
    steps = unit.nplc_steps
    asked = call.number(0, lowest=steps[0], highest=steps[-1], default=10.0)
    return scpi.nearest_at_least(asked, steps)


def asked_bandwidth(_unit: Truevolt, call: scpi.SimCall) -> float:
    """``…:BAND``: 3, 20 or 200 Hz."""
    asked = call.number(0, lowest=3.0, highest=200.0, default=20.0)
    return scpi.nearest_at_least(asked, (3.0, 20.0, 200.0))


def take_readings(unit: Truevolt, call: scpi.SimCall) -> scpi.Answer:
    """``READ?``: all samples, after the time that they take."""
    if unit.trigger != "IMM":
        raise scpi.ScpiError(-214)
    each_s = unit.reading_s()
    return scpi.Later(each_s * unit.samples, lambda now: _join(_acquire(unit, call, now)))


def _acquire(unit: Truevolt, call: scpi.SimCall, now: float) -> Sequence[float]:
    unit.memory = [unit.read(call, now) for _ in range(unit.samples)][:MOST_MEMORY]
    return unit.memory


def _join(values: Sequence[float]) -> str:
    return ",".join(map(_number, values))


def measure(unit: Truevolt, call: scpi.SimCall, function: str) -> scpi.Answer:
    """``MEAS:…?``: configure and read in one."""
    configure(unit, call, function)
    return take_readings(unit, call)


def initiate(unit: Truevolt, call: scpi.SimCall) -> None:
    """``INIT``: begin measuring, or wait for ``*TRG``."""
    unit.memory.clear()
    unit.is_armed = True
    unit.ready_at = None
    if unit.trigger == "IMM":
        unit.ready_at = call.now + unit.reading_s() * unit.samples


def trigger(unit: Truevolt, call: scpi.SimCall) -> None:
    """``*TRG``: what ``INIT`` with a bus trigger waits for."""
    if not unit.is_armed or unit.trigger != "BUS" or unit.ready_at is not None:
        raise scpi.ScpiError(-211, "Trigger ignored")
    unit.ready_at = call.now + unit.reading_s() * unit.samples


def fetch(unit: Truevolt, call: scpi.SimCall) -> scpi.Answer:
    """``FETC?``: the readings of the last INIT, waiting for them where they are under way."""
    if unit.ready_at is None:
        if unit.is_armed:
            raise scpi.ScpiError(-214)
        if unit.memory:
            return _join(unit.memory)
        raise scpi.ScpiError(-230)
    wait_s = max(0.0, unit.ready_at - call.now)

    def finish(now: float) -> str:
        unit.ready_at, unit.is_armed = None, False
        return _join(_acquire(unit, call, now))

    return scpi.Later(wait_s, finish)


def abort(unit: Truevolt, _call: scpi.SimCall) -> None:
    """``ABOR``."""
    unit.ready_at, unit.is_armed = None, False


def set_function(unit: Truevolt, call: scpi.SimCall) -> None:
    """``FUNC "VOLT:DC"``."""
    unit.function = call.choice(0, FUNCTION_NAMES)
    unit.memory.clear()


def configuration(unit: Truevolt, _call: scpi.SimCall) -> str:
    """``CONF?`` → ``"VOLT +1.00000000E+01,+3.00000000E-06"``."""
    settings = unit.settings[unit.function]
    return f'"{unit.function} {_number(settings.range)},{_number(settings.range * 3e-7)}"'


def show_text(_unit: Truevolt, call: scpi.SimCall) -> None:
    """``DISP:TEXT``: nobody stands before this one."""
    call.text(0)


RANGED_WORDS: Final = {
    ":RANGe[:UPPer]": set_range,
    ":RANGe[:UPPer]?": get_range,
    **meter.SETTINGS.switch(":RANGe:AUTO", "is_auto"),
}
CLOCKED_WORDS: Final = {
    **meter.SETTINGS.row(":NPLCycles", "nplc", asked_nplc, _number),
    **meter.SETTINGS.switch(":ZERO:AUTO", "has_autozero"),
}
BANDED_WORDS: Final = meter.SETTINGS.row(":BANDwidth", "band_hz", asked_bandwidth, _number)


def per_function(
    functions: Mapping[str, MeterFunction], *, banded: Mapping[str, Any]
) -> dict[str, Any]:
    """The headers that every measuring function has for itself; ``banded``: those of AC."""
    table = meter.function_words(
        "[:SENSe]",
        functions,
        each={},
        ranged=RANGED_WORDS,
        clocked=CLOCKED_WORDS,
        banded=banded,
    )
    for name, function in functions.items():
        table |= scpi.below(f":CONFigure{function.header}", name, {"": configure})
        table |= scpi.below(f":MEASure{function.header}", name, {"?": measure})
    return table


OWN: Final = scpi.Settings(say="{:+d}".format)

WORDS: Final[Mapping[str, Any]] = {
    ":CONFigure?": configuration,
    "[:SENSe]:FUNCtion[:ON]": set_function,
    "[:SENSe]:FUNCtion[:ON]?": lambda u, _c: f'"{u.function}"',
    ":READ?": take_readings,
    ":INITiate[:IMMediate]": initiate,
    ":FETCh?": fetch,
    ":ABORt": abort,
    "*OPT?": lambda _u, _c: "0",
    "*TRG": trigger,
    **OWN.row(":SAMPle:COUNt", "samples", lambda _u, c: c.whole(0, lowest=1, highest=MOST_SAMPLES)),
    **OWN.choice(
        ":TRIGger:SOURce", "trigger", {"IMMediate": "IMM", "EXTernal": "EXT", "BUS": "BUS"}
    ),
    ":DATA:POINts?": lambda u, _c: f"{len(u.memory):+d}",
    ":ROUTe:TERMinals?": lambda _u, _c: "FRON",
    ":DISPlay:TEXT[:DATA]": show_text,
    ":DISPlay:TEXT:CLEar": lambda _u, _c: None,
    ":SYSTem:BEEPer[:IMMediate]": lambda _u, _c: None,
    ":SYSTem:VERSion?": lambda _u, _c: "+1994.0",
    ":SYSTem:LFRequency?": lambda _u, _c: "+50",
}
"""The headers that are not of one function."""

MODEL: Final = scpi.ModelSpec(
    idn="Keysight Technologies,34461A,{serial},A.02.14-02.40-02.14-00.49-01-01",
    serial="MY{number:08d}",
    first_number=54506462,
    dialect=scpi.Dialect(latency_s=0.001),
    vocabulary=scpi.Vocabulary({**per_function(FUNCTIONS, banded=BANDED_WORDS), **WORDS}),
    build=Truevolt,
)
