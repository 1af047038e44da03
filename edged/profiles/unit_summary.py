"""What the owner's bench file comes to for one unit, for people and scripts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from edged.profiles.bounds import own_bound, tighter
from edged.profiles.model import Bound, Parameter, Profile
from edged.profiles.unit_rules import UnitRules

__all__ = ["unit_summary", "unlimited"]


def unit_summary(rules: UnitRules, profile: Profile | None, raw_scpi: str) -> dict[str, Any]:
    """One unit's entry with what it narrows.

    Args:
        rules: what the owner wrote.
        profile: the unit's own, not narrowed; ``None`` where it is not known which that is.
        raw_scpi: RAW_SCPI of the configuration.
    """
    return {
        "key": rules.key,
        "alias": rules.alias,
        "location": rules.location,
        "profile": profile.key if profile is not None else "",
        "limits": [
            _limit(command, parameter, bound, profile)
            for command, limits in rules.limits.items()
            for parameter, bound in limits.items()
        ],
        "unlimited": list(unlimited(rules, profile)) if profile is not None else [],
        "max_rate": {command or "every sweep": rate for command, rate in rules.max_rate.items()},
        "deny": sorted(rules.deny),
        "is_dangerous": sorted(rules.is_dangerous),
        "requires_sweep": sorted(rules.requires_sweep),
        "expose": list(rules.expose) or ["all"],
        "raw_scpi": sorted(rules.raw_scpi_rules(raw_scpi)),
    }


def unlimited(rules: UnitRules, profile: Profile) -> Iterator[str]:
    """``command.parameter`` that seem to set what the owner limited, and that nobody limited.

    Many instruments set one thing by several commands (a voltage alone, or with the current). The
    file limits commands, so each wants its own entry. Told are commands that write, with a number
    of the same name and unit that may go further.
    """
    for command, limits in rules.limits.items():
        for name, bound in limits.items():
            limited = _parameter(command, name, profile)
            if limited is None or not limited.unit:
                continue
            for other in profile.commands.values():
                found = other.parameters.get(name)
                is_bounded = name in rules.limits.get(other.name, {}) or other.name in rules.deny
                if found is None or other.is_query or other.is_safe or is_bounded:
                    continue
                if found.unit == limited.unit and _goes_further(own_bound(found), bound):
                    yield f"{other.name}.{name}"


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
