"""The owner's bench file: what may be done with one unit, by serial number or alias.

A key fits as ``bench_file.py`` says.
It can only tighten what the unit's profile allows. The entry of a unit
that was met is checked against its own profile. Of others the profile is known only once they
answer: their entries are checked against the profiles there are (one of them must fit), and
``tighten`` checks again against the one that the unit has.

What the owner's bench file comes to for one unit, for people and scripts.

What the keys of the bench file fit: serial numbers as they are told and cleaned, and names.

An owner copies a serial number from a label, from ``*IDN?`` or from a delivery note: ``SN4471``,
``s/n: 4471`` and ``sn 4471`` are one unit. A key that fits no unit limits nothing, so it is looked
for generously, and two keys that could be one unit's are an error.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

from edged.errors import Invalid
from edged.profiles.format.bench import BENCH, INTERLOCKS, MOST_UNITS
from edged.profiles.interlocks import MOST, Interlock, check_interlocks, read_interlocks
from edged.profiles.library import ProfileLibrary
from edged.profiles.match import clean_serial
from edged.profiles.model import Bound, Command, Parameter, ParameterType, Profile
from edged.profiles.owner_rules import misfits, tighten
from edged.profiles.raw import identify, means_another_unit
from edged.profiles.template import Hole, own_bound, parse_template, render, tighter
from edged.profiles.unit_rules import EMPTY_RULES, OnExpiry, UnitRules, combined, read_unit
from edged.record import record
from edged.schema.fields import (
    Fields,
    Gathering,
    check_format,
    complaint,
    map_of,
    nearest,
    one_of,
)
from edged.yaml.tree import Mark, Scalar


def unit_summary(rules: UnitRules, profile: Profile | None, raw_scpi: str) -> dict[str, Any]:
    """One unit's entry with what it narrows: each key, the keys that say more in their own words.

    Args:
        rules: what the owner wrote.
        profile: the unit's own, not narrowed; ``None`` where it is not known which that is.
        raw_scpi: RAW_SCPI of the configuration.
    """
    return {
        "profile": profile.key if profile is not None else "",
        **rules.shown(),
        "limits": [
            _limit(command, parameter, bound, profile)
            for command, limits in rules.limits.items()
            for parameter, bound in limits.items()
        ],
        "unlimited": list(unlimited(rules, profile)) if profile is not None else [],
        "max_rate": {command or "every sweep": rate for command, rate in rules.max_rate.items()},
        "changes": [
            {
                "command": command.name,
                "changes": command.changes.value,
                "verdict": rules.verdict(command),
            }
            for command in (profile.commands.values() if profile is not None else ())
            if command.changes is not None
        ],
        "expose": list(rules.expose) or ["all"],
        "raw_scpi": sorted(
            rules.raw_scpi_rules(raw_scpi, is_imported=profile is not None and profile.is_imported)
        ),
        "on_expiry": (rules.on_expiry or OnExpiry.KEEP).value,
    }


def interlock_summary(rule: Interlock) -> dict[str, Any]:
    """One interlock, for people and programs."""
    return {
        "name": rule.name,
        "reads": rule.asked,
        "must": rule.must.text,
        "guards": [guarded.text for guarded in rule.guards],
        "poll_s": rule.poll_s,
        "max_age_s": rule.max_age_s,
        "trip": rule.trip.value,
        "cool_down_s": rule.cool_down_s,
    }


def unlimited(rules: UnitRules, profile: Profile) -> Iterator[str]:
    """``command.parameter`` that seem to set what the owner limited, and that nobody limited.

    Many instruments set one thing by several commands (a voltage alone, or with the current). The
    file limits commands, so each wants its own entry. Told are commands that write, with a number
    of the same name and unit that may go further; not those that send the limited command's own
    line, to which its limit holds.
    """
    for command, limits in rules.limits.items():
        for name, bound in limits.items():
            limited = _parameter(command, name, profile)
            if limited is None or not limited.unit:
                continue
            for other in profile.commands.values():
                found = other.parameters.get(name)
                is_bounded = name in rules.limits.get(other.name, {}) or other.name in rules.deny
                if found is None or not other.is_write or other.is_safe or is_bounded:
                    continue
                is_same = found.unit == limited.unit and not _sends(profile, other, name, command)
                if is_same and _goes_further(own_bound(found), bound):
                    yield f"{other.name}.{name}"


def _sends(profile: Profile, command: Command, name: str, limited: str) -> bool:
    """Whether it sets its parameter by a line of the limited command: some values tell."""
    values = {key: _some_value(one) for key, one in command.parameters.items()}
    for template in command.scpi:
        if not any(
            isinstance(part, Hole) and part.name == name for part in parse_template(template)
        ):
            continue
        with contextlib.suppress(Invalid):
            for part in identify(profile, render(template, command.parameters, values)):
                for match in (*part.matches, *part.beside):
                    is_it = match.command.name == limited
                    if is_it and not means_another_unit(command, template, match.command):
                        return True
    return False


def _some_value(parameter: Parameter) -> Scalar:
    bound = own_bound(parameter)
    match parameter.type:
        case ParameterType.BOOL:
            return True
        case ParameterType.ENUM:
            return (bound.options or parameter.options)[0]
        case ParameterType.STRING:
            return "A"
        case ParameterType.INT:
            return int(bound.min if bound.min is not None else bound.max or 0)
        case _:
            return float(bound.min if bound.min is not None else bound.max or 0.0)


def _goes_further(own: Bound, limit: Bound) -> bool:
    is_over = limit.max is not None and (own.max is None or own.max > limit.max)
    is_under = limit.min is not None and (own.min is None or own.min < limit.min)
    return is_over or is_under


def _limit(command: str, parameter: str, bound: Bound, profile: Profile | None) -> dict[str, Any]:
    known = _parameter(command, parameter, profile)
    return {
        "command": command,
        "parameter": parameter,
        "allowed": _words(bound if known is None else tighter(own_bound(known), bound)),
        "profile_allows": "" if known is None else _words(own_bound(known)),
        "unit": "" if known is None else known.unit,
    }


def _parameter(command: str, parameter: str, profile: Profile | None) -> Parameter | None:
    if profile is None:
        return None
    owner = profile.commands.get(command) or profile.sequences.get(command)
    return None if owner is None else owner.parameters.get(parameter)


def _words(bound: Bound) -> str:
    if bound.options is not None:
        return ", ".join(bound.options)
    low = "" if bound.min is None else f"{bound.min:g}"
    high = "" if bound.max is None else f"{bound.max:g}"
    return f"{low} … {high}".strip()


def plain(text: str) -> str:
    """A name or serial number without blanks and without regard to case."""
    return "".join(text.split()).casefold()


def serial_forms(told: str) -> frozenset[str]:
    """What a serial number may be compared as: as it is told, and cleaned."""
    return frozenset({plain(told), plain(clean_serial(told))} - {""})


@record
class SeenUnit:
    """What a unit that has been met can be called in the bench file.

    Attributes:
        serial: cleaned; empty where it has none.
        serial_told: as ``*IDN?`` gives it.
        names: those that INSTRUMENTS gives its addresses.
        profile_key: of its profile; empty where it has none.
    """

    serial: str
    serial_told: str
    names: tuple[str, ...] = ()
    profile_key: str = ""


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


@record
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
        told = (
            f"{self.place}: no unit that has answered since the engine started matches "
            f"{self.key!r}, so"
        )
        return f"{told} this entry limits nothing. {self.hint}".rstrip()


def seen_units(told: Iterable[Mapping[str, Any]]) -> tuple[SeenUnit, ...]:
    """From ``seen`` of the RPC method ``discovery``."""
    return tuple(
        SeenUnit(
            serial=unit["serial"],
            serial_told=unit["serial_told"],
            names=tuple(unit["names"]),
            profile_key=unit["profile_name"],
        )
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


@record
class BenchFile:
    """Every entry of the file by its key, and what holds between units; none without a file."""

    units: Mapping[str, UnitRules] = field(default_factory=dict)
    interlocks: tuple[Interlock, ...] = ()
    _index: UnitIndex = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Prepare for looking units up: a bench may have thousands."""
        object.__setattr__(self, "_index", UnitIndex(self.units))

    def rules_for(self, serial: str, *names: str, told: str = "") -> UnitRules:
        """What the owner said about a unit; empty rules when nothing.

        Args:
            serial: as ``parse_idn`` gives it; empty when the unit has none.
            names: those that the configuration gives its addresses, if it gives any.
            told: the serial number as ``*IDN?`` gives it.

        Returns:
            The entries under the serial number and under the names together, the tighter of each.
        """
        found = self._index.fitting(serials=(told, serial), names=names)
        return functools.reduce(combined, found, EMPTY_RULES)


