"""SCPI templates as parts: text, placeholders, and stretches that fall away.

``{name}`` or ``{name:FORMAT}`` is a placeholder; ``[,{name}]`` falls away when ``name`` has no
value; ``{{ }} [[ ]]`` are literal braces and brackets. FORMAT is one of Python's number formats
(``e f g d`` with sign, zero fill, width and precision) or ``q``: a quoted string.

Template and values → the SCPI lines that go out.

Whatever a caller put into a value, a line stays one message with as many arguments as its template
has: line ends and other control characters are refused, and so is a ``,``, a ``;`` or a quote that
would stand outside of quotes. Numbers are
written within their bounds (``numbers.py``); a label goes out as its wire value.

Which bounds hold for a parameter: its own, and those that another parameter brings (``by``).

Numbers as SCPI text, rounded without ever passing a bound.

A value that is allowed must stay allowed after rounding: 5.25 V with ``.1f`` under a maximum of
5.26 V goes out as 5.2, never as 5.3. The grid is decimal, because formats and bounds are.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from operator import itemgetter
from typing import Final, NamedTuple, NoReturn

from edged.errors import ErrorCode, Invalid
from edged.profiles.model import Bound, Command, Parameter, ParameterType, wire_value
from edged.record import record
from edged.scpi.numbers import shortest_text
from edged.yaml.tree import Scalar

MAX_CHARACTERS: Final = 2_000
MOST_DIGITS: Final = 20
"""A format's precision; a number of double precision has 17 digits."""
_FORMAT: Final = re.compile(r"q|\+?0?[0-9]{0,2}(?:\.([0-9]{1,2}))?[efgEG]|\+?0?[0-9]{0,2}d")
_HOLE: Final = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)(?::([^{}]*))?\}")


@record(kw_only=False)
class Text:
    """Goes out as it is."""

    text: str


@record(kw_only=False)
class Hole:
    """A placeholder; ``format`` is empty when none was written."""

    name: str
    format: str


@record(kw_only=False)
class Optional:
    """A stretch that falls away when one of its names has no value."""

    parts: tuple[Text | Hole, ...]


Part = Text | Hole | Optional


class Placeholder(NamedTuple):
    """One placeholder of a template, in the template's order."""

    name: str
    format: str
    is_optional: bool


@functools.lru_cache(maxsize=8192)
def parse_template(template: str) -> tuple[Part, ...]:
    """The parts of a template.

    Raises:
        Invalid: not in the grammar (code BAD_PROFILE); ``data`` has template and column (from 1).
    """
    if len(template) > MAX_CHARACTERS:
        raise _refusal(template[:40] + "…", 0, f"is longer than {MAX_CHARACTERS} characters")
    return tuple(_parts(template))


def _parts(template: str) -> Iterator[Part]:
    inside: list[Text | Hole] | None = None
    opened_at = 0
    for part, column in _pieces(template):
        if part == "[":
            if inside is not None:
                raise _refusal(template, column, "opens an optional part inside another")
            inside, opened_at = [], column
        elif part == "]":
            if inside is None:
                raise _refusal(template, column, 'has "]" without "["; a literal one is "]]"')
            if not any(isinstance(piece, Hole) for piece in inside):
                raise _refusal(template, opened_at, 'has "[…]" without a placeholder inside')
            yield Optional(tuple(inside))
            inside = None
        elif isinstance(part, str):
            raise _refusal(template, column, f"has a {part!r} that belongs to nothing")
        elif inside is not None:
            inside.append(part)
        else:
            yield part
    if inside is not None:
        raise _refusal(template, opened_at, 'has "[" without "]"; a literal one is "[["')


def _pieces(template: str) -> Iterator[tuple[Text | Hole | str, int]]:
    """Text and holes, and single brackets as plain strings, each with its column from 0."""
    position = 0
    while position < len(template):
        start = position
        if template[position : position + 2] in _DOUBLED:
            yield Text(template[position]), start
            position += 2
        elif template[position] == "{":
            match = _HOLE.match(template, position)
            if match is None:
                raise _refusal(template, position, 'has "{" that opens no placeholder')
            yield _hole(template, match), start
            position = match.end()
        elif template[position] in "}[]":
            yield template[position], start
            position += 1
        else:
            while position < len(template) and template[position] not in "{}[]":
                if not template[position].isprintable():
                    raise _refusal(template, position, "has a control character")
                position += 1
            yield Text(template[start:position]), start


_DOUBLED: Final = frozenset({"{{", "}}", "[[", "]]"})


