"""tools/call over real sockets: results, progress, cancellation, clients that leave."""

from __future__ import annotations

import asyncio
import json
from collections import Counter

import pytest
from structlog.testing import capture_logs

from edged.actions.tool import ToolCall
from edged.errors import Conflict, ErrorCode, Failed, Invalid, Refused
from edged.surfaces.mcp.calling import SERVED_AT_ONCE
from tests.bench.mcp_client import modern
from tests.bench.mcp_endpoint import Endpoint, running_endpoint
from tests.bench.mcp_rules import holds
from tests.bench.waiting import HANGS_S
from tests.promises import promise


async def test_the_text_of_a_result_is_its_json(mcp: Endpoint) -> None:
    client = await mcp.session()
    result = await client.call("echo", {"volts": 5})
    assert result == {
        "content": [{"type": "text", "text": '{"echo":{"volts":5}}'}],
        "isError": False,
    }


@promise("mcp.list-wrapped")
async def test_a_list_stays_bare_in_the_text_and_is_wrapped_in_structured_content(
    mcp: Endpoint,
) -> None:
    client = await mcp.session("2025-06-18")
    result = await client.call("things")
    assert json.loads(result["content"][0]["text"]) == [{"name": "a"}, {"name": "b"}]
    assert result["structuredContent"] == {"things": [{"name": "a"}, {"name": "b"}]}


async def test_an_unknown_tool_is_invalid_params(mcp: Endpoint) -> None:
    for version in ("2025-03-26", "2025-06-18", "2025-11-25"):
        client = await mcp.session(version)
        assert (await client.call("no_such_tool"))["code"] == -32602


@promise("mcp.argument-errors")
async def test_bad_arguments_are_an_error_then_a_result_from_2025_11_25_on(mcp: Endpoint) -> None:
    bad = Invalid(
        "voltage 61 V is over the maximum 60 V of rigol_dp832.set_voltage.",
        data={"parameter": "voltage", "value": 61, "maximum": 60},
    )
    mcp.tools.fails("set_voltage", bad)
    old = await (await mcp.session("2025-06-18")).call("set_voltage")
    assert old["code"] == -32602
    assert old["data"] == {"parameter": "voltage", "value": 61, "maximum": 60}
    new = await (await mcp.session("2025-11-25")).call("set_voltage")
    assert new["isError"] is True
    assert "61 V is over the maximum 60 V" in new["content"][0]["text"]


async def test_what_a_model_can_correct_is_a_result_that_says_how(mcp: Endpoint) -> None:
    mcp.tools.fails(
        "ramped",
        Refused("set_hv must be ramped.", code=ErrorCode.REQUIRES_SWEEP, remedy="Use start_sweep."),
    )
    mcp.tools.fails("held", Conflict("sweep-1 moves it.", code=ErrorCode.SWEEP_CONFLICT))
    client = await mcp.session()
    ramped = await client.call("ramped")
    assert ramped["isError"] is True
    assert "Use start_sweep." in ramped["content"][0]["text"]
    assert (await client.call("held"))["isError"] is True


async def test_an_instrument_failure_keeps_the_shape_of_its_tool(mcp: Endpoint) -> None:
    shape = {"success": False, "data": None, "error": {"message": "late", "sent": ["VOLT 5"]}}
    mcp.tools.fails("late", Failed("late", code=ErrorCode.TIMEOUT, sent=("VOLT 5",)), shape)
    result = await (await mcp.session()).call("late")
    assert result["isError"] is True
    assert json.loads(result["content"][0]["text"]) == shape


async def test_a_failure_whose_shape_has_a_text_is_an_error_too(mcp: Endpoint) -> None:
    shape = {"response": None, "error": "No answer.", "execution_time_ms": 1}
    mcp.tools.fails("raw", Failed("No answer.", code=ErrorCode.TIMEOUT), shape)
    result = await (await mcp.session()).call("raw")
    assert result["isError"] is True
    assert json.loads(result["content"][0]["text"]) == shape


