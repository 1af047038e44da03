"""Results as each revision wants them."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.protocol.jsonrpc import BadMessage, Request, RpcCode, VerbatimText
from edged.protocol.results import (
    Server,
    ToolEntry,
    discover_result,
    initialize_result,
    list_result,
    listen_result,
    page_number,
    ping_result,
    tool_pages,
    tool_result,
)
from edged.protocol.revisions import REVISIONS, Revision

V03, V06, V11, V26 = REVISIONS.values()
ALL = [V03, V06, V11, V26]
SERVER_INFO = "io.modelcontextprotocol/serverInfo"
SERVER = Server(
    name="edged",
    version="0.1.0",
    title="Bench",
    description="A bench.",
    instructions="Look first.",
    capabilities={"tools": {"listChanged": True}},
)


def tool(name: str = "list_instruments", **more: Any) -> ToolEntry:
    return ToolEntry(
        name=name,
        title="List instruments",
        description="What is on the bench.",
        input_schema={"type": "object", "additionalProperties": False},
        output_schema={"type": "object"},
        is_read_only=True,
        is_destructive=False,
        is_idempotent=True,
        is_open_world=False,
        **more,
    )


@pytest.mark.parametrize("revision", [V03, V06, V11])
def test_initialize_says_the_settled_revision_and_what_the_server_can(revision: Revision) -> None:
    result = json.loads(initialize_result(revision, SERVER))
    assert result["protocolVersion"] == revision.version
    assert result["capabilities"] == {"tools": {"listChanged": True}}
    assert result["instructions"] == "Look first."
    assert "resultType" not in result


def test_server_info_has_the_members_its_revision_knows() -> None:
    members = [set(json.loads(initialize_result(r, SERVER))["serverInfo"]) for r in ALL[:3]]
    assert members == [
        {"name", "version"},
        {"name", "version", "title"},
        {"name", "version", "title", "description"},
    ]


def test_discover_names_all_four_and_may_not_be_kept() -> None:
    result = json.loads(discover_result(V26, SERVER))
    assert result["supportedVersions"] == list(REVISIONS)
    assert result["capabilities"] == {"tools": {"listChanged": True}}
    assert (result["resultType"], result["ttlMs"]) == ("complete", 0)
    assert result["cacheScope"] == "private"
    assert result["_meta"][SERVER_INFO]["name"] == "edged"


def test_ping_is_answered_with_an_empty_object() -> None:
    assert ping_result() == b"{}"


@pytest.mark.parametrize("listen_id", [5, "5"])
def test_the_end_of_a_subscription_names_it(listen_id: str | int) -> None:
    result = json.loads(listen_result(V26, SERVER, listen_id))
    assert result["resultType"] == "complete"
    assert result["_meta"]["io.modelcontextprotocol/subscriptionId"] == listen_id
    assert "ttlMs" not in result


LISTED = {
    "2025-03-26": {"name", "description", "inputSchema", "annotations"},
    "2025-06-18": {"name", "title", "description", "inputSchema", "outputSchema", "annotations"},
}


@pytest.mark.parametrize("revision", ALL)
def test_a_listed_tool_has_the_members_its_revision_knows(revision: Revision) -> None:
    (page,) = tool_pages(revision, SERVER, [tool()], generation=1)
    result = json.loads(page)
    (entry,) = result["tools"]
    assert set(entry) == LISTED.get(revision.version, LISTED["2025-06-18"])
    title = {} if "title" in entry else {"title": "List instruments"}
    assert entry["annotations"] == title | {
        "readOnlyHint": True,
        "destructiveHint": False,
        "idempotentHint": True,
        "openWorldHint": False,
    }
    assert "nextCursor" not in result


@pytest.mark.parametrize("revision", ALL)
def test_only_the_modern_list_carries_caching_and_a_result_type(revision: Revision) -> None:
    result = json.loads(tool_pages(revision, SERVER, [], generation=1)[0])
    more = {"resultType", "ttlMs", "cacheScope", "_meta"} if revision is V26 else set()
    assert set(result) == {"tools"} | more
    assert result["tools"] == []


def test_other_lists_are_decorated_the_same_way() -> None:
    entries = [{"uri": "edged://x"}]
    old = json.loads(
        list_result(V03, SERVER, method="tools/list", key="resources", entries=entries)
    )
    new = json.loads(
        list_result(V26, SERVER, method="tools/list", key="resources", entries=entries)
    )
    assert old == {"resources": entries}
    assert new["resources"] == entries
    assert new["ttlMs"] == 0


@given(st.lists(st.integers(0, 300), max_size=30), st.integers(1, 1500), st.sampled_from(ALL))
def test_pages_hold_every_tool_once_in_order_and_each_cursor_leads_on(
    sizes: list[int], max_page_bytes: int, revision: Revision
) -> None:
    tools = [tool(f"t{n}", meta={"pad": "x" * size}) for n, size in enumerate(sizes)]
    pages = tool_pages(revision, SERVER, tools, generation=3, max_page_bytes=max_page_bytes)
    names: list[str] = []
    cursor: str | None = None
    for _ in pages:
        request = Request(id=1, method="tools/list")
        number = page_number(request, cursor, generation=3, count=len(pages))
        page = json.loads(pages[number])
        names += [entry["name"] for entry in page["tools"]]
        cursor = page.get("nextCursor")
    assert cursor is None
    assert names == [entry.name for entry in tools]


@pytest.mark.parametrize("cursor", ["", "1", "0.1", "1.0", "1.2", "1.-1", "2.1", "x", "1.1 "])
def test_a_cursor_that_is_not_of_this_list_is_refused(cursor: str) -> None:
    with pytest.raises(BadMessage) as caught:
        page_number(Request(id=4, method="tools/list"), cursor, generation=1, count=2)
    assert (caught.value.rpc_code, caught.value.request_id) == (RpcCode.INVALID_PARAMS, 4)


@pytest.mark.parametrize("revision", ALL)
def test_a_tool_result_is_one_text_item_of_its_json(revision: Revision) -> None:
    data = {"success": True, "data": 1.5, "unit": "Ω"}
    result = json.loads(tool_result(revision, SERVER, data=data))
    (item,) = result["content"]
    assert item["type"] == "text"
    assert json.loads(item["text"]) == data
    assert result["isError"] is False
    if revision is V03:
        assert "structuredContent" not in result
    else:
        assert result["structuredContent"] == data
    assert result.get("resultType") == ("complete" if revision is V26 else None)
    assert (SERVER_INFO in result.get("_meta", {})) is (revision is V26)


@pytest.mark.parametrize("revision", ALL)
def test_a_list_is_bare_in_the_text_and_wrapped_in_the_structure(revision: Revision) -> None:
    result = json.loads(tool_result(revision, SERVER, data=[{"id": "a"}], wrap_key="instruments"))
    assert json.loads(result["content"][0]["text"]) == [{"id": "a"}]
    if revision.has_structured_content:
        assert result["structuredContent"] == {"instruments": [{"id": "a"}]}


def test_a_list_without_a_key_is_wrapped_all_the_same() -> None:
    result = json.loads(tool_result(V06, SERVER, data=(1, 2)))
    assert result["structuredContent"] == {"result": [1, 2]}


@pytest.mark.parametrize("data", [None, "x", 1, True])
def test_what_is_no_object_and_no_list_has_no_structure(data: object) -> None:
    result = json.loads(tool_result(V11, SERVER, data=data))
    assert "structuredContent" not in result
    assert json.loads(result["content"][0]["text"]) == data


def test_an_error_says_its_sentence() -> None:
    result = json.loads(tool_result(V03, SERVER, data=None, is_error=True, text="Use start_sweep."))
    assert result == {
        "content": [{"type": "text", "text": "Use start_sweep."}],
        "isError": True,
    }


def test_an_image_follows_the_text() -> None:
    image = {"type": "image", "data": "AA==", "mimeType": "image/png"}
    result = json.loads(tool_result(V03, SERVER, data={}, more_content=[image]))
    assert result["content"][1] == image


def test_a_result_with_nan_is_never_sent() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        tool_result(V03, SERVER, data={"value": math.nan})


@pytest.mark.parametrize("revision", ALL)
def test_a_long_base64_text_is_put_in_as_it_is(revision: Revision) -> None:
    samples = "AAECAw==" * 1000
    plain = {"y_length": 7, "encoding": "base64", "y_data": samples, "x_unit": '"s'}
    spliced = {**plain, "y_data": VerbatimText(samples)}
    assert tool_result(revision, SERVER, data=spliced) == tool_result(revision, SERVER, data=plain)


def test_a_text_that_only_says_it_is_base64_is_escaped() -> None:
    data = {"encoding": "base64", "y_data": 'not "safe"'}
    told = json.loads(tool_result(V11, SERVER, data=data))
    assert json.loads(told["content"][0]["text"]) == data
