"""Two Alicat MC mass flow controllers on one RS-485 line, with the unit ids A and B.

Quirks kept: each line begins with the id of its unit, and the other units stay
silent; a line that sets something is answered by the same line of data as a question; an unknown
order is answered by ``?``; there is no ``*IDN?``. Source: published drivers for Alicat controllers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from edged_sim.plain import PlainSpec
from edged_sim.scpi import Answer, Dialect, SimUnit

IDS: Final = "AB"
FULL_SCALE: Final = 100.0
_SETPOINT: Final = re.compile(r"S ?([0-9]{1,4}(?:\.[0-9]{0,4})?)")


class AlicatPair:
    """The state of both."""

    def __init__(self, unit: SimUnit) -> None:
        self.random = unit.random
        self.reset(0.0)

    def reset(self, now: float) -> None:  # noqa: ARG002 - the seam's argument
        self.setpoints = dict.fromkeys(IDS, 0.0)

    def describe(self, now: float) -> Mapping[str, Any]:  # noqa: ARG002 - the seam's argument
        return dict(self.setpoints)


def perform(unit: AlicatPair, text: str, now: float) -> Answer:  # noqa: ARG001 - the seam's argument
    """What the line does, and the data of the unit that it is for."""
    letter, rest = text[:1].upper(), text[1:].upper()
    if letter not in unit.setpoints:
        return None
    order = _SETPOINT.fullmatch(rest)
    if order is not None and float(order[1]) <= FULL_SCALE:
        unit.setpoints[letter] = float(order[1])
    elif rest:
        return "?"
    setpoint = unit.setpoints[letter]
    flow = max(0.0, setpoint + unit.random.gauss(0.0, 0.02)) if setpoint else 0.0
    return f"{letter} +014.70 +025.00 {flow:+07.2f} {flow:+07.2f} {setpoint:+07.2f} Air"


MODEL: Final = PlainSpec(
    idn="ALICAT MC",
    serial="{number:06d}",
    first_number=1,
    dialect=Dialect(error_format="", line_end=b"\r", message_end=b"\r", latency_s=0.005),
    build=AlicatPair,
    perform=perform,
    profile="",
)
