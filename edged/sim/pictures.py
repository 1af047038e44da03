"""Screenshots of pretended scopes: a few coloured traces on a grid, as PNG or BMP. Pure."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

__all__ = ["Trace", "bmp", "draw", "png"]

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


@dataclass(frozen=True, slots=True)
class Trace:
    """One channel's line: heights from 0 (bottom) to 1 (top), drawn over the whole width."""

    channel: int
    heights: Sequence[float]


def draw(traces: Sequence[Trace]) -> list[bytearray]:
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


def _draw_trace(rows: list[bytearray], trace: Trace) -> None:
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
