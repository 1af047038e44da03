"""What the audit costs: the event loop, the store thread, and whoever waits for an intent.

In one process, on the disk that holds the temporary directory, without a network. CPU time is that
of one thread; the rows are those of a dynamic tool's query with two arguments.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import tempfile
import time
from pathlib import Path

from benchmarks.figures import Figure, parse_json_flag, percentile, tell
from edged.actions.action import RunCommand
from edged.actions.caller import Caller, Route
from edged.actions.outcome import Outcome, OutcomeStatus
from edged.commands.audit_record import AuditRecord
from edged.commands.target import Target
from edged.config.keys import LogFormat, LogLevel
from edged.log import set_up_logging
from edged.store.audit.chain import Chain, Shelf
from edged.store.audit.row import Phase, row_hash, texts_of
from edged.store.file import MIGRATIONS, migrate
from tests.bench.fake_instruments import FakeInstrument, toy_profile
from tests.bench.store_bench import StoreBench, entry, running_store

ROWS = 20_000
IN_GROUP = 400
INTENTS = 300


def main() -> int:
    as_json = parse_json_flag(__doc__)
    set_up_logging(LogLevel.WARNING, LogFormat.JSON)
    with tempfile.TemporaryDirectory() as directory:
        thread_us = _store_thread(Path(directory) / "thread.db")
        loop_us, together_us, intents_ms = asyncio.run(_whole(Path(directory) / "edged.db"))
    figures = (
        Figure(name="hash of a row, store thread", value=_hash(), unit="us", bound=10),
        Figure(name="a row in all, store thread", value=thread_us, unit="us"),
        Figure(name="a call's row and counters, event loop", value=loop_us, unit="us"),
        Figure(name="both threads together", value=together_us, unit="us"),
        Figure(name="an awaited intent, p50", value=percentile(intents_ms, 0.5), unit="ms"),
        Figure(name="an awaited intent, p99", value=percentile(intents_ms, 0.99), unit="ms"),
    )
    return tell("the audit", figures, as_json=as_json)


def _hash() -> float:
    """Microseconds for the hash alone."""
    values = (7, 1_790_000_000_000, "a1", *texts_of(entry()), 1.25)
    began = time.thread_time()
    for _ in range(ROWS):
        row_hash(bytes(32), values)
    return (time.thread_time() - began) / ROWS * 1e6


def _store_thread(path: Path) -> float:
    """Microseconds of CPU for rendering, chaining and inserting a row, nobody else running."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        migrate(connection, MIGRATIONS)
        chain, shelf = Chain(), Shelf()
        began = time.thread_time()
        for start in range(0, ROWS, IN_GROUP):
            connection.execute("BEGIN IMMEDIATE")
            rows = [shelf.row(entry(f"a{start + number}")) for number in range(IN_GROUP)]
            chain.append(connection, rows)
            connection.execute("COMMIT")
        return (time.thread_time() - began) / ROWS * 1e6


async def _whole(path: Path) -> tuple[float, float, list[float]]:
    async with running_store(path) as store:
        loop_us, together_us = await _conclude(store)
        return loop_us, together_us, [await _intend(store, number) for number in range(INTENTS)]


async def _conclude(store: StoreBench) -> tuple[float, float]:
    """Microseconds a call: of the loop's thread, and of the process."""
    record = AuditRecord(audit=store.audit, capability=store.capability, clock=store.clock)
    profile = toy_profile()
    instrument = FakeInstrument(id="TCPIP0::10.0.0.9::5025::SOCKET", profile=profile)
    target = Target(instrument=instrument, command=profile.commands["measure"])  # type: ignore[arg-type]
    caller = Caller(route=Route.DIRECT, session_id="0" * 32, remote="10.0.0.7:40112")
    outcome = Outcome(status=OutcomeStatus.OK, scpi=(":MEAS?",), execution_time_ms=1.25)
    on_loop = together = 0.0
    for start in range(0, ROWS, IN_GROUP):
        actions = [
            RunCommand(
                tool="toy_supply__measure",
                caller=caller,
                action_id=f"a{number}",
                instrument_id=instrument.id,
                command_name="measure",
                arguments={"channel": 1, "mode": "DC"},
            )
            for number in range(start, start + IN_GROUP)
        ]
        thread_began, began = time.thread_time(), time.process_time()
        for action in actions:
            record.conclude(action, target, outcome)
        on_loop += time.thread_time() - thread_began
        await store.database.flush()
        together += time.process_time() - began
    return on_loop / ROWS * 1e6, together / ROWS * 1e6


async def _intend(store: StoreBench, number: int) -> float:
    """Milliseconds until an intent is synced to disk."""
    began = time.perf_counter()
    await store.audit.intend(entry(f"i{number}", Phase.INTENT))
    return (time.perf_counter() - began) * 1000


if __name__ == "__main__":
    raise SystemExit(main())
