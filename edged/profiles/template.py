"""SCPI templates as parts: text, placeholders, and stretches that fall away.

``{name}`` or ``{name:FORMAT}`` is a placeholder; ``[,{name}]`` falls away when ``name`` has no
value; ``{{ }} [[ ]]`` are literal braces and brackets. FORMAT is one of Python's number formats
(``e f g d`` with sign, zero fill, width and precision) or ``q``: a quoted string.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from edged.errors import ErrorCode, Invalid

__all__ = [
    "Hole",
    "Optional",
    "Part",
    "Placeholder",
    "Text",
    "optional_names",
    "parse_template",
    "placeholders",
]

MAX_CHARACTERS: Final = 2_000
_FORMAT: Final = re.compile(r"q|\+?0?[0-9]{0,2}(?:\.[0-9]{1,2})?[efgEG]|\+?0?[0-9]{0,2}d")
_HOLE: Final = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)(?::([^{}]*))?\}")


@dataclass(frozen=True, slots=True)
class Text:
    """Goes out as it is."""

    text: str


@dataclass(frozen=True, slots=True)
class Hole:
    """A placeholder; ``format`` is empty when none was written."""

    name: str
    format: str


@dataclass(frozen=True, slots=True)
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
    if text is not None and _FORMAT.fullmatch(text) is None:
        raise _refusal(
            template, match.start(), f'has the format "{text}"; known are e, f, g, d and q'
        )
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
