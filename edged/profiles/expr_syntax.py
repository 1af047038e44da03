"""Text of the tiny expression language → a tree of four kinds of node.

A hand-written tokenizer and a Pratt parser: an operator binds its right side with the power that
``BINDING`` gives it, and everything a person could type that is not in the grammar is refused with
the column where it stands. There is no way to write a call or an attribute.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final

from edged.errors import ErrorCode, Invalid

__all__ = ["COMPARISONS", "Binary", "Literal", "Name", "Node", "Unary", "parse"]

MAX_CHARACTERS: Final = 200
MAX_DEPTH: Final = 32
"""Nested parentheses and prefix operators; keeps every walk of a tree far from Python's limit."""

_TOKEN: Final = re.compile(
    r"""[ \t]*(?:
      (?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?![A-Za-z0-9_.]))
    | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<string>"[^"\x00-\x1f]*"|'[^'\x00-\x1f]*')
    | (?P<operator>==|!=|<=|>=|[<>+\-*/()])
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


@dataclass(frozen=True, slots=True)
class Literal:
    """A number or a string as written."""

    value: float | int | str


@dataclass(frozen=True, slots=True)
class Name:
    """Something whose value the caller gives."""

    name: str


@dataclass(frozen=True, slots=True)
class Unary:
    """``-x``, ``+x`` or ``not x``."""

    operator: str
    operand: Node


@dataclass(frozen=True, slots=True)
class Binary:
    """``left operator right``."""

    operator: str
    left: Node
    right: Node


Node = Literal | Name | Unary | Binary


@dataclass(frozen=True, slots=True)
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
            raise _refusal(text, column + 1, f"has {text[column]!r} where it means nothing")
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
        return _refusal(self._text, token.column, f'has "{token.text}" where it means nothing')

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
                return Name(text)
            case "operator", "-" | "+":
                self._take()
                return Unary(token.text, self.expression(_SIGN_BINDS, depth + 1))
            case "operator", "not" if binds <= _NOT_BINDS:
                self._take()
                return Unary("not", self.expression(_NOT_BINDS, depth + 1))
            case "operator", "(":
                self._take()
                inside = self.expression(0, depth + 1)
                if self.here.text != ")" or self.here.kind != "operator":
                    raise self.unfit_here()
                self._take()
                return inside
            case _:
                raise self.unfit_here()

    def _number(self, text: str, column: int) -> float | int:
        if text.isdigit():
            return int(text)
        value = float(text)
        if not math.isfinite(value):
            raise _refusal(self._text, column, f"has the number {text}, which is too large")
        return value
