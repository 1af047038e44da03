"""Rigol DS1054Z: a scope; channel 1 on the main load, 2 on the generator or the calibrator.

Quirks kept: waveform and picture come as blocks with nine digits and a line end behind them; the
origin of the volt scale is in codes and moves with the channel's offset; RAW reads need a stopped
scope and give at most 250,000 points at once (more: an empty block and an error); codes 0 and 255
are clipped; 9.9E37 is "no measurement"; booleans answer 1 and 0. Source: the manuals that
profiles/rigol_ds1054z.yaml names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from edged_sim import scpi
from edged_sim.models.families.scope import Capture, Scope, set_shown
from edged_sim.signals import bmp, png

SCREEN_POINTS: Final = 1200
MOST_RAW_POINTS: Final = 250_000
FASTEST_SAMPLES_PER_S: Final = 1e9
CODES_PER_DIVISION: Final = 25
REFERENCE_CODE: Final = 127
DEEPEST: Final = 24_000_000
AUTO_DEPTH: Final = 12_000_000
DEPTHS: Final = (12_000, 120_000, 1_200_000, 12_000_000, 24_000_000)
"""Points of memory with one channel shown; two share them, three or four share a quarter."""
NO_MEASUREMENT: Final = "9.9E37"
PICTURE_S: Final = 0.05
MOST_PROBE: Final = 1000.0
PROBES: Final = tuple(float(f"{digit}e{power}") for power in range(-2, 4) for digit in (1, 2, 5))
ITEMS: Final[Mapping[str, str]] = {
    "VMAX": "max",
    "VMIN": "min",
    "VPP": "pp",
    "VAVG": "mean",
    "VRMS": "rms",
    "FREQuency": "freq",
    "PERiod": "period",
    "PDUTy": "duty",
}


@dataclass(slots=True)
class Channel:
    """The settings of one input; volts are those at the probe's tip."""

    is_shown: bool
    division_v: float = 1.0
    offset_v: float = 0.0
    coupling: str = "DC"
    probe: float = 1.0
    bandwidth: str = "OFF"

    @property
    def increment_v(self) -> float:
        """Volts a code."""
        return self.division_v / CODES_PER_DIVISION

    @property
    def origin(self) -> int:
        """The offset in codes."""
        return round(self.offset_v / self.increment_v)

    def code(self, volts: float) -> int:
        """The byte that stands for ``volts``; 0 and 255 where it does not fit."""
        return min(255, max(0, round(volts / self.increment_v) + self.origin + REFERENCE_CODE))


