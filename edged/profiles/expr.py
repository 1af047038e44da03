"""The one tiny expression language: scaling, checks, polls, ranges.

Names, numbers, strings, ``+ - * / ( )``, ``== != < <= > >=``, ``and or not``, the functions of
``FUNCTIONS``; 200 characters; no attributes. A chained comparison is refused, because half of the
languages that people know read ``a < b < c`` in another way.

Kinds do not mix: arithmetic and order take numbers (a bool is not a number), ``and or not`` take
truth values, ``==`` and ``!=`` take two of one kind. Whatever cannot be worked out raises
``Invalid`` with a sentence; nothing else is ever raised, whatever the values are.

Text of the tiny expression language → a tree of five kinds of node.

A hand-written tokenizer and a Pratt parser: an operator binds its right side with the power that
``BINDING`` gives it, and everything a person could type that is not in the grammar is refused with
the column where it stands. A name in front of ``(`` is a function's, any other a value's: the two
do not mix. There is no way to write an attribute or a function that is not in ``FUNCTIONS``.

What a value in a sequence means: a literal, a name in braces, or an expression.

- ``"{name}"`` is the named value with its kind kept; ``"{2 * voltage}"`` is an expression.
- Where only a number makes sense (the columns of ``row``, the ends of ``lin`` and ``log``), an
  expression may stand without braces: these are the *bare* places.
- Everything else is itself: ``"DC"`` is text, ``0.5`` a number, ``true`` a bool.

Filling in is ``runs/sequences``'s business, where the values are.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Mapping
from typing import Final, NoReturn

from edged.errors import ErrorCode, Invalid
from edged.record import record
from edged.yaml.tree import Scalar

MAX_CHARACTERS: Final = 200
MAX_DEPTH: Final = 32
"""Nested parentheses and prefix operators; keeps every walk of a tree far from Python's limit."""

_TOKEN: Final = re.compile(
    r"""[ \t]*(?:
      (?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?![A-Za-z0-9_.]))
    | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<string>"[^"\x00-\x1f]*"|'[^'\x00-\x1f]*')
    | (?P<operator>==|!=|<=|>=|[<>+\-*/(),])
    )""",
    re.VERBOSE,
)

COMPARISONS: Final = frozenset({"==", "!=", "<", "<=", ">", ">="})

_NOT_BINDS: Final = 3
_COMPARISON_BINDS: Final = 4
_SIGN_BINDS: Final = 7
BINDING: Final = {
    "or": 1,
    "and": 2,
    **dict.fromkeys(COMPARISONS, _COMPARISON_BINDS),
    "+": 5,
    "-": 5,
    "*": 6,
    "/": 6,
}
_WORDS: Final = frozenset({"and", "or", "not"})
FUNCTIONS: Final[Mapping[str, Callable[..., float]]] = {
    "abs": abs,
    "min": min,
    "max": max,
    "sqrt": math.sqrt,
    "log10": math.log10,
    "exp": math.exp,
    "round": round,
}
"""Each takes one number, but for those of ``OF_MANY``, which take two or more."""
OF_MANY: Final = frozenset({"min", "max"})


@record(kw_only=False)
class Literal:
    """A number or a string as written."""

    value: float | int | str


@record(kw_only=False)
class Name:
    """Something whose value the caller gives."""

    name: str


@record(kw_only=False)
class Unary:
    """``-x``, ``+x`` or ``not x``."""

    operator: str
    operand: Node


@record(kw_only=False)
class Binary:
    """``left operator right``."""

    operator: str
    left: Node
    right: Node


@record(kw_only=False)
class FunctionCall:
    """``function(arguments)``; as many as it takes."""

    function: str
    arguments: tuple[Node, ...]


Node = Literal | Name | Unary | Binary | FunctionCall


@record(kw_only=False)
class _Token:
    """One word of the text; ``kind`` is number, name, string, operator or end; columns from 1."""

    kind: str
    text: str
    column: int


