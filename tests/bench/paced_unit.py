"""An instrument that takes its time: each answer in pieces, with pauses, and an end of its own."""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Sequence

from tests.bench.fault_proxy import reset
from tests.bench.loopback_instrument import IDN, LoopbackInstrument

TRICKLE_S = 0.05


class End(enum.Enum):
    """What becomes of the connection after an answer, or of the answer."""

    CLOSE = "close"
    RESET = "reset"
    ENDLESS = "endless"  # one byte after the other, as fast as they are taken
    TRICKLE = "trickle"  # one byte each TRICKLE_S, for ever


Piece = bytes | float | End
"""Bytes, seconds of silence, or how it ends."""


def slowly(data: bytes, pause_s: float) -> list[Piece]:
    """Byte by byte."""
    pieces: list[Piece] = []
    for place in range(len(data)):
        pieces += [data[place : place + 1], pause_s]
    return pieces[:-1]


class PacedUnit(LoopbackInstrument):
    """``paced``: line → the pieces of its answer; other lines as ``LoopbackInstrument``."""

    def __init__(self, idn: str = IDN, **more: int) -> None:
        super().__init__(idn, **more)
        self.paced: dict[str, Sequence[Piece]] = {}

    async def _answer(self, line: str, writer: asyncio.StreamWriter) -> None:
        pieces = self.paced.get(line)
        if pieces is None:
            await super()._answer(line, writer)
            return
        self.received.append(line)
        async with self.line_came:
            self.line_came.notify_all()
        for piece in pieces:
            await self._send(piece, writer)

    async def _send(self, piece: Piece, writer: asyncio.StreamWriter) -> None:
        match piece:
            case bytes():
                writer.write(piece)
                await writer.drain()
            case End.CLOSE:
                writer.close()
            case End.RESET:
                reset(writer)
            case End.ENDLESS:
                while not writer.is_closing():
                    writer.write(b"0" * 4096)
                    await writer.drain()
                    await asyncio.sleep(0)
            case End.TRICKLE:
                while not writer.is_closing():
                    writer.write(b"0")
                    await writer.drain()
                    await asyncio.sleep(TRICKLE_S)
            case _:
                await asyncio.sleep(piece)
