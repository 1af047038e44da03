"""What the owner said about one unit, as a value that ``bench.py`` reads from the bench file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Final

from edged.profiles.bounds import tighter
from edged.profiles.model import Bound, Mark

__all__ = ["ASK_THE_OWNER", "EMPTY_RULES", "UnitRules", "combined"]

ASK_THE_OWNER: Final = "Only the owner's bench file can allow it."
"""The remedy of whatever is denied."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitRules:
    """The entry of one unit.

    Attributes:
        key: the serial number or alias that it stands under; empty for "nothing was said".
        limits: command or sequence → parameter → the bound that holds besides the profile's own.
        max_rate: command → units per second; "" holds for every sweep of the unit.
        deny: commands and sequences that nobody may run.
        is_dangerous, requires_sweep: commands that count as such here.
        expose: ``all``, ``essential`` or ``none`` alone, or name patterns; empty says nothing.
        raw_scpi: ``all``, ``known``, ``queries``, ``off``, or ``None`` when nothing was said.
        marks: dotted path within the entry → its place ("" is the entry), for messages.
    """

    key: str = ""
    alias: str = ""
    location: str = ""
    limits: Mapping[str, Mapping[str, Bound]] = field(default_factory=dict)
    max_rate: Mapping[str, float] = field(default_factory=dict)
    deny: frozenset[str] = frozenset()
    is_dangerous: frozenset[str] = frozenset()
    requires_sweep: frozenset[str] = frozenset()
    expose: tuple[str, ...] = ()
    raw_scpi: str | None = None
    marks: Mapping[str, Mark] = field(default_factory=dict, compare=False, repr=False)

    @property
    def names(self) -> frozenset[str]:
        """Every command and sequence that the entry names."""
        named = {*self.limits, *self.deny, *self.is_dangerous, *self.requires_sweep}
        return frozenset((named | set(self.max_rate)) - {""})

    def max_rate_for(self, command: str) -> float | None:
        """The fastest sweep of a command in units per second; ``None`` is no limit."""
        rates = [self.max_rate[name] for name in ("", command) if name in self.max_rate]
        return min(rates) if rates else None

    def exposes(self, name: str, *, is_essential: bool) -> bool:
        """Whether a command or sequence is to be listed as a tool of its own.

        It stays reachable through execute_command: ``deny`` forbids, this only keeps lists short.
        """
        if name in self.deny:
            return False
        match self.expose:
            case () | ("all",):
                return True
            case ("essential",):
                return is_essential
            case ("none",):
                return False
            case patterns:
                return any(fnmatchcase(name, pattern) for pattern in patterns)

    def raw_scpi_rules(self, configured: str) -> frozenset[str]:
        """What send_scpi must obey here: each of these modes at once ("all" leaves it free).

        ``known`` is among them wherever the owner set limits or forbade something: raw SCPI that
        is no command of the profile could do just that.
        """
        modes = {configured}
        if self.raw_scpi is not None:
            modes.add(self.raw_scpi)
        if self.limits or self.deny or self.is_dangerous or self.requires_sweep or self.max_rate:
            modes.add("known")
        return frozenset(modes - {"all"}) or frozenset({"all"})


EMPTY_RULES: Final = UnitRules()


def combined(one: UnitRules, other: UnitRules) -> UnitRules:
    """Both entries at once: the tighter of each; the first's words, where both have them."""
    if not one.key:
        return other
    limits: dict[str, dict[str, Bound]] = {
        command: dict(bounds) for command, bounds in one.limits.items()
    }
    for command, bounds in other.limits.items():
        mine = limits.setdefault(command, {})
        for parameter, bound in bounds.items():
            mine[parameter] = tighter(mine.get(parameter, Bound()), bound)
    rates = dict(one.max_rate)
    for command, rate in other.max_rate.items():
        rates[command] = min(rate, rates.get(command, rate))
    return UnitRules(
        key=one.key,
        alias=one.alias or other.alias or other.key,
        location=one.location or other.location,
        limits=limits,
        max_rate=rates,
        deny=one.deny | other.deny,
        is_dangerous=one.is_dangerous | other.is_dangerous,
        requires_sweep=one.requires_sweep | other.requires_sweep,
        expose=_fewer(one.expose, other.expose),
        raw_scpi=_stricter(one.raw_scpi, other.raw_scpi),
        marks={**other.marks, **one.marks},
    )


_BY_STRICTNESS: Final = ("all", "known", "queries", "off")


def _stricter(one: str | None, other: str | None) -> str | None:
    if one is None or other is None:
        return one or other
    if {one, other} == {"known", "queries"}:
        # Neither holds the other; "off" is the only single word that grants nothing beyond both.
        return "off"
    return max(one, other, key=_BY_STRICTNESS.index)


def _fewer(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    """The one that exposes less, as far as that can be said; the first when it cannot."""
    for exposed in (("none",), ("essential",)):
        if exposed in (one, other):
            return exposed
    return other if one in ((), ("all",)) else one
