"""A connection as JSON-ready facts and back: what the journal keeps of how to speak to a unit.

After a crash the lines that make an instrument safe go out before any profile is read: how the unit
says who it is stands there too. What only discovery needs (how patient it is) is not kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from edged.profiles.model import Connection, ErrorCheck, Identify, Probe
from edged.scpi.kinds import ErrorKind

_WHOLE: Final = ("timeout_ms", "open_timeout_ms", "after_write_ms", "min_gap_ms")
_WHOLE_OR_NONE: Final = ("chunk_bytes", "baud_rate", "data_bits")
_TEXT: Final = ("read_termination", "write_termination", "encoding")
_TEXT_OR_NONE: Final = ("parity", "flow", "acknowledge")
_LINES: Final = ("on_connect", "on_release", "before")
_ERRORS: Final = ("query", "detail", "pattern", "none")


def connection_facts(connection: Connection) -> dict[str, Any]:
    """What ``connection_of`` makes the same connection of."""
    names = (*_WHOLE, *_WHOLE_OR_NONE, *_TEXT, *_TEXT_OR_NONE, "stop_bits")
    errors = connection.errors
    return {
        **{name: getattr(connection, name) for name in names},
        **{name: list(getattr(connection, name)) for name in _LINES},
        "errors": [errors.kind.value, *(getattr(errors, name) for name in _ERRORS)],
        **_naming_facts(connection),
    }


def _naming_facts(connection: Connection) -> dict[str, Any]:
    """How it says who it is, where that is not by ``*IDN?``."""
    if connection.asks_idn:
        return {}
    asked, probe = connection.identify, connection.probe
    return {
        "unit_name": connection.unit_name,
        "never_ask_idn": connection.never_ask_idn,
        "identify": [] if asked is None else [asked.ask, asked.expect, asked.serial],
        "probe": [] if probe is None else [probe.query, probe.expect],
    }


def _naming_of(facts: Mapping[str, Any]) -> dict[str, Any]:
    if "unit_name" not in facts:
        return {}
    asked, probe = _lines(facts["identify"]), _lines(facts["probe"])
    return {
        "unit_name": _text(facts["unit_name"]),
        "never_ask_idn": facts["never_ask_idn"] is True,
        "identify": Identify(**dict(zip(("ask", "expect", "serial"), asked, strict=True)))
        if asked
        else None,
        "probe": Probe(**dict(zip(("query", "expect"), probe, strict=True))) if probe else None,
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
        kind, *said = _lines(facts["errors"])
        facts = {"before": [], **facts}  # A row of an earlier version has none.
        values = {name: read(facts[name]) for names, read in readers for name in names}
        # A row of an earlier version has no patterns.
        names = _ERRORS[:2] if len(said) == 2 else _ERRORS
        errors = ErrorCheck(kind=ErrorKind(kind), **dict(zip(names, said, strict=True)))
        return replace(Connection(errors=errors), **values, **_naming_of(facts))
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
