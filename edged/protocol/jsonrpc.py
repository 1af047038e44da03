"""JSON-RPC 2.0: bytes in, typed messages out, and back. Knows nothing of MCP or HTTP headers.

Whatever cannot be served ends here as ``BadMessage``, under the request's id where that is one. An
id that is neither a string nor an integer is refused and never taken for a notification: its
sender would wait for ever.

Source: the JSON-RPC 2.0 specification; ``json_bytes`` has the limits of what is read.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from edged.errors import ErrorCode, Invalid
from edged.protocol.json_bytes import (
    MAX_BODY_BYTES,
    MAX_NESTING,
    BadJsonError,
    decode,
    encode,
    encode_long,
)

__all__ = [
    "MAX_BODY_BYTES",
    "MAX_NESTING",
    "BadMessage",
    "Batch",
    "ErrorReply",
    "JsonObject",
    "Message",
    "Notification",
    "Request",
    "RequestId",
    "Response",
    "RpcCode",
    "encode",
    "error_bytes",
    "notification_bytes",
    "parse",
    "result_bytes",
    "result_bytes_from",
]

MAX_BATCH_ITEMS: Final = 1_000
"""Bounds the answer: 4 MiB of ``[1,1,…]`` would ask for two million error objects."""

RequestId = str | int
JsonObject = Mapping[str, Any]
NO_PARAMS: Final[JsonObject] = MappingProxyType({})


class RpcCode(enum.IntEnum):
    """Every error code that this product sends.

    The first block is JSON-RPC's own, the second MCP's (the first of it older than 2026-07-28, the
    others of it), the third ours: outside of -32768..-32000, which both keep for themselves.
    """

    PARSE_ERROR = -32700
    INVALID_REQUEST = -32600
    METHOD_NOT_FOUND = -32601
    INVALID_PARAMS = -32602
    INTERNAL_ERROR = -32603

    RESOURCE_NOT_FOUND = -32002
    HEADER_MISMATCH = -32020
    MISSING_CAPABILITY = -32021
    UNSUPPORTED_VERSION = -32022

    NOT_AUTHENTICATED = -33001
    NOT_ALLOWED = -33003
    DANGEROUS = -33004


class BadMessage(Invalid):
    """Bytes, or a part of a message, that cannot be served.

    Attributes:
        rpc_code: the JSON-RPC error code.
        request_id: the id to answer with, ``None`` where it could not be known.
        http_status: what HTTP says of it when it is the whole body of a POST.
    """

    default_code = ErrorCode.BAD_REQUEST

    def __init__(
        self,
        message: str,
        *,
        rpc_code: int,
        request_id: RequestId | None = None,
        http_status: int = 400,
        data: JsonObject = NO_PARAMS,
    ) -> None:
        super().__init__(message, data=data)
        self.rpc_code = rpc_code
        self.request_id = request_id
        self.http_status = http_status

    def reply(self) -> ErrorReply:
        """What to answer."""
        return ErrorReply(
            request_id=self.request_id,
            rpc_code=self.rpc_code,
            message=self.message,
            data=self.data or None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorReply:
    """A JSON-RPC error on its way out; ``data`` is left out of the bytes when it is ``None``."""

    request_id: RequestId | None
    rpc_code: int
    message: str
    data: JsonObject | None = None

    def encode(self) -> bytes:
        """The whole message."""
        return error_bytes(self.request_id, self.rpc_code, self.message, self.data)


@dataclass(slots=True, kw_only=True)
class Request:
    """A call that wants an answer. Made for every call, so not frozen: that costs three times."""

    id: RequestId
    method: str
    params: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """A call that wants none."""

    method: str
    params: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """A client's answer to something the server asked; exactly one of result and error counts."""

    id: RequestId | None
    result: object = None
    error: JsonObject | None = None


Message = Request | Notification | Response


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """An array body, in its order; an item that is no message stands as why it is none."""

    items: tuple[Message | BadMessage, ...]


