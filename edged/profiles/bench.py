"""The owner's bench file: what may be done with one unit, by serial number or alias.

A key fits as ``unit_keys.py`` says.
It can only tighten what the unit's profile allows. The file is keyed by unit and a unit's profile
is known only once it answered, so ``load_bench`` checks each entry against the profiles there are
(one of them must fit it), and ``tighten`` again against the one that the unit has.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from edged.errors import Invalid
from edged.profiles.complaints import complaint, one_of
from edged.profiles.fields import Fields, list_of, map_of, number_of, text_of
from edged.profiles.grammar_profile import check_format, marks_of
from edged.profiles.library import ProfileLibrary
from edged.profiles.model import Bound, Profile
from edged.profiles.source_file import read_file
from edged.profiles.tighten import misfits, tighten
from edged.profiles.unit_keys import UnitIndex, plain, serial_forms
from edged.profiles.unit_rules import EMPTY_RULES, UnitRules, combined
from edged.yaml.tree import MapNode, Node, ScalarNode

__all__ = ["BenchFile", "UnitRules", "load_bench", "parse_bench", "tighten"]

_KEYS: Final = frozenset(
    {
        "alias", "location", "limits", "max_rate", "deny", "is_dangerous", "requires_sweep",
        "expose", "raw_scpi",
    }
)  # fmt: skip
_EXPOSE_WORDS: Final = ("all", "essential", "none")
_RAW_MODES: Final = ("all", "known", "queries", "off")
_MOST_UNITS: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchFile:
    """Every entry of the file by its key; none when there is no file."""

    units: Mapping[str, UnitRules] = field(default_factory=dict)
    _index: UnitIndex = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Prepare for looking units up: a bench may have thousands."""
        object.__setattr__(self, "_index", UnitIndex(self.units))

    def rules_for(self, serial: str, *names: str, told: str = "") -> UnitRules:
        """What the owner said about a unit; empty rules when nothing.

        Args:
            serial: as ``parse_idn`` gives it; empty when the unit tells none.
            names: those that the configuration gives its addresses, if it gives any.
            told: the serial number as ``*IDN?`` gives it.

        Returns:
            The entries under the serial number and under the names together, the tighter of each.
        """
        found = self._index.fitting(serials=(told, serial), names=names)
        return functools.reduce(combined, found, EMPTY_RULES)


def load_bench(path: Path, library: ProfileLibrary) -> BenchFile:
    """The file, checked; a missing one is an empty one.

    Raises:
        Invalid: unreadable, an unknown key or name, an entry that would widen what every profile
            allows; ``data`` has path, line and column.
    """
    if not os.path.lexists(path):
        return BenchFile()
    return parse_bench(read_file(path), str(path), library)


def parse_bench(text: str, path: str, library: ProfileLibrary) -> BenchFile:
    """The file's text, checked.

    Raises:
        Invalid: as ``load_bench``.
    """
    # Most benches have no such file, and need no YAML parser to start.
    from edged.profiles.source_file import parse_yaml

    root = map_of(parse_yaml(text, path), "The bench file")
    check_format(Fields(root, "The bench file"))
    if len(root.entries) > _MOST_UNITS:
        raise complaint(root.mark, f"The bench file has more than {_MOST_UNITS} units.")
    units: dict[str, UnitRules] = {}
    for key, node in root.entries.items():
        if key != "format":
            units[key.strip()] = _read_unit(key.strip(), node)
    _check_keys(units)
    _check_aliases(units)
    profiles = tuple(library.profiles.values())
    for rules in units.values():
        _check_fits_one(rules, profiles)
    return BenchFile(units=units)


def _read_unit(key: str, node: Node) -> UnitRules:
    fields = Fields.of(node, key, _KEYS)
    alias = fields.text("alias", most=64).strip()
    if "::" in alias:
        message = f'{key}: the alias "{alias}" looks like an address.'
        raise complaint(fields.mark_of("alias"), message)
    return UnitRules(
        key=key,
        alias=alias,
        location=fields.text("location", most=200),
        limits=_read_limits(fields),
        max_rate=_read_max_rate(fields),
        deny=_read_names(fields, "deny"),
        is_dangerous=_read_names(fields, "is_dangerous"),
        requires_sweep=_read_names(fields, "requires_sweep"),
        expose=_read_expose(fields),
        raw_scpi=fields.choice("raw_scpi", _RAW_MODES),
        marks={"": fields.mark, **marks_of(fields.node)},
    )


def _read_limits(fields: Fields) -> dict[str, dict[str, Bound]]:
    node = fields.mapping("limits")
    if node is None:
        return {}
    return {
        command: _read_command_limits(f"{fields.owner}: limits of {command}", entry)
        for command, entry in node.entries.items()
    }


