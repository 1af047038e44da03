"""Sessions, their GET streams, and list_changed, over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from edged.actions.action import Progress
from edged.actions.caller import Caller, Route
from edged.actions.tool import ToolCall
from edged.errors import ErrorCode, Refused
from edged.surfaces.mcp.seams import CallerHead
from edged.surfaces.mcp.sessions import MOST_STREAMS
from tests.bench.mcp_client import OMIT, Connection, McpClient
from tests.bench.mcp_endpoint import Endpoint, running_endpoint
from tests.bench.mcp_rules import holds
from tests.bench.waiting import HANGS_S
from tests.promises import promise

CHANGED = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}


@holds("session.id-form")
async def test_a_session_id_is_visible_ascii_and_new_each_time(mcp: Endpoint) -> None:
    ids = {(await mcp.session()).session_id for _ in range(10)}
    assert len(ids) == 10
    assert all(len(i) >= 22 and all("!" <= c <= "~" for c in i) for i in ids)


@promise("mcp.session-404")
async def test_an_unknown_session_is_exactly_404_with_the_request_id(mcp: Endpoint) -> None:
    client = McpClient(mcp.port, session_id="nobody")
    answer = await client.request("tools/list", request_id="r-1")
    assert answer.status == 404
    assert answer.json()["id"] == "r-1"
    assert (await client.send("GET")).status == 404
    assert (await client.send("DELETE")).status == 404


async def test_initialize_with_a_stale_id_starts_a_new_session(mcp: Endpoint) -> None:
    client = McpClient(mcp.port, session_id="stale")
    assert (await client.initialize()).status == 200
    assert client.session_id != "stale"


@promise("mcp.one-shot")
async def test_a_call_without_a_session_is_served_as_a_one_shot(mcp: Endpoint) -> None:
    answer = await mcp.client().request("tools/call", {"name": "echo"})
    assert answer.json()["result"]["isError"] is False
    assert "mcp-session-id" not in answer.headers


async def test_a_session_opens_before_the_first_look_and_tools_are_told_after_it() -> None:
    first_look = asyncio.Event()
    async with running_endpoint(first_look=first_look) as endpoint:
        client = await endpoint.session()
        assert (await client.request("ping")).status == 200
        listing = asyncio.create_task(endpoint.client().request("tools/list"))
        call = asyncio.create_task(endpoint.client().request("tools/call", {"name": "echo"}))
        for _ in range(3):
            assert (await client.request("ping")).status == 200
        assert not listing.done()
        assert not call.done()
        first_look.set()
        assert (await listing).json()["result"]["tools"]
        assert (await call).json()["result"]["isError"] is False


async def test_notifications_and_responses_get_202_without_a_body(mcp: Endpoint) -> None:
    client = await mcp.session()
    for message in (
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "method": "notifications/unheard_of"},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 77}},
        {"jsonrpc": "2.0", "method": "notifications/cancelled"},
        {"jsonrpc": "2.0", "id": 5, "result": {}},
    ):
        answer = await client.post(message)
        assert (answer.status, answer.body) == (202, b""), message


@holds("session.ended-404")
async def test_delete_ends_a_session(mcp: Endpoint) -> None:
    client = await mcp.session()
    answer = await client.send("DELETE")
    assert answer.status == 200
    assert (await client.request("ping")).status == 404
    assert mcp.surface.session_count == 0


async def test_delete_ends_the_stream_and_the_calls_of_its_session(mcp: Endpoint) -> None:
    client = await mcp.session()
    async with (
        await client.open_stream() as stream,
        await client.open_post(client.tool_call("wait")),
    ):
        await mcp.tools.started.get()
        await client.send("DELETE")
        assert await stream.next_event() is None
        await mcp.tools.ended.get()
    assert mcp.tools.cancelled == ["wait"]


@holds("session.ended-404")
async def test_an_idle_session_expires(mcp: Endpoint) -> None:
    async with running_endpoint(session_idle_s=0.05) as short:
        client = await short.session()
        async with asyncio.timeout(HANGS_S):
            while short.surface.session_count:
                await asyncio.sleep(0.01)
        assert (await client.request("ping")).status == 404


@promise("mcp.session-expiry")
async def test_a_session_does_not_expire_under_a_call_or_a_stream() -> None:
    async with running_endpoint(session_idle_s=0.5) as mcp:
        busy, listening, idle = [await mcp.session() for _ in range(3)]
        async with await listening.open_stream() as stream:
            async with await busy.open_post(busy.tool_call("wait")) as call:
                await mcp.tools.started.get()
                async with asyncio.timeout(HANGS_S):
                    while mcp.surface.session_count > 2:
                        await asyncio.sleep(0.01)
                mcp.tools.gate.set()
                assert (await call.read_answer()).status == 200
            mcp.tools.change()
            event = await stream.next_event()
            assert event is not None
            assert event.json() == CHANGED
        assert (await idle.request("ping")).status == 404


@promise("mcp.eviction")
async def test_the_newest_session_of_a_caller_that_has_its_share_makes_room() -> None:
    async with running_endpoint(max_sessions=3) as mcp:
        first, second, third = [await mcp.session() for _ in range(3)]
        assert (await first.request("ping")).status == 200
        fourth = await mcp.session()
        statuses = [(await c.request("ping")).status for c in (first, second, third, fourth)]
        assert statuses == [200, 200, 404, 200]


async def test_with_every_session_at_work_a_new_one_is_refused_with_words() -> None:
    async with running_endpoint(max_sessions=1) as mcp:
        client = await mcp.session()
        async with await client.open_post(client.tool_call("wait")):
            await mcp.tools.started.get()
            other = await mcp.client().request(
                "initialize",
                {
                    "protocolVersion": "2025-03-26",
                    "capabilities": {},
                    "clientInfo": {"name": "t", "version": "1"},
                },
            )
            assert "MAX_SESSIONS" in other.json()["error"]["message"]


@promise("mcp.list-changed")
async def test_list_changed_goes_to_every_session_with_a_stream(mcp: Endpoint) -> None:
    clients = [await mcp.session() for _ in range(3)]
    streams = [await client.open_stream() for client in clients]
    for _ in range(3):
        mcp.tools.change()
    for stream in streams:
        for _ in range(3):
            event = await stream.next_event()
            assert event is not None
            assert event.json() == CHANGED
            assert event.name == "message"
        await stream.close()


@holds("news.waits")
@promise("mcp.list-changed")
async def test_list_changed_waits_once_for_the_next_stream(mcp: Endpoint) -> None:
    client = await mcp.session()
    mcp.tools.change()
    mcp.tools.change()
    async with await client.open_stream() as stream:
        event = await stream.next_event()
        assert event is not None
        assert event.json() == CHANGED
        await client.send("DELETE")
        assert await stream.next_event() is None


@holds("get.several")
@promise("mcp.get-several")
async def test_two_streams_of_a_session_stay_open_and_news_go_on_the_newest() -> None:
    async with running_endpoint(keep_alive_s=0.03) as mcp:
        client = await mcp.session()
        async with await client.open_stream() as first:
            async with await client.open_stream() as second:
                mcp.tools.change()
                event = await second.next_event()
                assert event is not None
                assert event.json() == CHANGED
                for stream in (first, second, first, second):
                    alive = await stream.next_event(comments=True)
                    assert alive is not None
                    assert alive.comment
            # The newest is gone: news go on the other one.
            while True:
                mcp.tools.change()
                event = await first.next_event(comments=True)
                assert event is not None
                if not event.comment:
                    break
            assert event.json() == CHANGED


@holds("get.several")
@promise("mcp.get-several")
async def test_the_oldest_of_too_many_streams_ends(mcp: Endpoint) -> None:
    client = await mcp.session()
    async with contextlib.AsyncExitStack() as stack:
        streams = [
            await stack.enter_async_context(await client.open_stream())
            for _ in range(MOST_STREAMS + 1)
        ]
        assert await streams[0].next_event() is None
        mcp.tools.change()
        event = await streams[-1].next_event()
        assert event is not None
        assert event.json() == CHANGED


@holds("stream.one-only", "progress.own-stream")
async def test_one_message_goes_on_one_stream_only(mcp: Endpoint) -> None:
    client = await mcp.session()
    async with (
        await client.open_stream() as stream,
        await client.open_post(client.tool_call("count", token="t")) as call,
    ):
        await mcp.tools.started.get()
        mcp.tools.change()
        event = await stream.next_event()
        assert event is not None
        assert event.json() == CHANGED
        mcp.tools.gate.set()
        answer = await call.read_answer()
        assert "list_changed" not in answer.body.decode()


@holds("resume.replay")
async def test_a_stream_that_broke_goes_on_after_the_last_event(mcp: Endpoint) -> None:
    client = await mcp.session()
    async with await client.open_stream() as stream:
        mcp.tools.change()
        first = await stream.next_event()
        mcp.tools.change()
        second = await stream.next_event()
        assert first is not None
        assert second is not None
    async with await client.open_stream(last_event_id=first.id) as stream:
        again = await stream.next_event()
        assert again == second


@holds("resume.own-streams")
async def test_event_ids_of_another_session_mean_nothing(mcp: Endpoint) -> None:
    one, other = await mcp.session(), await mcp.session()
    async with await one.open_stream() as stream:
        mcp.tools.change()
        event = await stream.next_event()
        mcp.tools.change()
        assert event is not None
        async with await other.open_stream(last_event_id=event.id) as foreign:
            waiting = await foreign.next_event()
            assert waiting is not None
            assert waiting.id.rpartition("-")[0] != event.id.rpartition("-")[0]


@holds("resume.replay", "resume.that-stream-only")
async def test_a_broken_stream_of_a_call_is_resumed_by_a_get(mcp: Endpoint) -> None:
    client = await mcp.session()
    call = await client.open_post(client.tool_call("count", token=0, request_id=9))
    await call.read_head()
    first = await call.next_event()
    assert first is not None
    assert first.json()["params"] == {"progressToken": 0, "progress": 1, "message": "point 1"}
    call.abort()
    await mcp.tools.started.get()
    async with await client.open_stream(last_event_id=first.id) as stream:
        progress = [(await next_of(stream))["params"]["progress"] for _ in range(2)]
        assert progress == [2, 3]
        mcp.tools.gate.set()
        last = await next_of(stream)
        assert last["id"] == 9
        assert last["result"]["isError"] is False
        assert await stream.next_event() is None
    async with await client.open_stream(last_event_id=first.id) as stream:
        assert len([await next_of(stream) for _ in range(3)]) == 3
        assert await stream.next_event() is None


@holds("resume.not-for-streams")
async def test_a_watched_call_has_no_event_ids(mcp: Endpoint) -> None:
    client = await mcp.session()
    mcp.tools.gate.set()
    answer = await client.post(client.tool_call("count_watched", token="t"))
    assert len(answer.messages()) == 4
    assert b"\nid:" not in answer.body


@holds("stream.kept-alive")
async def test_open_streams_are_kept_alive_with_comments() -> None:
    async with running_endpoint(keep_alive_s=0.03) as mcp:
        client = await mcp.session()
        async with await client.open_stream() as stream:
            for _ in range(2):
                event = await stream.next_event(comments=True)
                assert event is not None
                assert event.comment
        async with await client.open_post(client.tool_call("wait")) as call:
            status, headers = await call.read_head()
            assert (status, headers["content-type"]) == (200, "text/event-stream")
            for _ in range(2):
                event = await call.next_event(comments=True)
                assert event is not None
                assert event.comment
            mcp.tools.gate.set()
            final = await call.next_event()
            assert final is not None
            assert final.json()["result"]["isError"] is False


@holds("progress.still-under-way")
@promise("mcp.progress-beat")
async def test_a_silent_call_with_a_token_sends_progress_between_its_own() -> None:
    async with running_endpoint(keep_alive_s=0.03) as mcp:
        client = await mcp.session()
        async with await client.open_post(client.tool_call("wait", token="t")) as call:
            await call.read_head()
            numbers = []
            for _ in range(3):
                event = await call.next_event()
                assert event is not None
                params = event.json()["params"]
                assert params["progressToken"] == "t"
                assert params["message"] == "Still under way."
                numbers.append(params["progress"])
            assert numbers == sorted(set(numbers))
            assert numbers[0] > 0
            assert numbers[-1] < 1
            mcp.tools.gate.set()
            while (event := await call.next_event()) is not None:
                final = event.json()
            assert final["result"]["isError"] is False


@holds("progress.still-under-way")
@promise("mcp.progress-beat")
async def test_a_call_of_a_batch_that_waits_for_its_turn_is_not_silent_either() -> None:
    async with running_endpoint(keep_alive_s=0.03) as mcp:
        client = await mcp.session()
        batch = [
            client.tool_call("wait", request_id="a"),
            client.tool_call("echo", token=0, request_id="b"),
            client.tool_call("echo", token=[], request_id="c"),
        ]
        async with await client.open_post(batch) as call:
            await call.read_head()
            for _ in range(2):
                event = await call.next_event()
                assert event is not None
                assert event.json()["params"]["progressToken"] == 0
                assert event.json()["params"]["message"] == "Still under way."
            mcp.tools.gate.set()
            answers = {}
            while (event := await call.next_event()) is not None:
                told = event.json()
                if "id" in told:
                    answers[told["id"]] = told
            assert answers["b"]["result"]["isError"] is False
            assert answers["c"]["error"]["code"] == -32602


@holds("cancel.stops")
async def test_a_call_that_is_cancelled_before_its_turn_sends_no_progress() -> None:
    async with running_endpoint(keep_alive_s=0.03) as mcp:
        client = await mcp.session()
        batch = [
            client.tool_call("wait", request_id="a"),
            client.tool_call("echo", token=0, request_id="b"),
        ]
        async with await client.open_post(batch) as call:
            await call.read_head()
            cancel = {
                "jsonrpc": "2.0",
                "method": "notifications/cancelled",
                "params": {"requestId": "b"},
            }
            assert (await client.post(cancel)).status == 202
            # Where nothing is told of a call, a comment shows that the stream is alive.
            event = await call.next_event(comments=True)
            while event is not None and not event.comment:
                event = await call.next_event(comments=True)
            assert event is not None
            mcp.tools.gate.set()
            while (event := await call.next_event()) is not None:
                assert event.json()["id"] == "a"


@holds("progress.increases")
async def test_reports_that_begin_anew_still_have_numbers_that_increase(mcp: Endpoint) -> None:
    async def twice(call: ToolCall) -> Any:
        assert call.progress is not None
        for number in (1, 2, 1, 2, 3):
            call.progress(Progress(progress=number, message=""))
        return {}

    mcp.tools.add("twice", twice)
    client = await mcp.session()
    async with await client.open_post(client.tool_call("twice", token="t")) as call:
        answer = await call.read_answer()
    numbers = [m["params"]["progress"] for m in answer.messages() if "method" in m]
    assert numbers[:2] == [1, 2]
    assert numbers[-1] == 3
    assert numbers == sorted(set(numbers))
    assert len(numbers) == 5


@holds("resume.priming")
async def test_streams_begin_with_an_id_where_the_revision_has_it(mcp: Endpoint) -> None:
    client = await mcp.session("2025-11-25")
    async with await client.open_stream() as stream:
        event = await stream.next_event()
        assert event is not None
        assert (event.id != "", event.data) == (True, "")


async def test_a_stream_needs_a_session_that_is_its_own(mcp: Endpoint) -> None:
    client = await mcp.session()
    headers = {"Accept": "text/event-stream", "Mcp-Session-Id": OMIT}
    assert (await client.send("GET", headers=headers)).status == 400


async def test_stopping_ends_streams_and_sessions() -> None:
    async with running_endpoint() as mcp:
        client = await mcp.session()
        stream = await client.open_stream()
        await mcp.surface.stop(0.0)
        assert await stream.next_event() is None
        await stream.close()
        assert mcp.surface.session_count == 0


async def test_ten_slow_readers_do_not_hold_the_others_up(mcp: Endpoint) -> None:
    for _ in range(10):
        client = await mcp.session()
        stalled = await client.open_stream()
        stalled.writer.transport.pause_reading()
        await stalled.close()
    reader = await mcp.session()
    async with await reader.open_stream() as stream:
        mcp.tools.change()
        assert await stream.next_event() is not None


class TwoUsersGuard:
    """Knows the tokens ``alice`` and ``bob``."""

    async def guard(self, head: CallerHead) -> Caller:
        match head.tokens:
            case ():
                return self.direct(head.remote)
            case (("alice" | "bob") as name,):
                return Caller(route=Route.RELAY, remote=head.remote, subject=f"user:{name}")
        raise Refused("Not authenticated.", code=ErrorCode.NOT_AUTHENTICATED)

    def direct(self, remote: str) -> Caller:
        return Caller(route=Route.DIRECT, remote=remote)


async def test_a_session_belongs_to_its_route_and_subject() -> None:
    async with running_endpoint(guard=TwoUsersGuard()) as mcp:
        alice = McpClient(mcp.port, headers={"Edge-Caller-JWT": "alice"})
        await alice.initialize()
        thieves: list[dict[str, Any]] = [{}, {"Edge-Caller-JWT": "bob"}]
        for headers in thieves:
            thief = McpClient(mcp.port, session_id=alice.session_id, headers=headers)
            assert (await thief.request("tools/list")).status == 404
            assert (await thief.send("DELETE")).status == 404
        assert await alice.call("echo")
        (call,) = mcp.tools.calls
        assert (call.caller.route, call.caller.subject) == (Route.RELAY, "user:alice")
        assert call.caller.session_id
        assert call.caller.session_id != alice.session_id


@promise("relay.never-direct")
@pytest.mark.parametrize("token", ["", " ", "eyJh.eyJz.c2ln", "alice"])
@pytest.mark.parametrize("verb", ["GET", "DELETE", "PUT", "OPTIONS"])
async def test_a_token_header_on_any_verb_is_401_while_there_is_no_relay(
    mcp: Endpoint, verb: str, token: str
) -> None:
    answer = await mcp.client().send(verb, headers={"Edge-Caller-JWT": token})
    assert answer.status == 401
    assert answer.error_code == -33001
    assert not token.strip() or token not in answer.body.decode()


@promise("relay.never-direct")
@pytest.mark.parametrize("token", ["", "eyJh.eyJz.c2ln"])
@pytest.mark.parametrize("method", ["initialize", "ping", "tools/list", "tools/call", "nonsense"])
async def test_a_token_header_on_any_method_is_401_with_the_request_id(
    mcp: Endpoint, method: str, token: str
) -> None:
    client = McpClient(mcp.port, headers={"Edge-Caller-JWT": token})
    answer = await client.request(method, {"name": "echo"}, request_id="abc")
    assert answer.status == 401
    assert answer.error_code == -33001
    assert answer.json()["id"] == "abc"
    assert mcp.tools.calls == []


async def test_two_token_headers_are_never_taken_for_none(mcp: Endpoint) -> None:
    async with await Connection.to(mcp.port) as connection:
        request = (
            mcp.client()
            .bytes_of("POST", b"{}")
            .replace(b"\r\n", b"\r\nEdge-Caller-JWT: a\r\nedge-caller-jwt: b\r\n", 1)
        )
        connection.send(request)
        assert (await connection.read_answer()).status == 401


async def next_of(stream: Connection) -> Any:
    event = await stream.next_event()
    assert event is not None
    return event.json()