class Ds1054z(Scope[Channel]):
    """The state of one unit."""

    divisions = 12

    def reset(self, now: float) -> None:  # noqa: ARG002 - the seam's argument
        self.channels = {
            number: Channel(number == 1) for number in range(1, self.channel_count + 1)
        }
        self.time_division_s = 1e-3
        self.time_offset_s = 0.0
        self.depth = 0  # 0: automatic
        self.is_running = True
        self.sweep = "AUTO"
        self.trigger_source = "CHAN1"
        self.trigger_level_v = 0.0
        self.trigger_slope = "POS"
        self.wave_source = 1
        self.wave_mode = "NORM"
        self.first_point = 1
        self.last_point = SCREEN_POINTS
        self.captures.clear()

    def describe(self, now: float) -> Mapping[str, Any]:  # noqa: ARG002 - the seam's argument
        return {
            "is_running": self.is_running,
            "time_division_s": self.time_division_s,
            "channels": {
                f"chan{number}": {
                    "is_shown": channel.is_shown,
                    "division_v": channel.division_v,
                    "offset_v": channel.offset_v,
                }
                for number, channel in self.channels.items()
            },
        }

    @property
    def is_live(self) -> bool:
        return self.is_running

    def memory_points(self) -> int:
        """Points in memory as it is set."""
        if self.depth:
            return self.depth
        wanted = FASTEST_SAMPLES_PER_S / self._sharing() * self.window_s
        return int(min(AUTO_DEPTH / self._sharing(), max(SCREEN_POINTS, wanted)))

    def samples_per_s(self) -> float:
        """The sample rate, which the memory may bound."""
        return min(FASTEST_SAMPLES_PER_S / self._sharing(), self.memory_points() / self.window_s)

    def depths(self) -> tuple[int, ...]:
        """The depths that can be set with the channels shown now."""
        return tuple(depth // self._sharing() for depth in DEPTHS)

    def trace(self, number: int, mode: str, now: float) -> Capture:
        """What the channel holds, as it is on the screen (NORM) or in memory (RAW)."""
        points = SCREEN_POINTS if mode == "NORM" else self.memory_points()
        return self.held(
            (number, mode),
            lambda: self.capture(number, now, points=points, middle_s=self.time_offset_s),
        )

    def stop(self, now: float) -> None:
        """Keep what is on the screen now."""
        if self.is_running:
            self.is_running = False
            self.captures.clear()
        for number in self.shown():
            for mode in ("NORM", "RAW"):
                self.trace(number, mode, now)

    def _sharing(self) -> int:
        shown = len(self.shown())
        return 1 if shown <= 1 else 2 if shown == 2 else 4


def _number(value: float) -> str:
    return f"{value:.6e}"


def set_division(unit: Ds1054z, call: scpi.SimCall) -> None:
    """``:CHAN<n>:SCAL``: 1 mV to 10 V, times the probe."""
    channel = unit.channel(call)
    channel.division_v = call.number(
        0, lowest=1e-3 * channel.probe, highest=10.0 * channel.probe, unit="V"
    )


def set_offset(unit: Ds1054z, call: scpi.SimCall) -> None:
    """``:CHAN<n>:OFFS``: 2 V at fine scales, 100 V at coarse ones, times the probe."""
    channel = unit.channel(call)
    most = (100.0 if channel.division_v / channel.probe >= 0.5 else 2.0) * channel.probe
    channel.offset_v = call.number(0, lowest=-most, highest=most, unit="V")


def set_probe(unit: Ds1054z, call: scpi.SimCall) -> None:
    """``:CHAN<n>:PROB``: only the steps of the menu; the scale follows."""
    channel = unit.channel(call)
    asked = call.number(0, lowest=PROBES[0], highest=MOST_PROBE)
    if scpi.nearest_at_least(asked, PROBES) > asked * (1 + 1e-6):
        raise scpi.ScpiError(-222)
    channel.division_v *= asked / channel.probe
    channel.probe = asked


def set_depth(unit: Ds1054z, call: scpi.SimCall) -> None:
    """``:ACQ:MDEP``: AUTO or one of the depths that the shown channels leave; only running."""
    if not unit.is_running:
        raise scpi.ScpiError(-221)
    if call.text(0).upper() == "AUTO":
        unit.depth = 0
        return
    depth = call.whole(0, lowest=0, highest=DEEPEST)
    if depth not in unit.depths():
        raise scpi.ScpiError(-222)
    unit.depth = depth


def run(unit: Ds1054z, _call: scpi.SimCall) -> None:
    """``:RUN``."""
    unit.is_running = True


def stop(unit: Ds1054z, call: scpi.SimCall) -> None:
    """``:STOP``."""
    unit.stop(call.now)


def single(unit: Ds1054z, call: scpi.SimCall) -> None:
    """``:SING``: one capture, then stopped."""
    unit.is_running = True
    unit.sweep = "SING"
    unit.stop(call.now)


def trigger_status(unit: Ds1054z, _call: scpi.SimCall) -> str:
    """``:TRIG:STAT?``."""
    return "STOP" if not unit.is_running else "AUTO" if unit.sweep == "AUTO" else "TD"


def set_trigger_level(unit: Ds1054z, call: scpi.SimCall) -> None:
    """``:TRIG:EDGE:LEV``: five divisions around the offset."""
    channel = unit.channels[int(unit.trigger_source[-1])]
    most = 5 * channel.division_v
    unit.trigger_level_v = call.number(
        0, lowest=-most - channel.offset_v, highest=most - channel.offset_v, unit="V"
    )


def measure(unit: Ds1054z, call: scpi.SimCall) -> str:
    """``:MEAS:ITEM? VPP,CHAN1``."""
    item = call.choice(0, ITEMS)
    sources = {f"CHANnel{n}": n for n in unit.channels}
    number = call.choice(1, sources) if call.has(1) else 1
    if not unit.channels[number].is_shown:
        return NO_MEASUREMENT
    trace = unit.trace(number, "NORM", call.now)
    value = trace.measure(item)
    return NO_MEASUREMENT if value is None else _number(value)


def set_wave_source(unit: Ds1054z, call: scpi.SimCall) -> None:
    """``:WAV:SOUR``."""
    unit.wave_source = call.choice(0, {f"CHANnel{n}": n for n in unit.channels})


def set_wave_mode(unit: Ds1054z, call: scpi.SimCall) -> None:
    """``:WAV:MODE``: start and stop become those of the whole trace."""
    unit.wave_mode = call.choice(0, {"NORMal": "NORM", "MAXimum": "MAX", "RAW": "RAW"})
    unit.first_point = 1
    unit.last_point = unit.memory_points() if _is_raw(unit) else SCREEN_POINTS


def set_wave_format(_unit: Ds1054z, call: scpi.SimCall) -> None:
    """``:WAV:FORM``: this unit is asked for bytes only."""
    call.choice(0, {"BYTE": "BYTE"})


def _is_raw(unit: Ds1054z) -> bool:
    return unit.wave_mode == "RAW" or (unit.wave_mode == "MAX" and not unit.is_running)


def _available(unit: Ds1054z) -> int:
    return unit.memory_points() if _is_raw(unit) else SCREEN_POINTS


def _wanted(unit: Ds1054z, call: scpi.SimCall) -> tuple[Capture, int]:
    """The trace of the chosen source, and how many points of it were asked for."""
    trace = unit.trace(unit.wave_source, "RAW" if _is_raw(unit) else "NORM", call.now)
    return trace, max(0, min(unit.last_point, trace.points) - unit.first_point + 1)


def preamble(unit: Ds1054z, call: scpi.SimCall) -> str:
    """``:WAV:PRE?``: format, type, points, count, x (increment, origin, reference), y the same."""
    trace, points = _wanted(unit, call)
    channel = unit.channels[unit.wave_source]
    return (
        f"0,{2 if _is_raw(unit) else 0},{points},1,"
        f"{_number(trace.interval_s)},{_number(trace.start_s)},0,"
        f"{_number(channel.increment_v)},{channel.origin},{REFERENCE_CODE}"
    )


def data(unit: Ds1054z, call: scpi.SimCall) -> bytes:
    """``:WAV:DATA?``: the block from start to stop."""
    channel = unit.channels[unit.wave_source]
    if not channel.is_shown or (_is_raw(unit) and unit.is_running):
        raise scpi.ScpiError(-221)
    trace, points = _wanted(unit, call)
    if points > MOST_RAW_POINTS:
        unit.status.push(-222)
        return scpi.block(b"")
    codes = bytes(map(channel.code, trace.volts))
    return scpi.block(trace.spread(codes, unit.first_point - 1, points))


def screenshot(unit: Ds1054z, call: scpi.SimCall) -> scpi.Later:
    """``:DISP:DATA? ON,OFF,PNG``: without arguments a BMP of over a megabyte."""
    kinds = {"BMP24": "bmp", "BMP8": "bmp", "PNG": "png"}
    kind = call.choice(2, kinds) if call.has(2) else "bmp"

    def finish(now: float) -> bytes:
        rows = unit.screen(
            lambda number, channel: [
                channel.code(volts) / 255 for volts in unit.trace(number, "NORM", now).volts
            ]
        )
        return scpi.block(png(rows) if kind == "png" else bmp(rows))

    return scpi.Later(PICTURE_S, finish)


CHANNEL: Final = scpi.Settings(of=lambda u, c: u.channel(c))

OWN: Final = scpi.Settings(say=_number)

VOCABULARY: Final = scpi.Vocabulary(
    {
        ":CHANnel<n>:DISPlay": set_shown,
        ":CHANnel<n>:DISPlay?": lambda u, c: scpi.flag(u.channel(c).is_shown),
        ":CHANnel<n>:SCALe": set_division,
        ":CHANnel<n>:SCALe?": lambda u, c: _number(u.channel(c).division_v),
        ":CHANnel<n>:OFFSet": set_offset,
        ":CHANnel<n>:OFFSet?": lambda u, c: _number(u.channel(c).offset_v),
        **CHANNEL.choice(":CHANnel<n>:COUPling", "coupling", ("AC", "DC", "GND")),
        ":CHANnel<n>:PROBe": set_probe,
        ":CHANnel<n>:PROBe?": lambda u, c: _number(u.channel(c).probe),
        **CHANNEL.choice(":CHANnel<n>:BWLimit", "bandwidth", ("20M", "OFF")),
        **OWN.number(":TIMebase[:MAIN]:SCALe", "time_division_s", 5e-9, 50.0, unit="S"),
        **OWN.number(":TIMebase[:MAIN]:OFFSet", "time_offset_s", -1.0, 1.0, unit="S"),
        ":ACQuire:MDEPth": set_depth,
        ":ACQuire:MDEPth?": lambda u, _c: str(u.depth or "AUTO"),
        ":ACQuire:SRATe?": lambda u, _c: _number(u.samples_per_s()),
        ":ACQuire:TYPE": lambda _u, c: c.choice(0, {"NORMal": None, "AVERages": None}),
        ":ACQuire:TYPE?": lambda _u, _c: "NORM",
        ":RUN": run,
        ":STOP": stop,
        ":SINGle": single,
        ":TFORce": lambda _u, _c: None,
        ":AUToscale": run,
        ":TRIGger:STATus?": trigger_status,
        ":TRIGger:MODE": lambda _u, c: c.choice(0, {"EDGE": None}),
        ":TRIGger:MODE?": lambda _u, _c: "EDGE",
        **scpi.OWN.choice(
            ":TRIGger:SWEep", "sweep", {"AUTO": "AUTO", "NORMal": "NORM", "SINGle": "SING"}
        ),
        **scpi.OWN.row(
            ":TRIGger:EDGe:SOURce",
            "trigger_source",
            lambda u, c: c.choice(0, {f"CHANnel{n}": f"CHAN{n}" for n in u.channels}),
        ),
        ":TRIGger:EDGe:LEVel": set_trigger_level,
        ":TRIGger:EDGe:LEVel?": lambda u, _c: _number(u.trigger_level_v),
        **scpi.OWN.choice(
            ":TRIGger:EDGe:SLOPe",
            "trigger_slope",
            {"POSitive": "POS", "NEGative": "NEG", "RFALl": "RFAL"},
        ),
        ":MEASure:ITEM": lambda _u, c: c.choice(0, dict.fromkeys(ITEMS)),
        ":MEASure:ITEM?": measure,
        ":WAVeform:SOURce": set_wave_source,
        ":WAVeform:SOURce?": lambda u, _c: f"CHAN{u.wave_source}",
        ":WAVeform:MODE": set_wave_mode,
        ":WAVeform:MODE?": lambda u, _c: u.wave_mode,
        ":WAVeform:FORMat": set_wave_format,
        ":WAVeform:FORMat?": lambda _u, _c: "BYTE",
        # From 1.
        **scpi.OWN.row(
            ":WAVeform:STARt",
            "first_point",
            lambda u, c: c.whole(0, lowest=1, highest=_available(u)),
        ),
        # Included.
        **scpi.OWN.row(
            ":WAVeform:STOP", "last_point", lambda u, c: c.whole(0, lowest=1, highest=_available(u))
        ),
        ":WAVeform:PREamble?": preamble,
        ":WAVeform:DATA?": data,
        ":DISPlay:DATA?": screenshot,
        "*OPT?": lambda _u, _c: "0",
    }
)

MODEL: Final = scpi.ModelSpec(
    idn="RIGOL TECHNOLOGIES,DS1054Z,{serial},00.04.04.SP4",
    serial="DS1ZA{number:09d}",
    first_number=170_300_123,
    dialect=scpi.Dialect(error_format='{code},"{text}"', latency_s=0.002),
    vocabulary=VOCABULARY,
    build=Ds1054z,
)
