"""The one tiny expression language: scaling, checks, polls, ranges.

Names, numbers, strings, ``+ - * / ( )``, ``== != < <= > >=``, ``and or not``; 200 characters; no
calls, no attributes. A chained comparison is refused, because half of the languages that people
know read ``a < b < c`` in another way.

Kinds do not mix: arithmetic and order take numbers (a bool is not a number), ``and or not`` take
truth values, ``==`` and ``!=`` take two of one kind. Whatever cannot be worked out raises
``Invalid`` with a sentence; nothing else is ever raised, whatever the values are.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, NoReturn

from edged.errors import Invalid
from edged.profiles.expr_syntax import COMPARISONS, Binary, Literal, Name, Node, Unary, parse
from edged.profiles.model import Scalar

__all__ = ["Expression", "Line", "compile_expression"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """``slope * x + intercept``: an expression seen as a function of one of its names."""

    slope: float
    intercept: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Expression:
    """A parsed expression; ``names`` are those whose values ``evaluate`` needs."""

    text: str
    names: frozenset[str]
    root: Node

    def evaluate(self, values: Mapping[str, Scalar]) -> Scalar:
        """The value with these names filled in.

        Raises:
            Invalid: a name without a value, kinds that do not mix, division by zero, a result or
                an input that is not a finite number.
        """
        try:
            return _value(self.root, values, self.text)
        except (OverflowError, ZeroDivisionError, ValueError) as error:
            why = "divides by zero" if isinstance(error, ZeroDivisionError) else "is too large"
            raise Invalid(
                f'The expression "{self.text}" {why} with these values.',
                data={"expression": self.text},
            ) from None

    def is_true(self, values: Mapping[str, Scalar]) -> bool:
        """The truth value, for checks and polls.

        Raises:
            Invalid: as ``evaluate``; also when the value is not a truth value.
        """
        value = self.evaluate(values)
        if not isinstance(value, bool):
            _refuse(self.text, "is no condition: its value is neither true nor false")
        return value

    def line(self, name: str, values: Mapping[str, Scalar]) -> Line | None:
        """This expression as a line in ``name``, for doing thousands of values at once.

        Returns:
            ``None`` when it is not a line (or not provably so, or not finite); never wrong.
        """
        try:
            return _line(self.root, name, values, self.text)
        except (OverflowError, ZeroDivisionError, ValueError, Invalid):
            return None


@functools.lru_cache(maxsize=4096)
def compile_expression(text: str) -> Expression:
    """Parse an expression once.

    Raises:
        Invalid: not in the grammar (code BAD_PROFILE); ``data`` has expression and column.
    """
    root = parse(text)
    return Expression(text=text, names=frozenset(_names(root)), root=root)


def _names(node: Node) -> list[str]:
    match node:
        case Name(name):
            return [name]
        case Unary(_, operand):
            return _names(operand)
        case Binary(_, left, right):
            return _names(left) + _names(right)
        case Literal():
            return []


def _refuse(text: str, why: str) -> NoReturn:
    raise Invalid(f'The expression "{text}" {why}.', data={"expression": text})


def _value(node: Node, values: Mapping[str, Scalar], text: str) -> Scalar:
    match node:
        case Literal(value):
            return value
        case Name(name):
            return _named(name, values, text)
        case Unary("not", operand):
            return not _truth(_value(operand, values, text), "not", text)
        case Unary(operator, operand):
            number = _number(_value(operand, values, text), operator, text)
            return -number if operator == "-" else number
        case Binary("and", left, right):
            if not _truth(_value(left, values, text), "and", text):
                return False
            return _truth(_value(right, values, text), "and", text)
        case Binary("or", left, right):
            if _truth(_value(left, values, text), "or", text):
                return True
            return _truth(_value(right, values, text), "or", text)
        case Binary(operator, left, right):
            first, second = _value(left, values, text), _value(right, values, text)
            if operator in COMPARISONS:
                return _compare(operator, first, second, text)
            return _arithmetic(
                operator, _number(first, operator, text), _number(second, operator, text)
            )


def _named(name: str, values: Mapping[str, Scalar], text: str) -> Scalar:
    value = values.get(name)
    # Values come from callers and instruments: what is not a Scalar is refused, not trusted.
    if not isinstance(value, (bool, int, float, str)):
        _refuse(text, f"needs {name}, which has no value here")
    if isinstance(value, float) and not math.isfinite(value):
        _refuse(text, f"needs {name}, which is not a finite number")
    return value


def _kind(value: Scalar) -> str:
    if isinstance(value, bool):
        return "truth value"
    return "string" if isinstance(value, str) else "number"


def _number(value: Scalar, operator: str, text: str) -> float | int:
    if isinstance(value, (bool, str)):
        _refuse(text, f'uses "{operator}" on a {_kind(value)}')
    return value


def _truth(value: Scalar, operator: str, text: str) -> bool:
    if not isinstance(value, bool):
        _refuse(text, f'uses "{operator}" on a {_kind(value)}')
    return value


def _compare(operator: str, left: Scalar, right: Scalar, text: str) -> bool:
    if _kind(left) != _kind(right):
        _refuse(text, f"compares a {_kind(left)} with a {_kind(right)}")
    if operator == "==":
        return left == right
    if operator == "!=":
        return left != right
    return _ORDER[operator](_number(left, operator, text), _number(right, operator, text))


_ORDER: Final[Mapping[str, Callable[[float, float], bool]]] = {
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
}


def _arithmetic(operator: str, left: float, right: float) -> float | int:
    match operator:
        case "+":
            result = left + right
        case "-":
            result = left - right
        case "*":
            result = left * right
        case _:
            result = left / right
    if not math.isfinite(result):  # of an int too large for a float: OverflowError, caught above
        raise OverflowError
    return result


def _line(node: Node, name: str, values: Mapping[str, Scalar], text: str) -> Line | None:
    match node:
        case Name(found) if found == name:
            return Line(slope=1.0, intercept=0.0)
        case Literal() | Name():
            return _flat(_number(_value(node, values, text), "line", text))
        case Unary("-" | "+" as sign, operand):
            line = _line(operand, name, values, text)
            factor = -1.0 if sign == "-" else 1.0
            return line and _stretched(line, factor)
        case Binary("+" | "-" | "*" | "/" as operator, left, right):
            first = _line(left, name, values, text)
            second = _line(right, name, values, text)
            return first and second and _combined(operator, first, second)
        case _:
            return None


def _combined(operator: str, first: Line, second: Line) -> Line | None:
    match operator:
        case "+" | "-":
            sign = 1.0 if operator == "+" else -1.0
            return _finite(
                first.slope + sign * second.slope, first.intercept + sign * second.intercept
            )
        case "*" if second.slope == 0.0:
            return _stretched(first, second.intercept)
        case "*" if first.slope == 0.0:
            return _stretched(second, first.intercept)
        case "/" if second.slope == 0.0:
            return _finite(first.slope / second.intercept, first.intercept / second.intercept)
        case _:
            return None


def _flat(value: float) -> Line | None:
    return _finite(0.0, float(value))


def _stretched(line: Line, factor: float) -> Line | None:
    return _finite(line.slope * factor, line.intercept * factor)


def _finite(slope: float, intercept: float) -> Line | None:
    if math.isfinite(slope) and math.isfinite(intercept):
        return Line(slope=slope, intercept=intercept)
    return None
