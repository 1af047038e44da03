"""Rigol DSA815 with its tracking generator: 9 kHz to 1.5 GHz.

Quirks kept: a bandwidth that is asked for becomes one of 1-3-10; frequencies are told as whole
hertz; a trace is a block also where it is text, with a blank before it and a blank behind each
comma; of binary numbers the first byte is the highest unless the order was swapped; a single sweep
is over when ``*OPC?`` answers, and bit 3 of the operation condition says that it runs. Source: the
guides and drivers that profiles/rigol_dsa815.yaml names.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, Final

from edged_sim import scpi
from edged_sim.models.families.radio import (
    FILTER,
    Receiver,
    Span,
    decibels,
    in_steps,
    power_sum,
)

HIGHEST_HZ: Final = 1.5e9
NARROWEST_HZ: Final = 100.0
RESOLUTIONS: Final = in_steps(10, 1e6)
VIDEO: Final = in_steps(1, 3e6)
SWEEPING: Final = 8
TRACES: Final = 3
MARKERS: Final = 4
MODES: Final = {
    "WRITe": "WRIT",
    "MAXHold": "MAXH",
    "MINHold": "MINH",
    "VIEW": "VIEW",
    "BLANk": "BLANK",
    "VIDeoavg": "VID",
    "POWeravg": "POW",
}
DETECTORS: Final = {
    "NEGative": "NEG",
    "NORMal": "NORM",
    "POSitive": "POS",
    "RMS": "RMS",
    "SAMPle": "SAMP",
    "VAVerage": "VAV",
    "QPEak": "QPEAK",
}
UNITS: Final = ("DBM", "DBMV", "DBUV", "V", "W")


class Dsa815(Receiver):
    """The state of one unit."""

    least_points, most_points, usual_points = 101, 3001, 601

    def __init__(self, unit: scpi.SimUnit) -> None:
        super().__init__(unit.random)

    def reset(self, now: float) -> None:
        """See ``ModelState``: the whole span, swept all the time, the generator off."""
        super().reset(now)
        self.span = Span(0.0, HIGHEST_HZ, NARROWEST_HZ)
        self.resolution_hz, self.is_resolution_auto = 1e6, True
        self.video_hz, self.is_video_auto = 1e6, True
        self.set_sweep_s: float | None = None
        self.reference_dbm = 0.0
        self.attenuation_db, self.is_attenuation_auto = 10, True
        self.has_preamplifier = False
        self.detector, self.unit, self.averages = "POS", "DBM", 100
        self.modes = dict.fromkeys(range(1, TRACES + 1), "BLANK") | {1: "WRIT"}
        self.markers = dict.fromkeys(range(1, MARKERS + 1), False)
        self.marked = dict.fromkeys(self.markers, 0)
        self.is_binary, self.is_swapped = False, False
        self.is_on, self.generator_dbm = False, -20.0

    def describe(self, now: float) -> Mapping[str, Any]:
        return {
            **super().describe(now),
            "resolution_hz": self.resolution_hz,
            "generator": {"is_on": self.is_on, "dbm": self.generator_dbm},
        }

    @property
    def sweep_s(self) -> float:
        """By the span and the bandwidth, unless it was set."""
        if self.set_sweep_s is not None:
            return self.set_sweep_s
        return min(max(0.01, 2.5 * self.span.width / self.resolution_hz**2), 1500.0)

    def sample(self, hertz: float) -> float:
        """In dBm: the noise, and either the generator through the filter or what is on the air."""
        noise = self.noise_dbm(self.resolution_hz)
        if self.is_on:
            return power_sum(noise, self.generator_dbm + decibels(FILTER.transmission(hertz)))
        return power_sum(noise, self.carrier_dbm(hertz, self.resolution_hz))

    def place(self, marker: int) -> float:
        """The frequency of a marker."""
        return self.span.frequency(self.marked[marker], self.points)


def set_resolution(unit: Dsa815, call: scpi.SimCall) -> None:
    """``:SENS:BAND:RES 5000``: the next one that there is; no longer automatic."""
    asked = call.number(0, lowest=RESOLUTIONS[0], highest=RESOLUTIONS[-1], unit="HZ")
    unit.resolution_hz, unit.is_resolution_auto = scpi.nearest_at_least(asked, RESOLUTIONS), False


def set_video(unit: Dsa815, call: scpi.SimCall) -> None:
    """``:SENS:BAND:VID``."""
    asked = call.number(0, lowest=VIDEO[0], highest=VIDEO[-1], unit="HZ")
    unit.video_hz, unit.is_video_auto = scpi.nearest_at_least(asked, VIDEO), False


def set_resolution_auto(unit: Dsa815, call: scpi.SimCall) -> None:
    """``:SENS:BAND:RES:AUTO ON``."""
    unit.is_resolution_auto = call.boolean(0)
    if unit.is_resolution_auto:
        unit.resolution_hz = scpi.nearest_at_least(unit.span.width / 100 or 1e6, RESOLUTIONS)


def set_video_auto(unit: Dsa815, call: scpi.SimCall) -> None:
    """``:SENS:BAND:VID:AUTO ON``."""
    unit.is_video_auto = call.boolean(0)
    if unit.is_video_auto:
        unit.video_hz = unit.resolution_hz


def set_sweep_time(unit: Dsa815, call: scpi.SimCall) -> None:
    """``:SENS:SWE:TIME``: microseconds only where one frequency is looked at all the time."""
    lowest = 20e-6 if unit.span.width == 0 else 0.01
    unit.set_sweep_s = call.number(0, lowest=lowest, highest=1500.0, unit="S")


def set_sweep_time_auto(unit: Dsa815, call: scpi.SimCall) -> None:
    """``:SENS:SWE:TIME:AUTO ON``."""
    unit.set_sweep_s = None if call.boolean(0) else unit.sweep_s


def set_reference(unit: Dsa815, call: scpi.SimCall) -> None:
    """``:DISP:WIN:TRAC:Y:SCAL:RLEV``."""
    unit.reference_dbm = call.number(0, lowest=-100.0, highest=20.0, unit="DBM")


def set_attenuation(unit: Dsa815, call: scpi.SimCall) -> None:
    """``:SENS:POW:RF:ATT``."""
    unit.attenuation_db = call.whole(0, lowest=0, highest=30)
    unit.is_attenuation_auto = False


def set_mode(unit: Dsa815, call: scpi.SimCall) -> None:
    """``:TRAC1:MODE``."""
    unit.modes[call.suffix(highest=TRACES)] = call.choice(0, MODES)


def set_continuous(unit: Dsa815, call: scpi.SimCall) -> None:
    """``:INIT:CONT``: what was swept last stays."""
    is_continuous = call.boolean(0)
    if unit.is_continuous and not is_continuous:
        unit.seen(call.now)
    unit.is_continuous = is_continuous


def initiate(unit: Dsa815, call: scpi.SimCall) -> None:
    """``:INIT``: one sweep."""
    if not unit.is_continuous:
        unit.sweep(call.now)


def complete(unit: Dsa815, call: scpi.SimCall) -> scpi.Answer:
    """``*OPC?``: after the sweep that was begun."""
    return scpi.Later(max(0.0, unit.busy_until - call.now), lambda _now: "1")


def condition(unit: Dsa815, call: scpi.SimCall) -> str:
    """``:STAT:OPER:COND?``."""
    return str(SWEEPING if unit.is_continuous or call.now < unit.busy_until else 0)


def set_format(unit: Dsa815, call: scpi.SimCall) -> None:
    """``:FORM:TRAC:DATA REAL,32``."""
    unit.is_binary = call.choice(0, {"ASCii": False, "REAL": True})


def set_order(unit: Dsa815, call: scpi.SimCall) -> None:
    """``:FORM:BORD SWAP``."""
    unit.is_swapped = call.choice(0, {"NORMal": False, "SWAPped": True})


def trace(unit: Dsa815, call: scpi.SimCall) -> bytes:
    """``:TRAC:DATA? TRACE1``."""
    call.choice(0, {f"TRACE{number}": number for number in unit.modes})
    levels = [level.real for level in unit.seen(call.now)]
    if unit.is_binary:
        order = "<" if unit.is_swapped else ">"
        return scpi.block(struct.pack(f"{order}{len(levels)}f", *levels))
    return scpi.block((" " + ", ".join(f"{level:.6e}" for level in levels)).encode("ascii"))


def set_marker(unit: Dsa815, call: scpi.SimCall) -> None:
    """``:CALC:MARK1:STAT ON``: in the middle."""
    number = call.suffix(highest=MARKERS)
    unit.markers[number] = call.boolean(0)
    unit.marked[number] = unit.points // 2


def to_peak(unit: Dsa815, call: scpi.SimCall) -> None:
    """``:CALC:MARK1:MAX:MAX``: shown for it."""
    number = call.suffix(highest=MARKERS)
    levels = [level.real for level in unit.seen(call.now)]
    unit.markers[number] = True
    unit.marked[number] = levels.index(max(levels))


def marked_frequency(unit: Dsa815, call: scpi.SimCall) -> str:
    """``:CALC:MARK1:X?``."""
    return f"{unit.place(call.suffix(highest=MARKERS)):.0f}"


def marked_level(unit: Dsa815, call: scpi.SimCall) -> str:
    """``:CALC:MARK1:Y?``."""
    place = unit.marked[call.suffix(highest=MARKERS)]
    return f"{unit.seen(call.now)[place].real:.6E}"


def set_generator_level(unit: Dsa815, call: scpi.SimCall) -> None:
    """``:SOUR:POW:LEV:IMM:AMPL``."""
    unit.generator_dbm = call.number(0, lowest=-40.0, highest=0.0, unit="DBM")


LEVEL: Final = ":SOURce:POWer[:LEVel][:IMMediate][:AMPLitude]"
REFERENCE: Final = ":DISPlay:WINdow:TRACe:Y[:SCALe]:RLEVel"
VOCABULARY: Final = scpi.Vocabulary(
    {
        "[:SENSe]:FREQuency:STARt": lambda u, c: u.span.begin(c),
        "[:SENSe]:FREQuency:STARt?": lambda u, _c: f"{u.span.start:.0f}",
        "[:SENSe]:FREQuency:STOP": lambda u, c: u.span.end(c),
        "[:SENSe]:FREQuency:STOP?": lambda u, _c: f"{u.span.stop:.0f}",
        "[:SENSe]:FREQuency:CENTer": lambda u, c: u.span.centre(c),
        "[:SENSe]:FREQuency:CENTer?": lambda u, _c: f"{u.span.middle:.0f}",
        "[:SENSe]:FREQuency:SPAN": lambda u, c: u.span.widen(c),
        "[:SENSe]:FREQuency:SPAN?": lambda u, _c: f"{u.span.width:.0f}",
        "[:SENSe]:BANDwidth[:RESolution]": set_resolution,
        "[:SENSe]:BANDwidth[:RESolution]?": lambda u, _c: f"{u.resolution_hz:.0f}",
        "[:SENSe]:BANDwidth[:RESolution]:AUTO": set_resolution_auto,
        "[:SENSe]:BANDwidth[:RESolution]:AUTO?": lambda u, _c: scpi.flag(u.is_resolution_auto),
        "[:SENSe]:BANDwidth:VIDeo": set_video,
        "[:SENSe]:BANDwidth:VIDeo?": lambda u, _c: f"{u.video_hz:.0f}",
        "[:SENSe]:BANDwidth:VIDeo:AUTO": set_video_auto,
        "[:SENSe]:BANDwidth:VIDeo:AUTO?": lambda u, _c: scpi.flag(u.is_video_auto),
        "[:SENSe]:SWEep:POINts": lambda u, c: u.set_points(c),
        "[:SENSe]:SWEep:POINts?": lambda u, _c: str(u.points),
        "[:SENSe]:SWEep:TIME": set_sweep_time,
        "[:SENSe]:SWEep:TIME?": lambda u, _c: f"{u.sweep_s:.6E}",
        "[:SENSe]:SWEep:TIME:AUTO": set_sweep_time_auto,
        "[:SENSe]:SWEep:TIME:AUTO?": lambda u, _c: scpi.flag(u.set_sweep_s is None),
        "[:SENSe]:POWer[:RF]:ATTenuation": set_attenuation,
        "[:SENSe]:POWer[:RF]:ATTenuation?": lambda u, _c: str(u.attenuation_db),
        **scpi.OWN.switch("[:SENSe]:POWer[:RF]:ATTenuation:AUTO", "is_attenuation_auto"),
        **scpi.OWN.switch("[:SENSe]:POWer[:RF]:GAIN[:STATe]", "has_preamplifier"),
        **scpi.OWN.choice("[:SENSe]:DETector[:FUNCtion]", "detector", DETECTORS),
        **scpi.OWN.choice(":UNIT:POWer", "unit", UNITS),
        REFERENCE: set_reference,
        f"{REFERENCE}?": lambda u, _c: f"{u.reference_dbm:.6E}",
        ":TRACe<n>:MODE": set_mode,
        ":TRACe<n>:MODE?": lambda u, c: u.modes[c.suffix(highest=TRACES)],
        **scpi.OWN.whole(":TRACe:AVERage:COUNt", "averages", 1, 1000),
        ":TRACe:AVERage:RESet": lambda _u, _c: None,
        ":TRACe[:DATA]?": trace,
        ":FORMat[:TRACe][:DATA]": set_format,
        ":FORMat[:TRACe][:DATA]?": lambda u, _c: "REAL,32" if u.is_binary else "ASCII",
        ":FORMat:BORDer": set_order,
        ":FORMat:BORDer?": lambda u, _c: "SWAP" if u.is_swapped else "NORM",
        ":INITiate:CONTinuous": set_continuous,
        ":INITiate:CONTinuous?": lambda u, _c: scpi.flag(u.is_continuous),
        ":INITiate[:IMMediate]": initiate,
        "*OPC?": complete,
        ":STATus:OPERation:CONDition?": condition,
        ":CALCulate:MARKer<n>[:STATe]": set_marker,
        ":CALCulate:MARKer<n>[:STATe]?": lambda u, c: scpi.flag(
            u.markers[c.suffix(highest=MARKERS)]
        ),
        ":CALCulate:MARKer<n>:MAXimum:MAX": to_peak,
        ":CALCulate:MARKer<n>:X?": marked_frequency,
        ":CALCulate:MARKer<n>:Y?": marked_level,
        **scpi.OWN.switch(":OUTPut[:STATe]", "is_on"),
        LEVEL: set_generator_level,
        f"{LEVEL}?": lambda u, _c: f"{u.generator_dbm:.6E}",
    }
)

MODEL: Final = scpi.ModelSpec(
    idn="Rigol Technologies,DSA815,{serial},00.01.12.00.02",
    serial="DSA8A1347{number:05d}",
    first_number=16,
    dialect=scpi.Dialect(error_format='{code},"{text}"', latency_s=0.005),
    vocabulary=VOCABULARY,
    build=Dsa815,
)
