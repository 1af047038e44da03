"""The entry of one unit in the bench file: its keys, its value, and how two entries combine.

A new key is a row of ``UNIT`` and a field of ``UnitRules``, both here. From the rows come the
reader, ``edged bench schema`` and the table of docs/bench-file.md. ``owner_rules`` narrows a
profile by an entry; what obeys the other keys reads them at ``instrument.rules``.
"""

from __future__ import annotations

import contextlib
import enum
import operator
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import field, fields
from datetime import date
from fnmatch import fnmatchcase
from typing import Any, Final

from edged.profiles.budget import MOST_INTERVAL_S, MOST_PER_HOUR, Budget
from edged.profiles.confirm import ConfirmRule, Way, parse_confirm
from edged.profiles.model import Bound, Changes, Command
from edged.profiles.template import tighter
from edged.record import record
from edged.schema.fields import Fields, complaint, marks_of, text_of
from edged.schema.tables import (
    TEXT_SCHEMA,
    TRUTH,
    Key,
    Kind,
    Schema,
    Table,
    array,
    choice,
    entries,
    integer,
    made,
    number,
    positive,
    text,
)
from edged.scpi.line import messages
from edged.yaml.tree import ListNode, MapNode, Mark, Node

MOST_CONFIRM_TTL_S: Final = 3_600
_DATE: Final = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_EXPOSE_WORDS: Final = choice(("all", "essential", "none"))
_PATTERNS: Final = array(text(64), 200, empty="say none to expose nothing")
_RATE: Final = made(positive(remedy="Use deny to forbid sweeps."), float)


def _alias(fields: Fields, key: str, node: Node, _names: Collection[str]) -> str:
    alias = text_of(node, fields.name_of(key), most=64).strip()
    if "::" in alias:
        message = f'{fields.owner}: the alias "{alias}" looks like an address.'
        raise complaint(fields.mark_of(key), message)
    return alias


def _check_bound(fields: Fields, bound: Bound) -> None:
    if bound.options and (fields.has("min") or fields.has("max")):
        raise complaint(fields.mark, f"{fields.owner} has options beside min or max.")
    if bound == Bound():
        raise complaint(fields.mark, f"{fields.owner} limits nothing.")
    if bound.min is not None and bound.max is not None and bound.min > bound.max:
        raise complaint(fields.mark, f'{fields.owner}: "min" is over "max".')


def _check_budget(fields: Fields, budget: Budget) -> None:
    if budget == Budget():
        message = f"{fields.owner} limits nothing."
        raise complaint(fields.mark, message, "Say per_hour or min_interval_s.")


def _max_rate(fields: Fields, key: str, node: Node, names: Collection[str]) -> dict[str, float]:
    """A number for every sweep of the unit (kept under ""), or a command → its own."""
    kind = _RATES if isinstance(node, MapNode) else made(_RATE, lambda rate: {"": rate})
    assert kind.read is not None  # noqa: S101 - both read
    found: dict[str, float] = kind.read(fields, key, node, names)
    return found


def _expose(fields: Fields, key: str, node: Node, names: Collection[str]) -> tuple[str, ...]:
    """One of the words, or patterns such as ``measure_*``."""
    kind = _PATTERNS if isinstance(node, ListNode) else made(_EXPOSE_WORDS, lambda word: (word,))
    assert kind.read is not None  # noqa: S101 - both read
    found: tuple[str, ...] = kind.read(fields, key, node, names)
    return found


def _raw_line(fields: Fields, key: str, node: Node, _names: Collection[str]) -> str:
    """One message unit, as it may be sent."""
    owner = fields.name_of(key)
    line = text_of(node, owner, most=200).strip()
    if [message.is_formed for message in messages(line)] != [True]:
        message = f'{owner} has "{line}", which is not one command or query of SCPI.'
        remedy = "Write each by itself, from the root: SYST:VERS?"
        raise complaint(node.mark, message, remedy)
    return line


