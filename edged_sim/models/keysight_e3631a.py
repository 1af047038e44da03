"""HP, Agilent, Keysight E3631A: three outputs behind one switch; the third one is negative.

Quirks kept: ``OUTP`` switches all three; whatever names no output means the selected one; the
voltage of the third is set below zero; with the track mode on, the second and the third follow
each other. Source: the manuals that
profiles/keysight_e3631a.yaml names.
"""

from __future__ import annotations

from typing import Final

from edged_sim.models.families.e3600 import (
    E3600_DIALECT,
    E3600_WORDS,
    INSTRUMENT_WORDS,
    E3600Unit,
    number,
    set_volts,
)
from edged_sim.scpi import ModelSpec, SimCall, Vocabulary, flag

NAMES: Final = {"P6V": 1, "P25V": 2, "N25V": 3}


class E3631a(E3600Unit):
    """The state of one unit."""

    outputs = {  # noqa: RUF012 - the family's class variable
        1: {"ranges": {"P6V": (6.18, 5.15)}},
        2: {"ranges": {"P25V": (25.75, 1.03)}},
        3: {"ranges": {"N25V": (-25.75, 1.03)}},
    }

    def reset(self, now: float) -> None:
        super().reset(now)
        self.has_tracking = False
        for place, amps in ((1, 5.0), (2, 1.0), (3, 1.0)):
            self.channels[place].source.amps_limit = amps

    def couple(self, leader: int, now: float) -> None:
        """While tracking, what one of the 25 V outputs has is the other's, too."""
        if self.has_tracking and leader in (2, 3):
            follower = 5 - leader
            self.channels[follower].set_volts(-self.channels[leader].source.volts, now)


def set_tracked_volts(unit: E3631a, call: SimCall) -> None:
    """``VOLT 5``."""
    set_volts(unit, call)
    unit.couple(unit.selected, call.now)


def set_tracking(unit: E3631a, call: SimCall) -> None:
    """``OUTP:TRAC ON``: the negative output goes to where the positive one is."""
    unit.has_tracking = call.boolean(0)
    unit.couple(2, call.now)


def select(unit: E3631a, call: SimCall) -> None:
    """``INST P25V``."""
    unit.selected = call.choice(0, NAMES)


def measure(unit: E3631a, call: SimCall, index: int) -> str:
    """``MEAS:VOLT? P6V``, or of the selected output."""
    place = call.choice(0, NAMES) if call.has(0) else unit.selected
    return number(unit.channels[place].measure(call)[index])


VOCABULARY: Final = Vocabulary(
    {
        **E3600_WORDS,
        **INSTRUMENT_WORDS,
        "[:SOURce]:VOLTage[:LEVel][:IMMediate][:AMPLitude]": set_tracked_volts,
        ":MEASure[:SCALar][:VOLTage][:DC]?": lambda u, c: measure(u, c, 0),
        ":MEASure[:SCALar]:CURRent[:DC]?": lambda u, c: measure(u, c, 1),
        ":OUTPut:TRACk[:STATe]": set_tracking,
        ":OUTPut:TRACk[:STATe]?": lambda u, _c: flag(u.has_tracking),
        ":INSTrument[:SELect]": select,
        ":INSTrument[:SELect]?": lambda u, _c: next(n for n, k in NAMES.items() if k == u.selected),
    }
)

MODEL: Final = ModelSpec(
    idn="HEWLETT-PACKARD,E3631A,{serial},2.1-5.0-1.0",
    serial="0",
    first_number=0,
    dialect=E3600_DIALECT,
    vocabulary=VOCABULARY,
    build=E3631a,
)
