"""Bytes of a waveform → numbers in its unit, with the standard library alone.

A scale that is a line in ``value`` (all real ones are) is one multiply-add a sample; any other is
worked out once for each distinct code.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Mapping, Sequence
from typing import Final

from edged.errors import ErrorCode, Failed, Invalid
from edged.profiles.blocks import block_length
from edged.profiles.expr import compile_expression
from edged.profiles.model import Scalar, WaveformAnswer

__all__ = ["SIZES", "check_count", "decode_codes", "decode_waveform", "scale_codes", "x_increment"]

_TYPE_CODES: Final = {"i1": "b", "u1": "B", "i2": "h", "u2": "H", "f4": "f", "f8": "d"}
SIZES: Final = {dtype: array(code).itemsize for dtype, code in _TYPE_CODES.items()}
"""Bytes of a sample."""
_NATIVE_ORDER: Final = sys.byteorder
COUNTS: Final = ("points", "length")
"""What a profile calls the preamble's number of samples, where it has one."""


def check_count(
    answer: WaveformAnswer, blocks: Sequence[bytes | bytearray], values: Mapping[str, Scalar]
) -> None:
    """Refuse a trace of another number of samples than the preamble counts and was asked for.

    Args:
        answer: dtype.
        blocks: with their headers, in the order of their points.
        values: the preamble's fields and the command's parameters.

    Raises:
        Failed: BAD_ANSWER, also where a block is shorter than it announces.
    """
    lengths = list(map(block_length, blocks))
    for length in lengths:
        _check_whole(length, answer.dtype)
    count = sum(lengths) // SIZES[answer.dtype]
    told = [values.get(field.name) for field in answer.preamble_fields if field.name in COUNTS]
    counts = [number for number in told if isinstance(number, int)]
    if not counts:
        return
    first, last = values.get("first"), values.get("last")
    if isinstance(first, int) and isinstance(last, int):
        counts.append(last - first + 1)
    announced = max(0, min(counts))
    # Where the trace comes in stretches, the preamble may count the first of them alone.
    if count < announced or (count > announced and len(blocks) == 1):
        raise Failed(
            f"The instrument announced {announced} samples and sent {count}.",
            code=ErrorCode.BAD_ANSWER,
            data={"announced": announced, "sent": count},
        )


def decode_waveform(
    answer: WaveformAnswer, block: bytes | memoryview, values: Mapping[str, Scalar]
) -> array[float]:
    """The samples of a block in ``answer.y_unit``, as 64-bit floats of this machine's byte order.

    Args:
        answer: dtype, byte order and scale.
        block: the data inside the block.
        values: the preamble's fields and the command's parameters, for the scale.

    Raises:
        Failed: BAD_ANSWER, where the block is no whole number of samples or cannot be scaled.
    """
    codes = decode_codes(block, answer.dtype, answer.byte_order)
    return scale_codes(codes, answer.scale, values)


def decode_codes(
    block: bytes | memoryview, dtype: str, byte_order: str
) -> array[int] | array[float]:
    """The raw codes of a block.

    Args:
        block: the data inside the block.
        dtype: i1, u1, i2, u2, f4 or f8.
        byte_order: little or big.

    Raises:
        Failed: BAD_ANSWER, where the block is no whole number of samples.
    """
    _check_whole(len(block), dtype)
    codes: array[int] | array[float] = array(_TYPE_CODES[dtype])
    codes.frombytes(block)
    if byte_order != _NATIVE_ORDER:
        codes.byteswap()
    return codes


def _check_whole(length: int, dtype: str) -> None:
    if length % SIZES[dtype]:
        raise Failed(
            f"The instrument sent {length} bytes of samples, which is no multiple of "
            f"{SIZES[dtype]}.",
            code=ErrorCode.BAD_ANSWER,
        )


def scale_codes(
    codes: array[int] | array[float], scale: str, values: Mapping[str, Scalar]
) -> array[float]:
    """Codes → values by an expression over ``value``.

    Raises:
        Failed: BAD_ANSWER, where the expression needs what is not there or gives no number.
    """
    expression = compile_expression(scale)
    line = expression.line("value", values)
    if line is not None:
        slope, intercept = line.slope, line.intercept
        return array("d", [slope * code + intercept for code in codes])
    try:
        table = {code: expression.evaluate({**values, "value": code}) for code in set(codes)}
        return array("d", [_number(table[code]) for code in codes])
    except (Invalid, TypeError) as error:
        why = error.message if isinstance(error, Invalid) else "the scale gives no number."
        raise Failed(f"The samples cannot be scaled: {why}", code=ErrorCode.BAD_ANSWER) from error


def x_increment(answer: WaveformAnswer, values: Mapping[str, Scalar]) -> float:
    """The distance of two samples in ``answer.x_unit``.

    Raises:
        Failed: BAD_ANSWER, where the expression needs what is not there or gives no number.
    """
    try:
        value = compile_expression(answer.x_increment).evaluate(values)
    except Invalid as error:
        raise Failed(
            f"The time axis cannot be worked out: {error.message}", code=ErrorCode.BAD_ANSWER
        ) from error
    if isinstance(value, (bool, str)):
        raise Failed("The time axis is no number.", code=ErrorCode.BAD_ANSWER)
    return float(value)


def _number(value: Scalar) -> float:
    if isinstance(value, (bool, str)):
        raise TypeError
    return value
