"""What a literal expression of Python is worth, read off its tree: nothing is run.

Numbers, texts and truths, what is made of them by signs and plain arithmetic, lists, tuples, sets,
mappings and ``range``, and the names of constants that are given a value once. Bounded in depth, in
elements and in the size of numbers, so that no source costs more than its own length.
"""

from __future__ import annotations

import ast
import math
import re
import string
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

MAX_DEPTH: Final = 24
MAX_ELEMENTS: Final = 1_000
MAX_TEXT: Final = 4_000
MAX_RANGE: Final = 10**12
MAX_NUMBER: Final = 1e300
_FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "max": max, "min": min, "abs": abs, "round": round, "int": int, "float": float,
}  # fmt: skip
_WHOLE_SPEC: Final = re.compile(r"0?[0-9]{0,2}d?")
_PLACES: Final = re.compile(r"%.")
Lookup = Callable[[ast.expr], ast.expr | None]
"""The expression that a name stands for; none where it is no constant."""


class NotLiteralError(Exception):
    """An expression that only running would tell; its text says what it is."""


def literal(node: ast.expr, lookup: Lookup) -> Any:
    """The value of an expression: plain values, lists, dicts and ranges.

    Raises:
        NotLiteralError: running would tell, or it is over a bound.
    """
    return _Reader(lookup).read(node, 0)


def shown(node: ast.AST) -> str:
    """An expression in short, for people."""
    match node:
        case ast.Name(id=name):
            return name[:40]
        case ast.Attribute(attr=name):
            return f"….{name[:40]}"
        case ast.Call(func=func):
            return f"{shown(func)}(…)"
        case ast.Lambda():
            return "a lambda"
        case ast.Constant(value=value):
            return repr(value)[:40] if not isinstance(value, int) else "a number"
        case _:
            return f"{type(node).__name__}"


class _Reader:
    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup
        self._left = MAX_ELEMENTS
        # Constants made of constants could double at each level.
        self._steps = 4 * MAX_ELEMENTS

    def read(self, node: ast.expr, depth: int) -> Any:
        self._steps -= 1
        if depth > MAX_DEPTH or self._steps < 0:
            raise NotLiteralError("nested too deeply")
        inner = depth + 1
        match node:
            case ast.Constant(value=bool() | int() | float() | str() | None):
                return _bounded(node.value)
            case ast.UnaryOp(op=ast.USub() | ast.UAdd() as sign, operand=operand):
                value = _number(self.read(operand, inner))
                return -value if isinstance(sign, ast.USub) else value
            case ast.BinOp(left=left, op=op, right=right):
                return _bounded(_joined(op, self.read(left, inner), self.read(right, inner)))
            case ast.JoinedStr(values=parts):
                return _bounded("".join(self._piece(part, inner) for part in parts))
            case ast.List() | ast.Tuple() | ast.Set():
                return list(self._elements(node.elts, inner))
            case ast.Dict(keys=keys, values=values):
                return self._mapping(keys, values, inner)
            case ast.Call(func=ast.Attribute(value=text, attr="format")):
                return _bounded(self._formatted(text, node, inner))
            case ast.Call(func=ast.Name(id="range" | "list" | "tuple" as name)):
                return self._called(name, node, inner)
            case ast.Call(func=ast.Name(id=name), args=[_, *_], keywords=[]) if name in _FUNCTIONS:
                return self._worked_out(name, [self.read(one, inner) for one in node.args])
            case ast.Subscript(value=of, slice=index):
                return _piece_of(self.read(of, inner), self.read(index, inner))
            case ast.Name() | ast.Attribute():
                stands_for = self._lookup(node)
                if stands_for is None:
                    raise NotLiteralError(shown(node))
                return self.read(stands_for, inner)
            case _:
                raise NotLiteralError(shown(node))

    def _piece(self, node: ast.expr, depth: int) -> str:
        """A part of an f-string: text, or a plain value in a plain format."""
        spec = ""
        match node:
            case ast.FormattedValue(value=value, conversion=-1 | 115, format_spec=form):
                found = self.read(value, depth)
                spec = "" if form is None else self.read(form, depth)
            case _:
                found = self.read(node, depth)
        return _written(found, spec)

    def _formatted(self, text: ast.expr, call: ast.Call, depth: int) -> str:
        """What ``text.format(…)`` gives of plain values in plain formats."""
        form = self.read(text, depth)
        if not isinstance(form, str):
            raise NotLiteralError(shown(call))
        given: dict[str, ast.expr] = {str(n): one for n, one in enumerate(call.args)}
        given |= {one.arg: one.value for one in call.keywords if one.arg is not None}
        try:
            pieces = list(string.Formatter().parse(form))
        except ValueError:
            raise NotLiteralError("a text with a format of its own") from None
        names = [name for _, name, _, _ in pieces if name is not None]
        if "" in names and any(name.isdigit() for name in names):
            raise NotLiteralError("a text with a format of its own")
        made, place = "", 0
        for plain, name, spec, conversion in pieces:
            made += plain
            if name is None:
                continue
            node = given.get(name or str(place))
            place += not name
            if node is None or isinstance(node, ast.Starred) or conversion not in (None, "s"):
                raise NotLiteralError("a text with a format of its own")
            made += _written(self.read(node, depth), spec or "")
        return made

    def _worked_out(self, name: str, arguments: list[Any]) -> Any:
        """What a function of numbers gives."""
        if len(arguments) == 1 and isinstance(arguments[0], list) and name in ("max", "min"):
            arguments = arguments[0]
        try:
            return _bounded(_FUNCTIONS[name](*map(_number, arguments)))
        except (ArithmeticError, TypeError, ValueError):
            raise NotLiteralError(f"{name}(…)") from None

    def _elements(self, nodes: list[ast.expr], depth: int) -> Iterator[Any]:
        for node in nodes:
            self._left -= 1
            if self._left < 0:
                raise NotLiteralError(f"more than {MAX_ELEMENTS} elements")
            yield self.read(node, depth)

    def _mapping(
        self, keys: list[ast.expr | None], values: list[ast.expr], depth: int
    ) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        if None in keys:
            raise NotLiteralError("a mapping with another inside")
        known = [key for key in keys if key is not None]
        for key, value in zip(
            self._elements(known, depth), self._elements(values, depth), strict=True
        ):
            if not isinstance(key, bool | int | float | str):
                raise NotLiteralError("a mapping with a key that is not a plain value")
            if key in found:
                # 1, 1.0 and True are one key; which label was meant, nobody can tell.
                raise NotLiteralError(f"a mapping that has {str(key)[:40]} twice")
            found[key] = value
        return found

    def _called(self, name: str, call: ast.Call, depth: int) -> list[Any] | range:
        if call.keywords or any(isinstance(one, ast.Starred) for one in call.args):
            raise NotLiteralError(f"{name}(…)")
        arguments = [self.read(one, depth) for one in call.args]
        if name != "range":
            if len(arguments) != 1 or not isinstance(arguments[0], list | range):
                raise NotLiteralError(f"{name}(…)")
            if len(arguments[0]) > MAX_ELEMENTS:
                raise NotLiteralError(f"more than {MAX_ELEMENTS} elements")
            return list(arguments[0])
        if not 1 <= len(arguments) <= 3 or not all(type(one) is int for one in arguments):
            raise NotLiteralError("range(…)")
        if len(arguments) == 3 and arguments[2] == 0:
            raise NotLiteralError("range(…) by 0")
        if max(map(abs, arguments)) > MAX_RANGE:
            raise NotLiteralError("a range of too many numbers")
        return range(*arguments)


