"""The tree of a YAML document, in which every node knows its place.

Profiles, bench files and the configuration are read from it; how it is made from text is
``source``'s matter, and only that module needs a YAML parser.

What is wrong with a YAML file, and where.

What a plain YAML scalar means: YAML 1.2's core schema (section 10.3.2 of its specification).

``on``, ``off``, ``yes`` and ``no`` are strings, ``017`` is seventeen, and a number is finite: what
is configured with these ends up as a limit or a set-point.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Final

from edged.errors import ErrorCode, Invalid
from edged.record import record

Scalar = float | int | str | bool


@record
class Mark:
    """Where something stands in a file; line and column count from 1."""

    path: str
    line: int
    column: int

    @property
    def place(self) -> str:
        """As compilers write it, so that editors jump there."""
        return f"{self.path}:{self.line}:{self.column}"


@record(kw_only=False)
class ScalarNode:
    """A scalar: its YAML 1.2 value (``None`` for null) and the text as written."""

    mark: Mark
    value: Scalar | None
    text: str


@record(kw_only=False)
class ListNode:
    """A sequence of nodes."""

    mark: Mark
    items: tuple[Node, ...]


@record(kw_only=False)
class MapNode:
    """A mapping in the file's order; ``keys`` has the key's own node (its place and its value)."""

    mark: Mark
    entries: Mapping[str, Node]
    keys: Mapping[str, ScalarNode]


Node = ScalarNode | ListNode | MapNode


_MOST_CHARACTERS: Final = 400


class YamlProblem(Invalid):
    """The text cannot be used. ``mark`` is where; ``sentence`` is said without it."""

    def __init__(self, mark: Mark, sentence: str, remedy: str = "") -> None:
        self.mark = mark
        self.sentence = quotable(sentence)
        super().__init__(
            f"{mark.place}: {self.sentence}",
            code=ErrorCode.BAD_CONFIG,
            data={"path": mark.path, "line": mark.line, "column": mark.column},
            remedy=remedy,
        )


def quotable(message: str) -> str:
    """Shortened and printable: what is quoted from a file ends in logs and on terminals."""
    shown = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in message)
    return shown if len(shown) <= _MOST_CHARACTERS else shown[: _MOST_CHARACTERS - 1] + "…"


_INT: Final = re.compile(r"[-+]?[0-9]+")
_OCTAL: Final = re.compile(r"0o[0-7]+")
_HEX: Final = re.compile(r"0x[0-9a-fA-F]+")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE: Final = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_WORDS: Final[Mapping[str, Scalar | None]] = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
}  # fmt: skip
_MOST_DIGITS: Final = 400
"""Longer ones stay text; turning digits into a number is quadratic."""


class NotFinite(ValueError):
    """The text is infinity, not a number, or over a double's range."""


def core_scalar(text: str) -> Scalar | None:
    """The value of an unquoted scalar; ``None`` for null.

    Raises:
        NotFinite: see there.
    """
    if text in _WORDS:
        return _WORDS[text]
    if len(text) > _MOST_DIGITS or text[0] not in "+-.0123456789":
        return text
    if _INT.fullmatch(text):
        return int(text)
    if _HEX.fullmatch(text):
        return int(text[2:], 16)
    if _OCTAL.fullmatch(text):
        return int(text[2:], 8)
    if _NOT_FINITE.fullmatch(text):
        raise NotFinite(f"{text} is not a finite number.")
    if _FLOAT.fullmatch(text):
        value = float(text)
        if math.isinf(value):
            raise NotFinite(f"{text} is not a finite number.")
        return value
    return text
