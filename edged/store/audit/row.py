"""A row of the audit as it is stored and read, and the hash over it. Pure.

The hash is taken over each value with its type and length, so text that was moved from one column
to another gives another hash. Rows of former versions were hashed over their values joined by a
separator; ``former_row_hash`` is their rule.

An entry of the audit: what is noted of an action, and the texts that are stored of it. Pure.

What is noted is bounded at once, because it may wait in memory; it is freed of secrets and control
characters when it becomes a row, on the store thread. Stored texts hold no control characters but
the line ends between SCPI lines.
"""

from __future__ import annotations

import enum
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import lru_cache
from typing import Any, Final, NamedTuple

from edged.log import scrub
from edged.protocol.jsonrpc import encode_text
from edged.record import record

SEPARATOR: Final = "\x1f"
RETENTION_TOOL: Final = "audit.retention"
"""Stands as the tool in events that tell of removed rows; no caller can make an event."""
GENESIS: Final = bytes(32)
"""Stands for the hash before the first row."""


class Phase(enum.StrEnum):
    """Which moment of an action a row tells of.

    ``INTENT`` stands before the first byte of a write; ``END`` after whatever was run; ``REFUSAL``
    for what was not; ``EVENT`` is no action but something that happened to the record itself.
    """

    INTENT = "intent"
    END = "end"
    REFUSAL = "refusal"
    EVENT = "event"


@record
class AuditRow:
    """A row as it is read: one field a column, in the order of the table.

    ``prev`` and ``hash`` are SHA-256 in hexadecimal; ``duration_ms`` is milliseconds.
    """

    seq: int
    time_ms: int
    phase: str
    action_id: str
    parent_id: str
    on_behalf_of: str
    route: str
    session: str
    remote: str
    subject: str
    client: str
    tool: str
    scope: str
    instrument: str
    command: str
    parameters: str
    scpi: str
    outcome: str
    code: str
    error: str
    duration_ms: float
    prev: str
    hash: str

    @classmethod
    def of(cls, values: Sequence[Any]) -> AuditRow:
        """From the values of ``COLUMNS``; what somebody put there by hand is shown, not judged."""
        shown: list[Any] = [v.hex() if isinstance(v, bytes) else v for v in values]
        row: dict[str, Any] = dict(zip(COLUMNS, shown, strict=True))
        return cls(**row)

    def to_json(self) -> dict[str, Any]:
        """JSON-ready, whatever somebody put there by hand; ``parameters`` as the object it is."""
        row = {name: _presentable(getattr(self, name)) for name in COLUMNS}
        try:
            row["parameters"] = json.loads(
                self.parameters, parse_constant=_finite, parse_float=_finite
            )
        except (TypeError, ValueError, RecursionError):
            row["parameters"] = str(self.parameters)
        return row


def _presentable(value: Any) -> Any:
    """JSON has no infinity, and a column may have been given one."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _finite(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError(f"{text} is not a number that JSON has")
    return number


COLUMNS: Final = tuple(field.name for field in fields(AuditRow))
OWN: Final = frozenset({"seq", "time_ms", "action_id", "duration_ms", "prev", "hash"})
"""The columns in which every row differs from every other."""
TEXT_COLUMNS: Final = tuple(name for name in COLUMNS if name not in OWN)


CLIENT_AT: Final = COLUMNS.index("client")


def encoded(value: object) -> str:
    """One value of a row as it is hashed: its type, its length and its text.

    No two values, and no two sequences of values, have the same encoding. Total: a column may have
    been given anything by hand.
    """
    match value:
        case str():
            return f"s{len(value)}:{value}"
        case int() | float():
            return f"{type(value).__name__[0]}{value};"
        case bytes():
            return f"x{value.hex()};"
        case _:
            return "n;"


def row_hash(prev: bytes, values: Sequence[Any]) -> bytes:
    """SHA-256 over the hash before and a row's stored values (all but ``prev`` and ``hash``)."""
    text = "".join(map(encoded, values))
    return hashlib.sha256(prev + text.encode("utf-8", "surrogatepass")).digest()


