"""Keysight N7951A: an Advanced Power System unit of 20 V and 50 A with one output.

Quirks kept: no word takes a channel list; what limits the current is ``CURR:LIM``; of the two
Questionable registers the first tells of the watchdog, which is as in the N6700. Source: the manual
that profiles/keysight_n7951a.yaml names.
"""

from __future__ import annotations

from typing import Final

from edged_sim.models.families.keysight_power import (
    WORDS,
    KeysightChannel,
    KeysightPower,
    asked_amps,
    hear,
    set_amps,
)
from edged_sim.scpi import Dialect, ModelSpec, ScpiError, SimCall, SimUnit, Vocabulary

RATINGS: Final = {1: (20.0, 50.0)}
"""Volts and amperes of its output."""
OVER_VOLTAGE: Final = 1.2


def only(unit: KeysightPower, call: SimCall, place: int) -> list[KeysightChannel]:
    """Its output; -108 where a list names one."""
    if call.has(place):
        raise ScpiError(-108)
    return [unit.channel]


def questionable(unit: KeysightPower, call: SimCall) -> str:
    """``STAT:QUES1:COND?``; nothing of the second register happens here."""
    number = call.suffix(highest=2)
    return f"{unit.channel.questionable(call.now) if number == 1 else 0:+d}"


def build(unit: SimUnit) -> KeysightPower:
    """The state of one unit."""
    return KeysightPower(unit, RATINGS, only, OVER_VOLTAGE)


MODEL: Final = ModelSpec(
    idn="Keysight Technologies,N7951A,{serial},A.02.10.2713",
    serial="MY{number:08d}",
    first_number=54000112,
    dialect=Dialect(latency_s=0.002),
    vocabulary=Vocabulary(
        {
            **WORDS,
            "[:SOURce]:CURRent:LIMit[:POSitive][:IMMediate][:AMPLitude]": set_amps,
            "[:SOURce]:CURRent:LIMit[:POSitive][:IMMediate][:AMPLitude]?": asked_amps,
            ":STATus:QUEStionable<n>:CONDition?": questionable,
        }
    ),
    build=build,
    on_message=hear,
)
