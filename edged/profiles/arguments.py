"""Arguments against what a profile allows: compiled once, asked for every call.

Three checks in order: the flat JSON Schema (a fast closure may accept, jsonschema decides and
words every refusal), then the bounds of ``by``, then ``checks``. Numbers that are not finite, and
strings that could smuggle SCPI in, are refused although JSON Schema would take them.

A fast yes: closures made from a JSON Schema that accept what is provably valid.

jsonschema stays the authority (19 µs a call even when compiled once); these take under 1 µs and
answer one question only: is this certainly valid? ``False`` means "ask jsonschema". A schema that
uses any keyword not in ``_KNOWN`` gets no closure at all. A property test holds both equal.

Beyond JSON Schema, a number that is not finite, or too large to have a float, is never accepted.

The sentence for each way in which arguments can fail a schema, and the data beside it.

"voltage 61 V is over the maximum 60 V of rigol_dp832.set_voltage." Values are shown short: a caller
who sends a megabyte does not get it back.
"""

from __future__ import annotations

import functools
import itertools
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from edged.errors import ErrorCode, Invalid
from edged.profiles.expr import Expression, compile_expression
from edged.profiles.model import Bound, Parameter, ParameterType
from edged.profiles.parameter_schema import parameters_schema, usable_default
from edged.profiles.template import narrowed
from edged.record import record
from edged.scpi.numbers import shortest_text
from edged.yaml.tree import Scalar

Acceptor = Callable[[object], bool]

_ANNOTATIONS: Final = frozenset({"$schema", "title", "description", "default", "examples"})
_KNOWN: Final = _ANNOTATIONS | {
    "type",
    "enum",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "items",
    "minItems",
    "maxItems",
    "properties",
    "required",
    "additionalProperties",
}
_MOST_BITS: Final = 1_023
"""An integer with more bits has no float."""
MAX_CHARACTERS: Final = 65_536
MAX_ITEMS: Final = 1_000
"""Of a text, and of a list or an object, where the schema has no bound of its own."""
MAX_CHARACTERS_IN_ALL: Final = 4 * MAX_CHARACTERS
"""Of all texts and names in the arguments of a call."""
_MOST_VIOLATIONS: Final = 100
"""Of a schema that are looked at; the rest of them would say the same again."""


def make_acceptor(schema: Mapping[str, Any]) -> Acceptor | None:
    """The closure for a schema, or ``None`` when some keyword is beyond it."""
    if not schema.keys() <= _KNOWN:
        return None
    kind = schema.get("type")
    maker = _MAKERS.get(kind) if isinstance(kind, str) else None
    return maker(schema) if maker is not None else None


def is_fit_number(value: object) -> bool:
    """False for a number that no instrument can be sent: NaN, infinity, an absurd integer."""
    if isinstance(value, float):
        return math.isfinite(value)
    return not isinstance(value, int) or value.bit_length() <= _MOST_BITS


def is_fit(value: object) -> bool:
    """``is_fit_number`` and the usual bounds on sizes, for everything inside."""
    if isinstance(value, dict):
        return len(value) <= MAX_ITEMS and all(map(is_fit, value.values()))
    if isinstance(value, list):
        return len(value) <= MAX_ITEMS and all(map(is_fit, value))
    if isinstance(value, str):
        return len(value) <= MAX_CHARACTERS
    return is_fit_number(value)


def most_of(keyword: str, schema: Mapping[str, Any]) -> int:
    """The bound on a size: the schema's own, else the usual one.

    Args:
        keyword: maxLength, maxItems or maxProperties.
    """
    usual = MAX_CHARACTERS if keyword == "maxLength" else MAX_ITEMS
    return int(schema.get(keyword, usual))


