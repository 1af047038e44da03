"""Files of the database that are taken away or cut under a running store, and what is left then."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from edged import files
from edged.errors import Failed
from edged.store.audit.queries import AuditFilter
from edged.store.audit.row import Phase
from edged.store.audit.verify import verify_file
from edged.store.head_mark import head_mark_of
from edged.store.health import StoreState
from edged.store.journal import JournalEntry, JournalKind, read_left
from tests.bench.driven_clock import DrivenClock
from tests.bench.store_bench import StoreBench, entry, running_store
from tests.promises import promise

SWEEP = JournalEntry(id="sweep-1", kind=JournalKind.SWEEP, instrument_id="S::1", unit="u")
TOLD_S = 15.0


def wal_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


async def intend(store: StoreBench, *names: str) -> None:
    for name in names:
        await store.audit.intend(entry(name, Phase.INTENT))


async def intents(store: StoreBench) -> list[str]:
    rows = await store.audit.list(AuditFilter(), limit=1000)
    return [row.action_id for row in rows if row.phase == Phase.INTENT.value]


async def refused(store: StoreBench) -> str:
    with pytest.raises(Failed) as failed:
        await intend(store, "refused")
    return failed.value.message


@promise("store.lost-log-is-told")
async def test_a_log_that_is_deleted_is_told_and_its_rows_are_saved(tmp_path: Path) -> None:
    path, clock = tmp_path / "edged.db", DrivenClock()
    async with running_store(path, clock, told_s=TOLD_S) as store:
        await intend(store, "a1", "a2")
        await store.lockouts.lock("S::9", unit="", reason="hands", by="Kim")
        # Somebody reads just then.
        assert await intents(store) == ["a1", "a2"]
        wal_of(path).unlink()
        assert "write-ahead log was deleted" in await refused(store)
        assert store.database.health.state is StoreState.BROKEN
        clock.move(TOLD_S - 1)
        assert "write-ahead log was deleted" in await refused(store)
        # What a kill would leave now.
        shutil.copytree(tmp_path, tmp_path / "left", ignore=shutil.ignore_patterns("left"))
        clock.move(2)
        await store.healed()
        await intend(store, "a3")
        assert await intents(store) == ["a1", "a2", "a3"]
        assert store.audit.loss == ""
        told = [row.parameters for row in await store.audit.list(AuditFilter(tool="database"))]
        assert any("write-ahead log was deleted" in text for text in told)
        assert (await store.audit.verify()).is_intact
    async with running_store(tmp_path / "left" / "edged.db") as store:
        assert await intents(store) == ["a1", "a2"]
        assert [lockout.instrument_id for lockout in store.lockouts.all()] == ["S::9"]
        assert (await store.audit.verify()).is_intact


def move_away(wal: Path) -> None:
    wal.rename(wal.with_name("moved"))


def exchange(wal: Path) -> None:
    shutil.copy(wal, wal.with_name("copy"))
    wal.with_name("copy").replace(wal)


def link(wal: Path) -> None:
    move_away(wal)
    wal.symlink_to(wal.with_name("moved"))


@promise("store.lost-log-is-told")
@pytest.mark.parametrize("harm", [move_away, exchange, link])
async def test_a_log_is_missed_by_its_name_though_it_stays_open(
    tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    path = tmp_path / "edged.db"
    async with running_store(path) as store:
        await intend(store, "a1", "a2")
        harm(wal_of(path))
        assert "write-ahead log was deleted or replaced" in await refused(store)
        await store.healed()
        assert await intents(store) == ["a1", "a2"]


@pytest.mark.parametrize("harm", [Path.unlink, move_away, exchange])
async def test_a_mark_that_is_taken_away_is_made_again(
    tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    path = tmp_path / "edged.db"
    mark = head_mark_of(path)
    async with running_store(path) as store:
        await intend(store, "a1")
        harm(path.with_name("edged.db-head"))
        await intend(store, "a2")
        newest = (await store.audit.list(AuditFilter()))[-1]
        assert newest.action_id == "a2"
        assert mark.read() == (newest.seq, bytes.fromhex(newest.hash))


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
async def test_log_and_mark_are_opened_once_and_closed_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_store(tmp_path / "edged.db") as store:
        await intend(store, "a1")
        monkeypatch.setattr(files, "open_descriptor", None)
        await intend(store, "a2", "a3")
        monkeypatch.undo()
    links = [link for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    assert not [link for link in links if link.readlink().is_relative_to(tmp_path)]


def empty(wal: Path) -> None:
    os.truncate(wal, 0)


def halve(wal: Path) -> None:
    os.truncate(wal, wal.stat().st_size // 2)


def overwrite(wal: Path) -> None:
    with wal.open("r+b") as file:
        file.seek(16)
        file.write(b"\xa5" * 8)


@promise("store.lost-log-is-told")
@pytest.mark.parametrize("harm", [empty, halve, overwrite])
async def test_a_log_that_is_cut_is_told_for_good_and_nothing_is_made_of_what_is_left(
    tmp_path: Path, harm: object
) -> None:
    path = tmp_path / "edged.db"
    async with running_store(path) as store:
        await intend(store, "kept")
    async with running_store(path) as store:
        await intend(store, *(f"a{number}" for number in range(33)))
        await store.lockouts.lock("S::9", unit="", reason="hands", by="Kim")
        assert callable(harm)
        harm(wal_of(path))
        assert "write-ahead log was cut" in await refused(store)
        await store.healed()
        await intend(store, "later")
        assert await intents(store) == ["kept", "later"]
        report = await store.audit.verify()
        assert not report.is_intact
        assert [problem.kind.value for problem in report.problems] == ["removed"]
        assert store.audit.loss.endswith("of the audit log are lost.")
        assert [lockout.instrument_id for lockout in store.lockouts.all()] == ["S::9"]
        told = [row.parameters for row in await store.audit.list(AuditFilter(tool="database"))]
        assert any(store.audit.loss in text for text in told)
    assert verify_file(path).problems == report.problems
    async with running_store(path) as store:
        assert (await store.audit.verify()).problems == report.problems
        assert [lockout.instrument_id for lockout in store.lockouts.all()] == ["S::9"]


@promise("store.lost-log-is-told")
async def test_a_database_that_is_deleted_is_missed_for_good(tmp_path: Path) -> None:
    path = tmp_path / "edged.db"
    async with running_store(path) as store:
        await intend(store, "a1", "a2")
        path.unlink()
        assert "the file was deleted" in await refused(store)
        await store.healed()
        await intend(store, "a3")
        (problem,) = (await store.audit.verify()).problems
        assert problem.message.startswith("Rows 1 to ")
    assert verify_file(path).problems == (problem,)


@promise("store.safe-without-the-log")
async def test_after_a_kill_without_the_log_what_makes_safe_is_there_and_the_loss_is_told(
    tmp_path: Path,
) -> None:
    path, left = tmp_path / "edged.db", tmp_path / "left"
    async with running_store(path) as store:
        ended = JournalEntry(id="sweep-0", kind=JournalKind.SWEEP, instrument_id="S::1")
        await store.journal.begin(ended)
        await store.lockouts.lock("S::8", unit="", reason="hands", by="Kim")
    async with running_store(path) as store:
        await store.journal.finish("sweep-0")
        await store.journal.begin(SWEEP)
        await store.lockouts.lock("S::9", unit="", reason="hands", by="Kim")
        await intend(store, "a1")
        wal_of(path).unlink()
        # The process is gone before it has looked.
        shutil.copytree(tmp_path, left, ignore=shutil.ignore_patterns("left"))
    database = left / "edged.db"
    (problem,) = verify_file(database).problems
    assert problem.kind.value == "removed"
    assert [found.id for found in read_left(database)] == ["sweep-1"]
    async with running_store(database) as store:
        assert [found.id for found in store.journal.unfinished()] == ["sweep-1"]
        assert [lock.instrument_id for lock in store.lockouts.all()] == ["S::8", "S::9"]
        report = await store.audit.verify()
        assert problem.kind in {found.kind for found in report.problems}
        assert store.audit.loss
    # Both are in the database again.
    (left / "safety.json").unlink()
    async with running_store(database) as store:
        assert [found.id for found in store.journal.unfinished()] == ["sweep-1"]
        assert [lock.instrument_id for lock in store.lockouts.all()] == ["S::8", "S::9"]


async def test_an_end_that_the_database_has_lost_is_known_by_the_copy(tmp_path: Path) -> None:
    path, left = tmp_path / "edged.db", tmp_path / "left"
    async with running_store(path) as store:
        await store.journal.begin(SWEEP)
    async with running_store(path) as store:
        await store.journal.finish("sweep-1")
        await intend(store, "a1")
        await store.journal.begin(JournalEntry(id="s2", kind=SWEEP.kind, instrument_id="S::1"))
        await store.journal.finish("s2")
        wal_of(path).unlink()
        shutil.copytree(tmp_path, left, ignore=shutil.ignore_patterns("left"))
    assert read_left(left / "edged.db") == ()
    async with running_store(left / "edged.db") as store:
        assert store.journal.unfinished() == ()
        await store.database.flush()
    (left / "safety.json").unlink()
    assert read_left(left / "edged.db") == ()


async def test_the_copy_has_the_steps_of_a_sweep_now_and_then(tmp_path: Path) -> None:
    path, clock = tmp_path / "edged.db", DrivenClock()
    copy = tmp_path / "safety.json"
    async with running_store(path, clock) as store:
        await store.journal.begin(SWEEP)
        begun = copy.read_text()
        await store.journal.update("sweep-1", {"last_step": 1}, is_forced=True)
        assert copy.read_text() == begun
        clock.move(11)
        await store.journal.update("sweep-1", {"last_step": 2}, is_forced=True)
        assert '\\"last_step\\":2' in copy.read_text()
        await store.journal.finish("sweep-1")
        assert json.loads(copy.read_text())["journal"] == []
    assert copy.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"format": 1, "head": 0, "lockout": 7}'])
async def test_a_copy_that_cannot_be_read_is_done_without(tmp_path: Path, text: str) -> None:
    path = tmp_path / "edged.db"
    async with running_store(path) as store:
        await store.lockouts.lock("S::9", unit="", reason="hands", by="Kim")
    (tmp_path / "safety.json").write_text(text)
    async with running_store(path) as store:
        assert [lock.instrument_id for lock in store.lockouts.all()] == ["S::9"]


async def test_a_log_that_is_lost_while_nobody_writes_is_told_all_the_same(
    tmp_path: Path,
) -> None:
    path = tmp_path / "edged.db"
    async with running_store(path, told_s=TOLD_S) as store:
        await intend(store, "a1")
        wal_of(path).unlink()
        await store.has_state(StoreState.BROKEN, within_s=10)