def parse(body: bytes) -> Message | Batch:
    """Read the body of one POST.

    Raises:
        BadMessage: -32700 for what is not JSON (413 when it is too long), -32600 for what is JSON
            and no JSON-RPC message. Nothing else is ever raised, whatever the bytes are.
    """
    try:
        value = decode(body)
    except BadJsonError as bad:
        raise BadMessage(
            str(bad),
            rpc_code=RpcCode.INVALID_REQUEST if bad.is_json else RpcCode.PARSE_ERROR,
            http_status=413 if bad.is_too_long else 400,
        ) from None
    if not isinstance(value, list):
        return _message(value)
    if not value:
        raise _invalid("A batch holds at least one message.", None)
    if len(value) > MAX_BATCH_ITEMS:
        raise _invalid(f"A batch of {len(value)} messages is over {MAX_BATCH_ITEMS}.", None)
    return Batch(items=tuple(_message_or_complaint(item) for item in value))


def result_bytes(request_id: RequestId, result: JsonObject) -> bytes:
    """The answer to a request."""
    return result_bytes_from(request_id, encode_long(result))


def result_bytes_from(request_id: RequestId, encoded_result: bytes) -> bytes:
    """The answer to a request, from a result that was encoded before (a cached tool list)."""
    own_id = b"%d" % request_id if type(request_id) is int else encode(request_id)
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (own_id, encoded_result)


def error_bytes(
    request_id: RequestId | None, rpc_code: int, message: str, data: JsonObject | None = None
) -> bytes:
    """The refusal of a request; ``None`` says that its id is unknown."""
    error: dict[str, object] = {"code": int(rpc_code), "message": message}
    if data is not None:
        error["data"] = dict(data)
    return encode({"jsonrpc": "2.0", "id": request_id, "error": error})


def notification_bytes(method: str, params: JsonObject | None = None) -> bytes:
    """A message that wants no answer."""
    message: dict[str, object] = {"jsonrpc": "2.0", "method": method}
    if params is not None:
        message["params"] = dict(params)
    return encode(message)


def _message_or_complaint(value: object) -> Message | BadMessage:
    try:
        return _message(value)
    except BadMessage as bad:
        return bad


def _message(value: object) -> Message:
    """One JSON value as a message.

    Raises:
        BadMessage: -32600 (-32602 for positional params), with the id if that at least is one.
    """
    if not isinstance(value, dict):
        raise _invalid("A JSON-RPC message is an object.", None)
    request_id = _known_id(value)
    if value.get("jsonrpc") != "2.0":
        raise _invalid('"jsonrpc" must be "2.0".', request_id)
    if "method" in value:
        return _call(value, request_id)
    return _response(value, request_id)


def _known_id(value: dict[str, Any]) -> RequestId | None:
    found = value.get("id")
    return found if _is_id(found) else None


def _is_id(found: object) -> bool:
    return isinstance(found, str | int) and not isinstance(found, bool)


def _call(value: dict[str, Any], request_id: RequestId | None) -> Request | Notification:
    method, params = value["method"], value.get("params", {})
    if not isinstance(method, str):
        raise _invalid('"method" must be a string.', request_id)
    if "result" in value or "error" in value:
        raise _invalid("A message is either a call or an answer.", request_id)
    if "id" in value and request_id is None:
        raise _invalid('"id" must be a string or an integer.', None)
    if isinstance(params, list):
        raise BadMessage(
            "MCP passes params by name, in an object.",
            rpc_code=RpcCode.INVALID_PARAMS,
            request_id=request_id,
        )
    if not isinstance(params, dict):
        raise _invalid('"params" must be an object.', request_id)
    if request_id is None:
        return Notification(method=method, params=params)
    return Request(id=request_id, method=method, params=params)


def _response(value: dict[str, Any], request_id: RequestId | None) -> Response:
    if "result" not in value and "error" not in value:
        raise _invalid('A message has "method", "result" or "error".', request_id)
    if "result" in value and "error" in value:
        raise _invalid('An answer has "result" or "error", not both.', request_id)
    if "error" in value:
        error = value["error"]
        is_known = request_id is not None or ("id" in value and value["id"] is None)
        if not isinstance(error, dict) or not is_known:
            raise _invalid("An error answer has an id and an error object.", request_id)
        return Response(id=request_id, error=error)
    if request_id is None:
        raise _invalid('"id" must be a string or an integer.', None)
    return Response(id=request_id, result=value["result"])


def _invalid(message: str, request_id: RequestId | None) -> BadMessage:
    return BadMessage(message, rpc_code=RpcCode.INVALID_REQUEST, request_id=request_id)
