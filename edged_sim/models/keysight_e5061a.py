"""Agilent E5061A: a network analyser for 300 kHz to 1.5 GHz with two ports.

The ports have the bench's filter between them; channel 1 of four is here. Quirks kept: the source
is on after a reset, and ``*RST`` leaves channel 1 without a next sweep; neither resets the format
of data; formatted data are pairs, whose second number is 0 but for Smith and polar charts; only a
trace that is shown can be made the active one; ``TRIG:SING`` is done when the sweep is, and an
error where nothing waits for it. Source: the guide and the readings of it that
profiles/keysight_e5061a.yaml names.
"""

from __future__ import annotations

import cmath
import itertools
import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from edged_sim import scpi
from edged_sim.models.families.radio import FILTER, Receiver, Span, decibels, in_steps

LOWEST_HZ: Final = 300e3
NARROWEST_HZ: Final = 1.0
BANDWIDTHS: Final = in_steps(10, 30e3)
TRACES: Final = 4
MARKERS: Final = 10
NOISE: Final = 1e-5
"""Of the receiver, beside the source."""
PARAMETERS: Final = {name: name for name in ("S11", "S21", "S12", "S22")}
FORMATS: Final = {
    "MLOGarithmic": "MLOG",
    "PHASe": "PHAS",
    "GDELay": "GDEL",
    "MLINear": "MLIN",
    "SWR": "SWR",
    "REAL": "REAL",
    "IMAGinary": "IMAG",
    "SMITh": "SMIT",
    "POLar": "POL",
}
PAIRED: Final = frozenset({"SMIT", "POL"})
SOURCES: Final = {"INTernal": "INT", "EXTernal": "EXT", "MANual": "MAN", "BUS": "BUS"}
LARGEST_SWR: Final = 1e6


class Ena(Receiver):
    """The state of one unit."""

    least_points, most_points, usual_points = 2, 1601, 201
    highest_hz: ClassVar[float] = 1.5e9

    def __init__(self, unit: scpi.SimUnit) -> None:
        self.form, self.is_swapped = "ASC", False
        super().__init__(unit.random)

    def reset(self, now: float) -> None:
        """See ``ModelState``: what ``*RST`` leaves."""
        super().reset(now)
        self.span = Span(LOWEST_HZ, self.highest_hz, NARROWEST_HZ)
        self.is_on, self.was_on, self.dbm = True, True, 0.0
        self.bandwidth_hz = 30e3
        self.is_averaging, self.averages, self.is_corrected = False, 16, False
        self.source, self.is_initiated = "INT", False
        self.is_continuous = False
        self.count, self.active = 1, 1
        self.parameters = dict.fromkeys(range(1, TRACES + 1), "S11")
        self.formats = dict.fromkeys(self.parameters, "MLOG")
        self.search = dict.fromkeys(range(1, MARKERS + 1), "MAX")
        self.marked = dict.fromkeys(self.search, 0)
        self.shown: set[int] = set()

    def preset(self, now: float) -> None:
        """``SYST:PRES``: as ``*RST``, but that it sweeps."""
        self.reset(now)
        self.is_continuous = True

    def describe(self, now: float) -> Mapping[str, Any]:
        return {
            **super().describe(now),
            "source": {"is_on": self.is_on, "dbm": self.dbm},
            "trigger": self.source,
            "traces": {str(n): self.parameters[n] for n in range(1, self.count + 1)},
        }

    @property
    def runs_free(self) -> bool:
        """Whether one sweep follows the other without anybody's doing."""
        return self.is_continuous and self.source == "INT"

    @property
    def sweep_s(self) -> float:
        """So many points through a filter of that bandwidth."""
        return self.points / self.bandwidth_hz + 1e-3

    def sample(self, hertz: float) -> complex:
        """S21, or the noise alone."""
        noise = complex(self.random.gauss(0.0, NOISE), self.random.gauss(0.0, NOISE))
        return noise + FILTER.transmission(hertz) if self.is_on else noise

    def sweep(self, now: float) -> None:
        """Begin one sweep."""
        super().sweep(now)
        self.was_on = self.is_on

    def measured(self, now: float) -> Sequence[complex]:
        """The active trace's ratios: what is not let through comes back."""
        if self.runs_free or not self.trace:
            self.sweep(now)
            self.busy_until = now
        if self.parameters[self.active] in ("S21", "S12") or not self.was_on:
            return self.trace
        return [1 - passed for passed in self.trace]

    def formatted(self, now: float) -> list[tuple[float, float]]:
        """The active trace as it is shown: two numbers for each point."""
        ratios = self.measured(now)
        form = self.formats[self.active]
        if form in PAIRED:
            return [(ratio.real, ratio.imag) for ratio in ratios]
        if form == "GDEL":
            return [(delay, 0.0) for delay in self._delays(ratios)]
        return [(_shown(ratio, form), 0.0) for ratio in ratios]

    def _delays(self, ratios: Sequence[complex]) -> list[float]:
        step = 2 * math.pi * self.span.width / (self.points - 1)
        turns = [cmath.phase(after / before) for before, after in itertools.pairwise(ratios)]
        return [-turn / step for turn in (*turns, turns[-1])]

    def reply(self, numbers: Sequence[float]) -> str | bytes:
        """An array in the format that was chosen."""
        if self.form == "ASC":
            return ",".join(map(_number, numbers))
        order, code = "<" if self.is_swapped else ">", "d" if self.form == "REAL" else "f"
        data = struct.pack(f"{order}{len(numbers)}{code}", *numbers)
        return f"#6{len(data):06d}".encode("ascii") + data


