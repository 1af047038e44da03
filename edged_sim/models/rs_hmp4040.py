"""Rohde & Schwarz (Hameg) HMP4040: four equal channels of which one is selected.

Quirks kept: whatever is set, asked or measured concerns the selected channel, and the selection is
the instrument's and not the connection's, so that another client changes it; a channel gives
something only while it is activated (``OUTP:SEL``) and the master switch (``OUTP:GEN``) is on; a
blown electronic fuse deactivates its channel. Source: the manuals that
profiles/rs_hmp4040.yaml names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from edged_sim.models.families.selected import (
    HIGHEST_OVP,
    SELECTED_WORDS,
    SelectedChannel,
    SelectedSupply,
    is_active,
    switch_master,
)
from edged_sim.scpi import (
    Dialect,
    ModelSpec,
    ScpiError,
    Settings,
    SimCall,
    SimUnit,
    Vocabulary,
    flag,
)

MOST_DELAY_MS: Final = 250


@dataclass(kw_only=True)
class Channel(SelectedChannel):
    """One output; its over-voltage protection cannot be switched off."""

    gain_error = 300e-6
    noise_v = 0.001
    noise_a = 0.0005

    fuse_delay_ms: int = 0

    def reset(self) -> None:
        """As delivered."""
        super().reset()
        self.source.over_voltage = HIGHEST_OVP
        self.fuse_delay_ms = 0

    def describe(self, now: float) -> dict[str, Any]:
        return {
            "is_active": self.is_active,
            **super().describe(now),
            "tripped": self.source.tripped,
        }


class Hmp4040(SelectedSupply[Channel]):
    """The state of one unit."""

    count = 4
    highest_v = 32.05
    highest_a = 10.0

    def __init__(self, unit: SimUnit) -> None:
        super().__init__(unit, Channel)


def apply(unit: Hmp4040, call: SimCall) -> None:
    """``APPL 5,1``: both, or neither where one cannot be."""
    volts = unit.asked_volts(call)
    amps = unit.asked_amps(call, 1) if call.has(1) else unit.channel.source.amps_limit
    unit.channel.set_volts(volts, call.now)
    unit.channel.source.amps_limit = amps
    unit.apply(call.now)


def activate(unit: Hmp4040, call: SimCall) -> None:
    """``OUTP:SEL ON``: the selected channel follows the master switch."""
    is_wanted = call.boolean(0)
    unit.channel.node.advance(call.now)
    if is_wanted and unit.channel.source.tripped == "over_voltage":
        raise ScpiError(-221)
    if is_wanted:
        unit.channel.source.tripped = ""
    unit.channel.is_active = is_wanted
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


OF_CHANNEL: Final = Settings(of=lambda u, _c: u.channel)

VOCABULARY: Final = Vocabulary(
    {
        **SELECTED_WORDS,
        ":INSTrument[:SELect]?": lambda u, _c: f"OUTP{u.selected}",
        "[:SOURce]:VOLTage:PROTection[:LEVel]": set_ovp,
        "[:SOURce]:VOLTage:PROTection[:LEVel]?": lambda u, _c: f"{u.channel.over_volts:.3f}",
        "[:SOURce]:VOLTage:PROTection:CLEar": clear_ovp,
        ":APPLy": apply,
        ":OUTPut[:STATe]": switch,
        ":OUTPut:SELect": activate,
        ":OUTPut:SELect?": is_active,
        ":OUTPut:GENeral": switch_master,
        ":OUTPut:GENeral?": lambda u, _c: flag(u.is_master_on),
        **OF_CHANNEL.whole(":FUSE:DELay", "fuse_delay_ms", 0, MOST_DELAY_MS),
        ":MEASure[:SCALar][:VOLTage][:DC]?": lambda u, c: f"{u.channel.display(c)[0]:.3f}",
        ":MEASure[:SCALar]:CURRent[:DC]?": lambda u, c: f"{u.channel.display(c)[1]:.4f}",
        ":STATus:QUEStionable:INSTrument:ISUMmary<n>:CONDition?": lambda u, c: str(
            u.channels[c.suffix(highest=u.count)].regulation(c.now)
        ),
        ":SYSTem:MIX": lambda _u, _c: None,
        ":SYSTem:RWLock": lambda _u, _c: None,
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
