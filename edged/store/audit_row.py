"""A row of the audit as it is stored and read, and the hash over it. Pure.

Stored texts hold no control characters but the line ends between SCPI lines, so fields joined by
one (unit separator) cannot be confused. What becomes a row is an entry: ``audit_entry.py``.
"""

from __future__ import annotations

import enum
import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

__all__ = [
    "COLUMNS",
    "GENESIS",
    "RETENTION_TOOL",
    "SEPARATOR",
    "TEXT_COLUMNS",
    "AuditRow",
    "Phase",
    "row_hash",
]

SEPARATOR: Final = "\x1f"
RETENTION_TOOL: Final = "audit.retention"
"""Stands as the tool in events that tell of removed rows; no caller can make an event."""
GENESIS: Final = bytes(32)
"""Stands for the hash before the first row."""


class Phase(enum.StrEnum):
    """Which moment of an action a row tells of.

    ``INTENT`` stands before the first byte of a write; ``END`` after whatever was run; ``REFUSAL``
    for what was not; ``EVENT`` is no action but something that befell the record itself.
    """

    INTENT = "intent"
    END = "end"
    REFUSAL = "refusal"
    EVENT = "event"


@dataclass(frozen=True, slots=True, kw_only=True)
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
        raise ValueError(f"{text} is no number that JSON has")
    return number


COLUMNS: Final = tuple(field.name for field in fields(AuditRow))
OWN: Final = frozenset({"seq", "time_ms", "action_id", "duration_ms", "prev", "hash"})
"""The columns in which every row differs from every other."""
TEXT_COLUMNS: Final = tuple(name for name in COLUMNS if name not in OWN)


def row_hash(prev: bytes, values: Sequence[Any]) -> bytes:
    """SHA-256 over the hash before and a row's stored values (all but ``prev`` and ``hash``)."""
    text = SEPARATOR.join(map(str, values))
    return hashlib.sha256(prev + text.encode("utf-8", "surrogatepass")).digest()
