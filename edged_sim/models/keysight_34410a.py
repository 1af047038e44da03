"""Agilent 34410A: a multimeter across the main load; its current terminals are open.

It has more integration times than the Truevolt meters, one power line cycle as delivered, and a
range of 1 GΩ. Source: the manuals that profiles/keysight_34410a.yaml names.
"""

from __future__ import annotations

import dataclasses
from typing import Final

from edged_sim.models import keysight_34461a
from edged_sim.models.families.meter import MeterFunction
from edged_sim.scpi import Vocabulary

OHMS: Final = (*keysight_34461a.OHMS, 1e9)
FUNCTIONS: Final = {
    **keysight_34461a.FUNCTIONS,
    "RES": MeterFunction(header=":RESistance", ranges=OHMS, has_nplc=True),
    "FRES": MeterFunction(header=":FRESistance", ranges=OHMS, has_nplc=True),
}


class Dmm34410a(keysight_34461a.Truevolt):
    """The state of one unit."""

    functions = FUNCTIONS
    nplc = 1.0
    least_nplc = 0.006
    nplc_steps = (0.006, 0.02, 0.06, 0.2, 1.0, 2.0, 10.0, 100.0)


MODEL: Final = dataclasses.replace(
    keysight_34461a.MODEL,
    idn="Agilent Technologies,34410A,{serial},2.35-2.35-0.09-46-09",
    first_number=47_006_594,
    vocabulary=Vocabulary(
        {
            **keysight_34461a.per_function(FUNCTIONS, banded=keysight_34461a.BANDED_WORDS),
            **keysight_34461a.WORDS,
        }
    ),
    build=Dmm34410a,
)