def _shown(ratio: complex, form: str) -> float:
    match form:
        case "MLOG":
            return decibels(ratio)
        case "PHAS":
            return math.degrees(cmath.phase(ratio))
        case "MLIN":
            return abs(ratio)
        case "SWR":
            left = max(1 - abs(ratio), 1 / LARGEST_SWR)
            return (1 + abs(ratio)) / left
        case "REAL":
            return ratio.real
        case _:
            return ratio.imag


def _number(value: float) -> str:
    """``+3.00000000000E+005``."""
    mantissa, _, exponent = f"{value:+.11E}".partition("E")
    return f"{mantissa}E{exponent[0]}{int(exponent[1:]):03d}"


def _channel(call: scpi.SimCall) -> None:
    call.suffix(highest=1)


def _trace(call: scpi.SimCall) -> int:
    _channel(call)
    return call.suffix(1, highest=TRACES)


def _marker(call: scpi.SimCall) -> int:
    _channel(call)
    return call.suffix(1, highest=MARKERS)


def set_bandwidth(unit: Ena, call: scpi.SimCall) -> None:
    """``:SENS1:BAND``: one of 1-3-10."""
    asked = call.number(0, lowest=BANDWIDTHS[0], highest=BANDWIDTHS[-1], unit="HZ")
    unit.bandwidth_hz = scpi.nearest_at_least(asked, BANDWIDTHS)


def set_level(unit: Ena, call: scpi.SimCall) -> None:
    """``:SOUR1:POW``: in steps of 0.05 dB, as far as a unit without the attenuator goes."""
    asked = call.number(0, lowest=-5.0, highest=10.0, unit="DBM")
    unit.dbm = round(asked * 20) / 20


def set_attenuator(_unit: Ena, _call: scpi.SimCall) -> None:
    """``:SOUR1:POW:ATT``: an option, which this unit has not."""
    raise scpi.ScpiError(200, "Option not installed")


def set_count(unit: Ena, call: scpi.SimCall) -> None:
    """``:CALC1:PAR:COUN``."""
    unit.count = call.whole(0, lowest=1, highest=TRACES)
    unit.active = min(unit.active, unit.count)


def define(unit: Ena, call: scpi.SimCall) -> None:
    """``:CALC1:PAR1:DEF S21``."""
    unit.parameters[_trace(call)] = call.choice(0, PARAMETERS)


def select(unit: Ena, call: scpi.SimCall) -> None:
    """``:CALC1:PAR1:SEL``: only one that is shown."""
    number = _trace(call)
    if number > unit.count:
        raise scpi.ScpiError(-221)
    unit.active = number


def set_format(unit: Ena, call: scpi.SimCall) -> None:
    """``:CALC1:FORM``: of the active trace."""
    _channel(call)
    unit.formats[unit.active] = call.choice(0, FORMATS)


def formatted(unit: Ena, call: scpi.SimCall) -> str | bytes:
    """``:CALC1:DATA:FDAT?``."""
    _channel(call)
    return unit.reply([number for pair in unit.formatted(call.now) for number in pair])


