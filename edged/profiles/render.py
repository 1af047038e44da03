"""Template and values → the SCPI lines that go out.

Whatever a caller put into a value, a line stays one message: line ends and other control
characters are refused, and so is a ``;`` or a quote that would stand outside of quotes. Numbers are
written within their bounds (``numbers.py``); a label goes out as its wire value.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, NoReturn, assert_never

from edged.errors import Invalid
from edged.profiles.bounds import effective_bound
from edged.profiles.model import Bound, Command, Parameter, ParameterType, Scalar
from edged.profiles.numbers import format_step, number_text, shortest_text
from edged.profiles.template import (
    Hole,
    Optional,
    Placeholder,
    Text,
    optional_names,
    parse_template,
    placeholders,
)

__all__ = [
    "Placeholder",
    "optional_names",
    "parse_template",
    "placeholders",
    "render",
    "render_lines",
    "resolution",
    "wire_text",
    "wire_value",
]

_NO_BOUND: Final = Bound()
_MOST_BITS: Final = 1_023
"""An integer with more has no float, and no instrument that takes it."""

_QUOTES: Final = ('"', "'")


def render_lines(command: Command, values: Mapping[str, Scalar]) -> tuple[str, ...]:
    """The lines of a command's job.

    Args:
        command: one of a profile's.
        values: as ``ParameterCheck.validate`` returns them.

    Raises:
        Invalid: as ``render``.
    """
    return tuple([render(line, command.parameters, values) for line in command.scpi])


def render(template: str, parameters: Mapping[str, Parameter], values: Mapping[str, Scalar]) -> str:
    """One line.

    Args:
        template: SCPI with placeholders.
        parameters: where types, maps and bounds come from; a placeholder that is none of them (a
            loop's or a saved name) is written by the kind of its value.
        values: labels, not wire values; a missing one is its parameter's default.

    Raises:
        Invalid: a placeholder without a value outside of an optional part, a string that cannot
            stand where it would, a number that the format cannot write within its bounds.
    """
    pieces: list[str] = []
    for part in parse_template(template):
        match part:
            case Text(text):
                pieces.append(text)
            case Hole():
                pieces.append(_filled(part, template, parameters, values))
            case Optional(parts):
                holes = [piece for piece in parts if isinstance(piece, Hole)]
                if all(_value(hole.name, parameters, values) is not None for hole in holes):
                    pieces += [
                        piece.text
                        if isinstance(piece, Text)
                        else _filled(piece, template, parameters, values)
                        for piece in parts
                    ]
            case _:
                assert_never(part)
    return "".join(pieces)


def resolution(command: Command, parameter_name: str) -> float | None:
    """The smallest change of a parameter that reaches the instrument, in the parameter's unit.

    Returns:
        The sweep's or the parameter's ``step``, else the coarsest number format that it is written
        with, else 1 for an integer; ``None`` when nothing limits it.
    """
    parameter = command.parameters[parameter_name]
    sweep = command.sweep
    if sweep is not None and sweep.parameter == parameter_name and sweep.step is not None:
        return sweep.step
    if parameter.step is not None:
        return parameter.step
    steps = [
        step
        for template in command.scpi
        for placeholder in placeholders(template)
        if placeholder.name == parameter_name
        and (step := format_step(placeholder.format)) is not None
    ]
    if parameter.type is ParameterType.INT:
        steps.append(1.0)
    return max(steps, default=None)


def wire_text(value: Scalar, parameter: Parameter | None) -> str:
    """What a value is on the wire where the template gives no format; unchecked, for comparing."""
    wire = wire_value(value, parameter)
    if isinstance(wire, bool):
        return "1" if wire else "0"
    return wire if isinstance(wire, str) else shortest_text(wire)


def _value(
    name: str, parameters: Mapping[str, Parameter], values: Mapping[str, Scalar]
) -> Scalar | None:
    value = values.get(name)
    if value is None and name in parameters:
        return parameters[name].default
    return value


def wire_value(value: Scalar, parameter: Parameter | None) -> Scalar:
    """What goes onto the wire for a value: a label's own value where there is a ``map``."""
    if parameter is None or not parameter.map:
        return value
    label = str(value).lower() if isinstance(value, bool) else str(value)
    return parameter.map.get(label, value)


def _filled(
    hole: Hole, template: str, parameters: Mapping[str, Parameter], values: Mapping[str, Scalar]
) -> str:
    value = _value(hole.name, parameters, values)
    if value is None:
        raise Invalid(
            f'{hole.name} is missing: "{template}" cannot be written without it.',
            data={"parameter": hole.name, "template": template},
        )
    parameter = parameters.get(hole.name)
    wire = wire_value(value, parameter)
    if isinstance(wire, bool):
        wire = int(wire)
    if isinstance(wire, str):
        if hole.format == "q":
            return _quoted(wire, hole)
        # A wire value is the profile's own text, and may be '"VOLT:DC"'; a caller's may not.
        return _bare(wire, hole) if wire == value else _mapped(wire, hole)
    if isinstance(wire, float) and not math.isfinite(wire):
        _refuse(hole, repr(wire), "is not a finite number")
    if isinstance(wire, int) and wire.bit_length() > _MOST_BITS:
        _refuse(hole, f"of {wire.bit_length()} bits", "is too large a number")
    if hole.format == "q":
        return f'"{shortest_text(wire)}"'
    bound = _NO_BOUND
    if not hole.format:
        # The shortest text is exact, so no bound has to be kept by the way it is written.
        if parameter is not None and not parameter.map and parameter.type is ParameterType.INT:
            wire = int(wire) if isinstance(wire, float) and wire.is_integer() else wire
        return shortest_text(wire)
    if parameter is not None and not parameter.map:
        others = {name: _value(name, parameters, values) for name in parameter.by}
        bound = effective_bound(
            parameter, {name: other for name, other in others.items() if other is not None}
        )
        if parameter.type is ParameterType.INT and isinstance(wire, float) and wire.is_integer():
            wire = int(wire)
    return number_text(wire, hole.format, bound, name=hole.name)


def _bare(text: str, hole: Hole) -> str:
    if hole.format:
        _refuse(hole, text, f"is no number, as the format {hole.format} needs")
    _refuse_control(text, hole)
    for mark in (";", *_QUOTES):
        if mark in text:
            _refuse(hole, text, f"holds {mark} outside of quotes")
    # "#19" announces a block of nine bytes: the instrument would swallow the next commands.
    block = text.find("#")
    if block >= 0 and text[block + 1 : block + 2].isdigit():
        _refuse(hole, text, "holds the head of a binary block")
    return text


def _mapped(text: str, hole: Hole) -> str:
    _refuse_control(text, hole)
    return text


def _quoted(text: str, hole: Hole) -> str:
    _refuse_control(text, hole)
    return '"' + text.replace('"', '""') + '"'


def _refuse_control(text: str, hole: Hole) -> None:
    if not text.isprintable():
        _refuse(hole, text, "holds a line end or another control character")


def _refuse(hole: Hole, value: str, why: str) -> NoReturn:
    shown = ascii(value)[:80]
    raise Invalid(f"{hole.name} {shown} {why}.", data={"parameter": hole.name, "value": value[:80]})
