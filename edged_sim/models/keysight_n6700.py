"""Keysight N6700C: a mainframe with four modules, which are named by a channel list.

Quirks kept: every word about an output wants its list, ``(@1)``; a question about ``(@1:4)`` has
one answer for each channel; the watchdog is one for the whole mainframe, is lost with the power
and by ``*RST``, and takes no list. The modules are all of 60 V and 20 A, as the N6754A is (of which
a real mainframe holds two). Source: the manuals that profiles/keysight_n6700.yaml names.
"""

from __future__ import annotations

from typing import Final

from edged_sim.models.families.keysight_power import (
    WORDS,
    KeysightChannel,
    KeysightPower,
    each,
    hear,
)
from edged_sim.scpi import Dialect, ModelSpec, SimCall, SimUnit, Vocabulary

RATINGS: Final = dict.fromkeys((1, 2, 3, 4), (60.0, 20.0))
"""Volts and amperes of each module."""
OVER_VOLTAGE: Final = 1.1


def listed(unit: KeysightPower, call: SimCall, place: int) -> list[KeysightChannel]:
    """The channels of the list; -109 where there is none."""
    return [unit.channels[number] for number in call.channels(place, highest=len(RATINGS))]


def build(unit: SimUnit) -> KeysightPower:
    """The state of one unit."""
    return KeysightPower(unit, RATINGS, listed, OVER_VOLTAGE)


MODEL: Final = ModelSpec(
    idn="Keysight Technologies,N6700C,{serial},E.02.03.3189",
    serial="MY{number:08d}",
    first_number=56003645,
    dialect=Dialect(latency_s=0.002),
    vocabulary=Vocabulary(
        {
            **WORDS,
            ":STATus:QUEStionable:CONDition?": each(lambda ch, c: f"{ch.questionable(c.now):+d}"),
            ":SYSTem:CHANnel[:COUNt]?": lambda _u, _c: str(len(RATINGS)),
        }
    ),
    build=build,
    on_message=hear,
)
