"""Tektronix TBS1102C, of the TBS1000C; channel 1 on the main load, 2 on the calibrator.

Quirks kept: answers carry their header until ``HEADer OFF``; there is no ``SYST:ERR?``, the wording
of an error waits in ``ALLEv?`` until ``*ESR?`` was read; while an error waits, ``CURVe?`` is never
answered; codes are big-endian and signed, their offset in codes and their zero in volts; 9.91E37 is
"no measurement"; the name ends in a semicolon. Source: the manuals that
profiles/tektronix_tbs1000c.yaml names.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from edged_sim import scpi
from edged_sim.models.families.scope import Capture, Scope, set_shown

CODES_PER_DIVISION: Final = 25
NO_MEASUREMENT: Final = "9.91E37"
TYPES: Final = {
    "FREQuency": "freq",
    "PERIod": "period",
    "PK2pk": "pp",
    "MEAN": "mean",
    "RMS": "rms",
    "MAXImum": "max",
    "MINImum": "min",
}
WIDTHS: Final = {1: "b", 2: "h"}
FORMAT: Final = {"ENCDG": "BINARY", "BN_FMT": "RI", "BYT_OR": "MSB"}


@dataclass(slots=True)
class Channel:
    """The settings of one input; ``position`` in divisions."""

    is_shown: bool
    division_v: float = 1.0
    offset_v: float = 0.0
    position: float = 0.0
    coupling: str = "DC"
    bandwidth: str = "FULL"


class Tbs(Scope[Channel]):
    """The state of one unit."""

    divisions = 15
    channel_count = 2
    depths: ClassVar[tuple[int, ...]] = (1000, 2000, 20_000)

    def __init__(self, unit: scpi.SimUnit) -> None:
        super().__init__(unit)
        self.has_headers = True
        self.events: list[int] = []

    def reset(self, now: float) -> None:  # noqa: ARG002 - the seam's argument
        """See ``ModelState``; whether answers carry headers stays as it is."""
        self.channels = {
            number: Channel(number == 1) for number in range(1, self.channel_count + 1)
        }
        self.time_division_s, self.time_position = 4e-4, 0.0
        self.depth = 2000
        self.record = 2000
        self.is_running, self.stop_after = True, "RUNST"
        self.mode, self.averages = "SAM", 16
        self.trigger_source, self.trigger_slope, self.trigger_mode = "CH1", "RIS", "AUTO"
        self.levels = dict.fromkeys(self.channels, 0.0)
        self.measured, self.type = 1, "freq"
        self.data_source, self.first, self.last, self.width = 1, 1, 2000, 1
        self.captures.clear()

    def describe(self, now: float) -> Mapping[str, Any]:  # noqa: ARG002 - the seam's argument
        return {
            "is_running": self.is_running,
            "has_headers": self.has_headers,
            "time_division_s": self.time_division_s,
            "channels": {
                f"ch{number}": {"is_shown": channel.is_shown, "division_v": channel.division_v}
                for number, channel in self.channels.items()
            },
        }

    @property
    def is_live(self) -> bool:
        return self.is_running

    def increment_v(self) -> float:
        """Volts a code of the channel whose data are asked for."""
        finer = 256 if self.width == 2 else 1
        return self.channels[self.data_source].division_v / CODES_PER_DIVISION / finer

    def offset_codes(self) -> float:
        """Where the zero of the volts lies, in codes."""
        channel = self.channels[self.data_source]
        return channel.position * channel.division_v / self.increment_v()

    def points(self) -> int:
        """How many points ``CURVe?`` gives."""
        return max(0, min(self.last, self.acquired()) - self.first + 1)

    def trace(self, number: int, now: float) -> Capture:
        """What the channel holds."""
        return self.held(number, lambda: self.capture(number, now, points=self.acquired()))

    def acquired(self) -> int:
        """Points of what it holds: another record length is the next acquisition's."""
        if self.is_running:
            self.record = self.depth
        return self.record

    def say(self, call: scpi.SimCall, value: str) -> str:
        """An answer, with its header until ``HEADer OFF``."""
        if not self.has_headers:
            return value
        return f":{call.header.removesuffix('?').upper().removeprefix(':')} {value}"


