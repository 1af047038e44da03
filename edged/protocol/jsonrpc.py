"""JSON-RPC 2.0: bytes in, typed messages out, and back. Knows nothing of MCP or HTTP headers.

Whatever cannot be served ends here as ``BadMessage``, under the request's id where that is one. An
id that is neither a string nor an integer is refused and never taken for a notification: its
sender would wait for ever.

Source: the JSON-RPC 2.0 specification; ``json_bytes`` has the limits of what is read.

Bytes to JSON values and back, within limits that hold for any bytes.

What JSON readers disagree about, or choke on, ends here as ``BadJsonError``: bytes that are not
UTF-8, NaN, numbers without a float, nesting that would exhaust the stack, two
members of one name (two readers of the same bytes could believe different ones), half of a
surrogate pair (text that no database and no log can write). Every check is linear in the bytes.

Source: RFC 8259, RFC 7493 (I-JSON); docs/promises.md section 3 has the limits.
"""

from __future__ import annotations

import codecs
import enum
import itertools
import json
import math
import re
import secrets
from array import array
from collections.abc import Callable, Mapping
from dataclasses import field
from json import encoder
from types import MappingProxyType
from typing import Any, Final

from edged.errors import ErrorCode, Invalid
from edged.record import record

MAX_BODY_BYTES: Final = 4 * 1024 * 1024
"""What the reference server takes too; a waveform never comes in, only small arguments do."""
MAX_NESTING: Final = 64
"""Levels of arrays and objects; no schema of ours needs ten."""
MAX_VALUES: Final = 20_000
"""Values in a body. Two million of them in 4 MiB would block the event loop for 0.4 s, and what
reads them afterwards for longer; the most that a batch of 1,000 calls needs is less."""
MAX_INTEGER_DIGITS: Final = 300
"""Below 10**308, so that no reader of an argument meets ``OverflowError`` in ``float()``."""


LONG_TEXT_LEVELS: Final = 3
"""A result, its list of contents, one of them."""


class BadJsonError(ValueError):
    """Why bytes are not read, as a sentence.

    Attributes:
        is_json: JSON they are, but of a kind that is not served.
        is_too_long: they are more than may be read.
    """

    def __init__(self, message: str, *, is_json: bool = False, is_too_long: bool = False) -> None:
        super().__init__(message)
        self.is_json = is_json
        self.is_too_long = is_too_long


class VerbatimText(str):
    """A long text in which JSON has nothing to escape, so that nobody needs to look through it.

    Looking takes 7 ns a character and holds everything else up; a deep trace has 10**8 of them.
    """

    __slots__ = ()


def decode(
    body: bytes, *, most_bytes: int = MAX_BODY_BYTES, most_values: int = MAX_VALUES
) -> object:
    """A JSON value.

    Args:
        most_bytes: more are not read; answers may be longer than what is asked.
        most_values: the same, of values.

    Raises:
        BadJsonError: and nothing else, whatever the bytes are.
    """
    if len(body) > most_bytes:
        raise BadJsonError(
            f"The body has {len(body)} bytes; at most {most_bytes} are read.",
            is_json=True,
            is_too_long=True,
        )
    brackets = body.count(b"[") + body.count(b"{")
    if brackets > MAX_NESTING or brackets + body.count(b",") > most_values:
        _check_extent(body, most_values)
    try:
        # json.loads(bytes) would take UTF-16 and UTF-32 too. Tools of Windows begin with the mark.
        # So short a body holds no integer that is too long.
        decoder = _DECODER if len(body) > MAX_INTEGER_DIGITS else _SHORT_DECODER
        text = body.removeprefix(codecs.BOM_UTF8).decode("utf-8")
        value: object = None
        try:
            value, end = decoder.scan_once(text, 0)
        except StopIteration:
            end = -1
        if end != len(text):
            # There is white space around it, or something that is told.
            value = decoder.decode(text)
    except _DuplicateKeyError as twice:
        raise BadJsonError(f"The member {str(twice)!r} is given twice.", is_json=True) from None
    except UnicodeDecodeError:
        raise _not_json("it is not UTF-8") from None
    except json.JSONDecodeError as bad:
        raise _not_json(f"{bad.msg.removesuffix(' at')} at character {bad.pos}") from None
    except (ValueError, RecursionError) as bad:
        raise _not_json(str(bad)) from None
    if _HALF_SURROGATE.search(body):
        _check_surrogates(value)
    return value


