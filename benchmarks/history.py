"""How quickly a record of a million rows says who did what, while others read it too.

The rows are of one hour, so that no question ends by its age: half of them are one client's
polling, which share their texts, the others stand by themselves.
"""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
import time
from pathlib import Path

from benchmarks.figures import Figure, parse_json_flag, percentile, tell
from edged.clock import SystemClock
from edged.config.keys import LogFormat, LogLevel
from edged.log import set_up_logging
from edged.store.audit.chain import Chain, Shelf
from edged.store.audit.history import CallFilter
from edged.store.audit.row import AuditRow, Entry, Phase
from edged.store.file import MIGRATIONS, migrate
from tests.bench.store_bench import StoreBench, entry, running_store

ROWS = 1_000_000
IN_GROUP = 10_000
TIMES = 5
LIMIT = 50


def main() -> int:
    as_json = parse_json_flag(__doc__)
    set_up_logging(LogLevel.WARNING, LogFormat.JSON)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "edged.db"
        now_ms = SystemClock().wall_ms()
        _fill(path, now_ms)
        figures = asyncio.run(_asked(path, now_ms - 3_600_000))
    return tell("who did what, of a million rows", figures, as_json=as_json)


def _fill(path: Path, now_ms: int) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    migrate(connection, MIGRATIONS)
    chain, shelf = Chain(), Shelf()
    for start in range(0, ROWS, IN_GROUP):
        connection.execute("BEGIN IMMEDIATE")
        rows = range(start, start + IN_GROUP)
        chain.append(connection, [shelf.row(_entry(n, now_ms)) for n in rows])
        connection.execute("COMMIT")
        chain.settle(is_committed=True)
    connection.close()


def _entry(number: int, now_ms: int) -> Entry:
    # The only change of the voltage is the very first row.
    is_write = number % 2 == 0
    command = "set_voltage" if number == 0 else "set_current" if is_write else "measure"
    made = entry(
        f"a{number}",
        Phase.END,
        time_ms=now_ms - (ROWS - number) * 3_500_000 // ROWS,
        is_weighty=is_write,
    )
    return made._replace(command=command, client="claude-code 2.1", remote="10.0.0.7")


async def _asked(path: Path, since_ms: int) -> tuple[Figure, ...]:
    async with running_store(path) as store:
        newest = await _times(store, CallFilter(since_ms=since_ms))
        rare = await _times(store, CallFilter(since_ms=since_ms, command="set_voltage"), found=1)
        none = await _times(store, CallFilter(since_ms=since_ms, outcome="refused"), found=0)
        beside = await _beside(store, CallFilter(since_ms=since_ms, outcome="refused"))
    return (
        Figure(name="the newest 50 calls", value=percentile(newest, 0.5), unit="ms", bound=50),
        Figure(
            name="one call, the oldest of all", value=percentile(rare, 0.5), unit="ms", bound=1_500
        ),
        Figure(name="a search for nothing", value=percentile(none, 0.5), unit="ms", bound=1_500),
        Figure(name="another reader beside it, worst", value=beside, unit="ms", bound=200),
    )


async def _times(store: StoreBench, wanted: CallFilter, *, found: int = LIMIT) -> list[float]:
    """Milliseconds of some searches."""
    spent = []
    for _ in range(TIMES):
        began = time.perf_counter()
        calls = await store.audit.calls(wanted, limit=LIMIT, may_see=_all)
        spent.append((time.perf_counter() - began) * 1000)
        if len(calls.rows) != found and not calls.has_more:
            raise SystemExit(f"{len(calls.rows)} calls were found, and not {found}.")
    return spent


async def _beside(store: StoreBench, wanted: CallFilter) -> float:
    """The longest that another question waits while a search goes on, in milliseconds."""
    search = asyncio.create_task(store.audit.calls(wanted, limit=LIMIT, may_see=_all))
    worst = 0.0
    while not search.done():
        began = time.perf_counter()
        await store.database.read(_one_row)
        worst = max(worst, (time.perf_counter() - began) * 1000)
    await search
    return worst


def _one_row(connection: sqlite3.Connection) -> object:
    return connection.execute("SELECT 1").fetchone()


def _all(_row: AuditRow) -> bool:
    return True


if __name__ == "__main__":
    raise SystemExit(main())
