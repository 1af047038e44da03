"""One received command with its arguments, as a model's function gets it.

The typed readers raise ``ScpiError`` with the number that SCPI gives the mistake; the machinery in
``scpi`` puts it into the instrument's error queue, and the command has done nothing. Pure.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final, TypeVar

__all__ = ["Call", "ScpiError", "nearest_at_least"]

T = TypeVar("T")

_NUMBER: Final = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*([A-Za-z%]*)")
_MULTIPLIERS: Final[Mapping[str, float]] = {
    "": 1.0,
    "N": 1e-9,
    "U": 1e-6,
    "M": 1e-3,
    "K": 1e3,
    "MA": 1e6,
}
"""SCPI's multipliers: letters mean the same in both cases, and M is milli but before HZ and OHM."""

_MEGA_UNITS: Final = frozenset({"HZ", "OHM"})
_MOST_CHANNELS: Final = 64


class ScpiError(Exception):
    """What an instrument puts into its error queue; ``text`` only where it is not the usual one."""

    def __init__(self, code: int, text: str = "") -> None:
        super().__init__(code, text)
        self.code = code
        self.text = text


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A command on its way to a model.

    ``suffixes`` has one entry for each ``<n>`` of the header; ``now`` is monotonic seconds;
    ``random`` is the instrument's own generator (noise).
    """

    header: str
    suffixes: tuple[int | None, ...]
    arguments: tuple[str, ...]
    now: float
    random: Random

    def suffix(self, place: int = 0, *, default: int = 1, highest: int) -> int:
        """The numeric suffix at ``place``; -114 outside 1..highest."""
        given = self.suffixes[place]
        number = default if given is None else given
        if not 1 <= number <= highest:
            raise ScpiError(-114)
        return number

    def text(self, place: int) -> str:
        """The argument at ``place`` without its quotes; -109 where there is none."""
        if place >= len(self.arguments) or not self.arguments[place]:
            raise ScpiError(-109)
        raw = self.arguments[place]
        quote = raw[0]
        if quote in "\"'" and len(raw) > 1 and raw[-1] == quote:
            return raw[1:-1].replace(quote * 2, quote)
        return raw

    def has(self, place: int) -> bool:
        """Whether there is an argument at ``place``."""
        return place < len(self.arguments) and bool(self.arguments[place])

    def number(
        self,
        place: int,
        *,
        lowest: float,
        highest: float,
        default: float | None = None,
        unit: str = "",
    ) -> float:
        """A number with optional multiplier and unit, or MIN, MAX, DEF.

        Raises:
            ScpiError: -104 no number, -131 a foreign unit, -222 out of range.
        """
        raw = self.text(place)
        match raw.upper():
            case "MIN" | "MINIMUM":
                return lowest
            case "MAX" | "MAXIMUM":
                return highest
            case "DEF" | "DEFAULT" if default is not None:
                return default
        value = _to_number(raw, unit.upper())
        if not lowest <= value <= highest:
            raise ScpiError(-222)
        return value

    def whole(self, place: int, *, lowest: int, highest: int) -> int:
        """A whole number; others are rounded, as instruments do."""
        return round(self.number(place, lowest=lowest, highest=highest))

    def boolean(self, place: int) -> bool:
        """ON, OFF or a number (0 is off); -224 for anything else."""
        raw = self.text(place).upper()
        if raw in ("ON", "OFF"):
            return raw == "ON"
        if re.fullmatch(r"[+-]?\d+(\.\d*)?", raw):
            return float(raw) != 0
        raise ScpiError(-224)

    def choice(self, place: int, options: Mapping[str, T]) -> T:
        """The value of one of ``options`` (names as guides write them, ``POSitive``); -224 else."""
        raw = self.text(place).upper()
        for name, value in options.items():
            short = "".join(letter for letter in name if not letter.islower())
            if raw in (name.upper(), short):
                return value
        raise ScpiError(-224)

    def channels(self, place: int, *, highest: int) -> tuple[int, ...]:
        """The channels of a list such as ``(@1,3)`` or ``(@1:3)``; -222 outside 1..highest."""
        found = re.fullmatch(r"\(@([\d,:\s]+)\)", self.text(place))
        if found is None:
            raise ScpiError(-104)
        numbers: list[int] = []
        for part in found[1].split(","):
            first, _, last = part.partition(":")
            if not first.strip().isdigit() or not (last.strip() or "0").isdigit():
                raise ScpiError(-104)
            start = int(first)
            end = int(last) if last.strip() else start
            if not 1 <= start <= highest or not 1 <= end <= highest:
                raise ScpiError(-222)
            numbers.extend(range(start, end + 1)[:_MOST_CHANNELS])
        return tuple(numbers)


def _to_number(raw: str, unit: str) -> float:
    found = _NUMBER.fullmatch(raw.strip())
    if found is None:
        raise ScpiError(-104)
    given = found[2].upper()
    value = float(found[1])
    if given:
        prefix = given.removesuffix(unit) if unit and given.endswith(unit) else given
        if unit in _MEGA_UNITS and prefix == "M" and given != prefix:
            prefix = "MA"
        if prefix not in _MULTIPLIERS:
            raise ScpiError(-131)
        value *= _MULTIPLIERS[prefix]
    if not math.isfinite(value):
        raise ScpiError(-222)
    return value


def nearest_at_least(value: float, steps: Sequence[float]) -> float:
    """The smallest of the rising ``steps`` that is not below ``value``; the last if none is."""
    return next((step for step in steps if value <= step * (1 + 1e-9)), steps[-1])