def _number(schema: Mapping[str, Any], *, is_whole: bool = False) -> Acceptor | None:
    if "enum" in schema:
        return None
    low = schema.get("minimum", -math.inf)
    high = schema.get("maximum", math.inf)

    def accept(value: object) -> bool:
        # type(), not isinstance: a bool is no number.
        if type(value) is float:
            # 1.0 is an integer in JSON Schema.
            is_one = value.is_integer() if is_whole else math.isfinite(value)
            return low <= value <= high and is_one
        return type(value) is int and low <= value <= high and value.bit_length() <= _MOST_BITS

    return accept


def _string(schema: Mapping[str, Any]) -> Acceptor | None:
    short, long = schema.get("minLength", 0), most_of("maxLength", schema)
    if "enum" in schema:
        choices = schema["enum"]
        if not all(isinstance(choice, str) for choice in choices):
            return None
        allowed = frozenset(choice for choice in choices if short <= len(choice) <= long)
        return lambda value: type(value) is str and value in allowed
    return lambda value: type(value) is str and short <= len(value) <= long


def _boolean(schema: Mapping[str, Any]) -> Acceptor | None:
    return None if "enum" in schema else lambda value: type(value) is bool


def _array(schema: Mapping[str, Any]) -> Acceptor | None:
    if "enum" in schema:
        return None
    accept_item = make_acceptor(schema["items"]) if "items" in schema else is_fit
    if accept_item is None:
        return None
    few, many = schema.get("minItems", 0), most_of("maxItems", schema)
    return lambda value: (
        type(value) is list and few <= len(value) <= many and all(map(accept_item, value))
    )


def _object(schema: Mapping[str, Any]) -> Acceptor | None:
    rest = schema.get("additionalProperties", True)
    if "enum" in schema or not isinstance(rest, bool):
        return None
    inside: dict[str, Acceptor] = {}
    for name, property_schema in schema.get("properties", {}).items():
        acceptor = make_acceptor(property_schema)
        if acceptor is None:
            return None
        inside[name] = acceptor
    required = frozenset(schema.get("required", ()))
    otherwise: Acceptor = is_fit if rest else lambda _: False
    most = most_of("maxProperties", schema)

    def accept(value: object) -> bool:
        if type(value) is not dict or len(value) > most:
            return False
        for name, item in value.items():
            if not inside.get(name, otherwise)(item):
                return False
        return required <= value.keys()

    return accept


_MAKERS: Final[Mapping[str, Callable[[Mapping[str, Any]], Acceptor | None]]] = {
    "number": _number,
    "integer": partial(_number, is_whole=True),
    "string": _string,
    "boolean": _boolean,
    "array": _array,
    "object": _object,
}


if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError


_MOST_SHOWN: Final = 60
_MOST_READ: Final = 10_000
_MOST_BITS_SHOWN: Final = 256
_MOST_CHOICES: Final = 12

_KINDS: Final = {
    "number": "a number",
    "integer": "a whole number",
    "string": "a string",
    "boolean": "true or false",
    "object": "an object",
    "array": "a list",
}
_COUNTED: Final = {"Length": "character", "Items": "item", "Properties": "member"}
_ORDER: Final = {"additionalProperties": 0, "required": 1, "type": 2}
"""What a caller should hear first: a misspelled name explains the missing one."""


@record
class _Violation:
    """One broken keyword: where in the arguments, what was there, what the keyword says."""

    keyword: str
    place: str
    value: Any
    limit: Any
    schema: Mapping[str, Any]
    message: str


def worst_refusal(
    owner: str, errors: Iterable[ValidationError], units: Mapping[str, str]
) -> Invalid | None:
    """The error worth telling, as ``Invalid``; ``None`` when there is none."""
    some = itertools.islice(errors, _MOST_VIOLATIONS)
    worst = min(some, key=lambda error: _ORDER.get(str(error.validator), 3), default=None)
    if worst is None:
        return None
    violation = _Violation(
        keyword=str(worst.validator),
        place=_place(worst.absolute_path),
        value=worst.instance,
        limit=worst.validator_value,
        schema=worst.schema if isinstance(worst.schema, dict) else {},
        message=worst.message,
    )
    return _refusal(owner, violation, units)


