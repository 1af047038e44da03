from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from edged.errors import Failed
from edged.store.journal import Journal, JournalEntry, JournalKind
from tests.bench.driven_clock import DrivenClock
from tests.bench.store_bench import StoreBench, running_store


def sweep(sweep_id: str = "sweep-1", **payload: object) -> JournalEntry:
    return JournalEntry(
        id=sweep_id,
        kind=JournalKind.SWEEP,
        instrument_id="USB0::1::INSTR",
        unit="RIGOL|DP832|DP8A1",
        payload=payload,
    )


async def test_what_a_former_life_left_is_found_with_its_last_step(tmp_path: Path) -> None:
    async with running_store(tmp_path / "edged.db") as store:
        await store.journal.begin(sweep(target=5.0))
        await store.journal.update("sweep-1", {"last_step": 1.5}, is_forced=True)
        assert store.journal.unfinished() == ()
    async with running_store(tmp_path / "edged.db") as store:
        (left,) = store.journal.unfinished()
        assert left.payload == {"target": 5.0, "last_step": 1.5}
        assert (left.kind, left.unit) == (JournalKind.SWEEP, "RIGOL|DP832|DP8A1")
        assert 0 < left.begun_ms <= left.updated_ms
        await store.journal.finish("sweep-1")
        assert store.journal.unfinished() == ()
    async with running_store(tmp_path / "edged.db") as store:
        assert store.journal.unfinished() == ()


async def test_what_ended_well_leaves_nothing(tmp_path: Path) -> None:
    async with running_store(tmp_path / "edged.db") as store:
        await store.journal.begin(sweep())
        await store.journal.finish("sweep-1")
    async with running_store(tmp_path / "edged.db") as store:
        assert store.journal.unfinished() == ()


async def test_a_fast_sweep_writes_its_row_every_half_second(
    tmp_path: Path, driven_clock: DrivenClock
) -> None:
    async with running_store(tmp_path / "edged.db", driven_clock) as store:
        await store.journal.begin(sweep())

        async def stored() -> str:
            return str(
                await store.database.read(
                    lambda c: c.execute("SELECT payload FROM journal").fetchone()[0]
                )
            )

        await store.journal.update("sweep-1", {"last_step": 1.0})
        assert await stored() == "{}"
        driven_clock.move(0.5)
        await store.journal.update("sweep-1", {"late": True})
        assert await stored() == '{"last_step":1.0,"late":true}'
        await store.journal.update("sweep-1", {"late": False}, is_durable=True)
        assert await stored() == '{"last_step":1.0,"late":false}'


async def test_an_entry_left_behind_can_be_marked(tmp_path: Path) -> None:
    async with running_store(tmp_path / "edged.db") as store:
        await store.journal.begin(sweep(target=5.0))
    async with running_store(tmp_path / "edged.db") as store:
        await store.journal.update("sweep-1", {"needs_attention": True}, is_forced=True)
    async with running_store(tmp_path / "edged.db") as store:
        assert store.journal.unfinished()[0].payload == {"target": 5.0, "needs_attention": True}


async def test_on_a_full_disk_nothing_begins_and_a_running_sweep_hears_of_it(
    store: StoreBench,
) -> None:
    await store.journal.begin(sweep())
    await store.fill_the_disk()
    await _fill(store.journal)
    with pytest.raises(Failed, match="the disk is full"):
        await store.journal.update("sweep-1", {"trace": "x" * 8000}, is_forced=True)
    with pytest.raises(Failed, match="the disk is full"):
        await store.journal.begin(sweep("sweep-2", trace="x" * 8000))


async def test_an_end_on_a_full_disk_is_written_when_it_heals(store: StoreBench) -> None:
    await store.journal.begin(sweep())
    await store.fill_the_disk()
    await _fill(store.journal)
    await store.journal.finish("sweep-1")
    store.free_the_disk()
    await store.healed()
    await store.database.stop()
    async with running_store(store.path) as again:
        assert "sweep-1" not in [left.id for left in again.journal.unfinished()]


async def test_a_begin_whose_caller_left_is_not_found_by_the_next_life(tmp_path: Path) -> None:
    async with running_store(tmp_path / "edged.db") as store:
        task = asyncio.create_task(store.journal.begin(sweep()))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    async with running_store(tmp_path / "edged.db") as store:
        assert store.journal.unfinished() == ()


async def test_a_spoiled_payload_is_empty_and_the_entry_still_found(tmp_path: Path) -> None:
    async with running_store(tmp_path / "edged.db") as store:
        await store.journal.begin(sweep(target=5.0))
        await store.database.write(
            lambda c: c.execute("UPDATE journal SET payload = '{oops', begun_ms = 'long ago'")
        )
    async with running_store(tmp_path / "edged.db") as store:
        (left,) = store.journal.unfinished()
        assert (left.id, left.payload, left.begun_ms) == ("sweep-1", {}, 0)


async def _fill(journal: Journal) -> None:
    for number in range(200):
        try:
            await journal.begin(sweep(f"filler-{number}", trace="x" * 4000))
        except Failed:
            return
    raise AssertionError("the disk never was full")
