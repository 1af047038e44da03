"""What a client carries from an ``input_required`` answer to its repeated call. Pure.

A text that only this daemon can make: an HMAC over whom it was given to, for which call, until when
and which question. Whether its answer was used before is kept by whoever acts on it.

Source: MCP 2026-07-28 ``basic/patterns/mrtr``: requestState must be integrity-protected, bound to
principal, method and parameters, expire, and count once. RFC 2104 (HMAC).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import Any, Final

from edged.errors import ErrorCode, Invalid
from edged.record import record

KEY_BYTES: Final = 32
MOST_CHARACTERS: Final = 4_096
"""A state of ours has some 300."""


@record
class RequestState:
    """What was asked, of whom.

    Attributes:
        principal: whom it was given to.
        digest: of tool, arguments and the lines that would go out.
        until_ms: Unix epoch milliseconds.
        approval_id: the question, as the bench knows it; no two are alike.
    """

    principal: str
    digest: str
    until_ms: int
    approval_id: str


def sealed(state: RequestState, key: bytes) -> str:
    """The text of it."""
    told = [state.principal, state.digest, state.until_ms, state.approval_id]
    return _with_mac(json.dumps(told, separators=(",", ":")).encode(), key)


def opened(text: str, key: bytes, *, principal: str, now_ms: int) -> RequestState:
    """The state in a text that this daemon made, byte for byte, for this caller, and in time.

    Raises:
        Invalid: BAD_ARGUMENTS, it is none of that.
    """
    try:
        said = base64.urlsafe_b64decode(text[:MOST_CHARACTERS].partition(".")[0])
    except ValueError:
        said = b""
    # Of all texts that decode to these bytes only the one that was given: base64 has many.
    if not hmac.compare_digest(_with_mac(said, key).encode(), text.encode("utf-8", "replace")):
        raise bad_state("was not given by this daemon")
    told: Any = json.loads(said)
    state = RequestState(principal=told[0], digest=told[1], until_ms=told[2], approval_id=told[3])
    if state.principal != principal:
        raise bad_state("was given to another caller")
    if now_ms >= state.until_ms:
        raise bad_state("has expired")
    return state


def bad_state(why: str) -> Invalid:
    """The error of one that leads nowhere."""
    return Invalid(
        f"requestState {why}. Nothing was sent.",
        code=ErrorCode.BAD_ARGUMENTS,
        data={"parameter": "requestState"},
        remedy="Call again without requestState and inputResponses to be asked again.",
    )


def _with_mac(payload: bytes, key: bytes) -> str:
    mac = hmac.new(key, b"edged requestState 1\n" + payload, hashlib.sha256).digest()
    return f"{_text(payload)}.{_text(mac)}"


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode("ascii")