def _confirm(fields: Fields, key: str, node: Node, _names: Collection[str]) -> ConfirmRule:
    owner = fields.name_of(key)
    said = text_of(node, owner, most=200)
    rule = parse_confirm(said)
    if rule is None:
        raise complaint(
            node.mark,
            f'{owner}: "{said}" has none of the allowed forms.',
            "Say output_on, sequence:iv_curve or set_voltage.voltage > 24.",
        )
    return rule


def _date(fields: Fields, key: str, node: Node, _names: Collection[str]) -> date:
    said = text_of(node, fields.name_of(key), most=40).strip()
    if re.fullmatch(_DATE, said):
        with contextlib.suppress(ValueError):
            return date.fromisoformat(said)
    raise complaint(
        fields.mark_of(key),
        f'{fields.name_of(key)}: "{said}" is not a date.',
        "Write year, month and day: 2027-03-31.",
    )


ASK_THE_OWNER: Final = "Only the owner's bench file can allow it."
"""The remedy of whatever is denied."""


AGAINST_CHANGES: Final = frozenset({"limits", "confirm", "deny", "requires_sweep", "max_rate"})
"""The keys that no command passes which loads values that nobody typed."""


class OnExpiry(enum.StrEnum):
    """What becomes of a run when the lease ends that it was begun under; the strictest last."""

    KEEP = "keep"
    HOLD = "hold"
    ABORT = "abort"


_COMBINE: Final = "combine"
_RESTRICTS: Final = "restricts"
"""Metadata of a field: what combines the values of two entries; it restricts what may be sent."""


def _restricts(combine: Callable[[Any, Any], Any]) -> dict[str, Any]:
    return {_COMBINE: combine, _RESTRICTS: True}


def _least(one: Any, other: Any) -> Any:
    return min(filter(None, (one, other)), default=None)