def _read_command_limits(owner: str, node: Node) -> dict[str, Bound]:
    found: dict[str, Bound] = {}
    for parameter, entry in map_of(node, owner).entries.items():
        fields = Fields.of(entry, f"{owner}.{parameter}", ("min", "max", "options"))
        name = fields.name_of("options")
        options = tuple(text_of(item, name, most=200) for item in fields.items("options"))
        bound = Bound(min=fields.number("min"), max=fields.number("max"), options=options or None)
        if options and (fields.has("min") or fields.has("max")):
            raise complaint(fields.mark, f"{fields.owner} has options beside min or max.")
        if bound == Bound():
            raise complaint(fields.mark, f"{fields.owner} limits nothing.")
        if bound.min is not None and bound.max is not None and bound.min > bound.max:
            raise complaint(fields.mark, f'{fields.owner}: "min" is over "max".')
        found[parameter] = bound
    return found


def _read_max_rate(fields: Fields) -> dict[str, float]:
    """A number for every sweep of the unit (kept under ""), or a command → its own."""
    node = fields.get("max_rate")
    if node is None:
        return {}
    owner = fields.name_of("max_rate")
    entries: Mapping[str, Node] = node.entries if isinstance(node, MapNode) else {"": node}
    found: dict[str, float] = {}
    for command, entry in entries.items():
        rate = number_of(entry, f"{owner}: {command}" if command else owner)
        if rate <= 0:
            raise complaint(entry.mark, f"{owner} must be over 0; use deny to forbid sweeps.")
        found[command] = float(rate)
    return found


def _read_names(fields: Fields, key: str) -> frozenset[str]:
    owner = fields.name_of(key)
    return frozenset(text_of(node, owner, most=64) for node in fields.items(key))


def _read_expose(fields: Fields) -> tuple[str, ...]:
    """One of the words, or patterns such as ``measure_*``; the empty tuple says nothing."""
    node = fields.get("expose")
    if node is None:
        return ()
    if isinstance(node, ScalarNode):
        return (fields.choice("expose", _EXPOSE_WORDS) or "all",)
    owner = fields.name_of("expose")
    patterns = tuple(text_of(item, owner, most=64) for item in list_of(node, owner, most=200))
    if not patterns:
        raise complaint(node.mark, f"{owner} is empty.", "Say none to expose nothing.")
    return patterns


def _check_keys(units: Mapping[str, UnitRules]) -> None:
    """Two keys that one unit could fit are not two entries: nobody knows which was meant."""
    owners: dict[str, UnitRules] = {}
    for key, rules in units.items():
        for form in sorted(serial_forms(key)):
            other = owners.setdefault(form, rules)
            if other is not rules:
                raise complaint(
                    rules.marks[""],
                    f'{key}: "{other.key}" in line {other.marks[""].line} is the same unit: labels '
                    "(SN, s/n), blanks and case do not count.",
                    "Say everything in one entry.",
                )


def _check_aliases(units: Mapping[str, UnitRules]) -> None:
    """An alias names one unit; said twice, it would be a matter of luck which rules hold."""
    owners: dict[str, str] = {}
    keys = {form: key for key in units for form in serial_forms(key)}
    for key, rules in units.items():
        if not rules.alias:
            continue
        mark, alias = rules.marks["alias"], plain(rules.alias)
        if alias in owners:
            message = f'{key}: the alias "{rules.alias}" is that of {owners[alias]} already.'
            raise complaint(mark, message)
        if keys.get(alias, key) != key:
            message = f'{key}: the alias "{rules.alias}" has an entry of its own.'
            raise complaint(mark, message, "Say everything in one entry.")
        owners[alias] = key


def _check_fits_one(rules: UnitRules, profiles: Sequence[Profile]) -> None:
    """Raises what is wrong with the entry for the profile that it was most likely written for."""
    best: tuple[tuple[int, int, int], list[Invalid]] | None = None
    for profile in profiles:
        problems = misfits(profile, rules)
        if not problems:
            return
        everything = {*profile.commands, *profile.sequences}
        near = sum("Did you mean" in problem.remedy for problem in problems)
        rank = (len(rules.names - everything), -near, len(problems))
        if best is None or rank < best[0]:
            best = rank, problems
    if best is None:
        return
    (unknown, near, _), problems = best
    if rules.names and unknown == len(rules.names) and not near:
        # To name whichever profile came first would send the reader looking in a wrong place.
        names = one_of(f'"{name}"' for name in sorted(rules.names))
        raise complaint(
            rules.marks[""],
            f"{rules.key}: no profile has {names}.",
            "The profile it is meant for may not be loaded: `edged profile lint` says why.",
        )
    raise problems[0]