def _refusal(owner: str, found: _Violation, units: Mapping[str, str]) -> Invalid:
    place, value, limit = found.place, found.value, found.limit
    match found.keyword:
        case "additionalProperties":
            return _unknown(owner, found)
        case "required":
            return _missing(owner, found)
        case "type":
            return _wrong_kind(owner, found)
        case "enum":
            choices = ", ".join(shown(choice) for choice in limit)
            message = f"{place} {shown(value)} is not one of {choices} of {owner}."
            return _invalid(message, place, value, {"options": list(limit)})
        case "minimum" | "maximum":
            unit = units.get(place, "")
            return out_of_bound(owner, place, value, found.keyword, limit, unit=unit)
        case "exclusiveMinimum":
            message = f"{place} {shown(value)} is not above {shown(limit)}, as {owner} needs."
            return _invalid(message, place, value, {found.keyword: limit})
        case "minLength" | "maxLength" | "minItems" | "maxItems" | "maxProperties":
            side = "short" if found.keyword.startswith("min") else "long"
            counted = _COUNTED[found.keyword[3:]] + ("" if limit == 1 else "s")
            message = f"{place or 'What was given'} is too {side} for {owner}: the limit is"
            return _invalid(f"{message} {limit} {counted}.", place, value, {found.keyword: limit})
        case _:
            message = f"{place or 'What was given'} does not fit {owner}: {found.message[:200]}."
            return _invalid(message, place, value, {})


def out_of_bound(
    owner: str,
    name: str,
    value: object,
    side: str,
    limit: float,
    *,
    unit: str = "",
    when: str = "",
) -> Invalid:
    """A number past a bound.

    Args:
        owner: whose parameter it is, as a caller knows it.
        name: the parameter.
        value: what was given.
        side: ``"minimum"`` or ``"maximum"``.
        limit: the bound.
        unit: shown after both numbers.
        when: the condition under which the bound holds (``"channel is 3"``), or empty.
    """
    past = "under" if side == "minimum" else "over"
    gap = f" {unit}" if unit else ""
    condition = f" when {when}" if when else ""
    return _invalid(
        f"{name} {shown(value)}{gap} is {past} the {side} {shown(limit)}{gap} of "
        f"{owner}{condition}.",
        name,
        value,
        {side: limit, "unit": unit} if unit else {side: limit},
    )


def unfit_number(owner: str, name: str, value: object) -> Invalid:
    """A number that is none: NaN, infinity, or too large for anything."""
    message = f"{name} {shown(value)} is not a finite number, as {owner} needs."
    return _invalid(message, name, value, {}, remedy="Nothing was sent: write a finite number.")


def _unknown(owner: str, found: _Violation) -> Invalid:
    import difflib  # for those who mistyped

    known = list(found.schema.get("properties", {}))
    unknown = next((str(name) for name in found.value if name not in known), "")
    close = difflib.get_close_matches(unknown[:_MOST_SHOWN], known, n=1)
    if close:
        remedy = f"Did you mean {close[0]}?"
    else:
        remedy = f"It takes {', '.join(known)}." if known else "It takes none."
    if "parameters" in known and close != ["parameters"]:
        remedy += f" If {shown(unknown)[1:-1]} is the command's own, put it in parameters."
    name = f"{found.place}.{unknown}" if found.place else unknown
    return _invalid(
        f"{owner} has no parameter {shown(name)[1:-1]}.",
        name[:_MOST_SHOWN],
        found.value.get(unknown),
        {"options": known},
        remedy=f"Nothing was sent. {remedy}",
    )


def _missing(owner: str, found: _Violation) -> Invalid:
    leaf = next((str(name) for name in found.limit if name not in found.value), "")
    wanted = found.schema.get("properties", {}).get(leaf, {})
    kind = _kind(wanted.get("type", ""))
    if "enum" in wanted:
        kind = "one of " + ", ".join(shown(choice) for choice in wanted["enum"])
    name = f"{found.place}.{leaf}" if found.place else leaf
    return _invalid(f"{owner} needs {name}: {kind}.", name, None, {}, remedy=_give(name))


