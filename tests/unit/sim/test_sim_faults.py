from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.errors import Invalid
from edged_sim.faults import (
    Close,
    FaultBook,
    FaultKind,
    Reset,
    SendBytes,
    Wait,
    WireFault,
    deliver,
    make_fault,
    parse_fault,
)

ANSWER = b"+1.00000000E+00\n"


def delivered(kind: FaultKind, **options: float) -> tuple[object, ...]:
    return deliver(ANSWER, WireFault(kind=kind, **options), Random(1))


def test_without_a_fault_the_answer_comes_as_it_is() -> None:
    assert deliver(ANSWER, None, Random(1)) == (SendBytes(ANSWER),)


def test_each_kind_spoils_the_answer_in_its_way() -> None:
    assert delivered(FaultKind.TIMEOUT) == ()
    assert delivered(FaultKind.LATE, seconds=0.6) == (Wait(0.6), SendBytes(ANSWER))
    assert delivered(FaultKind.DROP) == (SendBytes(ANSWER[:8], is_end=False), Close())
    assert delivered(FaultKind.DOUBLE) == (SendBytes(ANSWER), SendBytes(ANSWER))
    assert delivered(FaultKind.STRAY) == (SendBytes(b"\n" + ANSWER),)
    assert delivered(FaultKind.RESET) == (Reset(),)
    assert delivered(FaultKind.HANG) == ()
    assert delivered(FaultKind.EXTRA) == (SendBytes(ANSWER), SendBytes(b"8.888\n"))
    assert delivered(FaultKind.EXTRA, seconds=0.02) == (
        SendBytes(ANSWER), Wait(0.02), SendBytes(b"8.888\n"),
    )  # fmt: skip
    assert delivered(FaultKind.SECOND_LINE) == (SendBytes(ANSWER + b"8.888\n"),)


def test_garbage_is_no_text_but_ends_as_the_answer_does() -> None:
    (sent,) = delivered(FaultKind.GARBAGE)
    assert len(sent.data) == len(ANSWER)
    assert sent.data.endswith(b"\n")
    assert all(byte >= 0x80 for byte in sent.data[:-1])


@given(st.binary(min_size=1, max_size=200))
def test_pieces_are_the_whole_answer(answer: bytes) -> None:
    steps = deliver(answer, WireFault(kind=FaultKind.SPLIT), Random(1))
    assert b"".join(step.data for step in steps if isinstance(step, SendBytes)) == answer


def test_a_counted_fault_ends_by_itself_and_the_next_one_follows() -> None:
    book = FaultBook()
    book.add(make_fault("late", 1.0, 2))
    book.add(make_fault("garbage", None, 1))
    kinds = [fault.kind if (fault := book.take()) else None for _ in range(4)]
    assert kinds == [FaultKind.LATE, FaultKind.LATE, FaultKind.GARBAGE, None]


def test_a_hang_stays_until_cleared() -> None:
    book = FaultBook()
    book.add(make_fault("hang"))
    assert [book.take().kind for _ in range(3)] == [FaultKind.HANG] * 3
    book.clear()
    assert book.take() is None


@pytest.mark.parametrize("kind", ["keep_output", "deaf_clear", "same_id", "acknowledge"])
def test_what_an_instrument_is_like_spoils_no_answer_and_stays(kind: str) -> None:
    book = FaultBook()
    book.add(make_fault(kind))
    book.add(make_fault("late", 1.0, 1))
    assert [fault and fault.kind for fault in (book.take(), book.take())] == [FaultKind.LATE, None]
    assert book.is_under(FaultKind(kind))
    assert delivered(FaultKind(kind)) == (SendBytes(ANSWER),)


def test_power_faults_do_not_touch_answers() -> None:
    book = FaultBook()
    book.add(make_fault("refuse"))
    assert book.take() is None
    assert book.is_under(FaultKind.REFUSE)


def test_a_fault_flag_is_read() -> None:
    assert parse_fault("late:psu1:0.6:3") == (
        "psu1",
        WireFault(kind=FaultKind.LATE, seconds=0.6, count=3),
    )
    assert parse_fault("timeout:dmm1") == ("dmm1", WireFault(kind=FaultKind.TIMEOUT))
    assert parse_fault("timeout") == ("", WireFault(kind=FaultKind.TIMEOUT))
    assert parse_fault("timeout:dmm1::1") == ("dmm1", WireFault(kind=FaultKind.TIMEOUT, count=1))


@pytest.mark.parametrize(
    "text",
    ["lat", "late:", "late::1", "nope:psu1", "late:psu1:x", "late:psu1:1:0", "late:psu1:nan"],
)
def test_a_fault_flag_that_means_nothing_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        parse_fault(text)
