"""Oxford ITC503: three cold stages, one heater, one gas valve, and words of one letter.

Quirks kept: an order is answered by its letter, what is not understood or not allowed by ``?`` and
the order; after a ``$`` nothing is answered; ``V`` alone does not begin with its letter; in local
only ``C``, ``R``, ``V`` and ``X`` are obeyed, and it wakes up in local; a manual heater keeps what
it had; ``*IDN?`` is no word of it. Source: the drivers that profiles/oxford_itc503.yaml names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from edged_sim.models.families.stage import BASE_K, NOISE_K, Stage
from edged_sim.plain import PlainSpec
from edged_sim.scpi import Answer, Dialect, SimUnit

VERSION: Final = "ITC503 Version 1.11 (c) OXFORD 1997"
RISE_K: Final = 300.0
"""What the whole of its heater can warm a stage by."""
MOST_VOLTS: Final = 40.0
SENSORS: Final = (1, 2, 3)
LOCAL, REMOTE = frozenset({0, 2}), frozenset({1, 3})
ALWAYS: Final = frozenset("CRVX")
LIMITS: Final[Mapping[str, float]] = {
    "T": 1677.7,
    "O": 99.9,
    "G": 99.9,
    "P": 1677.7,
    "I": 140.0,
    "D": 273.0,
}
_NUMBER: Final = re.compile(r"[0-9]{1,5}(?:\.[0-9]{0,6})?")


class Itc503:
    """The state of one unit."""

    def __init__(self, unit: SimUnit) -> None:
        self.random = unit.random
        self.stages = {sensor: Stage() for sensor in SENSORS}
        self.reset(0.0)

    def reset(self, now: float) -> None:  # noqa: ARG002 - the seam's argument
        """See ``ModelState``: as it wakes up, in local; a stage keeps its temperature."""
        self.automatic, self.control, self.sweep, self.sensor, self.has_table = 0, 2, 0, 1, 0
        self.values = {"T": 0.0, "O": 0.0, "G": 0.0, "P": 10.0, "I": 1.0, "D": 0.0}

    def describe(self, now: float) -> Mapping[str, Any]:
        self.advance(now)
        return {
            "setpoint": self.values["T"],
            "is_on": self.percent > 0,
            "automatic": self.automatic,
            "is_local": self.control in LOCAL,
            "kelvin": {str(sensor): stage.kelvin for sensor, stage in self.stages.items()},
        }

    @property
    def percent(self) -> float:
        """Of its largest voltage, that the heater has."""
        if not self.automatic & 1:
            return self.values["O"]
        stage = self.stages[self.sensor]
        return min(99.9, stage.percent(self.values["T"], RISE_K))

    def advance(self, now: float) -> None:
        """Let the time since the last look pass: the heater is on the stage that is controlled."""
        for sensor, stage in self.stages.items():
            passed_s = stage.passed(now)
            target = BASE_K
            if sensor == self.sensor:
                is_automatic = self.automatic & 1
                wanted = self.values["T"] - BASE_K if is_automatic else RISE_K
                share = 1.0 if is_automatic else self.values["O"] / 100
                target += max(0.0, min(wanted, RISE_K * share))
            stage.warm(target, passed_s)
        if self.automatic & 1:
            self.values["O"] = self.percent

    def read(self, number: int) -> str:
        """``R0`` to ``R13``."""
        controlled = self.stages[self.sensor].kelvin
        values = {
            0: self.values["T"],
            4: self.values["T"] - controlled,
            5: self.percent,
            6: self.percent / 100 * MOST_VOLTS,
            7: self.values["G"],
            8: self.values["P"],
            9: self.values["I"],
            10: self.values["D"],
        }
        if number in SENSORS:
            return f"R{self.stages[number].kelvin + self.random.gauss(0.0, NOISE_K):+09.3f}"
        return f"R{values[number]:+09.3f}" if number in values else f"?R{number}"

    def status(self) -> str:
        """``X``."""
        return f"X0A{self.automatic}C{self.control}S{self.sweep:02d}H{self.sensor}L{self.has_table}"

    def obey(self, letter: str, value: float) -> bool:
        """Whether an order could be obeyed."""
        if letter in LIMITS:
            if value > LIMITS[letter] or (letter == "O" and self.automatic & 1):
                return False
            self.values[letter] = value
            return True
        number = int(value)
        match letter:
            case "C" if number in LOCAL | REMOTE:
                self.control = number
            case "A" if number in range(4):
                self.automatic = number
            case "H" if number in SENSORS:
                self.sensor = number
            case "L" if number in (0, 1):
                self.has_table = number
            case "S" if number in range(33):
                self.sweep = number
            case _:
                return False
        return True


def perform(unit: Itc503, message: str, now: float) -> Answer:
    """One message."""
    unit.advance(now)
    is_silent = message.startswith("$")
    word = message.removeprefix("$")
    answer = _answer(unit, word[:1], word[1:], word)
    return None if is_silent else answer


def _answer(unit: Itc503, letter: str, rest: str, word: str) -> str:
    refused = f"?{word}"
    if unit.control in LOCAL and letter not in ALWAYS:
        return refused
    if word == "V":
        return VERSION
    if word == "X":
        return unit.status()
    if _NUMBER.fullmatch(rest) is None:
        return refused
    if letter == "R":
        return unit.read(int(float(rest)))
    return letter if unit.obey(letter, float(rest)) else refused


MODEL: Final = PlainSpec(
    idn=VERSION,
    serial="{number:05d}",
    first_number=20_317,
    dialect=Dialect(error_format="", line_end=b"\r", message_end=b"\r", latency_s=0.01),
    build=Itc503,
    perform=perform,
    profile="oxford_itc503",
)
