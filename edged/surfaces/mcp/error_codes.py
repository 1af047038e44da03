"""``PLACES``: domain error → what an MCP caller gets: JSON-RPC error, or result with ``isError``.

The one place where errors are translated for MCP. A model sees results and can correct itself; it
often never sees protocol errors. So what it can do something about is a result, and what its client
has to deal with is an error.

Source: docs/promises.md section 12; docs/mcp-rules.md.
"""

from __future__ import annotations

import base64
import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from edged.actions.outcome import Outcome, OutcomeStatus, Picture, ResourceLink
from edged.actions.tool import Tool
from edged.errors import EdgedError, ErrorCode, Failed
from edged.protocol.elicitation import input_required_result
from edged.protocol.jsonrpc import ErrorReply, RequestId, RpcCode
from edged.protocol.results import Server, Told, ToldList, told_result, tool_result
from edged.protocol.revisions import Revision


class Place(enum.Enum):
    """Where an error goes that has no JSON-RPC code of its own."""

    RESULT = "result"
    BY_REVISION = "by_revision"
    """-32602, or a result where the revision wants bad arguments to be one."""


def call_answer(
    outcome: Outcome,
    request_id: RequestId,
    *,
    tool: Tool | None,
    revision: Revision,
    server: Server,
) -> bytes | ErrorReply:
    """The answer to a tools/call: an encoded result, or the error instead of one."""
    error, data = outcome.error, outcome.data
    wrap_key = tool.wrap_key if tool is not None else ""
    if error is None and isinstance(data, Told | ToldList):
        return data.answers.get(revision) or told_result(revision, server, data, wrap_key)
    if outcome.status is OutcomeStatus.ASKED:
        return input_required_result(revision, server, **data)
    if error is None:
        more: list[dict[str, Any]] = [*map(_image, outcome.pictures)]
        if revision.has_resource_links:
            more += map(_link, outcome.links)
        return tool_result(
            revision,
            server,
            data=_beside_pictures(data) if outcome.pictures else data,
            is_error=outcome.is_tool_error,
            wrap_key=wrap_key,
            text=data if outcome.pictures and isinstance(data, str) else None,
            more_content=more,
        )
    # Once a line was sent, a failure is what became of the call, whatever its code.
    has_sent = isinstance(error, Failed) and bool(error.sent)
    if not has_sent and not is_result(error.code, revision):
        return error_reply(error, request_id)
    data = data if data is not None else {"error": error.for_caller()}
    # Some clients hold even an error against the output schema: each schema names its members.
    return tool_result(revision, server, data=data, is_error=True)


def error_reply(error: EdgedError, request_id: RequestId | None) -> ErrorReply:
    """The JSON-RPC error that an error is when there is no result to put it in."""
    place = PLACES[error.code]
    return ErrorReply(
        request_id=request_id,
        rpc_code=place if isinstance(place, RpcCode) else RpcCode.INVALID_PARAMS,
        message=str(error),
        data=error.data or None,
    )


def is_result(code: ErrorCode, revision: Revision) -> bool:
    """Whether a tools/call answers this error by a result with ``isError``."""
    place = PLACES[code]
    if place is Place.BY_REVISION:
        return revision.is_bad_argument_a_result
    return place is Place.RESULT


def _beside_pictures(data: Any) -> Any:
    """What is told beside a picture: not that once more in base64.

    Many clients hand their model the structured content instead of the picture.
    """
    match data:
        case {"data": {"image": _, "encoding": _, **told}, **rest}:
            return {**rest, "data": told}
        case _:
            return data


def _image(picture: Picture) -> dict[str, str]:
    data = base64.b64encode(picture.data).decode("ascii")
    return {"type": "image", "data": data, "mimeType": picture.mime}


def _link(link: ResourceLink) -> dict[str, Any]:
    return {
        "type": "resource_link",
        "uri": link.uri,
        "name": link.name,
        "mimeType": link.mime,
        "size": link.size,
    }


