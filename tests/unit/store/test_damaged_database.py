"""A damaged file is kept aside, a fresh one begun, and what safety needs is carried over."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from edged.errors import Failed
from edged.store.audit.queries import AuditFilter
from edged.store.journal import JournalEntry, JournalKind
from tests.bench.store_bench import StoreBench, entry, running_store

NOISE = b"\xa5" * 4096


async def test_a_file_that_is_no_database_is_kept_and_the_first_row_says_so(tmp_path: Path) -> None:
    path = tmp_path / "edged.db"
    path.write_bytes(b"this was never a database" * 400)
    async with running_store(path) as store:
        await _until_healthy(store)
        rows = await store.audit.list(AuditFilter())
        assert (await store.audit.verify()).is_intact
    (kept,) = tmp_path.glob("edged.db.corrupt-*")
    assert kept.read_bytes().startswith(b"this was never")
    assert rows[0].seq == 1
    assert "damaged" in rows[0].parameters
    assert kept.name in rows[0].parameters


async def test_lockouts_and_journal_come_along_from_a_damaged_database(tmp_path: Path) -> None:
    path = tmp_path / "edged.db"
    async with running_store(path) as store:
        await store.lockouts.lock("USB0::1::INSTR", unit="u", reason="hands inside", by="Kim")
        await store.journal.begin(
            JournalEntry(id="sweep-1", kind=JournalKind.SWEEP, instrument_id="USB0::1::INSTR")
        )
        for number in range(200):
            store.audit.note(entry(f"a{number}"))
        audit_page = await store.database.read(
            lambda c: c.execute(
                "SELECT rootpage FROM sqlite_master WHERE name = 'audit_full'"
            ).fetchone()[0]
        )
    _spoil(path, audit_page)
    async with running_store(path) as store:
        # Before anything else is written: nobody may act while a lockout is not known yet.
        assert [lockout.reason for lockout in store.lockouts.all()] == ["hands inside"]
        assert [left.id for left in store.journal.unfinished()] == ["sweep-1"]
        store.audit.note(entry("later"))
        rows = await store.audit.list(AuditFilter())
        assert (await store.audit.verify()).is_intact
    assert "carried over" in rows[1].parameters
    assert rows[-1].action_id == "later"
    assert len(list(tmp_path.glob("edged.db.corrupt-*"))) >= 1


async def test_damage_that_a_reader_finds_moves_the_file_aside(tmp_path: Path) -> None:
    path = tmp_path / "edged.db"
    async with running_store(path) as store:
        for number in range(3000):
            store.audit.note(entry(f"a{number}", is_weighty=True))
        await store.database.flush()
    size = path.stat().st_size
    for page in range(40, size // 4096 - 40):
        _spoil(path, page)
    async with running_store(path) as store:
        with pytest.raises(Failed, match="could not be read"):
            await store.audit.verify()
        await _until_moved_aside(tmp_path)
        await _until_healthy(store)
        assert (await store.audit.verify()).is_intact
        await store.audit.intend(entry("after"))


def _spoil(path: Path, page: int) -> None:
    with path.open("r+b") as file:
        file.seek((page - 1) * 4096)
        file.write(NOISE)


async def _until_healthy(store: StoreBench) -> None:
    async with asyncio.timeout(5):
        while True:
            try:
                await store.audit.intend(entry("probe"))
            except Failed:
                await asyncio.sleep(0.02)
            else:
                return


async def _until_moved_aside(directory: Path) -> None:
    async with asyncio.timeout(5):
        while not list(directory.glob("edged.db.corrupt-*")):
            await asyncio.sleep(0.02)
