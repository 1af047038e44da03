"""What Keysight's modular supplies and its Advanced Power System say alike. Pure.

The watchdog of the unit takes all outputs at once, by any message that comes. Having switched off
it leaves what was programmed (``OUTP?`` goes on to answer 1), and with ``OUTP:PROT:CLE`` an output
comes back as it was programmed. How channels are named is the model's own.

Source: Keysight N6700C user's guide (N6702C), p. 158; N6900/N7900 series guide, p. 252 and 287;
RP7900 series guide, p. 226.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from edged_sim.models.families.supply import Supply, SupplyChannel
from edged_sim.models.families.watchdog import OutputWatchdog
from edged_sim.scpi import ScpiError, SimCall, SimUnit, flag

DELAY_S: Final = 60.0
LONGEST_S: Final = 3600
HELD_OFF: Final = 2048
TRIPS: Final[Mapping[str, int]] = {"": 0, "over_voltage": 1, "over_current": 2}
"""Bits of the Questionable register."""


@dataclass(kw_only=True)
class KeysightChannel(SupplyChannel):
    """One output, what it is rated for, and whether it is programmed to be on."""

    gain_error = 200e-6
    noise_v = 0.0005
    noise_a = 0.0002

    volts: float
    amps: float
    most_over_volts: float
    is_programmed_on: bool = False
    is_held_off: bool = False

    def reset(self) -> None:
        """As delivered."""
        self.reset_wires(0.08 * self.amps)
        self.over_volts = self.source.over_voltage = self.most_over_volts
        self.is_programmed_on = self.is_held_off = False

    def switch(self, *, is_on: bool, now: float) -> None:
        """Program it; while a protection holds it off, nothing comes out."""
        self.node.advance(now)
        self.is_programmed_on = is_on
        self.apply()

    def apply(self) -> None:
        """What comes out is what is programmed, unless a protection holds it off."""
        self.source.is_on = (
            self.is_programmed_on and not self.is_held_off and not self.source.tripped
        )

    def set_amps(self, amps: float, now: float) -> None:
        """The current limit, and with it where the over-current protection trips."""
        super().set_amps(amps, now)
        self.protect_amps(is_on=self.source.over_current is not None)

    def protect_amps(self, *, is_on: bool) -> None:
        """Over-current protection on or off; what limits has reached the limit."""
        self.source.over_current = self.source.amps_limit * (1 - 1e-3) if is_on else None

    def questionable(self, now: float) -> int:
        """The condition register."""
        self.node.advance(now)
        return TRIPS[self.source.tripped] | (HELD_OFF if self.is_held_off else 0)

    def operation(self, now: float) -> int:
        """Bit 0: constant voltage, 1: constant current, 2: programmed off."""
        regulation = self.regulation(now)
        held = {1: 2, 2: 1}.get(regulation, 0)
        return held | (0 if self.is_programmed_on else 4)

    def describe(self, now: float) -> dict[str, Any]:
        told = super().describe(now)
        return {
            **told,
            "is_on": self.source.is_on,
            "is_programmed_on": self.is_programmed_on,
            "tripped": self.source.tripped,
        }


class KeysightPower(Supply[KeysightChannel]):
    """The state of one unit.

    Args:
        ratings: volts and amperes of each channel, by its number.
        listed: the channels that a message is about, whose list stands at a place.
        over_voltage: the highest protection level, of the rated voltage.
    """

    def __init__(
        self,
        unit: SimUnit,
        ratings: Mapping[int, tuple[float, float]],
        listed: Callable[[KeysightPower, SimCall, int], list[KeysightChannel]],
        over_voltage: float,
    ) -> None:
        super().__init__(
            {
                number: KeysightChannel(
                    volts=volts,
                    amps=amps,
                    most_over_volts=volts * over_voltage,
                    **KeysightChannel.wires(unit, number),
                )
                for number, (volts, amps) in ratings.items()
            }
        )
        outputs = tuple(channel.source for channel in self.channels.values())
        self.watchdog = OutputWatchdog(outputs=outputs, delay_s=DELAY_S)
        self._listed = listed

    def listed(self, call: SimCall, place: int) -> list[KeysightChannel]:
        """The channels that a message is about, whose list stands at ``place`` where it has one."""
        return self._listed(self, call, place)

    def look(self, now: float) -> None:
        """Let the time until now pass."""
        was_tripped = self.watchdog.is_tripped
        self.watchdog.look(now)
        for channel in self.channels.values():
            channel.node.advance(now)
            channel.is_held_off |= self.watchdog.is_tripped and not was_tripped

    def clear(self, channels: list[KeysightChannel]) -> None:
        """End what holds them off: they come back as they are programmed."""
        for channel in channels:
            channel.is_held_off, channel.source.tripped = False, ""
            channel.apply()
        self.watchdog.is_tripped = any(c.is_held_off for c in self.channels.values())

    def reset(self, now: float) -> None:
        """See ``ModelState``: the watchdog is off, with its usual time."""
        self.look(now)
        self.watchdog.disable()
        self.watchdog.delay_s, self.watchdog.is_tripped = DELAY_S, False
        super().reset(now)

    def describe(self, now: float) -> Mapping[str, Any]:
        self.look(now)
        return {**super().describe(now), "watchdog": self.watchdog.describe(now)}


def hear(unit: KeysightPower, now: float) -> None:
    """Whatever comes feeds the watchdog."""
    unit.look(now)
    unit.watchdog.feed(now)


def set_volts(unit: KeysightPower, call: SimCall) -> None:
    """``VOLT 5,(@1)``."""
    for channel in unit.listed(call, 1):
        volts = call.number(0, lowest=0.0, highest=channel.volts * 1.02, default=0.0, unit="V")
        channel.set_volts(volts, call.now)


def set_amps(unit: KeysightPower, call: SimCall) -> None:
    """``CURR 1,(@1)``."""
    for channel in unit.listed(call, 1):
        amps = call.number(0, lowest=0.0, highest=channel.amps * 1.02, unit="A")
        channel.set_amps(amps, call.now)


def switch(unit: KeysightPower, call: SimCall) -> None:
    """``OUTP ON,(@1:4)``."""
    for channel in unit.listed(call, 1):
        channel.switch(is_on=call.boolean(0), now=call.now)


def set_ovp(unit: KeysightPower, call: SimCall) -> None:
    """``VOLT:PROT 6.5,(@1)``; that protection cannot be switched off."""
    for channel in unit.listed(call, 1):
        volts = call.number(0, lowest=0.0, highest=channel.most_over_volts, unit="V")
        channel.set_over_volts(volts)


def enable_ocp(unit: KeysightPower, call: SimCall) -> None:
    """``CURR:PROT:STAT ON,(@1)``: reaching the current limit switches off."""
    for channel in unit.listed(call, 1):
        channel.protect_amps(is_on=call.boolean(0))


def clear(unit: KeysightPower, call: SimCall) -> None:
    """``OUTP:PROT:CLE (@1)``."""
    unit.clear(unit.listed(call, 0))


def enable_watchdog(unit: KeysightPower, call: SimCall) -> None:
    """``OUTP:PROT:WDOG ON``: one for the whole unit, counting at once."""
    if call.boolean(0):
        unit.watchdog.enable()
        unit.watchdog.feed(call.now)
    else:
        unit.watchdog.disable()


def set_delay(unit: KeysightPower, call: SimCall) -> None:
    """``OUTP:PROT:WDOG:DEL 10``, in whole seconds."""
    if call.has(1):
        raise ScpiError(-108)
    unit.watchdog.delay_s = float(call.whole(0, lowest=1, highest=LONGEST_S))
    unit.watchdog.feed(call.now)


Reading = Callable[[KeysightChannel, SimCall], str]


def each(read: Reading) -> Callable[[KeysightPower, SimCall], str]:
    """A question that is answered for each channel that it is about."""
    return lambda unit, call: ",".join(read(channel, call) for channel in unit.listed(call, 0))


def _number(value: float) -> str:
    return f"{value:+.6E}"


asked_amps: Final = each(lambda channel, _call: _number(channel.source.amps_limit))
"""``CURR? (@1)``."""
WORDS: Final[Mapping[str, Callable[[KeysightPower, SimCall], str | None]]] = {
    "[:SOURce]:VOLTage[:LEVel][:IMMediate][:AMPLitude]": set_volts,
    "[:SOURce]:VOLTage[:LEVel][:IMMediate][:AMPLitude]?": each(
        lambda channel, _call: _number(channel.source.volts)
    ),
    "[:SOURce]:CURRent[:LEVel][:IMMediate][:AMPLitude]": set_amps,
    "[:SOURce]:CURRent[:LEVel][:IMMediate][:AMPLitude]?": asked_amps,
    "[:SOURce]:VOLTage:PROTection[:LEVel]": set_ovp,
    "[:SOURce]:VOLTage:PROTection[:LEVel]?": each(
        lambda channel, _call: _number(channel.over_volts)
    ),
    "[:SOURce]:CURRent:PROTection:STATe": enable_ocp,
    "[:SOURce]:CURRent:PROTection:STATe?": each(
        lambda channel, _call: flag(channel.source.over_current is not None)
    ),
    ":OUTPut[:STATe]": switch,
    ":OUTPut[:STATe]?": each(lambda channel, _call: flag(channel.is_programmed_on)),
    ":OUTPut:PROTection:CLEar": clear,
    ":OUTPut:PROTection:WDOG[:STATe]": enable_watchdog,
    ":OUTPut:PROTection:WDOG[:STATe]?": lambda u, _c: flag(u.watchdog.is_enabled),
    ":OUTPut:PROTection:WDOG:DELay": set_delay,
    ":OUTPut:PROTection:WDOG:DELay?": lambda u, _c: f"{u.watchdog.delay_s:.0f}",
    ":MEASure[:SCALar]:VOLTage[:DC]?": each(
        lambda channel, call: _number(channel.measure(call)[0])
    ),
    ":MEASure[:SCALar]:CURRent[:DC]?": each(
        lambda channel, call: _number(channel.measure(call)[1])
    ),
    ":STATus:OPERation:CONDition?": each(lambda channel, call: f"{channel.operation(call.now):+d}"),
    ":SYSTem:VERSion?": lambda _u, _c: "1999.0",
}