def _give(name: str) -> str:
    return f"Nothing was sent: give {name}."


def _wrong_kind(owner: str, found: _Violation) -> Invalid:
    wanted = _kind(found.limit)
    if found.value is None and found.place:
        message = f"{found.place} is null, and {owner} needs it: {wanted}."
        return _invalid(message, found.place, None, {}, remedy=_give(found.place))
    subject = f"{found.place} {shown(found.value)}" if found.place else "What was given"
    message = f"{subject} is not {wanted}, as {owner} needs."
    remedy = f"Nothing was sent{_form(found.schema) or _unquoted(found)}."
    return _invalid(message, found.place, found.value, {}, remedy=remedy)


def _form(schema: Mapping[str, Any]) -> str:
    """What a value is to be, where its kind alone does not say it."""
    if choices := schema.get("enum"):
        return ": write " + " or ".join(shown(choice) for choice in choices[:_MOST_CHOICES])
    if fields := schema.get("properties"):
        return f": write an object with {', '.join(fields)}"
    items = schema.get("items")
    if isinstance(items, dict) and (fields := items.get("properties")):
        return f": write a list of objects with {', '.join(fields)}"
    return ""


def _unquoted(found: _Violation) -> str:
    """What a value is to be that is only written as a text."""
    if not isinstance(found.value, str) or len(found.value) > _MOST_READ:
        return ""
    try:
        meant = json.loads(found.value)
    except (ValueError, RecursionError):
        return ""
    accepts = make_acceptor({"type": found.limit}) if isinstance(found.limit, str) else None
    if meant is None or accepts is None or not accepts(meant):
        return ""
    is_short = isinstance(meant, int | float) and len(found.value) <= _MOST_SHOWN
    return f": write {found.value.strip() if is_short else 'it'} without quotes"


def _kind(types: str | Sequence[str]) -> str:
    """A schema's ``type``, one or several, in words."""
    names = [types] if isinstance(types, str) else types
    return " or ".join(_KINDS.get(name, "a value") for name in names)


def _place(path: Iterable[str | int]) -> str:
    """Where in the arguments: ``voltage``, ``measure[0].command_name``; empty at the root."""
    place = ""
    for step in path:
        if isinstance(step, int):
            place += f"[{step}]"
        else:
            place += f".{step}" if place else step
    return place


WITHIN: Final = "Nothing was sent: stay within what is allowed."


def _invalid(
    message: str, name: str, value: object, bounds: Mapping[str, object], *, remedy: str = ""
) -> Invalid:
    return Invalid(
        message,
        code=ErrorCode.BAD_ARGUMENTS,
        data={"parameter": name, "value": shown_value(value), **bounds},
        remedy=remedy or (WITHIN if bounds else "Nothing was sent."),
    )


def shown(value: object) -> str:
    """A value in a sentence: short, ASCII, without control characters."""
    if isinstance(value, dict):
        return "{...}"
    if isinstance(value, (list, tuple)):
        return "[...]"
    shown_as = shown_value(value)
    if isinstance(value, (int, float)) and isinstance(shown_as, str):
        return shown_as
    return shortest_text(shown_as) if isinstance(shown_as, float) else json.dumps(shown_as)


def shown_value(value: object) -> Any:
    """A value as JSON-ready data of bounded size; NaN and infinity become words."""
    if isinstance(value, float):
        return value if value - value == 0 else repr(value)
    if isinstance(value, int) and value.bit_length() > _MOST_BITS_SHOWN:
        return f"of {value.bit_length()} bits"
    if isinstance(value, str):
        return value if len(value) <= _MOST_SHOWN else value[:_MOST_SHOWN] + "…"
    if value is None or isinstance(value, (bool, int)):
        return value
    return shown(value) if isinstance(value, (dict, list, tuple)) else type(value).__name__


