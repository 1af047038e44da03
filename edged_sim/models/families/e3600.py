"""HP's E3600 supplies, Agilent's and Keysight's later: one switch, ranges, trips. Pure.

``OUTP`` switches all outputs at once. Commands without an output's name mean the selected one, and
the selection is the instrument's. A range bounds volts and amperes; choosing a lower one takes the
settings down to it. A trip leaves the switch on, and clearing it brings the output back. No error
is ``+0,"No error"``, and the serial number in the identity is 0.

Source: E3631A user's guide, p. 74, 79 and 94; E3632A user's guide, p. 87, 88, 99, 109 and 118;
E3633A/E3634A user's guide, p. 84 and 92; E364xA user's and service guide, p. 90, 110, 135 and 192.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from edged_sim.models.families.supply import Supply, SupplyChannel
from edged_sim.scpi import Dialect, SimCall, SimUnit, flag

Ranges = Mapping[str, tuple[float, float]]
"""Name of a range → the most volts (below zero: of a negative output) and amperes in it."""

E3600_DIALECT: Final = Dialect(latency_s=0.005)
OVER_VOLTAGE: Final = 512
OVER_CURRENT: Final = 1024


@dataclass(kw_only=True)
class E3600Channel(SupplyChannel):
    """One output; the first of its ranges is the low one, which holds after a reset."""

    gain_error = 400e-6
    noise_v = 0.0008
    noise_a = 0.0005

    ranges: Ranges
    most_over_volts: float = 0.0
    most_over_amps: float = 0.0
    range: str = ""
    over_amps: float = 0.0

    @property
    def most(self) -> tuple[float, float]:
        """Volts and amperes of the range."""
        return self.ranges[self.range]

    def reset(self) -> None:
        """As delivered: low range, its whole current, and the protections on."""
        self.range = next(iter(self.ranges))
        self.reset_wires(self.most[1])
        self.over_volts, self.over_amps = self.most_over_volts, self.most_over_amps
        if self.most_over_volts:
            self.source.over_voltage = self.over_volts
        if self.most_over_amps:
            self.source.over_current = self.over_amps

    def describe(self, now: float) -> dict[str, Any]:
        told = {**super().describe(now), "tripped": self.source.tripped}
        return {**told, "range": self.range} if len(self.ranges) > 1 else told

    def choose(self, name: str, now: float) -> None:
        """Another range; what is set goes down to what it holds."""
        self.range = name
        volts, amps = self.most
        self.set_volts(math.copysign(min(abs(self.source.volts), abs(volts)), volts), now)
        self.set_amps(min(self.source.amps_limit, amps), now)


class E3600Unit(Supply[E3600Channel]):
    """The state of one unit; a model says what its ``outputs`` can."""

    outputs: ClassVar[Mapping[int, Mapping[str, Any]]]
    is_on: bool

    def __init__(self, unit: SimUnit) -> None:
        made = {
            n: E3600Channel(**kind, **E3600Channel.wires(unit, n))
            for n, kind in self.outputs.items()
        }
        super().__init__(made)
        self.reset(0.0)

    def reset(self, now: float) -> None:
        super().reset(now)
        self.is_on = False

    def apply(self, now: float) -> None:
        """Hand the switch to the wires; what tripped gives nothing until that is cleared."""
        for channel in self.channels.values():
            channel.node.advance(now)
            channel.source.is_on = self.is_on and not channel.source.tripped


Unit = E3600Unit


def number(value: float) -> str:
    """As they write numbers."""
    return f"{value:+.8E}"


def condition(channel: E3600Channel, now: float) -> int:
    """0 off, 1 limits the current, 2 holds the voltage; 512 and 1024: what tripped."""
    trips = {"over_voltage": OVER_VOLTAGE, "over_current": OVER_CURRENT}
    return channel.regulation(now) | trips.get(channel.source.tripped, 0)


def _volts(channel: E3600Channel, call: SimCall, place: int) -> float:
    most = channel.most[0]
    return call.number(place, lowest=min(0.0, most), highest=max(0.0, most), default=0.0, unit="V")


def _amps(channel: E3600Channel, call: SimCall, place: int) -> float:
    most = channel.most[1]
    return call.number(place, lowest=0.0, highest=most, default=most, unit="A")


def set_volts(unit: Unit, call: SimCall) -> None:
    """``VOLT 5``."""
    unit.channel.set_volts(_volts(unit.channel, call, 0), call.now)


def set_amps(unit: Unit, call: SimCall) -> None:
    """``CURR 1``."""
    unit.channel.set_amps(_amps(unit.channel, call, 0), call.now)


def switch(unit: Unit, call: SimCall) -> None:
    """``OUTP ON``: all of them."""
    unit.is_on = call.boolean(0)
    unit.apply(call.now)


def set_range(unit: Unit, call: SimCall) -> None:
    """``VOLT:RANG P25V``, or LOW or HIGH."""
    low, high = unit.channel.ranges
    names = {low: low, high: high, "LOW": low, "HIGH": high}
    unit.channel.choose(call.choice(0, names), call.now)


def set_over_volts(unit: Unit, call: SimCall) -> None:
    """``VOLT:PROT 20``; never below 1 V."""
    channel = unit.channel
    volts = call.number(
        0, lowest=1.0, highest=channel.most_over_volts, default=channel.most_over_volts, unit="V"
    )
    channel.set_over_volts(volts)


def set_over_amps(unit: Unit, call: SimCall) -> None:
    """``CURR:PROT 5``."""
    channel = unit.channel
    most = channel.most_over_amps
    channel.over_amps = call.number(0, lowest=0.0, highest=most, default=most, unit="A")
    if channel.source.over_current is not None:
        channel.source.over_current = channel.over_amps


def enable_over_amps(unit: Unit, call: SimCall) -> None:
    """``CURR:PROT:STAT ON``."""
    channel = unit.channel
    channel.source.over_current = channel.over_amps if call.boolean(0) else None


def clear(unit: Unit, call: SimCall, what: str) -> None:
    """``VOLT:PROT:CLE``: the output is again what it was before, on too."""
    channel = unit.channel
    channel.node.advance(call.now)
    if channel.source.tripped == what:
        channel.source.tripped = ""
    unit.apply(call.now)


def tripped(unit: Unit, call: SimCall, what: str) -> str:
    """``VOLT:PROT:TRIP?``."""
    unit.channel.node.advance(call.now)
    return flag(unit.channel.source.tripped == what)


def select_number(unit: Unit, call: SimCall) -> None:
    """``INST:NSEL 2``."""
    unit.selected = call.whole(0, lowest=1, highest=len(unit.channels))


def apply(unit: Unit, call: SimCall) -> None:
    """``APPL 5,1``: both, of the selected output."""
    volts = _volts(unit.channel, call, 0)
    amps = _amps(unit.channel, call, 1) if call.has(1) else unit.channel.source.amps_limit
    unit.channel.set_volts(volts, call.now)
    unit.channel.set_amps(amps, call.now)


def _measured(index: int) -> Callable[[Unit, SimCall], str]:
    return lambda unit, call: number(unit.channel.measure(call)[index])


E3600_WORDS: Final[Mapping[str, Any]] = {
    "[:SOURce]:VOLTage[:LEVel][:IMMediate][:AMPLitude]": set_volts,
    "[:SOURce]:VOLTage[:LEVel][:IMMediate][:AMPLitude]?": lambda u, _c: number(
        u.channel.source.volts
    ),
    "[:SOURce]:CURRent[:LEVel][:IMMediate][:AMPLitude]": set_amps,
    "[:SOURce]:CURRent[:LEVel][:IMMediate][:AMPLitude]?": lambda u, _c: number(
        u.channel.source.amps_limit
    ),
    ":MEASure[:SCALar][:VOLTage][:DC]?": _measured(0),
    ":MEASure[:SCALar]:CURRent[:DC]?": _measured(1),
    ":OUTPut[:STATe]": switch,
    ":OUTPut[:STATe]?": lambda u, _c: flag(u.is_on),
    ":APPLy": apply,
    ":SYSTem:REMote": lambda _u, _c: None,
    ":SYSTem:LOCal": lambda _u, _c: None,
    ":SYSTem:RWLock": lambda _u, _c: None,
    ":SYSTem:BEEPer[:IMMediate]": lambda _u, _c: None,
    ":SYSTem:VERSion?": lambda _u, _c: "1995.0",
}
INSTRUMENT_WORDS: Final[Mapping[str, Any]] = {
    ":INSTrument:NSELect": select_number,
    ":INSTrument:NSELect?": lambda u, _c: f"+{u.selected}",
    ":STATus:QUEStionable:INSTrument:ISUMmary<n>:CONDition?": lambda u, c: (
        f"+{condition(u.channels[c.suffix(highest=len(u.channels))], c.now)}"
    ),
}
RANGE_WORDS: Final[Mapping[str, Any]] = {
    "[:SOURce]:VOLTage:RANGe": set_range,
    "[:SOURce]:VOLTage:RANGe?": lambda u, _c: u.channel.range,
}
OVP_WORDS: Final[Mapping[str, Any]] = {
    "[:SOURce]:VOLTage:PROTection[:LEVel]": set_over_volts,
    "[:SOURce]:VOLTage:PROTection[:LEVel]?": lambda u, _c: number(u.channel.over_volts),
    "[:SOURce]:VOLTage:PROTection:STATe": lambda u, c: u.channel.protect_volts(is_on=c.boolean(0)),
    "[:SOURce]:VOLTage:PROTection:STATe?": lambda u, _c: flag(
        u.channel.source.over_voltage is not None
    ),
    "[:SOURce]:VOLTage:PROTection:TRIPped?": lambda u, c: tripped(u, c, "over_voltage"),
    "[:SOURce]:VOLTage:PROTection:CLEar": lambda u, c: clear(u, c, "over_voltage"),
}
OCP_WORDS: Final[Mapping[str, Any]] = {
    "[:SOURce]:CURRent:PROTection[:LEVel]": set_over_amps,
    "[:SOURce]:CURRent:PROTection[:LEVel]?": lambda u, _c: number(u.channel.over_amps),
    "[:SOURce]:CURRent:PROTection:STATe": enable_over_amps,
    "[:SOURce]:CURRent:PROTection:STATe?": lambda u, _c: flag(
        u.channel.source.over_current is not None
    ),
    "[:SOURce]:CURRent:PROTection:TRIPped?": lambda u, c: tripped(u, c, "over_current"),
    "[:SOURce]:CURRent:PROTection:CLEar": lambda u, c: clear(u, c, "over_current"),
    ":STATus:QUEStionable:CONDition?": lambda u, c: f"+{condition(u.channel, c.now)}",
}