def _number(value: float) -> str:
    return f"{value:.6E}"


def _state(call: scpi.SimCall) -> bool:
    if call.text(0).upper() in ("RUN", "STOP"):
        return call.text(0).upper() == "RUN"
    return call.boolean(0)


def set_depth(unit: Tbs, call: scpi.SimCall) -> None:
    """``HORizontal:RECOrdlength``: one of the menu's."""
    asked = call.whole(0, lowest=unit.depths[0], highest=unit.depths[-1])
    if asked not in unit.depths:
        raise scpi.ScpiError(-222)
    unit.depth = asked


def set_running(unit: Tbs, call: scpi.SimCall) -> None:
    """``ACQuire:STATE RUN``: a single sequence is captured at once, and stops."""
    is_running = _state(call)
    if is_running or unit.is_running:
        unit.record = unit.depth
        unit.is_running = False
        unit.captures.clear()
        for number in unit.shown():
            unit.trace(number, call.now)
        unit.is_running = is_running and unit.stop_after != "SEQ"


def set_level(unit: Tbs, call: scpi.SimCall) -> None:
    """``TRIGger:A:LEVel:CH1``."""
    level = call.number(0, lowest=-50.0, highest=50.0, unit="V")
    unit.levels[call.suffix(highest=unit.channel_count)] = level


def force(unit: Tbs, call: scpi.SimCall) -> None:  # noqa: ARG001 - the seam's argument
    """``TRIGger FORCe``."""
    call.choice(0, {"FORCe": None})


def trigger_state(unit: Tbs, call: scpi.SimCall) -> str:
    """``TRIGger:STATE?``; the calibrator that is connected triggers all the time."""
    running = "AUTO" if unit.trigger_mode == "AUTO" else "TRIGGER"
    return unit.say(call, running if unit.is_running else "SAVE")


def set_measured(unit: Tbs, call: scpi.SimCall) -> None:
    """``MEASUrement:IMMed:SOUrce1 CH1``."""
    unit.measured = call.choice(0, {f"CH{n}": n for n in unit.channels})


def set_type(unit: Tbs, call: scpi.SimCall) -> None:
    """``MEASUrement:IMMed:TYPe PK2pk``."""
    unit.type = call.choice(0, TYPES)


def measured(unit: Tbs, call: scpi.SimCall) -> str:
    """``MEASUrement:IMMed:VALue?``."""
    value = None
    if unit.channels[unit.measured].is_shown:
        value = unit.trace(unit.measured, call.now).measure(unit.type)
    return unit.say(call, NO_MEASUREMENT if value is None else _number(value))


def set_data_source(unit: Tbs, call: scpi.SimCall) -> None:
    """``DATa:SOUrce CH1``: only one that is shown."""
    number = call.choice(0, {f"CH{n}": n for n in unit.channels})
    if not unit.channels[number].is_shown:
        raise scpi.ScpiError(-221)
    unit.data_source = number


