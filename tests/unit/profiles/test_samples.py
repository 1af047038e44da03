"""Samples to numbers, by the formulas that manuals give."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.errors import Failed
from edged.profiles.expr import compile_expression
from edged.profiles.frames import decode_codes, decode_waveform, x_increment
from edged.profiles.model import WaveformAnswer


def waveform(**fields: object) -> WaveformAnswer:
    return WaveformAnswer(
        **{"data": "X?", "dtype": "u1", "byte_order": "little", "scale": "value", **fields}
    )


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "f4", "f8"])
@pytest.mark.parametrize(("byte_order", "mark"), [("little", "<"), ("big", ">")])
def test_every_type_and_byte_order_is_decoded(dtype, byte_order, mark):
    letter = {"i1": "b", "u1": "B", "i2": "h", "u2": "H", "f4": "f", "f8": "d"}[dtype]
    numbers = [1, 2, 100] if dtype[0] == "u" else [1, -2, 100]

    codes = decode_codes(struct.pack(f"{mark}3{letter}", *numbers), dtype, byte_order)

    assert list(codes) == numbers


def test_rigol_codes_become_volts_with_a_channel_offset():
    answer = waveform(scale="(value - yorigin - yreference) * yincrement")
    values = {"yorigin": 10, "yreference": 127, "yincrement": 0.04}

    volts = decode_waveform(answer, bytes([137, 162, 112]), values)

    assert list(volts) == pytest.approx([0.0, 1.0, -1.0])


def test_siglent_codes_become_volts():
    answer = waveform(dtype="i1", scale="value * (vdiv / 25) - ofst")

    volts = decode_waveform(answer, struct.pack("2b", 25, -50), {"vdiv": 0.5, "ofst": 1.0})

    assert list(volts) == pytest.approx([-0.5, -2.0])


def test_half_a_sample_is_a_bad_answer():
    with pytest.raises(Failed, match="not a multiple of 2"):
        decode_codes(b"\x00\x01\x02", "i2", "little")


@pytest.mark.parametrize("scale", ["value * missing", "1 / value", "value > 1"])
@pytest.mark.parametrize("dtype", ["u1", "u2", "f4"])
def test_a_scale_that_gives_no_number_is_a_bad_answer(scale, dtype):
    with pytest.raises(Failed, match="cannot be scaled"):
        decode_waveform(waveform(dtype=dtype, scale=scale), bytes(4), {})


def test_time_axis_is_an_expression_over_preamble_and_parameters():
    assert x_increment(waveform(x_increment="tdiv * 14 / points"), {"tdiv": 1e-3, "points": 7}) == (
        pytest.approx(2e-3)
    )
    with pytest.raises(Failed):
        x_increment(waveform(x_increment="tdiv"), {})


@given(
    st.lists(st.integers(-(2**15), 2**15 - 1), max_size=20),
    st.sampled_from(["(value - a) * b", "value * value / 7 + a", "-value / b", "value"]),
)
def test_bulk_scaling_agrees_with_evaluating_each_sample(codes, scale):
    values = {"a": 3.5, "b": 0.01}
    block = struct.pack(f"<{len(codes)}h", *codes)

    scaled = decode_waveform(waveform(dtype="i2", scale=scale), block, values)

    expression = compile_expression(scale)
    expected = [expression.evaluate({**values, "value": code}) for code in codes]
    assert list(scaled) == pytest.approx(expected)
