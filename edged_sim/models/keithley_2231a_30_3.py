"""Keithley 2231A-30-3: three channels of which one is selected.

Quirks kept: whatever names no channel means the selected one, and the selection is the
instrument's; ``CHAN:OUTP`` is that channel's switch, ``OUTP`` that of all three; the identity has
blanks behind its commas. Published programs send ``SYST:REM`` first, so that nothing but questions
is taken before it here. Source: the manuals that profiles/keithley_2231a_30_3.yaml names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from edged_sim.models.families.supply import Supply, SupplyChannel
from edged_sim.scpi import Dialect, ModelSpec, ScpiError, SimCall, SimUnit, Vocabulary, flag

RATINGS: Final = {1: (30.0, 3.0), 2: (30.0, 3.0), 3: (5.0, 3.0)}
"""Volts and amperes of each channel."""
IS_ON: Final = 8


@dataclass(kw_only=True)
class Channel(SupplyChannel):
    """One output and what it is rated for."""

    gain_error = 400e-6
    noise_v = 0.002
    noise_a = 0.0005

    volts: float
    amps: float
    timer_s: float = 60.0
    has_timer: bool = False

    def reset(self) -> None:
        """As delivered."""
        self.reset_wires(self.amps)
        self.timer_s, self.has_timer = 60.0, False

    def condition(self, now: float) -> int:
        """Bit 0: constant voltage, 1: constant current, 3: on."""
        held = {1: 2, 2: 1}.get(self.regulation(now), 0)
        return held | (IS_ON if self.source.is_on else 0)


class K2231a(Supply[Channel]):
    """The state of one unit."""

    def __init__(self, unit: SimUnit) -> None:
        super().__init__(
            {
                number: Channel(volts=volts, amps=amps, **Channel.wires(unit, number))
                for number, (volts, amps) in RATINGS.items()
            }
        )
        self.is_remote = False


def remotely(do: Callable[[K2231a, SimCall], None]) -> Callable[[K2231a, SimCall], None]:
    """What is refused as long as the front panel has the instrument."""

    def done(unit: K2231a, call: SimCall) -> None:
        if not unit.is_remote:
            raise ScpiError(-221)
        do(unit, call)

    return done


def set_remote(unit: K2231a, _call: SimCall) -> None:
    """``SYST:REM`` and ``SYST:RWL``."""
    unit.is_remote = True


def set_local(unit: K2231a, _call: SimCall) -> None:
    """``SYST:LOC``."""
    unit.is_remote = False


def select(unit: K2231a, call: SimCall) -> None:
    """``INST:NSEL 2``."""
    unit.selected = call.whole(0, lowest=1, highest=3)


def select_name(unit: K2231a, call: SimCall) -> None:
    """``INST CH2``."""
    unit.selected = call.choice(0, {f"CH{n}": n for n in unit.channels})


def set_volts(unit: K2231a, call: SimCall) -> None:
    """``VOLT 5``."""
    most = unit.channel.volts
    unit.channel.set_volts(call.number(0, lowest=0.0, highest=most, unit="V"), call.now)


def set_amps(unit: K2231a, call: SimCall) -> None:
    """``CURR 1``."""
    most = unit.channel.amps
    unit.channel.set_amps(call.number(0, lowest=0.0, highest=most, unit="A"), call.now)


def _switch(channels: list[Channel], call: SimCall) -> None:
    for channel in channels:
        channel.node.advance(call.now)
        channel.source.is_on = call.boolean(0)


def set_timer(unit: K2231a, call: SimCall) -> None:
    """``OUTP:TIM:DEL 5``."""
    unit.channel.timer_s = call.number(0, lowest=0.1, highest=9999.9, unit="S")


def enable_timer(unit: K2231a, call: SimCall) -> None:
    """``OUTP:TIM ON``."""
    unit.channel.has_timer = call.boolean(0)


WRITES: Final[dict[str, Callable[[K2231a, SimCall], None]]] = {
    ":INSTrument:NSELect": select,
    ":INSTrument[:SELect]": select_name,
    "[:SOURce]:VOLTage[:LEVel][:IMMediate][:AMPLitude]": set_volts,
    "[:SOURce]:CURRent[:LEVel][:IMMediate][:AMPLitude]": set_amps,
    "[:SOURce]:CHANnel:OUTPut[:STATe]": lambda u, c: _switch([u.channel], c),
    ":OUTPut[:STATe]": lambda u, c: _switch(list(u.channels.values()), c),
    ":OUTPut:TIMer:DELay": set_timer,
    ":OUTPut:TIMer[:STATe]": enable_timer,
}
QUESTIONS: Final[dict[str, Any]] = {
    ":INSTrument:NSELect?": lambda u, _c: str(u.selected),
    ":INSTrument[:SELect]?": lambda u, _c: f"CH{u.selected}",
    "[:SOURce]:VOLTage[:LEVel][:IMMediate][:AMPLitude]?": lambda u, _c: (
        f"{u.channel.source.volts:.3f}"
    ),
    "[:SOURce]:CURRent[:LEVel][:IMMediate][:AMPLitude]?": lambda u, _c: (
        f"{u.channel.source.amps_limit:.3f}"
    ),
    "[:SOURce]:CHANnel:OUTPut[:STATe]?": lambda u, _c: flag(u.channel.source.is_on),
    ":OUTPut:TIMer[:STATe]?": lambda u, _c: flag(u.channel.has_timer),
    ":OUTPut:TIMer:DELay?": lambda u, _c: f"{u.channel.timer_s:.1f}",
    ":MEASure[:SCALar]:VOLTage[:DC]?": lambda u, c: f"{u.channel.display(c)[0]:.3f}",
    ":MEASure[:SCALar]:CURRent[:DC]?": lambda u, c: f"{u.channel.display(c)[1]:.4f}",
    ":STATus:OPERation:INSTrument:ISUMmary<n>:CONDition?": lambda u, c: str(
        u.channels[c.suffix(highest=3)].condition(c.now)
    ),
}
VOCABULARY: Final = Vocabulary(
    {
        **{header: remotely(do) for header, do in WRITES.items()},
        **QUESTIONS,
        ":SYSTem:REMote": set_remote,
        ":SYSTem:RWLock": set_remote,
        ":SYSTem:LOCal": set_local,
        ":SYSTem:BEEPer[:IMMediate]": lambda _u, _c: None,
    }
)

MODEL: Final = ModelSpec(
    idn="Keithley instruments, 2231A-30-3, {serial}, 1.01-1.04",
    serial="{number:018d}",
    first_number=9203269,
    dialect=Dialect(error_format='{code},"{text}"', latency_s=0.004),
    vocabulary=VOCABULARY,
    build=K2231a,
)
