"""The samples of a waveform: where they stand in the bytes of an answer, and their values.

Usually in an IEEE 488.2 block (``scpi/blocks.py``). A profile can describe other forms:

- ``header: none``: samples alone; ``count`` or ``bytes`` says where they end (HP 3458A, SR830).
- ``length``: the number of bytes stands in front of them as a binary or decimal number.
- ``prefix``: a text comes before all that. The data begin where the pattern first fits.
- ``packets``: the same query is sent again for each part. A part begins with decimal numbers.
- ``skip_bytes``: at the start of the data stands something else, such as a descriptor.

A scale that is a line in ``value`` (all real ones are) is one multiply-add for each sample; any
other is evaluated once for each distinct code. Pure.
"""

from __future__ import annotations

import math
import operator
import sys
from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NoReturn

from edged.errors import ErrorCode, Failed, Invalid
from edged.patterns import compiled
from edged.profiles.expr import compile_expression
from edged.profiles.model import Packets, Returns, WaveformAnswer
from edged.scpi.blocks import MOST_HEAD, BlockHead, bad_block, find_block_head, parse_block
from edged.yaml.tree import Scalar

LENGTHS: Final[Mapping[str, tuple[int, Callable[[bytes], int]]]] = {
    "u16le": (2, lambda data: int.from_bytes(data, "little")),
    "u16be": (2, lambda data: int.from_bytes(data, "big")),
    "u32le": (4, lambda data: int.from_bytes(data, "little")),
    "u32be": (4, lambda data: int.from_bytes(data, "big")),
    "ascii4": (4, lambda data: int(data) if data.strip().isdigit() else -1),
}
"""What can stand in front of samples → its own bytes, and how it is read; negative: it is none."""
GiveValues = Callable[[], Mapping[str, Scalar]]
MOST_PREFIX: Final = 256
"""Bytes before the data in which a prefix is looked for."""
MOST_PACKETS: Final = 10_000
SIZE, TOTAL, SENT = "size", "total", "sent"
"""The names of fields of packets that are compared with what has come."""


class Frame:
    """The form of one answer.

    Args:
        answer: what the profile says of it; what is no waveform is a plain block.
        known: gives the preamble's fields and the command's parameters; called where the form
            depends on them, and raises BAD_ANSWER.

    Attributes:
        trailing_bytes: how many follow the data.
        has_length_in_digits: it has the header of IEEE 488.2.
        is_block: it begins with that, so that it shows what it is.
    """

    def __init__(
        self,
        answer: Returns | None = None,
        known: GiveValues = dict,
    ) -> None:
        waveform = answer if isinstance(answer, WaveformAnswer) else None
        self._answer = waveform
        self._known = known
        self.trailing_bytes = 0 if waveform is None else waveform.trailing_bytes
        self.has_length_in_digits = waveform is None or (
            waveform.has_header and not waveform.length
        )
        self.is_block = self.has_length_in_digits and not (waveform and waveform.prefix)

    def find(self, data: bytes) -> BlockHead | None:
        answer = self._answer
        if answer is None:
            return find_block_head(data)
        start = _prefix_end(answer.prefix, data) if answer.prefix else 0
        if start is None:
            return None
        head = self._head(answer, data[start:])
        return None if head is None else BlockHead(start=start + head.start, length=head.length)

    def _head(self, answer: WaveformAnswer, data: bytes) -> BlockHead | None:
        if answer.length:
            width, read = LENGTHS[answer.length]
            if len(data) < width:
                return None
            length = read(data[:width])
            if length < 0:
                raise bad_block(f"no length of form {answer.length}", data)
            return BlockHead(start=width, length=length)
        if answer.has_header:
            return find_block_head(data)
        width, values = 0, self._known()
        if answer.packets is not None:
            width = _width(answer.packets)
            if len(data) < width:
                return None
            values = {**values, **_numbers(answer.packets, data)}
        if answer.size:
            return BlockHead(start=0, length=width + whole_number_of("bytes", answer.size, values))
        count = whole_number_of("count", answer.count, values)
        return BlockHead(
            start=0, length=width + count * SIZES[answer.dtype] * answer.values_per_point
        )

    def samples(self, data: bytes | bytearray) -> memoryview:
        """The samples in what came: in one answer, or in all that ``PacketJoiner`` has joined.

        Raises:
            Failed: BAD_ANSWER, these are no such data, or fewer bytes than they announce.
        """
        answer = self._answer
        is_joined = answer is not None and answer.packets is not None
        found = memoryview(data) if is_joined else parse_block(data, self.find)
        skipped = 0 if answer is None else answer.skip_bytes
        if len(found) < skipped:
            raise bad_block(f"{len(found)} bytes, of which {skipped} come before the samples", data)
        return found[skipped:]

    def joiner(self) -> PacketJoiner | None:
        """What joins its packets; ``None`` where it comes in one answer."""
        answer = self._answer
        if answer is None or answer.packets is None:
            return None
        return PacketJoiner(answer, answer.packets, self, self._known)


