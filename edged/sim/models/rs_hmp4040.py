"""Rohde & Schwarz (Hameg) HMP4040: four equal channels of which one is selected.

Quirks kept: whatever is set, asked or measured concerns the selected channel, and the selection is
the instrument's and not the connection's, so that another client changes it; a channel gives
something only while it is activated (``OUTP:SEL``) and the master switch (``OUTP:GEN``) is on; a
blown electronic fuse deactivates its channel. Source: the manuals that
profiles/rs_hmp4040.yaml names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from edged.sim.physics import Node, SupplyOutput
from edged.sim.scpi import Dialect, ModelSpec, ScpiError, SimCall, SimUnit, Vocabulary

HIGHEST_V: Final = 32.05
HIGHEST_A: Final = 10.0
HIGHEST_OVP: Final = 32.5
MOST_DELAY_MS: Final = 250
COUNT: Final = 4
GAIN_ERROR: Final = 300e-6
NOISE_V: Final = 0.001
NOISE_A: Final = 0.0005


@dataclass(slots=True, kw_only=True)
class Channel:
    """One output: its wires and settings; the source is on while it is activated and the master."""

    node: Node
    source: SupplyOutput
    gain: float
    is_active: bool = False
    over_volts: float = HIGHEST_OVP
    has_fuse: bool = False
    fuse_delay_ms: int = 0

    def reset(self) -> None:
        """As delivered."""
        self.is_active = self.has_fuse = False
        self.source.volts, self.source.amps_limit = 0.0, 1.0
        self.source.over_voltage, self.source.over_current = HIGHEST_OVP, None
        self.source.tripped = ""
        self.over_volts, self.fuse_delay_ms = HIGHEST_OVP, 0

    def measure(self, call: SimCall) -> tuple[float, float]:
        """Volts and amperes at the terminals."""
        node = self.node.advance(call.now)
        volts = node.terminal_volts * self.gain + call.random.gauss(0.0, NOISE_V)
        amps = node.amps * self.gain + call.random.gauss(0.0, NOISE_A)
        return max(0.0, volts), max(0.0, amps)


class Hmp4040:
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
            channel.reset()
        self.apply(now)

    def describe(self, now: float) -> Mapping[str, Any]:
        """See ``State``."""
        told: dict[str, Any] = {
            f"ch{number}": {
                "is_active": channel.is_active,
                "is_on": channel.source.is_on,
                "volts_set": channel.source.volts,
                "amps_limit": channel.source.amps_limit,
                "volts": channel.node.advance(now).terminal_volts,
                "amps": channel.node.amps,
                "tripped": channel.source.tripped,
            }
            for number, channel in self.channels.items()
        }
        return {**told, "is_master_on": self.is_master_on, "selected": self.selected}

    @property
    def channel(self) -> Channel:
        """The selected one."""
        return self.channels[self.selected]

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


def select_number(unit: Hmp4040, call: SimCall) -> None:
    """``INST:NSEL 2``."""
    unit.selected = call.whole(0, lowest=1, highest=COUNT)


def select_name(unit: Hmp4040, call: SimCall) -> None:
    """``INST OUT2``."""
    names = {f"OUTPut{n}": n for n in unit.channels} | {f"OUT{n}": n for n in unit.channels}
    unit.selected = call.choice(0, names)


def set_volts(unit: Hmp4040, call: SimCall) -> None:
    """``VOLT 5`` of the selected channel."""
    volts = call.number(0, lowest=0.0, highest=HIGHEST_V, default=0.0, unit="V")
    unit.channel.node.advance(call.now)
    unit.channel.source.volts = round(volts, 3)


def set_amps(unit: Hmp4040, call: SimCall) -> None:
    """``CURR 1`` of the selected channel."""
    amps = call.number(0, lowest=0.0, highest=HIGHEST_A, default=0.1, unit="A")
    unit.channel.source.amps_limit = round(amps, 4)
    unit.apply(call.now)


def apply(unit: Hmp4040, call: SimCall) -> None:
    """``APPL 5,1``."""
    volts = call.number(0, lowest=0.0, highest=HIGHEST_V, default=0.0, unit="V")
    amps = unit.channel.source.amps_limit
    if call.has(1):
        amps = call.number(1, lowest=0.0, highest=HIGHEST_A, default=0.1, unit="A")
    unit.channel.node.advance(call.now)
    unit.channel.source.volts, unit.channel.source.amps_limit = round(volts, 3), round(amps, 4)
    unit.apply(call.now)


def activate(unit: Hmp4040, call: SimCall) -> None:
    """``OUTP:SEL ON``: the selected channel follows the master switch."""
    is_active = call.boolean(0)
    unit.channel.node.advance(call.now)
    if is_active and unit.channel.source.tripped == "over_voltage":
        raise ScpiError(-221)
    if is_active:
        unit.channel.source.tripped = ""
    unit.channel.is_active = is_active
    unit.apply(call.now)


def switch_master(unit: Hmp4040, call: SimCall) -> None:
    """``OUTP:GEN ON``."""
    unit.is_master_on = call.boolean(0)
    unit.apply(call.now)


def switch(unit: Hmp4040, call: SimCall) -> None:
    """``OUTP ON``: activates the selected channel and switches the master on with it."""
    activate(unit, call)
    if call.boolean(0):
        unit.is_master_on = True
    unit.apply(call.now)


def set_ovp(unit: Hmp4040, call: SimCall) -> None:
    """``VOLT:PROT 12``."""
    unit.channel.over_volts = call.number(0, lowest=0.0, highest=HIGHEST_OVP, unit="V")
    unit.channel.source.over_voltage = unit.channel.over_volts


def clear_ovp(unit: Hmp4040, call: SimCall) -> None:
    """``VOLT:PROT:CLE``: and the channel is active again, if the master is on it delivers."""
    unit.channel.node.advance(call.now)
    if unit.channel.source.tripped == "over_voltage":
        unit.channel.source.tripped = ""
        unit.channel.is_active = True
    unit.apply(call.now)


def set_fuse(unit: Hmp4040, call: SimCall) -> None:
    """``FUSE ON``."""
    unit.channel.has_fuse = call.boolean(0)
    unit.apply(call.now)


def set_fuse_delay(unit: Hmp4040, call: SimCall) -> None:
    """``FUSE:DEL 50``, in milliseconds."""
    unit.channel.fuse_delay_ms = call.whole(0, lowest=0, highest=MOST_DELAY_MS)


def tripped(unit: Hmp4040, call: SimCall, what: str) -> str:
    """``VOLT:PROT:TRIP?`` and ``FUSE:TRIP?``."""
    unit.apply(call.now)
    return str(int(unit.channel.source.tripped == what))


def _channel_is_on(unit: Hmp4040, call: SimCall) -> str:
    unit.apply(call.now)
    return str(int(unit.channel.is_active))


VOCABULARY: Final = Vocabulary(
    {
        ":INSTrument:NSELect": select_number,
        ":INSTrument:NSELect?": lambda u, _c: str(u.selected),
        ":INSTrument[:SELect]": select_name,
        ":INSTrument[:SELect]?": lambda u, _c: f"OUTP{u.selected}",
        "[:SOURce]:VOLTage[:LEVel][:IMMediate][:AMPLitude]": set_volts,
        "[:SOURce]:VOLTage[:LEVel][:IMMediate][:AMPLitude]?": lambda u, _c: (
            f"{u.channel.source.volts:.3f}"
        ),
        "[:SOURce]:CURRent[:LEVel][:IMMediate][:AMPLitude]": set_amps,
        "[:SOURce]:CURRent[:LEVel][:IMMediate][:AMPLitude]?": lambda u, _c: (
            f"{u.channel.source.amps_limit:.4f}"
        ),
        "[:SOURce]:VOLTage:PROTection[:LEVel]": set_ovp,
        "[:SOURce]:VOLTage:PROTection[:LEVel]?": lambda u, _c: f"{u.channel.over_volts:.3f}",
        "[:SOURce]:VOLTage:PROTection:TRIPped?": lambda u, c: tripped(u, c, "over_voltage"),
        "[:SOURce]:VOLTage:PROTection:CLEar": clear_ovp,
        ":APPLy": apply,
        ":APPLy?": lambda u, _c: f"{u.channel.source.volts:.3f}, {u.channel.source.amps_limit:.4f}",
        ":OUTPut[:STATe]": switch,
        ":OUTPut[:STATe]?": _channel_is_on,
        ":OUTPut:SELect": activate,
        ":OUTPut:SELect?": _channel_is_on,
        ":OUTPut:GENeral": switch_master,
        ":OUTPut:GENeral?": lambda u, _c: str(int(u.is_master_on)),
        ":FUSE[:STATe]": set_fuse,
        ":FUSE[:STATe]?": lambda u, _c: str(int(u.channel.has_fuse)),
        ":FUSE:DELay": set_fuse_delay,
        ":FUSE:DELay?": lambda u, _c: str(u.channel.fuse_delay_ms),
        ":FUSE:TRIPped?": lambda u, c: tripped(u, c, "over_current"),
        ":MEASure[:SCALar][:VOLTage][:DC]?": lambda u, c: f"{u.channel.measure(c)[0]:.3f}",
        ":MEASure[:SCALar]:CURRent[:DC]?": lambda u, c: f"{u.channel.measure(c)[1]:.4f}",
        ":SYSTem:REMote": lambda _u, _c: None,
        ":SYSTem:LOCal": lambda _u, _c: None,
        ":SYSTem:MIX": lambda _u, _c: None,
        ":SYSTem:RWLock": lambda _u, _c: None,
        ":SYSTem:BEEPer[:IMMediate]": lambda _u, _c: None,
        ":SYSTem:VERSion?": lambda _u, _c: "1999.0",
    }
)

MODEL: Final = ModelSpec(
    idn="ROHDE&SCHWARZ,HMP4040,{serial},HW50020003/SW2.70",
    serial="{number:06d}",
    first_number=109401,
    dialect=Dialect(error_format='{code},"{text}"', latency_s=0.004),
    vocabulary=VOCABULARY,
    build=Hmp4040,
)
