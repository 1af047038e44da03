"""Siglent SPD3303X-E: two channels and a fixed third, and a short memory for commands.

Quirks kept: the identity has five fields; what arrives right after a write is lost (so is the
question of a compound habit); there is no ``OUTP?``, only a status word in hexadecimal; the third
channel can be switched and nothing else, its voltage is chosen at the front panel; in series and
parallel the second channel follows the first; ``0  No Error`` has no comma. Source: the manuals
that profiles/siglent_spd3303x.yaml names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from edged_sim.models.families.supply import Supply, SupplyChannel, memory_words
from edged_sim.scpi import Dialect, ModelSpec, ScpiError, SimCall, SimUnit, Vocabulary

HIGHEST_V: Final = 32.0
HIGHEST_A: Final = 3.2
FIXED_V: Final = 3.3
"""Where the switch of channel 3 stands; 2.5, 3.3 or 5 V."""
LOST_WITHIN_S: Final = 0.08
"""The facts say about 100 ms after each write; less here, so that 100 ms always suffice."""
CHANNELS: Final = {"CH1": 1, "CH2": 2, "CH3": 3}
ADJUSTABLE: Final = {"CH1": 1, "CH2": 2}
MODE_BITS: Final = {0: 1, 1: 3, 2: 2}
"""OUTP:TRACK 0, 1, 2 (independent, series, parallel) → bits 2 and 3 of the status word."""
MOST_STEPS: Final = 5
MOST_MEMORIES: Final = 5


@dataclass(kw_only=True)
class Channel(SupplyChannel):
    """One output; the steps are those of its timer: volts, amperes, seconds."""

    gain_error = 300e-6
    noise_v = 0.003
    noise_a = 0.001

    steps: dict[int, tuple[float, float, float]] = field(default_factory=dict)
    has_timer: bool = False
    has_wave: bool = False

    def reset(self) -> None:
        """As delivered."""
        self.reset_wires(HIGHEST_A)
        self.steps = dict.fromkeys(range(1, MOST_STEPS + 1), (0.0, HIGHEST_A, 0.0))
        self.has_timer = self.has_wave = False

    def describe(self, now: float) -> dict[str, Any]:
        return {**super().describe(now), "has_timer": self.has_timer}


class Spd3303x(Supply[Channel]):
    """The state of one unit."""

    def __init__(self, unit: SimUnit) -> None:
        super().__init__({n: Channel(**Channel.wires(unit, n)) for n in CHANNELS.values()})
        self.reset(0.0)

    def reset(self, now: float) -> None:
        super().reset(now)
        self.track = 0
        self.channels[3].source.volts = FIXED_V

    def describe(self, now: float) -> Mapping[str, Any]:
        return {**super().describe(now), "track": self.track}

    def adjustable(self, call: SimCall) -> Channel:
        """The channel of ``CH<n>:…``; the third one has nothing to set."""
        return self.channels[call.suffix(highest=2)]

    def followers(self, call: SimCall) -> list[Channel]:
        """The channels that a set-point goes to."""
        if self.track:
            return [self.channels[1], self.channels[2]]
        return [self.adjustable(call)]


def set_volts(unit: Spd3303x, call: SimCall) -> None:
    """``CH1:VOLT 5``."""
    volts = call.number(0, lowest=0.0, highest=HIGHEST_V, unit="V")
    for channel in unit.followers(call):
        channel.set_volts(round(volts, 3), call.now)


def set_amps(unit: Spd3303x, call: SimCall) -> None:
    """``CH1:CURR 1``."""
    amps = call.number(0, lowest=0.0, highest=HIGHEST_A, unit="A")
    for channel in unit.followers(call):
        channel.set_amps(round(amps, 3), call.now)


def switch(unit: Spd3303x, call: SimCall) -> None:
    """``OUTP CH1,ON``; with two arguments always."""
    channel = unit.channels[call.choice(0, CHANNELS)]
    is_on = call.choice(1, {"ON": True, "OFF": False})
    channel.node.advance(call.now)
    channel.source.is_on = is_on


def set_track(unit: Spd3303x, call: SimCall) -> None:
    """``OUTP:TRACK 1``."""
    unit.track = call.whole(0, lowest=0, highest=2)
    if unit.track:
        first, second = unit.channels[1].source, unit.channels[2].source
        second.volts, second.amps_limit = first.volts, first.amps_limit


def measure(unit: Spd3303x, call: SimCall, what: int) -> str:
    """``MEAS:VOLT? CH1``, and the same for CURR and POWE."""
    number = call.choice(0, ADJUSTABLE) if call.has(0) else unit.selected
    return f"{unit.channels[number].display(call)[what]:.3f}"


def status(unit: Spd3303x, call: SimCall) -> str:
    """``SYST:STAT?`` → ``0x14``: bits 0, 1 CC of channels 1, 2; 2, 3 mode; 4, 5 on; 6, 7 timer."""
    word = MODE_BITS[unit.track] << 2
    for index in (0, 1):
        channel = unit.channels[index + 1]
        limiting = channel.node.advance(call.now).is_limiting and channel.source.is_on
        word |= int(limiting) << index
        word |= int(channel.source.is_on) << (4 + index)
        word |= int(channel.has_timer) << (6 + index)
        word |= int(channel.has_wave) << (8 + index)
    return f"0x{word:x}"


def set_step(unit: Spd3303x, call: SimCall) -> None:
    """``TIME:SET CH1,2,3,0.5,2``: step 2 holds 3 V, 0.5 A for 2 s."""
    channel = unit.channels[call.choice(0, ADJUSTABLE)]
    number = call.whole(1, lowest=1, highest=MOST_STEPS)
    channel.steps[number] = (
        call.number(2, lowest=0.0, highest=HIGHEST_V, unit="V"),
        call.number(3, lowest=0.0, highest=HIGHEST_A, unit="A"),
        call.number(4, lowest=0.0, highest=10_000.0, unit="S"),
    )


def get_step(unit: Spd3303x, call: SimCall) -> str:
    """``TIME:SET? CH1,2`` → ``3.000,0.500,2``."""
    channel = unit.channels[call.choice(0, ADJUSTABLE)]
    volts, amps, seconds = channel.steps[call.whole(1, lowest=1, highest=MOST_STEPS)]
    return f"{volts:.3f},{amps:.3f},{seconds:g}"


def set_timer(unit: Spd3303x, call: SimCall) -> None:
    """``TIME CH1,ON``."""
    channel = unit.channels[call.choice(0, ADJUSTABLE)]
    channel.has_timer = call.boolean(1)


def set_wave(unit: Spd3303x, call: SimCall) -> None:
    """``OUTP:WAVE CH1,ON``: a curve instead of digits on the screen."""
    unit.channels[call.choice(0, ADJUSTABLE)].has_wave = call.boolean(1)


def select(unit: Spd3303x, call: SimCall) -> None:
    """``INST CH1``."""
    unit.selected = call.choice(0, ADJUSTABLE)


def no_such_question(_unit: Spd3303x, _call: SimCall) -> None:
    """``OUTP?``: does not exist and is never answered."""
    raise ScpiError(-113)


VOCABULARY: Final = Vocabulary(
    {
        ":CH<n>:VOLTage": set_volts,
        ":CH<n>:VOLTage?": lambda u, c: f"{u.adjustable(c).source.volts:.3f}",
        ":CH<n>:CURRent": set_amps,
        ":CH<n>:CURRent?": lambda u, c: f"{u.adjustable(c).source.amps_limit:.3f}",
        ":OUTPut": switch,
        ":OUTPut?": no_such_question,
        ":OUTPut:TRACK": set_track,
        ":OUTPut:WAVE": set_wave,
        ":MEASure:VOLTage?": lambda u, c: measure(u, c, 0),
        ":MEASure:CURRent?": lambda u, c: measure(u, c, 1),
        ":MEASure:POWEr?": lambda u, c: measure(u, c, 2),
        ":SYSTem:STATus?": status,
        ":SYSTem:VERSion?": lambda _u, _c: "1.01.01.02.07R2",
        ":INSTrument": select,
        ":INSTrument?": lambda u, _c: f"CH{u.selected}",
        ":TIMEr:SET": set_step,
        ":TIMEr:SET?": get_step,
        ":TIMEr": set_timer,
        **memory_words(MOST_MEMORIES),
    }
)

MODEL: Final = ModelSpec(
    idn="Siglent Technologies,SPD3303X-E,{serial},1.01.01.02.07R2,V3.0",
    serial="SPD3XIDX5R{number:04d}",
    first_number=3677,
    dialect=Dialect(
        error_format="{code}  {text}",
        error_texts={0: "No Error"},
        latency_s=0.004,
        deaf_s=LOST_WITHIN_S,
    ),
    vocabulary=VOCABULARY,
    build=Spd3303x,
)
