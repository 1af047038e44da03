"""One entry of ``commands``: nodes → Command, with every rule that concerns the command alone.

What a command says about others (a sweep's readback, a setting's ``set``) is checked by
``profile.py`` when all are known.

``abort`` of a profile and of a sweep: nodes → AbortStep.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, Final

from edged.config.instruments import MAX_TIMEOUT_MS, PAUSE, TIMEOUT
from edged.profiles import model
from edged.profiles.format.connection import (
    ACKNOWLEDGE,
    COMPLETION_KIND,
    ERRORS_KIND,
    PRECONDITION,
)
from edged.profiles.format.kinds import (
    NAMED,
    PATTERN,
    QUERY,
    SENDABLE,
    TEMPLATE,
    check_name,
    pattern,
    pattern_of,
    query_of,
    question_of,
    template_of,
)
from edged.profiles.format.parameters import CHECKS, PARAMETERS, read_parameters
from edged.profiles.format.returns import DECIMAL, read_returns
from edged.profiles.template import placeholders
from edged.schema.fields import (
    Fields,
    Gathering,
    complaint,
    each_of,
    list_of,
    map_of,
    nearest,
    text_of,
)
from edged.schema.tables import (
    POSITIVE,
    TRUTH,
    Key,
    Kind,
    Table,
    array,
    choice,
    integer,
    is_word,
    number,
    reference,
    text,
)
from edged.scpi.words import is_recalling
from edged.yaml.tree import ListNode, MapNode, Node

_UNASKABLE: Final = "none"
"""What ``ask`` says where the instrument has no answer for what the line did."""


def _abort(
    fields: Fields, key: str, node: Node, names: Collection[str]
) -> tuple[model.AbortStep, ...]:
    owner = fields.name_of(key)
    return each_of(list_of(node, owner, most=100), lambda entry: _abort_step(entry, owner, names))


def _abort_step(node: Node, owner: str, names: Collection[str]) -> model.AbortStep:
    if not isinstance(node, MapNode):
        return model.AbortStep(send=template_of(node, owner, names))
    fields = ABORT.fields(node, owner)
    found = ABORT.values(fields, names)
    ask = fields.need("ask")
    if is_word(ask, _UNASKABLE):
        if fields.has("expect"):
            message = f'{owner}: "expect" has no question whose answer it could fit.'
            raise complaint(fields.mark_of("expect"), message)
        return model.AbortStep(**found, is_unaskable=True)
    question = question_of(fields, "ask", ask, names)
    expect = pattern_of(fields.need("expect"), fields.name_of("expect"))
    return model.AbortStep(**found, ask=question, expect=expect)


ABORT: Final = Table(
    "abort",
    model.AbortStep,
    "One entry of `abort`: a line, or this mapping.",
    Key("send", TEMPLATE, "The line.", is_required=True),
    Key("ask", Kind("question or `none`", SENDABLE),
        "The query whose answer shows that the line was obeyed, with or without `?`; `none`: "
        "the instrument cannot be asked.",
        is_required=True),
    Key("expect", PATTERN._replace(read=None),
        "Searched in the answer; needed unless `ask` is `none`."),
    Key("takes_back", array(text(64), 100),
        "Commands that this line undoes, if their lines begin with another word, such as `START`."),
    other=SENDABLE,
)  # fmt: skip
ABORT_KIND: Final = Kind(
    "list of [abort](#abort)", {"type": "array", "items": reference("abort")}, _abort
)
VERIFY: Final = Table(
    "verify",
    model.Verify,
    "The query that is sent after the write; a different value is an error.",
    Key("query", QUERY, "The query for the value.", is_required=True),
    Key("parameter", NAMED,
        "The parameter that is compared (default: the swept one, or else the only float)."),
    Key("tolerance", number(0), "The largest allowed difference; needed for a float."),
    Key("pattern", pattern(1), "Its group is the value, if the answer has more text."),
    DECIMAL._replace(sentence="The decimal mark of the answer: `,` for `-1,2`."),
)  # fmt: skip
SWEEP: Final = Table(
    "sweep",
    model.SweepPlan,
    "How the command is ramped.",
    Key("parameter", NAMED, "The number that is ramped.", is_required=True),
    Key("setpoint", QUERY._replace(read=None), "The query for the instrument's set-point.",
        is_required=True),
    Key("pattern", pattern(1), "Its group is the set-point, if the answer has more text."),
    DECIMAL._replace(sentence="The decimal mark of that answer: `,` for `-1,2`."),
    Key("readback", text(64, is_optional=True), "The query command that measures it."),
    Key("interval_ms", integer(10, MAX_TIMEOUT_MS), "The time between two steps."),
    Key("step", POSITIVE, "The resolution (default: from the parameter's format)."),
    Key("abort", ABORT_KIND, "The lines that make it safe (default: the profile's `abort`)."),
)  # fmt: skip
COMMAND: Final = Table(
    "command",
    model.Command,
    "One command or query of the instrument.",
    Key("scpi", Kind("SCPI or a list", {"anyOf": [SENDABLE, array(TEMPLATE, least=1).schema]}),
        "One line, or a list that is sent without interruption; a waveform or image needs none."),
    Key("description", text(), "What it does, for callers."),
    PARAMETERS,
    CHECKS,
    Key("is_query", TRUTH._replace(read=None), "Declares a query without a `?`."),
    Key("returns", Kind("[returns](#returns)", reference("returns")),
        "How the answer of a query is read."),
    Key("precondition", PRECONDITION.inside, (
        "A query whose answer is checked before anything "
        "is sent."
    )),
    Key("verify", VERIFY.link, "The query that is sent after the write."),
    Key("complete", COMPLETION_KIND, "How edged knows that the command is done."),
    Key("errors", ERRORS_KIND, "Replaces the setting of the connection."),
    ACKNOWLEDGE._replace(sentence="Replaces the setting of the connection."),
    Key("timeout_ms", TIMEOUT, "Replaces the setting of the connection."),
    Key("after_write_ms", PAUSE, "Replaces the setting of the connection."),
    Key("is_dangerous", TRUTH, "The command can put energy on the terminals."),
    Key("is_safe", TRUTH, "The command makes the instrument safe, and is never refused."),
    Key("changes", choice(model.Changes),
        "What the command may change that its lines do not name; see "
        "[side effects](#side-effects)."),
    Key("requires_sweep", TRUTH, "Only start_sweep can run the command."),
    Key("essential", TRUTH, "The tool is also in the short list (at most 8 of a profile).",
        field="is_essential"),
    Key("sweep", SWEEP.link, "How the command is ramped."),
    is_merged=True,
)  # fmt: skip
_RESERVED: Final[Mapping[str, str]] = {
    "sequence": "it stands between a profile's key and a sequence's name in tool names",
    model.ABORT_COMMAND: "it is what the profile's own abort list is called",
}  # fmt: skip
_MOST_LINES: Final = 50
_NUMBERS: Final = frozenset({model.ParameterType.FLOAT, model.ParameterType.INT})
_FORMATS: Final[Mapping[model.ParameterType, str]] = {
    model.ParameterType.FLOAT: "efgEG",
    model.ParameterType.INT: "defgEG",
    model.ParameterType.BOOL: "d",
    model.ParameterType.STRING: "q",
    model.ParameterType.ENUM: "qdefgEG",
}  # fmt: skip


def read_command(name: str, key: Node, node: Node) -> model.Command:
    """One command.

    Args:
        name: its key.
        key: where the key stands.
        node: what stands under it.

    Raises:
        Invalid: with the place of whatever breaks a rule.
    """
    check_name(key.mark, name, "The command")
    if name in _RESERVED:
        raise complaint(key.mark, f'No command may be called "{name}": {_RESERVED[name]}.')
    gathering = Gathering()
    fields = COMMAND.begin(node, name, gathering)
    of_parameters = Gathering()
    parameters = read_parameters(fields, of_parameters)
    found: dict[str, Any] = {"parameters": parameters}
    # Within a part, what builds on something broken is not read.
    with gathering.part():
        returns_node = fields.get("returns")
        found["returns"] = (
            None
            if returns_node is None
            else read_returns(returns_node, f'{name}: "returns"', parameters)
        )
    with gathering.part():
        if "returns" in found:
            found["scpi"] = _read_scpi(fields, parameters, found["returns"])
            if isinstance(found["returns"], model.WaveformAnswer):
                found["returns"] = replace(found["returns"], data=found["scpi"][-1])
            found["is_query"] = _read_is_query(fields, found["scpi"], found["returns"])
        elif fields.has("scpi"):
            _read_scpi(fields, parameters, None)
    # What depends on the kinds of parameters would be blamed for one that cannot be read.
    if of_parameters.is_clean:
        with gathering.part():
            found["sweep"] = _read_sweep(fields, parameters)
            found["verify"] = _read_verify(fields, parameters, found["sweep"])
    with gathering.part():
        found |= COMMAND.values(fields, parameters)
    if any(map(is_recalling, found.get("scpi", ()))) and not found.get("is_safe"):
        # Nobody lints an owner's own profile for him.
        found.setdefault("changes", model.Changes.ANY)
    for error in of_parameters.found:
        gathering.add(error)
    gathering.end()
    command = model.Command(name=name, **found)
    _check_marks(fields, command, gathering)
    with gathering.part():
        _check_formats(fields, command)
    gathering.end()
    return command


def is_question(line: str) -> bool:
    """Whether the header of a SCPI line (what comes before the first blank) asks."""
    return "?" in line.split(maxsplit=1)[0] if line.split() else False


def _read_scpi(
    fields: Fields, parameters: Mapping[str, model.Parameter], returns: model.Returns | None
) -> tuple[str, ...]:
    node = fields.get("scpi")
    owner = fields.name_of("scpi")
    block = returns if isinstance(returns, model.WaveformAnswer | model.ImageAnswer) else None
    if node is None:
        if block is None or not block.data:
            raise complaint(fields.mark, f'{fields.owner} has no "scpi".')
        return (block.data,)
    nodes = list_of(node, owner, most=_MOST_LINES) if isinstance(node, ListNode) else (node,)
    lines = each_of(nodes, lambda line: template_of(line, owner, parameters))
    if not lines:
        raise complaint(node.mark, f"{owner} is empty.")
    if block is not None and lines != (block.data or lines[-1],):
        message = f'{owner} of a waveform or image is its "data" query.'
        raise complaint(node.mark, message, 'Preparations belong into "setup".')
    for line, place in zip(lines[:-1], nodes, strict=False):
        if is_question(line):
            message = f'{owner}: "{line}" asks before the last line; its answer would be lost.'
            raise complaint(place.mark, message)
    return lines


def _read_is_query(fields: Fields, scpi: tuple[str, ...], returns: model.Returns | None) -> bool:
    """What is said, else what the last line looks like.

    A question that is not marked as one would leave its answer in the instrument, where the next
    question finds it.
    """
    asks = is_question(scpi[-1]) or isinstance(returns, model.WaveformAnswer | model.ImageAnswer)
    said = fields.truth("is_query", default=asks)
    if asks and not said:
        message = f'{fields.owner} says is_query: false, but "{scpi[-1]}" is a query.'
        raise complaint(fields.mark_of("is_query"), message)
    if returns is not None and not said:
        message = f'{fields.owner} has "returns" but is not a query.'
        raise complaint(fields.mark_of("returns"), message, "Say is_query: true if it answers.")
    return said


def _read_verify(
    fields: Fields, parameters: Mapping[str, model.Parameter], sweep: model.SweepPlan | None
) -> model.Verify | None:
    node = fields.get("verify")
    if node is None:
        return None
    found = VERIFY.read_values(node, f"{fields.owner}.verify", parameters)
    inner = Fields(map_of(node, f"{fields.owner}.verify"), f"{fields.owner}.verify")
    parameter = _verified_parameter(inner, parameters, sweep)
    is_float = parameters[parameter].type is model.ParameterType.FLOAT
    if "tolerance" not in found and is_float:
        message = f'{inner.owner} has no "tolerance" for {parameter}.'
        raise complaint(inner.mark, message, "Give at least one display step, in its unit.")
    return model.Verify(**found, parameter=parameter)


def _verified_parameter(
    fields: Fields, parameters: Mapping[str, model.Parameter], sweep: model.SweepPlan | None
) -> str:
    """The one that is named, else the swept one, else the only float."""
    if fields.has("parameter"):
        return _named_parameter(fields, parameters)
    if sweep is not None:
        return sweep.parameter
    floats = [name for name, p in parameters.items() if p.type is model.ParameterType.FLOAT]
    if len(floats) != 1:
        count = "no float parameter" if not floats else f"{len(floats)} float parameters"
        message = f'{fields.owner}: the command has {count}, so "parameter" must say which one.'
        raise complaint(fields.mark, message)
    return floats[0]


def _named_parameter(fields: Fields, parameters: Mapping[str, model.Parameter]) -> str:
    node = fields.need("parameter")
    name = text_of(node, fields.name_of("parameter"), most=64)
    if name not in parameters:
        message = f'{fields.owner}: "{name}" is not a parameter of the command.'
        raise complaint(node.mark, message, nearest(name, parameters))
    return name


def _read_sweep(
    fields: Fields, parameters: Mapping[str, model.Parameter]
) -> model.SweepPlan | None:
    node = fields.get("sweep")
    if node is None:
        return None
    inner = SWEEP.fields(node, f"{fields.owner}.sweep")
    name = _named_parameter(inner, parameters)
    if parameters[name].type not in _NUMBERS:
        message = f"{inner.owner}: {name} is a {parameters[name].type}; only a number is swept."
        raise complaint(inner.mark_of("parameter"), message)
    setpoint = inner.need("setpoint")
    query = query_of(inner, "setpoint", setpoint, parameters)
    for placeholder in placeholders(query):
        if placeholder.name == name:
            message = f'{inner.owner}: "setpoint" asks for {name} and cannot hold it.'
            raise complaint(setpoint.mark, message)
    step = inner.number("step")
    if step is not None and step <= 0:
        raise complaint(inner.node.entries["step"].mark, f'{inner.owner}: "step" must be over 0.')
    return model.SweepPlan(
        parameter=name,
        setpoint=query,
        step=step,
        **SWEEP.values(inner, parameters),
    )


def _check_marks(fields: Fields, command: model.Command, gathering: Gathering) -> None:
    name, is_safe, is_query = command.name, command.is_safe, command.is_query
    is_ramped, changes = command.requires_sweep, command.changes
    for is_wrong, key, message in (
        (is_safe and command.is_dangerous, "is_safe", "cannot be both safe and dangerous."),
        (is_ramped and command.sweep is None, "requires_sweep",
         'has requires_sweep but no "sweep".'),
        (is_ramped and is_safe, "requires_sweep",
         "is safe, so it must be usable at once, without a sweep."),
        (command.precondition is not None and is_safe, "precondition",
         "is safe, so it must go out without asking first."),
        (is_safe and changes in (model.Changes.OUTPUTS, model.Changes.ANY), "changes",
         f"cannot be both safe and changes: {changes}."),
        (is_query and command.sweep is not None, "sweep", "is a query; nothing is swept."),
        (is_query and command.verify is not None, "verify", "is a query; nothing is set."),
    ):  # fmt: skip
        if is_wrong:
            gathering.add(complaint(fields.mark_of(key), f"{name} {message}"))


def templates_of(command: model.Command) -> tuple[str, ...]:
    """Every template of a command that its own parameters fill."""
    found = list(command.scpi)
    match command.returns:
        case model.WaveformAnswer(setup=setup, preamble_queries=preamble, data=data):
            found += [*setup, data, *preamble]
        case model.ImageAnswer(data=data):
            found.append(data)
        case _:
            pass
    if command.verify is not None:
        found.append(command.verify.query)
    if command.complete is not None and command.complete.query:
        found.append(command.complete.query)
    if command.sweep is not None:
        found.append(command.sweep.setpoint)
        for step in command.sweep.abort:
            found += [step.send, step.ask] if step.ask else [step.send]
    return tuple(dict.fromkeys(found))


def _check_formats(fields: Fields, command: model.Command) -> None:
    """A number format that the parameter's kind cannot take would fail at the first call."""
    for template in templates_of(command):
        for placeholder in placeholders(template):
            parameter = command.parameters[placeholder.name]
            if placeholder.format and placeholder.format[-1] not in _FORMATS[parameter.type]:
                message = (
                    f"{command.name}: {{{placeholder.name}:{placeholder.format}}} does not fit "
                    f"{placeholder.name}, which is a {parameter.type}."
                )
                raise complaint(fields.mark_of("scpi"), message)
