"""One life of an engine: the locks on its directories, first aid, and then everything else.

What makes the bench safe after a crash comes before the modules of the daemon are even loaded,
which takes a small machine seconds.

First aid after a crash: the lines that make the bench safe, before the daemon is loaded.

Of the three seconds between a killed engine and its aborts (docs/promises.md section 13) loading
everything would take most on a small or busy machine. So the journal is read as a plain file, and
where a row says how to speak to the instrument it is visited at once, with no more loaded than that
takes. Nothing is written: the store, when it has opened, finds the same rows, and
``runs/crash_recovery.py`` takes it from there.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import Awaitable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from edged.clock import Clock, SystemClock
from edged.config.load import Config
from edged.engine.housekeeping import keep_no_media_types, leave_garbage, share_one_heap
from edged.engine.sim_child import SimChild
from edged.errors import EdgedError, Invalid
from edged.files import write_atomically
from edged.host import ExitStatus
from edged.lean_imports import shallow
from edged.service import START_FILE, StateLock, calm, lock_data
from edged.store.dead_man import ArmedUnit, read_armed
from edged.store.journal import JournalEntry, read_left

if TYPE_CHECKING:
    from edged.discovery.visit import Guest
    from edged.runs.left_work import LeftWork


DATABASE_FILE: Final = "edged.db"


def first_aid(
    state_dir: Path, *, visa_library: str, abort_within_s: float, clock: Clock
) -> Mapping[str, LeftWork]:
    """Visit what a former life left under way or armed, each address for itself.

    Args:
        state_dir: its lock must be held: nobody else may be working these instruments.
        visa_library: as for ``VisaLibrary``.
        abort_within_s: ABORT_AFTER_CRASH_SEC.
        clock: for ages and limits.

    Returns:
        What was visited, by the ids of journal entries. Rows that do not say how are left out.
    """
    entries, armed = read_left(state_dir / DATABASE_FILE), read_armed(state_dir / DATABASE_FILE)
    if not entries and not armed:
        return {}
    return asyncio.run(_visit_all(entries, armed, visa_library, abort_within_s, clock))


async def _visit_all(
    entries: tuple[JournalEntry, ...],
    armed: tuple[ArmedUnit, ...],
    visa_library: str,
    abort_within_s: float,
    clock: Clock,
) -> Mapping[str, LeftWork]:
    # Most starts have nothing to visit, and load these later or never.
    from edged.discovery.visit import visiting
    from edged.profiles.format.connection_facts import connection_of
    from edged.profiles.model import Connection
    from edged.runs.left_work import LeftWork, address_of, feed_left, keep_fed, make_safe
    from edged.transports.visa import VisaLibrary

    visa = VisaLibrary(library=visa_library, clock=clock)

    def visit(address: str, journal: Mapping[str, Any]) -> AbstractAsyncContextManager[Guest]:
        connection = connection_of(journal.get("connection")) or Connection()
        return visiting(address, open_link=visa.open_link, connection=connection, clock=clock)

    visited = {
        entry.id: LeftWork(entry=entry)
        for entry in entries
        if connection_of(entry.payload.get("connection")) is not None
    }

    async def make_all_safe(entries: Iterable[LeftWork], armed: Iterable[ArmedUnit]) -> None:
        """Of one address: one after the other, for some take one connection only."""
        for left in entries:
            await make_safe(left, visit, clock, abort_within_s)
        for unit in armed:
            await feed_left(unit, visit)

    def all_at(address: str) -> Awaitable[None]:
        return make_all_safe(
            [e for e in visited.values() if e.entry.payload.get("address") == address],
            [unit for unit in armed if address_of(unit) == address],
        )

    addresses = {str(left.entry.payload.get("address")) for left in visited.values()}
    try:
        firsts = {
            address: asyncio.ensure_future(all_at(address))
            for address in addresses | {address_of(unit) for unit in armed}
        }
        feeding = [
            asyncio.ensure_future(keep_fed(unit, visit, clock, firsts[address_of(unit)]))
            for unit in armed
        ]
        await asyncio.gather(*firsts.values())
        for task in feeding:
            task.cancel()
        await asyncio.gather(*feeding, return_exceptions=True)
    finally:
        visa.close()
    return visited


if TYPE_CHECKING:
    from edged.runs.left_work import LeftWork


def run(config: Config, *, sim: SimChild | None = None, supervised: bool = False) -> int:
    """Run the engine until it is asked to stop.

    Args:
        config: the whole configuration.
        sim: the simulated bench to work, launched already; it is ended here.
        supervised: the supervisor listens on the same port (docs/promises.md section 2).

    Returns:
        The exit status.
    """
    lock = StateLock(config.state_dir)
    data_lock: StateLock | None = None
    try:
        lock.take()
        _note_start(config)
        # Before anything there is touched: what lies there may be another engine's.
        data_lock = lock_data(config.data_dir, config.state_dir)
        return _live(config, sim, is_supervised=supervised)
    except Invalid as error:
        sys.stderr.write(f"edged: {error}\n")
        return ExitStatus.CONFIG
    except EdgedError as error:
        sys.stderr.write(f"edged: {error}\n")
        return ExitStatus.UNAVAILABLE
    finally:
        if sim is not None:
            sim.end()
        if data_lock is not None:
            data_lock.release()
        lock.release()


def _note_start(config: Config) -> None:
    """Tell others which bench file is read; a full disk keeps no engine from its first aid."""
    facts = {"pid": os.getpid(), "bench_file": str(config.bench_file.absolute())}
    with contextlib.suppress(OSError):
        write_atomically(config.state_dir / START_FILE, json.dumps(facts) + "\n")


def _live(config: Config, sim: SimChild | None, *, is_supervised: bool) -> int:
    visited: Mapping[str, LeftWork] = {}
    # A simulated bench of our own has ended with the life that worked it.
    if sim is None:
        visited = first_aid(
            config.state_dir,
            visa_library=config.visa_library,
            abort_within_s=config.abort_after_crash_sec,
            clock=SystemClock(),
        )
    if is_supervised:
        calm()
    share_one_heap()
    leave_garbage()
    keep_no_media_types()
    # What it serves by. Its client is for the relay, which asks for it.
    shallow("aiohttp")
    from edged.engine import engine

    return asyncio.run(engine.main(config, sim, is_supervised=is_supervised, visited=visited))
