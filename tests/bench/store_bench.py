"""A store on a file of its own: the database, every book, and a disk that can be made full."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from edged.clock import Clock, SystemClock
from edged.store.audit.book import Audit
from edged.store.audit.row import Entry, Phase
from edged.store.database import Database
from edged.store.dead_man import ArmedUnits
from edged.store.experience import CapabilityBook
from edged.store.file import MIGRATIONS, DatabaseFile, Opened
from edged.store.health import StoreState
from edged.store.journal import Journal
from edged.store.kept import LeaseRows
from edged.store.lockouts import Lockouts
from edged.store.told_on import ToldOn
from tests.bench.waiting import HANGS_S


class QuotaFile(DatabaseFile):
    """A database that may not grow beyond its size of the moment the disk was filled."""

    is_disk_full = False

    def open(self) -> Opened:
        opened = super().open()
        if self.is_disk_full:
            # SQLite never sets this below the present size.
            opened.connection.execute("PRAGMA max_page_count = 1")
        return opened


class StoreBench:
    def __init__(self, path: Path, clock: Clock | None = None, *, told_s: float = 0.0) -> None:
        clock = clock or SystemClock()
        self.path = path
        self.clock = clock
        self.file = QuotaFile(path=path, clock=clock, migrations=MIGRATIONS)
        # What is lost is told at once here, and not for a while.
        self.database = Database(path=path, clock=clock, file=self.file, told_s=told_s)
        self.audit = Audit(database=self.database, clock=clock)
        self.capability = CapabilityBook(database=self.database, clock=clock)
        self.journal = Journal(database=self.database, clock=clock)
        self.lockouts = Lockouts(database=self.database, clock=clock)
        self.told_on = ToldOn(database=self.database, clock=clock)
        self.leases = LeaseRows(database=self.database)
        self.armed = ArmedUnits(database=self.database)

    async def fill_the_disk(self) -> None:
        self.file.is_disk_full = True
        await self.database.write(lambda connection: connection.execute("PRAGMA max_page_count=1"))

    def free_the_disk(self) -> None:
        self.file.is_disk_full = False

    async def healed(self) -> None:
        """It heals by itself within a second or so; asking makes that sooner."""
        async with asyncio.timeout(HANGS_S):
            while not self.database.health.is_healthy:
                await self.database.flush()
                await asyncio.sleep(0.05)

    async def has_state(self, state: StoreState, *, within_s: float = HANGS_S) -> None:
        await until(
            self.database.subscribe,
            lambda: self.database.health.state is state,
            within_s=within_s,
        )


async def until(
    subscribe: Callable[[Callable[[object], None]], Callable[[], None]],
    is_so: Callable[[], bool],
    *,
    within_s: float = HANGS_S,
) -> None:
    """Wait for the notification after which it is so."""
    told = asyncio.Event()
    unsubscribe = subscribe(lambda _: told.set())
    try:
        async with asyncio.timeout(within_s):
            while not is_so():
                await told.wait()
                told.clear()
    finally:
        unsubscribe()


@contextlib.asynccontextmanager
async def running_store(
    path: Path, clock: Clock | None = None, *, told_s: float = 0.0
) -> AsyncIterator[StoreBench]:
    store = StoreBench(path, clock, told_s=told_s)
    await store.database.start()
    try:
        yield store
    finally:
        await store.database.stop()


def entry(
    action_id: str = "a1",
    phase: Phase = Phase.END,
    *,
    time_ms: int = 1_790_000_000_000,
    **more: object,
) -> Entry:
    known = {
        "tool": "rigol_dp832__set_voltage",
        "route": "direct",
        "session": "s-1",
        "remote": "192.168.1.7:40112",
        "instrument": "TCPIP0::192.168.1.9::5555::SOCKET",
        "command": "set_voltage",
        "arguments": {"channel": 1, "voltage": 3.3},
        "scpi": (":SOUR1:VOLT 3.3",),
        "outcome": "ok",
        "duration_ms": 1.25,
    }
    return Entry(time_ms=time_ms, phase=phase, action_id=action_id, **{**known, **more})  # type: ignore[arg-type]