if TYPE_CHECKING:
    from jsonschema import Draft202012Validator


Check = Callable[[Mapping[str, Any]], None]
"""Raises ``Invalid`` when arguments do not fit."""

Given = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""Arguments as they came → the arguments that were given."""

_MOST_INTEGER_BITS: Final = 63
"""An integer parameter is at most what instruments and their drivers hold in a machine word."""


def compile_given(schema: Mapping[str, Any]) -> Given:
    """What takes out of arguments the optional ones that are null: they were left out.

    Clients that fill in every argument of a schema send null for what they do not mean. One that is
    required stays, and so does one that nobody knows: the check refuses both. What is larger than
    the check allows is not looked through.

    Args:
        schema: an object at its root; objects inside it, and in lists, are read the same way.
    """
    optional = frozenset(schema.get("properties", ())) - frozenset(schema.get("required", ()))
    inside = {
        name: deeper
        for name, inner in schema.get("properties", {}).items()
        if (deeper := _given_inside(inner)) is not None
    }

    most = most_of("maxProperties", schema)

    def given(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        if len(arguments) > most:
            return arguments
        if None in arguments.values():
            arguments = {n: v for n, v in arguments.items() if v is not None or n not in optional}
        for name, deeper in inside.items():
            if name in arguments:
                arguments = {**arguments, name: deeper(arguments[name])}
        return arguments

    return given


def _given_inside(schema: Mapping[str, Any]) -> Callable[[Any], Any] | None:
    """The same for one argument; ``None`` where nothing in it has a name of its own."""
    if schema.get("properties"):
        given = compile_given(schema)
        return lambda value: given(value) if isinstance(value, Mapping) else value
    items = _given_inside(schema["items"]) if "items" in schema else None
    if items is None:
        return None
    most = most_of("maxItems", schema)

    def given_items(value: Any) -> Any:
        if not isinstance(value, list) or len(value) > most:
            return value
        return [items(one) for one in value]

    return given_items


def compile_schema(
    owner: str, schema: dict[str, Any], *, units: Mapping[str, str] | None = None
) -> Check:
    """A check of arguments against a JSON Schema of ours.

    Args:
        owner: whose arguments they are, for the sentences.
        schema: Draft 2020-12, an object at its root.
        units: parameter → unit, for the sentences.
    """
    validator = _authority_on(schema)
    accepts = make_acceptor(schema)
    units = units or {}

    def check(arguments: Mapping[str, Any]) -> None:
        if accepts is not None and accepts(arguments):
            return
        _Sizes(owner).judge(arguments, schema, "")
        _refuse_unfit(owner, arguments, "")
        try:
            refusal = worst_refusal(owner, validator().iter_errors(_plain(arguments)), units)
        except (RecursionError, ValueError, OverflowError):
            refusal = Invalid(f"The arguments of {owner} are too large to be judged.")
        if refusal is not None:
            raise refusal

    return check


def load_authority() -> None:
    """Import jsonschema, a tenth of a second and 2 MB, before a refusal needs it. On any thread."""
    import jsonschema  # noqa: F401 - for its being loaded


def _authority_on(schema: dict[str, Any]) -> Callable[[], Draft202012Validator]:
    """Jsonschema's validator of a schema, made when it is first asked: most never are."""

    @functools.cache
    def validator() -> Draft202012Validator:
        from jsonschema import Draft202012Validator

        return Draft202012Validator(schema)

    return validator


