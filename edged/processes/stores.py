"""What is kept in SQLite, put together: one database, its five books, and the record over them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from edged import __version__
from edged.clock import Clock
from edged.commands.audit_record import AuditRecord
from edged.errors import NotFound
from edged.instruments.instrument import Instrument
from edged.instruments.pool import Arrived, Changed, Event, InstrumentPool
from edged.sdk.specs import WrapperSpec
from edged.store.audit import Audit
from edged.store.capability import CapabilityBook, Knowledge
from edged.store.database import Database
from edged.store.journal import Journal
from edged.store.lockouts import Lockout, Lockouts
from edged.store.retention import Retention
from edged.store.told_on import ToldOn
from edged.work.run_meta import clock_state
from edged.work.units import unit_of_instrument, unit_of_wrapper

__all__ = ["DATABASE_FILE", "Stores"]

DATABASE_FILE: Final = "edged.db"
TIME_SERVICES: Final = (Path("/run/systemd/timesync"), Path("/run/chrony"), Path("/run/ntpd.pid"))
"""Signs of a service that keeps the clock. The kernel alone calls a clock that nobody keeps and one
that nobody has set yet the same."""


class Stores:
    """The database of one engine and everything that is kept in it.

    Args:
        state_dir: STATE_DIR.
        retention_days: AUDIT_RETENTION_DAYS.
        clock: for the times of rows.
    """

    def __init__(self, *, state_dir: Path, retention_days: int, clock: Clock) -> None:
        self._clock = clock
        self.database = Database(path=state_dir / DATABASE_FILE, clock=clock)
        self.audit = Audit(database=self.database, clock=clock)
        self.capability = CapabilityBook(database=self.database, clock=clock)
        self.journal = Journal(database=self.database, clock=clock)
        self.lockouts = Lockouts(database=self.database, clock=clock)
        self.told_on = ToldOn(database=self.database, clock=clock)
        self._retention = Retention(
            audit=self.audit, clock=clock, days=retention_days, is_synchronized=_is_synchronized
        )
        self._pool: InstrumentPool | None = None
        self.record = AuditRecord(
            audit=self.audit, capability=self.capability, clock=clock, id_of=self._id_of
        )

    async def start(self, parts: contextlib.AsyncExitStack) -> None:
        """Open the database; ``parts`` gets what closes it.

        Raises:
            Failed: STORE_FAILED, the database was written by a newer edged. One that is full,
                read-only or damaged stops nothing: see ``status``.
        """
        await self.database.start()
        parts.push_async_callback(self.database.stop)
        self.audit.event("engine.started", f"edged {__version__}")
        parts.callback(self.audit.event, "engine.stopped", f"edged {__version__}")
        retiring = asyncio.create_task(self._retention.keep(), name="audit-retention")
        parts.callback(retiring.cancel)

    def watch(self, pool: InstrumentPool) -> None:
        """Remember the firmware of whoever arrives: what was learnt of another no longer holds."""
        self._pool = pool
        pool.subscribe(self._hear)

    def _hear(self, event: Event) -> None:
        if isinstance(event, Arrived | Changed):
            self.capability.seen(unit_of_instrument(event.instrument))

    def _id_of(self, name: str) -> str:
        try:
            return self._pool.get(name).id if self._pool else name
        except NotFound:
            return name

    def lockout_of(self, instrument: Instrument) -> Lockout | None:
        """The lockout of an instrument, under whatever address it answers."""
        if not self.lockouts.all():
            return None
        return self.lockouts.find(instrument.id, unit_of_instrument(instrument).key)

    def experience_of(self, instrument: Instrument) -> Mapping[str, Knowledge]:
        """What has been learnt of an instrument's commands, by their names."""
        return self.capability.of(unit_of_instrument(instrument))

    def experience_of_wrapper(self, spec: WrapperSpec) -> Mapping[str, Knowledge]:
        """The same of an SDK wrapper's tools."""
        return self.capability.of(unit_of_wrapper(spec))

    def status(self) -> dict[str, Any]:
        """Health of the database and how far the audit is behind, for get_status."""
        health = self.database.health
        return {
            "state": health.state.value,
            "reason": health.reason,
            "remedy": health.remedy,
            "since_ms": health.since_ms,
            "rows_waiting": self.audit.waiting,
            "rows_lost": self.audit.lost,
            "loss": self.audit.loss,
            "retention_waits": self._retention.waits,
        }


def _is_synchronized() -> bool | None:
    """Whether a time service keeps this machine's clock right; None where nobody tells."""
    told: bool | None = clock_state()["is_synchronized"]
    return None if not told and not any(map(Path.exists, TIME_SERVICES)) else told