BLOCK: Final = Frame()


def _prefix_end(prefix: str, data: bytes) -> int | None:
    """Where a prefix ends; ``None`` while more bytes are needed."""
    text = data[:MOST_PREFIX].decode("latin-1")
    pattern = compiled(prefix, any_case=False)
    for end in range(len(text) + 1):
        if pattern.search(text, 0, end):
            return end
    if len(text) == MOST_PREFIX:
        raise bad_block(f"no data that begin with {prefix}", data)
    return None


def _width(packets: Packets) -> int:
    return sum(digits for _, digits in packets.fields)


def _numbers(packets: Packets, data: bytes) -> dict[str, int]:
    """The fields at the start of a packet.

    Raises:
        Failed: BAD_ANSWER, there are no digits.
    """
    found = {}
    for name, digits in packets.fields:
        text, data = data[:digits], data[digits:]
        if not text.isdigit() or len(text) < digits:
            raise bad_block(f"a packet whose field {name} is not {digits} digits", text + data)
        found[name] = int(text)
    return found


class PacketJoiner:
    """Joins the packets of one trace.

    Args:
        answer: with ``packets``.
        frame: of each packet.
        known: see ``Frame``.
    """

    def __init__(
        self, answer: WaveformAnswer, packets: Packets, frame: Frame, known: GiveValues
    ) -> None:
        self._answer = answer
        self._packets = packets
        self._frame = frame
        self._known = known
        self._until = compile_expression(packets.until)
        # The first field may be the length in the block's own head.
        self._has_size_in_front = packets.fields[0][0] == SIZE and frame.has_length_in_digits
        self._is_inside = False
        self._count = 0
        # What has come, counted in each way in which an instrument may count it.
        self._sums: tuple[int, ...] = (0, 0, 0, 0)
        # In which of these the packets have counted what was sent, so far.
        self._ways = set(range(2 * len(self._sums)))
        self.data = bytearray()

    def add(self, packet: bytes | bytearray) -> bool:
        """Take one packet; whether it was the last.

        Raises:
            Failed: BAD_ANSWER, it is none, or does not follow the one before.
        """
        inside = self._inside(packet)
        numbers, samples = self._read(packet, inside)
        before = self._sums
        sizes = self._sizes(packet, inside, samples)
        self._sums = tuple(map(operator.add, before, sizes))
        self._follow(numbers.get(SENT), before, packet)
        self.data += samples
        self._count += 1
        if not self._is_last({SIZE: len(samples), **self._known(), **numbers}):
            if self._count >= MOST_PACKETS:
                self._refuse(f"{MOST_PACKETS} packets without an end", packet)
            return False
        total = numbers.get(TOTAL)
        if total is not None and total not in self._sums:
            self._refuse(f"{len(self.data)} bytes in packets that announce {total}", packet)
        return True

    def _inside(self, packet: bytes | bytearray) -> memoryview:
        """What is behind its head, whose length may be that of the whole packet (Hantek)."""
        head = self._frame.find(bytes(packet[:MOST_HEAD]))
        if self._has_size_in_front and head is not None and head.length == len(packet):
            return memoryview(packet)[head.start :]
        return parse_block(packet, self._frame.find)

    def _follow(self, sent: int | None, before: tuple[int, ...], packet: bytes | bytearray) -> None:
        """Refuse a packet that says something else of those before it than was ever true of them.

        It may count in any way, with itself or without, but always in the same.
        """
        if sent is None:
            return
        counted = (*before, *self._sums)
        self._ways &= {way for way, number in enumerate(counted) if number == sent}
        if not self._ways:
            self._refuse(f"a packet that says {sent} for what was sent before it", packet)

    def _is_last(self, known: Mapping[str, Scalar]) -> bool:
        try:
            return self._until.is_true(known)
        except Invalid as error:
            message = f"Whether it was the last packet cannot be worked out: {error.message}"
            raise Failed(message, code=ErrorCode.BAD_ANSWER) from error

    def _read(
        self, packet: bytes | bytearray, inside: memoryview
    ) -> tuple[dict[str, int], memoryview]:
        """Its fields and its samples.

        A first field ``size`` may be the length in the block's own head (Hantek). Its
        value shows whether it is that, or a field inside of the block.
        """
        digits = self._packets.fields[0][1]
        width, begun = _width(self._packets), bytes(inside[:MOST_HEAD])
        if self._has_size_in_front:
            start = len(packet) - len(inside)
            own = bytes(packet[max(0, start - digits) : start])
            if self._count == 0:
                # The total of a later packet may by chance be its size, too.
                sizes = self._sizes(packet, inside, inside[width:])
                front = begun[:width]
                is_number = len(front) == width and front.isdigit()
                self._is_inside = is_number and int(begun[:digits]) in sizes
            if own.isdigit() and len(own) == digits and not self._is_inside:
                return _numbers(self._packets, own + begun), inside[width - digits :]
        return _numbers(self._packets, begun), inside[width:]

    def _sizes(
        self, packet: bytes | bytearray, inside: memoryview, samples: memoryview
    ) -> tuple[int, ...]:
        """What an instrument may count of a packet: bytes, samples, with fields, the whole."""
        return len(samples), len(samples) // SIZES[self._answer.dtype], len(inside), len(packet)

    def _refuse(self, what: str, packet: bytes | bytearray) -> NoReturn:
        raise bad_block(what, packet)


