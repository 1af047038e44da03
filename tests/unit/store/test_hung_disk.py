"""A disk that does not come back: stood in for by a statement that waits, on the store's thread."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from edged.errors import ErrorCode, Failed
from edged.store.audit.queries import AuditFilter
from edged.store.audit.row import Phase
from edged.store.database import OVERSLEPT_S
from edged.store.health import StoreState
from edged.store.journal import JournalEntry, JournalKind
from tests.bench.driven_clock import DrivenClock
from tests.bench.store_bench import StoreBench, entry, running_store
from tests.promises import promise

REASON = "the disk does not answer"
LONG_S = 30.0
WITHIN_S = 0.3
STOOD_STILL_S = WITHIN_S + OVERSLEPT_S + 0.2


@contextlib.asynccontextmanager
async def hanging(store: StoreBench, clock: DrivenClock) -> AsyncIterator[threading.Event]:
    """The store's thread is at the disk, and has been for a long time, until the event is set."""
    entered, may_go = threading.Event(), threading.Event()

    def hang(_connection: sqlite3.Connection) -> None:
        entered.set()
        may_go.wait(10)

    hung = asyncio.create_task(store.database.write(hang, within_s=LONG_S))
    await asyncio.to_thread(entered.wait, 5)
    clock.move(LONG_S)
    try:
        yield may_go
    finally:
        may_go.set()
        await hung


@promise("store.hung-is-told")
async def test_the_state_is_stalled_and_writes_are_refused_at_once_with_the_reason(
    tmp_path: Path,
) -> None:
    clock = DrivenClock()
    async with running_store(tmp_path / "edged.db", clock) as store:
        async with hanging(store, clock):
            assert store.database.health.state is StoreState.STALLED
            with pytest.raises(Failed, match=REASON) as refused:
                await store.audit.intend(entry("a1", Phase.INTENT))
            assert refused.value.code is ErrorCode.STORE_FAILED
            assert refused.value.data == {"store": "stalled", "reason": REASON}
        await store.healed()
        await store.audit.intend(entry("a2", Phase.INTENT))
        rows = await store.audit.list(AuditFilter())
        assert [row.action_id for row in rows if row.phase == "intent"] == ["a2"]
        told = [row.parameters for row in rows if row.tool == "database"]
        assert any(REASON in text and f"{LONG_S:.1f} s" in text for text in told)
        assert (await store.audit.verify()).is_intact


async def test_who_waits_when_it_begins_to_hang_waits_no_longer_than_asked(
    tmp_path: Path,
) -> None:
    clock = DrivenClock()
    written: list[str] = []
    async with running_store(tmp_path / "edged.db", clock) as store:
        async with hanging(store, clock):
            clock.move(-LONG_S)
            with pytest.raises(Failed, match=REASON):
                await store.database.write(lambda _: written.append("late"), within_s=0.01)
        await store.database.flush()
        assert written == []


async def test_a_process_that_stood_still_does_not_blame_the_disk(tmp_path: Path) -> None:
    """After SIGSTOP and SIGCONT: the deadline is over before the store's thread could answer."""
    loop = asyncio.get_running_loop()
    entered = threading.Event()

    def slow(_connection: sqlite3.Connection) -> str:
        entered.set()
        threading.Event().wait(STOOD_STILL_S + 0.1)
        return "written"

    async with running_store(tmp_path / "edged.db", DrivenClock()) as store:
        writing = asyncio.create_task(store.database.write(slow, within_s=WITHIN_S))
        await asyncio.to_thread(entered.wait, 5)
        loop.call_soon(threading.Event().wait, STOOD_STILL_S)
        assert await writing == "written"


async def test_a_disk_that_only_seems_stalled_is_given_a_moment(tmp_path: Path) -> None:
    clock = DrivenClock()
    async with (
        running_store(tmp_path / "edged.db", clock) as store,
        hanging(store, clock) as may_go,
    ):
        writing = store.audit.intend(entry("a1", Phase.INTENT))
        may_go.set()
        await writing


async def test_a_journal_row_that_was_refused_is_not_there_for_the_next_life(
    tmp_path: Path,
) -> None:
    clock = DrivenClock()
    path = tmp_path / "edged.db"
    sweep = JournalEntry(id="sweep-1", kind=JournalKind.SWEEP, instrument_id="S::1")
    async with running_store(path, clock) as store:
        await store.journal.begin(sweep)
        async with hanging(store, clock):
            with pytest.raises(Failed, match=REASON):
                await store.journal.update("sweep-1", {"last_step": 2}, is_forced=True)
            # Never raises, and does not wait for the disk.
            await store.journal.finish("sweep-1")
        await store.healed()
    async with running_store(path) as store:
        assert store.journal.unfinished() == ()


async def test_a_lockout_holds_that_could_not_be_lifted(tmp_path: Path) -> None:
    clock = DrivenClock()
    path = tmp_path / "edged.db"
    async with running_store(path, clock) as store:
        await store.lockouts.lock("S::1", unit="", reason="hands", by="Kim")
        async with hanging(store, clock):
            with pytest.raises(Failed, match=REASON):
                await store.lockouts.clear("S::1")
            with pytest.raises(Failed, match=REASON):
                await store.lockouts.lock("S::2", unit="", reason="hands", by="Kim")
            assert store.lockouts.find("S::2")
        await store.healed()
    async with running_store(path) as store:
        assert [lockout.instrument_id for lockout in store.lockouts.all()] == ["S::1", "S::2"]


async def test_what_is_on_the_disk_can_be_read_as_long_as_the_disk_is_read(tmp_path: Path) -> None:
    clock = DrivenClock()
    async with running_store(tmp_path / "edged.db", clock) as store:
        await store.audit.intend(entry("a1", Phase.INTENT))
        async with hanging(store, clock):
            rows = await store.audit.list(AuditFilter())
        assert rows[-1].action_id == "a1"
