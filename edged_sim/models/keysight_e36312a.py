"""Keysight E36312A: a supply with three channels that are named by a channel list.

Quirks kept: the channel is the last argument, ``(@1)``, and a question about ``(@1:3)`` has one
answer for each channel, separated by commas; without a list the selected channel is meant; outputs
answer 1 or 0; channel 1 is the low-voltage one; no error is ``+0,"No error"``. Source: the manuals
that profiles/keysight_e36312a.yaml names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from edged_sim.models.families.supply import Supply, SupplyChannel
from edged_sim.scpi import OWN, Dialect, ModelSpec, ScpiError, SimCall, SimUnit, Vocabulary, flag

OVER_VOLTAGE: Final = 1.1
"""Highest protection level, of the rated voltage."""


@dataclass(kw_only=True)
class Channel(SupplyChannel):
    """One output and what it is rated for."""

    gain_error = 150e-6
    noise_v = 0.0003
    noise_a = 0.0001

    volts: float
    amps: float
    is_remote_sensed: bool = False

    def reset(self) -> None:
        """As delivered."""
        self.reset_wires(self.amps)
        self.over_volts = self.volts * OVER_VOLTAGE
        self.is_remote_sensed = False

    def describe(self, now: float) -> dict[str, Any]:
        return {**super().describe(now), "tripped": self.source.tripped}

    def set_amps(self, amps: float, now: float) -> None:
        """The current limit, and with it where the over-current protection trips."""
        super().set_amps(amps, now)
        self.protect_amps(is_on=self.source.over_current is not None)

    def protect_amps(self, *, is_on: bool) -> None:
        """Over-current protection on or off; what limits has reached the limit."""
        self.source.over_current = self.source.amps_limit * (1 - 1e-3) if is_on else None

    def condition(self, now: float) -> int:
        """Bit 0: constant voltage lost (it limits the current), 1: voltage held, 2, 3: tripped."""
        trips = {"over_voltage": 4, "over_current": 8}
        return self.regulation(now) | trips.get(self.source.tripped, 0)


class E36312a(Supply[Channel]):
    """The state of one unit; ``ratings`` are volts and amperes of each channel."""

    ratings: ClassVar[Mapping[int, tuple[float, float]]] = {
        1: (6.0, 5.0),
        2: (25.0, 1.0),
        3: (25.0, 1.0),
    }

    def __init__(self, unit: SimUnit) -> None:
        super().__init__(
            {
                number: Channel(volts=volts, amps=amps, **Channel.wires(unit, number))
                for number, (volts, amps) in self.ratings.items()
            }
        )

    def listed(self, call: SimCall, place: int) -> list[Channel]:
        """The channels of the list at ``place``, or the selected one."""
        if not call.has(place):
            return [self.channel]
        return [self.channels[number] for number in call.channels(place, highest=3)]


def set_volts(unit: E36312a, call: SimCall) -> None:
    """``VOLT 5,(@1)``."""
    for channel in unit.listed(call, 1):
        volts = call.number(0, lowest=0.0, highest=channel.volts, default=0.0, unit="V")
        channel.set_volts(volts, call.now)


def set_amps(unit: E36312a, call: SimCall) -> None:
    """``CURR 1,(@1)``."""
    for channel in unit.listed(call, 1):
        amps = call.number(0, lowest=0.0, highest=channel.amps, default=channel.amps, unit="A")
        channel.set_amps(amps, call.now)


def switch(unit: E36312a, call: SimCall) -> None:
    """``OUTP ON,(@1:3)``; a channel whose protection tripped refuses until it is cleared."""
    is_on = call.boolean(0)
    for channel in unit.listed(call, 1):
        channel.node.advance(call.now)
        if is_on and channel.source.tripped:
            raise ScpiError(-221)
        channel.source.is_on = is_on


def set_ovp(unit: E36312a, call: SimCall) -> None:
    """``VOLT:PROT 6.5,(@1)``."""
    for channel in unit.listed(call, 1):
        most = channel.volts * OVER_VOLTAGE
        channel.set_over_volts(call.number(0, lowest=0.0, highest=most, unit="V"))


def enable_ovp(unit: E36312a, call: SimCall) -> None:
    """``VOLT:PROT:STAT ON,(@1)``."""
    for channel in unit.listed(call, 1):
        channel.protect_volts(is_on=call.boolean(0))


def enable_ocp(unit: E36312a, call: SimCall) -> None:
    """``CURR:PROT:STAT ON,(@1)``: reaching the current limit switches off."""
    for channel in unit.listed(call, 1):
        channel.protect_amps(is_on=call.boolean(0))


def clear(unit: E36312a, call: SimCall) -> None:
    """``OUTP:PROT:CLE (@1)``; the output stays off."""
    for channel in unit.listed(call, 0):
        channel.node.advance(call.now)
        channel.source.tripped = ""


def set_sense(unit: E36312a, call: SimCall) -> None:
    """``VOLT:SENS EXT,(@1)``."""
    is_remote = call.choice(0, {"EXTernal": True, "INTernal": False})
    for channel in unit.listed(call, 1):
        channel.is_remote_sensed = is_remote


def apply(unit: E36312a, call: SimCall) -> None:
    """``APPL CH1,5,1``."""
    number = call.choice(0, {"CH1": 1, "CH2": 2, "CH3": 3})
    channel = unit.channels[number]
    volts = call.number(1, lowest=0.0, highest=channel.volts, default=0.0, unit="V")
    amps = channel.source.amps_limit
    if call.has(2):
        amps = call.number(2, lowest=0.0, highest=channel.amps, default=channel.amps, unit="A")
    channel.set_volts(volts, call.now)
    channel.source.amps_limit = amps


Reading = Callable[[Channel, SimCall], str]


def each(read: Reading) -> Callable[[E36312a, SimCall], str]:
    """A question that is answered for each channel of its list."""
    return lambda unit, call: ",".join(read(channel, call) for channel in unit.listed(call, 0))


def _number(value: float) -> str:
    return f"{value:+.8E}"


VOCABULARY: Final = Vocabulary(
    {
        "[:SOURce]:VOLTage[:LEVel][:IMMediate][:AMPLitude]": set_volts,
        "[:SOURce]:VOLTage[:LEVel][:IMMediate][:AMPLitude]?": each(
            lambda channel, _call: _number(channel.source.volts)
        ),
        "[:SOURce]:CURRent[:LEVel][:IMMediate][:AMPLitude]": set_amps,
        "[:SOURce]:CURRent[:LEVel][:IMMediate][:AMPLitude]?": each(
            lambda channel, _call: _number(channel.source.amps_limit)
        ),
        "[:SOURce]:VOLTage:PROTection[:LEVel]": set_ovp,
        "[:SOURce]:VOLTage:PROTection[:LEVel]?": each(
            lambda channel, _call: _number(channel.over_volts)
        ),
        "[:SOURce]:VOLTage:PROTection:STATe": enable_ovp,
        "[:SOURce]:VOLTage:PROTection:STATe?": each(
            lambda channel, _call: flag(channel.source.over_voltage is not None)
        ),
        "[:SOURce]:VOLTage:PROTection:TRIPped?": each(
            lambda channel, call: str(channel.condition(call.now) >> 2 & 1)
        ),
        "[:SOURce]:CURRent:PROTection:STATe": enable_ocp,
        "[:SOURce]:CURRent:PROTection:STATe?": each(
            lambda channel, _call: flag(channel.source.over_current is not None)
        ),
        "[:SOURce]:CURRent:PROTection:TRIPped?": each(
            lambda channel, call: str(channel.condition(call.now) >> 3 & 1)
        ),
        "[:SOURce]:VOLTage:SENSe[:SOURce]": set_sense,
        "[:SOURce]:VOLTage:SENSe[:SOURce]?": each(
            lambda channel, _call: "EXT" if channel.is_remote_sensed else "INT"
        ),
        ":OUTPut[:STATe]": switch,
        ":OUTPut[:STATe]?": each(lambda channel, _call: flag(channel.source.is_on)),
        ":OUTPut:PROTection:CLEar": clear,
        ":MEASure[:SCALar][:VOLTage][:DC]?": each(
            lambda channel, call: _number(channel.measure(call)[0])
        ),
        ":MEASure[:SCALar]:CURRent[:DC]?": each(
            lambda channel, call: _number(channel.measure(call)[1])
        ),
        ":STATus:QUEStionable:INSTrument:ISUMmary<n>:CONDition?": lambda u, c: str(
            u.channels[c.suffix(highest=3)].condition(c.now)
        ),
        **OWN.whole(":INSTrument:NSELect", "selected", 1, 3),
        ":APPLy": apply,
        ":SYSTem:LOCal": lambda _u, _c: None,
        ":SYSTem:REMote": lambda _u, _c: None,
        ":SYSTem:BEEPer[:IMMediate]": lambda _u, _c: None,
        ":SYSTem:VERSion?": lambda _u, _c: "1999.0",
    }
)

MODEL: Final = ModelSpec(
    idn="Keysight Technologies,E36312A,{serial},2.1.0-1.0.4-1.12",
    serial="MY{number:08d}",
    first_number=59002391,
    dialect=Dialect(latency_s=0.002),
    vocabulary=VOCABULARY,
    build=E36312a,
)
