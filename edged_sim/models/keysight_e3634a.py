"""HP, Agilent, Keysight E3634A: one output with a low and a high range and two protections.

Quirks kept: both protections are on after a reset; a trip leaves ``OUTP?`` at 1, and clearing it
brings the output back; a lower range takes what is set down to it. Source: the manuals that
profiles/keysight_e3634a.yaml names.
"""

from __future__ import annotations

from typing import Final

from edged_sim.models.families.e3600 import (
    E3600_DIALECT,
    E3600_WORDS,
    OCP_WORDS,
    OVP_WORDS,
    RANGE_WORDS,
    E3600Unit,
)
from edged_sim.scpi import ModelSpec, Vocabulary


class E3634a(E3600Unit):
    """The state of one unit."""

    outputs = {  # noqa: RUF012 - the family's class variable
        1: {
            "ranges": {"P25V": (25.0, 7.0), "P50V": (50.0, 4.0)},
            "most_over_volts": 55.0,
            "most_over_amps": 7.5,
        }
    }


VOCABULARY: Final = Vocabulary({**E3600_WORDS, **RANGE_WORDS, **OVP_WORDS, **OCP_WORDS})

MODEL: Final = ModelSpec(
    idn="HEWLETT-PACKARD,E3634A,{serial},2.4-6.1-2.1",
    serial="0",
    first_number=0,
    dialect=E3600_DIALECT,
    vocabulary=VOCABULARY,
    build=E3634a,
)
