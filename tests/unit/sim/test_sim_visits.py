"""A reader's device clear, and its end at the same moment: nothing of the reader stays."""

from __future__ import annotations

import asyncio

import pytest

from edged_sim.wires.stream import WireKind
from tests.bench.wired import wired


class Nobody:
    """A far side that reads nothing."""

    is_stream = False

    async def say(self, data: bytes, *, is_end: bool, tag: int) -> None: ...

    def end(self) -> None: ...

    def reset(self) -> None: ...


@pytest.mark.parametrize("end", ["finish", "stop"])
async def test_clears_beside_each_other_and_an_end_leave_no_task(end: str) -> None:
    async with wired(WireKind.SOCKET) as unit:
        visit = unit.station.join(Nobody())
        assert visit is not None
        await asyncio.sleep(0)  # it has begun
        await asyncio.gather(visit.forget(), visit.forget(), getattr(visit, end)())
