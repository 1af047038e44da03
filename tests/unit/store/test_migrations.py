"""Databases of earlier versions: ``data/edged-v1.sql`` was written by version 1 itself."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Mapping
from pathlib import Path

import pytest

from edged.clock import SystemClock
from edged.errors import Failed
from edged.store.audit.book import Audit
from edged.store.audit.queries import AuditFilter
from edged.store.audit.verify import verify_file
from edged.store.database import Database
from edged.store.experience import Unit
from edged.store.file import MIGRATIONS, Migration, migrate, version_of
from tests.bench.store_bench import entry, running_store
from tests.promises import promise

VERSION_1 = Path(__file__).parent / "data" / "edged-v1.sql"
NEXT = max(MIGRATIONS) + 1
ADDRESS = "USB0::1::INSTR"


@pytest.fixture
def old(tmp_path: Path) -> Path:
    path = tmp_path / "edged.db"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript(VERSION_1.read_text(encoding="utf-8"))
    return path


def add_column(connection: sqlite3.Connection) -> None:
    connection.execute("ALTER TABLE lockout ADD COLUMN note TEXT NOT NULL DEFAULT 'none'")


def version_at(path: Path) -> int:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return version_of(connection)


async def test_what_version_1_wrote_is_all_there(old: Path) -> None:
    async with running_store(old) as store:
        assert [lockout.by for lockout in store.lockouts.all()] == ["Kim"]
        assert [left.payload["last_step"] for left in store.journal.unfinished()] == [1.5]
        assert store.capability.of(Unit("RIGOL|DP832|DP8A1", "00.01.16"))["set_voltage"].calls == 1
        # The second of them names the texts of the first.
        store.audit.note(entry("new"))
        store.audit.note(entry("newest"))
        rows = await store.audit.list(AuditFilter())
        assert [row.action_id for row in rows[-2:]] == ["new", "newest"]
        assert rows[-1].command == rows[-2].command == "set_voltage"
        assert "migrated from schema version 1" in rows[-3].parameters
        assert rows[-4].error == "hands in the fixture \N{EM DASH} wait"
        assert (await store.audit.verify()).is_intact
    assert version_at(old) == max(MIGRATIONS)


@promise("callers.chained")
def test_a_file_from_before_clients_verifies_as_it_lies(old: Path) -> None:
    report = verify_file(old)
    assert report.is_intact, report
    assert report.rows > 0
    assert version_at(old) == 1


@promise("callers.chained")
async def test_rows_from_before_clients_stay_in_the_chain_and_new_ones_bring_theirs(
    old: Path,
) -> None:
    async with running_store(old) as store:
        store.audit.note(entry("new")._replace(client="claude-code 2.1"))
        await store.audit.intend(entry("newest")._replace(client="claude-code 2.1"))
        rows = await store.audit.list(AuditFilter())
        assert [row.client for row in rows[-2:]] == ["claude-code 2.1"] * 2
        assert {row.client for row in rows[:-2]} == {"", "audit log"}
        assert await store.audit.list(AuditFilter(caller="claude-code 2.1")) == rows[-2:]
        assert await store.audit.list(AuditFilter(caller="claude-code")) == rows[-2:]
        assert await store.audit.list(AuditFilter(caller="claude")) == []
        assert (await store.audit.verify()).is_intact
    for change in ("client = 'somebody'", "client = ''"):
        with contextlib.closing(sqlite3.connect(old)) as connection:
            before = connection.execute("SELECT seq, client FROM audit_full").fetchall()
            connection.execute(f"UPDATE audit_full SET {change} WHERE client != ''")
            connection.commit()
            assert not verify_file(old).is_intact
            connection.executemany(
                "UPDATE audit_full SET client = ? WHERE seq = ?",
                [(client, seq) for seq, client in before],
            )
            connection.execute("UPDATE audit_full SET client = 'x' WHERE seq = 6")
            connection.commit()
            assert not verify_file(old).is_intact
            connection.execute("UPDATE audit_full SET client = '' WHERE seq = 6")
            connection.commit()
            assert verify_file(old).is_intact


async def test_a_migration_leaves_a_copy_of_what_was_before(old: Path) -> None:
    audit = await _opened_with(old, {**MIGRATIONS, NEXT: add_column})
    copy = old.with_name(f"edged.db.before-v{NEXT}")
    assert version_at(old) == NEXT
    assert version_at(copy) == 1
    assert any(copy.name in row for row in audit)
    names = {path.name for path in old.parent.iterdir()}
    assert names == {"edged.db", "edged.db-head", copy.name, "safety.json"}


async def test_a_migration_that_fails_changes_nothing_and_is_tried_again(old: Path) -> None:
    attempts: list[int] = []

    def fail_at_first(connection: sqlite3.Connection) -> None:
        add_column(connection)
        attempts.append(1)
        if len(attempts) == 1:
            raise sqlite3.OperationalError("the power is weak")

    audit = await _opened_with(old, {**MIGRATIONS, NEXT: fail_at_first})
    assert len(attempts) == 2
    assert version_at(old) == NEXT
    assert any("migrated" in row for row in audit)


def test_every_version_has_its_step() -> None:
    assert list(MIGRATIONS) == list(range(1, max(MIGRATIONS) + 1))


def test_a_failed_step_is_undone_as_a_whole() -> None:
    def fail(connection: sqlite3.Connection) -> None:
        connection.execute("CREATE TABLE half (name TEXT)")
        raise sqlite3.OperationalError("no")

    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        with pytest.raises(sqlite3.OperationalError):
            migrate(connection, {**MIGRATIONS, NEXT: fail})
        assert version_of(connection) == max(MIGRATIONS)
        assert not connection.execute("SELECT * FROM sqlite_master WHERE name = 'half'").fetchall()


async def _opened_with(path: Path, migrations: Mapping[int, Migration]) -> list[str]:
    """Open, write, and give the parameters of all rows of the audit."""
    clock = SystemClock()
    database = Database(path=path, clock=clock, migrations=migrations)
    audit = Audit(database=database, clock=clock)
    await database.start()
    try:
        async with asyncio.timeout(5):
            while True:
                try:
                    await audit.intend(entry("probe"))
                except Failed:
                    await asyncio.sleep(0.02)
                else:
                    break
        assert (await audit.verify()).is_intact
        return [row.parameters for row in await audit.list(AuditFilter())]
    finally:
        await database.stop()