async def test_permissions_have_codes_of_their_own(mcp: Endpoint) -> None:
    mcp.tools.fails("denied", Refused("Not allowed.", code=ErrorCode.NOT_ALLOWED))
    mcp.tools.fails("danger", Refused("Dangerous.", code=ErrorCode.DANGEROUS))
    client = await mcp.session()
    assert (await client.call("denied"))["code"] == -33003
    answer = await client.request("tools/call", {"name": "danger"}, request_id=4)
    assert (answer.status, answer.error_code, answer.json()["id"]) == (200, -33004, 4)


@promise("mcp.faults")
async def test_a_bug_is_an_internal_error_with_an_id_that_is_in_the_log(mcp: Endpoint) -> None:
    client = await mcp.session()
    with capture_logs() as logs:
        error = await client.call("bug")
    assert error["code"] == -32603
    assert "secret detail" not in json.dumps(error)
    (line,) = [entry for entry in logs if entry["event"] == "internal_fault"]
    assert error["data"]["fault_id"] == line["fault_id"]


async def test_calls_that_go_well_are_not_logged(mcp: Endpoint) -> None:
    client = await mcp.session()
    with capture_logs() as logs:
        await client.call("echo")
    assert [entry for entry in logs if entry["log_level"] != "debug"] == []


async def test_progress_precedes_the_result_on_the_stream_of_its_call(mcp: Endpoint) -> None:
    client = await mcp.session()
    mcp.tools.gate.set()
    for token in (0, "a", 17):
        answer = await client.post(client.tool_call("count", token=token))
        *progress, final = answer.messages()
        assert [p["params"]["progress"] for p in progress] == [1, 2, 3]
        assert {json.dumps(p["params"]["progressToken"]) for p in progress} == {json.dumps(token)}
        assert all(p["method"] == "notifications/progress" for p in progress)
        assert final["result"]["isError"] is False
        assert answer.headers["x-accel-buffering"] == "no"


async def test_progress_is_sent_while_the_call_runs(mcp: Endpoint) -> None:
    client = await mcp.session()
    async with await client.open_post(client.tool_call("count", token="t")) as call:
        await call.read_head()
        assert await call.next_event() is not None
        assert not mcp.tools.gate.is_set()


async def test_without_a_token_or_a_stream_there_is_no_progress(mcp: Endpoint) -> None:
    client = await mcp.session()
    mcp.tools.gate.set()
    assert len((await client.post(client.tool_call("count"))).messages()) == 1
    only_json = {"Accept": "application/json"}
    answer = await client.post(client.tool_call("count", token="t"), only_json)
    assert answer.headers["content-type"] == "application/json"


async def test_a_bad_progress_token_is_invalid_params(mcp: Endpoint) -> None:
    client = await mcp.session()
    for token in (True, 1.5, [], {}):
        answer = await client.post(client.tool_call("count", token=token))
        assert answer.error_code == -32602


async def test_a_batch_is_answered_by_one_array_in_its_order(mcp: Endpoint) -> None:
    client = await mcp.session()
    answer = await client.post(
        [
            client.tool_call("echo", request_id="a"),
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            client.message("ping", request_id="b"),
            client.message("no/such", request_id="c"),
            7,
        ]
    )
    assert answer.status == 200
    replies = json.loads(answer.body)
    assert [reply["id"] for reply in replies] == ["a", "b", "c", None]
    assert replies[2]["error"]["code"] == -32601


async def test_a_batch_of_notifications_is_202(mcp: Endpoint) -> None:
    client = await mcp.session()
    note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    answer = await client.post([note, note])
    assert (answer.status, answer.body) == (202, b"")


async def test_initialize_is_never_part_of_a_batch(mcp: Endpoint) -> None:
    client = mcp.client()
    answer = await client.post([client.message("initialize", {}), client.message("ping")])
    assert answer.status == 400


