"""The bound over all bodies together; each single bound is tested on the wire."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from edged.http.connection import BodyEnd, BodyTaker
from edged.protocol.http_rules import Rejected
from edged.surfaces.mcp.request import BodyReader


class Arriving:
    """A body that arrives piece by piece, and what was made of it; stands for its connection."""

    def __init__(self, reader: BodyReader) -> None:
        self.had: list[bytes | Rejected | None] = []
        connection: Any = self
        reader.read(connection, self.had.append)

    def take_body(self, taker: BodyTaker, *, in_time: bool) -> None:
        assert in_time
        self.taker = taker

    def give(self, piece: bytes) -> None:
        self.taker.body_received(piece)


def status(had: list[bytes | Rejected | None]) -> int:
    (refused,) = had
    assert isinstance(refused, Rejected)
    return refused.status


def test_many_bodies_together_are_bounded_and_room_comes_back() -> None:
    reader = BodyReader(within_s=5, max_held_bytes=25)
    first, second = Arriving(reader), Arriving(reader)
    first.give(b"x" * 15)
    second.give(b"x" * 15)
    assert status(second.had) == 503
    # What still comes of a refused body counts for nothing.
    second.give(b"x" * 15)
    second.taker.body_ended(BodyEnd.WHOLE)
    first.taker.body_ended(BodyEnd.WHOLE)
    assert first.had == [b"x" * 15]
    third = Arriving(reader)
    third.give(b"y" * 25)
    third.taker.body_ended(BodyEnd.WHOLE)
    assert third.had == [b"y" * 25]


def test_a_body_that_ends_badly_says_how_and_leaves_its_room() -> None:
    reader = BodyReader(within_s=5, max_held_bytes=25)
    for end, wanted in ((BodyEnd.LATE, 408), (BodyEnd.BROKEN, 400), (BodyEnd.GONE, None)):
        body = Arriving(reader)
        body.give(b"x" * 25)
        body.taker.body_ended(end)
        if wanted is None:
            assert body.had == [None]
        else:
            assert status(body.had) == wanted


async def test_a_body_that_is_not_waited_for_to_its_end_leaves_its_room() -> None:
    reader = BodyReader(within_s=0.01, max_held_bytes=25)
    takers: list[BodyTaker] = []
    connection: Any = SimpleNamespace(message=None, take_body=takers.append)
    small = asyncio.create_task(reader.read_small(connection, None))
    await asyncio.sleep(0)
    takers[0].body_received(b"x" * 20)
    assert await small == b""
    # As its connection does once the request has its refusal.
    takers[0].body_ended(BodyEnd.GONE)
    other = Arriving(reader)
    other.give(b"y" * 25)
    other.taker.body_ended(BodyEnd.WHOLE)
    assert other.had == [b"y" * 25]
