"""The ``parameters`` of a command or sequence (ParameterConfig): nodes → Parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from edged.profiles.format.kinds import (
    EXPRESSION,
    SCALAR_SCHEMA,
    by_name,
    check_name,
)
from edged.profiles.model import Bound, Parameter, ParameterType
from edged.schema.fields import (
    Fields,
    Gathering,
    complaint,
    map_of,
    nearest,
    number_of,
    scalar_of,
    text_of,
)
from edged.schema.tables import (
    POSITIVE,
    TEXT_SCHEMA,
    Key,
    Kind,
    Table,
    array,
    choice,
    mapping,
    reference,
    text,
)
from edged.yaml.tree import MapNode, Mark, Node, Scalar, ScalarNode

MOST_PARAMETERS: Final = 50
RESERVED: Final[Mapping[str, str]] = {
    "dry_run": "every tool takes it, to be told what a call would send",
    "lease": "every tool takes it, for what somebody has reserved",
    "lease_id": "the record does not keep what it holds",
}
_NUMBERS: Final = frozenset({ParameterType.FLOAT, ParameterType.INT})
_BOOL_LABELS: Final = ("true", "false")
_NUMBER: Final = Kind("number", {"type": "number"})
_MIN: Final = Key("min", _NUMBER, "The least value; of a float or int.")
_MAX: Final = Key("max", _NUMBER, "The greatest value; of a float or int.")
_OPTIONS: Final = Key(
    "options",
    Kind("list of text", {"type": "array", "items": TEXT_SCHEMA}),
    "The choices of an enum.",
)
BOUND: Final = Table("bound", Bound, "An additional bound, from `by`.", _MIN, _MAX, _OPTIONS)
PARAMETER: Final = Table(
    "parameter",
    Parameter,
    "One argument of a command or sequence; `dry_run` and `lease` are reserved names.",
    Key("type", choice(ParameterType), "The type of the argument.", is_required=True),
    _OPTIONS,
    _MIN,
    _MAX,
    Key("default", Kind("value", SCALAR_SCHEMA),
        "The value that is used if the caller gives none."),
    Key("unit", text(32), "The unit of the value."),
    Key("map", mapping("label → wire value", SCALAR_SCHEMA),
        "The text that is sent for each label: for an enum, or for both values of a bool."),
    Key("description", text(), "What the parameter is, for callers."),
    Key("step", POSITIVE,
        "Resolution, in the parameter's unit."),
    Key("by", mapping("name → value → [bound](#bound)", mapping("", reference("bound")).schema),
        "Another parameter → its value → the additional bound for that value."),
    is_merged=True,
)  # fmt: skip
PARAMETERS: Final = Key(
    "parameters",
    by_name("name → [parameter](#parameter)", reference("parameter")),
    "The arguments.",
)
CHECKS: Final = Key(
    "checks", array(EXPRESSION, 20), "Expressions over the parameters that must hold."
)


def _check_key(key: ScalarNode, owner: str) -> str:
    return check_name(key.mark, key.text, f"{owner}: the parameter")


def read_parameters(
    fields: Fields,
    gathering: Gathering,
    check_key: Callable[[ScalarNode, str], str] = _check_key,
) -> dict[str, Parameter]:
    """The parameters under ``fields``'s key ``parameters``, in the file's order.

    One that cannot be read is an int without bounds, so that what names it can be read; what is
    wrong with it is in ``gathering``.
    """
    node: MapNode | None = None
    with gathering.part():
        node = fields.mapping("parameters", most=MOST_PARAMETERS)
    if node is None:
        return {}
    values: dict[str, dict[str, Any]] = {}
    for name, entry in node.entries.items():
        with gathering.part():
            check_key(node.keys[name], fields.owner)
            if name in RESERVED:
                raise complaint(
                    node.keys[name].mark,
                    f'{fields.owner}: no parameter may be called "{name}": {RESERVED[name]}.',
                )
            values[name] = _read_parameter(name, entry, f"{fields.owner}.{name}")
    found = {
        name: Parameter(**values[name])
        if name in values
        else Parameter(name=name, type=ParameterType.INT)
        for name in node.entries
    }
    for name, entry in node.entries.items():
        if len(values) == len(found) and isinstance(entry, MapNode) and "by" in entry.entries:
            with gathering.part():
                by = _read_by(found[name], entry.entries["by"], found, f"{fields.owner}.{name}")
                # dataclasses.replace costs three times this at start-up.
                found[name] = Parameter(**values[name], by=by)
    return found


def _read_parameter(name: str, node: Node, owner: str) -> dict[str, Any]:
    """The fields of a Parameter, but for ``by``, which names the others."""
    gathering = Gathering()
    fields = PARAMETER.begin(node, owner, gathering)
    found: dict[str, Any] = {}
    with gathering.part():
        found = PARAMETER.values(fields)
    if not found:
        gathering.end()
    type_ = found["type"]
    with gathering.part():
        wire = _read_map(fields, type_)
        options = _read_options(fields, type_, wire)
        if wire and type_ is not ParameterType.BOOL:
            type_ = ParameterType.ENUM
        if type_ is ParameterType.ENUM and not options:
            raise complaint(fields.mark, f'{owner} is an enum without "options".')
        found |= {"name": name, "type": type_, "options": options, "map": wire}
    with gathering.part():
        bound = _read_bound(fields, type_)
        found |= {"min": bound.min, "max": bound.max}
    with gathering.part():
        found["step"] = _read_step(fields, type_)
    gathering.end()
    default = fields.get("default")
    if default is not None:
        parameter = Parameter(**found)
        found["default"] = read_value(default, parameter, fields.name_of("default"))
    return found


def _read_map(fields: Fields, type_: ParameterType) -> dict[str, str | int | float]:
    """``map``: label → what goes onto the wire."""
    node = fields.mapping("map")
    if node is None:
        return {}
    owner = fields.name_of("map")
    found: dict[str, str | int | float] = {}
    for label, value in node.entries.items():
        _check_label(node.keys[label], owner)
        wire = scalar_of(value, f"{owner}: {label}")
        if isinstance(wire, bool | str):
            wire = text_of(value, f"{owner}: {label}", most=200)
        found[label] = wire
    if not found:
        raise complaint(node.mark, f"{owner} is empty.")
    if type_ is ParameterType.BOOL and set(found) != set(_BOOL_LABELS):
        raise complaint(node.mark, f"{owner} of a bool must have the keys true and false.")
    return found


def _check_label(key: ScalarNode, owner: str) -> str:
    if key.text == "" or not key.text.isprintable() or len(key.text) > 200:
        raise complaint(key.mark, f"{owner} has a label that is empty, too long or unprintable.")
    return key.text


def _read_options(
    fields: Fields, type_: ParameterType, wire: Mapping[str, str | int | float]
) -> tuple[str, ...]:
    nodes = fields.items("options")
    owner = fields.name_of("options")
    if nodes and type_ is not ParameterType.ENUM and not wire:
        raise complaint(fields.mark_of("options"), f"{owner} belongs to an enum, not {type_}.")
    options: list[str] = []
    for node in nodes:
        option = text_of(node, owner, most=200)
        if option in options:
            raise complaint(node.mark, f'{owner} has "{option}" twice.')
        if option == "":
            raise complaint(node.mark, f"{owner} has an empty option.")
        if wire and option not in wire:
            raise complaint(node.mark, f'{owner} has "{option}", which "map" has not.')
        options.append(option)
    if type_ is ParameterType.BOOL:
        return ()
    if wire and options and len(options) < len(wire):
        missing = next(label for label in wire if label not in options)
        raise complaint(fields.mark_of("map"), f'{owner} has no "{missing}", which "map" has.')
    return tuple(options) or tuple(wire)


def _read_bound(fields: Fields, type_: ParameterType) -> Bound:
    """``min`` and ``max``, for numbers only."""
    if type_ not in _NUMBERS:
        for key in ("min", "max"):
            if fields.has(key):
                message = f'{fields.owner}: "{key}" belongs to a float or int, not {type_}.'
                raise complaint(fields.mark_of(key), message)
        return Bound()
    low, high = _number(fields, "min", type_), _number(fields, "max", type_)
    if low is not None and high is not None and low > high:
        message = f'{fields.owner}: "min" {low} is over "max" {high}.'
        raise complaint(fields.mark_of("min"), message)
    return Bound(min=low, max=high)


def _number(fields: Fields, key: str, type_: ParameterType) -> float | int | None:
    node = fields.get(key)
    if node is None:
        return None
    value = number_of(node, fields.name_of(key))
    if type_ is ParameterType.INT:
        if value != int(value):
            message = f"{fields.name_of(key)} of an int must be a whole number, not {value}."
            raise complaint(node.mark, message)
        return int(value)
    return value


def _read_step(fields: Fields, type_: ParameterType) -> float | None:
    if not fields.has("step"):
        return None
    if type_ not in _NUMBERS:
        message = f'{fields.owner}: "step" belongs to a float or int, not {type_}.'
        raise complaint(fields.mark_of("step"), message)
    step = _number(fields, "step", type_)
    if step is not None and step <= 0:
        raise complaint(fields.mark_of("step"), f'{fields.owner}: "step" must be over 0.')
    return step


def read_value(node: Node, parameter: Parameter, owner: str) -> Scalar:
    """A value that ``parameter`` itself would take (``by`` and ``checks`` aside).

    Raises:
        Invalid: another kind, out of its bounds, not one of its options.
    """
    if parameter.type is ParameterType.ENUM:
        text = text_of(node, owner, most=200)
        if text not in parameter.options:
            message = f'{owner}: "{text}" is not one of the options of {parameter.name}.'
            raise complaint(node.mark, message, nearest(text, parameter.options))
        return text
    value = scalar_of(node, owner)
    match parameter.type:
        case ParameterType.BOOL:
            if not isinstance(value, bool):
                raise complaint(node.mark, f'{owner} must be true or false, not "{value}".')
        case ParameterType.STRING:
            return text_of(node, owner, most=1_000)
        case _:
            return _read_number(node, parameter, owner)
    return value


def _read_number(node: Node, parameter: Parameter, owner: str) -> float | int:
    value = number_of(node, owner)
    if parameter.type is ParameterType.INT:
        if value != int(value):
            raise complaint(node.mark, f"{owner} must be a whole number, not {value}.")
        value = int(value)
    if parameter.min is not None and value < parameter.min:
        raise complaint(node.mark, f"{owner} is {value}, under the minimum {parameter.min}.")
    if parameter.max is not None and value > parameter.max:
        raise complaint(node.mark, f"{owner} is {value}, over the maximum {parameter.max}.")
    return value


def _read_by(
    parameter: Parameter, node: Node, parameters: Mapping[str, Parameter], owner: str
) -> dict[str, dict[Scalar, Bound]]:
    """``by: {other: {value: {min, max, options}}}``."""
    owner = f'{owner}: "by"'
    found: dict[str, dict[Scalar, Bound]] = {}
    others = map_of(node, owner)
    for name, cases in others.entries.items():
        mark = others.keys[name].mark
        other = parameters.get(name)
        if other is None or name == parameter.name:
            known = [key for key in parameters if key != parameter.name]
            message = f'{owner} names "{name}", which is not another parameter.'
            raise complaint(mark, message, nearest(name, known))
        if other.type in (ParameterType.FLOAT, ParameterType.STRING):
            message = f"{owner}: {name} is a {other.type}; limits go by an int, enum or bool."
            raise complaint(mark, message)
        found[name] = _read_cases(parameter, other, map_of(cases, f"{owner}: {name}"), owner)
    return found


def _read_cases(
    parameter: Parameter, other: Parameter, cases: MapNode, owner: str
) -> dict[Scalar, Bound]:
    found: dict[Scalar, Bound] = {}
    for word, case in cases.entries.items():
        value = read_value(cases.keys[word], other, f"{owner}: {other.name}")
        found[value] = _read_case(parameter, BOUND.fields(case, f"{owner}: {word}"))
    return found


def _read_case(parameter: Parameter, fields: Fields) -> Bound:
    """One bound of ``by``; also one limit of the bench file."""
    bound = _read_bound(fields, parameter.type)
    options = tuple(
        str(read_value(node, parameter, fields.name_of("options")))
        for node in fields.items("options")
    )
    if options and parameter.type is not ParameterType.ENUM:
        message = f"{fields.name_of('options')} belongs to an enum, not {parameter.type}."
        raise complaint(fields.mark_of("options"), message)
    if not options and bound.min is None and bound.max is None:
        raise complaint(fields.mark, f"{fields.owner} bounds nothing.")
    _check_reachable(parameter, bound, fields.mark, fields.owner)
    return Bound(min=bound.min, max=bound.max, options=options or None)


def _check_reachable(parameter: Parameter, bound: Bound, mark: Mark, owner: str) -> None:
    """A bound that leaves no value at all is a slip of the pen, not a limit."""
    lows = [low for low in (parameter.min, bound.min) if low is not None]
    highs = [high for high in (parameter.max, bound.max) if high is not None]
    if lows and highs and max(lows) > min(highs):
        raise complaint(mark, f"{owner} leaves no value of {parameter.name}.")
