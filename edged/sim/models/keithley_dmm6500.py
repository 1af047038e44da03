"""Keithley DMM6500 in its SCPI dialect: a multimeter across the main load.

Quirks kept: a header that the function does not have (NPLC of AC, of capacitance) is never answered
and leaves -113; functions are quoted; ``*LANG?`` names the dialect; the terminals are a switch on
the front that can only be read, and 10 A exists on the rear ones alone; the largest NPLC goes by
the line frequency (12 at 50 Hz). Source: the manuals that
profiles/keithley_dmm6500.yaml names.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
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
LOWEST_NPLC: Final = 0.0005
HIGHEST_NPLC: Final = 12.0
SLOW_READING_S: Final = 0.1
OVERLOAD: Final = 9.9e37
OVER_RANGE: Final = 1.2
GAIN_ERROR: Final = 25e-6
NOISE_OF_RANGE: Final = 1e-6
LIVE_V: Final = 0.01
OPEN_LEADS_F: Final = 12e-12
MOST_SAMPLES: Final = 1_000_000
BUFFERS: Final = ("DEFBUFFER1", "DEFBUFFER2")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One measuring function: its header, its ranges, and which settings exist for it."""

    header: str
    ranges: tuple[float, ...] = ()
    has_nplc: bool = False
    has_band: bool = False


VOLTS: Final = (0.1, 1.0, 10.0, 100.0, 1000.0)
AMPS: Final = (1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 3.0)
KINDS: Final[Mapping[str, Kind]] = {
    "VOLT:DC": Kind(header=":VOLTage[:DC]", ranges=VOLTS, has_nplc=True),
    "VOLT:AC": Kind(header=":VOLTage:AC", ranges=(0.1, 1.0, 10.0, 100.0, 750.0), has_band=True),
    "CURR:DC": Kind(header=":CURRent[:DC]", ranges=AMPS, has_nplc=True),
    "CURR:AC": Kind(header=":CURRent:AC", ranges=AMPS[1:], has_band=True),
    "RES": Kind(
        header=":RESistance", ranges=tuple(10.0**power for power in range(1, 9)), has_nplc=True
    ),
    "FRES": Kind(
        header=":FRESistance", ranges=tuple(10.0**power for power in range(9)), has_nplc=True
    ),
    "CAP": Kind(header=":CAPacitance", ranges=(1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4)),
    "TEMP": Kind(header=":TEMPerature", has_nplc=True),
    "DIOD": Kind(header=":DIODe", has_nplc=True),
    "CONT": Kind(header=":CONTinuity"),
    "FREQ:VOLT": Kind(header=":FREQuency[:VOLTage]"),
    "PER:VOLT": Kind(header=":PERiod[:VOLTage]"),
    "VOLT:DC:RAT": Kind(header=":VOLTage:DC:RATio", ranges=VOLTS, has_nplc=True),
}
FUNCTION_NAMES: Final = {
    "VOLTage": "VOLT:DC",
    "VOLTage:DC": "VOLT:DC",
    "VOLTage:AC": "VOLT:AC",
    "CURRent": "CURR:DC",
    "CURRent:DC": "CURR:DC",
    "CURRent:AC": "CURR:AC",
    "RESistance": "RES",
    "FRESistance": "FRES",
    "CAPacitance": "CAP",
    "TEMPerature": "TEMP",
    "DIODe": "DIOD",
    "CONTinuity": "CONT",
    "FREQuency:VOLTage": "FREQ:VOLT",
    "PERiod:VOLTage": "PER:VOLT",
    "VOLTage:DC:RATio": "VOLT:DC:RAT",
}


@dataclass(slots=True)
class Settings:
    """What one function is set to; ``range`` counts only while ``is_auto`` is False."""

    range: float = 0.0
    is_auto: bool = True
    nplc: float = 1.0
    has_autozero: bool = True
    averages: int = 10
    has_average: bool = False
    band_hz: float = 3.0


