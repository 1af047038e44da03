"""LAUDA Integral XT process thermostat: every order is answered, by OK or an error's number.

Quirks kept: the value stands in the order itself (``OUT_SP_00_25.00``); a question that cannot be
answered is answered by ``ERR_33`` and the like; START and STOP have no common word, and whether it
stands by is told the wrong way round (``IN_MODE_02``: 0 is on); ``*IDN?`` is answered by ``ERR_3``,
which is no name. Source: the sources that profiles/lauda_integral.yaml names.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Final

from edged_sim.models.families.bath import Bath
from edged_sim.plain import PlainSpec
from edged_sim.scpi import Answer, Dialect

OK: Final = "OK"
WRONG_COMMAND: Final = "ERR_3"
SYNTAX: Final = "ERR_5"
ILLEGAL: Final = "ERR_6"
CROSSED: Final = "ERR_32"
NO_SENSOR: Final = "ERR_33"
LEVELS: Final = range(1, 9)
COOLING: Final = range(3)
_ORDER: Final = re.compile(r"OUT_(SP|PAR|MODE)_([0-9]{2})_(.+)")
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,3}(?:\.[0-9]{1,2})?")


class Integral(Bath):
    """The state of one unit."""

    lowest_c = -50.0
    highest_c = 220.0

    def reset(self, now: float) -> None:
        super().reset(now)
        self.level = 4
        self.cooling = 2
        self.is_locked = False
        self.limits = {4: 225.0, 5: -55.0}
        self.terms = {0: 5.0, 1: 60.0, 2: 30.0, 3: 3.0}

    def order(self, kind: str, number: int, value: float) -> str:
        """``OUT_SP_00_25.00``."""
        match kind, number:
            case "SP", 0 if self.lowest_c <= value <= self.highest_c:
                self.setpoint = value
            case "SP", 1 if value in LEVELS:
                self.level = int(value)
            case "SP", 2 if value in COOLING:
                self.cooling = int(value)
            case "SP", 4 | 5 if self.lowest_c - 5 <= value <= self.highest_c + 5:
                if (value <= self.limits[5]) if number == 4 else (value >= self.limits[4]):
                    return CROSSED
                self.limits[number] = value
            case "PAR", 0 | 1 | 2 | 3 if value >= 0:
                self.terms[number] = value
            case "MODE", 0 if value in (0, 1):
                self.is_locked = bool(value)
            case ("SP", 0 | 1 | 2 | 4 | 5) | ("PAR", 0 | 1 | 2 | 3) | ("MODE", 0):
                return ILLEGAL
            case _:
                return WRONG_COMMAND
        return OK


def perform(unit: Integral, message: str, now: float) -> Answer:
    """One message."""
    unit.advance(now)
    if message in ("START", "STOP"):
        unit.is_running = message == "START"
        return OK
    asked: dict[str, Callable[[], str]] = {
        "TYPE": lambda: "XT",
        "VERSION_R": lambda: "2.13",
        "STATUS": lambda: "0",
        "STAT": lambda: "0000000",
        "IN_PV_00": lambda: f"{unit.measured(now):06.2f}",
        "IN_PV_01": lambda: f"{unit.measured(now):06.2f}",
        "IN_PV_02": lambda: f"{0.3 * unit.level * unit.is_running:05.2f}",
        "IN_PV_03": lambda: NO_SENSOR,
        "IN_SP_00": lambda: f"{unit.setpoint:06.2f}",
        "IN_SP_01": lambda: f"{unit.level:03d}",
        "IN_SP_02": lambda: f"{unit.cooling:03d}",
        "IN_SP_03": lambda: "230.0",
        "IN_SP_04": lambda: f"{unit.limits[4]:05.1f}",
        "IN_SP_05": lambda: f"{unit.limits[5]:05.1f}",
        "VERSION_S": lambda: "2.05",
        **{f"IN_PAR_{n:02d}": partial("{:05.1f}".format, t) for n, t in unit.terms.items()},
        "IN_MODE_00": lambda: str(int(unit.is_locked)),
        "IN_MODE_02": lambda: str(int(not unit.is_running)),
    }
    if message in asked:
        return asked[message]()
    found = _ORDER.fullmatch(message)
    if found is None:
        return WRONG_COMMAND
    if not _NUMBER.fullmatch(found[3]):
        return SYNTAX
    return unit.order(found[1], int(found[2]), float(found[3]))


MODEL: Final = PlainSpec(
    idn="LAUDA Integral XT",
    serial="LAUDA-{number:06d}",
    first_number=150,
    dialect=Dialect(error_format="", line_end=b"\r\n", message_end=b"\r", latency_s=0.004),
    build=Integral,
    perform=perform,
    profile="lauda_integral",
)