def parse(text: str) -> Node:
    """The tree of an expression.

    Raises:
        Invalid: not in the grammar; ``code`` BAD_PROFILE, ``data`` has expression and column.
    """
    if len(text) > MAX_CHARACTERS:
        raise _refusal(text[:40] + "…", 1, f"is longer than {MAX_CHARACTERS} characters")
    parser = _Parser(text, _tokens(text))
    node = parser.expression(0, 0)
    if parser.here.kind != "end":
        raise parser.unfit_here()
    return node


def _tokens(text: str) -> list[_Token]:
    found: list[_Token] = []
    position, end = 0, len(text.rstrip(" \t"))
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None or match.lastgroup is None:
            column = position + len(text[position:]) - len(text[position:].lstrip(" \t"))
            raise _refusal(text, column + 1, f"has {text[column]!r} where it is not allowed")
        kind = match.lastgroup
        word = match.group(kind)
        if kind == "name" and word in _WORDS:
            kind = "operator"
        found.append(_Token(kind, word, match.start(match.lastgroup) + 1))
        position = match.end()
    found.append(_Token("end", "", len(text) + 1))
    return found


def _refusal(text: str, column: int, why: str) -> Invalid:
    return Invalid(
        f'The expression "{text}" {why} (column {column}).',
        code=ErrorCode.BAD_PROFILE,
        data={"expression": text, "column": column},
    )


class _Parser:
    """Walks the tokens once, left to right."""

    def __init__(self, text: str, tokens: list[_Token]) -> None:
        self._text = text
        self._tokens = tokens
        self._index = 0

    @property
    def here(self) -> _Token:
        """The token not taken yet."""
        return self._tokens[self._index]

    def unfit_here(self) -> Invalid:
        """The refusal of the present token."""
        token = self.here
        if token.kind == "end":
            return _refusal(self._text, token.column, "ends too early")
        if token.text == ",":
            why = 'has "," where it is not allowed; the decimal mark is "."'
            return _refusal(self._text, token.column, why)
        return _refusal(self._text, token.column, f'has "{token.text}" where it is not allowed')

    def _take(self) -> _Token:
        token = self.here
        self._index += 1
        return token

    def expression(self, binds: int, depth: int) -> Node:
        """A node whose operators all bind at least as tightly as ``binds``."""
        if depth > MAX_DEPTH:
            raise _refusal(self._text, self.here.column, f"is nested deeper than {MAX_DEPTH}")
        left = self._prefix(binds, depth)
        is_compared = False
        while True:
            token = self.here
            power = BINDING.get(token.text, -1) if token.kind == "operator" else -1
            if power < 0 or power < binds:
                return left
            if power == _COMPARISON_BINDS and is_compared:
                raise _refusal(self._text, token.column, 'compares twice; write "a < b and b < c"')
            is_compared = power == _COMPARISON_BINDS
            self._take()
            left = Binary(token.text, left, self.expression(power + 1, depth + 1))

    def _prefix(self, binds: int, depth: int) -> Node:
        token = self.here
        match token.kind, token.text:
            case "number", text:
                self._take()
                return Literal(self._number(text, token.column))
            case "string", text:
                self._take()
                return Literal(text[1:-1])
            case "name", text:
                self._take()
                return self._call(token, depth) if self._is_at("(") else Name(text)
            case "operator", "-" | "+":
                self._take()
                return Unary(token.text, self.expression(_SIGN_BINDS, depth + 1))
            case "operator", "not" if binds <= _NOT_BINDS:
                self._take()
                return Unary("not", self.expression(_NOT_BINDS, depth + 1))
            case "operator", "(":
                self._take()
                inside = self.expression(0, depth + 1)
                self._close()
                return inside
            case _:
                raise self.unfit_here()

    def _call(self, name: _Token, depth: int) -> FunctionCall:
        if name.text not in FUNCTIONS:
            why = f"has no function {name.text}; there are {', '.join(FUNCTIONS)}"
            raise _refusal(self._text, name.column, why)
        arguments: list[Node] = []
        while not arguments or self._is_at(","):
            self._take()
            arguments.append(self.expression(0, depth + 1))
        self._close()
        is_of_many = name.text in OF_MANY
        if (len(arguments) > 1) is not is_of_many:
            takes = "two numbers or more" if is_of_many else "one number"
            why = f"gives {len(arguments)} to {name.text}, which takes {takes}"
            raise _refusal(self._text, name.column, why)
        return FunctionCall(name.text, tuple(arguments))

    def _is_at(self, operator: str) -> bool:
        return self.here.kind == "operator" and self.here.text == operator

    def _close(self) -> None:
        if not self._is_at(")"):
            raise self.unfit_here()
        self._take()

    def _number(self, text: str, column: int) -> float | int:
        if text.isdigit():
            return int(text)
        value = float(text)
        if not math.isfinite(value):
            raise _refusal(self._text, column, f"has the number {text}, which is too large")
        return value


