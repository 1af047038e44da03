"""Rohde & Schwarz NGE103B: three equal channels of which one is selected.

Quirks kept: as with the HMP the channel is a state of the instrument; here ``OUTP`` is the switch
of the selected channel and ``OUTP:GEN`` the master above all; the identity is in mixed case and its
serial number holds a slash. Source: the manuals that
profiles/rs_nge103b.yaml names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from edged.sim.physics import Node, SupplyOutput
from edged.sim.scpi import Dialect, ModelSpec, SimCall, SimUnit, Vocabulary

HIGHEST_V: Final = 32.0
HIGHEST_A: Final = 3.0
HIGHEST_OVP: Final = 32.5
COUNT: Final = 3
GAIN_ERROR: Final = 400e-6
NOISE_V: Final = 0.002
NOISE_A: Final = 0.0005


@dataclass(slots=True, kw_only=True)
class Channel:
    """One output; ``is_armed`` is its own switch, which the master may overrule."""

    node: Node
    source: SupplyOutput
    gain: float
    is_armed: bool = False
    over_volts: float = HIGHEST_OVP
    has_fuse: bool = False


class Nge103b:
    """The state of one unit."""

    def __init__(self, unit: SimUnit) -> None:
        self.channels: dict[int, Channel] = {}
        for number in range(1, COUNT + 1):
            node, source = unit.world.connect_source(unit.name, f"ch{number}")
            gain = 1 + unit.random.uniform(-GAIN_ERROR, GAIN_ERROR)
            self.channels[number] = Channel(node=node, source=source, gain=gain)
        self.reset(0.0)

    def reset(self, now: float) -> None:
        """See ``State``."""
        self.is_master_on, self.selected = False, 1
        for channel in self.channels.values():
            channel.is_armed = channel.has_fuse = False
            channel.over_volts = HIGHEST_OVP
            channel.source.volts, channel.source.amps_limit = 0.0, 1.0
            channel.source.over_voltage = None
            channel.source.tripped = ""
        self.apply(now)

    def describe(self, now: float) -> Mapping[str, Any]:
        """See ``State``."""
        told: dict[str, Any] = {
            f"ch{number}": {
                "is_on": channel.source.is_on,
                "volts_set": channel.source.volts,
                "amps_limit": channel.source.amps_limit,
                "volts": channel.node.advance(now).terminal_volts,
                "amps": channel.node.amps,
            }
            for number, channel in self.channels.items()
        }
        return {**told, "is_master_on": self.is_master_on, "selected": self.selected}

    @property
    def channel(self) -> Channel:
        """The selected one."""
        return self.channels[self.selected]

    def apply(self, now: float) -> None:
        """Hand switches and protections to the wires."""
        for channel in self.channels.values():
            channel.node.advance(now)
            if channel.source.tripped:
                channel.is_armed = False
            channel.source.is_on = self.is_master_on and channel.is_armed
            trip = channel.source.amps_limit * (1 - 1e-3)
            channel.source.over_current = trip if channel.has_fuse else None


def select_number(unit: Nge103b, call: SimCall) -> None:
    """``INST:NSEL 2``."""
    unit.selected = call.whole(0, lowest=1, highest=COUNT)


def select_name(unit: Nge103b, call: SimCall) -> None:
    """``INST OUT2``."""
    names = {f"OUTPut{n}": n for n in unit.channels} | {f"OUT{n}": n for n in unit.channels}
    unit.selected = call.choice(0, names)


def set_volts(unit: Nge103b, call: SimCall) -> None:
    """``VOLT 5`` of the selected channel."""
    volts = call.number(0, lowest=0.0, highest=HIGHEST_V, default=0.0, unit="V")
    unit.channel.node.advance(call.now)
    unit.channel.source.volts = round(volts, 3)


def set_amps(unit: Nge103b, call: SimCall) -> None:
    """``CURR 1`` of the selected channel."""
    amps = call.number(0, lowest=0.0, highest=HIGHEST_A, default=0.1, unit="A")
    unit.channel.source.amps_limit = round(amps, 4)
    unit.apply(call.now)


def apply(unit: Nge103b, call: SimCall) -> None:
    """``APPL 5,1``."""
    set_volts(unit, call)
    if call.has(1):
        amps = call.number(1, lowest=0.0, highest=HIGHEST_A, default=0.1, unit="A")
        unit.channel.source.amps_limit = round(amps, 4)
    unit.apply(call.now)


def switch(unit: Nge103b, call: SimCall) -> None:
    """``OUTP ON``: the selected channel's own switch."""
    unit.channel.is_armed = call.boolean(0)
    if unit.channel.is_armed:
        unit.channel.source.tripped = ""
    unit.apply(call.now)


def switch_master(unit: Nge103b, call: SimCall) -> None:
    """``OUTP:GEN ON``."""
    unit.is_master_on = call.boolean(0)
    unit.apply(call.now)