async def test_calls_of_a_batch_run_in_their_order(mcp: Endpoint) -> None:
    client = await mcp.session()
    mcp.tools.gate.set()
    await client.post([client.tool_call(name) for name in ("wait", "echo", "count", "echo")])
    assert [call.name for call in mcp.tools.calls] == ["wait", "echo", "count", "echo"]


@promise("mcp.bounded-bodies")
async def test_between_the_calls_of_a_long_batch_others_have_their_turn(mcp: Endpoint) -> None:
    turns = 0
    served_in: list[int] = []

    def count_turn() -> None:
        nonlocal turns, turn
        turns += 1
        turn = asyncio.get_running_loop().call_soon(count_turn)

    async def note(_: ToolCall) -> int:
        served_in.append(turns)
        return len(served_in)

    mcp.tools.add("note", note, at_once=True)
    client = await mcp.session()
    turn = asyncio.get_running_loop().call_soon(count_turn)
    answer = await client.post([client.tool_call("note") for _ in range(1_000)])
    turn.cancel()

    texts = [reply["result"]["content"][0]["text"] for reply in json.loads(answer.body)]
    assert texts == [str(number) for number in range(1, 1_001)]
    assert max(Counter(served_in).values()) <= SERVED_AT_ONCE


@promise("mcp.same-id")
async def test_of_two_calls_in_flight_with_one_id_the_second_is_refused(mcp: Endpoint) -> None:
    client = await mcp.session()
    async with await client.open_post(client.tool_call("wait", request_id=5)) as first:
        await mcp.tools.started.get()
        second = await client.post(client.tool_call("wait", request_id=5))
        assert second.error_code == -32600
        other = await mcp.session()
        third = await other.open_post(other.tool_call("wait", request_id=5))
        await mcp.tools.started.get()
        mcp.tools.gate.set()
        assert (await first.read_answer()).json()["id"] == 5
        assert (await third.read_answer()).json()["id"] == 5
        await third.close()
    again = await client.post(client.tool_call("wait", request_id=5))
    assert again.json()["result"]["isError"] is False


@holds("cancel.stops")
@promise("mcp.cancelled")
async def test_cancelled_stops_the_call_and_gets_no_answer_for_it(mcp: Endpoint) -> None:
    client = await mcp.session()
    async with await client.open_post(client.tool_call("wait", request_id="x")) as call:
        await mcp.tools.started.get()
        note = await client.notify("notifications/cancelled", {"requestId": "x", "reason": "no"})
        assert note.status == 202
        answer = await call.read_answer()
        assert (answer.status, answer.body) == (202, b"")
    assert mcp.tools.cancelled == ["wait"]
    assert (await client.call("echo"))["isError"] is False


@holds("cancel.stops")
async def test_a_call_can_be_cancelled_whatever_else_has_come_with_its_id(mcp: Endpoint) -> None:
    client = await mcp.session()
    async with await client.open_post(client.tool_call("wait", request_id=1)) as call:
        await mcp.tools.started.get()
        # As of a client that gives every request the same id.
        for method in ("tools/list", "nonsense"):
            assert (await client.request(method, request_id=1)).status == 200
        await client.notify("notifications/cancelled", {"requestId": 1})
        assert (await call.read_answer()).status == 202
    assert mcp.tools.cancelled == ["wait"]


async def test_a_cancelled_stream_ends_without_a_result(mcp: Endpoint) -> None:
    client = await mcp.session()
    async with await client.open_post(client.tool_call("count", token=1, request_id=3)) as call:
        await mcp.tools.started.get()
        await client.notify("notifications/cancelled", {"requestId": 3})
        answer = await call.read_answer()
        assert [message.get("method") for message in answer.messages()] == [
            "notifications/progress"
        ] * 3


@holds("cancel.scoped")
async def test_only_the_session_of_a_call_can_cancel_it(mcp: Endpoint) -> None:
    client, other = await mcp.session(), await mcp.session()
    async with await client.open_post(client.tool_call("wait", request_id=1)) as call:
        await mcp.tools.started.get()
        for stranger in (other, mcp.client()):
            await stranger.notify("notifications/cancelled", {"requestId": 1})
        await client.notify("notifications/cancelled", {"requestId": "1"})
        mcp.tools.gate.set()
        assert (await call.read_answer()).json()["result"]["isError"] is False