def compile_parameters(
    owner: str,
    parameters: Mapping[str, Parameter],
    checks: Sequence[str] = (),
    optional: frozenset[str] = frozenset(),
    *,
    encoding: str = "ascii",
) -> ParameterCheck:
    """The whole check of one command's or sequence's arguments.

    Args:
        owner: ``<profile_key>.<command>``, for the sentences.
        parameters: by name.
        checks: expressions over them; one that needs a value that is absent is passed over.
        optional: names that may be left out although they have no default.
        encoding: of the connection; a string that it cannot carry is refused.

    Raises:
        Invalid: a check is not in the grammar (code BAD_PROFILE).
    """
    return ParameterCheck(
        owner=owner, parameters=parameters, checks=checks, optional=optional, encoding=encoding
    )


class ParameterCheck:
    """A compiled check; ``schema`` is what agents see. Made by ``compile_parameters``."""

    def __init__(
        self,
        *,
        owner: str,
        parameters: Mapping[str, Parameter],
        checks: Sequence[str],
        optional: frozenset[str],
        encoding: str,
    ) -> None:
        self.schema = parameters_schema(parameters, checks, optional)
        units = {name: parameter.unit for name, parameter in parameters.items()}
        self._owner = owner
        self._parameters = parameters
        self._encoding = encoding
        self._given = compile_given(self.schema)
        self._check = compile_schema(owner, self.schema, units=units)
        self._checks = tuple(compile_expression(text) for text in checks)
        self._narrowed = tuple(parameter for parameter in parameters.values() if parameter.by)
        self._defaults = {
            name: default
            for name, parameter in parameters.items()
            if (default := usable_default(parameter)) is not None
        }

    def validate(self, arguments: Mapping[str, Any]) -> dict[str, Scalar]:
        """The values to work with: defaults filled in, labels kept, ``1.0`` made an int for an int.

        Args:
            arguments: as they came, unjudged.

        Returns:
            In the parameters' own order; an optional parameter that was left out, or is null, is
            not in it.

        Raises:
            Invalid: BAD_ARGUMENTS; ``data`` has parameter, value and minimum, maximum or options.
        """
        arguments = self._given(arguments)
        self._check(arguments)
        values: dict[str, Scalar] = {}
        for name, parameter in self._parameters.items():
            if name not in arguments:
                if name in self._defaults:
                    values[name] = self._defaults[name]
                continue
            value = values[name] = arguments[name]
            if isinstance(value, (bool, str)):
                if parameter.type is ParameterType.STRING and isinstance(value, str):
                    self._judge_string(name, value)
            elif parameter.type is ParameterType.FLOAT:
                values[name] = float(value)
            else:
                values[name] = number = int(value)
                if number.bit_length() > _MOST_INTEGER_BITS:
                    raise unfit_number(self._owner, name, value)
        for parameter in self._narrowed:
            if (value := values.get(parameter.name)) is not None:
                for case in narrowed(parameter, values):
                    self._judge_bound(parameter, value, case.bound, case.when)
        for expression in self._checks:
            self._judge_check(expression, values)
        return values

    def _judge_string(self, name: str, value: str) -> None:
        """Refuse what could end the message or the line that it stands in."""
        if not value.isprintable():
            self._refuse_string(name, value, "holds a line end or another control character")
        if ";" in value:
            self._refuse_string(name, value, 'holds ";", which would start another command')
        if not value.isascii():
            try:
                value.encode(self._encoding)
            except (UnicodeEncodeError, LookupError):
                self._refuse_string(name, value, f"cannot be written in {self._encoding}")

    def _refuse_string(self, name: str, value: str, why: str) -> None:
        raise Invalid(
            f"{name} {shown(value)} {why}; {self._owner} refuses it.",
            code=ErrorCode.BAD_ARGUMENTS,
            data={"parameter": name, "value": shown_value(value)},
            remedy="Nothing was sent: write it without that.",
        )

    def _judge_bound(self, parameter: Parameter, value: Scalar, bound: Bound, when: str) -> None:
        name, unit = parameter.name, parameter.unit
        if bound.options is not None and value not in bound.options:
            raise Invalid(
                f"{name} {shown(value)} is not one of {', '.join(map(shown, bound.options))} "
                f"of {self._owner} when {when}.",
                code=ErrorCode.BAD_ARGUMENTS,
                data={
                    "parameter": name,
                    "value": shown_value(value),
                    "options": list(bound.options),
                },
                remedy=WITHIN,
            )
        if isinstance(value, (bool, str)):
            return
        for side, limit, is_past in (
            ("minimum", bound.min, bound.min is not None and value < bound.min),
            ("maximum", bound.max, bound.max is not None and value > bound.max),
        ):
            if is_past and limit is not None:
                raise out_of_bound(self._owner, name, value, side, limit, unit=unit, when=when)

    def _judge_check(self, expression: Expression, values: Mapping[str, Scalar]) -> None:
        if not expression.names <= values.keys():
            return
        why = "does not hold"
        try:
            if expression.is_true(values):
                return
        except Invalid as error:
            why = f"cannot be judged ({error.message.rstrip('.')})"
        used = [name for name in values if name in expression.names]
        given = ", ".join(
            f"{name} {shown(values[name])} {self._parameters[name].unit}".strip() for name in used
        )
        raise Invalid(
            f"{self._owner} needs {expression.text}, which {why} for {given}.",
            code=ErrorCode.BAD_ARGUMENTS,
            data={
                "parameter": used[0] if used else "",
                "value": shown_value(values[used[0]]) if used else None,
                "check": expression.text,
            },
            remedy=WITHIN,
        )


