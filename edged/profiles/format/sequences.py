"""One entry of ``sequences``: nodes → Sequence, checked against the commands of its profile.

Every name that a step uses must be there by then: a parameter, a loop's name, or what an earlier
step saved. ``finally`` may use the parameters and what ``finally`` itself saved, no more: it also
runs when nothing before it did.

The values in sequences: nodes → literals and expressions whose names are known.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from edged.config.instruments import MAX_TIMEOUT_MS, TIMEOUT
from edged.errors import Invalid
from edged.profiles import model
from edged.profiles.expr import expression_text, names_in
from edged.profiles.format.kinds import (
    EXPRESSION,
    NAMED,
    QUERY,
    SCALAR_SCHEMA,
    check_name,
    expression_of,
    query_of,
)
from edged.profiles.format.parameters import CHECKS, PARAMETERS, read_parameters, read_value
from edged.profiles.template import optional_names
from edged.record import part
from edged.schema.fields import (
    Fields,
    Gathering,
    complaint,
    each_of,
    list_of,
    map_of,
    nearest,
    number_of,
    scalar_of,
    text_of,
    whole_number_of,
)
from edged.schema.tables import (
    TRUTH,
    Key,
    Kind,
    Schema,
    Table,
    choice,
    integer,
    mapping,
    reference,
    text,
)
from edged.scpi.kinds import AnswerType
from edged.yaml.tree import ListNode, MapNode, Node, ScalarNode

MAX_POINTS: Final = 100_000


def checked_value(
    node: Node, owner: str, names: Collection[str], *, is_bare: bool = False
) -> object:
    """A value as the model holds it, its names known.

    Raises:
        Invalid: a list or mapping, not an expression, a name that is not there.
    """
    value = scalar_of(node, owner)
    try:
        used = names_in(value, is_bare=is_bare)
    except Invalid as error:
        raise complaint(node.mark, f"{owner}: {error.message}") from None
    for name in sorted(used):
        if name not in names:
            message = f"{owner} names {name}, which has no value here."
            raise complaint(node.mark, message, nearest(name, names))
    return value


def read_range(node: Node, owner: str, names: Collection[str]) -> tuple[str, tuple[object, ...]]:
    """``in`` of a loop: ``list``, ``lin`` or ``log`` and its values.

    Raises:
        Invalid: another shape, no values, too many, or log through 0.
    """
    if not isinstance(node, MapNode):
        items = list_of(node, owner, most=MAX_POINTS)
        return "list", tuple(checked_value(item, owner, names) for item in items)
    fields = Fields.of(node, owner, ("lin", "log"))
    if len(node.entries) != 1:
        raise complaint(node.mark, f"{owner} is a list, or one of lin and log.")
    kind = next(iter(node.entries))
    items = fields.items(kind)
    if len(items) != 3:
        message = f"{fields.name_of(kind)} needs three entries: from, to, number of points."
        raise complaint(fields.mark_of(kind), message)
    values = tuple(checked_value(item, owner, names, is_bare=True) for item in items)
    if not isinstance(values[2], str):
        whole_number_of(items[2], f"{owner}: the number of points", 1, MAX_POINTS)
    for item, value in zip(items[:2], values, strict=False):
        if not isinstance(value, str):
            _check_end(item, number_of(item, owner), kind, owner)
    return kind, values


def _check_end(node: Node, value: float, kind: str, owner: str) -> None:
    if kind == "log" and value <= 0:
        message = f"{owner}: log goes from and to numbers over 0, not {value}."
        raise complaint(node.mark, message)


MAX_NESTING: Final = 4
_MOST_STEPS: Final = 500
_ENDS: Final[Schema] = {"type": "array", "minItems": 3, "maxItems": 3}
_RANGE: Final[Schema] = {
    "oneOf": [
        {"type": "array"},
        *(
            {
                "type": "object",
                "properties": {kind: _ENDS},
                "required": [kind],
                "additionalProperties": False,
            }
            for kind in ("lin", "log")
        ),
    ]
}  # fmt: skip
_STEPS: Final = Kind("list of [steps](#step)", {"type": "array", "items": reference("step")})
_VALUES: Final = mapping("name → value", SCALAR_SCHEMA)
SEQUENCE: Final = Table(
    "sequence",
    model.Sequence,
    "A tool that runs several steps.",
    Key("description", text(), "What it does, for callers."),
    PARAMETERS,
    CHECKS,
    Key("steps", Kind(_STEPS.word, {**_STEPS.schema, "minItems": 1}), "The steps, in order.",
        is_required=True),
    Key("finally", _STEPS, "Steps that always run, even after an error."),
    Key("finally_timeout_ms", TIMEOUT, "How long `finally` may take."),
    Key("result", _VALUES, "What the sequence returns, besides the `rows`."),
    Key("essential", TRUTH, "The tool is also in the short list (at most 8 of a profile).",
        field="is_essential"),
    Key("is_dangerous", TRUTH,
        "The sequence can put energy on the terminals, even if no step is marked as dangerous."),
    is_merged=True,
)  # fmt: skip
_PARAMETERS: Final = Key("parameters", _VALUES, "The command's arguments.")
_SAVE: Final = Key("as", NAMED, "The name under which the answer is kept.")
STEPS: Final[Mapping[str, Table[Any]]] = {
    "command": Table(
        "command_step",
        model.CommandStep,
        "Runs a command of the same profile.",
        Key("command", NAMED, "Its name.", is_required=True),
        _PARAMETERS,
        _SAVE,
    ),
    "query": Table(
        "query_step",
        model.QueryStep,
        "Sends a query of one of the commands as a raw line.",
        Key("query", QUERY, "The query.", is_required=True),
        _SAVE._replace(is_required=True),
        Key("type", choice(AnswerType), "The type of the answer."),
    ),
    "wait_ms": Table(
        "wait_step",
        model.WaitStep,
        "Waits.",
        Key("wait_ms", Kind("number or expression", SCALAR_SCHEMA), "How long to wait.",
            is_required=True),
    ),
    "poll": Table(
        "poll_step",
        model.PollStep,
        "Repeats a query until a condition is true.",
        Key("poll", Kind("query, [question](#question) or name", QUERY.schema),
            "A query of one of the commands, or the name of a query command.",
            is_required=True),
        _PARAMETERS,
        Key("until", EXPRESSION._replace(read=None),
            "An expression over `value` (the answer), the parameters and kept answers, such as "
            "`value > target - 1`.", is_required=True),
        Key("every_ms", integer(10, MAX_TIMEOUT_MS), "The interval between two queries."),
        Key("timeout_ms", integer(1, 24 * MAX_TIMEOUT_MS), "The timeout of the step."),
    ),
    "for": Table(
        "for_step",
        model.ForStep,
        "Repeats steps for each of several values.",
        Key("for", NAMED, "The name of the value.", is_required=True),
        Key("in", Kind("list, `{lin: [from, to, number]}` or `{log: …}`", _RANGE),
            "The values.", is_required=True),
        Key("steps", _STEPS, "The steps for each value.", is_required=True),
    ),
    "row": Table(
        "row_step",
        model.RowStep,
        "Adds a row to the table in the sequence's answer.",
        Key("row", mapping("column → value", SCALAR_SCHEMA, least=1), "The columns.",
            is_required=True),
    ),
}  # fmt: skip
"""By the key that tells which kind of step it is."""


def read_sequence(
    name: str,
    key: Node,
    node: Node,
    commands: Mapping[str, model.Command],
    broken: Collection[str] = (),
) -> model.Sequence:
    """One sequence.

    Args:
        name: its key.
        key: where the key stands.
        node: what stands under it.
        commands: of the same profile, for the steps to name.
        broken: the commands of the same profile that cannot be read: a step that runs one is left
            out, since nothing can be said of it.

    Raises:
        Invalid: with the place of whatever breaks a rule.
    """
    check_name(key.mark, name, "The sequence")
    gathering = Gathering()
    fields = SEQUENCE.begin(node, name, gathering)
    parameters = read_parameters(fields, gathering)
    steps: tuple[model.Step, ...] = ()
    finally_steps: tuple[model.Step, ...] = ()
    found: dict[str, Any] = {}
    reader = _StepReader(name, commands, broken, set(parameters))
    final_reader = _StepReader(name, commands, broken, set(parameters))
    with gathering.part():
        entries = fields.need("steps")
        steps = reader.steps(entries, fields.name_of("steps"), 0)
        if isinstance(entries, ListNode) and not entries.items:
            raise complaint(fields.mark_of("steps"), f"{fields.name_of('steps')} is empty.")
    with gathering.part():
        last = fields.get("finally")
        if last is not None:
            finally_steps = final_reader.steps(last, fields.name_of("finally"), 0)
    with gathering.part():
        found = SEQUENCE.values(fields, parameters)
    with gathering.part():
        found["result"] = _read_result(fields, reader.names | final_reader.names)
    gathering.end()
    is_dangerous = model.is_sequence_dangerous((*steps, *finally_steps), commands)
    return model.Sequence(
        name=name,
        steps=steps,
        parameters=parameters,
        finally_steps=finally_steps,
        **{**found, "is_dangerous": found.get("is_dangerous", False) or is_dangerous},
    )


def answer_fields(returns: model.Returns | None) -> tuple[str, ...]:
    """What an answer saved ``as: name`` adds as ``name_…`` besides; see ``runs.sequences``.

    A trace stays where it is kept, so that a sequence has the way to it.
    """
    match returns:
        case model.FieldsAnswer(fields=fields):
            return tuple(field.name for field in fields)
        case model.BitsAnswer(fields=bits):
            return tuple(bit.name for bit in bits)
        case model.WaveformAnswer():
            return ("stream_id", "point_index", "y_length", "x_increment")
        case _:
            return ()


def _read_result(fields: Fields, names: Collection[str]) -> dict[str, object]:
    node = fields.mapping("result")
    if node is None:
        return {}
    owner = fields.name_of("result")
    if "rows" in node.entries:
        raise complaint(node.keys["rows"].mark, f'{owner} gets "rows" from the row steps.')
    return _values_of(node, lambda name, entry: checked_value(entry, f"{owner}: {name}", names))


def _values_of(node: MapNode, read: Callable[[str, Node], object]) -> dict[str, object]:
    """What stands under each key; raises Invalid: all that is wrong."""
    found = each_of(node.keys.values(), lambda key: read(key.text, node.entries[key.text]))
    return dict(zip(node.entries, found, strict=True))


class _Unjudged(Exception):
    """A step runs a command that cannot be read."""


@part
class _StepReader:
    """Reads steps in order and knows which names have a value by then."""

    owner: str
    commands: Mapping[str, model.Command]
    broken: Collection[str]
    names: set[str]
    _count: int = 0

    def steps(self, node: Node, owner: str, depth: int) -> tuple[model.Step, ...]:
        """The steps of one list."""
        if depth > MAX_NESTING:
            message = f"{self.owner}: loops are nested deeper than {MAX_NESTING}."
            raise complaint(node.mark, message)
        gathering = Gathering()
        found: list[model.Step] = []
        for entry in list_of(node, owner, most=_MOST_STEPS):
            try:
                found.append(self._step(entry, depth))
            except Invalid as error:
                gathering.add(error)
                self._assume(entry)
            except _Unjudged:
                self._assume(entry)
        gathering.end()
        return tuple(found)

    def _assume(self, entry: Node) -> None:
        """What a step would have saved has a value: later ones are not blamed for this one."""
        saved = entry.entries.get("as") if isinstance(entry, MapNode) else None
        if isinstance(saved, ScalarNode):
            pieces = {
                name
                for command in self.commands.values()
                for name in answer_fields(command.returns)
            }
            self.names |= {saved.text, *(f"{saved.text}_{piece}" for piece in pieces)}

    def _step(self, node: Node, depth: int) -> model.Step:
        self._count += 1
        if self._count > _MOST_STEPS:
            raise complaint(node.mark, f"{self.owner} has more than {_MOST_STEPS} steps.")
        entries = map_of(node, f"{self.owner}: a step").entries
        kinds = [kind for kind in STEPS if kind in entries]
        if len(kinds) != 1:
            found = " and ".join(kinds) or "none"
            message = f"{self.owner}: a step is exactly one of {', '.join(STEPS)}; "
            unknown = next((nearest(k, STEPS) for k in entries if k not in STEPS), "")
            raise complaint(node.mark, f"{message}this has {found}.", unknown)
        fields = STEPS[kinds[0]].fields(node, f"{self.owner}: {kinds[0]}")
        match kinds[0]:
            case "command":
                return self._command_step(fields)
            case "query":
                return self._query_step(fields)
            case "wait_ms":
                return self._wait_step(fields)
            case "poll":
                return self._poll_step(fields)
            case "for":
                return self._for_step(fields, depth)
            case _:
                return self._row_step(fields)

    def _save(self, fields: Fields, key: str) -> str:
        name = text_of(fields.need(key), fields.name_of(key), most=64)
        self.names.add(check_name(fields.mark_of(key), name, f"{fields.owner}: the name"))
        return name

    def _command_step(self, fields: Fields) -> model.CommandStep:
        node = fields.need("command")
        command = self._command(node, text_of(node, fields.name_of("command"), most=64))
        values = self._arguments(fields, command)
        save_as = self._save(fields, "as") if fields.has("as") else None
        if save_as is not None:
            self.names |= {f"{save_as}_{name}" for name in answer_fields(command.returns)}
        return model.CommandStep(command=command.name, parameters=values, save_as=save_as)

    def _command(self, node: Node, name: str) -> model.Command:
        command = self.commands.get(name)
        if command is None and name in self.broken:
            raise _Unjudged
        if command is None:
            message = f'{self.owner}: there is no command "{name}".'
            raise complaint(node.mark, message, nearest(name, self.commands))
        if command.requires_sweep:
            message = f"{self.owner}: {name} requires a sweep, so no step may run it."
            raise complaint(node.mark, message)
        return command

    def _arguments(self, fields: Fields, command: model.Command) -> dict[str, object]:
        node = fields.mapping("parameters")
        entries = {} if node is None else node.entries
        for name in entries:
            if node is not None and name not in command.parameters:
                message = f'{self.owner}: {command.name} has no parameter "{name}".'
                raise complaint(node.keys[name].mark, message, nearest(name, command.parameters))
        optional = optional_names(command.scpi)
        for name, parameter in command.parameters.items():
            if name not in entries and parameter.default is None and name not in optional:
                message = f"{self.owner}: {command.name} needs {name}, which this step lacks."
                raise complaint(fields.mark, message)
        if node is None:
            return {}
        return _values_of(node, lambda name, entry: self._argument(entry, command, name))

    def _argument(self, node: Node, command: model.Command, name: str) -> object:
        owner = f"{self.owner}: {command.name}.{name}"
        value = checked_value(node, owner, self.names)
        if expression_text(value, is_bare=False) is None:
            return read_value(node, command.parameters[name], owner)
        return value

    def _query_step(self, fields: Fields) -> model.QueryStep:
        found = STEPS["query"].values(fields, self.names)
        return model.QueryStep(save_as=self._save(fields, "as"), **found)

    def _wait_step(self, fields: Fields) -> model.WaitStep:
        node = fields.need("wait_ms")
        value = checked_value(node, fields.owner, self.names)
        if expression_text(value, is_bare=False) is not None:
            return model.WaitStep(wait_ms=str(value))
        return model.WaitStep(wait_ms=whole_number_of(node, fields.owner, 0, 24 * MAX_TIMEOUT_MS))

    def _poll_step(self, fields: Fields) -> model.PollStep:
        node = fields.need("poll")
        text = "" if isinstance(node, MapNode) else text_of(node, fields.name_of("poll"))
        arguments: dict[str, object] = {}
        is_command = bool(text) and "?" not in text
        if is_command:
            command = self._command(node, text)
            if not command.is_query:
                raise complaint(node.mark, f"{fields.owner}: {text} is not a query.")
            arguments = self._arguments(fields, command)
        else:
            text = query_of(fields, "poll", node, self.names)
            if fields.has("parameters"):
                message = f'{fields.owner}: "parameters" belong to a command, not to a query.'
                raise complaint(fields.mark_of("parameters"), message)
        names = self.names | {"value"}
        return model.PollStep(
            poll=text,
            until=expression_of(fields.need("until"), fields.name_of("until"), names),
            is_command=is_command,
            parameters=arguments,
            **STEPS["poll"].values(fields),
        )

    def _for_step(self, fields: Fields, depth: int) -> model.ForStep:
        kind, values = read_range(fields.need("in"), fields.name_of("in"), self.names)
        name = self._save(fields, "for")
        steps = self.steps(fields.need("steps"), fields.name_of("steps"), depth + 1)
        return model.ForStep(name=name, kind=kind, values=values, steps=steps)

    def _row_step(self, fields: Fields) -> model.RowStep:
        columns = fields.mapping("row", most=100)
        if columns is None or not columns.entries:
            raise complaint(fields.mark, f"{fields.owner} has no columns.")
        return model.RowStep(
            columns={
                name: checked_value(entry, f"{fields.owner}: {name}", self.names, is_bare=True)
                for name, entry in columns.entries.items()
            }
        )