async def test_a_call_of_a_batch_can_be_cancelled_before_its_turn(mcp: Endpoint) -> None:
    client = await mcp.session()
    batch = [client.tool_call("wait", request_id=1), client.tool_call("echo", request_id=2)]
    async with await client.open_post(batch) as call:
        await mcp.tools.started.get()
        await client.notify("notifications/cancelled", {"requestId": 2})
        mcp.tools.gate.set()
        replies = json.loads((await call.read_answer()).body)
    assert [reply["id"] for reply in replies] == [1]
    assert [asked.name for asked in mcp.tools.calls] == ["wait"]


@holds("disconnect.ends-stream")
@promise("mcp.gone-cancels")
@pytest.mark.parametrize("has_token", [True, False])
async def test_a_client_that_leaves_ends_a_watched_call(mcp: Endpoint, has_token: bool) -> None:
    client = await mcp.session()
    token = "t" if has_token else None
    for leave in ("abort", "close"):
        call = await client.open_post(client.tool_call("count_watched", token=token))
        await mcp.tools.started.get()
        if leave == "abort":
            call.abort()
        await call.close()
        async with asyncio.timeout(HANGS_S):
            assert await mcp.tools.ended.get() == "count_watched"
    assert mcp.tools.cancelled == ["count_watched"] * 2


@holds("disconnect.no-cancel")
async def test_a_legacy_client_that_leaves_does_not_end_another_call(mcp: Endpoint) -> None:
    client = await mcp.session()
    call = await client.open_post(client.tool_call("wait"))
    await mcp.tools.started.get()
    call.abort()
    await client.call("echo")
    mcp.tools.gate.set()
    await mcp.tools.ended.get()
    assert mcp.tools.cancelled == []


@holds("modern.close-cancels")
async def test_a_modern_client_that_leaves_ends_any_call(mcp: Endpoint) -> None:
    message, headers = modern(mcp.client().tool_call("wait"))
    call = await mcp.client().open_post(message, headers)
    await mcp.tools.started.get()
    call.abort()
    async with asyncio.timeout(HANGS_S):
        await mcp.tools.ended.get()
    assert mcp.tools.cancelled == ["wait"]


async def test_stopping_ends_a_call_with_words() -> None:
    async with running_endpoint() as mcp:
        client = await mcp.session()
        async with await client.open_post(client.tool_call("wait")) as call:
            await mcp.tools.started.get()
            await mcp.surface.stop(0.01)
            answer = await call.read_answer()
            assert answer.error_code == -32603
            assert "stopping" in answer.json()["error"]["message"]


async def test_a_call_that_ends_within_the_grace_is_answered() -> None:
    async with running_endpoint() as mcp:
        client = await mcp.session()
        async with await client.open_post(client.tool_call("wait")) as call:
            await mcp.tools.started.get()
            stopping = asyncio.create_task(mcp.surface.stop(5.0))
            await asyncio.sleep(0)
            mcp.tools.gate.set()
            assert (await call.read_answer()).json()["result"]["isError"] is False
            await stopping


async def test_a_reader_that_never_reads_is_bounded_and_the_call_ends(mcp: Endpoint) -> None:
    reports = 20_000

    async def flood(call):  # type: ignore[no-untyped-def]
        from edged.actions.action import Progress

        for number in range(1, reports + 1):
            call.progress(Progress(progress=number, message="x" * 500))
        return {"done": True}

    mcp.tools.add("flood", flood)
    client = await mcp.session()
    async with await client.open_post(client.tool_call("flood", token="t")) as call:
        answer = await call.read_answer()
    *progress, final = answer.messages()
    numbers = [message["params"]["progress"] for message in progress]
    assert numbers == sorted(set(numbers))
    assert 1_000 < len(numbers) < reports
    assert final["result"]["isError"] is False