def _in_both(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(item for item in one if item in other)


def _all_of(one: tuple[Any, ...], other: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(dict.fromkeys((*one, *other)))


def _tighter_limits(
    one: Mapping[str, Mapping[str, Bound]], other: Mapping[str, Mapping[str, Bound]]
) -> Mapping[str, Mapping[str, Bound]]:
    found = {command: dict(bounds) for command, bounds in one.items()}
    for command, bounds in other.items():
        mine = found.setdefault(command, {})
        for parameter, bound in bounds.items():
            mine[parameter] = tighter(mine.get(parameter, Bound()), bound)
    return found


def _lower_rates(one: Mapping[str, float], other: Mapping[str, float]) -> Mapping[str, float]:
    return {**one, **{name: min(rate, one.get(name, rate)) for name, rate in other.items()}}


def _both(one: frozenset[Way] | None, other: frozenset[Way] | None) -> frozenset[Way] | None:
    """What both allow."""
    if one is None or other is None:
        return other if one is None else one
    return one & other


def _stricter_budgets(
    one: Mapping[str, Budget], other: Mapping[str, Budget]
) -> Mapping[str, Budget]:
    found = dict(one)
    for command, budget in other.items():
        found[command] = budget.stricter(found.get(command, budget))
    return found


def _later(one: OnExpiry | None, other: OnExpiry | None) -> OnExpiry | None:
    """The stricter."""
    if one is None or other is None:
        return one or other
    order = list(OnExpiry)
    return max(one, other, key=order.index)


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


_FIRST: Final = {_COMBINE: lambda one, other: one or other}
_BOTH: Final = {_COMBINE: operator.and_}
_LEAST: Final = {_COMBINE: _least}


@record
class UnitRules:
    """The entry of one unit.

    Attributes:
        key: the serial number or alias that it stands under; empty for "nothing was said".
        limits: command or sequence → parameter → the bound that holds besides the profile's own.
        max_rate: command → units per second; "" holds for every sweep of the unit.
        deny: commands and sequences that nobody may run.
        is_dangerous, requires_sweep: commands that count as such here.
        allow_changes: commands with ``changes: any`` that are allowed despite the other rules.
        expose: ``all``, ``essential`` or ``none`` alone, or name patterns; empty says nothing.
        raw_scpi: ``all``, ``known``, ``queries``, ``off``, or ``None`` when nothing was said.
        allow_raw: raw lines that the owner knows to be harmless, as exact texts.
        on_expiry: what becomes of runs whose lease ends, or ``None`` when nothing was said.
        budget: command → how often it may be sent.
        confirm: what a person is asked about before it is sent.
        confirm_by: the ways by which that may be answered, or ``None`` when nothing was said.
        confirm_ttl_s: how long such a question waits, or ``None`` when nothing was said.
        dead_man_s: after so long a silence the unit switches its outputs off by itself (see
            ``InstrumentWatchdog``), or ``None`` when nothing was said.
        may_stay_on: commands whose outputs may stay on over a crash of the engine.
        approval_survives_crash: a person's yes to a run holds for what is resumed of it, too.
        calibration_due: the day by which the unit is to be calibrated; reports of runs show it.
        marks: dotted path within the entry → its place ("" is the entry), for messages.
    """

    key: str = field(default="", metadata=_FIRST)
    alias: str = field(default="", metadata=_FIRST)
    location: str = field(default="", metadata=_FIRST)
    limits: Mapping[str, Mapping[str, Bound]] = field(
        default_factory=dict, metadata=_restricts(_tighter_limits)
    )
    max_rate: Mapping[str, float] = field(default_factory=dict, metadata=_restricts(_lower_rates))
    deny: frozenset[str] = field(default=frozenset(), metadata=_restricts(operator.or_))
    is_dangerous: frozenset[str] = field(default=frozenset(), metadata=_restricts(operator.or_))
    requires_sweep: frozenset[str] = field(default=frozenset(), metadata=_restricts(operator.or_))
    allow_changes: frozenset[str] = field(default=frozenset(), metadata=_BOTH)
    expose: tuple[str, ...] = field(default=(), metadata={_COMBINE: _fewer})
    raw_scpi: str | None = field(default=None, metadata={_COMBINE: _stricter})
    allow_raw: tuple[str, ...] = field(default=(), metadata={_COMBINE: _in_both})
    on_expiry: OnExpiry | None = field(default=None, metadata={_COMBINE: _later})
    budget: Mapping[str, Budget] = field(
        default_factory=dict, metadata=_restricts(_stricter_budgets)
    )
    confirm: tuple[ConfirmRule, ...] = field(default=(), metadata=_restricts(_all_of))
    confirm_by: frozenset[Way] | None = field(default=None, metadata={_COMBINE: _both})
    confirm_ttl_s: float | None = field(default=None, metadata=_LEAST)
    dead_man_s: float | None = field(default=None, metadata=_restricts(_least))
    may_stay_on: frozenset[str] = field(default=frozenset(), metadata=_BOTH)
    approval_survives_crash: bool = field(default=False, metadata=_BOTH)
    calibration_due: date | None = field(default=None, metadata=_LEAST)
    marks: Mapping[str, Mark] = field(
        default_factory=dict,
        compare=False,
        repr=False,
        metadata={_COMBINE: lambda one, other: {**other, **one}},
    )

    def shown(self) -> dict[str, Any]:
        """Every key, for people and programs."""
        return {
            one.name: _shown(getattr(self, one.name)) for one in fields(self) if one.name != "marks"
        }

    @property
    def names(self) -> frozenset[str]:
        """Every command and sequence that the entry names."""
        named = {*self.limits, *self.deny, *self.is_dangerous, *self.requires_sweep}
        named |= {rule.name for rule in self.confirm} | set(self.budget) | self.allow_changes
        named |= self.may_stay_on
        return frozenset((named | set(self.max_rate)) - {""})

    def keys_against(self, command: Command) -> tuple[str, ...]:
        """The keys for which a command is refused, since it can load any value; empty: it is not.

        What such a command sets is known to nobody before it is sent, so no rule about values,
        approvals or rates could hold for it.
        """
        if command.changes is not Changes.ANY or command.name in self.allow_changes:
            return ()
        return tuple(key for key in self.restrictions if key in AGAINST_CHANGES)

    def verdict(self, command: Command) -> str:
        """Whether a command with ``changes`` is allowed, for people."""
        if command.name in self.deny:
            return "denied"
        if keys := self.keys_against(command):
            return f"refused ({', '.join(keys)})"
        return "allowed by allow_changes" if command.name in self.allow_changes else "allowed"

    def max_rate_for(self, command: str) -> float | None:
        """The fastest sweep of a command in units per second; ``None`` is no limit."""
        rates = [self.max_rate[name] for name in ("", command) if name in self.max_rate]
        return min(rates) if rates else None

    def exposes(self, name: str, *, is_essential: bool) -> bool:
        """Whether a command or sequence is to be listed as a tool of its own.

        It stays reachable through execute_command: ``deny`` forbids, this only keeps lists short.
        """
        if not self.expose or "all" in self.expose:
            return True
        if "none" in self.expose:
            return False
        if "essential" in self.expose and is_essential:
            return True
        return any(fnmatchcase(name, pattern) for pattern in self.expose)

    @property
    def restrictions(self) -> tuple[str, ...]:
        """The keys of the entry that restrict what may be sent, in the order of the reference."""
        return tuple(name for name in _RESTRICTIONS if getattr(self, name))

    def raw_scpi_rules(self, configured: str, *, is_imported: bool = False) -> frozenset[str]:
        """What send_scpi must obey here: each of these modes at once ("all" leaves it free).

        ``known`` is among them wherever the owner set limits or forbade something: raw SCPI that
        is no command of the profile could do just that. It is, too, where nobody has held the
        profile against the manual (``is_imported``).
        """
        modes = {configured}
        if self.raw_scpi is not None:
            modes.add(self.raw_scpi)
        if is_imported or self.restrictions:
            modes.add("known")
        return frozenset(modes - {"all"}) or frozenset({"all"})


def _shown(value: Any) -> Any:
    """A value of an entry, for people and programs; one of a class of its own says itself."""
    match value:
        case None:
            return ""
        case int() | float():
            return value
        case Mapping():
            return {name: _shown(inner) for name, inner in value.items()}
        case tuple():
            return [_shown(inner) for inner in value]
        case frozenset():
            return sorted(_shown(inner) for inner in value)
        case _:
            return str(value)


_RESTRICTIONS: Final = tuple(each.name for each in fields(UnitRules) if _RESTRICTS in each.metadata)
EMPTY_RULES: Final = UnitRules()


def combined(one: UnitRules, other: UnitRules) -> UnitRules:
    """Both entries at once: of each key what allows less, or the first's words."""
    if not one.key:
        return other
    found = {
        each.name: each.metadata[_COMBINE](getattr(one, each.name), getattr(other, each.name))
        for each in fields(UnitRules)
    }
    return UnitRules(**{**found, "alias": found["alias"] or other.key})


_NAMES: Final = made(array(text(64)), frozenset)
_RATES: Final = entries("command", _RATE)
_RATE_SCHEMA: Final[Schema] = {"anyOf": [_RATE.schema, _RATES.schema]}
LIMIT: Final = Table(
    "limit",
    Bound,
    "The limits of one parameter: `min` and `max`, or `options`.",
    Key("min", number(), "The lowest value that is allowed."),
    Key("max", number(), "The highest value that is allowed."),
    Key("options", made(array(text(200)), lambda options: options or None),
        "The values that are allowed, of a parameter with options."),
)  # fmt: skip
BUDGET: Final = Table(
    "budget",
    Budget,
    "How often a command may be sent, by all callers together; see [guards](guards.md).",
    Key("per_hour", integer(1, MOST_PER_HOUR),
        "How many times in any hour; to forbid it, use `deny`."),
    Key("min_interval_s", made(positive(MOST_INTERVAL_S), float),
        "The time between two commands, in seconds."),
    needs_one=("per_hour", "min_interval_s"),
)  # fmt: skip
UNIT: Final = Table(
    "unit",
    UnitRules,
    "The entry of one unit. All keys are optional.",
    Key("alias", Kind("text", TEXT_SCHEMA, _alias),
        "Shown wherever the unit is shown; an alias belongs to one unit."),
    Key("location", text(200), "Shown wherever the unit is shown."),
    Key("limits", entries("command", entries("parameter", LIMIT.checked(_check_bound))),
        "The limits of a parameter of a command or sequence. Callers see the new limits in the "
        "schema of the tool. A sequence that passes its own parameter directly to a limited one "
        "is limited, too."),
    Key("max_rate", Kind(f"{_RATE.word}, or {_RATES.word}", _RATE_SCHEMA, _max_rate),
        "The highest rate of sweeps, in units per second: one number for all commands, or one for "
        "each command."),
    Key("deny", _NAMES, "Commands and sequences that nobody may run."),
    Key("is_dangerous", _NAMES, "Commands that are treated as dangerous on this unit."),
    Key("requires_sweep", _NAMES, "Commands that can only be set by a sweep on this unit."),
    Key("allow_changes", _NAMES,
        "Commands that are allowed although they can load values that nobody typed; see [side "
        "effects](#side-effects)."),
    Key("expose",
        Kind(f"{_EXPOSE_WORDS.word}, or {_PATTERNS.word}",
             {"anyOf": [_EXPOSE_WORDS.schema, _PATTERNS.schema]}, _expose),
        "Which commands are listed as tools; patterns such as `measure_*`."),
    Key("raw_scpi", choice(("all", "known", "queries", "off")),
        "See [limits and raw SCPI](raw-scpi.md). If the entry has `limits`, `deny`, "
        "`is_dangerous`, `requires_sweep`, `max_rate`, `confirm`, `budget` or `dead_man_s`, "
        "`known` also applies: a raw line must be a command of the profile, and is checked as that "
        "command. On a unit that only an interlock guards, lines that the profile does not know "
        "are refused, too."),
    Key("allow_raw", array(Kind("SCPI", TEXT_SCHEMA, _raw_line)),
        "Raw lines that are harmless although the profile does not know them; see [harmless raw "
        "lines](#harmless-raw-lines)."),
    Key("budget", entries("command", BUDGET.checked(_check_budget)),
        "How often a command may be sent, by all callers together; see [guards](guards.md)."),
    Key("confirm", array(Kind("text", TEXT_SCHEMA, _confirm)),
        "What a person must approve: a command, `sequence:NAME`, or `command.parameter > 24`; see "
        "[sharing](sharing.md)."),
    Key("confirm_by", made(array(choice(Way), empty="nobody could answer"), frozenset),
        "Where a person can answer; default all."),
    Key("confirm_ttl_s", made(number(1, MOST_CONFIRM_TTL_S), float),
        "How many seconds the call waits for the answer; default 120."),
    Key("dead_man_s", made(positive(remedy="Leave it out to have none."), float),
        "The unit itself switches its outputs off if it receives nothing for this many seconds; "
        "its profile must have a `watchdog`; see [guards](guards.md)."),
    Key("may_stay_on", _NAMES,
        "Commands whose output may stay on when the engine was killed and is started again: the "
        "lines of the abort that take back only these are left out then. A stop, and every other "
        "abort, sends all lines."),
    Key("approval_survives_crash", TRUTH,
        "The approval of a run also holds for the rest of it, if it is resumed after a crash of "
        "the engine; default `false`."),
    Key("calibration_due", Kind("date", {"type": "string", "pattern": rf"^\s*{_DATE}\s*$"}, _date),
        "The date by which the unit must be calibrated, such as `2027-03-31`. It is written into "
        "each recording that starts after you set it, and marked as overdue in "
        "[reports](reports.md) if it was past."),
    Key("on_expiry", choice(OnExpiry),
        "What happens to a run when its [lease](sharing.md#leases) ends; `hold` is for a sweep."),
)  # fmt: skip


def read_unit(key: str, node: Node) -> UnitRules:
    """The entry of one unit, checked by itself.

    Raises:
        Invalid: all that is wrong with it.
    """
    found = UNIT.read_values(node, key)
    assert isinstance(node, MapNode)  # noqa: S101 - read_values has seen to it
    return UnitRules(key=key, marks={"": node.mark, **marks_of(node)}, **found)
