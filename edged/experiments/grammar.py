"""The keys of an experiment file: from these tables come reader, JSON Schema and documentation."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from edged.errors import Invalid
from edged.experiments.model import (
    AskStep,
    AskType,
    CheckStep,
    Experiment,
    FirstStep,
    IfStep,
    LeaveStep,
    LetStep,
    Log,
    MeasureStep,
    MissingThen,
    OnAtMost,
    OnFail,
    OnMissing,
    OnNoAnswer,
    Plot,
    RampStep,
    ReadStep,
    RepeatStep,
    Report,
    Resume,
    SettleStep,
    Watch,
    WatchElse,
)
from edged.profiles.expr import compile_expression, expression_text
from edged.profiles.format.kinds import SCALAR_SCHEMA, pattern
from edged.profiles.format.parameters import PARAMETERS
from edged.profiles.model import (
    CommandStep,
    ForStep,
    OnError,
    OnTimeout,
    PollStep,
    RowStep,
    Target,
    WaitStep,
)
from edged.profiles.step_values import MOST_VALUES
from edged.schema.fields import (
    FORMAT,
    Fields,
    complaint,
    each_of,
    list_of,
    map_of,
    number_of,
    scalar_of,
    text_of,
)
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
    mapping,
    number,
    positive,
    reference,
    text,
)
from edged.yaml.tree import MapNode, Node, Scalar, ScalarNode

TARGET_TEXT: Final = r"[a-z][a-z0-9_]*\.[a-z][a-z0-9_]*(?:\.[A-Za-z][A-Za-z0-9_]*)?"
_WORD: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
KEYWORDS: Final = frozenset({"and", "or", "not", "true", "false"})
_COMMA: Final = re.compile(r"[-+]?[0-9]+,[0-9]+(?:[eE][-+]?[0-9]+)?")
_DAY_S: Final = 86_400
_WEEK_H: Final = 168


def name_of(node: Node, owner: str) -> str:
    """The name of a value, role, loop or column: letters, digits and ``_``, a letter first.

    Raises:
        Invalid: another form, or a word of the expression language.
    """
    name = text_of(node, owner, most=200)
    if not _WORD.fullmatch(name):
        better = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_")[:64]
        remedy = f'Call it "{better}".' if _WORD.fullmatch(better) else ""
        message = f'{owner}: the name "{name}" must be letters, digits and "_" (a letter first).'
        raise complaint(node.mark, message, remedy)
    if name in KEYWORDS:
        raise complaint(node.mark, f'{owner}: "{name}" is a word of the expression language.')
    return name


def value_of(node: Node, owner: str, *, is_bare: bool = False) -> Scalar:
    """A literal, or ``"{expression}"``; where ``is_bare`` a text is an expression without braces.

    Raises:
        Invalid: no scalar, not an expression, a decimal comma.
    """
    value = scalar_of(node, owner)
    if not isinstance(value, str):
        return value
    if _COMMA.fullmatch(value):
        remedy = f"Write {value.replace(',', '.')}."
        raise complaint(node.mark, f"{owner}: {value} has a decimal comma.", remedy)
    expression = expression_text(value, is_bare=is_bare)
    if expression is None:
        return value
    try:
        compile_expression(expression)
    except Invalid as error:
        raise complaint(node.mark, f"{owner}: {error.message}") from None
    return f"{{{expression}}}"


def number_or_expression(node: Node, owner: str) -> Scalar:
    """A number, or an expression; raises Invalid: neither."""
    value = value_of(node, owner, is_bare=True)
    if isinstance(value, bool):
        raise complaint(node.mark, f"{owner} must be a number, not {str(value).lower()}.")
    return value


def _condition_of(node: Node, owner: str) -> str:
    value = value_of(node, owner, is_bare=True)
    if not isinstance(value, str):
        raise complaint(node.mark, f"{owner} must be a condition, such as i_d > 0.015.")
    return value[1:-1]


def target_of(node: Node, owner: str) -> Target:
    """``role.command[.field]``, or {command, parameters} where it needs arguments."""
    parameters: Mapping[str, Scalar] = {}
    if isinstance(node, MapNode):
        found = _CALL.read_values(node, owner)
        target, parameters = found["command"], found.get("parameters", {})
        return Target(
            role=target.role, command=target.command, member=target.member, parameters=parameters
        )
    name = text_of(node, owner, most=160)
    if not re.fullmatch(TARGET_TEXT, name):
        remedy = "Write role.command, such as drain.set_voltage."
        raise complaint(node.mark, f'{owner}: "{name}" is no role.command.', remedy)
    role, command, *member = name.split(".")
    return Target(role=role, command=command, member=member[0] if member else "")


def _at(inner: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    return lambda fields, key, node, _names: inner(node, fields.name_of(key), **options)


def _named(inner: Callable[[Node, str], Any], most: int = 100) -> Callable[..., Any]:
    """A mapping from names of values to what ``inner`` reads."""

    def read(fields: Fields, key: str, node: Node, _names: Collection[str]) -> dict[str, Any]:
        owner = fields.name_of(key)
        found = map_of(node, owner, most=most)
        if not found.entries:
            raise complaint(node.mark, f"{owner} is empty.", f"Leave {key or 'it'} out.")

        def one(name: ScalarNode) -> Any:
            name_of(name, owner)
            return inner(found.entries[name.text], f"{owner}.{name.text}")

        return dict(zip(found.entries, each_of(found.keys.values(), one), strict=True))

    return read


VALUE: Final = Kind('value or "{expression}"', SCALAR_SCHEMA, _at(value_of))
JUDGED: Final = Kind("number or expression", SCALAR_SCHEMA, _at(value_of, is_bare=True))
NUMBER: Final = JUDGED._replace(read=_at(number_or_expression))
CONDITION: Final = Kind("condition", {"type": "string"}, _at(_condition_of))
_TARGET_SCHEMA: Final[Schema] = {
    "anyOf": [{"type": "string", "pattern": f"^{TARGET_TEXT}$"}, reference("call")]
}
TARGET: Final = Kind("role.command", _TARGET_SCHEMA, _at(target_of))
VALUES: Final = Kind("name → value", mapping("", SCALAR_SCHEMA).schema, _named(value_of))
_PARAMETERS: Final = Key("parameters", VALUES, "The command's arguments.")
_CALL: Final[Table[dict[str, Any]]] = Table(
    "call",
    dict,
    "A command with arguments.",
    Key("command", TARGET, "Which.", is_required=True),
    _PARAMETERS,
)
_READINGS: Final = Kind(
    "name → role.command.field",
    mapping("", _TARGET_SCHEMA, least=1).schema,
    _named(target_of),
)
_COLUMNS: Final = Kind(
    "column → expression",
    mapping("", SCALAR_SCHEMA, least=1).schema,
    _named(lambda node, owner: value_of(node, owner, is_bare=True)),
)
_STEPS: Final = Kind("list of steps", {"type": "array", "items": reference("step")})
_NAME: Final = Kind("name", TEXT_SCHEMA, _at(name_of))
_SECONDS: Final = made(positive(_DAY_S * 7), float)
_MILLISECONDS: Final = made(_SECONDS, lambda seconds: max(1, round(seconds * 1000)))
_EVERY: Final = Key("every_s", _SECONDS, "Seconds between two readings.")
_TIMEOUT: Final = Key("timeout_s", _SECONDS, "After so many seconds: on_timeout.")
_RATE: Final = Key("rate", NUMBER, "Units per second.")


def _number_list(fields: Fields, key: str, items: tuple[Node, ...]) -> tuple[Scalar, ...]:
    owner = fields.name_of(key)
    return tuple(number_or_expression(item, owner) for item in items)


def _range(fields: Fields, key: str, items: tuple[Node, ...]) -> tuple[Scalar, ...]:
    values = _number_list(fields, key, items)
    count = values[-1]
    if not isinstance(count, str) and (isinstance(count, bool) or not 1 <= count <= MOST_VALUES
                                       or count != int(count)):  # fmt: skip
        message = f"{fields.name_of(key)}: the number of values goes from 1 to {MOST_VALUES:,}."
        raise complaint(items[-1].mark, message)
    for item, value in zip(items[:-1], values, strict=False):
        if not isinstance(value, str):
            number_of(item, fields.name_of(key))
    return values


RANGES: Final[Mapping[str, Callable[..., tuple[Scalar, ...]]]] = {
    "list": lambda fields, key, items: each_of(
        items, lambda item: value_of(item, fields.name_of(key))
    ),
    "lin": _range,
    "log": _range,
    "count": _range,
}
_IN: Final[Schema] = {
    "anyOf": [
        {"type": "array", "items": SCALAR_SCHEMA, "minItems": 1},
        *(
            {
                "type": "object",
                "properties": {kind: {"type": "array", "minItems": 3, "maxItems": 3}},
                "required": [kind],
                "additionalProperties": False,
            }
            for kind in ("lin", "log")
        ),
        {"type": "object", "properties": {"count": SCALAR_SCHEMA}, "required": ["count"]},
    ]
}
STEPS: Final[Mapping[str, Table[Any]]] = {
    "command": Table(
        "command_step", CommandStep, "Runs a command of a role.",
        Key("command", TARGET._replace(read=None), "Which.", is_required=True),
        _PARAMETERS._replace(kind=VALUES._replace(read=None)),
        Key("as", _NAME, "The name under which the answer is kept.", field="save_as"),
    ),
    "wait_s": Table(
        "wait_step", WaitStep, "Waits.",
        Key("wait_s", NUMBER._replace(read=lambda fields, key, node, _: _in_ms(
            number_or_expression(node, fields.name_of(key)))),
            "How long, in seconds.", field="wait_ms", is_required=True),
    ),
    "wait_ms": Table(
        "wait_ms_step", WaitStep, "Waits.",
        Key("wait_ms", NUMBER, "How long, in milliseconds.", is_required=True),
    ),
    "poll": Table(
        "poll_step", PollStep, "Repeats a query until a condition on `value` is true.",
        Key("poll", TARGET._replace(read=None), "The query.", is_required=True),
        _PARAMETERS._replace(kind=VALUES._replace(read=None)),
        Key("until", CONDITION, "Over `value` and the names so far.", is_required=True),
        _EVERY._replace(kind=_MILLISECONDS, field="every_ms"),
        _TIMEOUT._replace(kind=_MILLISECONDS, field="timeout_ms"),
        Key("on_timeout", choice(OnTimeout), "What then."),
    ),
    "row": Table(
        "row_step", RowStep, "Adds a row to the data.",
        Key("row", _COLUMNS, "The columns.", field="columns", is_required=True),
    ),
    "for": Table(
        "for_step", ForStep, "Repeats steps for each of several values.",
        Key("for", _NAME._replace(read=None), "The name of the value.", is_required=True),
        Key("in", Kind("list, `{lin: [from, to, number]}`, `{log: …}` or `{count: number}`", _IN),
            "The values.", is_required=True),
        Key("set", TARGET, "Set each value with this command."),
        Key("rate", NUMBER, "Move to each value at this rate, also back to the first."),
        Key("snake", TRUTH, "Every second time backwards.", field="is_snake"),
        Key("wait_s", NUMBER, "Wait after each value is set."),
        Key("unit", VALUE, "Each pass is one unit under test, called so."),
        Key("steps", _STEPS, "The steps for each value.", is_required=True),
        Key("finally", _STEPS, "When the loop ends, or with `unit` when each pass ends."),
        Key("on_error", choice(OnError), "After an error inside a pass."),
    ),
    "read": Table(
        "read_step", ReadStep, "Reads values into names, from different units at once.",
        Key("read", _READINGS, "What.", is_required=True),
    ),
    "measure": Table(
        "measure_step", MeasureStep, "Reads values into names, and adds a row of them.",
        Key("measure", _READINGS, "What.", is_required=True),
    ),
    "ramp": Table(
        "ramp_step", RampStep, "Moves a set-point from where it is.",
        Key("ramp", TARGET, "The command that sets it.", is_required=True),
        Key("to", NUMBER, "Where to.", is_required=True),
        _RATE._replace(is_required=True),
    ),
    "settle": Table(
        "settle_step", SettleStep, "Reads until the readings stand still or are near a target.",
        Key("settle", TARGET, "What is read.", is_required=True),
        Key("drift", NUMBER, "Largest minus smallest of the last `for_s`."),
        Key("target", NUMBER, "Where it should be, with `within`."),
        Key("within", NUMBER, "How far beside it, for all of the last `for_s`."),
        Key("for_s", _SECONDS, "How long that must hold."),
        _EVERY, _TIMEOUT,
        Key("on_timeout", choice(OnTimeout), "What then."),
    ),
    "if": Table(
        "if_step", IfStep, "Does steps if a condition holds.",
        Key("if", CONDITION, "The condition.", field="condition", is_required=True),
        Key("then", _STEPS, "If it holds.", is_required=True),
        Key("else", _STEPS, "If it does not."),
    ),
    "repeat": Table(
        "repeat_step", RepeatStep, "Repeats steps until a condition holds.",
        Key("repeat", _NAME._replace(read=None), "The name of the loop.", is_required=True),
        Key("at_most", integer(1, MOST_VALUES), "At most so often.", is_required=True),
        Key("until", CONDITION, "Judged after each pass.", is_required=True),
        Key("steps", _STEPS, "The steps.", is_required=True),
        Key("on_at_most", choice(OnAtMost), "If it never held."),
    ),
    "let": Table(
        "let_step", LetStep, "Works values out, in the order written.",
        Key("let", VALUES, "name → value.", is_required=True),
    ),
    "check": Table(
        "check_step", CheckStep, "Judges a value: pass, marginal or fail.",
        Key("check", text(100), "Its name.", field="name", is_required=True),
        Key("value", JUDGED, "What is judged.", is_required=True),
        Key("min", NUMBER, "The least that passes."),
        Key("max", NUMBER, "The most that passes."),
        Key("near", NUMBER, "So near to a limit it is marginal."),
        Key("unit", text(32), "Of the value."),
        Key("on_fail", choice(OnFail), "What follows, besides the verdict."),
    ),
    "ask": Table(
        "ask_step", AskStep, "Asks a person.",
        Key("ask", _NAME, "The name of the answer.", field="name", is_required=True),
        Key("text", text(500), "The question; {expressions} are filled in.", is_required=True),
        Key("type", choice(AskType), "What can be answered.", is_required=True),
        Key("pattern", pattern(), "What a text must look like."),
        Key("options", made(array(text(100), 20, empty="nothing could be chosen"), tuple),
            "Of a choice."),
        Key("min", number(), "Of a number."),
        Key("max", number(), "Of a number."),
        _TIMEOUT,
        Key("on_timeout", choice(OnNoAnswer), "Without an answer in time, or after no."),
    ),
    "leave": Table(
        "leave_step", LeaveStep, "Ends a loop that it stands in.",
        Key("leave", _NAME._replace(read=None), "The loop.", is_required=True),
    ),
    "first": Table(
        "first_step", FirstStep, "Steps that run again after a resume.",
        Key("first", _STEPS, "The steps.", is_required=True),
    ),
}  # fmt: skip
"""By the key that says which kind of step it is."""


def _in_ms(seconds: Scalar) -> Scalar:
    if isinstance(seconds, str):
        return f"{{({seconds[1:-1]}) * 1000}}"
    return seconds * 1000


def _bounds(fields: Fields, key: str, node: Node, _names: Collection[str]) -> Any:
    """``role.command.parameter`` → [low, high]."""
    found: dict[str, tuple[float, float]] = {}
    for name, entry in map_of(node, fields.name_of(key), most=100).entries.items():
        owner = f"{key}.{name}"
        mark = node.keys[name].mark if isinstance(node, MapNode) else node.mark
        if not re.fullmatch(TARGET_TEXT, name) or name.count(".") != 2:
            raise complaint(mark, f"{owner}: this is no role.command.parameter.")
        items = list_of(entry, owner)
        if len(items) != 2:
            raise complaint(entry.mark, f"{owner} must be [lowest, highest].")
        low, high = (number_of(item, owner) for item in items)
        if low > high:
            raise complaint(entry.mark, f"{owner}: {low:g} is over {high:g}.")
        found[name] = (float(low), float(high))
    return found


LOG: Final = Table(
    "log", Log, "A value that is read beside the steps, into a table of its own.",
    Key("command", TARGET, "What is read.", is_required=True),
    _EVERY._replace(is_required=True),
)  # fmt: skip
WATCH: Final = Table(
    "watch", Watch, "A condition that must hold while the steps run.",
    Key("read", TARGET, "What is read.", is_required=True),
    Key("must", CONDITION, "Over `value`.", is_required=True),
    _EVERY._replace(is_required=True),
    Key("else", choice(WatchElse), "What if it does not hold, or nothing is read.",
        field="otherwise", is_required=True),
    Key("again", CONDITION, "After a pause: go on when this holds."),
    Key("for_s", _SECONDS, "How long `again` must hold."),
)  # fmt: skip
ON_MISSING: Final = Table(
    "on_missing", OnMissing, "What happens if a reading does not come.",
    Key("tries", integer(1, 10), "So many tries."),
    Key("then", choice(MissingThen), "And then."),
)  # fmt: skip
RESUME: Final = Table(
    "resume", Resume, "Where an interrupted run goes on.",
    Key("at", _NAME, "The loop whose unfinished pass is done again.", is_required=True),
    Key("within_h", made(positive(_WEEK_H), float), "Not later than so many hours."),
    Key("ask", TRUTH, "Whether a person must resume it.", field="is_asked"),
)  # fmt: skip
PLOT: Final = Table(
    "plot", Plot, "A picture of the data.",
    Key("map", _NAME, "A heat map of this column."),
    Key("line", _NAME, "A line of this column."),
    Key("x", text(64), "The column of the x axis."),
    Key("y", text(64), "The column of the y axis."),
    Key("log", TRUTH, "A logarithmic scale.", field="is_log"),
)  # fmt: skip
REPORT: Final = Table(
    "report", Report, "Which reports are written at the end.",
    Key("per", choice(("run", "unit")), "One for the run, or one for each unit."),
    Key("formats", made(array(choice(("html", "junit", "openhtf"))), tuple), "Which."),
)  # fmt: skip
EXPERIMENT: Final = Table(
    "experiment", Experiment, "An experiment file.",
    Key("format", Kind("1", {"const": FORMAT}), "The version of the grammar.", is_required=True),
    Key("experiment", _NAME, "Its name.", field="name", is_required=True),
    Key("description", text(), "What it is for."),
    Key("roles", Kind("role → unit", mapping("", TEXT_SCHEMA, least=1).schema,
                      _named(lambda node, owner: text_of(node, owner, most=200))),
        "The units that it uses.", is_required=True),
    PARAMETERS._replace(
        # Names may have capital letters here; a profile's become names of arguments.
        kind=mapping("name → [parameter](profiles.md#parameter)", reference("parameter")),
        sentence="Values that a start can set.",
    ),
    Key("tags", made(array(text(64), 50), tuple), "To find the run again."),
    Key("with", Kind("role → parameter → value",
                     mapping("", mapping("", SCALAR_SCHEMA).schema).schema,
                     _named(lambda node, owner: _named(value_of)(
                         Fields(map_of(node, owner), owner), "", node, ()))),
        "Arguments of every command of the role that has them.", field="given"),
    Key("bounds", Kind("role.command.parameter → [low, high]",
                       mapping("", {"type": "array"}).schema, _bounds),
        "The range of values that are worked out from answers."),
    Key("at_most_h", made(positive(_WEEK_H), float), "Its longest duration, in hours."),
    Key("pause_at_most_s", _SECONDS, "The longest pause; then it is aborted."),
    Key("log", Kind("column → [log](#log)", mapping("", reference("log")).schema),
        "Values that are read beside the steps."),
    Key("watch", Kind("list of [watch](#watch)", {"type": "array", "items": reference("watch")}),
        "Conditions that must hold."),
    Key("steps", _STEPS, "The steps, in order.", is_required=True),
    Key("finally", _STEPS, "Steps that always run at the end."),
    Key("on_pause", _STEPS, "Steps of a pause."),
    Key("on_resume", _STEPS, "Steps before it goes on."),
    Key("on_missing", entries("role", ON_MISSING.inside), "What if a reading does not come."),
    Key("resume", RESUME.link, "Where an interrupted run goes on."),
    Key("plots", Kind("list of [plot](#plot)", {"type": "array", "items": reference("plot")}),
        "Pictures to show."),
    Key("part", entries("name", text(200)), "What is tested."),
    Key("report", REPORT.inside, "Which reports are written."),
)  # fmt: skip
TABLES: Final = (*STEPS.values(), _CALL, LOG, WATCH, ON_MISSING, RESUME, PLOT, REPORT)
