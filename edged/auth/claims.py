"""What a token must look like and say, judged without keys, sockets or a clock of its own.

Two pure steps: ``read_token`` takes the text of a token apart, ``check_claims`` holds what it says
to the tables of docs/relay.md, that of the door at which it is shown: an edge's, or the fleet's at
a front. Both are stricter than any JWT library: what they have not been told to accept they refuse.
A reason is for the audit alone; whoever sent the token never sees it.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping
from typing import Any, Final

from edged.actions.caller import Claims
from edged.record import record

ALGORITHM: Final = "RS256"
MAX_TOKEN_CHARS: Final = 16_384
MAX_KID_CHARS: Final = 200
MAX_ENTRIES: Final = 1_000
MAX_SHOWN_CHARS: Final = 100
"""Of an entry of tools_allow that cannot be read."""
MAX_EDGES: Final = 1_000
MAX_LIFETIME_S: Final = 300
MAX_HTTP_SD_LIFETIME_S: Final = 30 * 24 * 3_600
"""Prometheus reads its token from a file that somebody has to renew."""
MAX_AHEAD_S: Final = 30
MAX_EPOCH_S: Final = 1 << 40

# Python-jose would take the standard base64 alphabet and padding in a signature too.
FORM: Final = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")
SUBJECT: Final = re.compile(r"user:[A-Za-z0-9._@+|=:/-]{1,200}")
# `resources/read` and `fleet/http_sd` are entries too.
ENTRY: Final = re.compile(r"[A-Za-z0-9_.-]{1,200}(?:/[a-z_]{1,40})?(?::[A-Za-z0-9_.-]{1,200})?")
EDGE_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
FLEET: Final = "fleet"
"""The audience of a token for many edges."""
EVERY_EDGE: Final = "*"
HTTP_SD: Final = "fleet/http_sd"
"""The entry of tools_allow by which Prometheus asks a front for the edges."""
# Each of these would let the token bring its key, or change what the signature covers.
FORBIDDEN_HEADERS: Final = frozenset({"b64", "crit", "enc", "jku", "jwk", "x5c", "x5u", "zip"})


RETRY_AFTER: Final = ("Retry-After", "5")
"""The header that comes with a ``NoKeysError``: keys are not asked for again before."""


class BadTokenError(Exception):
    """A token that is refused; the text says why, for the audit."""


class NoKeysError(BadTokenError):
    """It cannot be judged now: there is no key of its issuer, and none can be had."""


@record(kw_only=False)
class EdgeDoor:
    """What an edge takes.

    Attributes:
        takes_fleet: also a fleet token that lists it: RELAY_FLEET, and only what came over NATS.
    """

    edge_id: str
    takes_fleet: bool = False


@record(kw_only=False)
class FleetDoor:
    """What a front takes for the fleet.

    Attributes:
        takes_all: also a token for every edge there is: FLEET_ALL.
    """

    takes_all: bool = False


Door = EdgeDoor | FleetDoor


@record
class Token:
    """A token taken apart; nothing in it is verified.

    Attributes:
        signed: the bytes that the signature covers.
    """

    kid: str
    payload: Mapping[str, Any]
    signed: bytes
    signature: bytes


def is_edge_id(text: str) -> bool:
    """Whether it can be the id of an edge, and so a part of a subject."""
    return EDGE_ID.fullmatch(text) is not None


def read_token(text: str) -> Token:
    """Take a token apart.

    Raises:
        BadTokenError: it has not exactly the form that an issuer of ours gives it.
    """
    if not text:
        raise BadTokenError("The token is empty.")
    if len(text) > MAX_TOKEN_CHARS:
        raise BadTokenError(f"The token has {len(text)} characters; {MAX_TOKEN_CHARS} are allowed.")
    if not FORM.fullmatch(text):
        raise BadTokenError("The token is not a signed JWT.")
    head, body, signature = text.split(".")
    header = _read_object(head, "header")
    _check_header(header)
    return Token(
        kid=header["kid"],
        payload=_read_object(body, "payload"),
        signed=f"{head}.{body}".encode("ascii"),
        signature=_decode(signature, "signature"),
    )


def check_claims(payload: Mapping[str, Any], *, issuer: str, door: Door, now_ms: int) -> Claims:
    """What the token says, if every row of the door's table holds.

    Args:
        payload: as parsed from JSON without duplicate keys.
        issuer: RELAY_ISSUER.
        door: where it is shown.
        now_ms: Unix epoch milliseconds.

    Raises:
        BadTokenError: a row does not hold.
    """
    iss, (aud, edge_id, edges) = _same_text(payload, "iss", issuer), _audience(payload, door)
    claims = Claims(
        iss=iss,
        aud=aud,
        sub=_subject(payload),
        exp=_epoch(payload, "exp"),
        iat=_epoch(payload, "iat"),
        edge_id=edge_id,
        edges_allow=edges,
        tools_allow=_tools(payload),
        danger_allow=_bool(payload, "danger_allow"),
    )
    if not 0 < claims.exp - claims.iat <= _longest_s(claims, payload, door):
        raise BadTokenError(f"The token lives for {claims.exp - claims.iat} s.")
    if "nbf" in payload and _epoch(payload, "nbf") * 1000 > now_ms + MAX_AHEAD_S * 1000:
        raise BadTokenError("The token is not valid yet (nbf).")
    check_time(claims, now_ms)
    return claims


def _audience(payload: Mapping[str, Any], door: Door) -> tuple[str, str, frozenset[str]]:
    """For whom it is: its audience, and the one edge or the edges that it names."""
    if isinstance(door, EdgeDoor) and not (door.takes_fleet and payload.get("aud") == FLEET):
        aud = _same_text(payload, "aud", f"edge:{door.edge_id}")
        return aud, _same_text(payload, "edge_id", door.edge_id), frozenset()
    aud = _same_text(payload, "aud", FLEET)
    if "edge_id" in payload:
        raise BadTokenError("A token for the fleet names one edge (edge_id).")
    edges = _edges(payload)
    if isinstance(door, EdgeDoor) and not edges & {door.edge_id, EVERY_EDGE}:
        raise BadTokenError("The token for the fleet does not list this edge.")
    if isinstance(door, FleetDoor) and EVERY_EDGE in edges and not door.takes_all:
        raise BadTokenError("The token is for every edge, and FLEET_ALL is not set.")
    return aud, "", edges


def _longest_s(claims: Claims, payload: Mapping[str, Any], door: Door) -> int:
    """How long it may live: no edge knows of an exception, nor one with an unreadable entry."""
    is_for_prometheus = (
        isinstance(door, FleetDoor)
        and claims.tools_allow == {HTTP_SD}
        and not unreadable_entries(payload)
    )
    return MAX_HTTP_SD_LIFETIME_S if is_for_prometheus else MAX_LIFETIME_S


def _edges(payload: Mapping[str, Any]) -> frozenset[str]:
    value = payload.get("edges_allow")
    if not isinstance(value, list) or not 0 < len(value) <= MAX_EDGES:
        raise BadTokenError("The token's edges_allow is not an array of edges.")
    if value == [EVERY_EDGE]:
        return frozenset(value)
    for entry in value:
        if not isinstance(entry, str) or not is_edge_id(entry):
            raise BadTokenError("The token's edges_allow has an entry that is not an edge.")
    return frozenset(value)


def check_time(claims: Claims, now_ms: int) -> None:
    """Hold the two rows that depend on the moment; also for a token that was verified before.

    Raises:
        BadTokenError: it is over, or from the future.
    """
    if claims.exp * 1000 <= now_ms:
        raise BadTokenError(f"The token of {claims.sub} has expired.")
    if claims.iat * 1000 > now_ms + MAX_AHEAD_S * 1000:
        raise BadTokenError(f"The token of {claims.sub} is dated in the future.")


def _check_header(header: Mapping[str, Any]) -> None:
    if header.get("alg") != ALGORITHM:
        raise BadTokenError(f"The token's algorithm is not {ALGORITHM}.")
    forbidden = FORBIDDEN_HEADERS & header.keys()
    if forbidden:
        raise BadTokenError(f"The token's header has {', '.join(sorted(forbidden))}.")
    kid = header.get("kid")
    if not isinstance(kid, str) or not 0 < len(kid) <= MAX_KID_CHARS:
        raise BadTokenError("The token names no key (kid).")
    kind = header.get("typ", "JWT")
    if not isinstance(kind, str) or kind.lower() not in {"jwt", "at+jwt"}:
        raise BadTokenError("The token is of another type (typ).")


def _read_object(segment: str, what: str) -> dict[str, Any]:
    try:
        value = json.loads(
            _decode(segment, what).decode("utf-8"),
            object_pairs_hook=_without_duplicates,
            parse_constant=_refuse_constant,
        )
    except (ValueError, RecursionError) as error:
        raise BadTokenError(f"The token's {what} is not JSON.") from error
    if not isinstance(value, dict):
        raise BadTokenError(f"The token's {what} is not a JSON object.")
    return value


def _decode(segment: str, what: str) -> bytes:
    """Strict base64url: one text for one value, so that no token has a second spelling."""
    try:
        data = base64.urlsafe_b64decode(segment + "=" * (-len(segment) % 4))
    except (binascii.Error, ValueError) as error:
        raise BadTokenError(f"The token's {what} is not base64url.") from error
    if base64.urlsafe_b64encode(data).rstrip(b"=") != segment.encode("ascii"):
        raise BadTokenError(f"The token's {what} is not canonical base64url.")
    return data


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise BadTokenError("The token has the same member twice.")
    return value


def _refuse_constant(name: str) -> Any:
    raise ValueError(name)


def _same_text(payload: Mapping[str, Any], name: str, wanted: str) -> str:
    value = payload.get(name)
    if not isinstance(value, str) or value != wanted:
        raise BadTokenError(f"The token's {name} is missing or is not the expected one.")
    return value


def _subject(payload: Mapping[str, Any]) -> str:
    value = payload.get("sub")
    if not isinstance(value, str) or not SUBJECT.fullmatch(value):
        raise BadTokenError("The token's sub is not user:<user_id>.")
    return value


def _epoch(payload: Mapping[str, Any], name: str) -> int:
    value = payload.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= MAX_EPOCH_S:
        raise BadTokenError(f"The token's {name} is not a time in whole seconds.")
    return value


def _tools(payload: Mapping[str, Any]) -> frozenset[str]:
    value = payload.get("tools_allow")
    if not isinstance(value, list) or len(value) > MAX_ENTRIES:
        raise BadTokenError("The token's tools_allow is not an array of tools.")
    return frozenset(entry for entry in value if _is_entry(entry))


def _is_entry(entry: object) -> bool:
    return isinstance(entry, str) and ENTRY.fullmatch(entry) is not None


def unreadable_entries(payload: Mapping[str, Any]) -> list[str]:
    """The entries of tools_allow that allow nothing here, as the log may show them.

    An issuer may know forms of entries that this version does not: the token is as good without.
    """
    return [
        "".join(char if char.isprintable() else " " for char in str(entry)[:MAX_SHOWN_CHARS])
        for entry in payload["tools_allow"]
        if not _is_entry(entry)
    ]


def _bool(payload: Mapping[str, Any], name: str) -> bool:
    value = payload.get(name)
    if not isinstance(value, bool):
        raise BadTokenError(f"The token's {name} is missing or no boolean.")
    return value
