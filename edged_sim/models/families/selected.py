"""Supplies of Rohde & Schwarz (and Hameg before) whose commands mean the selected channel. Pure.

The selection is the instrument's and not the connection's, so that another client changes it. A
channel gives something only while it is active and the master switch above all is on; a blown
electronic fuse deactivates its channel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, TypeVar

from edged_sim.models.families.supply import Supply, SupplyChannel
from edged_sim.scpi import OWN, SimCall, SimUnit, flag

HIGHEST_OVP: Final = 32.5


@dataclass(slots=True, kw_only=True)
class SelectedChannel(SupplyChannel):
    """One output; ``is_active`` is its own switch, which the master may overrule."""

    is_active: bool = False
    has_fuse: bool = False

    def reset(self) -> None:
        """As delivered; the wires learn of the switch by ``apply``."""
        self.is_active = self.has_fuse = False
        self.source.volts, self.source.amps_limit = 0.0, 1.0
        self.source.over_voltage = None
        self.source.tripped = ""
        self.over_volts = HIGHEST_OVP


C = TypeVar("C", bound=SelectedChannel)


class SelectedSupply(Supply[C]):
    """The state of one unit of ``count`` equal channels."""

    count: ClassVar[int]
    highest_v: ClassVar[float]
    highest_a: ClassVar[float]

    def __init__(self, unit: SimUnit, channel: type[C]) -> None:
        numbers = range(1, self.count + 1)
        super().__init__({n: channel(**channel.wires(unit, n)) for n in numbers})
        self.reset(0.0)

    def reset(self, now: float) -> None:
        self.is_master_on, self.selected = False, 1
        for channel in self.channels.values():
            channel.reset()
        self.apply(now)

    def describe(self, now: float) -> Mapping[str, Any]:
        told = super().describe(now)
        return {**told, "is_master_on": self.is_master_on, "selected": self.selected}

    def apply(self, now: float) -> None:
        """Hand the switches to the wires; what tripped stays off until it is activated again."""
        for channel in self.channels.values():
            channel.node.advance(now)
            if channel.source.tripped:
                channel.is_active = False
            channel.source.is_on = self.is_master_on and channel.is_active
            # The fuse blows where the current limit takes over.
            trip = channel.source.amps_limit * (1 - 1e-3)
            channel.source.over_current = trip if channel.has_fuse else None

    def asked_volts(self, call: SimCall) -> float:
        """The voltage that a call names first."""
        volts = call.number(0, lowest=0.0, highest=self.highest_v, default=0.0, unit="V")
        return round(volts, 3)

    def asked_amps(self, call: SimCall, place: int) -> float:
        """The current limit that a call names at ``place``."""
        amps = call.number(place, lowest=0.0, highest=self.highest_a, default=0.1, unit="A")
        return round(amps, 4)


Unit = SelectedSupply[Any]


def select_name(unit: Unit, call: SimCall) -> None:
    """``INST OUT2``."""
    names = {f"OUTPut{n}": n for n in unit.channels} | {f"OUT{n}": n for n in unit.channels}
    unit.selected = call.choice(0, names)


def set_volts(unit: Unit, call: SimCall) -> None:
    """``VOLT 5``."""
    unit.channel.set_volts(unit.asked_volts(call), call.now)


def set_amps(unit: Unit, call: SimCall) -> None:
    """``CURR 1``."""
    unit.channel.source.amps_limit = unit.asked_amps(call, 0)
    unit.apply(call.now)


def switch_master(unit: Unit, call: SimCall) -> None:
    """``OUTP:GEN ON``."""
    unit.is_master_on = call.boolean(0)
    unit.apply(call.now)


def set_fuse(unit: Unit, call: SimCall) -> None:
    """``FUSE ON``."""
    unit.channel.has_fuse = call.boolean(0)
    unit.apply(call.now)


def is_active(unit: Unit, call: SimCall) -> str:
    """``OUTP?``."""
    unit.apply(call.now)
    return flag(unit.channel.is_active)


def tripped(unit: Unit, call: SimCall, what: str) -> str:
    """``VOLT:PROT:TRIP?`` and ``FUSE:TRIP?``."""
    unit.apply(call.now)
    return flag(unit.channel.source.tripped == what)


SELECTED_WORDS: Final[Mapping[str, Any]] = {
    **OWN.row(
        ":INSTrument:NSELect", "selected", lambda u, c: c.whole(0, lowest=1, highest=u.count)
    ),
    ":INSTrument[:SELect]": select_name,
    "[:SOURce]:VOLTage[:LEVel][:IMMediate][:AMPLitude]": set_volts,
    "[:SOURce]:VOLTage[:LEVel][:IMMediate][:AMPLitude]?": lambda u, _c: (
        f"{u.channel.source.volts:.3f}"
    ),
    "[:SOURce]:CURRent[:LEVel][:IMMediate][:AMPLitude]": set_amps,
    "[:SOURce]:CURRent[:LEVel][:IMMediate][:AMPLitude]?": lambda u, _c: (
        f"{u.channel.source.amps_limit:.4f}"
    ),
    "[:SOURce]:VOLTage:PROTection:TRIPped?": lambda u, c: tripped(u, c, "over_voltage"),
    ":APPLy?": lambda u, _c: f"{u.channel.source.volts:.3f}, {u.channel.source.amps_limit:.4f}",
    ":OUTPut[:STATe]?": is_active,
    ":FUSE[:STATe]": set_fuse,
    ":FUSE[:STATe]?": lambda u, _c: flag(u.channel.has_fuse),
    ":FUSE:TRIPped?": lambda u, c: tripped(u, c, "over_current"),
    ":SYSTem:REMote": lambda _u, _c: None,
    ":SYSTem:LOCal": lambda _u, _c: None,
    ":SYSTem:BEEPer[:IMMediate]": lambda _u, _c: None,
}
