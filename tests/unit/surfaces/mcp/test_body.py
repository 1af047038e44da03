"""The bound over all bodies together; each single bound is tested on the wire."""

from __future__ import annotations

import asyncio
from typing import Any

from edged.protocol.http_rules import Accepted, Rejected, Verb
from edged.surfaces.mcp.body import BodyReader

ACCEPTED = Accepted(verb=Verb.POST, wants_json=True, wants_sse=True, headers={}, peer="")


class Arriving:
    """A body that arrives piece by piece; stands for aiohttp's content and request both."""

    def __init__(self) -> None:
        self._pieces = asyncio.Queue[bytes]()
        self.content = self

    def give(self, piece: bytes) -> None:
        self._pieces.put_nowait(piece)

    def is_eof(self) -> bool:
        return False

    def at_eof(self) -> bool:
        return True

    async def readany(self) -> bytes:
        return await self._pieces.get()


class Wire:
    def __init__(self) -> None:
        self.connection = self
        self.is_half_closed = False
        self.is_lost = False
        self.ends_with_input = False


def reading(reader: BodyReader, body: Any) -> asyncio.Task[bytes | Rejected]:
    wire: Any = Wire()
    return asyncio.create_task(reader.read(body, ACCEPTED, wire))


async def test_many_bodies_together_are_bounded_and_room_comes_back() -> None:
    reader = BodyReader(within_s=5, max_held_bytes=25)
    first, second, third = Arriving(), Arriving(), Arriving()
    one, two = reading(reader, first), reading(reader, second)
    first.give(b"x" * 15)
    second.give(b"x" * 15)
    refused = await two
    assert isinstance(refused, Rejected)
    assert refused.status == 503
    first.give(b"")
    assert await one == b"x" * 15
    three = reading(reader, third)
    third.give(b"y" * 25)
    third.give(b"")
    assert await three == b"y" * 25
