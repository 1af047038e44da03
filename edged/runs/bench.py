"""The bench: what the parts of one engine share. Never given to pure code.

It is made first, and each part takes it in place of its fields, one by one. ``perform`` and
``precheck`` are the command path's (floor 4), which is made last; long work does not know the path.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Final

from edged import __version__
from edged.clock import Clock
from edged.config.load import Config
from edged.host import clock_state
from edged.instruments.instrument import Instrument
from edged.instruments.pool import Arrived, Changed, Event, InstrumentPool
from edged.instruments.unit_state import StateOf
from edged.record import record
from edged.runs.ports import Judge, NewId, Perform
from edged.runs.units import unit_of_instrument, unit_of_wrapper
from edged.sdk.specs import WrapperSpec
from edged.store.audit.book import Audit, Retention
from edged.store.database import Database
from edged.store.dead_man import ArmedUnits
from edged.store.experience import CapabilityBook, CommandKnowledge
from edged.store.journal import Journal
from edged.store.kept import BudgetRows, LeaseRows, SpentStates, TripRows
from edged.store.lockouts import Lockout, Lockouts
from edged.store.told_on import ToldOn

DATABASE_FILE: Final = "edged.db"
TIME_SERVICES: Final = (Path("/run/systemd/timesync"), Path("/run/chrony"), Path("/run/ntpd.pid"))
"""Signs of a service that keeps the clock. The kernel alone calls a clock that nobody keeps and one
that nobody has set yet the same."""


IsOff = Callable[[Instrument, Collection[str]], bool]


class Stores:
    """The database of one engine and everything that is kept in it.

    Args:
        config: how long the audit log is kept.
        pool: whose firmware is remembered: what was learnt of another no longer holds.
        clock: for the times of rows.
        database: where they go; not started.
    """

    def __init__(
        self, config: Config, pool: InstrumentPool, clock: Clock, database: Database
    ) -> None:
        self._pool = pool
        self.database = database
        self.audit = Audit(database=self.database, clock=clock)
        self.capability = CapabilityBook(database=self.database, clock=clock)
        self.journal = Journal(database=self.database, clock=clock)
        self.lockouts = Lockouts(database=self.database, clock=clock)
        self.leases = LeaseRows(database=self.database)
        self.spent_states = SpentStates(database=self.database)
        self.trips = TripRows(database=self.database)
        self.budgets = BudgetRows(database=self.database)
        self.told_on = ToldOn(database=self.database, clock=clock)
        self.armed = ArmedUnits(database=self.database)
        self._retention = Retention(
            audit=self.audit,
            clock=clock,
            days=config.audit_retention_days,
            is_synchronized=_is_synchronized,
        )
        pool.subscribe(self._hear)

    async def start(self, parts: contextlib.AsyncExitStack) -> None:
        """Open the database; ``parts`` gets what closes it.

        Raises:
            Failed: STORE_FAILED, the database was written by a newer edged. One that is full,
                read-only or damaged stops nothing: see ``status``.
        """
        await self.database.start()
        parts.push_async_callback(self.database.stop)
        self.audit.event("engine.started", f"edged {__version__}")
        retiring = asyncio.create_task(self._retention.keep(), name="audit-retention")
        parts.callback(retiring.cancel)

    def _hear(self, event: Event) -> None:
        if isinstance(event, Arrived | Changed):
            self.capability.seen(unit_of_instrument(event.instrument))

    def told_on_now(self, is_off: IsOff) -> list[dict[str, Any]]:
        """``ToldOn.told``, each unit under the id by which it is met now.

        Args:
            is_off: whether outputs are known to be off by what was sent or answered since; listed
                as ``off``. Until an answer of a stop or a check says so they stay marked.
        """
        told = self.told_on.told()
        known = self._pool.known() if told else ()
        for unit, entry in told.items():
            met = [one for one in known if unit_of_instrument(one).key == unit]
            # Of two that tell one serial number nobody knows which of them was told.
            asked = entry["outputs"] if len(met) == 1 else ()
            entry["off"] = [output for output in asked if is_off(met[0], [output])]
            if met:
                entry["instrument_id"] = met[-1].id
        return list(told.values())

    def left_on(self, is_off: IsOff) -> list[str]:
        """What may be on, a clause for each unit: "psu1 (CH1, CH2)"."""
        known = {one.id: one.called for one in self._pool.known()}
        found = []
        for unit in self.told_on_now(is_off):
            on = ["any output (state unknown)" if one == "*" else one
                  for one in unit["outputs"] if one not in unit["off"]]  # fmt: skip
            if on:
                found.append(f"{known.get(unit['instrument_id'], unit['instrument_id'])} "
                             f"({', '.join(on)})")  # fmt: skip
        return found

    def lockout_of(self, instrument: Instrument) -> Lockout | None:
        """The lockout of an instrument, under whatever address it answers."""
        if not self.lockouts.locked:
            return None
        return self.lockouts.find(instrument.id, unit_of_instrument(instrument).key)

    def experience_of(self, instrument: Instrument) -> Mapping[str, CommandKnowledge]:
        """What has been learnt of an instrument's commands, by their names."""
        return self.capability.of(unit_of_instrument(instrument))

    def experience_of_wrapper(self, spec: WrapperSpec) -> Mapping[str, CommandKnowledge]:
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


Tell = Callable[[str, str, str, str], None]
"""Writes an audit row about what nobody called for: its name, its text, the instrument, and the
part of the engine that reports it."""


@record
class Bench:
    """What the parts of one engine share.

    Attributes:
        config: the whole configuration.
        store: the database, and all that is kept in it.
        pool: the instruments.
        new_id: makes action ids.
        perform: the command path.
        precheck: the command path's judgement without its effect.
        tell: writes an audit row.
        state_of: gives the state of an instrument.
    """

    config: Config
    clock: Clock
    store: Stores
    pool: InstrumentPool
    new_id: NewId
    perform: Perform
    precheck: Judge
    tell: Tell
    state_of: StateOf
