"""A connection as JSON-ready facts and back: what the journal keeps of how to speak to a unit.

After a crash the lines that make an instrument safe go out before any profile is read. What only
discovery needs (the probe, and how patient it is) is not kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from edged.profiles.model import Connection, ErrorCheck
from edged.scpi.answer_text import ErrorKind

__all__ = ["connection_facts", "connection_of"]

_WHOLE: Final = ("timeout_ms", "open_timeout_ms", "after_write_ms", "min_gap_ms")
_WHOLE_OR_NONE: Final = ("chunk_bytes", "baud_rate", "data_bits")
_TEXT: Final = ("read_termination", "write_termination", "encoding")
_TEXT_OR_NONE: Final = ("parity", "flow", "acknowledge")
_LINES: Final = ("on_connect", "on_release")


def connection_facts(connection: Connection) -> dict[str, Any]:
    """What ``connection_of`` makes the same connection of."""
    names = (*_WHOLE, *_WHOLE_OR_NONE, *_TEXT, *_TEXT_OR_NONE, "stop_bits")
    errors = connection.errors
    return {
        **{name: getattr(connection, name) for name in names},
        **{name: list(getattr(connection, name)) for name in _LINES},
        "errors": [errors.kind.value, errors.query, errors.detail],
    }


def connection_of(facts: object) -> Connection | None:
    """The connection; ``None`` for whatever ``connection_facts`` does not make."""
    if not isinstance(facts, Mapping):
        return None
    readers: tuple[tuple[tuple[str, ...], Callable[[object], Any]], ...] = (
        (_WHOLE, _whole),
        (_WHOLE_OR_NONE, _whole_or_none),
        (_TEXT, _text),
        (_TEXT_OR_NONE, _text_or_none),
        (_LINES, _lines),
        (("stop_bits",), _number_or_none),
    )
    try:
        kind, query, detail = map(_text, facts["errors"])
        values = {name: read(facts[name]) for names, read in readers for name in names}
        errors = ErrorCheck(kind=ErrorKind(kind), query=query, detail=detail)
        return replace(Connection(errors=errors), **values)
    except (KeyError, TypeError, ValueError):
        return None


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(value)
    return value


def _whole_or_none(value: object) -> int | None:
    return None if value is None else _whole(value)


def _text_or_none(value: object) -> str | None:
    return None if value is None else _text(value)


def _number_or_none(value: object) -> float | None:
    return value if isinstance(value, float) else _whole_or_none(value)


def _lines(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise TypeError(value)
    return tuple(map(_text, value))
