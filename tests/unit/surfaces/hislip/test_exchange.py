"""The rules of one HiSLIP session, message by message."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.protocol.hislip import (
    FIRST_MESSAGE_ID,
    HEADER,
    LARGEST_MESSAGE,
    SIZE,
    FatalCode,
    HislipFatal,
    HislipMessage,
    HislipProblem,
    LockResult,
    MessageReader,
    MessageType,
    ProblemCode,
    TooLarge,
)
from edged.surfaces.hislip import exchange as rules
from edged.surfaces.hislip.exchange import (
    ClearAsked,
    Happening,
    HislipChannel,
    HislipExchange,
    LockAsked,
    LockInfoAsked,
    MessageWritten,
    Mode,
    OutOfOrder,
    PeerEnded,
    Say,
    StatusAsked,
    TriggerAsked,
    UnlockAsked,
    status_message,
)

FIRST = FIRST_MESSAGE_ID
SYNC, ASYNC = HislipChannel.SYNCHRONOUS, HislipChannel.ASYNCHRONOUS


def say(
    kind: MessageType, control: int = 0, parameter: int = 0, payload: bytes = b""
) -> HislipMessage:
    return HislipMessage(kind, control, parameter, payload)


def write(
    session: HislipExchange, data: bytes, message_id: int = FIRST, *, has_read: bool = False
) -> MessageWritten:
    (happening,) = session.synchronous(say(MessageType.DATA_END, int(has_read), message_id, data))
    assert isinstance(happening, MessageWritten)
    return happening


def heard(says: Any) -> list[tuple[HislipChannel, HislipMessage]]:
    """What a client hears, read back from the bytes."""
    found = []
    for one in says:
        reader = MessageReader()
        reader.receive(one.data)
        read = reader.next()
        assert isinstance(read, HislipMessage)
        found.append((one.channel, read))
    return found


def test_an_answer_bears_its_questions_id() -> None:
    session = HislipExchange()
    asked = write(session, b"*IDN?\n", FIRST)
    assert asked == MessageWritten(b"*IDN?\n", FIRST)
    assert heard(session.answer(FIRST, b"ACME")) == [
        (SYNC, HislipMessage(MessageType.DATA_END, 0, FIRST, b"ACME"))
    ]


def test_a_message_in_pieces_is_one_and_has_the_id_of_its_last_piece() -> None:
    session = HislipExchange()
    assert session.synchronous(say(MessageType.DATA, 0, FIRST, b"VOLT ")) == ()
    assert session.synchronous(say(MessageType.DATA, 0, FIRST + 2, b"1.")) == ()
    assert write(session, b"5", FIRST + 4) == MessageWritten(b"VOLT 1.5", FIRST + 4)


def test_an_answer_goes_in_pieces_that_the_client_takes() -> None:
    session = HislipExchange()
    write(session, b"CURV?")
    told = heard(session.answer(FIRST, b"x" * 600))
    assert [(one.kind, len(one.payload)) for _, one in told] == [
        (MessageType.DATA, 256),
        (MessageType.DATA, 256),
        (MessageType.DATA_END, 88),
    ]
    size = SIZE.pack(HEADER.size + 500)
    (agreed,) = heard(
        session.asynchronous(say(MessageType.ASYNC_MAXIMUM_MESSAGE_SIZE, payload=size))
    )
    assert agreed[1].payload == SIZE.pack(LARGEST_MESSAGE)
    write(session, b"CURV?", FIRST + 2, has_read=True)
    assert [len(one.payload) for _, one in heard(session.answer(FIRST + 2, b"x" * 600))] == [
        500,
        100,
    ]


def test_a_later_message_interrupts_an_answer_and_both_channels_say_so() -> None:
    session = HislipExchange()
    write(session, b"*IDN?", FIRST)
    write(session, b"VOLT 1", FIRST + 2)
    assert session.is_overtaken(FIRST)
    assert heard(session.answer(FIRST, b"ACME")) == [
        (ASYNC, HislipMessage(MessageType.ASYNC_INTERRUPTED, 0, FIRST + 2, b"")),
        (SYNC, HislipMessage(MessageType.INTERRUPTED, 0, FIRST + 2, b"")),
    ]


def test_an_answer_that_was_never_read_is_noticed_at_the_next_message_once() -> None:
    session = HislipExchange()
    write(session, b"*IDN?", FIRST)
    session.answer(FIRST, b"ACME")
    assert write(session, b"VOLT?", FIRST + 2).is_interrupting
    session.answer(FIRST + 2, b"5")
    assert not write(session, b"VOLT 1", FIRST + 4, has_read=True).is_interrupting
    assert not write(session, b"VOLT 2", FIRST + 6).is_interrupting


def test_only_the_first_piece_says_whether_the_answer_was_read() -> None:
    session = HislipExchange()
    write(session, b"*IDN?", FIRST)
    session.answer(FIRST, b"ACME")
    session.synchronous(say(MessageType.DATA, 1, FIRST + 2, b"VOLT "))
    assert not write(session, b"1", FIRST + 4).is_interrupting


def test_mav_lasts_from_the_answer_until_it_is_read() -> None:
    session = HislipExchange()

    def mav(message_id: int, *, has_read: bool = False) -> bool:
        query = say(MessageType.ASYNC_STATUS_QUERY, int(has_read), message_id)
        (asked,) = session.asynchronous(query)
        assert isinstance(asked, StatusAsked)
        return session.mav(asked)

    write(session, b"*IDN?", FIRST)
    assert not mav(FIRST)
    session.answer(FIRST, b"ACME")
    assert mav(FIRST)
    # pyvisa-py names the message that it will send next.
    assert mav(FIRST + 2)
    # The client speaks of one that is on its way: this answer is not that one's.
    assert not mav(FIRST + 4)
    assert not mav(FIRST, has_read=True)
    assert not mav(FIRST)
    write(session, b"*IDN?", FIRST + 2)
    session.answer(FIRST + 2, b"ACME")
    write(session, b"VOLT 1", FIRST + 4)
    assert not mav(FIRST + 4)


def test_the_status_byte_is_the_sessions_but_for_mav() -> None:
    assert HEADER.unpack(status_message(0xFF, has_message=False))[2] == 0xEF
    assert HEADER.unpack(status_message(0x04, has_message=True))[2] == 0x14


def test_a_device_clear_drops_what_is_under_way_and_begins_anew() -> None:
    session = HislipExchange()
    write(session, b"*IDN?", FIRST)
    session.synchronous(say(MessageType.DATA, 0, FIRST + 2, b"half of a "))
    assert session.asynchronous(say(MessageType.ASYNC_DEVICE_CLEAR)) == (ClearAsked(),)
    assert session.answer(FIRST, b"ACME") == ()
    assert session.synchronous(say(MessageType.DATA_END, 0, FIRST + 4, b"message")) == ()
    assert heard([session.cleared()]) == [
        (ASYNC, HislipMessage(MessageType.ASYNC_DEVICE_CLEAR_ACKNOWLEDGE, 0, 0, b""))
    ]
    assert session.synchronous(say(MessageType.TRIGGER, 0, FIRST + 6)) == ()
    assert heard(session.synchronous(say(MessageType.DEVICE_CLEAR_COMPLETE))) == [
        (SYNC, HislipMessage(MessageType.DEVICE_CLEAR_ACKNOWLEDGE, 0, 0, b""))
    ]
    assert session.latest_id == FIRST - 2
    assert write(session, b"VOLT?", FIRST) == MessageWritten(b"VOLT?", FIRST)


def test_a_client_that_lost_patience_with_a_clear_may_ask_again() -> None:
    session = HislipExchange()
    session.asynchronous(say(MessageType.ASYNC_DEVICE_CLEAR))
    session.cleared()
    assert session.asynchronous(say(MessageType.ASYNC_DEVICE_CLEAR)) == (ClearAsked(),)


def into_overlap(session: HislipExchange) -> None:
    session.asynchronous(say(MessageType.ASYNC_DEVICE_CLEAR))
    session.cleared()
    (agreed,) = heard(session.synchronous(say(MessageType.DEVICE_CLEAR_COMPLETE, 1)))
    assert agreed[1].control == 1


def test_in_overlap_mode_answers_queue_up_and_are_numbered_by_the_server() -> None:
    session = HislipExchange()
    into_overlap(session)
    assert session.mode is Mode.OVERLAP
    write(session, b"*IDN?", FIRST + 20)
    write(session, b"VOLT?", FIRST + 22)
    told = [heard(session.answer(FIRST + 20, b"a")), heard(session.answer(FIRST + 22, b"b"))]
    assert [one[0][1].parameter for one in told] == [FIRST, FIRST + 2]
    assert not write(session, b"VOLT 1", FIRST + 24).is_interrupting
    # The client names the last answer that it has read.
    assert session.mav(StatusAsked(FIRST))
    assert not session.mav(StatusAsked(FIRST + 2))


def test_locks_are_asked_for_one_at_a_time() -> None:
    session = HislipExchange()
    request = say(MessageType.ASYNC_LOCK, 1, 2_500, b"bench")
    assert session.asynchronous(request) == (LockAsked("bench", 2.5),)
    with pytest.raises(HislipProblem, match="already"):
        session.asynchronous(request)
    assert heard([session.lock_said(LockResult.SUCCESS)]) == [
        (ASYNC, HislipMessage(MessageType.ASYNC_LOCK_RESPONSE, 1, 0, b""))
    ]
    assert session.asynchronous(say(MessageType.ASYNC_LOCK, 0, FIRST)) == (UnlockAsked(FIRST),)
    session.lock_said(LockResult.SHARED_RELEASED)
    assert session.asynchronous(say(MessageType.ASYNC_LOCK_INFO)) == (LockInfoAsked(),)


def test_remote_and_local_are_accepted_and_triggers_keep_their_place() -> None:
    session = HislipExchange()
    (reply,) = heard(session.asynchronous(say(MessageType.ASYNC_REMOTE_LOCAL_CONTROL, 3)))
    assert reply == (ASYNC, HislipMessage(MessageType.ASYNC_REMOTE_LOCAL_RESPONSE, 0, 0, b""))
    assert session.synchronous(say(MessageType.TRIGGER, 0, FIRST)) == (TriggerAsked(FIRST),)
    assert session.latest_id == FIRST


def test_a_message_that_lacks_a_piece_is_dropped_whole() -> None:
    session = HislipExchange()
    session.synchronous(say(MessageType.DATA, 0, FIRST, b"VOLT 1"))
    (told,) = heard(session.synchronous(TooLarge(MessageType.DATA, LARGEST_MESSAGE)))
    assert told[1].kind == MessageType.ERROR
    assert told[1].control == ProblemCode.TOO_LARGE
    assert session.synchronous(say(MessageType.DATA_END, 0, FIRST + 2, b"0")) == ()
    assert write(session, b"VOLT?", FIRST + 4).data == b"VOLT?"


def test_pieces_without_end_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "MAX_PROGRAM_BYTES", 1_000)
    session = HislipExchange()
    told: list[Happening] = []
    for number in range(100):
        told += session.synchronous(say(MessageType.DATA, 0, FIRST + 2 * number, bytes(100)))
        assert len(session._incoming) <= 1_000
    assert [one[1].control for one in heard(told)] == [ProblemCode.TOO_LARGE]


REFUSED = [
    (SYNC, say(MessageType.ASYNC_LOCK, 1), ProblemCode.UNKNOWN_TYPE),
    (ASYNC, say(MessageType.DATA_END, 0, FIRST), ProblemCode.UNKNOWN_TYPE),
    (ASYNC, say(MessageType.ASYNC_STATUS_RESPONSE), ProblemCode.UNKNOWN_TYPE),
    (SYNC, HislipMessage(99, 0, 0, b""), ProblemCode.UNKNOWN_TYPE),
    (SYNC, HislipMessage(200, 0, 0, b""), ProblemCode.UNKNOWN_VENDOR_TYPE),
    (ASYNC, HislipMessage(128, 0, 0, b""), ProblemCode.UNKNOWN_VENDOR_TYPE),
    (ASYNC, say(MessageType.ASYNC_LOCK, 2), ProblemCode.UNKNOWN_CONTROL),
    (ASYNC, say(MessageType.ASYNC_REMOTE_LOCAL_CONTROL, 7), ProblemCode.UNKNOWN_CONTROL),
    (ASYNC, say(MessageType.ASYNC_LOCK, 1, 0, b"x" * 257), ProblemCode.TOO_LARGE),
    (ASYNC, say(MessageType.ASYNC_MAXIMUM_MESSAGE_SIZE, payload=b"1"), ProblemCode.UNIDENTIFIED),
    (SYNC, say(MessageType.DEVICE_CLEAR_COMPLETE), ProblemCode.UNIDENTIFIED),
]


@pytest.mark.parametrize(("channel", "message", "code"), REFUSED)
def test_what_may_not_be_said_raises_and_changes_nothing(
    channel: HislipChannel, message: HislipMessage, code: ProblemCode
) -> None:
    session = HislipExchange()
    write(session, b"*IDN?", FIRST)
    session.answer(FIRST, b"ACME")
    before = state(session)
    hear = session.synchronous if channel is SYNC else session.asynchronous
    with pytest.raises(HislipProblem) as refused:
        hear(message)
    assert refused.value.code is code
    assert state(session) == before


@pytest.mark.parametrize("kind", [MessageType.INITIALIZE, MessageType.ASYNC_INITIALIZE])
@pytest.mark.parametrize("channel", [SYNC, ASYNC])
def test_a_second_initialisation_is_fatal(kind: MessageType, channel: HislipChannel) -> None:
    session = HislipExchange()
    hear = session.synchronous if channel is SYNC else session.asynchronous
    with pytest.raises(HislipFatal) as ended:
        hear(say(kind))
    assert ended.value.code is FatalCode.BAD_INITIALIZATION


def test_outcomes_that_nothing_waits_for_are_a_bug_and_change_nothing() -> None:
    session = HislipExchange()
    before = state(session)
    with pytest.raises(OutOfOrder):
        session.cleared()
    with pytest.raises(OutOfOrder):
        session.lock_said(LockResult.SUCCESS)
    assert state(session) == before


def test_a_client_may_end_the_session_or_complain() -> None:
    session = HislipExchange()
    assert session.synchronous(say(MessageType.FATAL_ERROR, 1, 0, b"lost")) == (
        PeerEnded("fatal error 1 lost"),
    )
    assert session.asynchronous(say(MessageType.ERROR, 0, 0, b"what?")) == ()


def state(session: HislipExchange) -> dict[str, Any]:
    return copy.deepcopy(vars(session))


ANY_MESSAGE = st.builds(
    HislipMessage,
    kind=st.integers(0, 26) | st.integers(0, 255),
    control=st.integers(0, 3) | st.integers(0, 255),
    parameter=st.sampled_from([FIRST, FIRST + 2, 0]) | st.integers(0, 2**32 - 1),
    payload=st.binary(max_size=40) | st.just(SIZE.pack(100)),
)


@given(
    st.lists(
        st.tuples(
            st.sampled_from([SYNC, ASYNC]),
            ANY_MESSAGE | st.builds(TooLarge, kind=st.integers(0, 30), length=st.just(2**21)),
        )
        | st.sampled_from(["answer", "cleared", "lock"]),
        max_size=40,
    )
)
def test_whatever_comes_in_whatever_order_is_taken_or_refused_without_a_trace(
    steps: list[Any],
) -> None:
    session = HislipExchange()
    for step in steps:
        before = state(session)
        try:
            match step:
                case "answer":
                    heard(session.answer(session.latest_id, b"x" * 300))
                case "cleared":
                    session.cleared()
                case "lock":
                    session.lock_said(LockResult.FAILURE)
                case (channel, message):
                    hear = session.synchronous if channel is SYNC else session.asynchronous
                    for happening in hear(message):
                        if isinstance(happening, Say):
                            heard([happening])
        except (HislipFatal, HislipProblem, OutOfOrder):
            assert state(session) == before