def encode(value: object) -> bytes:
    """A JSON value as compact ASCII, so that no byte of it can end an SSE line.

    Raises:
        ValueError: NaN or an infinity is in it; such a value is a bug of whoever made it.
        TypeError: something in it is not JSON.
    """
    return encode_text(value).encode("ascii")


def encode_long(value: object) -> bytes:
    """``encode``, of what may hold a ``VerbatimText``, which is put in whole, not looked through.

    Args:
        value: a long text is looked for no deeper than a result's contents are.
    """
    if not _has_long(value, LONG_TEXT_LEVELS):
        return encode(value)
    texts: list[str] = []
    short = _marked(value, texts, LONG_TEXT_LEVELS)
    first, *rest = encode(short).split(_MARK.encode("ascii"))
    parts = [first]
    for text, part in zip(texts, rest, strict=True):
        parts += (text.encode("ascii"), part)
    return b"".join(parts)


def _has_long(value: object, levels: int) -> bool:
    if type(value) is VerbatimText:
        return True
    if not levels or not isinstance(value, dict | list | tuple):
        return False
    for item in value.values() if isinstance(value, dict) else value:
        # Each answer is looked through, and most of what is in one is plain.
        if type(item) is VerbatimText:
            return True
        if isinstance(item, dict | list | tuple) and _has_long(item, levels - 1):
            return True
    return False


_MARK: Final = secrets.token_hex(16)
"""Stands for a long text while the rest is encoded. No answer has it, so nobody can send it."""


def _marked(value: object, texts: list[str], levels: int) -> object:
    if type(value) is VerbatimText:
        texts.append(value)
        return _MARK
    if levels and isinstance(value, dict):
        return {key: _marked(item, texts, levels - 1) for key, item in value.items()}
    if levels and isinstance(value, list | tuple):
        return [_marked(item, texts, levels - 1) for item in value]
    return value


_HALF_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_STEPS: Final = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
_NOT_BRACKETS: Final = bytes(byte for byte in range(256) if byte not in b"[]{}")


def _check_extent(body: bytes, most_values: int) -> None:
    """Refuse too many values, and too deep a body, before a recursive reader sees it.

    Strings are cut out. A value stands behind each comma and, as the first, in each bracket. Each
    bracket becomes +1 or -1, and their running sum is the depth. A backslash outside of a string
    may mislead this; no reader reads on behind one.
    """
    # A member has two strings, each in two quotes. Splitting ends where there are too many.
    most_quotes = 4 * most_values
    pieces = body.replace(rb"\\", b"").replace(rb"\"", b"").split(b'"', most_quotes + 1)
    outside = b"".join(pieces[::2])
    steps = outside.translate(_STEPS, _NOT_BRACKETS)
    if len(pieces) > most_quotes + 1 or outside.count(b",") + steps.count(b"\x01") > most_values:
        raise _not_json(f"it holds more than {most_values} values")
    depths = array("i", itertools.accumulate(array("b", steps)))
    if not depths:
        return
    if depths[-1] != 0 or min(depths) < 0:
        raise _not_json("a bracket has no partner")
    if max(depths) > MAX_NESTING:
        raise _not_json(f"it is nested more than {MAX_NESTING} levels deep")


def _check_surrogates(value: object) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise _not_json("a string holds half of a surrogate pair") from None


