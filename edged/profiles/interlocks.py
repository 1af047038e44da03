"""``interlocks`` of the bench file: what has to be so elsewhere on the bench while a unit is on.

Source: docs/bench-file.md; docs/guards.md.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, Final

from edged.errors import Invalid
from edged.profiles.arguments import compile_parameters
from edged.profiles.expr import Expression, compile_expression
from edged.profiles.format.kinds import SCALAR_SCHEMA, SENDABLE, expression_of
from edged.profiles.model import (
    Command,
    FieldsAnswer,
    ImageAnswer,
    ListAnswer,
    Profile,
    WaveformAnswer,
)
from edged.profiles.template import optional_names
from edged.record import record
from edged.schema.fields import Fields, complaint, nearest, one_of, scalar_of, text_of
from edged.schema.tables import Key, Kind, Table, array, choice, entries, made, number, text
from edged.yaml.tree import Mark, Node, Scalar

MOST: Final = 64
MOST_GUARDED: Final = 64
POLL_S: Final = (0.2, 60.0)
MOST_AGE_S: Final = 3_600.0
MOST_COOL_DOWN_S: Final = 86_400.0


class Trip(enum.StrEnum):
    """What a trip does besides running the abort: ``lockout`` stays until the owner clears it."""

    LOCKOUT = "lockout"
    ABORT = "abort"


@record(kw_only=False)
class Guarded:
    """``psu1``: every write to it; ``psu1.output_on``: that command, and whatever sends the same.

    Attributes:
        unit: serial number or alias.
        command: empty where every write is meant.
    """

    unit: str
    command: str = ""

    @property
    def text(self) -> str:
        """As the owner writes it."""
        return f"{self.unit}.{self.command}" if self.command else self.unit


@record
class Interlock:
    """One entry.

    Attributes:
        instrument: alias or serial number of the meter.
        command, parameters: the question that is asked of it.
        column: the field of its answer; empty for its only, or primary, number.
        must: a condition on ``value``.
        max_age_s: how old the last good reading may be while an output is on.
        poll_s: how often it is read while an output is on.
        cool_down_s: after a trip, how long guarded writes are refused whatever is read.
        mark: where it stands in the file.
    """

    name: str
    instrument: str
    command: str
    must: Expression
    guards: tuple[Guarded, ...]
    max_age_s: float
    poll_s: float
    parameters: Mapping[str, Scalar] = field(default_factory=dict)
    column: str = ""
    trip: Trip = Trip.LOCKOUT
    cool_down_s: float = 0.0
    mark: Mark = field(compare=False, repr=False)

    @property
    def asked(self) -> str:
        """What is read, for people."""
        return f"{self.instrument}.{self.command}" + (f" ({self.column})" if self.column else "")


def _name(fields: Fields, key: str, node: Node, _names: Collection[str]) -> str:
    name = text_of(node, fields.name_of(key), most=64).strip()
    if not name:
        raise complaint(fields.mark_of(key), f"{fields.name_of(key)} is empty.")
    return name


def _condition(fields: Fields, key: str, node: Node, _names: Collection[str]) -> Expression:
    owner = fields.name_of(key)
    must = compile_expression(expression_of(node, owner, {"value"}))
    if not must.names:
        message = f"{owner} is about nothing that is read."
        raise complaint(fields.mark_of(key), message, "Say value < 60, for example.")
    try:
        # What kind it is of hangs on no value, but where it divides by one.
        must.is_true({"value": 1.0})
    except Invalid as error:
        raise complaint(fields.mark_of(key), f"{owner}: {error.message}") from error
    return must


def _guarded(fields: Fields, key: str, node: Node, _names: Collection[str]) -> Guarded:
    owner = fields.name_of(key)
    unit, _, command = text_of(node, owner, most=200).strip().partition(".")
    if not unit:
        raise complaint(node.mark, f"{owner} has an entry without a unit.")
    return Guarded(unit, command)


def _scalar(fields: Fields, key: str, node: Node, _names: Collection[str]) -> Scalar:
    return scalar_of(node, fields.name_of(key))


WHEN: Final[Table[dict[str, Any]]] = Table(
    "when",
    dict,
    "What an interlock reads.",
    Key("instrument", made(text(200), str.strip), "The alias or serial number of the meter.",
        is_required=True),
    Key("command", text(64),
        "A query of its profile that has neither `is_dangerous` nor `changes` there.",
        is_required=True),
    Key("parameters", entries("name", Kind("value", SCALAR_SCHEMA, _scalar)),
        "The arguments of the query."),
    Key("column", text(64), "The field of the answer, if it has several."),
)  # fmt: skip
INTERLOCK: Final = Table(
    "interlock",
    Interlock,
    "What must be so elsewhere on the bench while an output is on.",
    Key("name", Kind("text", SENDABLE, _name), "Its name, in messages.", is_required=True),
    Key("when", WHEN.inside, "What to read.", is_required=True),
    Key("must", Kind("expression", SCALAR_SCHEMA, _condition), "The condition on `value`.",
        is_required=True),
    Key("guards",
        made(array(Kind("unit or unit.command", SENDABLE, _guarded), MOST_GUARDED,
                   empty="it would guard nothing"), lambda found: tuple(dict.fromkeys(found))),
        "What is guarded: `psu1` means every write to it; `psu1.output_on` means that command, "
        "every command that sends the same line, and everything else that can switch the same "
        "output on. If the unit's profile has no such command, or the unit has no profile, every "
        "write to it is guarded, and `get_status` shows it.", is_required=True),
    Key("poll_s", made(number(*POLL_S), float),
        "How often the meter is read while a guarded output is on, in seconds.", is_required=True),
    Key("max_age_s", made(number(POLL_S[0], MOST_AGE_S), float),
        "How old a reading may be; at least twice `poll_s`.", is_required=True),
    Key("trip", choice(Trip), "What a trip does; see below."),
    Key("cool_down_s", made(number(0, MOST_COOL_DOWN_S), float),
        "How long guarded writes are refused after a trip, even if the reading is good again."),
)  # fmt: skip


def read_interlocks(nodes: Sequence[Node]) -> tuple[Interlock, ...]:
    """The list, checked by itself.

    Raises:
        Invalid: what is wrong, with its line.
    """
    found: dict[str, Interlock] = {}
    for node in nodes:
        rule = _read(node)
        if rule.name in found:
            raise complaint(rule.mark, f'interlocks: there are two called "{rule.name}".')
        found[rule.name] = rule
    return tuple(found.values())


def _read(node: Node) -> Interlock:
    fields = INTERLOCK.fields(node, "an interlock")
    name = INTERLOCK.value(fields, "name")
    fields = Fields(fields.node, f"interlock {name}")
    found = INTERLOCK.values(fields)
    when = found.pop("when")
    rule = Interlock(**found, **when, mark=fields.mark)
    if rule.max_age_s < 2 * rule.poll_s:
        raise complaint(
            fields.mark_of("max_age_s"),
            f"{fields.name_of('max_age_s')} {rule.max_age_s:g} is less than twice poll_s "
            f"{rule.poll_s:g}: one answer that is late would switch everything off.",
            f"Say {2 * rule.poll_s:g} or more, or poll more often.",
        )
    return rule


def check_interlocks(rules: Sequence[Interlock], profiles: Iterable[Profile]) -> None:
    """Raise what no profile can mean: which one a unit has is known once it has answered."""
    for rule in rules:
        _check_question(rule, profiles)
        for guarded in rule.guards:
            if guarded.command:
                _check_guarded(rule, guarded, profiles)


def _commands(name: str, profiles: Iterable[Profile]) -> Iterator[Command]:
    return (p.commands[name] for p in profiles if name in p.commands)


def _check_question(rule: Interlock, profiles: Iterable[Profile]) -> None:
    owner = f"interlock {rule.name}"
    whys = []
    for command in _commands(rule.command, profiles):
        why = _why_not_polled(command) or why_no_reading(rule, command)
        whys.append(why or _why_refused(rule, command))
        if not whys[-1]:
            return
    if whys:
        raise complaint(rule.mark, f"{owner}: {whys[0]}")
    known = {name for profile in profiles for name in profile.commands}
    message = f'{owner}: no profile has a command "{rule.command}".'
    raise complaint(rule.mark, message, nearest(rule.command, known))


def _why_not_polled(command: Command) -> str:
    if command.is_query and command.is_dangerous:
        return f"{command.name} is dangerous, and would be sent over and over."
    return ""


def _why_refused(rule: Interlock, command: Command) -> str:
    """Why the command would not take these parameters, so that no guarded write could pass."""
    check = compile_parameters(
        command.name, command.parameters, command.checks, optional_names(command.scpi)
    )
    try:
        check.validate(rule.parameters)
    except Invalid as no:
        return no.message
    return ""


def why_no_reading(rule: Interlock, command: Command) -> str:
    """Why a command gives no number that could be judged; empty where it does."""
    if not command.is_query:
        return f"{command.name} is not a query, so it gives no reading."
    if command.changes is not None:
        return f"{command.name} changes {command.changes}, and would be sent over and over."
    answer = command.returns
    if isinstance(answer, WaveformAnswer | ImageAnswer | ListAnswer):
        return f"{command.name} gives many values, and no reading."
    unknown = [name for name in rule.parameters if name not in command.parameters]
    if unknown:
        return f"{command.name} has no parameter {unknown[0]}."
    columns = [one.name for one in getattr(answer, "fields", ())]
    if rule.column and rule.column not in columns:
        told = f"It has {one_of(columns)}." if columns else "Leave column out."
        return f"{command.name} answers no {rule.column}. {told}"
    if columns and not rule.column and not (isinstance(answer, FieldsAnswer) and answer.primary):
        return f"{command.name} answers several values: say which one by column."
    return ""


def _check_guarded(rule: Interlock, guarded: Guarded, profiles: Iterable[Profile]) -> None:
    owner = f"interlock {rule.name}"
    commands = _commands(guarded.command, profiles)
    if any(not command.is_safe for command in commands):
        return
    if any(_commands(guarded.command, profiles)):
        raise complaint(
            rule.mark, f"{owner}: {guarded.command} makes safe, and nothing holds that back."
        )
    known = {name for profile in profiles for name in profile.commands}
    message = f'{owner}: no profile has a command "{guarded.command}" to guard.'
    raise complaint(rule.mark, message, nearest(guarded.command, known))
