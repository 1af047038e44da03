"""Leases on disk: the next life knows who has what, and no fence is given twice."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from edged.errors import Failed
from edged.sharing.leases import Holder, Leases, Moment
from tests.bench.store_bench import StoreBench, running_store

ALICE = Holder("session:1", "claude-code 2.1 at 127.0.0.1")
NOW = Moment(0.0, 1_800_000_000_000)


async def test_the_next_life_knows_every_lease_and_fence(tmp_path: Path) -> None:
    leases = Leases(most_s=1_000)
    kept = leases.reserve(["psu1", "dmm1"], holder=ALICE, purpose="burn-in", ttl_s=60, now=NOW)
    async with running_store(tmp_path / "edged.db") as store:
        await store.leases.keep(leases.all(NOW), leases.fences)
    async with running_store(tmp_path / "edged.db") as store:
        assert store.leases.left == (kept,)
        assert store.leases.left_fences == {"psu1": 1, "dmm1": 1}
        leases.end(kept.lease_id, now=NOW)
        await store.leases.keep(leases.all(NOW), leases.fences)
    async with running_store(tmp_path / "edged.db") as store:
        assert store.leases.left == ()
        assert store.leases.left_fences == {"psu1": 1, "dmm1": 1}


async def test_a_row_that_somebody_has_spoiled_is_no_lease(tmp_path: Path) -> None:
    async with running_store(tmp_path / "edged.db"):
        pass
    with sqlite3.connect(tmp_path / "edged.db") as other:
        for number, text in enumerate(("", "{}", "[]", '{"until": 1}', "nul\0")):
            other.execute("INSERT INTO lease VALUES (?, ?)", (str(number), text))
    async with running_store(tmp_path / "edged.db") as store:
        assert store.leases.left == ()


async def test_what_a_full_disk_would_not_have_is_written_once_it_heals(store: StoreBench) -> None:
    leases = Leases(most_s=1_000)
    leases.reserve(["psu1"], holder=ALICE, purpose="x" * 100_000, ttl_s=60, now=NOW)
    await store.fill_the_disk()
    with pytest.raises(Failed):
        await store.leases.keep(leases.all(NOW), leases.fences)
    store.free_the_disk()
    await store.healed()
    await store.database.flush()
    with sqlite3.connect(store.path) as other:
        assert len(other.execute("SELECT * FROM lease").fetchall()) == 1