def set_ovp_level(unit: Nge103b, call: SimCall) -> None:
    """``VOLT:PROT:LEV 12``."""
    unit.channel.over_volts = call.number(0, lowest=0.01, highest=HIGHEST_OVP, unit="V")
    if unit.channel.source.over_voltage is not None:
        unit.channel.source.over_voltage = unit.channel.over_volts


def set_ovp(unit: Nge103b, call: SimCall) -> None:
    """``VOLT:PROT ON``."""
    unit.channel.source.over_voltage = unit.channel.over_volts if call.boolean(0) else None


def set_fuse(unit: Nge103b, call: SimCall) -> None:
    """``FUSE ON``."""
    unit.channel.has_fuse = call.boolean(0)
    unit.apply(call.now)


def measure(unit: Nge103b, call: SimCall) -> str:
    """``MEAS:VOLT?``, ``MEAS:CURR?`` and ``MEAS:POW?``."""
    channel = unit.channel
    node = channel.node.advance(call.now)
    volts = max(0.0, node.terminal_volts * channel.gain + call.random.gauss(0.0, NOISE_V))
    amps = max(0.0, node.amps * channel.gain + call.random.gauss(0.0, NOISE_A))
    word = call.header.upper()
    value = volts * amps if "POW" in word else amps if "CURR" in word else volts
    return f"{value:.4f}"


def tripped(unit: Nge103b, call: SimCall, what: str) -> str:
    """``VOLT:PROT:TRIP?`` and ``FUSE:TRIP?``."""
    unit.apply(call.now)
    return str(int(unit.channel.source.tripped == what))


def _is_armed(unit: Nge103b, call: SimCall) -> str:
    unit.apply(call.now)
    return str(int(unit.channel.is_armed))


VOCABULARY: Final = Vocabulary(
    {
        ":INSTrument:NSELect": select_number,
        ":INSTrument:NSELect?": lambda u, _c: str(u.selected),
        ":INSTrument[:SELect]": select_name,
        ":INSTrument[:SELect]?": lambda u, _c: f"OUT{u.selected}",
        "[:SOURce]:VOLTage[:LEVel][:IMMediate][:AMPLitude]": set_volts,
        "[:SOURce]:VOLTage[:LEVel][:IMMediate][:AMPLitude]?": lambda u, _c: (
            f"{u.channel.source.volts:.3f}"
        ),
        "[:SOURce]:CURRent[:LEVel][:IMMediate][:AMPLitude]": set_amps,
        "[:SOURce]:CURRent[:LEVel][:IMMediate][:AMPLitude]?": lambda u, _c: (
            f"{u.channel.source.amps_limit:.4f}"
        ),
        "[:SOURce]:VOLTage:PROTection:LEVel": set_ovp_level,
        "[:SOURce]:VOLTage:PROTection:LEVel?": lambda u, _c: f"{u.channel.over_volts:.3f}",
        "[:SOURce]:VOLTage:PROTection[:STATe]": set_ovp,
        "[:SOURce]:VOLTage:PROTection[:STATe]?": lambda u, _c: str(
            int(u.channel.source.over_voltage is not None)
        ),
        "[:SOURce]:VOLTage:PROTection:TRIPped?": lambda u, c: tripped(u, c, "over_voltage"),
        ":APPLy": apply,
        ":APPLy?": lambda u, _c: f"{u.channel.source.volts:.3f}, {u.channel.source.amps_limit:.4f}",
        ":OUTPut[:STATe]": switch,
        ":OUTPut[:STATe]?": _is_armed,
        ":OUTPut:GENeral[:STATe]": switch_master,
        ":OUTPut:GENeral[:STATe]?": lambda u, _c: str(int(u.is_master_on)),
        ":FUSE[:STATe]": set_fuse,
        ":FUSE[:STATe]?": lambda u, _c: str(int(u.channel.has_fuse)),
        ":FUSE:TRIPped?": lambda u, c: tripped(u, c, "over_current"),
        ":MEASure[:SCALar][:VOLTage][:DC]?": measure,
        ":MEASure[:SCALar]:CURRent[:DC]?": measure,
        ":MEASure[:SCALar]:POWer?": measure,
        ":SYSTem:REMote": lambda _u, _c: None,
        ":SYSTem:LOCal": lambda _u, _c: None,
        ":SYSTem:BEEPer[:IMMediate]": lambda _u, _c: None,
    }
)

MODEL: Final = ModelSpec(
    idn="Rohde&Schwarz,NGE103B,{serial},1.54",
    serial="5601.3800k03/{number:06d}",
    first_number=101863,
    dialect=Dialect(error_format='{code},"{text}"', latency_s=0.003),
    vocabulary=VOCABULARY,
    build=Nge103b,
)
