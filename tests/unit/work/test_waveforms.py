import asyncio
import base64
import struct
import sys
import tracemalloc
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.actions.caller import Caller, Route
from edged.errors import ErrorCode, Failed, Invalid, NotFound
from edged.profiles.frames import Frame, decode_waveform
from edged.profiles.model import AnswerField, WaveformAnswer
from edged.runs.points import PIECE_BYTES, Waveform, as_base64, make_waveform
from edged.runs.streams.waveforms import WaveformRegistry
from edged.scpi.kinds import AnswerType
from tests.promises import promise

DIRECT = Caller(route=Route.DIRECT)


def trace(samples: int, value: float = 1.0) -> Waveform:
    return Waveform(
        type_code="f",
        samples=array("f", [value]).tobytes() * samples,
        x_unit="s",
        y_unit="V",
        x_increment=1e-6,
    )


@given(
    data=st.binary(min_size=1, max_size=300),
    dtype=st.sampled_from(["i1", "u1"]),
    slope=st.floats(-100, 100).filter(lambda x: abs(x) > 1e-6),
    offset=st.floats(-100, 100),
)
def test_the_fast_way_for_bytes_gives_what_the_plain_way_gives(
    data: bytes, dtype: str, slope: float, offset: float
) -> None:
    answer = WaveformAnswer(
        data="D?", dtype=dtype, byte_order="little", scale="value * slope + offset"
    )
    values = {"slope": slope, "offset": offset}
    made = make_waveform(answer, [data], None, values)
    assert array("f", made.samples) == array("f", decode_waveform(answer, data, values))


@pytest.mark.parametrize("size", [1_199, 20_020, 1_048_576])
def test_blocks_of_awkward_sizes_become_as_many_samples(size: int) -> None:
    answer = WaveformAnswer(data="D?", dtype="u1", byte_order="little", scale="value * 0.5 - 1")
    data = bytes(i % 251 for i in range(size))
    made = make_waveform(answer, [data], None, {})
    assert made.told() == {
        "y_dtype": "float32",
        "y_length": size,
        "x_unit": "s",
        "y_unit": "V",
        "x_increment": 1.0,
    }
    assert struct.unpack("<f", made.samples[-4:]) == (data[-1] * 0.5 - 1,)


@pytest.mark.parametrize(
    ("announced", "asked", "told"),
    [
        (4, {}, None),
        (2, {}, "announced 2 samples and sent 4"),
        (6, {}, "announced 6 samples and sent 4"),
        (6000, {"first": 1, "last": 4}, None),
        (6000, {"first": 1, "last": 5}, "announced 5 samples and sent 4"),
    ],
)
@pytest.mark.parametrize("name", ["points", "length"])
def test_a_trace_of_another_length_than_announced_is_a_bad_answer(
    name: str, announced: int, asked: dict[str, int], told: str | None
) -> None:
    answer = WaveformAnswer(
        data="D?",
        dtype="u1",
        byte_order="little",
        preamble_queries=("P?",),
        preamble_fields=(AnswerField(name=name, type=AnswerType.INT, index=0),),
    )
    if told is None:
        assert make_waveform(answer, [b"abcd"], str(announced), dict(asked)).length == 4
        return
    with pytest.raises(Failed, match=told) as caught:
        make_waveform(answer, [b"abcd"], str(announced), dict(asked))
    assert caught.value.code is ErrorCode.BAD_ANSWER


def test_the_preamble_scales_both_axes() -> None:
    fields = tuple(
        AnswerField(name=name, type=AnswerType.FLOAT, index=index)
        for index, name in enumerate(("x_step", "y_step", "y_zero"))
    )
    answer = WaveformAnswer(
        data="D?",
        dtype="i2",
        byte_order="big",
        preamble_queries=("P?",),
        preamble_fields=fields,
        x_increment="x_step * 2",
        scale="(value - y_zero) * y_step",
    )
    made = make_waveform(answer, [struct.pack(">2h", 10, -10)], "5e-7,0.1,4", {})
    assert made.x_increment == 1e-6
    assert list(struct.unpack("<2f", made.samples)) == pytest.approx([0.6, -1.4])
    assert made.preamble == {"x_step": 5e-7, "y_step": 0.1, "y_zero": 4.0}


