"""Where blocks begin and end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.errors import ErrorCode, Failed
from edged.scpi.blocks import bytes_lacking, find_block_head, parse_block


@pytest.mark.parametrize(
    ("data", "block"),
    [
        (b"#15hello\n", b"hello"),
        (b"#9000000003a\nb\n", b"a\nb"),
        (b"#0abc\n", b"abc"),
        (b"\n#13abc\n\n", b"abc"),
        (b"C1:WF DAT2,#9000000002\xff\x00\n\n", b"\xff\x00"),
        (b"#10\n", b""),
        (b"#0ab\n\n", b"ab\n"),
        (b"#(5)hello\n", b"hello"),
        (b"CURVE #(0000000005)hel\no", b"hel\no"),
        (b"CH#A #15hello\n", b"hello"),
        (b"BM\x08\x00\x00\x00xy\n", b"BM\x08\x00\x00\x00xy"),
    ],
)
def test_the_data_of_a_block_is_what_it_announces(data, block):
    assert parse_block(data) == block


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"#",
        b"#19abc",
        b"hello\n",
        b"#2x5",
        b"x" * 100,
        b"#A",
        b"#A#15hello",
        b"#H1F",
        b"#(5hello)",
        b"#()hello",
        b"#(9)hello",
    ],
)
def test_what_is_no_whole_block_is_a_bad_answer(data):
    with pytest.raises(Failed) as caught:
        parse_block(data)

    assert caught.value.code is ErrorCode.BAD_ANSWER


def test_the_head_tells_how_many_bytes_are_left_as_soon_as_it_can():
    whole = b"HEAD #41200"

    for count in range(len(whole)):
        assert find_block_head(whole[:count]) is None
    head = find_block_head(whole)
    assert head is not None
    assert (head.start, head.length, head.total) == (11, 1200, 1211)


def test_a_head_in_brackets_is_read_byte_by_byte():
    whole = b"#(1000000000)"

    for count in range(len(whole)):
        assert find_block_head(whole[:count]) is None
    head = find_block_head(whole)
    assert head is not None
    assert (head.start, head.length) == (13, 1_000_000_000)


@pytest.mark.parametrize(
    ("begun", "lacking"),
    [
        (b":CURVE #216ab\n", 13),
        (b"1;2,#15hello", 0),
        (b"1;#15hello;#16ab", 4),
        (b"#15#16ab", 0),
        (b"#15#16a", 1),
        (b"serial#9999999999", 0),
        (b"No block here\n", 0),
    ],
)
def test_what_a_block_lacks_is_known_behind_text_too(begun, lacking):
    assert bytes_lacking(begun, len(begun)) == lacking


def test_a_length_is_told_however_large_for_the_reader_to_judge():
    head = find_block_head(b"#9999999999")
    assert head is not None
    assert (head.start, head.length) == (11, 999_999_999)


def test_the_data_of_a_block_are_not_copied():
    whole = bytearray(b"#15hello\n")
    data = parse_block(whole)
    whole[3:4] = b"J"
    assert data == b"Jello"


@given(st.binary(max_size=200))
def test_a_definite_block_gives_back_its_bytes(data):
    length = str(len(data))

    assert parse_block(f"#{len(length)}{length}".encode() + data + b"\n") == data


@given(st.one_of(st.binary(max_size=80), st.binary(max_size=20).map(lambda tail: b"#" + tail)))
def test_any_bytes_are_a_block_or_a_bad_answer(data):
    try:
        block = parse_block(data)
    except Failed as error:
        code = error.code
    else:
        assert len(block) <= len(data)
        return
    assert code is ErrorCode.BAD_ANSWER