PLACES: Final[Mapping[ErrorCode, RpcCode | Place]] = MappingProxyType(
    {
        # what the request is, before anything is done
        ErrorCode.BAD_REQUEST: RpcCode.INVALID_REQUEST,
        ErrorCode.UNKNOWN_METHOD: RpcCode.METHOD_NOT_FOUND,
        ErrorCode.UNKNOWN_SESSION: RpcCode.INVALID_REQUEST,
        ErrorCode.UNKNOWN_TOOL: RpcCode.INVALID_PARAMS,
        ErrorCode.UNKNOWN_RESOURCE: RpcCode.INVALID_PARAMS,
        ErrorCode.BAD_ARGUMENTS: Place.BY_REVISION,
        ErrorCode.BAD_SCPI: Place.BY_REVISION,
        # who may
        ErrorCode.NOT_AUTHENTICATED: RpcCode.NOT_AUTHENTICATED,
        ErrorCode.NO_KEYS: RpcCode.INTERNAL_ERROR,
        ErrorCode.NOT_ALLOWED: RpcCode.NOT_ALLOWED,
        ErrorCode.DANGEROUS: RpcCode.DANGEROUS,
        # what a model can do something about; few agents list tools again that have changed
        ErrorCode.RENAMED_TOOL: Place.RESULT,
        ErrorCode.UNKNOWN_INSTRUMENT: Place.RESULT,
        ErrorCode.UNKNOWN_COMMAND: Place.RESULT,
        ErrorCode.UNKNOWN_SEQUENCE: Place.RESULT,
        ErrorCode.UNKNOWN_SWEEP: Place.RESULT,
        ErrorCode.UNKNOWN_STREAM: Place.RESULT,
        ErrorCode.UNKNOWN_POINT: Place.RESULT,
        ErrorCode.UNKNOWN_RUN: Place.RESULT,
        ErrorCode.UNKNOWN_LEASE: Place.RESULT,
        ErrorCode.UNKNOWN_APPROVAL: Place.RESULT,
        ErrorCode.REQUIRES_SWEEP: Place.RESULT,
        ErrorCode.LOCKED_OUT: Place.RESULT,
        ErrorCode.DEAD_MAN: Place.RESULT,
        ErrorCode.DENIED_BY_OWNER: Place.RESULT,
        ErrorCode.RAW_SCPI_RESTRICTED: Place.RESULT,
        ErrorCode.SWEEP_CONFLICT: Place.RESULT,
        ErrorCode.INTERLOCK: Place.RESULT,
        ErrorCode.BUDGET: Place.RESULT,
        ErrorCode.LEASED: Place.RESULT,
        ErrorCode.NEEDS_APPROVAL: Place.RESULT,
        ErrorCode.APPROVAL_DENIED: Place.RESULT,
        ErrorCode.BUSY: Place.RESULT,
        # what the world did
        ErrorCode.TIMEOUT: Place.RESULT,
        ErrorCode.DISCONNECTED: Place.RESULT,
        ErrorCode.INSTRUMENT_ERROR: Place.RESULT,
        ErrorCode.BAD_ANSWER: Place.RESULT,
        ErrorCode.VERIFY_FAILED: Place.RESULT,
        ErrorCode.PREEMPTED: Place.RESULT,
        ErrorCode.CANCELLED: Place.RESULT,
        ErrorCode.STEP_FAILED: Place.RESULT,
        ErrorCode.STORE_FAILED: Place.RESULT,
        ErrorCode.WRAPPER_FAILED: Place.RESULT,
        ErrorCode.SDK_MISSING: Place.RESULT,
        ErrorCode.RECORDING_FAILED: Place.RESULT,
        ErrorCode.DRAWING_FAILED: Place.RESULT,
        ErrorCode.NO_ENGINE: Place.RESULT,
        ErrorCode.EDGE_FAILED: Place.RESULT,
        # what is wrong here
        ErrorCode.BAD_PROFILE: Place.RESULT,
        ErrorCode.BAD_CONFIG: RpcCode.INTERNAL_ERROR,
        ErrorCode.UNSUPPORTED_PLATFORM: RpcCode.INTERNAL_ERROR,
        ErrorCode.BIND_FAILED: RpcCode.INTERNAL_ERROR,
        ErrorCode.INTERNAL: RpcCode.INTERNAL_ERROR,
    }
)
