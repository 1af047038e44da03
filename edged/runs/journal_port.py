"""The seam to the journal, and what every kind of long work writes there alike.

A row says who began it, which unit it was, where it answered, and the lines that make it safe; what
finds it after a crash is ``crash_recovery.py``.
"""

from __future__ import annotations

from typing import Any, Final, Protocol

from edged.actions.caller import Caller
from edged.instruments.instrument import Instrument
from edged.profiles.format.connection_facts import connection_facts
from edged.store.journal import JournalEntry

HEARTBEAT_S: Final = 20.0
"""How often the journal hears of work that has nothing to write: its age is what counts after a
crash (ABORT_AFTER_CRASH_SEC)."""


class Journalling(Protocol):
    """The seam to ``store.journal.Journal``."""

    async def begin(self, entry: JournalEntry) -> JournalEntry:
        """Write the row, synced; raises Failed STORE_FAILED."""
        ...

    async def update(
        self, entry_id: str, changes: dict[str, Any], *, is_forced: bool = False
    ) -> None:
        """Change the row; raises Failed STORE_FAILED."""
        ...

    async def finish(self, entry_id: str) -> None:
        """Remove the row; never raises."""
        ...

    def unfinished(self) -> tuple[JournalEntry, ...]:
        """What a former life left."""
        ...


def work_of(caller: Caller, instrument: Instrument) -> dict[str, Any]:
    """Who began it, where the instrument answered, and how to speak to it there."""
    return {
        "caller": caller.to_json(),
        "alias": instrument.alias,
        "address": instrument.address,
        "profile": instrument.profile.key if instrument.profile else "",
        "connection": connection_facts(instrument.connection),
    }
