"""What an edge tells the fronts of itself every ten seconds: values ⇄ bytes. Pure.

Whose word it is stands in the subject alone, which the NATS server lets only that edge publish on.
What comes from there is not trusted: an announcement that is too large or of another shape is none,
and no text of it has a character that cannot be shown. Members that are not known here are those of
a later version, and are left out; those that are not there, or null, are empty, as an earlier
version has fewer. The version itself and the state of a unit are always said.

Source: docs/promises.md section 20.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from edged.auth.claims import is_edge_id
from edged.record import record

EVERY_S: Final = 10.0
AWAY_S: Final = 30.0
"""An edge that has said nothing for so long is away."""
MAX_ANNOUNCED_BYTES: Final = 64 * 1024
HERE: Final = "edged.*.up.here"
"""Where the fronts hear every edge."""
MAX_TEXT: Final = 200
MAX_EPOCH_MS: Final = 1 << 53
WORD: Final = re.compile(r"[a-z0-9_]{0,40}")
PAGE: Final = re.compile(r"https?://[A-Za-z0-9.:\[\]/_-]{1,190}")
PLACE: Final = re.compile(
    r"(?:\[[0-9A-Fa-f:.]{2,60}\]|[A-Za-z0-9._-]{1,100}):[0-9]{1,5}/[A-Za-z0-9_-][A-Za-z0-9/_-]{0,79}"
)


Reader = Callable[[Any], Any]


class BadAnnouncementError(Exception):
    """What an edge said is no announcement; the text says why."""


@record
class Said:
    """What an edge says of itself; the rows are JSON-ready.

    Attributes:
        units: {id, alias, manufacturer, model, instrument_class, serial, state, used_by, lease,
            is_in_use} each; ``lease`` is {who, purpose, expires_ms} or none.
        runs: {kind, run_id, instrument_id, name, who, started_ms} each.
        lockouts: {instrument_id, alias, reason, by, since_ms} each.
        page: the address of its bench page in its own network; empty: there is none.
        metrics: where Prometheus finds it, ``host:port/path``; empty: nowhere.
        left_out: how many rows had no room.
    """

    version: str
    units: Sequence[Mapping[str, Any]] = ()
    runs: Sequence[Mapping[str, Any]] = ()
    lockouts: Sequence[Mapping[str, Any]] = ()
    page: str = ""
    metrics: str = ""
    left_out: int = 0


def here_subject(edge_id: str) -> str:
    """Where an edge says that it is here; below what it may publish on."""
    return f"edged.{edge_id}.up.here"


def edge_of(subject: str) -> str:
    """Who speaks on a subject that matches ``HERE``; empty where that can be nobody."""
    _, _, rest = subject.partition(".")
    edge_id = rest.removesuffix(".up.here")
    return edge_id if is_edge_id(edge_id) else ""


def encode_said(said: Said) -> bytes:
    """The bytes of an announcement; see ``fitted`` for one that may be too long."""
    members = {name: getattr(said, name) for name in said.__dataclass_fields__}
    for name in ("units", "runs", "lockouts"):
        members[name] = list(members[name])
    return json.dumps(members, separators=(",", ":")).encode("ascii")


def fitted(told: Mapping[str, Any]) -> bytes:
    """An announcement of whatever an engine tells: texts cleaned and cut, rows as far as they fit.

    Lockouts and what runs go before the units.
    """
    said = Said(
        version=_cleaned(told.get("version")),
        page=_fitting(_page, told.get("page")),
        metrics=_fitting(_place, told.get("metrics")),
    )
    room = MAX_ANNOUNCED_BYTES - len(encode_said(said)) - 16
    kept: dict[str, Any] = {}
    left_out = 0
    for name in ("lockouts", "runs", "units"):
        rows: list[dict[str, Any]] = kept.setdefault(name, [])
        for row in told.get(name, ()):
            clean = {key: _fitting(kind, row.get(key)) for key, kind in ROWS[name].items()}
            room -= len(json.dumps(clean, separators=(",", ":"))) + 1
            if room < 0:
                left_out += 1
            else:
                rows.append(clean)
    return encode_said(replace(said, **kept, left_out=left_out))


def read_said(data: bytes) -> Said:
    """What an announcement says.

    Raises:
        BadAnnouncementError: it is too large, or has another shape.
    """
    if len(data) > MAX_ANNOUNCED_BYTES:
        raise BadAnnouncementError(f"It has {len(data)} bytes; {MAX_ANNOUNCED_BYTES} are allowed.")
    try:
        told = json.loads(data, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise BadAnnouncementError("It is not JSON.") from error
    if not isinstance(told, dict):
        raise BadAnnouncementError("It is not a JSON object.")
    return Said(
        version=_text(told.get("version")),
        units=_rows(told, "units"),
        runs=_rows(told, "runs"),
        lockouts=_rows(told, "lockouts"),
        page=_read(_page, told.get("page")),
        metrics=_read(_place, told.get("metrics")),
        left_out=_read(_count, told.get("left_out")),
    )


def _rows(told: Mapping[str, Any], name: str) -> tuple[dict[str, Any], ...]:
    rows = told.get(name)
    if rows is None:
        return ()
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise BadAnnouncementError(f"Its {name} are not a list of objects.")
    kinds = ROWS[name]
    return tuple({key: _read(read, row.get(key)) for key, read in kinds.items()} for row in rows)


def _read(read: Reader, value: Any) -> Any:
    """A member as its reader takes it; what is not there is empty, if it may be."""
    return EMPTY[read] if value is None and read in EMPTY else read(value)


def _refuse_constant(name: str) -> Any:
    raise ValueError(name)


def _text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > MAX_TEXT or not value.isprintable():
        raise BadAnnouncementError("It has a text that cannot be.")
    # The same models, classes and states are said by many, again and again.
    return sys.intern(value)


def _text_or_none(value: Any) -> str | None:
    return None if value is None else _text(value)


def _page(value: Any) -> str:
    text = _text(value)
    if text and not PAGE.fullmatch(text):
        raise BadAnnouncementError("Its page is not an address.")
    return text


def _place(value: Any) -> str:
    text = _text(value)
    if text and not PLACE.fullmatch(text):
        raise BadAnnouncementError("Its metrics are at no address.")
    return text


def _word(value: Any) -> str:
    if not isinstance(value, str) or not WORD.fullmatch(value):
        raise BadAnnouncementError("It has a word that cannot be.")
    return sys.intern(value)


def _state(value: Any) -> str:
    """A word that is always said: without it nobody knows whether a unit is free."""
    return _word(value)


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_EPOCH_MS:
        raise BadAnnouncementError("It has a number that cannot be.")
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise BadAnnouncementError("It has a flag that cannot be.")
    return value


def _lease(value: Any) -> dict[str, Any] | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise BadAnnouncementError("It has a lease that cannot be.")
    return {key: _read(read, value.get(key)) for key, read in LEASE.items()}


LEASE: Final[Mapping[str, Reader]] = {"who": _text, "purpose": _text, "expires_ms": _count}
ROWS: Final[Mapping[str, Mapping[str, Reader]]] = {
    "units": {
        "id": _text,
        "alias": _text,
        "manufacturer": _text,
        "model": _text,
        "instrument_class": _text,
        "serial": _text,
        "state": _state,
        "used_by": _text_or_none,
        "lease": _lease,
        "is_in_use": _flag,
    },
    "runs": {
        "kind": _word,
        "run_id": _text,
        "instrument_id": _text,
        "name": _text,
        "who": _text,
        "started_ms": _count,
    },
    "lockouts": {
        "instrument_id": _text,
        "alias": _text,
        "reason": _text,
        "by": _text,
        "since_ms": _count,
    },
}


def _cleaned(value: Any) -> str:
    text = value if isinstance(value, str) else ""
    return "".join(char if char.isprintable() else " " for char in text)[:MAX_TEXT]


def _fitting(read: Reader, value: Any) -> Any:
    """The value as its reader takes it; what cannot be is left empty."""
    if read is _lease and isinstance(value, Mapping):
        return {key: _fitting(kind, value.get(key)) for key, kind in LEASE.items()}
    if isinstance(value, str):
        value = _cleaned(value)
    try:
        return read(value)
    except BadAnnouncementError:
        return EMPTY.get(read, "")


EMPTY: Final[Mapping[Reader, Any]] = {
    _text: "",
    _page: "",
    _place: "",
    _text_or_none: None,
    _word: "",
    _count: 0,
    _flag: False,
    _lease: None,
}