def parse_bench(
    text: str, path: str, library: ProfileLibrary, seen: Iterable[SeenUnit] = ()
) -> BenchFile:
    """The file's text, checked.

    Args:
        seen: the units that were met: their entries must fit their own profile.

    Raises:
        Invalid: each unknown key or name, and each entry that would widen what the unit's profile
            allows (of a unit that was not met: what every profile allows); ``data`` has its place.
    """
    # Most benches have no such file, and need no YAML parser to start.
    from edged.profiles.library import parse_yaml

    root = map_of(parse_yaml(text, path), "The bench file")
    check_format(Fields(root, "The bench file"))
    if len(root.entries) > MOST_UNITS:
        raise complaint(root.mark, f"The bench file has more than {MOST_UNITS} units.")
    units: dict[str, UnitRules] = {}
    interlocks: tuple[Interlock, ...] = ()
    gathering = Gathering()
    for key, node in root.entries.items():
        if key not in BENCH.keys:
            with gathering.part():
                units[key.strip()] = read_unit(key.strip(), node)
    with gathering.part():
        interlocks = read_interlocks(Fields(root, "The bench file").items(INTERLOCKS, most=MOST))
    with gathering.part():
        _check_keys(units)
        _check_aliases(units)
    # Most entries fit one of the first profiles, and the others need not be unpacked.
    profiles = library.each()
    own = _own_profiles(units, library, seen)
    for rules in units.values():
        with gathering.part():
            if rules.key not in own:
                _check_fits_one(rules, profiles)
            for profile in own.get(rules.key, ()):
                tighten(profile, rules)
    with gathering.part():
        check_interlocks(interlocks, profiles)
    gathering.end()
    return BenchFile(units=units, interlocks=interlocks)


