"""HTTP requests and answers as relay messages: values ⇄ bytes. Pure.

One request is one *exchange*. Front to edge: ``Open``, then ``Body`` until its length is there, and
while it lasts ``Credit`` (how many bytes more the front takes) and ``Cancel``. Edge to front:
``Head``, ``Data`` numbered without a gap, ``AnswerEnd``. Both send ``Alive`` while they have
nothing else to say; whoever hears nothing for long gives the exchange up.

A message is one line of JSON, then its bytes. What comes from the other side is not trusted: each
field is checked, and only headers of the lists below are carried.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from edged.record import record

CHUNK_BYTES: Final = 128 * 1024
"""NATS carries 1 MiB at most; less lets other exchanges in between."""
MAX_BODY_BYTES: Final = 4 * 1024 * 1024
WINDOW_BYTES: Final = 256 * 1024
"""How much of an answer may be under way to a front that has not taken it yet."""
MAX_LINE: Final = 64 * 1024
MAX_HEADER_CHARS: Final = 8 * 1024
MAX_TOKEN_CHARS: Final = 32 * 1024

REQUEST_HEADERS: Final = frozenset(
    {
        "accept",
        "content-encoding",
        "content-type",
        "edged-lease",
        "last-event-id",
        "mcp-method",
        "mcp-name",
        "mcp-protocol-version",
        "mcp-session-id",
    }
)
ANSWER_HEADERS: Final = frozenset(
    {
        "allow",
        "cache-control",
        "content-length",
        "content-type",
        "mcp-protocol-version",
        "mcp-session-id",
        "retry-after",
        "www-authenticate",
        "x-accel-buffering",
    }
)
EXCHANGE_ID: Final = re.compile(r"[0-9a-f]{8,40}")
VERB: Final = re.compile(r"[A-Z]{1,16}")
QUERY: Final = re.compile(r"[!-~]{0,2048}")
HEADER_VALUE: Final = re.compile(r"[\t -~\x80-\xff]*")

Headers = tuple[tuple[str, str], ...]


class BadEnvelopeError(Exception):
    """A message that is none of ours."""


@record
class Open:
    """A request.

    Attributes:
        front: who asks; part of the subject that answers go to.
        query: what follows ``?`` in the target, as it came.
        token: the bearer token; the edge sets it as Edge-Caller-JWT, even when it is empty.
        peer: the client's address as the front saw it.
        length: how long the body is; ``data`` is its beginning.
    """

    exchange: str
    front: str
    verb: str
    query: str
    headers: Headers
    token: str
    peer: str
    length: int
    data: bytes = b""


@record
class Body:
    """More of a request's body, from ``offset`` on."""

    exchange: str
    front: str
    offset: int
    data: bytes


@record
class Credit:
    """The front takes so many bytes more."""

    exchange: str
    front: str
    size: int


@record
class Cancel:
    """The client is gone."""

    exchange: str
    front: str


@record
class Alive:
    """Nothing new, but still here."""

    exchange: str
    front: str


@record
class Head:
    """The status and headers of an answer."""

    exchange: str
    status: int
    headers: Headers


@record
class Data:
    """A piece of an answer; the first has number 0."""

    exchange: str
    number: int
    data: bytes


@record
class AnswerEnd:
    """The answer is over after ``number`` pieces; not ``is_whole``: it broke off."""

    exchange: str
    number: int
    is_whole: bool


Envelope = Open | Body | Credit | Cancel | Alive | Head | Data | AnswerEnd
KINDS: Final[Mapping[str, type[Envelope]]] = {
    "open": Open,
    "body": Body,
    "credit": Credit,
    "cancel": Cancel,
    "alive": Alive,
    "head": Head,
    "data": Data,
    "end": AnswerEnd,
}
NAMES: Final = {made: name for name, made in KINDS.items()}


