"""TDK-Lambda GENESYS+ G10-100: 10 V and 100 A, one output.

Quirks of its watchdog kept: it counts only from the first message *after* it was enabled, or after
its time was changed; any message feeds it, one that nobody understands too; having switched off it
puts 342 into the error queue and sets bit 15 of the Questionable register; an output does not come
on until that is cleared, which disabling the watchdog does, too. Clearing leaves the output off
here; the manual says nothing of that. Source: the manual that profiles/tdk_g10_100.yaml names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from edged_sim.models.families.supply import Supply, SupplyChannel
from edged_sim.models.families.watchdog import OutputWatchdog
from edged_sim.scpi import Dialect, ModelSpec, ScpiError, SimCall, SimUnit, Status, Vocabulary, flag

VOLTS: Final = 10.0
AMPS: Final = 100.0
MORE: Final = 1.05
"""How far beyond its rating it can be set."""
DELAY_S: Final = 10.0
LONGEST_S: Final = 3600
TIMED_OUT: Final = 342
BITS: Final[Mapping[str, int]] = {"": 0, "over_voltage": 16, "over_current": 8}
WATCHDOG_BIT: Final = 32768


@dataclass(kw_only=True)
class Channel(SupplyChannel):
    """Its output."""

    gain_error = 500e-6
    noise_v = 0.001
    noise_a = 0.005

    def reset(self) -> None:
        """As delivered."""
        self.reset_wires(0.0)
        self.over_volts = self.source.over_voltage = VOLTS * 1.2


class G10100(Supply[Channel]):
    """The state of one unit."""

    def __init__(self, unit: SimUnit) -> None:
        super().__init__({1: Channel(**Channel.wires(unit, 1))})
        self.watchdog = OutputWatchdog(outputs=(self.channel.source,), delay_s=DELAY_S)
        self._status: Status = unit.status

    def look(self, now: float) -> None:
        """Let the time until now pass."""
        was_tripped = self.watchdog.is_tripped
        self.watchdog.look(now)
        self.channel.node.advance(now)
        if self.watchdog.is_tripped and not was_tripped:
            self._status.push(TIMED_OUT, "Communication Watchdog Timeout;06")

    def questionable(self, now: float) -> int:
        """The fault register; bit 6: the output is off."""
        self.look(now)
        source = self.channel.source
        watchdog = WATCHDOG_BIT if self.watchdog.is_tripped else 0
        return BITS[source.tripped] | watchdog | (0 if source.is_on else 64)

    def reset(self, now: float) -> None:
        self.look(now)
        self.watchdog.disable()
        self.watchdog.delay_s, self.watchdog.is_tripped = DELAY_S, False
        super().reset(now)

    def describe(self, now: float) -> Mapping[str, Any]:
        self.look(now)
        return {**super().describe(now), "watchdog": self.watchdog.describe(now)}


def hear(unit: G10100, now: float) -> None:
    """Whatever comes feeds the watchdog."""
    unit.look(now)
    unit.watchdog.feed(now)


def set_volts(unit: G10100, call: SimCall) -> None:
    """``VOLT 5``."""
    unit.channel.set_volts(call.number(0, lowest=0.0, highest=VOLTS * MORE, unit="V"), call.now)


def set_amps(unit: G10100, call: SimCall) -> None:
    """``CURR 10``."""
    unit.channel.set_amps(call.number(0, lowest=0.0, highest=AMPS * MORE, unit="A"), call.now)


def switch(unit: G10100, call: SimCall) -> None:
    """``OUTP ON``; refused while a fault holds it off."""
    is_on = call.boolean(0)
    unit.look(call.now)
    if is_on and (unit.channel.source.tripped or unit.watchdog.is_tripped):
        raise ScpiError(-221)
    unit.channel.source.is_on = is_on


def set_ovp(unit: G10100, call: SimCall) -> None:
    """``VOLT:PROT:LEV 11``; that protection cannot be switched off."""
    unit.channel.set_over_volts(call.number(0, lowest=0.5, highest=VOLTS * 1.2, unit="V"))


def clear(unit: G10100, call: SimCall) -> None:
    """``OUTP:PROT:CLE``; the watchdog goes on to be enabled."""
    unit.look(call.now)
    unit.channel.source.tripped, unit.watchdog.is_tripped = "", False


def enable_watchdog(unit: G10100, call: SimCall) -> None:
    """``SYST:WATCH ON``: counts from the next message on; ``OFF`` clears that it switched off."""
    if call.boolean(0):
        unit.watchdog.enable()
    else:
        unit.watchdog.disable()
        unit.watchdog.is_tripped = False


def set_delay(unit: G10100, call: SimCall) -> None:
    """``SYST:WATCH:TIM 10``: counts with it from the next message on."""
    unit.watchdog.delay_s = float(call.whole(0, lowest=1, highest=LONGEST_S))
    unit.watchdog.hold()


VOCABULARY: Final = Vocabulary(
    {
        "[:SOURce]:VOLTage[:LEVel][:IMMediate][:AMPLitude]": set_volts,
        "[:SOURce]:VOLTage[:LEVel][:IMMediate][:AMPLitude]?": lambda u, _c: (
            f"{u.channel.source.volts:.3f}"
        ),
        "[:SOURce]:CURRent[:LEVel][:IMMediate][:AMPLitude]": set_amps,
        "[:SOURce]:CURRent[:LEVel][:IMMediate][:AMPLitude]?": lambda u, _c: (
            f"{u.channel.source.amps_limit:.2f}"
        ),
        "[:SOURce]:VOLTage:PROTection:LEVel": set_ovp,
        "[:SOURce]:VOLTage:PROTection:LEVel?": lambda u, _c: f"{u.channel.over_volts:.2f}",
        ":OUTPut[:STATe]": switch,
        ":OUTPut[:STATe]?": lambda u, _c: flag(u.channel.source.is_on),
        ":OUTPut:MODE?": lambda u, c: {0: "OFF", 1: "CC", 2: "CV"}[u.channel.regulation(c.now)],
        ":OUTPut:PROTection:CLEar": clear,
        ":MEASure:VOLTage?": lambda u, c: f"{u.channel.display(c)[0]:.3f}",
        ":MEASure:CURRent?": lambda u, c: f"{u.channel.display(c)[1]:.2f}",
        ":MEASure:POWer?": lambda u, c: f"{u.channel.display(c)[2]:.2f}",
        ":STATus:QUEStionable:CONDition?": lambda u, c: str(u.questionable(c.now)),
        ":SYSTem[:COMMunicate]:WATCHdog[:STATe]": enable_watchdog,
        ":SYSTem[:COMMunicate]:WATCHdog[:STATe]?": lambda u, _c: flag(u.watchdog.is_enabled),
        ":SYSTem[:COMMunicate]:WATCHdog:TIMe": set_delay,
        ":SYSTem[:COMMunicate]:WATCHdog:TIMe?": lambda u, _c: f"{u.watchdog.delay_s:.0f}",
        ":SYSTem:VERSion?": lambda _u, _c: "1999.0",
    }
)

MODEL: Final = ModelSpec(
    idn="TDK-LAMBDA,G10-100-LAN,{serial},G:02.122",
    serial="{number:05d}-000001",
    first_number=12345,
    dialect=Dialect(error_format='{code},"{text}"', latency_s=0.003),
    vocabulary=VOCABULARY,
    build=G10100,
    on_message=hear,
)