class Dmm6500:
    """The state of one unit."""

    def __init__(self, unit: SimUnit) -> None:
        self.node = unit.world.main()
        self.gain = 1 + unit.random.uniform(-GAIN_ERROR, GAIN_ERROR)
        self.buffer: list[float] = []
        self.reset(0.0)

    def reset(self, now: float) -> None:  # noqa: ARG002 - the seam's argument
        """See ``State``."""
        self.function = "VOLT:DC"
        self.settings = {
            name: Settings(range=kind.ranges[-1] if kind.ranges else 0.0)
            for name, kind in KINDS.items()
        }
        self.samples = 1
        self.temperature_unit = "CELS"
        self.buffer.clear()

    def describe(self, now: float) -> Mapping[str, Any]:
        """See ``State``."""
        settings = self.settings[self.function]
        return {
            "function": self.function,
            "nplc": settings.nplc if KINDS[self.function].has_nplc else None,
            "range": None if settings.is_auto else settings.range,
            "samples": self.samples,
            "volts": self.node.advance(now).volts,
        }

    def reading_s(self) -> float:
        """Seconds that one reading of the present function takes."""
        settings = self.settings[self.function]
        repeats = settings.averages if settings.has_average else 1
        if not KINDS[self.function].has_nplc:
            return SLOW_READING_S * repeats
        return settings.nplc * LINE_CYCLE_S * (2 if settings.has_autozero else 1) * repeats

    def read(self, call: SimCall, now: float) -> float:
        """One reading: what the wires carry, the range, noise and calibration."""
        value = self._true_value(now)
        ranges, settings = KINDS[self.function].ranges, self.settings[self.function]
        if not math.isfinite(value):
            return OVERLOAD
        if not ranges:
            return value * (1 + call.random.gauss(0.0, 1e-6))
        limit = nearest_at_least(abs(value) / OVER_RANGE, ranges)
        limit = limit if settings.is_auto else settings.range
        if abs(value) > limit * OVER_RANGE:
            return OVERLOAD
        spread = NOISE_OF_RANGE * limit / math.sqrt(max(settings.nplc, 0.01))
        return value * self.gain + call.random.gauss(0.0, spread)

    def _true_value(self, now: float) -> float:
        node = self.node.advance(now)
        wave = node.seen_by_scope()
        match self.function:
            case "VOLT:DC":
                return node.volts
            case "VOLT:AC":
                return wave.rms_ac()
            case "RES" | "FRES" | "CONT":
                return node.load_ohms if abs(node.volts) < LIVE_V else math.inf
            case "TEMP":
                return node.celsius if self.temperature_unit == "CELS" else node.celsius + 273.15
            case "CAP":
                return OPEN_LEADS_F
            case "FREQ:VOLT":
                return RIPPLE_HZ if wave.rms_ac() > 0 else math.inf
            case "PER:VOLT":
                return 1 / RIPPLE_HZ if wave.rms_ac() > 0 else math.inf
            case "CURR:DC" | "CURR:AC":
                return 0.0
            case _:
                return math.inf


def _number(value: float) -> str:
    return f"{value:.6E}"


def _flag(is_true: bool) -> str:
    return str(int(is_true))


def set_function(unit: Dmm6500, call: SimCall) -> None:
    """``:SENS:FUNC "VOLT:DC"``: only in quotes."""
    if call.arguments and call.arguments[0][:1] not in ("'", '"'):
        raise ScpiError(-104)
    unit.function = call.choice(0, FUNCTION_NAMES)


def set_range(unit: Dmm6500, call: SimCall, function: str) -> None:
    """``:SENS:VOLT:RANG``: the range that holds the value; autorange is off after it."""
    ranges = KINDS[function].ranges
    asked = abs(call.number(0, lowest=-ranges[-1], highest=ranges[-1], default=ranges[-1]))
    unit.settings[function].range = nearest_at_least(asked, ranges)
    unit.settings[function].is_auto = False