def curve(unit: Tbs, call: scpi.SimCall) -> bytes | None:
    """``CURVe?``: a block; silence while an error waits."""
    if unit.status.count():
        return None
    trace = unit.trace(unit.data_source, call.now)
    channel = unit.channels[unit.data_source]
    most = 2 ** (8 * unit.width - 1)
    zero_v, each_v, zero = channel.offset_v, unit.increment_v(), unit.offset_codes()
    codes = [
        max(-most, min(most - 1, round((volts - zero_v) / each_v + zero))) for volts in trace.volts
    ]
    data = struct.pack(f">{len(codes)}{WIDTHS[unit.width]}", *codes)
    repeated = data * (-(-trace.points // max(1, len(data) // unit.width)))
    start = (unit.first - 1) * unit.width
    wanted = repeated[start : start + unit.points() * unit.width]
    size = str(len(wanted))
    return f"#{len(size)}{size}".encode("ascii") + wanted


def description(unit: Tbs, call: scpi.SimCall) -> str:
    """``WFMOutpre?``: all that the data mean, in the order of the manual."""
    channel = unit.channels[unit.data_source]
    form = (
        f"Ch{unit.data_source}, {channel.coupling} coupling, {channel.division_v:.3E}V/div, "
        f"{unit.time_division_s:.3E}s/div, {unit.points()} points, Sample mode"
    )
    fields = {
        "BYT_NR": str(unit.width),
        "BIT_NR": str(8 * unit.width),
        **FORMAT,
        "WFID": f'"{form}"',
        "NR_PT": str(unit.points()),
        "PT_FMT": "Y",
        "XUNIT": '"s"',
        "XINCR": _number(unit.window_s / unit.acquired()),
        "XZERO": _number(-unit.window_s / 2),
        "PT_OFF": "0",
        "YUNIT": '"V"',
        "YMULT": _number(unit.increment_v()),
        "YOFF": _number(unit.offset_codes()),
        "YZERO": _number(channel.offset_v),
    }
    if not unit.has_headers:
        return ";".join(fields.values())
    return unit.say(call, "")[:-1] + ":" + ";".join(f"{k} {v}" for k, v in fields.items())


def event_status(unit: Tbs, _call: scpi.SimCall) -> str:
    """``*ESR?``: what happened, and from now on ``ALLEv?`` has the words for it."""
    unit.events = [abs(code) for code in unit.status.drain()]
    word, unit.status.events = unit.status.events, 0
    return str(word)


def all_events(unit: Tbs, call: scpi.SimCall) -> str:
    """``ALLEv?`` → ``113,"Undefined header"``."""
    if not unit.events:
        return unit.say(call, '0,"No events to report - queue empty"')
    told = ",".join(
        f'{code},"{scpi.ERROR_TEXTS.get(-code, "Device error")}"' for code in unit.events
    )
    unit.events = []
    return unit.say(call, told)


OWN: Final = scpi.Settings(say=_number, answer=lambda u, c, text: u.say(c, text))
CHANNEL: Final = scpi.Settings(
    of=lambda u, c: u.channel(c), say=_number, answer=lambda u, c, text: u.say(c, text)
)

VOCABULARY: Final = scpi.Vocabulary(
    {
        **OWN.switch("HEADer", "has_headers"),
        "*ESR?": event_status,
        "ALLEv?": all_events,
        # 2 mV to 5 V with a 1x probe.
        **CHANNEL.number("CH<n>:SCAle", "division_v", 0.002, 5.0, unit="V"),
        **CHANNEL.number("CH<n>:OFFSet", "offset_v", -25.0, 25.0, unit="V"),
        # In divisions.
        **CHANNEL.number("CH<n>:POSition", "position", -5.0, 5.0),
        **CHANNEL.choice("CH<n>:COUPling", "coupling", ("AC", "DC", "GND")),
        **CHANNEL.choice("CH<n>:BANdwidth", "bandwidth", {"TWEnty": "TWE", "FULl": "FULL"}),
        "SELect:CH<n>": set_shown,
        "SELect:CH<n>?": lambda u, c: u.say(c, scpi.flag(u.channel(c).is_shown)),
        **OWN.number("HORizontal:SCAle", "time_division_s", 2e-9, 100.0, unit="S"),
        **OWN.number("HORizontal:POSition", "time_position", -1000.0, 1000.0, unit="S"),
        "HORizontal:RECOrdlength": set_depth,
        "HORizontal:RECOrdlength?": lambda u, c: u.say(c, str(u.depth)),
        "ACQuire:STATE": set_running,
        "ACQuire:STATE?": lambda u, c: u.say(c, scpi.flag(u.is_running)),
        **OWN.choice("ACQuire:STOPAfter", "stop_after", {"RUNSTop": "RUNST", "SEQuence": "SEQ"}),
        **OWN.choice(
            "ACQuire:MODe",
            "mode",
            {"SAMple": "SAM", "PEAKdetect": "PEAK", "HIRes": "HIR", "AVErage": "AVE"},
        ),
        **OWN.whole("ACQuire:NUMAVg", "averages", 2, 512),
        **OWN.row(
            "TRIGger:A:EDGE:SOUrce",
            "trigger_source",
            lambda u, c: c.choice(0, {f"CH{n}": f"CH{n}" for n in u.channels}),
            str,
        ),
        **OWN.choice("TRIGger:A:EDGE:SLOpe", "trigger_slope", {"RISe": "RIS", "FALL": "FALL"}),
        **OWN.choice("TRIGger:A:MODe", "trigger_mode", {"AUTO": "AUTO", "NORMal": "NORM"}),
        "TRIGger:A:LEVel:CH<n>": set_level,
        "TRIGger:A:LEVel:CH<n>?": lambda u, c: u.say(
            c, _number(u.levels[c.suffix(highest=u.channel_count)])
        ),
        "TRIGger": force,
        "TRIGger:STATE?": trigger_state,
        "MEASUrement:IMMed:SOUrce1": set_measured,
        "MEASUrement:IMMed:TYPe": set_type,
        "MEASUrement:IMMed:VALue?": measured,
        "DATa:SOUrce": set_data_source,
        "DATa:SOUrce?": lambda u, c: u.say(c, f"CH{u.data_source}"),
        "DATa:ENCdg": lambda _u, c: c.choice(0, {"RIBinary": None}),
        "DATa:ENCdg?": lambda u, c: u.say(c, "RIBINARY"),
        **OWN.row(
            "DATa:STARt", "first", lambda u, c: c.whole(0, lowest=1, highest=u.depths[-1]), str
        ),
        **OWN.row(
            "DATa:STOP", "last", lambda u, c: c.whole(0, lowest=1, highest=u.depths[-1]), str
        ),
        "WFMOutpre?": description,
        **OWN.whole("WFMOutpre:BYT_Nr", "width", 1, 2),
        "WFMOutpre:BIT_Nr?": lambda u, c: u.say(c, str(8 * u.width)),
        "WFMOutpre:ENCdg?": lambda u, c: u.say(c, FORMAT["ENCDG"]),
        "WFMOutpre:BN_Fmt?": lambda u, c: u.say(c, FORMAT["BN_FMT"]),
        "WFMOutpre:BYT_Or?": lambda u, c: u.say(c, FORMAT["BYT_OR"]),
        "WFMOutpre:XUNit?": lambda u, c: u.say(c, '"s"'),
        "WFMOutpre:YUNit?": lambda u, c: u.say(c, '"V"'),
        "WFMOutpre:NR_Pt?": lambda u, c: u.say(c, str(u.points())),
        "WFMOutpre:XINcr?": lambda u, c: u.say(c, _number(u.window_s / u.acquired())),
        "WFMOutpre:XZEro?": lambda u, c: u.say(c, _number(-u.window_s / 2)),
        "WFMOutpre:YMUlt?": lambda u, c: u.say(c, _number(u.increment_v())),
        "WFMOutpre:YOFf?": lambda u, c: u.say(c, _number(u.offset_codes())),
        "WFMOutpre:YZEro?": lambda u, c: u.say(c, _number(u.channels[u.data_source].offset_v)),
        "CURVe?": curve,
        "AUTOSet": lambda _u, c: c.choice(0, {"EXECute": None}),
    }
)

MODEL: Final = scpi.ModelSpec(
    idn="TEKTRONIX,TBS1102C,{serial},CF:91.1CT FV:v1.29.30; FPGA:v20.78;",
    serial="C{number:06d}",
    first_number=25_730,
    dialect=scpi.Dialect(error_format="", latency_s=0.003),
    vocabulary=VOCABULARY,
    build=Tbs,
)
