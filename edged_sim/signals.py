"""Periodic signals and their samples: what a generator makes and a scope sees. Pure.

Screenshots of simulated scopes: a few coloured traces on a grid, as PNG or BMP. Pure.
"""

from __future__ import annotations

import enum
import math
import struct
import zlib
from collections.abc import Iterable, Sequence
from random import Random
from typing import Final

from edged.record import record

LONGEST_TILE: Final = 16_384
"""Values computed one by one; a longer trace repeats them."""


class Shape(enum.Enum):
    """The form of one period."""

    SINE = "sine"
    SQUARE = "square"
    RAMP = "ramp"
    DC = "dc"


@record
class Wave:
    """A periodic signal: volts peak to peak around ``offset`` volts; ``duty`` from 0 to 1."""

    shape: Shape
    hertz: float = 1000.0
    volts_pp: float = 0.0
    offset: float = 0.0
    duty: float = 0.5

    def levels(self, phases: Iterable[float]) -> list[float]:
        """Volts at each of ``phases``, which count periods after a rising edge."""
        offset, half, sin, turn = self.offset, self.volts_pp / 2, math.sin, 2 * math.pi
        match self.shape:
            case Shape.SINE:
                return [offset + sin(turn * (phase % 1.0)) * half for phase in phases]
            case Shape.SQUARE:
                high, low, duty = offset + half, offset - half, self.duty
                return [high if phase % 1.0 < duty else low for phase in phases]
            case Shape.RAMP:
                return [offset + (4 * abs((p + 0.75) % 1.0 - 0.5) - 1) * half for p in phases]
            case Shape.DC:
                return [offset for _ in phases]

    def rms_ac(self) -> float:
        """Root mean square of what changes, in volts."""
        match self.shape:
            case Shape.SINE:
                return self.volts_pp / 2 / math.sqrt(2)
            case Shape.SQUARE:
                return self.volts_pp * math.sqrt(self.duty * (1 - self.duty))
            case Shape.RAMP:
                return self.volts_pp / 2 / math.sqrt(3)
            case Shape.DC:
                return 0.0


SILENCE: Final = Wave(shape=Shape.DC)


def sample(
    wave: Wave, *, points: int, interval_s: float, start_s: float, noise_v: float, random: Random
) -> tuple[list[float], int]:
    """Volts of a stretch of ``wave``: values, and for how many points each of them holds.

    Of a long stretch only a whole number of periods is computed, at most ``LONGEST_TILE`` values;
    the rest repeats it, so that a million points cost as little as a few thousand.
    """
    step = wave.hertz * interval_s
    count, held = points, 1
    if points > LONGEST_TILE:
        period = 1 / step if step > 0 else float(LONGEST_TILE)
        held = max(1, math.ceil(period / LONGEST_TILE))
        periods = max(1, math.floor(LONGEST_TILE * held / period))
        count = max(1, min(math.ceil(points / held), round(periods * period / held)))
    first, each = start_s * wave.hertz, step * held
    gauss = random.gauss
    levels = wave.levels(first + i * each for i in range(count))
    return [level + gauss(0.0, noise_v) for level in levels], held


WIDTH: Final = 800
HEIGHT: Final = 480
PALETTE: Final = (
    (0, 0, 0),
    (60, 60, 60),
    (255, 255, 0),
    (0, 255, 255),
    (255, 0, 255),
    (0, 127, 255),
)
"""Background, grid, then channels 1 to 4."""

GRID: Final = 1
FIRST_CHANNEL_COLOUR: Final = 2
DIVISIONS: Final = 12, 8


@record(kw_only=False)
class DrawnTrace:
    """One channel's line: heights from 0 (bottom) to 1 (top), drawn over the whole width."""

    channel: int
    heights: Sequence[float]


def draw(traces: Sequence[DrawnTrace]) -> list[bytearray]:
    """Rows of palette indices, top first."""
    rows = [bytearray(WIDTH) for _ in range(HEIGHT)]
    across, down = DIVISIONS
    for line in range(down + 1):
        rows[min(HEIGHT - 1, line * HEIGHT // down)][::4] = bytes([GRID]) * (WIDTH // 4)
    for line in range(across + 1):
        column = min(WIDTH - 1, line * WIDTH // across)
        for row in rows[::4]:
            row[column] = GRID
    for trace in traces:
        _draw_trace(rows, trace)
    return rows


def _draw_trace(rows: list[bytearray], trace: DrawnTrace) -> None:
    if not trace.heights:
        return
    colour = trace.channel - 1 + FIRST_CHANNEL_COLOUR
    last: int | None = None
    for column in range(WIDTH):
        height = trace.heights[column * len(trace.heights) // WIDTH]
        row = round((1 - min(1.0, max(0.0, height))) * (HEIGHT - 1))
        start = row if last is None else last
        for crossed in range(min(start, row), max(start, row) + 1):
            rows[crossed][column] = colour
        last = row


def png(rows: Sequence[bytes | bytearray]) -> bytes:
    """The picture as PNG with a palette."""
    header = struct.pack(">IIBBBBB", WIDTH, HEIGHT, 8, 3, 0, 0, 0)
    palette = b"".join(bytes(colour) for colour in PALETTE)
    lines = b"".join(b"\0" + row for row in rows)
    return (
        b"\x89PNG\r\n\x1a\n"
        + _chunk(b"IHDR", header)
        + _chunk(b"PLTE", palette)
        + _chunk(b"IDAT", zlib.compress(lines, 6))
        + _chunk(b"IEND", b"")
    )


def bmp(rows: Sequence[bytes | bytearray]) -> bytes:
    """The picture as BMP with 24 bits a pixel, bottom row first: 1,152,054 bytes."""
    colours = [bytes(reversed(colour)) for colour in PALETTE]
    pixels = b"".join(b"".join([colours[index] for index in row]) for row in reversed(rows))
    start = 54
    return (
        b"BM"
        + struct.pack("<IHHI", start + len(pixels), 0, 0, start)
        + struct.pack("<IiiHHIIiiII", 40, WIDTH, HEIGHT, 1, 24, 0, len(pixels), 2835, 2835, 0, 0)
        + pixels
    )


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
