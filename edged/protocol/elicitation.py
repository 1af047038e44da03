"""Asking a person by the client that called: ``elicitation/create``, and the answer that asks.

Source: MCP 2025-06-18 and 2025-11-25 ``client/elicitation``; 2026-07-28 ``basic/patterns/mrtr``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from edged.protocol.jsonrpc import JsonObject, Request, Response, encode
from edged.protocol.messages import wrong_params
from edged.protocol.results import Server, plain_result
from edged.protocol.revisions import CLIENT_CAPABILITIES_KEY, Elicitation, Revision

KEY: Final = "approval"
"""Of our one question among ``inputRequests``."""
SCHEMA: Final[JsonObject] = {
    "type": "object",
    "properties": {
        "approve": {
            "type": "boolean",
            "title": "Send it",
            "description": "Lets exactly this go out to the instrument, once.",
        }
    },
    "required": ["approve"],
}


def can_elicit(capabilities: Mapping[str, Any]) -> bool:
    """Whether a client shows forms: ``elicitation`` that is empty, or names ``form``."""
    told = capabilities.get("elicitation")
    return isinstance(told, dict) and (not told or "form" in told)


def elicit_bytes(revision: Revision, request_id: str, message: str) -> bytes:
    """The request of ours that shows a person a question."""
    params = _params(message, has_mode=revision.elicitation is Elicitation.FORM)
    return encode(
        {"jsonrpc": "2.0", "id": request_id, "method": "elicitation/create", "params": params}
    )


def withdrawn_bytes(request_id: str) -> bytes:
    """That request is not to be answered any more."""
    params = {"requestId": request_id, "reason": "It was answered elsewhere, or has ended."}
    return encode({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})


def answer_of(response: Response) -> bool | None:
    """What a person said; ``None`` where the client could not ask."""
    if response.error is not None or not isinstance(response.result, dict):
        return None
    return _said(response.result)


def input_required_result(
    revision: Revision, server: Server, *, message: str, request_state: str
) -> bytes:
    """The answer to a call that is to be repeated with a person's answer."""
    asked = {"method": "elicitation/create", "params": _params(message, has_mode=True)}
    members = {"inputRequests": {KEY: asked}, "requestState": request_state}
    return plain_result(
        revision, server, method="tools/call", members=members, result_type="input_required"
    )


def round_of(request: Request) -> tuple[bool, str, bool | None]:
    """What a call brings along: whether its client shows forms, its state, and the answer.

    Raises:
        BadMessage: -32602, a member is of another type.
    """
    meta = request.params.get("_meta")
    told = meta.get(CLIENT_CAPABILITIES_KEY) if isinstance(meta, dict) else None
    state, answers = request.params.get("requestState"), request.params.get("inputResponses")
    if state is not None and not isinstance(state, str):
        raise wrong_params(request, "requestState must be a string.")
    if answers is not None and not isinstance(answers, dict):
        raise wrong_params(request, "inputResponses must be an object.")
    given = answers.get(KEY) if isinstance(answers, dict) else None
    if given is not None and not isinstance(given, dict):
        raise wrong_params(request, f"inputResponses.{KEY} must be an object.")
    answer = None if given is None else _said(given)
    return can_elicit(told if isinstance(told, dict) else {}), state or "", answer


def check_round(request: Request) -> None:
    """Judge what a call brings along, whoever needs it.

    Raises:
        BadMessage: as ``round_of``.
    """
    if "requestState" in request.params or "inputResponses" in request.params:
        round_of(request)


def _params(message: str, *, has_mode: bool) -> JsonObject:
    mode = {"mode": "form"} if has_mode else {}
    return {**mode, "message": message, "requestedSchema": SCHEMA}


def _said(result: Mapping[str, Any]) -> bool:
    content = result.get("content")
    is_yes = isinstance(content, dict) and content.get("approve") is True
    return result.get("action") == "accept" and is_yes