def former_row_hash(prev: bytes, values: Sequence[Any]) -> bytes | None:
    """The hash of a row written before schema version 8, or None where none was written like it.

    The values were joined by a separator, and an empty ``client`` was left out, because rows had
    none before schema version 4. No text of such a row holds the separator. One that does was put
    there later, to make the fields of another row out of the same text.
    """
    if values[CLIENT_AT] == "":
        values = (*values[:CLIENT_AT], *values[CLIENT_AT + 1 :])
    texts = [str(value) for value in values]
    if any(SEPARATOR in text for text in texts):
        return None
    return hashlib.sha256(prev + SEPARATOR.join(texts).encode("utf-8", "surrogatepass")).digest()


NAME_CHARS: Final = 200
OUR_ID_CHARS: Final = 40
ERROR_CHARS: Final = 1000
SCPI_CHARS: Final = 4096
PARAMETER_BYTES: Final = 4096
MAX_ITEMS: Final = 64
"""Arguments, and items of one of them, that are looked at; more of them do not fit a row anyway."""
TOO_MANY: Final = MAX_ITEMS + 1
MAX_NESTING: Final = 5
CUT: Final = "… (cut)"
NO_ARGUMENTS: Final[Mapping[str, Any]] = {}
PLAIN: Final = frozenset({bool, int, float, type(None)})


class Entry(NamedTuple):
    """What is noted. Made on the event loop for every call, so it is a tuple and cheap.

    The fields from ``phase`` to ``is_weighty`` are those that many rows share: see ``audit_texts``.

    Attributes:
        time_ms: Unix epoch milliseconds.
        phase, route, outcome: as the value of their enumeration, which is cheaper than the member.
        is_weighty: a write's or a safe command's: kept where rows of reads are only counted.
        arguments: as sent, after ``bounded_arguments``.
        duration_ms: rounded when it becomes a row.
    """

    time_ms: int
    phase: str
    tool: str
    parent_id: str = ""
    on_behalf_of: str = ""
    route: str = ""
    session: str = ""
    remote: str = ""
    subject: str = ""
    client: str = ""
    scope: str = ""
    instrument: str = ""
    command: str = ""
    scpi: tuple[str, ...] = ()
    outcome: str = ""
    code: str = ""
    error: str = ""
    is_weighty: bool = False
    arguments: Mapping[str, Any] = NO_ARGUMENTS
    action_id: str = ""
    duration_ms: float = 0.0


def texts_of(entry: Entry) -> tuple[str, ...]:
    """The values of ``audit_row.TEXT_COLUMNS``: bounded, without secrets and control characters.

    Total: whatever was sent over the wire makes a row.
    """
    return (
        str(entry.phase),
        _clean(entry.parent_id),
        _clean(entry.on_behalf_of),
        entry.route,
        _clean(entry.session),
        _clean(entry.remote),
        _clean(entry.subject),
        _clean(entry.client),
        _clean(entry.tool),
        _clean(entry.scope),
        _clean(entry.instrument),
        _clean(entry.command),
        _parameters(entry.arguments) if entry.arguments else "{}",
        clip("\n".join(map(_clean_line, entry.scpi)), SCPI_CHARS) if entry.scpi else "",
        entry.outcome,
        entry.code,
        _clean_long(clip(entry.error, ERROR_CHARS)) if entry.error else "",
    )


def storable_id(action_id: str) -> str:
    """An action's id. edged makes these itself; one that cannot be stored is cleaned all the same.

    Not by ``_clean``: no id comes twice, and they would crowd out of its memory what does.
    """
    if len(action_id) <= OUR_ID_CHARS and action_id.isascii() and action_id.isprintable():
        return action_id
    return _clean_long(clip(action_id))


def storable_ms(duration_ms: float) -> float:
    """A duration to the microsecond; always a float, as the database gives it back."""
    return round(duration_ms, 3) + 0.0


def clip(text: str, most: int = NAME_CHARS) -> str:
    """At most that many characters, with a mark where something was cut off."""
    return text if len(text) <= most else text[: most - len(CUT)] + CUT