def set_auto(unit: Dmm6500, call: SimCall, function: str) -> None:
    """``:SENS:VOLT:RANG:AUTO``."""
    unit.settings[function].is_auto = call.boolean(0)


def set_nplc(unit: Dmm6500, call: SimCall, function: str) -> None:
    """``:SENS:VOLT:NPLC``."""
    unit.settings[function].nplc = call.number(
        0, lowest=LOWEST_NPLC, highest=HIGHEST_NPLC, default=1.0
    )


def set_autozero(unit: Dmm6500, call: SimCall, function: str) -> None:
    """``:SENS:VOLT:AZER``."""
    unit.settings[function].has_autozero = call.boolean(0)


def set_average_count(unit: Dmm6500, call: SimCall, function: str) -> None:
    """``:SENS:VOLT:AVER:COUN``."""
    unit.settings[function].averages = call.whole(0, lowest=1, highest=100)


def set_average(unit: Dmm6500, call: SimCall, function: str) -> None:
    """``:SENS:VOLT:AVER``."""
    unit.settings[function].has_average = call.boolean(0)


def set_band(unit: Dmm6500, call: SimCall, function: str) -> None:
    """``:SENS:VOLT:AC:DET:BAND``: 3, 30 or 300 Hz."""
    asked = call.number(0, lowest=3.0, highest=300.0, default=3.0)
    unit.settings[function].band_hz = nearest_at_least(asked, (3.0, 30.0, 300.0))


def set_samples(unit: Dmm6500, call: SimCall) -> None:
    """``:SENS:COUN``."""
    unit.samples = call.whole(0, lowest=1, highest=MOST_SAMPLES)


def set_temperature_unit(unit: Dmm6500, call: SimCall) -> None:
    """``:SENS:TEMP:UNIT``."""
    unit.temperature_unit = call.choice(0, {"CELSius": "CELS", "KELVin": "KELV"})


def take_readings(unit: Dmm6500, call: SimCall) -> Answer:
    """``:READ?``: takes all samples into the buffer and answers with the last one."""
    _check_buffer(call, 0)

    def finish(now: float) -> str:
        unit.buffer = [unit.read(call, now) for _ in range(unit.samples)]
        return _number(unit.buffer[-1])

    return Later(unit.reading_s() * unit.samples, finish)


def fetch(unit: Dmm6500, call: SimCall) -> str:
    """``:FETC?``: the last reading again."""
    _check_buffer(call, 0)
    if not unit.buffer:
        raise ScpiError(-230)
    return _number(unit.buffer[-1])


def statistics(unit: Dmm6500, call: SimCall, what: str) -> str:
    """``:TRAC:STAT:AVER?`` and its kin."""
    _check_buffer(call, 0)
    values = unit.buffer
    if not values:
        raise ScpiError(-230)
    mean = math.fsum(values) / len(values)
    spread = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))
    return _number({"AVER": mean, "MIN": min(values), "MAX": max(values), "STDD": spread}[what])


def buffer_data(unit: Dmm6500, call: SimCall) -> str:
    """``:TRAC:DATA? 1,10,"defbuffer1"``."""
    most = len(unit.buffer)
    if not most:
        raise ScpiError(-230)
    first = call.whole(0, lowest=1, highest=most)
    last = call.whole(1, lowest=first, highest=most)
    _check_buffer(call, 2)
    return ",".join(map(_number, unit.buffer[first - 1 : last]))


def clear_buffer(unit: Dmm6500, call: SimCall) -> None:
    """``:TRAC:CLE``."""
    _check_buffer(call, 0)
    unit.buffer.clear()


def _check_buffer(call: SimCall, place: int) -> None:
    if call.has(place) and call.text(place).upper() not in BUFFERS:
        raise ScpiError(-224)


