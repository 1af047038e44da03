"""Resources, completion and their news in every revision, over real sockets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.bench.fake_resources import BLOB, BROKEN, SECRET, TEXT, FakeResources
from tests.bench.mcp_client import Answer, Connection, McpClient, modern
from tests.bench.mcp_endpoint import Endpoint, running_endpoint
from tests.promises import promise

LEGACY = ["2025-03-26", "2025-06-18", "2025-11-25"]
EVERY = [*LEGACY, "2026-07-28"]


@pytest.fixture
def shelf() -> FakeResources:
    return FakeResources()


@pytest.fixture
async def mcp(shelf: FakeResources) -> AsyncIterator[Endpoint]:
    async with running_endpoint(resources=shelf) as endpoint:
        yield endpoint


async def ask(
    mcp: Endpoint, version: str, method: str, params: dict[str, Any] | None = None
) -> Answer:
    """One request in a revision: in a session of its own, or alone."""
    if version in LEGACY:
        return await (await mcp.session(version)).request(method, params)
    message, headers = modern(mcp.client().message(method, params or {}))
    return await mcp.client().post(message, headers)


async def listening(mcp: Endpoint, **wish: Any) -> tuple[Connection, dict[str, Any]]:
    """An open listen stream, and what it acknowledged."""
    message, headers = modern(
        mcp.client().message("subscriptions/listen", {"notifications": wish}, request_id="sub-7")
    )
    connection = await mcp.client().open_post(message, headers)
    await connection.read_head()
    event = await connection.next_event()
    assert event is not None
    params: dict[str, Any] = event.json()["params"]
    return connection, params


@promise("mcp.resources")
@pytest.mark.parametrize("version", EVERY)
async def test_resources_are_listed_with_what_each_revision_knows(
    mcp: Endpoint, version: str
) -> None:
    result = (await ask(mcp, version, "resources/list")).json()["result"]
    text, blob = result["resources"]
    assert text["uri"] == TEXT
    assert text["mimeType"] == "text/plain"
    assert blob == {"uri": BLOB, "name": "blob"}
    later = {"title", "annotations"} & set(text)
    assert later == (set() if version == LEGACY[0] else {"title", "annotations"})
    templates = (await ask(mcp, version, "resources/templates/list")).json()["result"]
    assert templates["resourceTemplates"][0]["uriTemplate"] == "test://{letter}"
    for answered in (result, templates):
        assert "nextCursor" not in answered
        if version == EVERY[-1]:
            assert answered["resultType"] == "complete"
            assert (answered["ttlMs"], answered["cacheScope"]) == (0, "private")
        else:
            assert not {"resultType", "ttlMs", "cacheScope"} & set(answered)


@pytest.mark.parametrize("version", EVERY)
async def test_a_text_and_a_blob_are_read(
    mcp: Endpoint, shelf: FakeResources, version: str
) -> None:
    answer = await ask(mcp, version, "resources/read", {"uri": TEXT})
    (content,) = answer.json()["result"]["contents"]
    assert content == {"uri": TEXT, "mimeType": "text/plain", "text": "hello"}
    answer = await ask(mcp, version, "resources/read", {"uri": BLOB})
    result = answer.json()["result"]
    (content,) = result["contents"]
    assert content["blob"] == "AAE="
    assert content.get("_meta") == (None if version == LEGACY[0] else {"y_unit": "V"})
    assert ("ttlMs" in result) is (version == EVERY[-1])
    assert len({action_id for _, _, action_id in shelf.read_by}) == 2


@pytest.mark.parametrize("version", EVERY)
async def test_what_is_not_there_or_not_allowed_is_an_error_with_its_own_code(
    mcp: Endpoint, version: str
) -> None:
    is_modern = version == EVERY[-1]
    answer = await ask(mcp, version, "resources/read", {"uri": "test://nothing"})
    assert answer.error_code == (-32602 if is_modern else -32002)
    assert answer.status == (400 if is_modern else 200)
    assert answer.json()["error"]["data"] == {"uri": "test://nothing"}
    answer = await ask(mcp, version, "resources/read", {"uri": SECRET})
    assert (answer.status, answer.error_code) == (200, -33003)
    assert (await ask(mcp, version, "resources/read", {"uri": BROKEN})).error_code == -32603
    for uri in (7, "test://" + "x" * 3000):
        message = mcp.client().message("resources/read", {"uri": uri})
        assert (await mcp.client().post(message)).error_code == -32602
    assert (await ask(mcp, version, "resources/list", {"cursor": "x"})).error_code == -32602


@pytest.mark.parametrize("version", EVERY)
async def test_completion_gives_the_first_hundred_and_says_how_many_there_are(
    mcp: Endpoint, version: str
) -> None:
    params = {
        "ref": {"type": "ref/resource", "uri": "test://{letter}"},
        "argument": {"name": "letter", "value": "a"},
        "context": {"arguments": {"other": "b"}},
    }
    result = (await ask(mcp, version, "completion/complete", params)).json()["result"]
    assert result["completion"]["values"][:2] == ["ab0", "ab1"]
    assert len(result["completion"]["values"]) == 100
    assert (result["completion"]["total"], result["completion"]["hasMore"]) == (150, True)


@pytest.mark.parametrize(
    "spoiled",
    [
        {"ref": "x"},
        {"ref": {"type": "ref/tool", "name": "echo"}},
        {"ref": {"type": "ref/resource"}},
        {"argument": {"name": "letter"}},
        {"argument": {"name": "letter", "value": 7}},
        {"context": {"arguments": {"other": 7}}},
    ],
)
async def test_a_completion_of_another_shape_is_refused(
    mcp: Endpoint, spoiled: dict[str, Any]
) -> None:
    params = {
        "ref": {"type": "ref/resource", "uri": "test://{letter}"},
        "argument": {"name": "letter", "value": "a"},
    }
    answer = await ask(mcp, LEGACY[1], "completion/complete", {**params, **spoiled})
    assert (answer.status, answer.error_code) == (200, -32602)


@promise("mcp.resource-news")
@pytest.mark.parametrize("version", LEGACY)
async def test_a_session_hears_of_the_list_and_of_what_it_subscribed_to(
    mcp: Endpoint, shelf: FakeResources, version: str
) -> None:
    client = await mcp.session(version)
    answer = await client.request("resources/subscribe", {"uri": TEXT})
    assert answer.json()["result"] == {}
    async with await client.open_stream() as stream:
        shelf.tell(TEXT, BLOB, is_list_changed=True)
        heard = [await next_message(stream) for _ in range(2)]
        await client.request("resources/unsubscribe", {"uri": TEXT})
        shelf.tell(TEXT)
        shelf.tell(is_list_changed=True)
        heard.append(await next_message(stream))
    changed = {"jsonrpc": "2.0", "method": "notifications/resources/list_changed"}
    updated = {"method": "notifications/resources/updated", "params": {"uri": TEXT}}
    assert heard == [changed, {"jsonrpc": "2.0", **updated}, changed]


async def test_a_subscription_needs_a_session_and_a_resource_that_may_be_read(
    mcp: Endpoint,
) -> None:
    alone = await mcp.client().request("resources/subscribe", {"uri": TEXT})
    assert alone.error_code == -32600
    client = await mcp.session()
    answer = await client.request("resources/subscribe", {"uri": SECRET})
    assert answer.error_code == -33003
    answer = await client.request("resources/subscribe", {"uri": "test://nothing"})
    assert answer.error_code == -32002


async def test_a_listen_stream_carries_what_it_acknowledged_and_nothing_else(
    mcp: Endpoint, shelf: FakeResources
) -> None:
    wish = {"resourcesListChanged": True, "resourceSubscriptions": [TEXT, SECRET, "test://no"]}
    stream, acknowledged = await listening(mcp, **wish)
    async with stream:
        assert acknowledged["notifications"] == {
            "resourcesListChanged": True,
            "resourceSubscriptions": [TEXT],
        }
        mcp.tools.change()
        shelf.tell(TEXT, BLOB, is_list_changed=True)
        first, second = [await next_message(stream) for _ in range(2)]
    subscription = {"io.modelcontextprotocol/subscriptionId": "sub-7"}
    assert first["method"] == "notifications/resources/list_changed"
    assert first["params"] == {"_meta": subscription}
    assert second["method"] == "notifications/resources/updated"
    assert second["params"] == {"uri": TEXT, "_meta": subscription}


async def test_a_listen_stream_may_not_watch_without_bound(mcp: Endpoint) -> None:
    uris = [f"test://{number}" for number in range(300)]
    params = {"notifications": {"resourceSubscriptions": uris}}
    answer = await ask(mcp, EVERY[-1], "subscriptions/listen", params)
    assert (answer.status, answer.error_code) == (400, -32602)


async def test_the_header_must_repeat_the_uri(mcp: Endpoint) -> None:
    message, headers = modern(mcp.client().message("resources/read", {"uri": TEXT}))
    answer = await mcp.client().post(message, {**headers, "Mcp-Name": BLOB})
    assert (answer.status, answer.error_code) == (400, -32020)


async def next_message(stream: Connection) -> Any:
    event = await stream.next_event()
    while event is not None and not event.data:
        event = await stream.next_event()
    assert event is not None
    return event.json()


async def test_where_nothing_can_be_read_the_lists_are_empty() -> None:
    async with running_endpoint() as endpoint:
        client: McpClient = await endpoint.session()
        answer = await client.request("resources/list")
        assert answer.json()["result"] == {"resources": []}
        answer = await client.request("resources/templates/list")
        assert answer.json()["result"] == {"resourceTemplates": []}
        assert (await client.request("resources/read", {"uri": TEXT})).error_code == -32002
