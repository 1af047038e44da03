"""What a measurement gives: points with a value, or waveforms with many.

A waveform is kept as little-endian floats, so that nobody has to ask for a byte order: 32 bits
where the instrument sent codes of up to 16 bits or 32-bit floats (nothing is lost that was
measured), 64 bits where it sent such. Decoding takes long and belongs on a thread.

What a trace says in few numbers: its figures, its frequency, its outline. Pure.

A sample may be NaN or infinite (an instrument's "no value"); such are passed over, and told by
their number.
"""

from __future__ import annotations

import base64
import math
import sys
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import field
from itertools import pairwise
from typing import Any, Final

from edged.errors import Invalid
from edged.profiles.answers import parse_preamble
from edged.profiles.expr import LinearForm, compile_expression
from edged.profiles.frames import DOUBLES, SIZES, Samples, check_count, decode_waveform, x_increment
from edged.profiles.model import WaveformAnswer
from edged.protocol.jsonrpc import VerbatimText
from edged.record import record
from edged.yaml.tree import Scalar

HYSTERESIS: Final = 0.1
"""Of peak to peak, on both sides of the middle: what noise may do without counting as a period."""
UNUSUAL: Final = 0.02
"""The share of the samples that is left out at each end when a wave is looked for."""
SAMPLED: Final = 4_096
MAX_SPREAD: Final = 0.25
"""Standard deviation of the periods over their mean, beyond which there is no one frequency."""
Outline = tuple[list[float | None], list[float | None]]
"""The lowest and the highest of each stretch; ``None`` where a stretch has no finite sample."""


def summary_of(values: Sequence[float], x_increment: float, x_unit: str) -> dict[str, Any]:
    """{y_min, y_max, y_mean, y_rms, y_peak_to_peak, frequency, frequency_unit, periods, …}.

    ``frequency`` is an estimate and ``None`` for what is no regular wave of at least two rising
    edges; ``not_finite`` counts the samples that are no number.
    """
    finite = [value for value in values if math.isfinite(value)]
    told: dict[str, Any] = {
        **dict.fromkeys(("y_min", "y_max", "y_mean", "y_rms", "y_peak_to_peak", "frequency")),
        "frequency_unit": "Hz" if x_unit == "s" else f"1/{x_unit}" if x_unit else "",
        "periods": 0,
        "not_finite": len(values) - len(finite),
    }
    if not finite:
        return told
    lowest, highest = min(finite), max(finite)
    if len(finite) < len(values):
        # An infinity would be an edge.
        values = [value if math.isfinite(value) else math.nan for value in values]
    frequency, periods = frequency_of(values, x_increment, *_usual_range(finite))
    if frequency is None:
        # Short pulses are none of what is usual.
        frequency, periods = frequency_of(values, x_increment, lowest, highest)
    return told | {
        "y_min": short(lowest),
        "y_max": short(highest),
        "y_mean": short(math.fsum(finite) / len(finite)),
        "y_rms": short(math.sqrt(math.fsum(value * value for value in finite) / len(finite))),
        "y_peak_to_peak": short(highest - lowest),
        "frequency": None if frequency is None else short(frequency),
        "periods": periods,
    }