def _written(found: Any, spec: str) -> str:
    """A plain value in a plain format."""
    if isinstance(found, bool) or not isinstance(found, str | int | float):
        raise NotLiteralError("a text made of what is no text")
    if not spec:
        return str(found)
    if type(found) is not int or not _WHOLE_SPEC.fullmatch(spec):
        raise NotLiteralError("a text with a format of its own")
    return format(found, spec)


def _number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise NotLiteralError("arithmetic with what is not a number")
    return value


def _piece_of(whole: Any, index: Any) -> Any:
    """One element of a list, or of a mapping."""
    try:
        if isinstance(whole, list) and type(index) is not int:
            raise NotLiteralError("a part of a list")
        if isinstance(whole, list | dict):
            return whole[index]
    except (LookupError, TypeError):
        pass
    raise NotLiteralError("an element that is not there")


def _joined(op: ast.operator, left: Any, right: Any) -> Any:
    if isinstance(op, ast.Add) and isinstance(left, str) and isinstance(right, str):
        return left + right
    if isinstance(op, ast.Add) and isinstance(left, list) and isinstance(right, list):
        if len(left) + len(right) > MAX_ELEMENTS:
            raise NotLiteralError(f"more than {MAX_ELEMENTS} elements")
        return left + right
    if isinstance(op, ast.Mod) and isinstance(left, str):
        return _filled_in(left, right)
    left, right = _number(left), _number(right)
    try:
        match op:
            case ast.Add():
                return left + right
            case ast.Sub():
                return left - right
            case ast.Mult():
                return left * right
            case ast.Div():
                return left / right
            case ast.FloorDiv():
                return left // right
            case ast.Mod():
                return left % right
            case ast.LShift() if abs(left) <= 2**32 and 0 <= right <= 64:
                return left << right
            case ast.RShift() if 0 <= right <= 64:
                return left >> right
            case ast.Pow() if abs(left) <= 1_000 and abs(right) <= 64:
                return left**right
            case _:
                raise NotLiteralError("arithmetic of another kind")
    except (ArithmeticError, TypeError, ValueError):
        raise NotLiteralError("arithmetic without a result") from None


def _filled_in(text: str, value: Any) -> str:
    """A text of ``%`` with one plain value in it."""
    is_plain = isinstance(value, str | int | float) and not isinstance(value, bool)
    places = _PLACES.findall(text)
    if not is_plain or places not in (["%s"], ["%d"]) or text.count("%") != 1:
        raise NotLiteralError("a text with a format of its own")
    if places == ["%d"] and type(value) is not int:
        raise NotLiteralError("a text made of what is no whole number")
    return text.replace(places[0], str(value))


def _bounded(value: Any) -> Any:
    if isinstance(value, str) and len(value) > MAX_TEXT:
        raise NotLiteralError(f"a text of more than {MAX_TEXT} characters")
    if isinstance(value, int | float) and not isinstance(value, bool):
        is_finite = not isinstance(value, float) or math.isfinite(value)
        if not is_finite or abs(value) > MAX_NUMBER:
            raise NotLiteralError("a number out of all bounds")
    if isinstance(value, complex):
        raise NotLiteralError("a complex number")
    return value