def bounded_arguments(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """The arguments themselves if they are small, as they nearly always are, else a cut copy.

    Called on the event loop: what waits in memory must not hold somebody's 4 MiB.
    """
    if _count_small(arguments) <= MAX_ITEMS:
        return arguments
    cut = _bounded(arguments, 0)
    return cut if isinstance(cut, dict) else NO_ARGUMENTS


def is_flat(arguments: Mapping[str, Any]) -> bool:
    """True if they are few, small and not nested."""
    return _count_small(arguments, is_inner=True) <= MAX_ITEMS


def _count_small(arguments: Mapping[str, Any], *, is_inner: bool = False) -> int:
    """How many small values there are, in it and in objects in it; too many if others are."""
    count = len(arguments)
    if count > MAX_ITEMS:
        return TOO_MANY
    for name, value in arguments.items():
        if type(name) is not str or len(name) > NAME_CHARS:
            return TOO_MANY
        kind = type(value)
        if kind is dict and not is_inner:
            count += _count_small(value, is_inner=True)
        elif kind not in PLAIN and (kind is not str or len(value) > NAME_CHARS):
            return TOO_MANY
    return count


def _bounded(value: Any, nesting: int) -> Any:
    match value:
        case str():
            return clip(value, PARAMETER_BYTES)
        case None | bool() | int() | float():
            return value
        case _ if nesting >= MAX_NESTING:
            return CUT
        case Mapping():
            some = list(value.items())[:MAX_ITEMS]
            kept = {clip(str(name)): _bounded(item, nesting + 1) for name, item in some}
            return kept if len(some) == len(value) else {**kept, CUT: len(value) - len(some)}
        case list() | tuple():
            items = [_bounded(item, nesting + 1) for item in value[:MAX_ITEMS]]
            return items if len(items) == len(value) else [*items, CUT]
        case _:
            return clip(str(value))


def _parameters(arguments: Mapping[str, Any]) -> str:
    """JSON in ASCII of at most ``PARAMETER_BYTES``; what does not fit becomes its own beginning."""
    try:
        text = encode_text(_scrubbed(arguments))
    except (TypeError, ValueError, RecursionError):
        return '{"cut":"not JSON"}'
    if len(text) <= PARAMETER_BYTES:
        return text
    # Encoding the beginning again may double its quotes and backslashes.
    return encode_text({"cut": text[: PARAMETER_BYTES // 2 - 16]})


def _scrubbed(arguments: Mapping[str, Any]) -> Any:
    """``scrub``, with a short way for what nearly every call sends."""
    plain = _plain(arguments)
    return scrub(arguments) if plain is None else plain


def _plain(arguments: Mapping[str, Any], *, is_inner: bool = False) -> dict[str, Any] | None:
    """What ``scrub`` makes of few small values without a secret; ``None`` for anything else."""
    if len(arguments) > MAX_ITEMS:
        return None
    plain: dict[str, Any] = {}
    for name, value in arguments.items():
        if type(name) is not str or len(name) > NAME_CHARS or _is_secret(name):
            return None
        kind = type(value)
        if kind is dict and not is_inner:
            value = _plain(value, is_inner=True)
            if value is None:
                return None
        elif kind is str and len(value) <= NAME_CHARS:
            value = _clean(value)
        elif kind not in PLAIN:
            return None
        plain[name] = value
    return plain


@lru_cache(maxsize=1024)
def _is_secret(name: str) -> bool:
    """Whether a field of that name loses its value."""
    return bool(scrub({name: "x"}) != {name: "x"})


@lru_cache(maxsize=4096)
def _clean(text: str) -> str:
    """Short texts come again and again: names of tools, instruments, sessions."""
    return _clean_long(clip(text))


def _clean_line(line: str) -> str:
    return _clean(line) if len(line) <= NAME_CHARS else _clean_long(line)


def _clean_long(text: str) -> str:
    cleaned = str(scrub(text))
    # A lone surrogate, which JSON can carry, cannot be stored.
    return cleaned if cleaned.isascii() else cleaned.encode("utf-8", "replace").decode("utf-8")