class _Sizes:
    """Refuses what is too large, before anything else reads it: jsonschema reads every item.

    A size is judged before what has it is looked into, at most as deep as a body may be nested.

    Args:
        owner: whose arguments they are, for the sentences.
    """

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._characters_left = MAX_CHARACTERS_IN_ALL

    def judge(self, value: object, schema: Mapping[str, Any], place: str) -> None:
        """Judge a value, and what is in it.

        Args:
            schema: its own; empty where nothing is said of it.
            place: where it is in the arguments.

        Raises:
            Invalid: BAD_ARGUMENTS.
        """
        if isinstance(value, str):
            self._refuse_over("maxLength", value, schema, place)
            self._count(value)
        elif isinstance(value, Mapping):
            self._refuse_over("maxProperties", value, schema, place)
            inner = schema.get("properties", {})
            for name, item in value.items():
                self._count(name)
                shown_name = name[:_MOST_SHOWN]
                self.judge(
                    item,
                    inner.get(name, {}),
                    _place((place, shown_name) if place else (shown_name,)),
                )
        elif isinstance(value, list):
            self._refuse_over("maxItems", value, schema, place)
            for index, item in enumerate(value):
                self.judge(item, schema.get("items", {}), f"{place}[{index}]")

    def _refuse_over(
        self, keyword: str, value: Sized, schema: Mapping[str, Any], place: str
    ) -> None:
        most = most_of(keyword, schema)
        if len(value) > most:
            raise _refusal(
                self._owner,
                _Violation(
                    keyword=keyword, place=place, value=value, limit=most, schema=schema, message=""
                ),
                {},
            )

    def _count(self, text: str) -> None:
        self._characters_left -= len(text)
        if self._characters_left < 0:
            raise Invalid(
                f"The texts in the arguments of {self._owner} are too long: together the limit is "
                f"{MAX_CHARACTERS_IN_ALL} characters.",
                code=ErrorCode.BAD_ARGUMENTS,
                remedy="Nothing was sent.",
            )


def _plain(arguments: object) -> object:
    """For jsonschema, to which a dict is an object, and no other mapping is."""
    return dict(arguments) if isinstance(arguments, Mapping) else arguments


def _refuse_unfit(owner: str, value: object, place: str) -> None:
    """Refuse a number that is not finite, however deep it lies."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            _refuse_unfit(owner, item, f"{place}.{name}" if place else str(name))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _refuse_unfit(owner, item, f"{place}[{index}]")
    elif not is_fit_number(value):
        raise unfit_number(owner, place, value)