def _per_function() -> dict[str, Any]:
    """The headers that each function has for itself; the others do not exist for it."""
    table: dict[str, Any] = {}
    for name, kind in KINDS.items():
        sense = f"[:SENSe<n>]{kind.header}"
        table[f"{sense}:AVERage:COUNt"] = lambda u, c, f=name: set_average_count(u, c, f)
        table[f"{sense}:AVERage:COUNt?"] = lambda u, _c, f=name: str(u.settings[f].averages)
        table[f"{sense}:AVERage[:STATe]"] = lambda u, c, f=name: set_average(u, c, f)
        table[f"{sense}:AVERage[:STATe]?"] = lambda u, _c, f=name: _flag(u.settings[f].has_average)
        if kind.ranges:
            table[f"{sense}:RANGe[:UPPer]"] = lambda u, c, f=name: set_range(u, c, f)
            table[f"{sense}:RANGe[:UPPer]?"] = lambda u, _c, f=name: _number(u.settings[f].range)
            table[f"{sense}:RANGe:AUTO"] = lambda u, c, f=name: set_auto(u, c, f)
            table[f"{sense}:RANGe:AUTO?"] = lambda u, _c, f=name: _flag(u.settings[f].is_auto)
        if kind.has_nplc:
            table[f"{sense}:NPLCycles"] = lambda u, c, f=name: set_nplc(u, c, f)
            table[f"{sense}:NPLCycles?"] = lambda u, _c, f=name: f"{u.settings[f].nplc:g}"
            table[f"{sense}:AZERo[:STATe]"] = lambda u, c, f=name: set_autozero(u, c, f)
            table[f"{sense}:AZERo[:STATe]?"] = lambda u, _c, f=name: _flag(
                u.settings[f].has_autozero
            )
        if kind.has_band:
            table[f"{sense}:DETector:BANDwidth"] = lambda u, c, f=name: set_band(u, c, f)
            table[f"{sense}:DETector:BANDwidth?"] = lambda u, _c, f=name: (
                f"{u.settings[f].band_hz:g}"
            )
    return table


VOCABULARY: Final = Vocabulary(
    {
        **_per_function(),
        "[:SENSe<n>]:FUNCtion[:ON]": set_function,
        "[:SENSe<n>]:FUNCtion[:ON]?": lambda u, _c: f'"{u.function}"',
        "[:SENSe<n>]:COUNt": set_samples,
        "[:SENSe<n>]:COUNt?": lambda u, _c: str(u.samples),
        "[:SENSe<n>]:TEMPerature:UNIT": set_temperature_unit,
        "[:SENSe<n>]:TEMPerature:UNIT?": lambda u, _c: u.temperature_unit,
        "[:SENSe<n>]:AZERo:ONCE": lambda _u, _c: None,
        ":READ?": take_readings,
        ":FETCh?": fetch,
        ":ABORt": lambda _u, _c: None,
        ":TRACe:DATA?": buffer_data,
        ":TRACe:CLEar": clear_buffer,
        ":TRACe:ACTual?": lambda u, _c: str(len(u.buffer)),
        ":TRACe:STATistics:AVERage?": lambda u, c: statistics(u, c, "AVER"),
        ":TRACe:STATistics:MINimum?": lambda u, c: statistics(u, c, "MIN"),
        ":TRACe:STATistics:MAXimum?": lambda u, c: statistics(u, c, "MAX"),
        ":TRACe:STATistics:STDDev?": lambda u, c: statistics(u, c, "STDD"),
        ":ROUTe:TERMinals?": lambda _u, _c: "FRON",
        ":SYSTem:LFRequency?": lambda _u, _c: "50",
        "*LANG?": lambda _u, _c: "SCPI",
    }
)

MODEL: Final = ModelSpec(
    idn="KEITHLEY INSTRUMENTS,MODEL DMM6500,{serial},1.7.12b",
    serial="{number:08d}",
    first_number=4_592_448,
    dialect=Dialect(latency_s=0.002),
    vocabulary=VOCABULARY,
    build=Dmm6500,
)