def _own_profiles(
    units: Mapping[str, UnitRules], library: ProfileLibrary, seen: Iterable[SeenUnit]
) -> dict[str, list[Profile]]:
    """The key of an entry → the profiles of the units that it is for, where they are known."""
    index = UnitIndex(units)
    found: dict[str, dict[str, Profile]] = {}
    for unit in seen:
        if unit.profile_key not in library.profiles:
            continue
        serials = filter(None, (unit.serial_told, unit.serial))
        for rules in index.fitting(serials=serials, names=unit.names):
            profiles = found.setdefault(rules.key, {})
            if unit.profile_key not in profiles:
                profiles[unit.profile_key] = library.profiles[unit.profile_key]
    return {key: list(profiles.values()) for key, profiles in found.items()}


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


def _check_fits_one(rules: UnitRules, profiles: Iterable[Profile]) -> None:
    """Raises what is wrong with the entry for the profile that it was most likely written for."""
    best: tuple[tuple[int, int, int, bool], list[Invalid], str] | None = None
    for profile in profiles:
        problems = misfits(profile, rules)
        if not problems:
            return
        everything = {*profile.commands, *profile.sequences}
        near = sum("Did you mean" in problem.remedy for problem in problems)
        lacks_timer = rules.dead_man_s is not None and profile.watchdog is None
        rank = (len(rules.names - everything), -near, len(problems), lacks_timer)
        if best is None or rank < best[0]:
            best = rank, problems, profile.key
    if best is None:
        return
    (unknown, near, *_), problems, nearest_key = best
    if rules.names and unknown == len(rules.names) and not near:
        # To name whichever profile came first would send the reader looking in a wrong place.
        names = one_of(f'"{name}"' for name in sorted(rules.names))
        raise complaint(
            rules.marks[""],
            f"{rules.key}: no profile has {names}.",
            "The profile of that unit may not be loaded: get_status (profiles) says why.",
        )
    problem = problems[0]
    remedy = (
        f"No unit that this entry matches has answered yet; of all profiles {nearest_key} fits "
        "the entry best."
    )
    raise complaint(
        Mark(**{key: problem.data[key] for key in ("path", "line", "column")}),
        problem.data["message"],
        f"{problem.remedy} {remedy}".strip(),
    )