def _hole(template: str, match: re.Match[str]) -> Hole:
    name, text = match.group(1), match.group(2)
    known = _FORMAT.fullmatch(text) if text is not None else None
    if text is not None and known is None:
        raise _refusal(
            template, match.start(), f'has the format "{text}"; known are e, f, g, d and q'
        )
    if known is not None and int(known[1] or 0) > MOST_DIGITS:
        why = f'has the format "{text}", whose precision is over {MOST_DIGITS}'
        raise _refusal(template, match.start(), why)
    return Hole(name, text or "")


def _refusal(template: str, column: int, why: str) -> Invalid:
    return Invalid(
        f'The template "{template}" {why} (column {column + 1}).',
        code=ErrorCode.BAD_PROFILE,
        data={"template": template, "column": column + 1},
    )


@functools.lru_cache(maxsize=8192)
def placeholders(template: str) -> tuple[Placeholder, ...]:
    """Every placeholder of a template in order, repeated ones too.

    Raises:
        Invalid: as ``parse_template``.
    """
    found: list[Placeholder] = []
    for part in parse_template(template):
        match part:
            case Hole(name, text):
                found.append(Placeholder(name, text, is_optional=False))
            case Optional(parts):
                found += [Placeholder(p.name, p.format, True) for p in parts if isinstance(p, Hole)]
            case Text():
                pass
    return tuple(found)


def optional_names(templates: Iterable[str]) -> frozenset[str]:
    """The names that stand in optional parts only, over all of these templates.

    Raises:
        Invalid: as ``parse_template``.
    """
    found = [placeholder for template in templates for placeholder in placeholders(template)]
    needed = {placeholder.name for placeholder in found if not placeholder.is_optional}
    return frozenset(placeholder.name for placeholder in found) - needed


_MOST_VALUES = 1_000
"""An integer parameter with more values than this is not walked to find the widest bound."""


class NarrowedBound(NamedTuple):
    """A bound and the words that say when it holds (``"channel is 3"``; empty: always)."""

    bound: Bound
    when: str


def labels(parameter: Parameter) -> tuple[str, ...]:
    """What a caller may say for an enum or a mapped parameter; empty for all others."""
    if parameter.options:
        return parameter.options
    if parameter.type is ParameterType.BOOL:
        return ()
    return tuple(parameter.map)


def effective_bound(parameter: Parameter, values: Mapping[str, Scalar | None]) -> Bound:
    """The tightest of all bounds that hold beside these values of the other parameters."""
    bound = own_bound(parameter)
    for case in narrowed(parameter, values):
        bound = tighter(bound, case.bound)
    return bound


def own_bound(parameter: Parameter) -> Bound:
    """The bound that always holds."""
    return Bound(min=parameter.min, max=parameter.max, options=labels(parameter) or None)


def narrowed(parameter: Parameter, values: Mapping[str, Scalar | None]) -> list[NarrowedBound]:
    """The ``by`` bounds that hold beside these values; a name without a value brings none."""
    found: list[NarrowedBound] = []
    for other, cases in parameter.by.items():
        value = values.get(other)
        bound = None if value is None else cases.get(value)
        if bound is not None:
            shown = str(value).lower() if isinstance(value, bool) else str(value)
            found.append(NarrowedBound(bound, f"{other} is {shown}"))
    return found


def tighter(one: Bound, other: Bound) -> Bound:
    """The bound that holds when both hold; options keep the first's order."""
    lows = [low for low in (one.min, other.min) if low is not None]
    highs = [high for high in (one.max, other.max) if high is not None]
    options = one.options if other.options is None else other.options
    if one.options is not None and other.options is not None:
        options = tuple(option for option in one.options if option in other.options)
    return Bound(min=max(lows, default=None), max=min(highs, default=None), options=options)


def widest_bound(
    parameter: Parameter, parameters: Mapping[str, Parameter], optional: frozenset[str]
) -> Bound:
    """What no combination of the other parameters can exceed: the bound of a flat schema.

    Where ``by`` lists every value that the other parameter can have, the widest of the listed
    bounds is tighter than the parameter's own, and is taken.
    """
    bound = own_bound(parameter)
    for other, cases in parameter.by.items():
        asked = parameters.get(other)
        if asked is None or (other in optional and asked.default is None):
            continue  # it may be absent, and then only the parameter's own bound holds
        possible = possible_values(asked)
        if possible and set(possible) <= set(cases):
            bound = tighter(bound, _wider([cases[value] for value in possible]))
    return bound