def down_subject(edge_id: str) -> str:
    """Where an edge hears requests; the one subject it may subscribe to."""
    return f"edged.{edge_id}.down"


def up_subject(edge_id: str, front: str, exchange: str) -> str:
    """Where an edge answers; an edge may publish below its own ``edged.<id>.up`` only."""
    return f"edged.{edge_id}.up.{front}.{exchange}"


def encode(envelope: Envelope) -> bytes:
    """The bytes of a message."""
    fields: dict[str, Any] = {"kind": NAMES[type(envelope)]}
    data = b""
    for name in envelope.__dataclass_fields__:
        value = getattr(envelope, name)
        if name == "data":
            data = value
        else:
            fields[name] = value
    return json.dumps(fields, separators=(",", ":")).encode("ascii") + b"\n" + data


def decode(message: bytes) -> Envelope:
    """The value of a message.

    Raises:
        BadEnvelopeError: it is not exactly what ``encode`` makes, or a field is out of bounds.
    """
    line, newline, data = message.partition(b"\n")
    if not newline or len(line) > MAX_LINE or len(data) > CHUNK_BYTES:
        raise BadEnvelopeError("It has no head, or is too long.")
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadEnvelopeError("Its head is not JSON.") from error
    made = KINDS.get(str(fields.pop("kind", ""))) if isinstance(fields, dict) else None
    if made is None:
        raise BadEnvelopeError("It is of no known kind.")
    names = made.__dataclass_fields__
    if "data" in names:
        fields["data"] = data
    elif data:
        raise BadEnvelopeError("It carries bytes that it has no place for.")
    if fields.keys() != names.keys():
        raise BadEnvelopeError("It lacks a field, or has one more.")
    if "headers" in fields:
        allowed = REQUEST_HEADERS if made is Open else ANSWER_HEADERS
        fields["headers"] = _headers(fields["headers"], allowed)
    for name, value in fields.items():
        _CHECKS[name](value)
    return made(**fields)


def _headers(value: Any, allowed: frozenset[str]) -> Headers:
    if not isinstance(value, list) or len(value) > len(allowed):
        raise BadEnvelopeError("Its headers are not a list.")
    headers = []
    for pair in value:
        match pair:
            case [str(name), str(text)] if name in allowed:
                if len(text) > MAX_HEADER_CHARS or not HEADER_VALUE.fullmatch(text):
                    raise BadEnvelopeError("A header has a value that cannot be.")
                headers.append((name, text))
            case _:
                raise BadEnvelopeError("It has a header that is not carried.")
    return tuple(headers)


def _matches(pattern: re.Pattern[str]) -> Any:
    def check(value: Any) -> None:
        if not isinstance(value, str) or not pattern.fullmatch(value):
            raise BadEnvelopeError("A field has a text that cannot be.")

    return check


def _within(least: int, most: int) -> Any:
    def check(value: Any) -> None:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise BadEnvelopeError("A field has a number that cannot be.")

    return check


def _is_bool(value: Any) -> None:
    if not isinstance(value, bool):
        raise BadEnvelopeError("A field is not a boolean.")


def _pass(_value: Any) -> None:
    """Checked before."""


_CHECKS: Final[Mapping[str, Any]] = {
    "exchange": _matches(EXCHANGE_ID),
    "front": _matches(EXCHANGE_ID),
    "verb": _matches(VERB),
    "query": _matches(QUERY),
    "headers": _pass,
    "data": _pass,
    "token": _matches(re.compile(rf"[!-~]{{0,{MAX_TOKEN_CHARS}}}")),
    "peer": _matches(re.compile(r"[0-9A-Fa-f:.%A-Za-z]{0,64}")),
    "length": _within(0, MAX_BODY_BYTES),
    "offset": _within(0, MAX_BODY_BYTES),
    "size": _within(1, WINDOW_BYTES),
    "status": _within(200, 599),
    "number": _within(0, 1 << 50),
    "is_whole": _is_bool,
}
