"""Bytes of a waveform → numbers in its unit, with the standard library alone.

A scale that is a line in ``value`` (all real ones are) is one multiply-add a sample; any other is
worked out once for each distinct code.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Mapping
from typing import Final

from edged.errors import ErrorCode, Failed, Invalid
from edged.profiles.expr import compile_expression
from edged.profiles.model import Scalar, WaveformAnswer

__all__ = ["decode_codes", "decode_waveform", "scale_codes", "x_increment"]

_TYPE_CODES: Final = {"i1": "b", "u1": "B", "i2": "h", "u2": "H", "f4": "f", "f8": "d"}
_NATIVE_ORDER: Final = sys.byteorder


def decode_waveform(
    answer: WaveformAnswer, block: bytes, values: Mapping[str, Scalar]
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


def decode_codes(block: bytes, dtype: str, byte_order: str) -> array[int] | array[float]:
    """The raw codes of a block.

    Args:
        block: the data inside the block.
        dtype: i1, u1, i2, u2, f4 or f8.
        byte_order: little or big.

    Raises:
        Failed: BAD_ANSWER, where the block is no whole number of samples.
    """
    codes: array[int] | array[float] = array(_TYPE_CODES[dtype])
    if len(block) % codes.itemsize:
        raise Failed(
            f"The instrument sent {len(block)} bytes of samples, which is no multiple of "
            f"{codes.itemsize}.",
            code=ErrorCode.BAD_ANSWER,
        )
    codes.frombytes(block)
    if byte_order != _NATIVE_ORDER:
        codes.byteswap()
    return codes


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