def is_condition(root: Node | None) -> bool:
    """Whether the value of a tree is true or false, whatever its names are."""
    match root:
        case Unary("not") | Binary("and") | Binary("or"):
            return True
        case Binary(operator):
            return operator in COMPARISONS
        case _:
            return False


@record
class LinearForm:
    """``slope * x + intercept``: an expression seen as a function of one of its names."""

    slope: float
    intercept: float


@record
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
            _refuse(self.text, "is not a condition: its value is neither true nor false")
        return value

    def line(self, name: str, values: Mapping[str, Scalar]) -> LinearForm | None:
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
        case FunctionCall(_, arguments):
            return [name for argument in arguments for name in _names(argument)]
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
        case FunctionCall(name, arguments):
            found = [_number(_value(one, values, text), name, text) for one in arguments]
            return _called(name, found, text)


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
    return _checked(result)


def _checked(result: float) -> float | int:
    if not math.isfinite(result):  # of an int too large for a float: OverflowError, caught above
        raise OverflowError
    return result


def _called(name: str, numbers: list[float], text: str) -> float | int:
    try:
        return _checked(FUNCTIONS[name](*numbers))
    except ValueError:
        _refuse(text, f"needs {name}({numbers[0]:g}), which has no value")


def _line(node: Node, name: str, values: Mapping[str, Scalar], text: str) -> LinearForm | None:
    match node:
        case Name(found) if found == name:
            return LinearForm(slope=1.0, intercept=0.0)
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


def _combined(operator: str, first: LinearForm, second: LinearForm) -> LinearForm | None:
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


def _flat(value: float) -> LinearForm | None:
    return _finite(0.0, float(value))


def _stretched(line: LinearForm, factor: float) -> LinearForm | None:
    return _finite(line.slope * factor, line.intercept * factor)


def _finite(slope: float, intercept: float) -> LinearForm | None:
    if math.isfinite(slope) and math.isfinite(intercept):
        return LinearForm(slope=slope, intercept=intercept)
    return None


_NAME: Final = re.compile(r"[a-z][a-z0-9_]*")


def expression_text(value: object, *, is_bare: bool) -> str | None:
    """The expression that ``value`` holds, or ``None`` when it is a literal."""
    if not isinstance(value, str):
        return None
    if len(value) > 1 and value.startswith("{") and value.endswith("}"):
        return value[1:-1].strip()
    return value if is_bare else None


def names_in(value: object, *, is_bare: bool = False) -> frozenset[str]:
    """The names whose values are needed to know ``value``.

    Raises:
        Invalid: an expression that is none.
    """
    text = expression_text(value, is_bare=is_bare)
    if text is None:
        return frozenset()
    if _NAME.fullmatch(text):
        return frozenset({text})
    return compile_expression(text).names