def corrected(unit: Ena, call: scpi.SimCall) -> str | bytes:
    """``:CALC1:DATA:SDAT?``."""
    _channel(call)
    ratios = unit.measured(call.now)
    return unit.reply([part for ratio in ratios for part in (ratio.real, ratio.imag)])


def frequencies(unit: Ena, call: scpi.SimCall) -> str | bytes:
    """``:SENS1:FREQ:DATA?``."""
    _channel(call)
    return unit.reply([unit.span.frequency(place, unit.points) for place in range(unit.points)])


def set_order(unit: Ena, call: scpi.SimCall) -> None:
    """``:FORM:BORD``."""
    unit.is_swapped = call.choice(0, {"NORMal": False, "SWAPped": True})


def set_continuous(unit: Ena, call: scpi.SimCall) -> None:
    """``:INIT1:CONT``: a channel that shall go on is ready for the next trigger."""
    _channel(call)
    unit.is_continuous = call.boolean(0)


def initiate(unit: Ena, call: scpi.SimCall) -> None:
    """``:INIT1``: ready for one trigger, which the internal one gives at once."""
    _channel(call)
    if unit.is_continuous or call.now < unit.busy_until:
        raise scpi.ScpiError(-213)
    if unit.source == "INT":
        unit.sweep(call.now)
    else:
        unit.is_initiated = True


def trigger(unit: Ena, call: scpi.SimCall) -> None:
    """``:TRIG:SING``: one sweep of what is ready for it."""
    is_waiting = unit.source != "INT" and (unit.is_continuous or unit.is_initiated)
    if not is_waiting or call.now < unit.busy_until:
        raise scpi.ScpiError(-211)
    unit.is_initiated = False
    unit.sweep(call.now)


def abort(unit: Ena, call: scpi.SimCall) -> None:
    """``:ABOR``: what was swept so far stays."""
    unit.busy_until, unit.is_initiated = call.now, False


def set_source(unit: Ena, call: scpi.SimCall) -> None:
    """``:TRIG:SOUR``: a sweep that runs is given up."""
    unit.source = call.choice(0, SOURCES)
    unit.busy_until = call.now


def complete(unit: Ena, call: scpi.SimCall) -> scpi.Answer:
    """``*OPC?``: after the sweep."""
    return scpi.Later(max(0.0, unit.busy_until - call.now), lambda _now: "1")


def set_marker(unit: Ena, call: scpi.SimCall) -> None:
    """``:CALC1:MARK1 ON``."""
    marker = _marker(call)
    if call.boolean(0):
        unit.shown.add(marker)
    else:
        unit.shown.discard(marker)


def set_search(unit: Ena, call: scpi.SimCall) -> None:
    """``:CALC1:MARK1:FUNC:TYPE MAX``."""
    unit.search[_marker(call)] = call.choice(0, {"MAXimum": "MAX", "MINimum": "MIN"})


def search(unit: Ena, call: scpi.SimCall) -> None:
    """``:CALC1:MARK1:FUNC:EXEC``."""
    marker = _marker(call)
    shown = [first for first, _ in unit.formatted(call.now)]
    wanted = max(shown) if unit.search[marker] == "MAX" else min(shown)
    unit.marked[marker] = shown.index(wanted)


def marked_frequency(unit: Ena, call: scpi.SimCall) -> str:
    """``:CALC1:MARK1:X?``."""
    return _number(unit.span.frequency(unit.marked[_marker(call)], unit.points))


def marked_value(unit: Ena, call: scpi.SimCall) -> str:
    """``:CALC1:MARK1:Y?``: two numbers."""
    place = unit.marked[_marker(call)]
    return ",".join(map(_number, unit.formatted(call.now)[place]))


LEVEL: Final = ":SOURce<n>:POWer[:LEVel][:IMMediate][:AMPLitude]"
MARKER: Final = ":CALCulate<n>:MARKer<n>"
OWN: Final = scpi.Settings(say="{:+d}".format)

