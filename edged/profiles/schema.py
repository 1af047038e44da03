"""Arguments against what a profile allows: compiled once, asked for every call.

Three checks in order: the flat JSON Schema (a fast closure may accept, jsonschema decides and
words every refusal), then the bounds of ``by``, then ``checks``. Numbers that are not finite, and
strings that could smuggle SCPI in, are refused although JSON Schema would take them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from edged.errors import ErrorCode, Invalid
from edged.profiles.acceptor import is_fit_number, make_acceptor
from edged.profiles.bounds import narrowed
from edged.profiles.expr import Expression, compile_expression
from edged.profiles.model import Bound, Parameter, ParameterType, Scalar
from edged.profiles.parameter_schema import parameters_schema, usable_default
from edged.profiles.refusal import out_of_bound, shown, shown_value, unfit_number, worst_refusal

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator

__all__ = [
    "Check",
    "Given",
    "ParameterCheck",
    "compile_given",
    "compile_parameters",
    "compile_schema",
    "load_authority",
    "parameters_schema",
]

Check = Callable[[Mapping[str, Any]], None]
"""Raises ``Invalid`` when arguments do not fit."""

Given = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""Arguments as they came → the arguments that were given."""

_MOST_INTEGER_BITS: Final = 63
"""An integer parameter is at most what instruments and their drivers hold in a machine word."""


def compile_given(schema: Mapping[str, Any]) -> Given:
    """What takes out of arguments the optional ones that are null: they were left out.

    Clients that fill in every argument of a schema send null for what they do not mean. One that is
    required stays, and so does one that nobody knows: the check refuses both.

    Args:
        schema: an object at its root; objects inside it, and in lists, are read the same way.
    """
    optional = frozenset(schema.get("properties", ())) - frozenset(schema.get("required", ()))
    inside = {
        name: deeper
        for name, inner in schema.get("properties", {}).items()
        if (deeper := _given_inside(inner)) is not None
    }

    def given(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
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
    return lambda value: [items(one) for one in value] if isinstance(value, list) else value


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

    __slots__ = (
        "_check",
        "_checks",
        "_defaults",
        "_encoding",
        "_given",
        "_narrowed",
        "_owner",
        "_parameters",
        "schema",
    )

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
            if name in arguments:
                values[name] = self._value(parameter, arguments[name])
            elif name in self._defaults:
                values[name] = self._defaults[name]
        for parameter in self._narrowed:
            self._judge_narrowed(parameter, values)
        for expression in self._checks:
            self._judge_check(expression, values)
        return values

    def _value(self, parameter: Parameter, value: Scalar) -> Scalar:
        """One accepted value in its parameter's own type."""
        if isinstance(value, (bool, str)):
            if parameter.type is ParameterType.STRING and isinstance(value, str):
                self._judge_string(parameter.name, value)
            return value
        if parameter.type is ParameterType.FLOAT:
            return float(value)
        number = int(value)
        if number.bit_length() > _MOST_INTEGER_BITS:
            raise unfit_number(self._owner, parameter.name, value)
        return number

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
        )

    def _judge_narrowed(self, parameter: Parameter, values: Mapping[str, Scalar]) -> None:
        value = values.get(parameter.name)
        if value is None:
            return
        for case in narrowed(parameter, values):
            self._judge_bound(parameter, value, case.bound, case.when)

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
