"""Calls of tools at edges, each under the very token that its caller showed at the front.

A call is one POST through the relay as any other, and the edge judges it by itself. What went wrong
on the way says whether the edge may have done it.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any, Final

from edged.actions.caller import Caller
from edged.actions.outcome import Picture
from edged.errors import EdgedError, ErrorCode, Failed, Invalid, Refused
from edged.protocol.http_rules import LEASE_HEADER
from edged.protocol.jsonrpc import BadJsonError, RpcCode, decode, encode
from edged.record import record
from edged_relay.exchanges import OFFLINE_S, Asked, BrokenError, Exchanges, NoRoomError

REVISION: Final = "2025-11-25"
"""In which a call without a session is served, and one whose caller goes away goes on."""
HEADERS: Final = (
    ("accept", "application/json"),
    ("content-type", "application/json"),
    ("mcp-protocol-version", REVISION),
)
PICTURES: Final = ("image/png", "image/jpeg")
MAX_ANSWER_BYTES: Final = 16 * 1024 * 1024
MAX_ANSWER_VALUES: Final = 500_000


@record
class EdgeAnswer:
    """What a tool of an edge gave.

    Attributes:
        data: its structured content, else its texts.
        is_error: it says itself that it did not succeed.
    """

    data: Any
    is_error: bool
    pictures: tuple[Picture, ...] = ()


class EdgeReach:
    """Calls tools of edges.

    Args:
        exchanges: the front's.
    """

    def __init__(self, exchanges: Exchanges) -> None:
        self._exchanges = exchanges

    async def call(
        self,
        edge_id: str,
        caller: Caller,
        tool: str,
        arguments: Mapping[str, Any],
        *,
        most_bytes: int = MAX_ANSWER_BYTES,
        taken_within_s: float = OFFLINE_S,
    ) -> EdgeAnswer:
        """What came of a call; whoever waits bounds it.

        Args:
            most_bytes: of its answer.
            taken_within_s: see ``EdgeExchange.head``.

        Raises:
            Refused: the edge does not let this caller do that.
            Invalid: it does not understand the call.
            Failed: EDGE_FAILED, it is not there or did not answer as it should.
        """
        params = {"name": tool, "arguments": dict(arguments)}
        body = encode({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
        lease = ((LEASE_HEADER.lower(), caller.lease),) if caller.lease else ()
        asked = Asked(
            verb="POST", headers=HEADERS + lease, token=caller.bearer, peer=caller.remote, body=body
        )
        was_taken = False
        try:
            async with self._exchanges.opened(edge_id, asked) as exchange:
                try:
                    head = await exchange.head(taken_within_s)
                finally:
                    was_taken = exchange.was_taken
                answer = bytearray()
                async for piece in exchange.pieces():
                    answer += piece
                    if len(answer) > most_bytes:
                        raise _failed(
                            edge_id,
                            f"Its answer is over {most_bytes >> 10} KiB. The call was made.",
                            "Ask at the edge's own endpoint.",
                        )
        except NoRoomError:
            raise _failed(edge_id, "This front has too many requests under way.") from None
        except (BrokenError, ConnectionError):
            raise _unreached(edge_id, was_taken=was_taken) from None
        return _read(edge_id, tool, head.status, bytes(answer))


def _unreached(edge_id: str, *, was_taken: bool) -> Failed:
    if was_taken:
        return _failed(
            edge_id,
            "Its answer broke off; the call may be carried out all the same.",
            "Look at the state before you ask for it again.",
        )
    return _failed(
        edge_id, "It is not connected to the relay now. Nothing was passed on to it.", "Try later."
    )


def _failed(edge_id: str, message: str, remedy: str = "") -> Failed:
    return Failed(
        f"{edge_id}: {message}",
        code=ErrorCode.EDGE_FAILED,
        data={"edge_id": edge_id},
        remedy=remedy,
    )


def _read(edge_id: str, tool: str, status: int, body: bytes) -> EdgeAnswer:
    try:
        # As strict as with what comes from outside: what cannot be passed on as JSON is no answer.
        told = decode(body, most_bytes=MAX_ANSWER_BYTES, most_values=MAX_ANSWER_VALUES)
    except BadJsonError:
        told = None
    match told:
        case {"result": dict(result)}:
            return _result(result)
        case {"error": {"code": int(code), "message": str(message)}}:
            raise _error(edge_id, tool, status, code, message)
    raise _failed(edge_id, f"It answered {status}, and not as an edge does.")


def _result(result: Mapping[str, Any]) -> EdgeAnswer:
    content = result.get("content")
    items = content if isinstance(content, list) else []
    items = [item for item in items if isinstance(item, dict)]
    data = result.get("structuredContent")
    if data is None:
        texts = [item["text"] for item in items if isinstance(item.get("text"), str)]
        data = texts[0] if len(texts) == 1 else texts
    pictures = (_picture(item) for item in items if item.get("type") == "image")
    return EdgeAnswer(
        data=data,
        is_error=result.get("isError") is True,
        pictures=tuple(picture for picture in pictures if picture is not None),
    )


def _picture(item: Mapping[str, Any]) -> Picture | None:
    mime = item.get("mimeType")
    try:
        data = base64.b64decode(str(item.get("data", "")), validate=True)
    except (binascii.Error, ValueError):
        return None
    return Picture(mime=mime, data=data) if mime in PICTURES else None


def _error(edge_id: str, tool: str, status: int, code: int, message: str) -> EdgedError:
    said, data = f"{edge_id}: {message[:1_000]}", {"edge_id": edge_id, "tool": tool}
    match code:
        case RpcCode.NOT_AUTHENTICATED:
            return Refused(
                f"{edge_id} does not accept this token for the fleet.",
                code=ErrorCode.NOT_ALLOWED,
                data=data,
                remedy="Its owner sets RELAY_FLEET: true for that.",
            )
        case RpcCode.NOT_ALLOWED:
            return Refused(said, code=ErrorCode.NOT_ALLOWED, data=data)
        case RpcCode.DANGEROUS:
            return Refused(said, code=ErrorCode.DANGEROUS, data=data)
        case RpcCode.INVALID_PARAMS:
            return Invalid(said, code=ErrorCode.BAD_ARGUMENTS, data=data)
    return _failed(edge_id, f"{message[:1_000]} (HTTP {status})")
