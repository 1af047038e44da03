"""What the keys of the bench file fit: serial numbers as they are told and cleaned, and names.

An owner copies a serial number from a label, from ``*IDN?`` or from a delivery note: ``SN4471``,
``s/n: 4471`` and ``sn 4471`` are one unit. A key that fits no unit limits nothing, so it is looked
for generously, and two keys that could be one unit's are an error (``bench.py``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edged.profiles.complaints import nearest
from edged.profiles.match import clean_serial
from edged.profiles.unit_rules import UnitRules

__all__ = [
    "SeenUnit",
    "UnitIndex",
    "UnseenKey",
    "plain",
    "seen_units",
    "serial_forms",
    "unseen_keys",
]


def plain(text: str) -> str:
    """A name or serial number without blanks and without regard to case."""
    return "".join(text.split()).casefold()


def serial_forms(told: str) -> frozenset[str]:
    """What a serial number may be compared as: as it is told, and cleaned."""
    return frozenset({plain(told), plain(clean_serial(told))} - {""})


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenUnit:
    """What a unit that has been met can be called in the bench file.

    Attributes:
        serial: cleaned; empty where it tells none.
        serial_told: as ``*IDN?`` gives it.
        names: those that INSTRUMENTS gives its addresses.
    """

    serial: str
    serial_told: str
    names: tuple[str, ...] = ()


class UnitIndex:
    """The entries of a bench file by what they fit."""

    def __init__(self, units: Mapping[str, UnitRules]) -> None:
        self._by_name = {plain(key): rules for key, rules in units.items()}
        self._by_serial = {
            form: rules for key, rules in units.items() for form in serial_forms(key)
        }

    def fitting(self, *, serials: Iterable[str], names: Iterable[str]) -> tuple[UnitRules, ...]:
        """Each entry for one of these serial numbers or names, once; serial numbers first."""
        found = [
            self._by_serial[form]
            for serial in serials
            for form in sorted(serial_forms(serial))
            if form in self._by_serial
        ]
        found += [self._by_name[plain(name)] for name in names if plain(name) in self._by_name]
        return tuple({rules.key: rules for rules in found}.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class UnseenKey:
    """A key of the bench file that fits no unit that was met, so that it limits nothing yet.

    Attributes:
        place: path, line and column of its entry.
        hint: a sentence with the nearest serial number or name that was met; may be empty.
    """

    key: str
    place: str
    hint: str

    @property
    def sentence(self) -> str:
        """For people."""
        told = f"{self.place}: no unit that was met since the engine started fits {self.key!r}, so"
        return f"{told} this entry limits nothing. {self.hint}".rstrip()


def seen_units(told: Iterable[Mapping[str, Any]]) -> tuple[SeenUnit, ...]:
    """From ``seen`` of the RPC method ``discovery``."""
    return tuple(
        SeenUnit(serial=unit["serial"], serial_told=unit["serial_told"], names=tuple(unit["names"]))
        for unit in told
    )


def unseen_keys(units: Mapping[str, UnitRules], seen: Sequence[SeenUnit]) -> tuple[UnseenKey, ...]:
    """The keys that fit none of these units."""
    index = UnitIndex(units)
    fitting = {
        rules.key
        for unit in seen
        for rules in index.fitting(serials=(unit.serial_told, unit.serial), names=unit.names)
    }
    known = {
        word for unit in seen for word in (unit.serial_told or unit.serial, *unit.names) if word
    }
    return tuple(
        UnseenKey(key=key, place=rules.marks[""].place, hint=nearest(key, known))
        for key, rules in units.items()
        if key not in fitting
    )
