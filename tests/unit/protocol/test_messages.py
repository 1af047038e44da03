"""Params in, notifications out."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import NoReturn

import pytest

from edged.protocol.jsonrpc import BadMessage, Notification, Request, RpcCode
from edged.protocol.messages import (
    RESOURCES_CHANGED,
    TOOLS_CHANGED,
    CallParams,
    Subscription,
    acknowledged_bytes,
    call_params,
    cancelled_id,
    change_bytes,
    completion_params,
    initialize_params,
    list_cursor,
    progress_bytes,
    progress_token,
    subscription_params,
)
from tests.promises import promise

SUBSCRIPTION_ID = "io.modelcontextprotocol/subscriptionId"
HELLO: dict[str, object] = {
    "protocolVersion": "2025-03-26",
    "capabilities": {"roots": {}},
    "clientInfo": {"name": "curl", "version": "8"},
}


def asked(method: str, params: dict[str, object]) -> Request:
    return Request(id="q", method=method, params=params)


def test_initialize_says_who_and_what() -> None:
    read = initialize_params(asked("initialize", HELLO))
    assert read.protocol_version == "2025-03-26"
    assert (read.client.name, read.client.version, read.client.title) == ("curl", "8", "")


def test_a_call_without_arguments_has_none() -> None:
    read = call_params(asked("tools/call", {"name": "get_status"}))
    assert read == CallParams(name="get_status", arguments={}, progress_token=None)


@pytest.mark.parametrize("token", [0, 1, -1, "", "0", "abc", 10**20])
def test_a_progress_token_keeps_its_type_and_zero_is_one(token: str | int) -> None:
    request = asked("tools/call", {"name": "x", "_meta": {"progressToken": token}})
    read = call_params(request).progress_token
    assert read == token
    assert type(read) is type(token)
    assert read is not None
    sent = json.loads(progress_bytes(read, 1))["params"]["progressToken"]
    assert sent == token
    assert type(sent) is type(token)


REF = {"type": "ref/prompt", "name": "check_bench"}


class _TooMany(list[object]):
    """A list that may be counted, and not read."""

    def __len__(self) -> int:
        return 300_000

    def __iter__(self) -> NoReturn:
        raise AssertionError("what is too large was read")

    def __repr__(self) -> NoReturn:
        self.__iter__()


TOO_MANY = _TooMany()

BAD_PARAMS: list[tuple[Callable[[Request], object], dict[str, object]]] = [
    (initialize_params, {}),
    (initialize_params, HELLO | {"protocolVersion": 20250326}),
    (initialize_params, HELLO | {"capabilities": None}),
    (initialize_params, HELLO | {"clientInfo": "curl"}),
    (initialize_params, HELLO | {"clientInfo": {"name": "curl"}}),
    (call_params, {}),
    (call_params, {"name": 5}),
    (call_params, {"name": None, "arguments": {}}),
    (call_params, {"name": "x", "arguments": []}),
    (call_params, {"name": "x", "arguments": "{}"}),
    (call_params, {"name": "x", "_meta": []}),
    (progress_token, {"_meta": {"progressToken": True}}),
    (progress_token, {"_meta": {"progressToken": 1.5}}),
    (progress_token, {"_meta": {"progressToken": ["a"]}}),
    (progress_token, {"_meta": {"progressToken": "x" * 1_025}}),
    (list_cursor, {"cursor": 1}),
    (subscription_params, {}),
    (subscription_params, {"notifications": []}),
    (subscription_params, {"notifications": {"toolsListChanged": 1}}),
    (subscription_params, {"notifications": {"resourceSubscriptions": "a:b"}}),
    (subscription_params, {"notifications": {"resourceSubscriptions": [1]}}),
    (subscription_params, {"notifications": {"resourceSubscriptions": TOO_MANY}}),
    (completion_params, {"ref": {"type": TOO_MANY}, "argument": {}}),
    (completion_params, {"ref": REF, "argument": {"name": "x" * 2_049, "value": ""}}),
]


@promise("arguments.null-is-left-out")
def test_what_is_optional_and_null_was_left_out() -> None:
    called = call_params(asked("m", {"name": "x", "arguments": None, "_meta": None}))
    assert (called.arguments, called.progress_token) == ({}, None)
    assert progress_token(asked("m", {"_meta": {"progressToken": None}})) is None
    assert list_cursor(asked("m", {"cursor": None})) is None
    wishes = {"toolsListChanged": None, "resourceSubscriptions": None}
    wished = subscription_params(asked("m", {"notifications": wishes}))
    assert (wished.methods, wished.resource_uris) == (frozenset(), ())


@pytest.mark.parametrize(("read", "params"), BAD_PARAMS)
def test_params_of_another_shape_are_refused_under_the_requests_id(
    read: Callable[[Request], object], params: dict[str, object]
) -> None:
    with pytest.raises(BadMessage) as caught:
        read(asked("m", params))
    assert (caught.value.rpc_code, caught.value.request_id) == (RpcCode.INVALID_PARAMS, "q")


def test_the_first_page_has_no_cursor() -> None:
    assert list_cursor(asked("tools/list", {})) is None
    assert list_cursor(asked("tools/list", {"cursor": "1.2"})) == "1.2"


@pytest.mark.parametrize(
    ("params", "meant"),
    [
        ({"requestId": 0}, 0),
        ({"requestId": "a", "reason": "x"}, "a"),
        ({}, None),
        ({"requestId": None}, None),
        ({"requestId": True}, None),
        ({"requestId": 1.0}, None),
    ],
)
def test_a_cancellation_names_a_request_or_is_void(
    params: dict[str, object], meant: object
) -> None:
    assert cancelled_id(Notification(method="notifications/cancelled", params=params)) == meant


def test_progress_carries_what_there_is_and_no_more() -> None:
    assert json.loads(progress_bytes(0, 1)) == {
        "jsonrpc": "2.0",
        "method": "notifications/progress",
        "params": {"progressToken": 0, "progress": 1},
    }
    full = progress_bytes("t", 2, total=9, message='{"value":1}', meta={"stream_id": "mcp-1"})
    assert json.loads(full)["params"] == {
        "progressToken": "t",
        "progress": 2,
        "total": 9,
        "message": '{"value":1}',
        "_meta": {"stream_id": "mcp-1"},
    }


def test_a_change_on_a_sessions_stream_has_no_subscription() -> None:
    assert json.loads(change_bytes(TOOLS_CHANGED)) == {
        "jsonrpc": "2.0",
        "method": "notifications/tools/list_changed",
    }


@pytest.mark.parametrize("listen_id", [0, "0"])
def test_every_message_of_a_subscription_carries_its_id_in_its_type(listen_id: str | int) -> None:
    wish = subscription_params(
        asked(
            "subscriptions/listen",
            {
                "notifications": {
                    "toolsListChanged": True,
                    "promptsListChanged": True,
                    "resourcesListChanged": False,
                    "resourceSubscriptions": ["a:b"],
                    "unknown": True,
                }
            },
        )
    )
    honoured = wish.honoured(frozenset({TOOLS_CHANGED, RESOURCES_CHANGED}))
    assert honoured == Subscription(methods=frozenset({TOOLS_CHANGED}))
    acknowledged = json.loads(acknowledged_bytes(listen_id, honoured))
    assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
    assert acknowledged["params"] == {
        "_meta": {SUBSCRIPTION_ID: listen_id},
        "notifications": {"toolsListChanged": True},
    }
    change = json.loads(change_bytes(TOOLS_CHANGED, subscription_id=listen_id))
    for message in (acknowledged, change):
        found = message["params"]["_meta"][SUBSCRIPTION_ID]
        assert found == listen_id
        assert type(found) is type(listen_id)


def test_resource_updates_are_honoured_where_the_server_sends_them() -> None:
    wish = Subscription(methods=frozenset(), resource_uris=("a:b",))
    honoured = wish.honoured(frozenset({"notifications/resources/updated"}))
    assert honoured.as_filter() == {"resourceSubscriptions": ["a:b"]}
