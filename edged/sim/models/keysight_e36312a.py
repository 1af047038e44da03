"""Keysight E36312A: a supply with three channels that are named by a channel list.

Quirks kept: the channel is the last argument, ``(@1)``, and a question about ``(@1:3)`` has one
answer for each channel, separated by commas; without a list the selected channel is meant; outputs
answer 1 or 0; channel 1 is the low-voltage one; no error is ``+0,"No error"``. Source: the manuals
that profiles/keysight_e36312a.yaml names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from edged.sim.physics import Node, SupplyOutput
from edged.sim.scpi import Dialect, ModelSpec, ScpiError, SimCall, SimUnit, Vocabulary

GAIN_ERROR: Final = 150e-6
NOISE_V: Final = 0.0003
NOISE_A: Final = 0.0001
RATINGS: Final = {1: (6.0, 5.0), 2: (25.0, 1.0), 3: (25.0, 1.0)}
"""Volts and amperes of each channel."""
OVER_VOLTAGE: Final = 1.1
"""Highest protection level, of the rated voltage."""


@dataclass(slots=True, kw_only=True)
class Channel:
    """One output: its wires and settings."""

    volts: float
    amps: float
    node: Node
    source: SupplyOutput
    gain: float
    over_volts: float = 0.0
    is_remote_sensed: bool = False

    def reset(self) -> None:
        """As delivered."""
        self.source.is_on = False
        self.source.volts, self.source.amps_limit = 0.0, self.amps
        self.source.over_voltage = self.source.over_current = None
        self.source.tripped = ""
        self.over_volts = self.volts * OVER_VOLTAGE
        self.is_remote_sensed = False

    def measure(self, call: SimCall) -> tuple[float, float]:
        """Volts and amperes at the terminals."""
        node = self.node.advance(call.now)
        volts = node.terminal_volts * self.gain + call.random.gauss(0.0, NOISE_V)
        amps = node.amps * self.gain + call.random.gauss(0.0, NOISE_A)
        return volts, amps

    def condition(self, now: float) -> int:
        """Bit 0: constant voltage lost (it limits the current), 1: voltage held, 2, 3: tripped."""
        limiting = self.node.advance(now).is_limiting
        regulation = (1 if limiting else 2) if self.source.is_on else 0
        trips = {"over_voltage": 4, "over_current": 8}
        return regulation | trips.get(self.source.tripped, 0)


class E36312a:
    """The state of one unit."""

    def __init__(self, unit: SimUnit) -> None:
        self.channels: dict[int, Channel] = {}
        for number, (volts, amps) in RATINGS.items():
            node, source = unit.world.connect_source(unit.name, f"ch{number}")
            gain = 1 + unit.random.uniform(-GAIN_ERROR, GAIN_ERROR)
            self.channels[number] = Channel(
                volts=volts, amps=amps, node=node, source=source, gain=gain
            )
            self.channels[number].reset()
        self.selected = 1

    def reset(self, now: float) -> None:
        """See ``State``."""
        for channel in self.channels.values():
            channel.node.advance(now)
            channel.reset()
        self.selected = 1

    def describe(self, now: float) -> Mapping[str, Any]:
        """See ``State``."""
        return {
            f"ch{number}": {
                "is_on": channel.source.is_on,
                "volts_set": channel.source.volts,
                "amps_limit": channel.source.amps_limit,
                "volts": channel.node.advance(now).terminal_volts,
                "amps": channel.node.amps,
                "tripped": channel.source.tripped,
            }
            for number, channel in self.channels.items()
        }

    def listed(self, call: SimCall, place: int) -> list[Channel]:
        """The channels of the list at ``place``, or the selected one."""
        if not call.has(place):
            return [self.channels[self.selected]]
        return [self.channels[number] for number in call.channels(place, highest=3)]


def set_volts(unit: E36312a, call: SimCall) -> None:
    """``VOLT 5,(@1)``."""
    for channel in unit.listed(call, 1):
        volts = call.number(0, lowest=0.0, highest=channel.volts, default=0.0, unit="V")
        channel.node.advance(call.now)
        channel.source.volts = volts


def set_amps(unit: E36312a, call: SimCall) -> None:
    """``CURR 1,(@1)``."""
    for channel in unit.listed(call, 1):
        amps = call.number(0, lowest=0.0, highest=channel.amps, default=channel.amps, unit="A")
        channel.node.advance(call.now)
        channel.source.amps_limit = amps


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
        channel.over_volts = call.number(
            0, lowest=0.0, highest=channel.volts * OVER_VOLTAGE, unit="V"
        )
        if channel.source.over_voltage is not None:
            channel.source.over_voltage = channel.over_volts


def enable_ovp(unit: E36312a, call: SimCall) -> None:
    """``VOLT:PROT:STAT ON,(@1)``."""
    for channel in unit.listed(call, 1):
        channel.source.over_voltage = channel.over_volts if call.boolean(0) else None


def enable_ocp(unit: E36312a, call: SimCall) -> None:
    """``CURR:PROT:STAT ON,(@1)``: reaching the current limit switches off."""
    for channel in unit.listed(call, 1):
        # A hair under the limit: a channel that limits has reached it.
        trip = channel.source.amps_limit * (1 - 1e-3)
        channel.source.over_current = trip if call.boolean(0) else None


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


def select(unit: E36312a, call: SimCall) -> None:
    """``INST:NSEL 2``."""
    unit.selected = call.whole(0, lowest=1, highest=3)


def apply(unit: E36312a, call: SimCall) -> None:
    """``APPL CH1,5,1``."""
    number = call.choice(0, {"CH1": 1, "CH2": 2, "CH3": 3})
    channel = unit.channels[number]
    volts = call.number(1, lowest=0.0, highest=channel.volts, default=0.0, unit="V")
    amps = channel.source.amps_limit
    if call.has(2):
        amps = call.number(2, lowest=0.0, highest=channel.amps, default=channel.amps, unit="A")
    channel.node.advance(call.now)
    channel.source.volts, channel.source.amps_limit = volts, amps


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
            lambda channel, _call: str(int(channel.source.over_voltage is not None))
        ),
        "[:SOURce]:VOLTage:PROTection:TRIPped?": each(
            lambda channel, call: str(channel.condition(call.now) >> 2 & 1)
        ),
        "[:SOURce]:CURRent:PROTection:STATe": enable_ocp,
        "[:SOURce]:CURRent:PROTection:STATe?": each(
            lambda channel, _call: str(int(channel.source.over_current is not None))
        ),
        "[:SOURce]:CURRent:PROTection:TRIPped?": each(
            lambda channel, call: str(channel.condition(call.now) >> 3 & 1)
        ),
        "[:SOURce]:VOLTage:SENSe[:SOURce]": set_sense,
        "[:SOURce]:VOLTage:SENSe[:SOURce]?": each(
            lambda channel, _call: "EXT" if channel.is_remote_sensed else "INT"
        ),
        ":OUTPut[:STATe]": switch,
        ":OUTPut[:STATe]?": each(lambda channel, _call: str(int(channel.source.is_on))),
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
        ":INSTrument:NSELect": select,
        ":INSTrument:NSELect?": lambda u, _c: str(u.selected),
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
