"""The end of a process that cannot end by itself."""

from __future__ import annotations

import asyncio

from edged.engine.last_resort import end_at_last


async def test_a_process_that_was_asked_and_is_still_there_is_ended_with_its_status() -> None:
    asked, ended = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    statuses: list[int] = []

    def end(status: int) -> None:
        statuses.append(status)
        loop.call_soon_threadsafe(ended.set)

    last = asyncio.create_task(end_at_last(asked, lambda: 75, within_s=0.0, end=end))
    await asyncio.sleep(0)
    assert statuses == []
    asked.set()
    async with asyncio.timeout(5):
        await ended.wait()
    await last
    assert statuses == [75]
