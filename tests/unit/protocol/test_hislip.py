"""HiSLIP's messages: bytes to messages, whatever their pieces, and within bounds."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.protocol.hislip import (
    FIRST_MESSAGE_ID,
    HEADER,
    LARGEST_MESSAGE,
    MAX_CONTROL_BYTES,
    MAX_SKIPPED_BYTES,
    FatalCode,
    HislipFatal,
    HislipMessage,
    MessageReader,
    MessageType,
    TooLarge,
    is_ahead,
    message,
    next_message_id,
    read_header,
)

MESSAGES = st.builds(
    HislipMessage,
    kind=st.integers(0, 255),
    control=st.integers(0, 255),
    parameter=st.integers(0, 2**32 - 1),
    payload=st.binary(max_size=300),
)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    ends = sorted({place % (len(data) + 1) for place in places} | {0, len(data)})
    return [data[start:end] for start, end in itertools.pairwise(ends)]


def all_of(reader: MessageReader) -> list[HislipMessage | TooLarge]:
    found = []
    while (one := reader.next()) is not None:
        found.append(one)
    return found


def test_the_header_is_the_standards_sixteen_bytes() -> None:
    framed = message(MessageType.DATA_END, 1, FIRST_MESSAGE_ID, b"*IDN?\n")
    assert framed.hex() == "4853" + "07" + "01" + "ffffff00" + "0000000000000006" + b"*IDN?\n".hex()
    assert read_header(framed) == (MessageType.DATA_END, 1, FIRST_MESSAGE_ID, 6)


@given(st.lists(MESSAGES, max_size=8), st.lists(st.integers(0, 5_000), max_size=12))
def test_messages_come_out_as_they_went_in_however_they_are_cut(
    sent: list[HislipMessage], places: list[int]
) -> None:
    reader = MessageReader()
    received = []
    for piece in cut(b"".join(message(*one) for one in sent), places):
        reader.receive(piece)
        received += all_of(reader)
    assert received == sent


@given(st.binary(max_size=200))
def test_garbage_ends_the_session_and_raises_nothing_else(data: bytes) -> None:
    reader = MessageReader()
    reader.receive(data)
    try:
        found = all_of(reader)
    except HislipFatal:
        return
    assert found or b"HS".startswith(data[:2])


@pytest.mark.parametrize("data", [b"G", b"GET / HTTP/1.1\r\n", b"HX", b"\x16\x03\x01"])
def test_what_is_no_hislip_is_known_by_its_first_bytes(data: bytes) -> None:
    reader = MessageReader()
    reader.receive(data)
    with pytest.raises(HislipFatal, match="not a HiSLIP message") as ended:
        reader.next()
    assert ended.value.code is FatalCode.BAD_HEADER


def test_a_message_that_is_too_large_is_dropped_and_the_next_one_is_read() -> None:
    reader = MessageReader()
    length = LARGEST_MESSAGE - HEADER.size + 1
    reader.receive(HEADER.pack(b"HS", MessageType.DATA, 0, 0, length))
    assert reader.next() is None
    for _ in range(length // 1_000):
        reader.receive(bytes(1_000))
        assert reader.next() is None
        assert not reader._buffer  # nothing of it is kept
    reader.receive(bytes(length % 1_000) + message(MessageType.TRIGGER))
    assert reader.next() == TooLarge(MessageType.DATA, length)
    assert reader.next() == HislipMessage(MessageType.TRIGGER, 0, 0, b"")


def test_a_message_without_data_may_be_as_long_as_a_text_only() -> None:
    reader = MessageReader()
    reader.receive(
        message(MessageType.ASYNC_LOCK, payload=bytes(MAX_CONTROL_BYTES + 1))
        + message(MessageType.ASYNC_LOCK, payload=bytes(MAX_CONTROL_BYTES))
    )
    assert reader.next() == TooLarge(MessageType.ASYNC_LOCK, MAX_CONTROL_BYTES + 1)
    assert reader.next() == HislipMessage(MessageType.ASYNC_LOCK, 0, 0, bytes(MAX_CONTROL_BYTES))


def test_a_length_that_nobody_would_send_ends_the_session() -> None:
    reader = MessageReader()
    reader.receive(HEADER.pack(b"HS", MessageType.DATA, 0, 0, MAX_SKIPPED_BYTES + 1))
    with pytest.raises(HislipFatal, match="announces"):
        reader.next()


def test_message_ids_go_round() -> None:
    assert next_message_id(0xFFFF_FFFE) == 0
    assert is_ahead(0, 0xFFFF_FFFE)
    assert not is_ahead(0xFFFF_FFFE, 0)
    assert not is_ahead(7, 7)