class _DuplicateKeyError(ValueError):
    """The name of the member that came twice."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise _DuplicateKeyError(name[:80])
            seen.add(name)
    return members


def _integer(digits: str) -> int:
    if len(digits) > MAX_INTEGER_DIGITS:
        raise ValueError(f"an integer of {len(digits)} digits is over {MAX_INTEGER_DIGITS}")
    return int(digits)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:40]} is too large a number")
    return number


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _not_json(reason: str) -> BadJsonError:
    return BadJsonError(f"The body is not JSON: {reason}.")


_DECODER: Final[Any] = json.JSONDecoder(
    object_pairs_hook=_object,
    parse_int=_integer,
    parse_float=_finite,
    parse_constant=_no_constant,
)
_SHORT_DECODER: Final[Any] = json.JSONDecoder(
    object_pairs_hook=_object,
    parse_float=_finite,
    parse_constant=_no_constant,
)
_ENCODER: Final = json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(",", ":"))


def _text_encoder() -> Callable[[object], str]:
    """What ``JSONEncoder.encode`` does, but for building its part in C anew for each value."""
    make: Any = getattr(encoder, "c_make_encoder", None)
    if make is None:
        # An interpreter whose library is Python alone.
        return _ENCODER.encode
    pieces = make(
        None,
        _ENCODER.default,
        encoder.encode_basestring_ascii,
        None,
        _ENCODER.key_separator,
        _ENCODER.item_separator,
        _ENCODER.sort_keys,
        _ENCODER.skipkeys,
        _ENCODER.allow_nan,
    )
    return lambda value: "".join(pieces(value, 0))


encode_text: Final[Callable[[object], str]] = _text_encoder()
"""``encode`` as text; raises what that raises."""
quote: Final[Callable[[str], str]] = encoder.encode_basestring_ascii
"""A text as a JSON string."""


MAX_NAME_CHARS: Final = 1_024
"""Of a method, and of an id, which are repeated in answers, logs and notifications."""
BAD_ID: Final = f'"id" must be a string of at most {MAX_NAME_CHARS} characters or an integer.'
MAX_BATCH_ITEMS: Final = 1_000
"""Bounds the answer: 4 MiB of ``[1,1,…]`` would ask for two million error objects."""

RequestId = str | int
AroundId = tuple[bytes, bytes]
_QUOTE: Final = ord('"')
# Such an id is its bytes.
_CUT_AT_ID: Final = re.compile(rb'"id": ?("[\w.-]{0,64}"|0|[1-9]\d{0,14})').split
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


@record
class ErrorReply:
    """A JSON-RPC error on its way out; ``data`` is left out of the bytes when it is ``None``."""

    request_id: RequestId | None
    rpc_code: int
    message: str
    data: JsonObject | None = None

    def encode(self) -> bytes:
        """The whole message."""
        return error_bytes(self.request_id, self.rpc_code, self.message, self.data)


@record(frozen=False)
class Request:
    """A call that wants an answer. Made for every call, so not frozen: that costs three times."""

    id: RequestId
    method: str
    params: JsonObject = field(default_factory=dict)


@record
class Notification:
    """A call that wants none."""

    method: str
    params: JsonObject = field(default_factory=dict)


@record
class Response:
    """A client's answer to something the server asked; exactly one of result and error counts."""

    id: RequestId | None
    result: object = None
    error: JsonObject | None = None


Message = Request | Notification | Response


@record
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


def cut_at_id(body: bytes) -> tuple[AroundId, RequestId] | None:
    """What stands before and behind the first member ``id`` of a body, and that."""
    before, *found = _CUT_AT_ID(body, 1)
    if not found:
        return None
    token, behind = found
    return (before, behind), token[1:-1].decode() if token[0] == _QUOTE else int(token)


def around_id(body: bytes, request: Request) -> AroundId | None:
    """What stands around its id, if that is the same request around any other id, too.

    Args:
        request: what ``parse`` has made of the body. Where the body has no backslash, a member
            named ``id`` is spelled so; where it has one such word, that is the request's.
    """
    cut = cut_at_id(body)
    if cut is None or cut[1] != request.id or b"\\" in body or body.count(b'"id"') != 1:
        return None
    return cut[0]


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
        BadMessage: -32600 (-32602 for params that are no object), with the id if that is one.
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
    if isinstance(found, str):
        return found if len(found) <= MAX_NAME_CHARS else None
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def _call(value: dict[str, Any], request_id: RequestId | None) -> Request | Notification:
    method, params = value["method"], value.get("params")
    if not isinstance(method, str) or len(method) > MAX_NAME_CHARS:
        limit = f"at most {MAX_NAME_CHARS} characters"
        raise _invalid(f'"method" must be a string of {limit}.', request_id)
    if "result" in value or "error" in value:
        raise _invalid("A message is either a call or an answer.", request_id)
    if "id" in value and request_id is None:
        raise _invalid(BAD_ID, None)
    if params is None:
        params = {}
    if not isinstance(params, dict):
        raise BadMessage(
            'MCP passes "params" by name, in an object.',
            rpc_code=RpcCode.INVALID_PARAMS,
            request_id=request_id,
        )
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
        raise _invalid(BAD_ID, None)
    return Response(id=request_id, result=value["result"])


def _invalid(message: str, request_id: RequestId | None) -> BadMessage:
    return BadMessage(message, rpc_code=RpcCode.INVALID_REQUEST, request_id=request_id)
