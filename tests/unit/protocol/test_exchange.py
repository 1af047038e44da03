"""One POST from messages to effects: JSON or stream, order, batches, cancellation."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.errors import Fault
from edged.protocol.exchange import (
    Effects,
    EndStream,
    Exchange,
    ExchangeState,
    OpenStream,
    Respond,
    Write,
)
from edged.protocol.jsonrpc import ErrorReply, RpcCode, parse
from edged.protocol.revisions import REVISIONS, Revision
from edged.protocol.sse import KEEP_ALIVE, ReplayBuffer

V03, V06, V11, V26 = REVISIONS.values()
PROGRESS = b'{"jsonrpc":"2.0","method":"notifications/progress"}'


def request(request_id: object = 1) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": request_id, "method": "tools/call"}


NOTICE = {"jsonrpc": "2.0", "method": "notifications/initialized"}
RESPONSE = {"jsonrpc": "2.0", "id": 9, "result": {}}


def exchange(
    body: object,
    *,
    revision: Revision = V03,
    accept: str = "json sse",
    log: object = None,
) -> Exchange:
    made_log = log if log is None else ReplayBuffer().open("p1", owner="s")
    return Exchange(
        parse(json.dumps(body).encode()),
        revision=revision,
        wants_json="json" in accept,
        wants_sse="sse" in accept,
        log=made_log,
    )


def error(request_id: object, code: int) -> ErrorReply:
    assert isinstance(request_id, str | int)
    return ErrorReply(request_id=request_id, rpc_code=code, message="no")


def the_answer(effects: Effects) -> Respond:
    (effect,) = effects
    assert isinstance(effect, Respond)
    return effect


def data_of(effects: Effects) -> list[dict[str, object]]:
    """The JSON of every event that was written."""
    found = []
    for effect in effects:
        if isinstance(effect, Write) and b"data: {" in effect.data:
            (line,) = [line for line in effect.data.split(b"\n") if line.startswith(b"data: ")]
            found.append(json.loads(line.removeprefix(b"data: ")))
    return found


def kinds(effects: Effects) -> list[type]:
    return [type(effect) for effect in effects]


def test_a_plain_answer_is_json() -> None:
    x = exchange(request())
    assert x.begin() == ()
    answer = the_answer(x.answer(0, b'{"ok":true}'))
    assert answer.status == 200
    assert ("Content-Type", "application/json") in answer.headers
    assert json.loads(answer.body) == {"jsonrpc": "2.0", "id": 1, "result": {"ok": True}}
    assert x.state is ExchangeState.DONE


def test_the_first_notification_opens_the_stream_and_the_answer_closes_it() -> None:
    x = exchange(request())
    first = x.notify(0, PROGRESS)
    second = x.notify(0, PROGRESS)
    last = x.answer(0, b"{}")
    assert kinds(first) == [OpenStream, Write]
    assert kinds(second) == [Write]
    assert kinds(last) == [Write, EndStream]
    (head, *_) = first
    assert isinstance(head, OpenStream)
    assert head.status == 200
    assert ("Content-Type", "text/event-stream") in head.headers
    assert ("X-Accel-Buffering", "no") in head.headers
    assert data_of(last) == [{"jsonrpc": "2.0", "id": 1, "result": {}}]


def test_events_are_named_message() -> None:
    x = exchange(request())
    _, event = x.notify(0, PROGRESS)
    assert isinstance(event, Write)
    assert event.data == b"event: message\ndata: " + PROGRESS + b"\n\n"


def test_a_client_that_takes_only_json_gets_no_notification() -> None:
    x = exchange(request(), accept="json")
    assert not x.can_stream
    assert x.notify(0, PROGRESS) == ()
    assert x.keep_alive() == ()
    assert the_answer(x.answer(0, b"{}")).status == 200


def test_a_client_that_takes_only_events_gets_its_answer_as_one() -> None:
    x = exchange(request(), accept="sse")
    effects = x.answer(0, b"{}", headers=(("Mcp-Session-Id", "s"),))
    assert kinds(effects) == [OpenStream, Write, EndStream]
    assert isinstance(effects[0], OpenStream)
    assert ("Mcp-Session-Id", "s") in effects[0].headers
    assert data_of(effects) == [{"jsonrpc": "2.0", "id": 1, "result": {}}]


def test_headers_of_an_answer_go_with_it() -> None:
    x = exchange(request())
    assert ("Mcp-Session-Id", "s") in the_answer(
        x.answer(0, b"{}", headers=(("Mcp-Session-Id", "s"),))
    ).headers


def test_a_notification_after_the_answer_is_dropped() -> None:
    x = exchange([request(1), request(2)])
    x.notify(0, PROGRESS)
    x.answer(0, b"{}")
    assert x.notify(0, PROGRESS) == ()
    assert kinds(x.notify(1, PROGRESS)) == [Write]


@pytest.mark.parametrize("accept", ["json sse", "json", "sse"])
@pytest.mark.parametrize(
    ("revision", "code", "status"),
    [
        (V03, RpcCode.METHOD_NOT_FOUND, 200),
        (V11, RpcCode.INVALID_PARAMS, 200),
        (V03, RpcCode.NOT_AUTHENTICATED, 401),
        (V03, RpcCode.NOT_ALLOWED, 200),
        (V03, RpcCode.DANGEROUS, 200),
        (V26, RpcCode.METHOD_NOT_FOUND, 404),
        (V26, RpcCode.INVALID_PARAMS, 400),
        (V26, RpcCode.NOT_AUTHENTICATED, 401),
        (V26, RpcCode.NOT_ALLOWED, 200),
        (V26, RpcCode.INTERNAL_ERROR, 200),
    ],
)
def test_a_lone_error_has_the_status_of_its_code_and_revision(
    revision: Revision, code: int, status: int, accept: str
) -> None:
    x = exchange(request(), revision=revision, accept=accept)
    effects = x.fail(0, error(1, code))
    if accept == "sse" and status == 200:
        assert kinds(effects) == [OpenStream, Write, EndStream]
    else:
        answer = the_answer(effects)
        assert answer.status == status
        assert json.loads(answer.body)["error"]["code"] == code


def test_an_error_after_the_stream_has_begun_travels_in_it() -> None:
    x = exchange(request(), revision=V26)
    x.notify(0, PROGRESS)
    effects = x.fail(0, error(1, RpcCode.INVALID_PARAMS))
    assert kinds(effects) == [Write, EndStream]


@pytest.mark.parametrize("body", [NOTICE, RESPONSE, [NOTICE], [NOTICE, RESPONSE]])
def test_a_post_without_requests_is_202_with_no_body(body: object) -> None:
    x = exchange(body)
    answer = the_answer(x.begin())
    assert (answer.status, answer.body, answer.headers) == (202, b"", ())
    assert x.calls == ()


def test_a_batch_is_answered_by_one_array_in_its_order() -> None:
    x = exchange([request("a"), NOTICE, request(2), request("a")])
    assert [call.slot for call in x.calls] == [0, 2, 3]
    assert len(x.notifications) == 1
    assert x.begin() == ()
    assert x.answer(3, b'{"n":3}') == ()
    assert x.answer(0, b'{"n":0}') == ()
    answer = the_answer(x.fail(2, error(2, RpcCode.NOT_AUTHENTICATED)))
    assert answer.status == 200
    items = json.loads(answer.body)
    assert [item["id"] for item in items] == ["a", 2, "a"]
    assert items[0]["result"] == {"n": 0}
    assert items[1]["error"]["code"] == RpcCode.NOT_AUTHENTICATED


def test_a_batch_of_one_is_answered_by_an_array_of_one() -> None:
    x = exchange([request()])
    assert isinstance(json.loads(the_answer(x.answer(0, b"{}")).body), list)


def test_a_batch_in_a_stream_has_one_response_for_each_request() -> None:
    x = exchange([request(1), 5, request(2)])
    x.answer(0, b"{}")
    opened = x.notify(2, PROGRESS)
    closed = x.answer(2, b"{}")
    sent = [*data_of(opened), *data_of(closed)]
    assert [message.get("id") for message in sent] == [1, None, None, 2]
    assert "error" in sent[1]
    assert sent[2]["method"] == "notifications/progress"
    assert kinds(closed) == [Write, EndStream]


def test_bad_items_of_a_batch_are_answered_beside_the_good_ones() -> None:
    x = exchange([request(1), {"id": 3}])
    answer = the_answer(x.answer(0, b"{}"))
    assert answer.status == 200
    assert [item["id"] for item in json.loads(answer.body)] == [1, 3]


@pytest.mark.parametrize("accept", ["json sse", "json", "sse"])
def test_a_batch_of_nothing_but_rubbish_is_400(accept: str) -> None:
    answer = the_answer(exchange([1, 2], accept=accept).begin())
    assert answer.status == 400
    assert [item["error"]["code"] for item in json.loads(answer.body)] == [
        RpcCode.INVALID_REQUEST,
        RpcCode.INVALID_REQUEST,
    ]


def test_a_cancelled_call_gets_no_response() -> None:
    lone = exchange(request())
    answer = the_answer(lone.drop(0))
    assert (answer.status, answer.body) == (202, b"")

    streaming = exchange(request())
    streaming.notify(0, PROGRESS)
    assert kinds(streaming.drop(0)) == [EndStream]

    batch = exchange([request(1), request(2)])
    batch.drop(0)
    items = json.loads(the_answer(batch.answer(1, b"{}")).body)
    assert [item["id"] for item in items] == [2]


def test_a_long_silent_call_commits_to_a_stream_with_a_comment() -> None:
    x = exchange(request())
    effects = x.keep_alive()
    assert kinds(effects) == [OpenStream, Write]
    assert effects[1] == Write(data=KEEP_ALIVE)
    assert x.keep_alive() == (Write(data=KEEP_ALIVE),)
    assert kinds(x.answer(0, b"{}")) == [Write, EndStream]
    assert x.keep_alive() == ()


def test_after_the_client_is_gone_nothing_has_an_effect() -> None:
    x = exchange(request())
    x.notify(0, PROGRESS)
    x.abandon()
    assert x.notify(0, PROGRESS) == ()
    assert x.answer(0, b"{}") == ()
    assert x.state is ExchangeState.DONE


def test_a_resumable_stream_goes_on_into_its_log_when_the_client_is_gone() -> None:
    buffer = ReplayBuffer()
    x = Exchange(
        parse(json.dumps(request()).encode()),
        revision=V11,
        wants_json=True,
        wants_sse=True,
        log=buffer.open("p1", owner="s"),
    )
    opened = x.notify(0, PROGRESS)
    assert kinds(opened) == [OpenStream, Write, Write]
    assert opened[1] == Write(data=b"id: p1-0\ndata: \n\n")
    x.abandon()
    (event, _) = x.answer(0, b"{}")
    assert isinstance(event, Write)
    assert b"id: p1-2\n" in event.data


@pytest.mark.parametrize(
    ("revision", "has_ids", "is_primed"),
    [(V03, True, False), (V06, True, False), (V11, True, True), (V26, False, False)],
)
def test_ids_and_priming_are_the_revisions_matter(
    revision: Revision, has_ids: bool, is_primed: bool
) -> None:
    x = exchange(request(), revision=revision, log="yes")
    effects = x.notify(0, PROGRESS)
    written = b"".join(effect.data for effect in effects if isinstance(effect, Write))
    assert (b"id: p1-1" in written) is has_ids
    assert (b"id: p1-0" in written) is is_primed


def test_settling_a_call_twice_or_one_that_is_not_there_is_a_fault() -> None:
    x = exchange([request(1), request(2), NOTICE])
    x.answer(0, b"{}")
    with pytest.raises(Fault):
        x.answer(0, b"{}")
    with pytest.raises(Fault):
        x.fail(2, error(2, -32603))
    assert x.state is ExchangeState.WAITING


steps = st.lists(
    st.tuples(st.sampled_from(["notify", "answer", "fail", "drop", "alive"]), st.integers(0, 3)),
    max_size=12,
)


@given(steps, st.sampled_from(["json sse", "json", "sse"]), st.booleans())
def test_whatever_happens_each_request_is_answered_once_and_the_answer_ends_once(
    story: list[tuple[str, int]], accept: str, has_log: bool
) -> None:
    x = exchange([request(n) for n in range(4)], accept=accept, log=has_log or None)
    effects = list(x.begin())
    pending, answered = {0, 1, 2, 3}, set()
    for step, slot in [*story, *(("answer", slot) for slot in range(4))]:
        if step == "notify":
            effects += x.notify(slot, PROGRESS)
        elif step == "alive":
            effects += x.keep_alive()
        elif slot in pending:
            pending.remove(slot)
            if step == "answer":
                effects += x.answer(slot, b"{}")
            elif step == "fail":
                effects += x.fail(slot, error(slot, -32603))
            else:
                effects += x.drop(slot)
            if step != "drop":
                answered.add(slot)
    assert x.state is ExchangeState.DONE
    if isinstance(effects[0], Respond):
        body = effects[0].body
        sent = json.loads(body) if body else []
        assert len(effects) == 1
    else:
        assert isinstance(effects[0], OpenStream)
        assert isinstance(effects[-1], EndStream)
        assert all(isinstance(effect, Write) for effect in effects[1:-1])
        sent = data_of(tuple(effects))
    assert sorted(message["id"] for message in sent if "id" in message) == sorted(answered)
