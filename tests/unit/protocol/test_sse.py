"""Event framing against a reader written from the HTML standard; the replay buffer's bounds."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from edged.protocol.sse import KEEP_ALIVE, EventId, ReplayBuffer, encode_event


def read_events(stream: bytes) -> list[dict[str, str]]:
    """What a browser's EventSource makes of a stream (HTML standard, 9.2.6)."""
    events: list[dict[str, str]] = []
    fields: dict[str, str] = {}
    data: list[str] = []
    for line in re.split(r"\r\n|\r|\n", stream.decode("utf-8")):
        if not line:
            if data or fields:
                events.append(fields | {"data": "\n".join(data)})
            fields, data = {}, []
        elif not line.startswith(":"):
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if name == "data":
                data.append(value)
            else:
                fields[name] = value
    return events


def test_an_event_is_named_message_and_holds_one_line_of_data() -> None:
    assert encode_event(b'{"a":1}') == b'event: message\ndata: {"a":1}\n\n'


def test_id_and_retry_are_fields_of_their_own() -> None:
    framed = encode_event(b"x", event_id="s-1", retry_ms=500)
    assert read_events(framed) == [{"event": "message", "id": "s-1", "retry": "500", "data": "x"}]


def test_a_keep_alive_is_no_event() -> None:
    assert KEEP_ALIVE.startswith(b":")
    assert read_events(KEEP_ALIVE + encode_event(b"x") + KEEP_ALIVE) == [
        {"event": "message", "data": "x"}
    ]


@given(st.lists(st.text(alphabet=st.characters(codec="utf-8")), min_size=1, max_size=5))
def test_whatever_the_data_a_reader_gets_each_event_back(texts: list[str]) -> None:
    stream = b"".join(encode_event(text.encode()) for text in texts)
    expected = [re.sub(r"\r\n|\r", "\n", text) for text in texts]
    assert [event["data"] for event in read_events(stream)] == expected


@pytest.mark.parametrize(
    "text", ["", "-", "s", "s-", "-1", "s-x", "s--1", "a-b-1", "s-1 ", "s-²", "x" * 65 + "-1"]
)
def test_what_is_no_event_id_of_ours_is_none(text: str) -> None:
    assert EventId.parse(text) is None


@given(st.from_regex(r"[A-Za-z0-9_]{1,64}", fullmatch=True), st.integers(0, 10**15 - 1))
def test_an_event_id_comes_back_as_it_was(stream: str, number: int) -> None:
    event_id = EventId(stream=stream, number=number)
    assert EventId.parse(str(event_id)) == event_id


def test_a_broken_stream_goes_on_after_the_last_event_seen() -> None:
    buffer = ReplayBuffer()
    log = buffer.open("g1", owner="alice")
    framed = [log.frame(b"%d" % n) for n in range(4)]
    replay = buffer.after(EventId(stream="g1", number=2), owner="alice")
    assert replay is not None
    assert replay.events == tuple(framed[2:])
    assert replay.is_complete
    assert not replay.is_finished
    assert [event["id"] for event in read_events(b"".join(framed))] == [
        "g1-1",
        "g1-2",
        "g1-3",
        "g1-4",
    ]


def test_a_primed_stream_can_be_resumed_from_its_start() -> None:
    buffer = ReplayBuffer()
    log = buffer.open("g1", owner="alice")
    (primed,) = read_events(log.prime())
    assert primed == {"id": "g1-0", "data": ""}
    framed = log.frame(b"x")
    last = EventId.parse(primed["id"])
    assert last is not None
    replay = buffer.after(last, owner="alice")
    assert replay is not None
    assert replay.events == (framed,)


def test_only_that_stream_is_replayed_and_only_to_its_owner() -> None:
    buffer = ReplayBuffer()
    first, second = buffer.open("a", owner="alice"), buffer.open("b", owner="alice")
    first.frame(b"1")
    second.frame(b"2")
    first.frame(b"3")
    replay = buffer.after(EventId(stream="a", number=0), owner="alice")
    assert replay is not None
    assert [event["data"] for event in read_events(b"".join(replay.events))] == ["1", "3"]
    assert buffer.after(EventId(stream="a", number=0), owner="bob") is None
    assert buffer.after(EventId(stream="c", number=0), owner="alice") is None
    assert buffer.after(EventId(stream="a", number=9), owner="alice") is None


def test_what_was_evicted_is_owned_up_to() -> None:
    buffer = ReplayBuffer(max_events=2)
    log = buffer.open("a", owner="alice")
    for n in range(5):
        log.frame(b"%d" % n)
    missing = buffer.after(EventId(stream="a", number=2), owner="alice")
    whole = buffer.after(EventId(stream="a", number=3), owner="alice")
    assert missing is not None
    assert whole is not None
    assert not missing.is_complete
    assert whole.is_complete


def test_an_event_over_the_whole_budget_is_sent_and_not_kept() -> None:
    buffer = ReplayBuffer(max_bytes=100)
    log = buffer.open("a", owner="alice")
    assert b"x" * 200 in log.frame(b"x" * 200)
    assert buffer.held_bytes == 0


def test_a_finished_stream_says_so() -> None:
    buffer = ReplayBuffer()
    log = buffer.open("a", owner="alice")
    log.frame(b"1")
    log.finish()
    replay = buffer.after(EventId(stream="a", number=1), owner="alice")
    assert replay is not None
    assert replay.is_finished
    assert replay.events == ()


def test_events_of_a_forgotten_session_are_framed_and_not_kept() -> None:
    buffer = ReplayBuffer()
    log = buffer.open("a", owner="alice")
    log.frame(b"1")
    buffer.forget("alice")
    assert buffer.held_bytes == 0
    assert log.frame(b"2") == encode_event(b"2")
    log.finish()
    assert buffer.after(EventId(stream="a", number=0), owner="alice") is None


class BufferStory(RuleBasedStateMachine):
    """Streams come, speak, finish and are forgotten; the bounds hold and numbers never go back."""

    def __init__(self) -> None:
        super().__init__()
        self.buffer = ReplayBuffer(max_events=6, max_bytes=300)
        self.logs = [
            self.buffer.open(f"s{n}", owner=owner) for n, owner in enumerate(["a", "a", "b"])
        ]
        self.seen: dict[str, int] = {}

    @rule(which=st.integers(0, 2), size=st.integers(0, 120))
    def speak(self, which: int, size: int) -> None:
        log = self.logs[which]
        (event,) = read_events(log.frame(b"x" * size))
        if "id" in event:
            found = EventId.parse(event["id"])
            assert found is not None
            assert found.number == self.seen.get(log.stream, 0) + 1
            self.seen[log.stream] = found.number

    @rule(which=st.integers(0, 2))
    def finish(self, which: int) -> None:
        self.logs[which].finish()

    @rule(owner=st.sampled_from(["a", "b"]))
    def forget(self, owner: str) -> None:
        self.buffer.forget(owner)

    @invariant()
    def the_bounds_hold(self) -> None:
        assert 0 <= self.buffer.held_bytes <= 300


TestBufferStory = BufferStory.TestCase
