"""POST /rpc over a real socket: who may come in, and what comes back."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
from aiohttp.test_utils import TestClient
from pytest_aiohttp import AiohttpClient

from edged.actions.action import MemoryAction
from edged.actions.caller import Caller
from edged.actions.outcome import Outcome, OutcomeStatus
from edged.actions.tool import Tool, ToolAnnotations, ToolCall
from edged.clock import SystemClock
from edged.errors import EdgedError, ErrorCode, Failed, NotFound
from edged.supervisor.watchdog import ask, look_at_rpc
from edged.surfaces.events.hub import EventHub, Publish, Source
from edged.surfaces.rpc.listener import RpcListener
from edged.surfaces.rpc.own_methods import OwnMethod
from edged.surfaces.rpc.settings import RpcSettings, Sights
from tests.bench.listener_server import ListenerServer, already_at
from tests.bench.mcp_client import McpClient
from tests.bench.waiting import HANGS_S
from tests.promises import promise

HINTS = ToolAnnotations(read_only=True, destructive=False, idempotent=True, open_world=False)


def tool(name: str) -> Tool:
    return Tool(
        name=name,
        title=name,
        description=name,
        input_schema={"type": "object"},
        annotations=HINTS,
        check=lambda _arguments: None,
        make=lambda call, check: MemoryAction(
            operation="get_status",
            tool=call.name,
            caller=call.caller,
            action_id=call.action_id,
            check=check,
        ),
    )


class Dispatcher:
    """Stands in for ToolDispatcher: knows get_status, records what was called."""

    def __init__(self) -> None:
        self.calls: list[ToolCall] = []
        self.rows: list[tuple[str, str]] = []
        self.publish: dict[str, Publish] = {}
        self.own: dict[str, OwnMethod] = {}
        self.hub = EventHub(
            sources={name: self._source(name) for name in ("instrument", "audit")},
            clock=SystemClock(),
        )
        self.registry = SimpleNamespace(find=self.find, tools=lambda: (tool("get_status"),))

    def _source(self, topic: str) -> Source:
        def follow(publish: Publish) -> Callable[[], None]:
            self.publish[topic] = publish
            return lambda: self.publish.pop(topic) and None

        return follow

    def method(self, caller: Caller, name: str, params: Any, **how: Any) -> None:
        self.rows.append((name, how["error"].code.value if how["error"] else "ok"))

    def refuse(self, caller: Caller, tool: str, error: EdgedError) -> None:
        self.rows.append((tool, error.code.value))

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
def dispatcher() -> Dispatcher:
    return Dispatcher()


@pytest.fixture
async def rpc(dispatcher: Dispatcher, aiohttp_client: AiohttpClient) -> TestClient:
    return await aiohttp_client(ListenerServer(serving(dispatcher)))


@pytest.fixture
async def guarded_rpc(dispatcher: Dispatcher, aiohttp_client: AiohttpClient) -> TestClient:
    return await aiohttp_client(ListenerServer(serving(dispatcher, "s3cret")))


async def no_metrics() -> tuple[bytes, str]:
    return b"edged_info 1", "text/plain"


def make_listener(dispatcher: Dispatcher, port: int, token: str | None) -> RpcListener:
    parts = RpcSettings(
        dispatcher=dispatcher,  # type: ignore[arg-type]
        token=token,
        new_action_id=lambda: "a1",
        record=dispatcher,
        sights=Sights(
            hub=dispatcher.hub, health=lambda: {"status": "ok"}, metrics=no_metrics, here=dict
        ),
        clock=SystemClock(),
        own=dispatcher.own,
    )
    return RpcListener(parts, port=port)


@asynccontextmanager
async def serving(dispatcher: Dispatcher, token: str | None = None) -> AsyncIterator[RpcListener]:
    listener = make_listener(dispatcher, 0, token)
    await listener.start()
    try:
        yield listener
    finally:
        await listener.stop()


async def post(rpc: TestClient, body: Any, **headers: str) -> tuple[int, Any]:
    data = io.BytesIO(body if isinstance(body, bytes) else json.dumps(body).encode())
    headers = {"Content-Type": "application/json", **headers}
    async with rpc.post("/rpc", data=data, headers=headers) as reply:
        return reply.status, await reply.json()


def request(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}


async def test_a_tool_is_called_by_tools_call_by_its_name_and_by_its_short_name(
    rpc: TestClient, dispatcher: Dispatcher
) -> None:
    for body in (
        request("tools/call", name="get_status", arguments={}),
        request("get_status"),
        request("status"),
    ):
        status, reply = await post(rpc, body)
        assert status == 200
        assert reply == {
            "jsonrpc": "2.0",
            "id": 7,
            "result": {"is_error": False, "result": {"version": "x"}},
        }
    assert {call.name for call in dispatcher.calls} == {"get_status"}
    assert {call.caller.route.value for call in dispatcher.calls} == {"rpc"}


async def test_a_failed_tool_is_a_result_that_says_so(rpc: TestClient) -> None:
    _, reply = await post(rpc, request("tools/call", name="nope", arguments={}))
    assert reply["result"]["is_error"] is True
    assert reply["result"]["error"]["code"] == "unknown_tool"


async def test_an_unknown_method_names_the_known_ones(rpc: TestClient) -> None:
    status, reply = await post(rpc, request("nope"))
    assert status == 200
    assert reply["error"]["code"] == -32601
    assert "tools/call" in reply["error"]["data"]["remedy"]


async def test_without_the_token_nothing_comes_in(
    guarded_rpc: TestClient, dispatcher: Dispatcher
) -> None:
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic s3cret"}):
        # aiohttp 3.8 ends the connection of a request whose body it has not read.
        status, reply = await post(guarded_rpc, request("status"), Connection="close", **headers)
        assert status == 401
        assert reply["error"]["code"] == -33001
    assert dispatcher.calls == []
    status, _ = await post(guarded_rpc, request("status"), Authorization="bearer s3cret")
    assert status == 200


async def test_without_a_token_a_foreign_host_name_is_refused(
    rpc: TestClient, dispatcher: Dispatcher
) -> None:
    status, _ = await post(rpc, request("status"), Host="evil.example")
    assert status == 401
    assert dispatcher.calls == []


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
    rpc: TestClient, body: bytes, status: int, code: int
) -> None:
    found, reply = await post(rpc, body)
    assert (found, reply["error"]["code"]) == (status, code)


async def test_a_body_over_four_mebibytes_is_refused_with_a_body(rpc: TestClient) -> None:
    status, reply = await post(rpc, b'"' + b"x" * (4 * 1024 * 1024 + 10) + b'"')
    assert status == 413
    assert reply["error"]["code"] == -32600


@pytest.mark.parametrize(
    ("path", "headers", "body", "status"),
    [
        ("/rpc", {"Content-Encoding": "gzip"}, b"no gzip", 415),
        ("/rpc", {"Content-Length": "99999999"}, b"{", 413),
        ("/nowhere", {}, b"{}", 404),
    ],
)
async def test_what_http_cannot_carry_gets_an_error_body_and_no_trace_in_the_log(
    rpc: TestClient,
    caplog: pytest.LogCaptureFixture,
    path: str,
    headers: dict[str, str],
    body: bytes,
    status: int,
) -> None:
    answer = await McpClient(rpc.port, path=path).post(body, headers)
    assert (answer.status, answer.error_code) == (status, -32600)
    assert [r for r in caplog.records if r.name.startswith("aiohttp")] == []


async def test_other_verbs_and_content_types_are_refused_with_a_body(rpc: TestClient) -> None:
    async with rpc.get("/rpc") as reply:
        assert reply.status == 405
        assert reply.headers["Allow"] == "POST"
        assert "error" in await reply.json()
    async with rpc.post("/rpc", data=b"{}", headers={"Content-Type": "text/plain"}) as reply:
        assert reply.status == 415


async def test_a_taken_port_is_told_with_its_number(
    rpc: TestClient, dispatcher: Dispatcher
) -> None:
    second = make_listener(dispatcher, rpc.port, None)
    with pytest.raises(Failed, match=str(rpc.port)) as failure:
        await second.start()
    assert failure.value.code is ErrorCode.BIND_FAILED


@promise("rpc.token")
async def test_every_path_of_the_port_wants_the_token(
    guarded_rpc: TestClient, dispatcher: Dispatcher
) -> None:
    for path in ("/healthz", "/metrics", "/events"):
        async with guarded_rpc.get(path) as reply:
            assert reply.status == 401
            assert (await reply.json())["error"]["code"] == -33001
    headers = {"Authorization": "Bearer s3cret"}
    async with guarded_rpc.get("/healthz", headers=headers) as reply:
        assert await reply.json() == {"status": "ok"}
    async with guarded_rpc.get("/metrics", headers=headers) as reply:
        assert b"edged_info" in await reply.read()
    assert dispatcher.rows == [
        (p, "not_authenticated") for p in ("/healthz", "/metrics", "/events")
    ]


@promise("record.not-by-time")
@pytest.mark.parametrize("token", [None, "s3cret"])
async def test_the_supervisors_look_is_answered_before_the_door_and_leaves_no_row(
    dispatcher: Dispatcher, token: str | None
) -> None:
    async with serving(dispatcher, token) as listener:
        assert all([await ask(listener.port, look_at_rpc(listener.port)) for _ in range(5)])
    assert dispatcher.rows == []
    assert dispatcher.calls == []


async def test_a_page_from_elsewhere_may_not_open_the_events(
    aiohttp_client: AiohttpClient, dispatcher: Dispatcher
) -> None:
    # One connection each: a refused handshake ends its own.
    alone = aiohttp.TCPConnector(force_close=True)
    rpc = await aiohttp_client(ListenerServer(serving(dispatcher)), connector=alone)
    own = str(rpc.make_url("/").origin())
    for foreign in ("https://evil.example", "http://localhost:3000", "null", f"{own}0", "://"):
        async with rpc.get("/events", headers={"Origin": foreign}) as reply:
            assert reply.status == 403, foreign
        with pytest.raises(aiohttp.WSServerHandshakeError):
            await rpc.ws_connect("/events", headers={"Origin": foreign})
    async with rpc.ws_connect("/events", headers={"Origin": own}):
        pass
    assert dispatcher.rows[0] == ("/events", "not_allowed")


@promise("rpc.events")
async def test_events_come_over_a_websocket_to_whoever_subscribed(
    rpc: TestClient, dispatcher: Dispatcher
) -> None:
    async with rpc.ws_connect("/events") as socket:
        await socket.send_json(request("subscribe", topics=["audit"]))
        assert (await socket.receive_json())["result"] == {"topics": ["audit"]}
        await socket.send_json(request("subscribe", topics=None))
        assert (await socket.receive_json())["result"] == {"topics": ["audit"]}
        dispatcher.publish["audit"]("row", {"seq": 3})
        told = await socket.receive_json()
        assert told["method"] == "event"
        assert (told["params"]["event"], told["params"]["data"]) == ("row", {"seq": 3})
        await socket.send_json(request("subscribe", topics=["nope"]))
        assert (await socket.receive_json())["error"]["code"] == -32602
        await socket.send_json(request("dance"))
        assert (await socket.receive_json())["error"]["code"] == -32601
        await socket.send_str("{")
        assert (await socket.receive_json())["error"]["code"] == -32700
        await socket.send_json(request("unsubscribe"))
        assert (await socket.receive_json())["result"] == {"topics": []}
    assert not dispatcher.publish


@promise("rpc.events")
async def test_a_reader_that_reads_too_slowly_is_told_over_the_wire_what_it_missed(
    rpc: TestClient, dispatcher: Dispatcher
) -> None:
    heavy = "x" * 20_000
    async with rpc.ws_connect("/events?topics=audit", max_msg_size=0) as socket:
        while not dispatcher.publish:
            await asyncio.sleep(0)
        sent = 0
        # More than the buffers of both sides and the queue of the reader hold.
        for _ in range(40):
            for _ in range(100):
                dispatcher.publish["audit"]("row", {"seq": sent, "text": heavy})
                sent += 1
            await asyncio.sleep(0)
        seen, missed = [], 0
        async with asyncio.timeout(HANGS_S):
            while len(seen) + missed < sent:
                told = await socket.receive_json()
                if told["method"] == "missed":
                    missed += told["params"]["count"]
                    assert told["params"]["topics"] == {"audit": told["params"]["count"]}
                else:
                    seen.append(told["params"]["data"]["seq"])
        assert missed > 0
        assert seen == sorted(set(seen))


async def test_topics_may_stand_in_the_url_and_must_exist(
    rpc: TestClient, dispatcher: Dispatcher
) -> None:
    async with rpc.ws_connect("/events?topics=audit") as socket:
        dispatcher.publish["audit"]("row", 1)
        assert (await socket.receive_json())["params"]["data"] == 1
    async with rpc.get("/events?topics=nope") as reply:
        assert reply.status == 400


async def test_the_listener_stops_at_once_beside_a_reader_that_says_nothing(
    aiohttp_client: AiohttpClient, dispatcher: Dispatcher
) -> None:
    listener = make_listener(dispatcher, 0, None)
    await listener.start()
    rpc = await aiohttp_client(already_at(listener.port))
    await rpc.ws_connect("/events?topics=audit")
    async with asyncio.timeout(HANGS_S):
        await listener.stop()


async def test_methods_of_the_daemon_leave_their_rows_and_tools_those_of_the_path(
    rpc: TestClient, dispatcher: Dispatcher
) -> None:
    for body in (
        request("version"),
        request("methods"),
        request("nope"),
        request("status"),
        request("tools/call", name=7),
    ):
        await post(rpc, body)
    assert dispatcher.rows == [
        ("version", "ok"),
        ("methods", "ok"),
        ("nope", "unknown_method"),
        ("tools/call", "bad_arguments"),
    ]
    assert [call.name for call in dispatcher.calls] == ["get_status"]


async def test_a_bug_is_an_answer_with_an_id_and_never_a_500(
    rpc: TestClient, dispatcher: Dispatcher
) -> None:
    async def broken(_params: Any) -> Any:
        raise RuntimeError("secret detail")

    dispatcher.own["broken"] = broken
    status, reply = await post(rpc, request("broken"))
    assert (status, reply["error"]["code"]) == (200, -32603)
    assert reply["error"]["data"]["data"]["fault_id"] == "a1"
    assert "secret detail" not in json.dumps(reply)
