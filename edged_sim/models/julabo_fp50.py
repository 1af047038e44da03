"""JULABO FP50-HE refrigerated and heating circulator: IN_… asks, OUT_… sets, nothing has a ``?``.

Quirks kept: an order is answered by nothing, and what was wrong with it (not in remote, outside of
the range, unknown) is told by the next STATUS alone, once; what comes within 250 ms of an order is
lost; orders end in CR and answers in CR LF; ``*IDN?`` is an invalid command like any other, and
leaves the unit in that state. Source: the sources that profiles/julabo_fp50.yaml names.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Final

from edged_sim.models.families.bath import Bath
from edged_sim.plain import PlainSpec
from edged_sim.scpi import Answer, Dialect, SimUnit

INVALID: Final = "-08 INVALID COMMAND"
NOT_ALLOWED: Final = "-09 COMMAND NOT ALLOWED IN CURRENT OPERATING MODE"
TOO_SMALL: Final = "-10 VALUE TOO SMALL"
TOO_LARGE: Final = "-11 VALUE TOO LARGE"
EXCEEDS: Final = "-13 VALUE EXCEEDS TEMPERATURE LIMITS"
STAGES: Final = range(1, 5)
_ORDER: Final = re.compile(r"(OUT_[A-Z]+_[0-9]{2}) ([+-]?[0-9]{1,4}(?:\.[0-9]{1,2})?)")


class Fp50(Bath):
    """The state of one unit."""

    lowest_c = -50.0
    highest_c = 200.0

    def __init__(self, unit: SimUnit) -> None:
        # Of its menu: with the interface switched off it takes no orders, and answers all the same.
        self.is_remote = True
        super().__init__(unit)

    def reset(self, now: float) -> None:
        super().reset(now)
        self.setpoints = [20.0, 25.0, 30.0]
        self.selected = 0
        self.high_warning, self.low_warning = self.highest_c, self.lowest_c
        self.stage, self.sensor = 2, 0
        self.terms = {"06": 0.5, "07": 250.0, "08": 40.0}
        self.complaint = ""

    def status(self) -> str:
        """What is wrong, once; else what it does."""
        complaint, self.complaint = self.complaint, ""
        if complaint:
            return complaint
        mode = "REMOTE" if self.is_remote else "MANUAL"
        number = 2 * self.is_remote + self.is_running
        return f"{number:02d} {mode} {'START' if self.is_running else 'STOP'}"

    def order(self, word: str, value: float) -> str:
        """What is wrong with an order; empty where it is obeyed."""
        if not self.is_remote:
            return NOT_ALLOWED
        if word.startswith("OUT_PAR_") and word[-2:] in self.terms:
            self.terms[word[-2:]] = value
            return "" if value >= 0 else TOO_SMALL
        match word:
            case "OUT_MODE_05" if value in (0, 1):
                self.is_running = bool(value)
                return ""
            case "OUT_MODE_04" if value in (0, 1):
                self.sensor = int(value)
                return ""
            case "OUT_MODE_01" if value in (0, 1, 2):
                self.selected = int(value)
                self.setpoint = self.setpoints[self.selected]
                return ""
            case "OUT_SP_07" if value in STAGES:
                self.stage = int(value)
                return ""
            case _:
                return self.order_temperature(word, value)

    def order_temperature(self, word: str, value: float) -> str:
        """``OUT_SP_00 25.00``."""
        if word not in ("OUT_SP_00", "OUT_SP_01", "OUT_SP_02"):
            return INVALID
        if not self.lowest_c <= value <= self.highest_c:
            return TOO_SMALL if value < self.lowest_c else TOO_LARGE
        if not self.low_warning <= value <= self.high_warning:
            return EXCEEDS
        self.setpoints[int(word[-1])] = value
        self.setpoint = self.setpoints[self.selected]
        return ""


def perform(unit: Fp50, message: str, now: float) -> Answer:
    """One message."""
    unit.advance(now)
    word = message.upper()
    asked: dict[str, Callable[[], str]] = {
        "VERSION": lambda: "JULABO FP50_HE VERSION 4.0",
        "STATUS": unit.status,
        "IN_PV_00": lambda: f"{unit.measured(now):.2f}",
        "IN_PV_01": lambda: f"{unit.percent:.1f}",
        "IN_PV_02": lambda: "---.--",
        "IN_PV_03": lambda: f"{unit.measured(now) + 0.3:.2f}",
        "IN_SP_00": lambda: f"{unit.setpoints[0]:.2f}",
        "IN_SP_01": lambda: f"{unit.setpoints[1]:.2f}",
        "IN_SP_02": lambda: f"{unit.setpoints[2]:.2f}",
        "IN_SP_03": lambda: f"{unit.high_warning:.2f}",
        "IN_SP_04": lambda: f"{unit.low_warning:.2f}",
        "IN_SP_07": lambda: str(unit.stage),
        "IN_PV_04": lambda: "210",
        "IN_MODE_01": lambda: str(unit.selected),
        "IN_MODE_04": lambda: str(unit.sensor),
        "IN_MODE_05": lambda: str(int(unit.is_running)),
        **{f"IN_PAR_{number}": partial(str, term) for number, term in unit.terms.items()},
    }
    if word in asked:
        return asked[word]()
    found = _ORDER.fullmatch(word)
    unit.complaint = INVALID if found is None else unit.order(found[1], float(found[2]))
    return None


MODEL: Final = PlainSpec(
    idn="JULABO FP50_HE VERSION 4.0",
    serial="{number:07d}",
    first_number=1024317,
    dialect=Dialect(
        error_format="", line_end=b"\r\n", message_end=b"\r", latency_s=0.005, deaf_s=0.25
    ),
    build=Fp50,
    perform=perform,
    profile="julabo_fp50",
)