def possible_values(parameter: Parameter) -> list[Scalar]:
    """Every value that a caller may give; empty when they cannot be listed."""
    if parameter.type is ParameterType.BOOL:
        return [False, True]
    if labels(parameter):
        return list(labels(parameter))
    if parameter.type is not ParameterType.INT or parameter.min is None or parameter.max is None:
        return []
    if parameter.max - parameter.min > _MOST_VALUES:
        return []
    return list(range(math.ceil(parameter.min), math.floor(parameter.max) + 1))


def _wider(bounds: Sequence[Bound]) -> Bound:
    """The loosest of several on each side; an open side stays open."""
    lows = [bound.min for bound in bounds if bound.min is not None]
    highs = [bound.max for bound in bounds if bound.max is not None]
    choices = [bound.options for bound in bounds if bound.options is not None]
    every = len(bounds)
    return Bound(
        min=min(lows) if len(lows) == every else None,
        max=max(highs) if len(highs) == every else None,
        options=tuple(dict.fromkeys(label for options in choices for label in options))
        if len(choices) == every
        else None,
    )


_EXACT: Final = Context(prec=1_000)
"""Enough digits for any float with any precision that a template may ask for."""


def number_text(value: float, spec: str, bound: Bound, *, name: str) -> str:
    """``value`` in Python's number format ``spec`` (empty: shortest), within ``bound`` as written.

    Args:
        value: finite, and within ``bound``.
        spec: one of a template's number formats.
        bound: what the text must not pass when it is read back.
        name: the parameter, for the message.

    Raises:
        Invalid: the format cannot write any number near ``value`` that lies within the bound.
    """
    if not spec:
        return shortest_text(value)
    text = _formatted(value, spec)
    if _is_within(text, bound):
        return text
    exact = Decimal(value) if isinstance(value, int) else Decimal(repr(value))
    for rounding in (ROUND_FLOOR, ROUND_CEILING):
        rounded = _rounded(exact, spec, rounding)
        text = _formatted(int(rounded) if spec[-1] == "d" else float(rounded), spec)
        if _is_within(text, bound):
            return text
    raise Invalid(
        f"{name} {shortest_text(value)} cannot be written in the format {spec} "
        f"without passing its bounds {_shown(bound)}.",
        data={"parameter": name, "value": value, "minimum": bound.min, "maximum": bound.max},
    )


def format_step(spec: str) -> float | None:
    """The resolution of a number format, or ``None`` when it depends on the value."""
    kind = spec[-1:]
    if kind == "d":
        return 1.0
    if kind != "f":
        return None
    return float(Decimal(1).scaleb(-_precision(spec)))


def _precision(spec: str) -> int:
    _, dot, digits = spec[:-1].partition(".")
    return int(digits) if dot else 6


def _rounded(exact: Decimal, spec: str, rounding: str) -> Decimal:
    """``exact`` on the grid that the format can write."""
    kind = spec[-1].lower()
    match kind:
        case "d":
            exponent = 0
        case "f":
            exponent = -_precision(spec)
        case "e":
            exponent = exact.adjusted() - _precision(spec)
        case _:
            exponent = exact.adjusted() - max(1, _precision(spec)) + 1
    if exact.is_zero():
        return Decimal(0)
    return exact.quantize(Decimal(1).scaleb(exponent), rounding=rounding, context=_EXACT)


def _formatted(value: float, spec: str) -> str:
    if spec[-1] == "d":
        return format(round(value), spec)
    text = format(value, spec)
    # A rounded zero loses its sign: "-0.000" makes some instruments answer with an error.
    return format(0.0, spec) if "-" in text and float(text) == 0.0 else text


def _is_allowed(
    number: float,
    parameter: Parameter,
    parameters: Mapping[str, Parameter],
    values: Mapping[str, Scalar],
) -> bool:
    """Whether a number lies within ``effective_bound``; that is made to be shown."""
    lowest, highest = parameter.min, parameter.max
    if (lowest is not None and number < lowest) or (highest is not None and number > highest):
        return False
    for other, cases in parameter.by.items():
        value = values.get(other)
        if value is None:
            value = _value(other, parameters, values)
        bound = None if value is None else cases.get(value)
        if bound is None:
            continue
        lowest, highest = bound.min, bound.max
        if (lowest is not None and number < lowest) or (highest is not None and number > highest):
            return False
    return True


def _is_within(text: str, bound: Bound) -> bool:
    number = float(text)
    return (bound.min is None or number >= bound.min) and (bound.max is None or number <= bound.max)