VOCABULARY: Final = scpi.Vocabulary(
    {
        ":SENSe<n>:FREQuency:STARt": lambda u, c: u.span.begin(c),
        ":SENSe<n>:FREQuency:STARt?": lambda u, _c: _number(u.span.start),
        ":SENSe<n>:FREQuency:STOP": lambda u, c: u.span.end(c),
        ":SENSe<n>:FREQuency:STOP?": lambda u, _c: _number(u.span.stop),
        ":SENSe<n>:FREQuency:CENTer": lambda u, c: u.span.centre(c),
        ":SENSe<n>:FREQuency:CENTer?": lambda u, _c: _number(u.span.middle),
        ":SENSe<n>:FREQuency:SPAN": lambda u, c: u.span.widen(c),
        ":SENSe<n>:FREQuency:SPAN?": lambda u, _c: _number(u.span.width),
        ":SENSe<n>:FREQuency:DATA?": frequencies,
        ":SENSe<n>:SWEep:TYPE": lambda _u, c: c.choice(0, {"LINear": None}),
        ":SENSe<n>:SWEep:TYPE?": lambda _u, _c: "LIN",
        ":SENSe<n>:SWEep:POINts": lambda u, c: u.set_points(c),
        ":SENSe<n>:SWEep:POINts?": lambda u, _c: f"{u.points:+d}",
        ":SENSe<n>:SWEep:TIME?": lambda u, _c: _number(u.sweep_s),
        ":SENSe<n>:BANDwidth[:RESolution]": set_bandwidth,
        ":SENSe<n>:BANDwidth[:RESolution]?": lambda u, _c: _number(u.bandwidth_hz),
        **OWN.row(
            ":SENSe<n>:AVERage:COUNt", "averages", lambda _u, c: c.whole(0, lowest=1, highest=999)
        ),
        **OWN.switch(":SENSe<n>:AVERage[:STATe]", "is_averaging"),
        ":SENSe<n>:AVERage:CLEar": lambda _u, _c: None,
        ":SENSe<n>:CORRection:STATe?": lambda u, _c: scpi.flag(u.is_corrected),
        LEVEL: set_level,
        f"{LEVEL}?": lambda u, _c: _number(u.dbm),
        ":SOURce<n>:POWer:ATTenuation": set_attenuator,
        **OWN.switch(":OUTPut[:STATe]", "is_on"),
        ":CALCulate<n>:PARameter:COUNt": set_count,
        ":CALCulate<n>:PARameter:COUNt?": lambda u, _c: f"{u.count:+d}",
        ":CALCulate<n>:PARameter<n>:DEFine": define,
        ":CALCulate<n>:PARameter<n>:DEFine?": lambda u, c: u.parameters[_trace(c)],
        ":CALCulate<n>:PARameter<n>:SELect": select,
        ":CALCulate<n>:FORMat": set_format,
        ":CALCulate<n>:FORMat?": lambda u, _c: u.formats[u.active],
        ":CALCulate<n>:DATA:FDATa?": formatted,
        ":CALCulate<n>:DATA:SDATa?": corrected,
        f"{MARKER}[:STATe]": set_marker,
        f"{MARKER}[:STATe]?": lambda u, c: scpi.flag(_marker(c) in u.shown),
        f"{MARKER}:FUNCtion:TYPE": set_search,
        f"{MARKER}:FUNCtion:EXECute": search,
        f"{MARKER}:X?": marked_frequency,
        f"{MARKER}:Y?": marked_value,
        **OWN.choice(":FORMat:DATA", "form", {"ASCii": "ASC", "REAL": "REAL", "REAL32": "REAL32"}),
        ":FORMat:BORDer": set_order,
        ":FORMat:BORDer?": lambda u, _c: "SWAP" if u.is_swapped else "NORM",
        ":INITiate<n>:CONTinuous": set_continuous,
        ":INITiate<n>:CONTinuous?": lambda u, _c: scpi.flag(u.is_continuous),
        ":INITiate<n>[:IMMediate]": initiate,
        ":TRIGger[:SEQuence]:SINGle": trigger,
        ":TRIGger[:SEQuence]:SOURce": set_source,
        ":TRIGger[:SEQuence]:SOURce?": lambda u, _c: u.source,
        ":ABORt": abort,
        "*OPC?": complete,
        "*OPT?": lambda _u, _c: "0",
        ":SYSTem:PRESet": lambda u, c: u.preset(c.now),
        ":SERVice:PORT:COUNt?": lambda _u, _c: "+2",
    }
)

MODEL: Final = scpi.ModelSpec(
    idn="Agilent Technologies,E5061A,{serial},03.00",
    serial="JP1KI{number:05d}",
    first_number=101,
    dialect=scpi.Dialect(latency_s=0.003, error_texts={-211: "Trigger ignored"}),
    vocabulary=VOCABULARY,
    build=Ena,
)
