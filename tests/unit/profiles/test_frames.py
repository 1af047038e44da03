"""Where samples are in the bytes of an answer: without a header, behind a text, in packets."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from edged.errors import ErrorCode, Failed
from edged.instruments.conversation import AskBlock, capture_conversation
from edged.profiles.frames import Frame
from edged.profiles.model import Connection, Packets, WaveformAnswer
from edged.runs.points import make_waveform

HANTEK = Packets(fields=(("size", 9), ("total", 9), ("sent", 9)), until="sent + size >= total")


def answer(**keys: Any) -> WaveformAnswer:
    return WaveformAnswer(**{"data": "D?", "dtype": "u1", "byte_order": "big", **keys})


def block(data: bytes) -> bytes:
    length = str(len(data))
    return f"#{len(length)}{length}".encode() + data


def played(form: WaveformAnswer, *packets: bytes, values: Any = None) -> tuple[bytes, int]:
    """What a capture makes of these answers, and how often it asked."""
    talk = capture_conversation(
        setup=(),
        preamble=(),
        data="D?",
        connection=Connection(),
        framed=lambda _: Frame(form, lambda: values or {}),
    )
    assert isinstance(next(talk), AskBlock)
    for number, packet in enumerate(packets, start=1):
        try:
            talk.send(packet)
        except StopIteration as stop:
            assert number == len(packets)
            return bytes(stop.value.block), len(stop.value.sent)
    raise AssertionError("it asks for more")


@given(data=st.binary(max_size=400), ends=st.sampled_from([b"", b"\n", b"\r\n"]))
def test_headerless_data_are_the_bytes_themselves(data: bytes, ends: bytes) -> None:
    frame = Frame(answer(has_header=False, size=str(len(data))))
    assert frame.find(b"").total == len(data)
    assert bytes(frame.samples(data + ends)) == data


def test_the_integers_of_a_3458a_come_as_they_were_sent() -> None:
    form = answer(has_header=False, count="n", dtype="i2")
    sent = bytes.fromhex("00 00 01 02 00 0A")
    samples = Frame(form, lambda: {"n": 3}).samples(sent)
    assert make_waveform(form, [samples], None, {"n": 3}).values().tolist() == [0, 258, 10]


def test_a_point_of_two_values_takes_the_bytes_of_both() -> None:
    form = answer(has_header=False, count="2", dtype="f4", values_per_point=2)
    assert Frame(form).find(b"").total == 16


@pytest.mark.parametrize(
    ("count", "told"), [("n / 2", "1.5"), ("-1", "-1"), ("x", "names x"), ("a", "not a number")]
)
def test_a_count_that_is_none_is_a_bad_answer(count: str, told: str) -> None:
    with pytest.raises(Failed, match="The waveform's count") as caught:
        Frame(answer(has_header=False, count=count), lambda: {"n": 3, "a": "x"}).find(b"")
    assert caught.value.code is ErrorCode.BAD_ANSWER


@pytest.mark.parametrize(
    ("length", "head"),
    [
        ("u32le", struct.pack("<I", 5)),
        ("u32be", struct.pack(">I", 5)),
        ("u16le", struct.pack("<H", 5)),
        ("u16be", struct.pack(">H", 5)),
        ("ascii4", b"0005"),
        ("ascii4", b"   5"),
    ],
)
def test_a_length_may_stand_in_front_of_the_data(length: str, head: bytes) -> None:
    frame = Frame(answer(length=length))
    for count in range(len(head)):
        assert frame.find(head[:count]) is None
    assert frame.find(head).total == len(head) + 5
    assert bytes(frame.samples(head + b"\x00\n#1\r\n")) == b"\x00\n#1\r"
    with pytest.raises(Failed, match="3 bytes of a block that announces 5"):
        frame.samples(head + b"abc")


@pytest.mark.parametrize("sent", [b"ERR 12", b"-001abc", b"1_00", b"    "])
def test_a_length_that_is_no_number_is_a_bad_answer_that_shows_the_bytes(sent: bytes) -> None:
    with pytest.raises(Failed, match=f"'{sent.decode()}'") as caught:
        Frame(answer(length="ascii4")).find(sent)
    assert "length" in caught.value.remedy


@pytest.mark.parametrize(
    ("prefix", "keys", "sent"),
    [
        ("^C1:WF DAT2,", {}, b"C1:WF DAT2,#15\x00\n#1\r"),
        ("^:?CURVE ", {}, b":CURVE #15\x00\n#1\r"),
        ("^#A", {"length": "u16be"}, b"#A\x00\x05\x00\n#1\r"),
        (r"^\d+;", {"has_header": False, "size": "5"}, b"12;\x00\n#1\r"),
        ("^Trace #3 of a unit that tells of itself, its trigger and its probe, too: ", {},
         b"Trace #3 of a unit that tells of itself, its trigger and its probe, too: #15\x00\n#1\r"),
    ],
)  # fmt: skip
def test_a_text_may_stand_in_front_of_all_that(prefix: str, keys: Any, sent: bytes) -> None:
    frame = Frame(answer(prefix=prefix, **keys))
    head = next(
        head for count in range(len(sent)) if (head := frame.find(sent[:count])) is not None
    )
    assert head.total == len(sent)
    assert bytes(frame.samples(sent + b"\n")) == b"\x00\n#1\r"


def test_an_answer_without_its_prefix_is_a_bad_answer() -> None:
    with pytest.raises(Failed, match=r"no data that begin with \^CURVE"):
        Frame(answer(prefix="^CURVE ")).find(b"x" * 300)


def test_what_stands_inside_of_a_block_before_the_samples_is_skipped() -> None:
    frame = Frame(answer(skip_bytes=4))
    assert bytes(frame.samples(block(b"WAVEabc"))) == b"abc"
    assert bytes(frame.samples(block(b"WAVE"))) == b""
    with pytest.raises(Failed, match="3 bytes, of which 4 come before the samples"):
        frame.samples(block(b"WAV"))


@given(data=st.binary(min_size=1, max_size=900), pieces=st.integers(1, 5), inside=st.booleans())
# The total of the last packet, or of the first, is its size with two fields.
@example(data=bytes(21), pieces=4, inside=False)
@example(data=bytes(24), pieces=4, inside=False)
@example(data=b"0" * 23, pieces=5, inside=False)
def test_packets_are_asked_for_until_all_have_come(
    data: bytes, pieces: int, *, inside: bool
) -> None:
    """With the digits of the block's own head as the first field, and with all inside of it."""
    step = -(-len(data) // pieces)
    # With a total that is by chance the first size, digits in front of the samples could be fields.
    assume(inside or len(data) != step + 18 or not data[:9].isdigit())
    packets = []
    for sent in range(0, len(data), step):
        part = data[sent : sent + step]
        if inside:
            packets.append(block(b"%09d%09d%09d" % (len(part), len(data), sent) + part))
        else:
            packets.append(b"#9%09d%09d%09d" % (18 + len(part), len(data), sent) + part)
    until = "sent + size >= total" if inside else "sent + size - 18 >= total"
    form = answer(packets=Packets(fields=HANTEK.fields, until=until))
    assert played(form, *packets) == (data, len(packets))


def test_samples_that_look_like_digits_are_samples() -> None:
    data = b"0" * 4000
    packets = [
        b"#9%09d%09d%09d" % (1018, 4000, sent) + data[:1000] for sent in range(0, 4000, 1000)
    ]
    assert played(answer(packets=HANTEK), *packets) == (data, 4)


def test_a_hantek_as_it_was_seen_is_described_by_its_own_size() -> None:
    """The size counts the 29 bytes of its head; the first packet has 99 bytes of settings.

    Source: pyvisa/pyvisa#555, ``#9000004029000004099000000099`` and 4,000 samples.
    """
    settings, data = b"s" * 99, bytes(range(250)) * 16
    packets = [
        b"#9%09d%09d%09d" % (128, 4099, 0) + settings,
        b"#9%09d%09d%09d" % (4029, 4099, 99) + data,
    ]
    plain = answer(packets=HANTEK, skip_bytes=99)
    # Behind a wire that marks where a packet ends.
    assert played(plain, *packets) == (data, 2)
    with pytest.raises(Failed, match="bytes of a block that announces 128"):
        played(plain, packets[0][:-1])
    form = answer(
        prefix="^#9",
        has_header=False,
        size="size - 29",
        skip_bytes=99,
        packets=Packets(fields=HANTEK.fields, until="sent + size - 29 >= total"),
    )
    assert Frame(form).find(packets[1][:29]).total == 4029
    assert played(form, *packets) == (data, 2)


@pytest.mark.parametrize(
    ("packets", "told"),
    [
        ([(4, 12, 0), (4, 12, 8)], "says 8 for what was sent before it"),
        ([(4, 12, 0), (4, 12, 0)], "says 0 for what was sent before it"),
        ([(4, 40, 0), (4, 8, 4)], None),
        ([(4, 4, 0)], None),
        ([(4, 3, 0)], "4 bytes in packets that announce 3"),
    ],
)
def test_packets_that_do_not_make_a_whole_are_a_bad_answer(
    packets: list[tuple[int, int, int]], told: str | None
) -> None:
    form = answer(packets=HANTEK)
    sent = [block(b"%09d%09d%09d" % numbers + b"abcd") for numbers in packets]
    if told is None:
        assert played(form, *sent)[0] == b"abcd" * len(sent)
        return
    with pytest.raises(Failed, match=told) as caught:
        played(form, *sent)
    assert caught.value.code is ErrorCode.BAD_ANSWER


@pytest.mark.parametrize("sent", [b"ERROR", b"12345678x", b""])
def test_a_packet_without_its_numbers_is_a_bad_answer_that_shows_them(sent: bytes) -> None:
    form = answer(packets=Packets(fields=(("part", 9),), until="part == 1"))
    with pytest.raises(Failed, match="field part is not 9 digits"):
        played(form, block(sent))


def test_an_end_that_cannot_be_worked_out_is_a_bad_answer() -> None:
    form = answer(packets=Packets(fields=(("part", 1),), until="part == name"))
    with pytest.raises(Failed, match="Whether it was the last packet") as caught:
        played(form, block(b"1abc"), values={"name": "x"})
    assert (caught.value.code, caught.value.sent) == (ErrorCode.BAD_ANSWER, ("D?",))


def test_without_a_field_of_that_name_the_size_is_that_of_the_samples() -> None:
    form = answer(packets=Packets(fields=(("sent", 3),), until="sent + size == 7"))
    assert played(form, block(b"000abcd"), block(b"004efg")) == (b"abcdefg", 2)
