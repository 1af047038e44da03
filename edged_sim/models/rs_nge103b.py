"""Rohde & Schwarz NGE103B: three equal channels of which one is selected.

Quirks kept: as with the HMP the channel is a state of the instrument; here ``OUTP`` is the switch
of the selected channel and ``OUTP:GEN`` the master above all; the identity is in mixed case and its
serial number holds a slash. Source: the manuals that
profiles/rs_nge103b.yaml names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from edged_sim.models.families.selected import (
    HIGHEST_OVP,
    SELECTED_WORDS,
    SelectedChannel,
    SelectedSupply,
    set_volts,
    switch_master,
)
from edged_sim.scpi import Dialect, ModelSpec, SimCall, SimUnit, Vocabulary, flag


@dataclass(kw_only=True)
class Channel(SelectedChannel):
    """One output."""

    gain_error = 400e-6
    noise_v = 0.002
    noise_a = 0.0005


class Nge103b(SelectedSupply[Channel]):
    """The state of one unit."""

    count = 3
    highest_v = 32.0
    highest_a = 3.0

    def __init__(self, unit: SimUnit) -> None:
        super().__init__(unit, Channel)


def apply(unit: Nge103b, call: SimCall) -> None:
    """``APPL 5,1``."""
    set_volts(unit, call)
    if call.has(1):
        unit.channel.source.amps_limit = unit.asked_amps(call, 1)
    unit.apply(call.now)


def switch(unit: Nge103b, call: SimCall) -> None:
    """``OUTP ON``: the selected channel's own switch."""
    unit.channel.is_active = call.boolean(0)
    if unit.channel.is_active:
        unit.channel.source.tripped = ""
    unit.apply(call.now)


def set_ovp_level(unit: Nge103b, call: SimCall) -> None:
    """``VOLT:PROT:LEV 12``."""
    unit.channel.set_over_volts(call.number(0, lowest=0.01, highest=HIGHEST_OVP, unit="V"))


def set_ovp(unit: Nge103b, call: SimCall) -> None:
    """``VOLT:PROT ON``."""
    unit.channel.protect_volts(is_on=call.boolean(0))


VOCABULARY: Final = Vocabulary(
    {
        **SELECTED_WORDS,
        ":INSTrument[:SELect]?": lambda u, _c: f"OUT{u.selected}",
        "[:SOURce]:VOLTage:PROTection:LEVel": set_ovp_level,
        "[:SOURce]:VOLTage:PROTection:LEVel?": lambda u, _c: f"{u.channel.over_volts:.3f}",
        "[:SOURce]:VOLTage:PROTection[:STATe]": set_ovp,
        "[:SOURce]:VOLTage:PROTection[:STATe]?": lambda u, _c: flag(
            u.channel.source.over_voltage is not None
        ),
        ":APPLy": apply,
        ":OUTPut[:STATe]": switch,
        ":OUTPut:GENeral[:STATe]": switch_master,
        ":OUTPut:GENeral[:STATe]?": lambda u, _c: flag(u.is_master_on),
        ":MEASure[:SCALar][:VOLTage][:DC]?": lambda u, c: f"{u.channel.display(c)[0]:.4f}",
        ":MEASure[:SCALar]:CURRent[:DC]?": lambda u, c: f"{u.channel.display(c)[1]:.4f}",
        ":MEASure[:SCALar]:POWer?": lambda u, c: f"{u.channel.display(c)[2]:.4f}",
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
