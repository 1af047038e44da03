"""POST /rpc over a real socket: who may come in, and what comes back."""

from __future__ import annotations

import io
import json
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest

from edged.actions.action import ReadState, State
from edged.actions.outcome import Outcome, OutcomeStatus
from edged.errors import ErrorCode, Failed, NotFound
from edged.surfaces.rpc.listener import RpcListener
from edged.tools.tool import Tool, ToolAnnotations, ToolCall

HINTS = ToolAnnotations(read_only=True, destructive=False, idempotent=True, open_world=False)


def tool(name: str) -> Tool:
    return Tool(
        name=name,
        title=name,
        description=name,
        input_schema={"type": "object"},
        annotations=HINTS,
        check=lambda _arguments: None,
        make=lambda call, check: ReadState(
            tool=call.name,
            caller=call.caller,
            action_id=call.action_id,
            check=check,
            state=State.STATUS,
        ),
    )


class Desk:
    """Stands in for ToolDesk: knows get_status, records what was called."""

    def __init__(self) -> None:
        self.calls: list[ToolCall] = []
        self.registry = SimpleNamespace(find=self.find, tools=lambda: (tool("get_status"),))

    def find(self, name: str) -> Tool:
        if name != "get_status":
            raise NotFound("There is no such tool.", code=ErrorCode.UNKNOWN_TOOL)
        return tool(name)

    async def call(self, call: ToolCall) -> Outcome:
        self.calls.append(call)
        if call.name != "get_status":
            error = NotFound("There is no such tool.", code=ErrorCode.UNKNOWN_TOOL)
            return Outcome(status=OutcomeStatus.REFUSED, error=error)
        return Outcome(status=OutcomeStatus.OK, data={"version": "x"})


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
async def open_rpc(desk: Desk) -> AsyncIterator[str]:
    async for url in serve(desk, None):
        yield url


@pytest.fixture
async def guarded_rpc(desk: Desk) -> AsyncIterator[str]:
    async for url in serve(desk, "s3cret"):
        yield url


async def serve(desk: Desk, token: str | None) -> AsyncIterator[str]:
    listener = RpcListener(desk=desk, port=0, token=token, new_action_id=lambda: "a1")  # type: ignore[arg-type]
    await listener.start()
    try:
        yield f"http://127.0.0.1:{listener.port}/rpc"
    finally:
        await listener.stop()


async def post(url: str, body: Any, **headers: str) -> tuple[int, Any]:
    data = io.BytesIO(body if isinstance(body, bytes) else json.dumps(body).encode())
    async with (
        aiohttp.ClientSession() as session,
        session.post(
            url, data=data, headers={"Content-Type": "application/json", **headers}
        ) as reply,
    ):
        return reply.status, await reply.json()


def request(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}


async def test_a_tool_is_called_by_tools_call_by_its_name_and_by_its_short_name(
    open_rpc: str, desk: Desk
) -> None:
    for body in (
        request("tools/call", name="get_status", arguments={}),
        request("get_status"),
        request("status"),
    ):
        status, reply = await post(open_rpc, body)
        assert status == 200
        assert reply == {
            "jsonrpc": "2.0",
            "id": 7,
            "result": {"is_error": False, "result": {"version": "x"}},
        }
    assert {call.name for call in desk.calls} == {"get_status"}
    assert {call.caller.route.value for call in desk.calls} == {"rpc"}


async def test_a_failed_tool_is_a_result_that_says_so(open_rpc: str) -> None:
    _, reply = await post(open_rpc, request("tools/call", name="nope", arguments={}))
    assert reply["result"]["is_error"] is True
    assert reply["result"]["error"]["code"] == "unknown_tool"


async def test_an_unknown_method_names_the_known_ones(open_rpc: str) -> None:
    status, reply = await post(open_rpc, request("nope"))
    assert status == 200
    assert reply["error"]["code"] == -32601
    assert "tools/call" in reply["error"]["data"]["remedy"]


async def test_without_the_token_nothing_comes_in(guarded_rpc: str, desk: Desk) -> None:
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic s3cret"}):
        status, reply = await post(guarded_rpc, request("status"), **headers)
        assert status == 401
        assert reply["error"]["code"] == -33001
    assert desk.calls == []
    status, _ = await post(guarded_rpc, request("status"), Authorization="bearer s3cret")
    assert status == 200


async def test_without_a_token_a_foreign_host_name_is_refused(open_rpc: str, desk: Desk) -> None:
    status, _ = await post(open_rpc, request("status"), Host="evil.example")
    assert status == 401
    assert desk.calls == []


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"{", 400, -32700),
        (b"[]", 400, -32600),
        (b'{"jsonrpc":"2.0","method":"status"}', 400, -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":3}}', 200, -32602),
    ],
)
async def test_what_is_no_request_gets_an_error_body(
    open_rpc: str, body: bytes, status: int, code: int
) -> None:
    found, reply = await post(open_rpc, body)
    assert (found, reply["error"]["code"]) == (status, code)


async def test_a_body_over_four_mebibytes_is_refused_with_a_body(open_rpc: str) -> None:
    status, reply = await post(open_rpc, b'"' + b"x" * (4 * 1024 * 1024 + 10) + b'"')
    assert status == 413
    assert reply["error"]["code"] == -32600


async def test_other_verbs_and_content_types_are_refused_with_a_body(open_rpc: str) -> None:
    async with aiohttp.ClientSession() as session:
        async with session.get(open_rpc) as reply:
            assert reply.status == 405
            assert reply.headers["Allow"] == "POST"
            assert "error" in await reply.json()
        async with session.post(open_rpc, data=b"{}", headers={"Content-Type": "text/plain"}) as r:
            assert r.status == 415


async def test_a_taken_port_is_told_with_its_number(open_rpc: str, desk: Desk) -> None:
    port = int(open_rpc.rsplit(":", 1)[1].split("/")[0])
    second = RpcListener(desk=desk, port=port, token=None, new_action_id=lambda: "a")  # type: ignore[arg-type]
    with pytest.raises(Failed, match=str(port)) as failure:
        await second.start()
    assert failure.value.code is ErrorCode.BIND_FAILED
