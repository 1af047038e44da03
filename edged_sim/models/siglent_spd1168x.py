"""Siglent SPD1168X: one output whose state is told by a hexadecimal word and by nothing else.

Quirks kept: the identity has five fields; what arrives right after a write is lost; there is no
``OUTP?``; bit 0 of the status word tells that the current is limited, 4 that the output is on, 5
that it senses with four wires, 6 that the timer runs. Source: the manuals that
profiles/siglent_spd1168x.yaml names.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from edged_sim.models.families.supply import Supply, SupplyChannel, memory_words
from edged_sim.scpi import Dialect, ModelSpec, ScpiError, SimCall, SimUnit, Vocabulary

LOST_WITHIN_S: Final = 0.08
MOST_STEPS: Final = 5
MOST_MEMORIES: Final = 5
CHANNELS: Final = {"CH1": 1}


@dataclass(kw_only=True)
class Channel(SupplyChannel):
    """The output; the steps are those of its timer: volts, amperes, seconds."""

    gain_error = 300e-6
    noise_v = 0.002
    noise_a = 0.001

    amps: float
    steps: dict[int, tuple[float, float, float]] = field(default_factory=dict)
    has_timer: bool = False
    is_four_wire: bool = False

    def reset(self) -> None:
        """As delivered."""
        self.reset_wires(self.amps)
        self.steps = dict.fromkeys(range(1, MOST_STEPS + 1), (0.0, 0.0, 0.0))
        self.has_timer = self.is_four_wire = False

    def describe(self, now: float) -> dict[str, Any]:
        return {**super().describe(now), "has_timer": self.has_timer}


class Spd1000x(Supply[Channel]):
    """The state of one unit of the series."""

    highest_v: ClassVar[float] = 16.0
    highest_a: ClassVar[float] = 8.0

    def __init__(self, unit: SimUnit) -> None:
        super().__init__({1: Channel(amps=self.highest_a, **Channel.wires(unit, 1))})

    def asked_volts(self, call: SimCall, place: int) -> float:
        """The voltage that a call names at ``place``."""
        return round(call.number(place, lowest=0.0, highest=self.highest_v, unit="V"), 3)

    def asked_amps(self, call: SimCall, place: int) -> float:
        """The current limit that a call names at ``place``."""
        return round(call.number(place, lowest=0.0, highest=self.highest_a, unit="A"), 3)


def own(unit: Spd1000x, call: SimCall) -> Channel:
    """The channel of ``CH1:…``."""
    return unit.channels[call.suffix(highest=1)]


def set_volts(unit: Spd1000x, call: SimCall) -> None:
    """``CH1:VOLT 5``."""
    own(unit, call).set_volts(unit.asked_volts(call, 0), call.now)


def set_amps(unit: Spd1000x, call: SimCall) -> None:
    """``CH1:CURR 1``."""
    own(unit, call).set_amps(unit.asked_amps(call, 0), call.now)


def switch(unit: Spd1000x, call: SimCall) -> None:
    """``OUTP CH1,ON``."""
    call.choice(0, CHANNELS)
    is_on = call.choice(1, {"ON": True, "OFF": False})
    unit.channel.node.advance(call.now)
    unit.channel.source.is_on = is_on


def measure(unit: Spd1000x, call: SimCall, what: int) -> str:
    """``MEAS:VOLT? CH1``, and the same for CURR and POWE."""
    if call.has(0):
        call.choice(0, CHANNELS)
    return f"{unit.channel.display(call)[what]:.3f}"


def status(unit: Spd1000x, call: SimCall) -> str:
    """``SYST:STAT?`` → ``0x11``."""
    channel = unit.channel
    word = channel.regulation(call.now) & 1
    word |= int(channel.source.is_on) << 4
    word |= int(channel.is_four_wire) << 5
    word |= int(channel.has_timer) << 6
    return f"0x{word:x}"


def set_step(unit: Spd1000x, call: SimCall) -> None:
    """``TIME:SET CH1,2,3,0.5,2``: step 2 holds 3 V, 0.5 A for 2 s."""
    call.choice(0, CHANNELS)
    number = call.whole(1, lowest=1, highest=MOST_STEPS)
    seconds = call.number(4, lowest=0.0, highest=10_000.0, unit="S")
    unit.channel.steps[number] = (unit.asked_volts(call, 2), unit.asked_amps(call, 3), seconds)


def set_timer(unit: Spd1000x, call: SimCall) -> None:
    """``TIME CH1,ON``."""
    call.choice(0, CHANNELS)
    unit.channel.has_timer = call.boolean(1)


def set_mode(unit: Spd1000x, call: SimCall) -> None:
    """``MODE:SET 4W``."""
    unit.channel.is_four_wire = call.choice(0, {"2W": False, "4W": True})


def no_such_question(_unit: Spd1000x, _call: SimCall) -> None:
    """``OUTP?``: does not exist and is never answered."""
    raise ScpiError(-113)


VOCABULARY: Final = Vocabulary(
    {
        ":CH<n>:VOLTage": set_volts,
        ":CH<n>:VOLTage?": lambda u, c: f"{own(u, c).source.volts:.3f}",
        ":CH<n>:CURRent": set_amps,
        ":CH<n>:CURRent?": lambda u, c: f"{own(u, c).source.amps_limit:.3f}",
        ":OUTPut": switch,
        ":OUTPut?": no_such_question,
        ":MEASure:VOLTage?": lambda u, c: measure(u, c, 0),
        ":MEASure:CURRent?": lambda u, c: measure(u, c, 1),
        ":MEASure:POWEr?": lambda u, c: measure(u, c, 2),
        ":MODE:SET": set_mode,
        ":SYSTem:STATus?": status,
        ":SYSTem:VERSion?": lambda _u, _c: "2.1.1.9R1",
        ":INSTrument": lambda _u, c: c.choice(0, dict.fromkeys(CHANNELS)),
        ":INSTrument?": lambda _u, _c: "CH1",
        ":TIMEr:SET": set_step,
        ":TIMEr": set_timer,
        "*LOCK": lambda _u, _c: None,
        "*UNLOCK": lambda _u, _c: None,
        **memory_words(MOST_MEMORIES),
    }
)

MODEL: Final = ModelSpec(
    idn="Siglent Technologies,SPD1168X,{serial},2.1.1.9R1,V1.0",
    serial="SPD1XEAX4R{number:04d}",
    first_number=95,
    dialect=Dialect(
        error_format="{code:+d},{text}",
        error_texts={0: "No Error"},
        latency_s=0.004,
        deaf_s=LOST_WITHIN_S,
    ),
    vocabulary=VOCABULARY,
    build=Spd1000x,
)
