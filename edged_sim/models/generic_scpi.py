"""A device that no profile knows: one set-point, one output, one reading. It drives no wire."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from edged_sim.scpi import Dialect, ModelSpec, Settings, SimCall, SimUnit, Vocabulary, block

HIGHEST_LEVEL: Final = 10.0


class Generic:
    """The state of one unit: a level that its reading follows while the output is on."""

    def __init__(self, unit: SimUnit) -> None:
        self.serial = unit.serial
        self.level = 0.0
        self.is_on = False

    def reset(self, now: float) -> None:  # noqa: ARG002 - the seam's argument
        self.level, self.is_on = 0.0, False

    def describe(self, now: float) -> Mapping[str, Any]:  # noqa: ARG002 - the seam's argument
        return {"level": self.level, "is_on": self.is_on}


def read(unit: Generic, call: SimCall) -> str:
    """``MEAS?``."""
    noise = call.random.gauss(0.0, 0.001)
    return f"{(unit.level if unit.is_on else 0.0) + noise:+.6E}"


def list_headers(_unit: Generic, _call: SimCall) -> bytes:
    """Its own list of commands, as SCPI-99 has it in volume 2, 21.11."""
    return block(HEADERS.encode("ascii"))


HEADERS: Final = """\
*IDN?/qonly/
*RST/nquery/
:SOURce:LEVel
:OUTPut:STATe
:MEASure?/qonly/
:SYSTem:ERRor[:NEXT]?/qonly/
:SYSTem:HELP:HEADers?/qonly/
"""

OWN: Final = Settings(say="{:.6E}".format)

VOCABULARY: Final = Vocabulary(
    {
        **OWN.number("[:SOURce]:LEVel", "level", 0.0, HIGHEST_LEVEL, default=0.0),
        **OWN.switch(":OUTPut[:STATe]", "is_on"),
        ":MEASure?": read,
        ":SYSTem:HELP:HEADers?": list_headers,
    }
)

MODEL: Final = ModelSpec(
    idn="Example Instruments,GX100,{serial},1.0",
    serial="GX{number:06d}",
    first_number=1,
    dialect=Dialect(),
    vocabulary=VOCABULARY,
    build=Generic,
)
