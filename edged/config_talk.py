"""How an entry of INSTRUMENTS has its instrument spoken to: error checks, probe, last words.

The same as a profile's ``connection`` has, for one instrument, and under the same rules of safety:
connecting changes no output, and letting go may only switch one off.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from edged.config_source import Value
from edged.config_values import BadValue
from edged.output_words import why_not_on_connect, why_not_on_release
from edged.slow_patterns import MAX_PATTERN, why_slow

__all__ = ["TALK_FIELDS", "ErrorsEntry", "ProbeEntry"]

MOST_LINES: Final = 20
LONGEST_LINE: Final = 200
ERROR_KINDS: Final = ("queue", "esr", "code")
ENCODINGS: Final = ("ascii", "latin-1", "utf-8")


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorsEntry:
    """An error check; ``kind`` is one of the profile format's, "none" for no check at all."""

    kind: str = "none"
    query: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeEntry:
    """A question and the pattern of its answer; without a query none is asked at all."""

    query: str = ""
    expect: str = ""


def _encoding(value: Value, _base: Path) -> str:
    if value.text not in ENCODINGS:
        raise BadValue(f"must be one of {', '.join(ENCODINGS)}", value)
    return value.text


def _errors(value: Value, _base: Path) -> ErrorsEntry:
    if value.data == "none":
        return ErrorsEntry()
    fields = _fields(value, ("kind", "query"), ("detail",), 'none or {query: "SYST:ERR?", kind: …}')
    kind = fields["kind"]
    if kind.text not in ERROR_KINDS:
        raise BadValue(f"has the kind {kind.text}; it must be {', '.join(ERROR_KINDS)}", kind)
    detail = fields.get("detail")
    return ErrorsEntry(
        kind=kind.text,
        query=_query(fields["query"]),
        detail="" if detail is None else _query(detail),
    )


def _acknowledge(value: Value, _base: Path) -> str:
    return "" if value.data == "none" else _pattern(value)


def _probe(value: Value, _base: Path) -> ProbeEntry:
    if value.data == "none":
        return ProbeEntry()
    fields = _fields(value, ("query", "expect"), (), 'none or {query: "ID?", expect: "^HEATER"}')
    return ProbeEntry(query=_query(fields["query"]), expect=_pattern(fields["expect"]))


def _lines(why_not: Callable[[str], str]) -> Callable[[Value, Path], tuple[str, ...]]:
    """A list of SCPI lines of which each has no reason against it."""

    def parse(value: Value, _base: Path) -> tuple[str, ...]:
        if not isinstance(value.data, list) or len(value.data) > MOST_LINES:
            raise BadValue(f'must be a list of at most {MOST_LINES} lines like ["HEAD OFF"]', value)
        lines = []
        for entry in value.data:
            line = _line(entry)
            why = why_not(line)
            if why:
                raise BadValue(f'has "{line}", which {why}', entry)
            lines.append(line)
        return tuple(lines)

    return parse


def _fields(
    value: Value, needed: tuple[str, ...], more: tuple[str, ...], like: str
) -> dict[str, Value]:
    if not isinstance(value.data, dict) or not set(needed) <= set(value.data):
        raise BadValue(f"must be {like}", value)
    for name, entry in value.data.items():
        if name not in needed and name not in more:
            told = ", ".join((*needed, *more))
            raise BadValue(f"has the unknown field {name} (there are {told})", entry)
    return dict(value.data)


def _line(value: Value) -> str:
    text = value.data
    if not isinstance(text, str) or not text.strip() or not text.isprintable():
        raise BadValue("must hold printable SCPI lines", value)
    if len(text) > LONGEST_LINE:
        raise BadValue(f"has a line of more than {LONGEST_LINE} characters", value)
    return text


def _query(value: Value) -> str:
    line = _line(value)
    if "?" not in line:
        raise BadValue(f'has "{line}", which is no query (it has no "?")', value)
    return line


def _pattern(value: Value) -> str:
    text = value.data
    if not isinstance(text, str) or not 0 < len(text) <= MAX_PATTERN:
        raise BadValue(f"must have a pattern of 1 to {MAX_PATTERN} characters", value)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            re.compile(text)
    except (re.error, OverflowError, RecursionError, Warning) as error:
        raise BadValue(f"has a pattern that is no regular expression: {error}", value) from error
    slow = why_slow(text)
    if slow:
        raise BadValue(f"has a pattern that can take very long: {slow}", value)
    return text


TALK_FIELDS: Final[dict[str, Callable[[Value, Path], Any]]] = {
    "encoding": _encoding,
    "errors": _errors,
    "acknowledge": _acknowledge,
    "probe": _probe,
    "on_connect": _lines(why_not_on_connect),
    "on_release": _lines(why_not_on_release),
}