def _shown(bound: Bound) -> str:
    low = "…" if bound.min is None else shortest_text(bound.min)
    high = "…" if bound.max is None else shortest_text(bound.max)
    return f"{low} to {high}"


_NO_BOUND: Final = Bound()
_MOST_BITS: Final = 1_023
"""An integer with more has no float, and no instrument that takes it."""

_TEXT: Final = itemgetter(1)
_QUOTES: Final = ('"', "'")


def render_lines(command: Command, values: Mapping[str, Scalar]) -> tuple[str, ...]:
    """The lines of a command's job.

    Args:
        command: one of a profile's.
        values: as ``ParameterCheck.validate`` returns them.

    Raises:
        Invalid: as ``render``.
    """
    lines: tuple[str, ...] = ()
    for line in command.scpi:
        lines += (render(line, command.parameters, values),)
    return lines


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
    return "".join(map(_TEXT, pieces(template, parameters, values)))


def pieces(
    template: str, parameters: Mapping[str, Parameter], values: Mapping[str, Scalar]
) -> list[tuple[str, str]]:
    """The stretches of one line, each with the name of what was filled in; empty: plain text.

    Raises:
        Invalid: as ``render``.
    """
    found: list[tuple[str, str]] = []
    for part in parse_template(template):
        if not isinstance(part, Optional):
            inner: tuple[Text | Hole, ...] = (part,)
        elif all(
            _value(piece.name, parameters, values) is not None
            for piece in part.parts
            if isinstance(piece, Hole)
        ):
            inner = part.parts
        else:
            continue
        for piece in inner:
            if isinstance(piece, Text):
                found.append(("", piece.text))
            else:
                text = _filled(piece, template, parameters, values, before=found)
                found.append((piece.name, text))
    return found


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


def _value(
    name: str, parameters: Mapping[str, Parameter], values: Mapping[str, Scalar]
) -> Scalar | None:
    value = values.get(name)
    if value is None and name in parameters:
        return parameters[name].default
    return value


def _filled(
    hole: Hole,
    template: str,
    parameters: Mapping[str, Parameter],
    values: Mapping[str, Scalar],
    *,
    before: Iterable[tuple[str, str]],
) -> str:
    value = values.get(hole.name)
    if value is None:
        value = _value(hole.name, parameters, values)
    if value is None:
        raise Invalid(
            f'{hole.name} is missing: "{template}" cannot be written without it.',
            data={"parameter": hole.name, "template": template},
        )
    parameter = parameters.get(hole.name)
    wire = wire_value(value, parameter) if parameter and parameter.map else value
    if isinstance(wire, bool):
        wire = int(wire)
    if isinstance(wire, str):
        if hole.format == "q":
            return _quoted(wire, hole)
        # A wire value is the profile's own text, and may be '"VOLT:DC"'; a caller's may not.
        if wire != value:
            return _mapped(wire, hole)
        is_text = parameter is not None and parameter.type is ParameterType.STRING
        marks = ",;" if is_text else ";"
        return _bare(wire, hole, "" if _is_in_quotes(before) else marks)
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
        return str(wire) if type(wire) is int else shortest_text(wire)
    if parameter is not None and not parameter.map:
        if parameter.type is ParameterType.INT and isinstance(wire, float) and wire.is_integer():
            wire = int(wire)
        text = _formatted(wire, hole.format)
        if _is_allowed(float(text), parameter, parameters, values):
            return text
        others: dict[str, Scalar | None] = {}
        for name in parameter.by:
            others[name] = _value(name, parameters, values)
        bound = effective_bound(parameter, others)
    return number_text(wire, hole.format, bound, name=hole.name)


def _bare(text: str, hole: Hole, marks: str) -> str:
    if hole.format:
        _refuse(hole, text, f"is not a number, as the format {hole.format} needs")
    _refuse_control(text, hole)
    for mark in (*marks, *_QUOTES):
        if mark in text:
            _refuse(hole, text, f"holds {mark}, which only a quoted text may hold")
    # "#19" announces a block of nine bytes: the instrument would swallow the next commands.
    block = text.find("#")
    if block >= 0 and text[block + 1 : block + 2].isdigit():
        _refuse(hole, text, "holds the head of a binary block")
    return text


def _is_in_quotes(before: Iterable[tuple[str, str]]) -> bool:
    """Whether a quote of the template is open behind what has been written of a line."""
    quote = ""
    for character in "".join(map(_TEXT, before)):
        if not quote and character in _QUOTES:
            quote = character
        elif character == quote:
            quote = ""
    return bool(quote)


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