Samples = bytes | bytearray | memoryview
_TYPE_CODES: Final = {
    "i1": "b", "u1": "B", "i2": "h", "u2": "H", "i4": "i", "u4": "I", "f4": "f", "f8": "d",
}  # fmt: skip
MANTISSA_EXPONENT: Final = "m2e2"
"""A mantissa and an exponent of 16 bits each (``TRCL?`` of an SR830 or SR844)."""
_EXPONENT_OFFSET: Final = 124
SIZES: Final = {
    **{dtype: array(code).itemsize for dtype, code in _TYPE_CODES.items()},
    MANTISSA_EXPONENT: 4,
}
"""Bytes of a sample."""
DOUBLES: Final = frozenset({"i4", "u4", "f8"})
"""The samples that a 32-bit float does not hold exactly."""
_NATIVE_ORDER: Final = sys.byteorder
COUNTS: Final = ("points", "length")
"""What a profile calls the preamble's number of samples, where it has one."""


def check_count(
    answer: WaveformAnswer, blocks: Sequence[Samples], values: Mapping[str, Scalar]
) -> None:
    """Refuse a trace of another number of samples than the preamble counts and was asked for.

    Args:
        answer: dtype, and how many values are a point.
        blocks: their samples (``Frame.samples``), in the order of their points.
        values: the preamble's fields and the command's parameters.

    Raises:
        Failed: BAD_ANSWER.
    """
    for block in blocks:
        _check_whole(len(block), answer.dtype)
    length = sum(map(len, blocks))
    count, rest = divmod(length // SIZES[answer.dtype], answer.values_per_point)
    if rest:
        raise Failed(
            f"The block has no whole number of points of {answer.values_per_point} values.",
            code=ErrorCode.BAD_ANSWER,
        )
    told = [values.get(field.name) for field in answer.preamble_fields if field.name in COUNTS]
    counts = [number for number in told if isinstance(number, int)]
    if answer.count:
        counts.append(whole_number_of("count", answer.count, values))
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
        dtype: one of ``SIZES``.
        byte_order: little or big.

    Raises:
        Failed: BAD_ANSWER, where the block is no whole number of samples.
    """
    _check_whole(len(block), dtype)
    codes: array[int] | array[float] = array(_TYPE_CODES.get(dtype, "h"))
    codes.frombytes(block)
    if byte_order != _NATIVE_ORDER:
        codes.byteswap()
    if dtype == MANTISSA_EXPONENT:
        pairs = zip(codes[::2], codes[1::2], strict=True)
        return array("d", [_power(mantissa, exponent) for mantissa, exponent in pairs])
    return codes


def _power(mantissa: float, exponent: float) -> float:
    try:
        return math.ldexp(mantissa, int(exponent) - _EXPONENT_OFFSET)
    except OverflowError:
        raise Failed(
            f"A sample has the exponent {exponent}, which is out of range.",
            code=ErrorCode.BAD_ANSWER,
        ) from None


def _check_whole(length: int, dtype: str) -> None:
    if length % SIZES[dtype]:
        raise Failed(
            f"The instrument sent {length} bytes of samples, which is not a multiple of "
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


def whole_number_of(name: str, expression: str, values: Mapping[str, Scalar]) -> int:
    """How many bytes or samples a waveform has, as an expression of its profile says.

    Raises:
        Failed: BAD_ANSWER, where the expression needs what is not there or gives no such number.
    """
    value = _worked_out(f"The waveform's {name}", expression, values)
    if value < 0 or not float(value).is_integer():
        message = f"The waveform's {name} is {value:g}, and must be a whole number."
        raise Failed(message, code=ErrorCode.BAD_ANSWER)
    return int(value)


def x_increment(answer: WaveformAnswer, values: Mapping[str, Scalar]) -> float:
    """The distance of two samples in ``answer.x_unit``.

    Raises:
        Failed: BAD_ANSWER, where the expression needs what is not there or gives no number.
    """
    return float(_worked_out("The time axis", answer.x_increment, values))


def _worked_out(what: str, expression: str, values: Mapping[str, Scalar]) -> float:
    try:
        value = compile_expression(expression).evaluate(values)
    except Invalid as error:
        message = f"{what} cannot be worked out: {error.message}"
        raise Failed(message, code=ErrorCode.BAD_ANSWER) from error
    if isinstance(value, (bool, str)):
        raise Failed(f"{what} is not a number.", code=ErrorCode.BAD_ANSWER)
    return value


def _number(value: Scalar) -> float:
    if isinstance(value, (bool, str)):
        raise TypeError
    return value