def _usual_range(finite: Sequence[float]) -> tuple[float, float]:
    """Between which values most samples lie: one spike must not hide a wave."""
    some = sorted(finite[:: len(finite) // SAMPLED + 1])
    margin = int(len(some) * UNUSUAL)
    return some[margin], some[len(some) - 1 - margin]


def frequency_of(
    values: Sequence[float], x_increment: float, lowest: float, highest: float
) -> tuple[float | None, int]:
    """Periods per unit of x by the rising edges, and of how many periods that is the mean.

    An edge is where the trace rises through the middle by more than the hysteresis; its place is
    interpolated. ``None`` with fewer than two edges, or where the periods differ too much.
    """
    height = highest - lowest
    if not (height > 0 and math.isfinite(height) and x_increment > 0):
        return None, 0
    middle = lowest + height / 2
    over, under = middle + HYSTERESIS * height, middle - HYSTERESIS * height
    edges: list[float] = []
    is_low = False
    before = math.nan
    for index, value in enumerate(values):
        if value < under:
            is_low = True
        elif is_low and value > over:
            is_low = False
            # The sample before is at most ``over`` (or no number): the edge is between the two.
            rise = value - before
            edges.append(index - ((value - over) / rise if rise > 0 else 0.0))
        before = value
    if len(edges) < 2:
        return None, 0
    count = len(edges) - 1
    period = (edges[-1] - edges[0]) / count
    spread = math.sqrt(math.fsum((b - a - period) ** 2 for a, b in pairwise(edges)) / count)
    if spread > MAX_SPREAD * period:
        return None, 0
    return 1 / (period * x_increment), count


def outline_of(values: Sequence[float], stretches: int) -> tuple[int, Outline]:
    """Samples a stretch, and the extremes of each of at most so many stretches."""
    size = max(1, math.ceil(len(values) / stretches))
    lows: list[float | None] = []
    highs: list[float | None] = []
    for start in range(0, len(values), size):
        finite = [value for value in values[start : start + size] if math.isfinite(value)]
        lows.append(short(min(finite)) if finite else None)
        highs.append(short(max(finite)) if finite else None)
    return size, (lows, highs)


def short(value: float) -> float | None:
    """With the digits that a 32-bit float has; JSON knows no infinity."""
    return float(f"{value:.7g}") if math.isfinite(value) else None


DTYPES: Final = {"f": "float32", "d": "float64"}
DEFAULT_DECIMATED: Final = 1_000
BYTE_TYPES: Final = ("i1", "u1")
MOST_BYTES_TOLD: Final = 16 * 1024 * 1024
"""Of a waveform in one answer; over MCP its text stands there twice."""
PIECE_BYTES: Final = 192 * 1024
"""Of a block, worked on at once: whole samples of any size, and whole groups of base64."""


@record
class Waveform:
    """One captured trace.

    Attributes:
        type_code: ``f`` or ``d``, as in ``array``.
        samples: little-endian, in ``y_unit``.
        preamble: what the instrument said about the trace (x_origin and its kin).
        freshness: {is_fresh, notes?} where it was known when the trace was fetched; else empty.
    """

    type_code: str
    samples: bytes | bytearray
    x_unit: str
    y_unit: str
    x_increment: float
    preamble: Mapping[str, Scalar] = field(default_factory=dict)
    freshness: Mapping[str, Any] = field(default_factory=dict)

    @property
    def length(self) -> int:
        """How many samples."""
        return len(self.samples) // (4 if self.type_code == "f" else 8)

    @property
    def x_first(self) -> float:
        """Where the first sample is: of a trace over time its x_origin, of a spectrum its start."""
        first = self.preamble.get("x_origin", self.preamble.get("start"))
        return float(first) if isinstance(first, int | float) and math.isfinite(first) else 0.0

    def told(self) -> dict[str, Any]:
        """The metadata that points and results carry; never the samples."""
        return {
            "y_dtype": DTYPES[self.type_code],
            "y_length": self.length,
            "x_unit": self.x_unit,
            "y_unit": self.y_unit,
            "x_increment": self.x_increment,
        }

    def base64(self, first: int = 0, count: int | None = None) -> dict[str, Any]:
        """Samples as text.

        Args:
            first: from 0.
            count: ``None``: all from there.

        Raises:
            Invalid: there is no such sample, or they are too many for one answer: its text would
                hold everybody else up.
        """
        size = len(self.samples) // self.length if self.length else 1
        if first and first >= self.length:
            raise Invalid(
                f"It has {self.length} samples, so first goes from 0 to {self.length - 1}.",
                data={"parameter": "first", "value": first, "y_length": self.length},
            )
        last = self.length if count is None else min(self.length, first + count)
        if (last - first) * size > MOST_BYTES_TOLD:
            raise Invalid(
                f"base64 gives at most {MOST_BYTES_TOLD // size} samples at once, and these are "
                f"{last - first}.",
                data={"parameter": "count", "y_length": self.length},
                remedy=f"Pass first and count = {MOST_BYTES_TOLD // size}, again until y_length "
                "is reached; or ask for summary or decimated.",
            )
        return {
            "encoding": "base64",
            "byte_order": "little",
            "first": first,
            "count": last - first,
            "y_data": as_base64(memoryview(self.samples)[first * size : last * size]),
        }

    def summary(self) -> dict[str, Any]:
        """What a model can read at a glance: see ``trace_figures.summary_of``."""
        return summary_of(self.values(), self.x_increment, self.x_unit)

    def decimated(self, points: int = DEFAULT_DECIMATED) -> dict[str, Any]:
        """At most so many numbers that keep the outline: lowest and highest of each stretch.

        ``y_kind`` says whether they are all samples, or such pairs; ``x_step`` is the distance of
        two numbers, so that number *n* stands at or after *n* times that.
        """
        values = self.values()
        if len(values) <= points:
            return {
                "y_kind": "samples",
                "y_values": [short(value) for value in values],
                "x_step": self.x_increment,
            }
        size, (lows, highs) = outline_of(values, points // 2)
        return {
            "y_kind": "min_max_pairs",
            "y_values": [value for pair in zip(lows, highs, strict=True) for value in pair],
            "x_step": self.x_increment * size / 2,
        }

    def values(self) -> array[float]:
        """The samples as numbers."""
        values: array[float] = array(self.type_code)
        values.frombytes(self.samples)
        if sys.byteorder != "little":
            values.byteswap()
        return values


@record
class LargePicture:
    """A picture that is too large for a result.

    Attributes:
        tool: whoever may call it may read the picture: what it was made by.
        command_name: which command; the scope to judge by.
        samples: its bytes.
    """

    tool: str
    command_name: str
    mime: str
    samples: memoryview


def as_base64(data: bytes | bytearray | memoryview) -> VerbatimText:
    """By pieces, as ``_samples`` says."""
    view = memoryview(data)
    return VerbatimText(
        "".join(
            base64.b64encode(view[start : start + PIECE_BYTES]).decode("ascii")
            for start in range(0, len(view), PIECE_BYTES)
        )
    )


def make_waveform(
    answer: WaveformAnswer,
    blocks: Sequence[Samples],
    preamble_text: str | None,
    values: Mapping[str, Scalar],
) -> Waveform:
    """A waveform of what the instrument sent.

    Args:
        blocks: their samples, in the order of their points.
        preamble_text: the answer to the preamble's query, or ``None`` where there is none.
        values: the command's parameters.

    Raises:
        Failed: BAD_ANSWER, for a block or preamble that cannot be what the profile says, and for
            another number of samples than was announced.
    """
    preamble = parse_preamble(answer, preamble_text, values) if preamble_text is not None else {}
    known = {**values, **preamble}
    check_count(answer, blocks, known)
    type_code = "d" if answer.dtype in DOUBLES else "f"
    samples = _samples(answer, type_code, [memoryview(block) for block in blocks], known)
    return Waveform(
        type_code=type_code,
        samples=_first_of_each(samples, type_code, answer.values_per_point),
        x_unit=answer.x_unit,
        y_unit=answer.y_unit,
        x_increment=x_increment(answer, known),
        preamble=preamble,
    )


def _samples(
    answer: WaveformAnswer,
    type_code: str,
    blocks: Sequence[memoryview],
    values: Mapping[str, Scalar],
) -> bytearray:
    """The numbers of blocks, one after the other, little-endian.

    By pieces: what is worked out in one call holds back every other thread, and would be held in
    memory besides the blocks and the numbers.
    """
    line = compile_expression(answer.scale).line("value", values)
    tables = _tables(answer, line) if line is not None and answer.dtype in BYTE_TYPES else None
    count = sum(map(len, blocks)) // SIZES[answer.dtype]
    samples = bytearray(count * (4 if type_code == "f" else 8))
    done = 0
    for block in blocks:
        for start in range(0, len(block), PIECE_BYTES):
            piece = block[start : start + PIECE_BYTES]
            if tables is not None:
                floats = _looked_up(piece, tables)
            else:
                floats = _worked_out(answer, type_code, piece, values)
            samples[done : done + len(floats)] = floats
            done += len(floats)
    return samples


def _first_of_each(samples: bytearray, type_code: str, values_per_point: int) -> bytearray:
    """Of numbers that belong together, only the first."""
    if values_per_point == 1:
        return samples
    return bytearray(array(type_code, bytes(samples))[::values_per_point].tobytes())


def _worked_out(
    answer: WaveformAnswer, type_code: str, codes: memoryview, values: Mapping[str, Scalar]
) -> memoryview:
    decoded = decode_waveform(answer, codes, values)
    floats = decoded if type_code == "d" else array("f", decoded)
    if sys.byteorder != "little":
        floats.byteswap()
    return memoryview(floats).cast("B")


def _tables(answer: WaveformAnswer, line: LinearForm) -> list[bytes]:
    """For each of the four bytes of a 32-bit float, what it is for each 8-bit code.

    Looking up by them is ten times as fast as working out one sample after another.
    """
    codes = array("b" if answer.dtype == "i1" else "B", bytes(range(256)))
    table = array("f", [line.slope * code + line.intercept for code in codes])
    if sys.byteorder != "little":
        table.byteswap()
    packed = table.tobytes()
    return [packed[place::4] for place in range(4)]


def _looked_up(codes: memoryview, tables: Sequence[bytes]) -> memoryview:
    data = bytes(codes)
    floats = bytearray(4 * len(data))
    for place, table in enumerate(tables):
        floats[place::4] = data.translate(table)
    return memoryview(floats)
