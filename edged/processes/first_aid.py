"""First aid after a crash: the lines that make the bench safe, before the daemon is loaded.

Of the three seconds between a killed engine and its aborts (SPEC.md section 13) loading everything
would take most on a small or busy machine. So the journal is read as a plain file, and where a row
says how to speak to the instrument it is visited at once, with no more loaded than that takes.
Nothing is written: the store, when it has opened, finds the same rows, and ``after_crash.py`` takes
it from there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from edged.clock import Clock
from edged.store.journal_row import JournalEntry, read_left

if TYPE_CHECKING:
    from edged.instruments.visit import Guest
    from edged.work.left_work import Left

__all__ = ["first_aid"]

DATABASE_FILE: Final = "edged.db"


def first_aid(
    state_dir: Path, *, visa_library: str, abort_within_s: float, clock: Clock
) -> Mapping[str, Left]:
    """Visit what a former life left under way, all at once.

    Args:
        state_dir: its lock must be held: nobody else may be working these instruments.
        visa_library: as for ``VisaLibrary``.
        abort_within_s: ABORT_AFTER_CRASH_SEC.
        clock: for ages and limits.

    Returns:
        What was visited, by the ids of journal entries. Rows that do not say how are left out.
    """
    entries = read_left(state_dir / DATABASE_FILE)
    if not entries:
        return {}
    return asyncio.run(_visit_all(entries, visa_library, abort_within_s, clock))


async def _visit_all(
    entries: tuple[JournalEntry, ...], visa_library: str, abort_within_s: float, clock: Clock
) -> Mapping[str, Left]:
    # Most starts have nothing to visit, and load these later or never.
    from edged.instruments.visa_link import VisaLibrary
    from edged.instruments.visit import visiting
    from edged.profiles.connection_facts import connection_of
    from edged.profiles.model import Connection
    from edged.work.left_work import Left, make_safe

    visa = VisaLibrary(library=visa_library, clock=clock)

    def visit(address: str, journal: Mapping[str, Any]) -> AbstractAsyncContextManager[Guest]:
        connection = connection_of(journal.get("connection")) or Connection()
        return visiting(address, open_link=visa.open_link, connection=connection, clock=clock)

    visited = {
        entry.id: Left(entry=entry)
        for entry in entries
        if connection_of(entry.payload.get("connection")) is not None
    }
    visa.load()
    try:
        await asyncio.gather(
            *(make_safe(left, visit, clock, abort_within_s) for left in visited.values())
        )
    finally:
        visa.close()
    return visited
