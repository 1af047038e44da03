"""Siglent SDS1104X-E: a scope; channel 1 on the main load, 2 on the generator or the calibrator.

Quirks kept: answers carry header and unit until ``CHDR OFF``; there is no ``SYST:ERR?``, only
``CMR?`` and ``EXR?``; the sample rate answers with an SI suffix; a waveform is a block of signed
bytes with an empty line behind it, which must be drained; the picture is a bare BMP without a block
header. Source: the manuals that
profiles/siglent_sds1104xe.yaml names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from edged_sim import scpi
from edged_sim.models.families.scope import Capture, Scope, set_shown
from edged_sim.signals import bmp

CODES_PER_DIVISION: Final = 25
SAMPLES_PER_S: Final = 1e9
MOST_POINTS: Final = 14_000_000
DEPTHS: Final[Mapping[str, int]] = {"14K": 14_000, "140K": 140_000, "1.4M": 1_400_000}
PICTURE_S: Final = 0.05
UNDEFINED_HEADER: Final = 1
"""What ``CMR?`` says of a command that does not exist."""
BAD_VALUE: Final = 21
"""What ``EXR?`` says of a value that cannot be."""

PARAMETERS: Final[Mapping[str, tuple[str, str]]] = {
    "PKPK": ("pp", "V"),
    "MAX": ("max", "V"),
    "MIN": ("min", "V"),
    "MEAN": ("mean", "V"),
    "RMS": ("rms", "V"),
    "FREQ": ("freq", "Hz"),
    "PER": ("period", "S"),
    "DUTY": ("duty", "%"),
}
SI_SUFFIXES: Final = ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))


@dataclass(slots=True)
class Channel:
    """The settings of one input."""

    is_shown: bool
    division_v: float = 1.0
    offset_v: float = 0.0
    coupling: str = "D1M"
    attenuation: float = 1.0
    trigger_level_v: float = 0.0
    trigger_slope: str = "POS"

    def code(self, volts: float) -> int:
        """The signed code of ``volts``, which are code * division / 25 - offset."""
        code = round((volts + self.offset_v) * CODES_PER_DIVISION / self.division_v)
        return min(127, max(-128, code))


class Sds1104xe(Scope[Channel]):
    """The state of one unit."""

    divisions = 14

    def __init__(self, unit: scpi.SimUnit) -> None:
        super().__init__(unit)
        self.command_error = 0
        self.execution_error = 0

    def reset(self, now: float) -> None:  # noqa: ARG002 - the seam's argument
        self.channels = {
            number: Channel(number == 1) for number in range(1, self.channel_count + 1)
        }
        self.has_headers = True
        self.time_division_s = 1e-3
        self.delay_s = 0.0
        self.mode = "AUTO"
        self.trigger_source = "C1"
        self.sparsing, self.points, self.first_point = 0, 0, 0
        self.acquisition = "SAMPLING"
        self.depth = "140K"
        self.captures.clear()

    def describe(self, now: float) -> Mapping[str, Any]:  # noqa: ARG002 - the seam's argument
        return {
            "mode": self.mode,
            "has_headers": self.has_headers,
            "time_division_s": self.time_division_s,
            "channels": {
                f"c{number}": {"is_shown": channel.is_shown, "division_v": channel.division_v}
                for number, channel in self.channels.items()
            },
        }

    @property
    def is_live(self) -> bool:
        return self.mode != "STOP"

    def samples_per_s(self) -> float:
        """The sample rate, which the memory bounds."""
        return min(SAMPLES_PER_S, DEPTHS[self.depth] / self.window_s)

    def trace(self, number: int, now: float) -> Capture:
        """What the channel holds."""
        points = round(self.samples_per_s() * self.window_s)
        return self.held(
            number, lambda: self.capture(number, now, points=points, middle_s=self.delay_s)
        )

    def say(self, call: scpi.SimCall, value: str, unit: str = "") -> str:
        """An answer with the header before it and the unit behind it, until ``CHDR OFF``."""
        if not self.has_headers:
            return value
        return f"{call.header.removesuffix('?').upper()} {value}{unit}"

    def refuse(self) -> None:
        """Note a value that cannot be; nothing else tells."""
        self.execution_error = BAD_VALUE


def _number(value: float) -> str:
    return f"{value:.2E}"


def _si(value: float, unit: str) -> str:
    scale, suffix = next(pair for pair in SI_SUFFIXES if value >= pair[0] or pair[0] == 1.0)
    return f"{value / scale:.2f}{suffix}{unit}"


def _value(unit: Sds1104xe, call: scpi.SimCall, lowest: float, highest: float, of: str) -> float:
    try:
        return call.number(0, lowest=lowest, highest=highest, unit=of)
    except scpi.ScpiError:
        unit.refuse()
        raise


def set_headers(unit: Sds1104xe, call: scpi.SimCall) -> None:
    """``CHDR OFF``."""
    unit.has_headers = call.choice(0, {"OFF": False, "SHORT": True, "LONG": True})


def set_division(unit: Sds1104xe, call: scpi.SimCall) -> None:
    """``C<n>:VDIV``: 500 µV to 10 V, times the probe."""
    channel = unit.channel(call)
    factor = channel.attenuation
    channel.division_v = _value(unit, call, 500e-6 * factor, 10.0 * factor, "V")


def set_offset(unit: Sds1104xe, call: scpi.SimCall) -> None:
    """``C<n>:OFST``."""
    channel = unit.channel(call)
    most = 100.0 * channel.attenuation
    channel.offset_v = _value(unit, call, -most, most, "V")


def set_attenuation(unit: Sds1104xe, call: scpi.SimCall) -> None:
    """``C<n>:ATTN``: the division follows."""
    channel = unit.channel(call)
    factor = _value(unit, call, 0.1, 10_000.0, "")
    channel.division_v *= factor / channel.attenuation
    channel.attenuation = factor


def set_time_division(unit: Sds1104xe, call: scpi.SimCall) -> None:
    """``TDIV``."""
    unit.time_division_s = _value(unit, call, 1e-9, 100.0, "S")


def set_delay(unit: Sds1104xe, call: scpi.SimCall) -> None:
    """``TRDL``."""
    unit.delay_s = _value(unit, call, -100.0, 100.0, "S")


def set_mode(unit: Sds1104xe, call: scpi.SimCall) -> None:
    """``TRMD``."""
    modes = {"AUTO": "AUTO", "NORM": "NORM", "SINGLE": "SINGLE", "STOP": "STOP"}
    unit.mode = call.choice(0, modes)
    if unit.mode in ("SINGLE", "STOP"):
        stop(unit, call)


def stop(unit: Sds1104xe, call: scpi.SimCall) -> None:
    """``STOP``: keep what the shown channels see now."""
    unit.mode = "STOP"
    unit.captures.clear()
    for number in unit.shown():
        unit.trace(number, call.now)


def arm(unit: Sds1104xe, _call: scpi.SimCall) -> None:
    """``ARM``."""
    unit.mode = "NORM"


def set_trigger(unit: Sds1104xe, call: scpi.SimCall) -> None:
    """``TRSE EDGE,SR,C1,HT,OFF``."""
    call.choice(0, {"EDGE": None})
    unit.trigger_source = call.choice(2, {f"C{n}": f"C{n}" for n in unit.channels})


def set_trigger_level(unit: Sds1104xe, call: scpi.SimCall) -> None:
    """``C<n>:TRLV``."""
    channel = unit.channel(call)
    most = 4.5 * channel.division_v
    channel.trigger_level_v = _value(
        unit, call, -most - channel.offset_v, most - channel.offset_v, "V"
    )


def measure(unit: Sds1104xe, call: scpi.SimCall) -> str:
    """``C<n>:PAVA? PKPK`` → ``PKPK,2.00E-02`` (with ``V`` while headers are on); ``****``: none."""
    channel = unit.channel(call)
    name = call.choice(0, {name: name for name in PARAMETERS})
    item, of = PARAMETERS[name]
    text = "****"
    if channel.is_shown:
        trace = unit.trace(call.suffix(highest=unit.channel_count), call.now)
        value = trace.measure(item)
        if value is not None:
            text = f"{value:.6E}"
    return unit.say(call, f"{name},{text}", of)


def set_waveform(unit: Sds1104xe, call: scpi.SimCall) -> None:
    """``WFSU SP,0,NP,0,FP,0``: take every n-th point, how many (0: all), the first."""
    for place in range(0, len(call.arguments) - 1, 2):
        number = call.whole(place + 1, lowest=0, highest=MOST_POINTS)
        match call.text(place).upper():
            case "SP":
                unit.sparsing = number
            case "NP":
                unit.points = number
            case "FP":
                unit.first_point = number
            case _:
                raise scpi.ScpiError(-224)


def waveform(unit: Sds1104xe, call: scpi.SimCall) -> bytes:
    """``C<n>:WF? DAT2``: the block, and the empty line behind it."""
    number = call.suffix(highest=unit.channel_count)
    channel = unit.channels[number]
    call.choice(0, {"DAT2": None})
    if not channel.is_shown:
        unit.refuse()
        raise scpi.ScpiError(-221)
    trace = unit.trace(number, call.now)
    codes = bytes(channel.code(volts) & 0xFF for volts in trace.volts)
    left = max(0, trace.points - unit.first_point)
    step = max(1, unit.sparsing)
    data = trace.spread(codes, unit.first_point, left)[::step]
    if unit.points:
        data = data[: unit.points]
    header = f"C{number}:WF DAT2,".encode("ascii") if unit.has_headers else b""
    return header + scpi.block(data) + b"\n"


def screenshot(unit: Sds1104xe, _call: scpi.SimCall) -> scpi.Later:
    """``SCDP``: a command without a question mark that answers with a BMP."""

    def finish(now: float) -> bytes:
        rows = unit.screen(
            lambda number, channel: [
                (channel.code(volts) + 128) / 255 for volts in unit.trace(number, now).volts
            ]
        )
        return bmp(rows)

    return scpi.Later(PICTURE_S, finish)


def command_error(unit: Sds1104xe, call: scpi.SimCall) -> str:
    """``CMR?``: read once."""
    if -113 in unit.status.drain():
        unit.command_error = UNDEFINED_HEADER
    code, unit.command_error = unit.command_error, 0
    return unit.say(call, str(code))


def execution_error(unit: Sds1104xe, call: scpi.SimCall) -> str:
    """``EXR?``: read once."""
    code, unit.execution_error = unit.execution_error, 0
    return unit.say(call, str(code))


def state(unit: Sds1104xe, call: scpi.SimCall) -> str:
    """``SAST?``."""
    texts = {"AUTO": "Auto", "STOP": "Stop", "NORM": "Trig'd"}
    return unit.say(call, texts.get(unit.mode, "Ready"))


CHANNEL: Final = scpi.Settings(
    of=lambda u, c: u.channel(c), answer=lambda u, c, text: u.say(c, text)
)
OWN: Final = scpi.Settings(answer=lambda u, c, text: u.say(c, text))

VOCABULARY: Final = scpi.Vocabulary(
    {
        "CHDR": set_headers,
        "CHDR?": lambda u, c: u.say(c, "SHORT" if u.has_headers else "OFF"),
        "C<n>:VDIV": set_division,
        "C<n>:VDIV?": lambda u, c: u.say(c, _number(u.channel(c).division_v), "V"),
        "C<n>:OFST": set_offset,
        "C<n>:OFST?": lambda u, c: u.say(c, _number(u.channel(c).offset_v), "V"),
        **CHANNEL.choice("C<n>:CPL", "coupling", ("D1M", "A1M", "GND")),
        "C<n>:ATTN": set_attenuation,
        "C<n>:ATTN?": lambda u, c: u.say(c, f"{u.channel(c).attenuation:g}"),
        "C<n>:TRA": set_shown,
        "C<n>:TRA?": lambda u, c: u.say(c, "ON" if u.channel(c).is_shown else "OFF"),
        "TDIV": set_time_division,
        "TDIV?": lambda u, c: u.say(c, _number(u.time_division_s), "S"),
        "TRDL": set_delay,
        "TRDL?": lambda u, c: u.say(c, _number(u.delay_s), "S"),
        "SARA?": lambda u, c: u.say(c, _si(u.samples_per_s(), "Sa/s")),
        **OWN.choice("MSIZ", "depth", tuple(DEPTHS)),
        "TRMD": set_mode,
        "TRMD?": lambda u, c: u.say(c, u.mode),
        "ARM": arm,
        "STOP": stop,
        "FRTR": lambda _u, _c: None,
        "SAST?": state,
        "INR?": lambda u, c: u.say(c, "0" if u.mode == "STOP" else "1"),
        "TRSE": set_trigger,
        "TRSE?": lambda u, c: u.say(c, f"EDGE,SR,{u.trigger_source},HT,OFF"),
        "C<n>:TRLV": set_trigger_level,
        "C<n>:TRLV?": lambda u, c: u.say(c, _number(u.channel(c).trigger_level_v), "V"),
        **CHANNEL.choice("C<n>:TRSL", "trigger_slope", ("POS", "NEG", "WINDOW")),
        "C<n>:PAVA?": measure,
        # Or ``ACQW AVERAGE,16``.
        **OWN.choice(
            "ACQW",
            "acquisition",
            ("SAMPLING", "PEAK_DETECT", "AVERAGE", "HIGH_RES"),
        ),
        "WFSU": set_waveform,
        "WFSU?": lambda u, c: u.say(c, f"SP,{u.sparsing},NP,{u.points},FP,{u.first_point}"),
        "C<n>:WF?": waveform,
        "SCDP": screenshot,
        "CMR?": command_error,
        "EXR?": execution_error,
    }
)

MODEL: Final = scpi.ModelSpec(
    idn="Siglent Technologies,SDS1104X-E,{serial},7.6.1.20",
    serial="SDS1EBAC0L{number:04d}",
    first_number=98,
    dialect=scpi.Dialect(error_format="", latency_s=0.002),
    vocabulary=VOCABULARY,
    build=Sds1104xe,
)