@pytest.mark.parametrize(("dtype", "code"), [("f4", "f"), ("f8", "d"), ("i1", "b")])
def test_of_points_that_are_pairs_the_first_value_is_kept(dtype: str, code: str) -> None:
    answer = WaveformAnswer(
        data="D?",
        dtype=dtype,
        byte_order="little",
        values_per_point=2,
        preamble_queries=("P?",),
        preamble_fields=(AnswerField(name="points", type=AnswerType.INT, index=0),),
        scale="value * 2",
    )
    pairs = struct.pack(f"<6{code}", 1, 9, 2, 9, 3, 9)
    made = make_waveform(answer, [pairs], "3", {})
    assert made.length == 3
    assert array(made.type_code, bytes(made.samples)).tolist() == [2, 4, 6]
    with pytest.raises(Failed, match="announced 3 samples and sent 2"):
        make_waveform(answer, [pairs[: len(pairs) // 3 * 2]], "3", {})
    with pytest.raises(Failed, match="no whole number of points of 2 values"):
        make_waveform(answer, [pairs[: len(pairs) // 6 * 5]], "3", {})


def test_stretches_of_one_capture_are_joined_in_order() -> None:
    answer = WaveformAnswer(data="D?", dtype="u1", byte_order="little")
    made = make_waveform(answer, [b"\x01\x02", b"\x03"], None, {})
    assert struct.unpack("<3f", made.samples) == (1.0, 2.0, 3.0)


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "f4", "f8"])
def test_pieces_of_a_long_block_make_what_the_whole_makes(dtype: str) -> None:
    answer = WaveformAnswer(data="D?", dtype=dtype, byte_order="big", scale="value * 0.5 - 1")
    one = bytes(range(1, 65)) * (PIECE_BYTES // 64 + 3)
    made = make_waveform(answer, [one, one[:64]], None, {})
    decoded = decode_waveform(answer, one + one[:64], {})
    assert made.samples == array(made.type_code, decoded).tobytes()


@promise("blocks.bounded")
@pytest.mark.parametrize(("dtype", "size"), [("u1", 12), ("i2", 1), ("f4", 2)])
def test_what_is_worked_out_is_held_once_beside_its_block(dtype: str, size: int) -> None:
    answer = WaveformAnswer(data="D?", dtype=dtype, byte_order="little", scale="value * 2")
    whole = bytearray(bytes(size * 2**20))
    tracemalloc.start()
    made = make_waveform(answer, [whole], None, {})
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert made.length == size * 2**20 // int(dtype[1])
    assert peak < len(made.samples) + 6 * 2**20


@promise("blocks.bounded")
async def test_the_loop_goes_on_while_a_block_is_worked_out() -> None:
    answer = WaveformAnswer(data="D?", dtype="u1", byte_order="little", scale="value * 2")
    book = WaveformRegistry(512)
    whole = bytearray(bytes(32 * 2**20))
    turns = 0
    interval_s = sys.getswitchinterval()
    # What holds the interpreter is not interrupted, however often the loop asks for its turn.
    sys.setswitchinterval(0.000_1)
    try:
        working = asyncio.ensure_future(book.decode(answer, [whole], None, {}))
        while not working.done():
            await asyncio.sleep(0)
            turns += 1
    finally:
        sys.setswitchinterval(interval_s)
        book.stop()
    assert (await working).length == 32 * 2**20
    # One call over the whole lets the loop go on a dozen times.
    assert turns > 100


@pytest.mark.parametrize("size", [0, 1, 2, PIECE_BYTES, 2 * PIECE_BYTES + 1])
def test_base64_by_pieces_is_base64(size: int) -> None:
    data = bytes(range(256)) * (size // 256 + 1)
    assert as_base64(data[:size]) == base64.b64encode(data[:size]).decode()


def test_doubles_stay_doubles() -> None:
    answer = WaveformAnswer(data="D?", dtype="f8", byte_order="little")
    made = make_waveform(answer, [struct.pack("<d", 0.1)], None, {})
    assert (made.told()["y_dtype"], struct.unpack("<d", made.samples)) == ("float64", (0.1,))


def test_a_scale_that_is_no_line_is_worked_out_all_the_same() -> None:
    answer = WaveformAnswer(data="D?", dtype="u1", byte_order="little", scale="value * value")
    made = make_waveform(answer, [b"\x03\x04"], None, {})
    assert struct.unpack("<2f", made.samples) == (9.0, 16.0)


def test_a_block_that_is_cut_short_is_no_waveform() -> None:
    answer = WaveformAnswer(data="D?", dtype="u1", byte_order="little")
    with pytest.raises(Failed) as caught:
        Frame(answer).samples(b"#15abc")
    assert caught.value.code is ErrorCode.BAD_ANSWER


def test_the_oldest_waveform_goes_when_there_is_no_room_and_its_fetch_says_so() -> None:
    book = WaveformRegistry(memory_mb=1)
    try:
        for index in range(3):
            assert book.add("mcp-a", trace(100_000), DIRECT) == index
        assert book.get("mcp-a", 2).length == 100_000
        with pytest.raises(NotFound) as caught:
            book.get("mcp-a", 0)
        assert caught.value.code is ErrorCode.UNKNOWN_POINT
        assert "evicted" in caught.value.message
        assert "WAVEFORM_MEMORY_MB" in caught.value.message
        assert book.status()["used_mb"] <= 1
    finally:
        book.stop()


def test_over_the_relay_only_the_subject_that_measured_a_waveform_is_shown_its_newest() -> None:
    ada, bob, nobody = (Caller(route=Route.RELAY, subject=name) for name in ("ada", "bob", ""))
    book = WaveformRegistry(memory_mb=1)
    try:
        book.add("mcp-a", trace(1), ada)
        book.add("mcp-o", trace(1), DIRECT)
        assert [book.last("mcp-a", who) for who in (ada, bob, nobody, DIRECT)] == [0, None, None, 0]
        assert [book.last("mcp-o", who) for who in (ada, bob, nobody, DIRECT)] == [None] * 3 + [0]
        assert book.last("mcp-b", DIRECT) is None
    finally:
        book.stop()


def test_a_point_that_has_not_come_and_a_stream_that_never_was_are_told_apart() -> None:
    book = WaveformRegistry(memory_mb=1)
    try:
        book.add("mcp-a", trace(1), DIRECT)
        with pytest.raises(NotFound, match="0 to 0") as not_yet:
            book.get("mcp-a", 1)
        with pytest.raises(NotFound) as never:
            book.get("mcp-b", 0)
        codes = (not_yet.value.code, never.value.code)
        assert codes == (ErrorCode.UNKNOWN_POINT, ErrorCode.UNKNOWN_STREAM)
    finally:
        book.stop()


async def test_every_format_carries_the_metadata() -> None:
    book = WaveformRegistry(memory_mb=8)
    try:
        values = array("f", [0.0, 3.0, -4.0])
        waveform = Waveform(
            type_code="f", samples=values.tobytes(), x_unit="s", y_unit="V", x_increment=0.5
        )
        book.add("mcp-a", waveform, DIRECT)
        whole, summary, outline = await asyncio.gather(
            *(book.fetch("mcp-a", 0, form) for form in ("base64", "summary", "decimated"))
        )
        assert array("f", base64.b64decode(whole["y_data"])) == values
        assert (whole["encoding"], whole["byte_order"]) == ("base64", "little")
        assert (summary["y_min"], summary["y_max"]) == (-4.0, 3.0)
        assert outline["y_values"] == [0.0, 3.0, -4.0]
        for answer in (whole, summary, outline):
            assert answer["y_length"] == 3
            assert (answer["stream_id"], answer["point_index"]) == ("mcp-a", 0)
    finally:
        book.stop()


@promise("blocks.bounded")
async def test_a_long_trace_is_handed_out_in_parts_that_hold_nobody_up() -> None:
    book = WaveformRegistry(memory_mb=64)
    most = 16 * 2**20 // 4
    samples = bytes(4 * most) + array("f", [1.0, 2.0]).tobytes()
    waveform = Waveform(type_code="f", samples=samples, x_unit="s", y_unit="V", x_increment=0.5)
    book.add("mcp-a", waveform, DIRECT)
    try:
        with pytest.raises(
            Invalid, match=f"at most {most} samples at once, and these are {most + 2}"
        ):
            await book.fetch("mcp-a", 0, "base64")
        assert len((await book.fetch("mcp-a", 0, "base64", count=most))["y_data"]) > 4 * most
        tail = await book.fetch("mcp-a", 0, "base64", first=most, count=99)
        assert (tail["first"], tail["count"], tail["y_length"]) == (most, 2, most + 2)
        assert array("f", base64.b64decode(tail["y_data"])) == array("f", [1.0, 2.0])
        with pytest.raises(Invalid, match=f"first goes from 0 to {most + 1}"):
            await book.fetch("mcp-a", 0, "base64", first=most + 2)
    finally:
        book.stop()


def test_an_outline_of_a_long_trace_keeps_its_spikes() -> None:
    values = array("f", [0.0]) * 100_000
    values[77_777] = 9.0
    waveform = Waveform(
        type_code="f", samples=values.tobytes(), x_unit="s", y_unit="V", x_increment=1.0
    )
    outline = waveform.decimated()
    assert len(outline["y_values"]) <= 1000
    assert max(outline["y_values"]) == 9.0
