"""Rules whose proof takes more than one request: streams, progress, news. See test_mcp_rules."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.bench.fake_resources import FakeResources
from tests.bench.mcp_client import Connection, modern
from tests.bench.mcp_endpoint import Endpoint, running_endpoint
from tests.bench.mcp_rules import LEGACY, V11, call, holds

SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
STREAM = {"Accept": "application/json, text/event-stream"}


@pytest.fixture
async def mcp() -> AsyncIterator[Endpoint]:
    async with running_endpoint(resources=FakeResources()) as endpoint:
        yield endpoint


async def open_modern(mcp: Endpoint, message: dict[str, Any]) -> Connection:
    body, headers = modern(message)
    connection = await mcp.client().open_post(body, headers | STREAM)
    status, _ = await connection.read_head()
    assert status == 200
    return connection


async def next_of(stream: Connection) -> dict[str, Any]:
    event = await stream.next_event()
    assert event is not None
    assert event.name == "message"
    message: dict[str, Any] = event.json()
    return message


def listen(request_id: Any, **wishes: Any) -> dict[str, Any]:
    return call("subscriptions/listen", request_id, notifications=wishes)


def counting(token: Any, request_id: Any = 7) -> dict[str, Any]:
    return call("tools/call", request_id, name="count", _meta={"progressToken": token})


@holds("get.opens-stream", "news.on-get")
@pytest.mark.parametrize("version", LEGACY)
async def test_a_session_hears_news_on_the_stream_of_its_get(mcp: Endpoint, version: str) -> None:
    client = await mcp.session(version)
    async with await client.open_stream() as stream:
        mcp.tools.change()
        event = await stream.next_event()
        while event is not None and not event.data:
            event = await stream.next_event()
        assert event is not None
        assert (event.name, event.json()["method"]) == (
            "message",
            "notifications/tools/list_changed",
        )


@holds("progress.token", "progress.increases", "progress.ends", "request.one-message-an-event")
@pytest.mark.parametrize("version", [*LEGACY, "modern"])
@pytest.mark.parametrize("token", [0, "t", "", 2**53])
async def test_progress_echoes_its_token_rises_and_ends_with_the_answer(
    mcp: Endpoint, version: str, token: Any
) -> None:
    mcp.tools.gate.set()
    if version == "modern":
        body, headers = modern(counting(token))
        answer = await mcp.client().post(body, headers)
    else:
        answer = await (await mcp.session(version)).post(counting(token))
    *reports, last = answer.messages()
    assert [report["params"]["progressToken"] for report in reports] == [token] * 3
    assert {type(report["params"]["progressToken"]) for report in reports} == {type(token)}
    assert [report["params"]["progress"] for report in reports] == [1, 2, 3]
    assert last["id"] == 7
    assert "result" in last
    assert answer.body.count(b"event: message\n") == 4


@holds("progress.only-with-token")
@pytest.mark.parametrize("version", [*LEGACY, "modern"])
async def test_without_a_token_there_is_no_progress(mcp: Endpoint, version: str) -> None:
    mcp.tools.gate.set()
    message = call("tools/call", name="count")
    if version == "modern":
        body, headers = modern(message)
        answer = await mcp.client().post(body, headers)
    else:
        answer = await (await mcp.session(version)).post(message)
    assert answer.json()["result"]["isError"] is False


@holds("modern.no-ids", "modern.only-answers", "modern.no-log")
async def test_a_modern_stream_has_no_ids_and_nothing_but_progress_and_the_answer(
    mcp: Endpoint,
) -> None:
    mcp.tools.gate.set()
    body, headers = modern(counting("t"))
    answer = await mcp.client().post(body, headers)
    methods = [message.get("method", "") for message in answer.messages()]
    assert methods == ["notifications/progress"] * 3 + [""]
    assert b"\nid:" not in answer.body
    assert b"\nretry:" not in answer.body
    assert answer.headers["x-accel-buffering"] == "no"


@holds("modern.error-in-stream")
async def test_an_error_after_the_stream_began_travels_in_it(mcp: Endpoint) -> None:
    async with await open_modern(mcp, counting("t")) as stream:
        for _ in range(3):
            await next_of(stream)
        await mcp.surface.stop(0.0)
        assert (await next_of(stream))["error"]["code"] == -32603
        assert await stream.next_event() is None


@holds("listen.acknowledged-first", "listen.subset", "listen.id")
@pytest.mark.parametrize("request_id", [0, 7, "sub-1"])
async def test_listen_is_acknowledged_with_what_is_honoured_under_its_own_id(
    mcp: Endpoint, request_id: Any
) -> None:
    wishes = {"toolsListChanged": True, "promptsListChanged": True, "unheardOf": True}
    async with await open_modern(mcp, listen(request_id, **wishes)) as stream:
        first = await next_of(stream)
        assert first["method"] == "notifications/subscriptions/acknowledged"
        assert first["params"]["notifications"] == {"toolsListChanged": True}
        mcp.tools.change()
        told = [first, await next_of(stream)]
        ids = [message["params"]["_meta"][SUBSCRIPTION] for message in told]
        assert ids == [request_id] * 2
        assert {type(found) for found in ids} == {type(request_id)}


@holds("listen.only-asked")
async def test_listen_carries_nothing_that_was_not_asked_for(mcp: Endpoint) -> None:
    async with await open_modern(mcp, listen(1, resourcesListChanged=True)) as stream:
        assert (await next_of(stream))["params"]["notifications"] == {"resourcesListChanged": True}
        mcp.tools.change()
        await mcp.surface.stop(0.0)
        # The next is the last word of the stream already: the change went by.
        assert (await next_of(stream))["id"] == 1


@holds("listen.ends-with-a-result")
async def test_listen_is_answered_when_the_server_ends_it(mcp: Endpoint) -> None:
    async with await open_modern(mcp, listen("s", toolsListChanged=True)) as stream:
        await next_of(stream)
        await mcp.surface.stop(1.0)
        last = await next_of(stream)
        assert (last["id"], last["result"]["resultType"]) == ("s", "complete")
        assert last["result"]["_meta"][SUBSCRIPTION] == "s"
        assert await stream.next_event() is None


@holds("list.same-for-all")
async def test_the_list_is_the_same_for_every_connection_and_in_one_order(mcp: Endpoint) -> None:
    body, headers = modern(call("tools/list"))
    answers = [await mcp.client().post(body, headers) for _ in range(3)]
    assert len({answer.body for answer in answers}) == 1
    names = [tool["name"] for tool in answers[0].json()["result"]["tools"]]
    assert names == [tool.name for tool in mcp.tools.tools()]


@holds("cancel.unknown-ignored", "cancel.not-initialize")
@pytest.mark.parametrize("params", [{}, {"requestId": 77}, {"requestId": None}, {"requestId": 1}])
async def test_a_cancellation_of_nothing_is_ignored(mcp: Endpoint, params: dict[str, Any]) -> None:
    client = await mcp.session(V11)  # its initialize had the id 1
    answer = await client.notify("notifications/cancelled", params)
    assert (answer.status, answer.body) == (202, b"")
    assert (await client.request("ping")).json()["result"] == {}


@holds("version-header.after-init")
@pytest.mark.parametrize("version", LEGACY)
async def test_a_session_speaks_its_revision_without_a_header(mcp: Endpoint, version: str) -> None:
    client = await mcp.session(version)
    client.version = ""
    (tool, *_) = (await client.request("tools/list")).json()["result"]["tools"]
    assert ("title" in tool) is (version != "2025-03-26")
