"""Program messages: where they end, and where their blocks are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.errors import Invalid
from edged.scpi.errors import ErrorQuestion, error_question
from edged.scpi.line import messages
from edged.scpi.program import MAX_BLOCKS, MAX_MESSAGES, MAX_TEXT_BYTES, Incoming
from edged.surfaces.visa.status import Own, steps_of


def fed(*pieces: bytes) -> list[bytes]:
    incoming = Incoming()
    found: list[bytes] = []
    for number, piece in enumerate(pieces, 1):
        found += [m.data for m in incoming.feed(piece, is_end=number == len(pieces))]
    return found


def block(data: bytes) -> bytes:
    length = str(len(data)).encode()
    return b"#" + str(len(length)).encode() + length + data


@given(st.lists(st.binary(max_size=40), max_size=4), st.data())
def test_blocks_come_whole_in_whatever_pieces_they_come(
    blocks: list[bytes], data: st.DataObject
) -> None:
    wanted = [b"DATA:ARB name," + block(inside) for inside in blocks]
    stream = b"\n".join([*wanted, b"*OPC?"])
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert fed(*pieces) == [*wanted, b"*OPC?"]


@given(st.binary(max_size=200))
def test_garbage_is_taken_apart_or_refused_and_nothing_of_it_is_lost(garbage: bytes) -> None:
    incoming = Incoming()
    try:
        found = list(incoming.feed(garbage, is_end=True))
    except Invalid:
        return
    assert all(message.data in garbage and message.text for message in found)
    assert [m.text for m in incoming.feed(b"*IDN?\n", is_end=False)] == ["*IDN?"]


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"VOLT 1\r\n", "VOLT 1"),
        (b"DISP:TEXT \"a #15\"", 'DISP:TEXT "a #15"'),
        (b"X #15ab\ncd;VOLT 1", "X #15<5 bytes>;VOLT 1"),
        (b"MASK #HFF", "MASK #HFF"),
        (b"DATA #0a\nb", "DATA #0<3 bytes>"),
        (b"DISP ' #15;VOLT 99;", "DISP ' #15<5 bytes> 99;"),
    ],
)  # fmt: skip
def test_what_is_judged_tells_blocks_by_their_length(data: bytes, text: str) -> None:
    assert [m.text for m in Incoming().feed(data, is_end=True)] == [text]


def test_a_message_is_bounded_outside_of_its_blocks() -> None:
    long = b"VOLT " + b"1" * MAX_TEXT_BYTES
    for data, is_end in ((long, True), (long, False)):
        with pytest.raises(Invalid, match="outside of its blocks"):
            list(Incoming().feed(data, is_end=is_end))
    whole = b"DATA " + block(b"x" * (2 * MAX_TEXT_BYTES))
    assert fed(whole) == [whole]


def test_what_is_quoted_is_no_block_where_the_quote_is_closed_too_far_away() -> None:
    for quote in (b"'", b'"'):
        text = b"X " + quote + b"a" * (MAX_TEXT_BYTES - 100)
        inside = b" #3200" + b"b" * 200
        for data in (text + inside + quote, text + inside + quote + b"\nVOLT 1\n"):
            with pytest.raises(Invalid, match="outside of its blocks"):
                list(Incoming().feed(data, is_end=True))
        # A quote that nothing closes quotes nothing.
        assert fed(text + inside + b"\n" + quote) == [text + inside, quote]


def test_no_more_messages_are_taken_at_once_than_can_be_judged_soon() -> None:
    assert len(fed(b"*OPC\n" * MAX_MESSAGES)) == MAX_MESSAGES
    with pytest.raises(Invalid, match="messages are taken at once"):
        list(Incoming().feed(b"*OPC\n" * (MAX_MESSAGES + 1), is_end=True))
    # Empty ones cost time, too.
    with pytest.raises(Invalid, match="messages are taken at once"):
        list(Incoming().feed(b" \n" * (MAX_MESSAGES + 1), is_end=True))


def test_a_message_has_no_more_blocks_than_are_told_soon() -> None:
    assert len(fed(b"X" + b" #10" * MAX_BLOCKS)) == 1
    for mark in (b" #10", b" #9a", b",#11x"):
        with pytest.raises(Invalid, match="at most 64 blocks"):
            list(Incoming().feed(b"X" + mark * (MAX_BLOCKS + 1), is_end=True))
    assert fed(b"X " + b"'#10 '#" * 500) == [b"X " + b"'#10 '#" * 500]


def test_a_block_that_ends_early_is_refused() -> None:
    with pytest.raises(Invalid, match="ends before the length"):
        list(Incoming().feed(b"X #15abc\n", is_end=True))


@pytest.mark.parametrize(
    ("line", "asked"),
    [
        ("SYST:ERR?", ErrorQuestion.NEXT),
        (":system:error:next?", ErrorQuestion.NEXT),
        ("STAT:QUEUE:NEXT?", ErrorQuestion.NEXT),
        ("SYST:ERR? STR", None),
        ("SYSTem:ERRor:CODE?", ErrorQuestion.NEXT_CODE),
        ("SYST:ERR:COUN?", ErrorQuestion.COUNT),
        ("SYST:ERR:ALL?", ErrorQuestion.ALL),
        ("SYST:ERR:CODE:ALL?", ErrorQuestion.ALL_CODES),
        ("EXR?", ErrorQuestion.NEXT),
        ("SYST:ERR:ENAB?", None),
        ("SYST:VERS?", None),
        ("SYST:ERR", None),
    ],
)
def test_an_error_queue_is_asked_for_in_many_spellings(
    line: str, asked: ErrorQuestion | None
) -> None:
    (message,) = messages(line)
    assert error_question(message, "EXR?") is asked


def test_what_is_its_own_is_taken_out_of_a_message_and_the_rest_keeps_its_path() -> None:
    (message,) = Incoming().feed(b"SYST:VERS?;ERR?;VERS?;*CLS;*ESR?;:VOLT 1", is_end=True)
    steps = [(step.text, step.own) for step in steps_of(message, "")]
    assert steps == [
        ("SYST:VERS?", None),
        (":SYST:ERR?", ErrorQuestion.NEXT),
        (":SYST:VERS?", None),
        ("*CLS", Own.CLEAR),
        ("*ESR?", Own.EVENTS),
        (":VOLT 1", None),
    ]


def test_a_message_of_more_units_than_are_judged_has_no_steps() -> None:
    allowed, more = (";".join(["*CLS"] * count).encode() for count in (64, 65))
    (few,) = Incoming().feed(allowed, is_end=True)
    (many,) = Incoming().feed(more, is_end=True)
    assert len(steps_of(few, "")) == 64
    assert not steps_of(many, "")
