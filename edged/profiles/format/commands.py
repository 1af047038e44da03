"""One entry of ``commands``: nodes → Command, with every rule that concerns the command alone.

What a command says about others (a sweep's readback, a setting's ``set``) is checked by
``profile.py`` when all are known.

``abort`` of a profile and of a sweep: nodes → AbortStep.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from edged.profiles.format.connection import (
    MAX_PAUSE_MS,
    MAX_TIMEOUT_MS,
    check_query,
    read_acknowledge,
    read_completion,
    read_errors,
    read_precondition,
)
from edged.profiles.format.fields import (
    Fields,
    check_name,
    complaint,
    list_of,
    nearest,
    number_of,
    pattern_of,
    template_of,
    text_of,
)
from edged.profiles.format.parameters import read_checks, read_parameters
from edged.profiles.format.returns import read_returns
from edged.profiles.model import (
    ABORT_COMMAND,
    AbortStep,
    Command,
    ImageAnswer,
    Parameter,
    ParameterType,
    Returns,
    SweepPlan,
    Verify,
    WaveformAnswer,
)
from edged.profiles.template import placeholders
from edged.yaml.tree import ListNode, MapNode, Node, ScalarNode

__all__ = ["ABORT_KEYS", "UNASKABLE", "is_question", "read_abort", "read_command", "templates_of"]

ABORT_KEYS: Final = ("send", "ask", "expect")
UNASKABLE: Final = "none"
"""What ``ask`` says where the instrument has no answer for what the line did."""


def read_abort(fields: Fields, names: Collection[str]) -> tuple[AbortStep, ...]:
    """The entries, each a line or ``{send, ask, expect}``.

    Args:
        names: the parameters that may stand in the templates.

    Raises:
        Invalid: with the place of whatever breaks a rule.
    """
    owner = fields.name_of("abort")
    return tuple(_read_step(node, owner, names) for node in fields.items("abort", most=100))


def _read_step(node: Node, owner: str, names: Collection[str]) -> AbortStep:
    if not isinstance(node, MapNode):
        return AbortStep(send=template_of(node, owner, names))
    fields = Fields.of(node, owner, ABORT_KEYS)
    send = template_of(fields.need("send"), fields.name_of("send"), names)
    ask = fields.need("ask")
    if isinstance(ask, ScalarNode) and ask.text == UNASKABLE:
        if fields.has("expect"):
            message = f'{owner}: "expect" has no question whose answer it could fit.'
            raise complaint(fields.mark_of("expect"), message)
        return AbortStep(send=send, is_unaskable=True)
    question = template_of(ask, fields.name_of("ask"), names)
    return AbortStep(
        send=send,
        ask=check_query(ask, question, fields),
        expect=pattern_of(fields.need("expect"), fields.name_of("expect")),
    )


COMMAND_KEYS: Final = frozenset(
    {
        "scpi", "description", "parameters", "checks", "is_query", "returns", "precondition",
        "verify", "complete", "errors", "acknowledge", "timeout_ms", "after_write_ms",
        "is_dangerous", "is_safe",        "requires_sweep", "essential", "sweep",
    }
)  # fmt: skip
SWEEP_KEYS: Final = frozenset(
    {"parameter", "setpoint", "pattern", "readback", "interval_ms", "step", "abort"}
)
VERIFY_KEYS: Final = ("query", "parameter", "tolerance", "pattern")
_RESERVED: Final[Mapping[str, str]] = {
    "sequence": "it stands between a profile's key and a sequence's name in tool names",
    ABORT_COMMAND: "it is what the profile's own abort list is called",
}
_MOST_LINES: Final = 50
_NUMBERS: Final = frozenset({ParameterType.FLOAT, ParameterType.INT})
_FORMATS: Final[Mapping[ParameterType, str]] = {
    ParameterType.FLOAT: "efgEG",
    ParameterType.INT: "defgEG",
    ParameterType.BOOL: "d",
    ParameterType.STRING: "q",
    ParameterType.ENUM: "qdefgEG",
}


def read_command(name: str, key: Node, node: Node) -> Command:
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
    fields = Fields.of(node, name, COMMAND_KEYS)
    parameters = read_parameters(fields)
    returns_node = fields.get("returns")
    returns = (
        None
        if returns_node is None
        else read_returns(returns_node, f'{name}: "returns"', parameters)
    )
    scpi = _read_scpi(fields, parameters, returns)
    is_query = _read_is_query(fields, scpi, returns)
    sweep = _read_sweep(fields, parameters)
    command = Command(
        name=name,
        scpi=scpi,
        description=fields.text("description"),
        parameters=parameters,
        checks=read_checks(fields, parameters),
        is_query=is_query,
        returns=returns,
        precondition=read_precondition(fields.get("precondition"), f"{name}.precondition"),
        verify=_read_verify(fields, parameters, sweep),
        complete=read_completion(fields.get("complete"), f"{name}.complete", frozenset(parameters)),
        errors=read_errors(fields.get("errors"), f"{name}.errors"),
        acknowledge=read_acknowledge(fields),
        timeout_ms=fields.whole("timeout_ms", 1, MAX_TIMEOUT_MS),
        after_write_ms=fields.whole("after_write_ms", 0, MAX_PAUSE_MS),
        is_dangerous=fields.truth("is_dangerous"),
        is_safe=fields.truth("is_safe"),
        requires_sweep=fields.truth("requires_sweep"),
        is_essential=fields.truth("essential"),
        sweep=sweep,
    )
    _check_marks(fields, command)
    _check_formats(fields, command)
    return command


def is_question(line: str) -> bool:
    """Whether the header of a SCPI line (what comes before the first blank) asks."""
    return "?" in line.split(maxsplit=1)[0] if line.split() else False


def _read_scpi(
    fields: Fields, parameters: Mapping[str, Parameter], returns: Returns | None
) -> tuple[str, ...]:
    node = fields.get("scpi")
    owner = fields.name_of("scpi")
    block = returns if isinstance(returns, WaveformAnswer | ImageAnswer) else None
    if node is None:
        if block is None:
            raise complaint(fields.mark, f'{fields.owner} has no "scpi".')
        return (block.data,)
    nodes = list_of(node, owner, most=_MOST_LINES) if isinstance(node, ListNode) else (node,)
    lines = tuple(template_of(line, owner, parameters) for line in nodes)
    if not lines:
        raise complaint(node.mark, f"{owner} is empty.")
    if block is not None and lines != (block.data,):
        message = f'{owner} of a waveform or image is its "data" query.'
        raise complaint(node.mark, message, 'Leave it out; preparations belong into "setup".')
    for line, place in zip(lines[:-1], nodes, strict=False):
        if is_question(line):
            message = f'{owner}: "{line}" asks before the last line; its answer would be lost.'
            raise complaint(place.mark, message)
    return lines


def _read_is_query(fields: Fields, scpi: tuple[str, ...], returns: Returns | None) -> bool:
    """What is said, else what the last line looks like.

    A question that is not marked as one would leave its answer in the instrument, where the next
    question finds it.
    """
    asks = is_question(scpi[-1]) or isinstance(returns, WaveformAnswer | ImageAnswer)
    said = fields.truth("is_query", default=asks)
    if asks and not said:
        message = f'{fields.owner} says is_query: false, but "{scpi[-1]}" is a query.'
        raise complaint(fields.mark_of("is_query"), message)
    if returns is not None and not said:
        message = f'{fields.owner} has "returns" but is no query.'
        raise complaint(fields.mark_of("returns"), message, "Say is_query: true if it answers.")
    return said


def _read_verify(
    fields: Fields, parameters: Mapping[str, Parameter], sweep: SweepPlan | None
) -> Verify | None:
    node = fields.get("verify")
    if node is None:
        return None
    inner = Fields.of(node, f"{fields.owner}.verify", VERIFY_KEYS)
    query = inner.need("query")
    template = check_query(query, template_of(query, inner.name_of("query"), parameters), inner)
    parameter = _verified_parameter(inner, parameters, sweep)
    is_float = parameters[parameter].type is ParameterType.FLOAT
    tolerance = inner.number("tolerance", 0)
    if tolerance is None and is_float:
        message = f'{inner.owner} has no "tolerance" for {parameter}.'
        raise complaint(inner.mark, message, "Give at least one display step, in its unit.")
    return Verify(
        query=template,
        tolerance=tolerance or 0,
        parameter=parameter,
        pattern=_read_pattern(inner),
    )


def _read_pattern(fields: Fields) -> str:
    """``pattern``: where in an answer that tells more the value stands; its one group."""
    node = fields.get("pattern")
    return "" if node is None else pattern_of(node, fields.name_of("pattern"), groups=1)


def _verified_parameter(
    fields: Fields, parameters: Mapping[str, Parameter], sweep: SweepPlan | None
) -> str:
    """The one that is named, else the swept one, else the only float."""
    if fields.has("parameter"):
        return _named_parameter(fields, parameters)
    if sweep is not None:
        return sweep.parameter
    floats = [name for name, p in parameters.items() if p.type is ParameterType.FLOAT]
    if len(floats) != 1:
        count = "no float parameter" if not floats else f"{len(floats)} float parameters"
        message = f'{fields.owner}: the command has {count}, so "parameter" must say which one.'
        raise complaint(fields.mark, message)
    return floats[0]


def _named_parameter(fields: Fields, parameters: Mapping[str, Parameter]) -> str:
    node = fields.need("parameter")
    name = text_of(node, fields.name_of("parameter"), most=64)
    if name not in parameters:
        message = f'{fields.owner}: "{name}" is no parameter of the command.'
        raise complaint(node.mark, message, nearest(name, parameters))
    return name


def _read_sweep(fields: Fields, parameters: Mapping[str, Parameter]) -> SweepPlan | None:
    node = fields.get("sweep")
    if node is None:
        return None
    inner = Fields.of(node, f"{fields.owner}.sweep", SWEEP_KEYS)
    name = _named_parameter(inner, parameters)
    if parameters[name].type not in _NUMBERS:
        message = f"{inner.owner}: {name} is a {parameters[name].type}; only a number is swept."
        raise complaint(inner.mark_of("parameter"), message)
    setpoint = inner.need("setpoint")
    query = template_of(setpoint, inner.name_of("setpoint"), parameters)
    for placeholder in placeholders(query):
        if placeholder.name == name:
            message = f'{inner.owner}: "setpoint" asks for {name} and cannot hold it.'
            raise complaint(setpoint.mark, message)
    step = inner.get("step")
    step_value = None if step is None else number_of(step, inner.name_of("step"))
    if step is not None and step_value is not None and step_value <= 0:
        raise complaint(step.mark, f'{inner.owner}: "step" must be over 0.')
    return SweepPlan(
        parameter=name,
        setpoint=check_query(setpoint, query, inner),
        readback=inner.text("readback", most=64) or None,
        interval_ms=inner.whole("interval_ms", 10, MAX_TIMEOUT_MS) or 100,
        step=step_value,
        pattern=_read_pattern(inner),
        abort=read_abort(inner, parameters),
    )


def _check_marks(fields: Fields, command: Command) -> None:
    if command.is_safe and command.is_dangerous:
        message = f"{command.name} cannot be both safe and dangerous."
        raise complaint(fields.mark_of("is_safe"), message)
    if command.requires_sweep and command.sweep is None:
        message = f'{command.name} has requires_sweep but no "sweep".'
        raise complaint(fields.mark_of("requires_sweep"), message)
    if command.requires_sweep and command.is_safe:
        message = f"{command.name} is safe, so it must be usable at once, without a sweep."
        raise complaint(fields.mark_of("requires_sweep"), message)
    if command.precondition is not None and command.is_safe:
        message = f"{command.name} is safe, so it must go out without asking first."
        raise complaint(fields.mark_of("precondition"), message)
    if command.is_query and command.sweep is not None:
        raise complaint(fields.mark_of("sweep"), f"{command.name} is a query; nothing is swept.")
    if command.is_query and command.verify is not None:
        raise complaint(fields.mark_of("verify"), f"{command.name} is a query; nothing is set.")


def templates_of(command: Command) -> tuple[str, ...]:
    """Every template of a command that its own parameters fill."""
    found = list(command.scpi)
    match command.returns:
        case WaveformAnswer(setup=setup, preamble_queries=preamble, data=data):
            found += [*setup, data, *preamble]
        case ImageAnswer(data=data):
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


def _check_formats(fields: Fields, command: Command) -> None:
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
