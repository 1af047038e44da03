"""The bench file's keys, and what is made of one entry: see ``bench_file.py`` for the whole file.

From the tables come the reader, ``edged bench schema`` and the tables of docs/bench-file.md and
docs/guards.md.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection
from datetime import date
from typing import Any, Final

from edged.profiles.budget import MOST_INTERVAL_S, MOST_PER_HOUR, Budget
from edged.profiles.confirm import ConfirmRule, Way, parse_confirm
from edged.profiles.interlocks import INTERLOCK, MOST, WHEN
from edged.profiles.model import Bound
from edged.profiles.owner_rules import OnExpiry, UnitRules
from edged.schema.fields import FORMAT, Fields, complaint, marks_of, text_of
from edged.schema.json_schema import DRAFT, mapping_schema
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
from edged.yaml.tree import ListNode, MapNode, Node

INTERLOCKS: Final = "interlocks"
MOST_UNITS: Final = 10_000
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
BENCH: Final[Table[dict[str, Any]]] = Table(
    "bench",
    dict,
    "The bench file. Every other key is a unit.",
    Key("format", Kind("1", {"const": FORMAT}), "The version of the format.", is_required=True),
    Key(INTERLOCKS, array(INTERLOCK.link._replace(word="[interlock](guards.md#interlock)"), MOST),
        "Conditions on readings of the bench."),
)  # fmt: skip
TABLES: Final[tuple[Table[Any], ...]] = (BENCH, UNIT, LIMIT, BUDGET, INTERLOCK, WHEN)


def read_unit(key: str, node: Node) -> UnitRules:
    """The entry of one unit, checked by itself.

    Raises:
        Invalid: all that is wrong with it.
    """
    found = UNIT.read_values(node, key)
    assert isinstance(node, MapNode)  # noqa: S101 - read_values has seen to it
    return UnitRules(key=key, marks={"": node.mark, **marks_of(node)}, **found)


def bench_schema() -> Schema:
    """The schema, Draft 2020-12."""
    return {
        "$schema": DRAFT,
        "title": "Bench file of edged, format 1",
        "description": "See docs/bench-file.md.",
        **mapping_schema(BENCH),
        "additionalProperties": UNIT.link.schema,
        "maxProperties": MOST_UNITS,
        "$defs": {table.name: mapping_schema(table) for table in TABLES if table is not BENCH},
    }
