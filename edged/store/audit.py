"""The audit: every attempt as a row of a hash chain.

``intend`` is awaited and on disk before it returns; ``note`` appends to a queue in memory and costs
the event loop next to nothing: the store thread makes the row, its hash and its place in the chain.
Rows wait in memory while the database cannot be written. Rows of reads and refusals are bounded
first: beyond the bound they are counted, and one row says how many there were. A write never gets
there: its intent is waited for.
"""

from __future__ import annotations

import asyncio
import collections
import itertools
import sqlite3
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

from edged.clock import Clock
from edged.store.audit_chain import Chain
from edged.store.audit_entry import Entry, storable_id, storable_ms
from edged.store.audit_queries import (
    AuditFilter,
    ExportForm,
    export_lines,
    list_rows,
    newest_time,
    oldest_time,
)
from edged.store.audit_row import RETENTION_TOOL, AuditRow, Phase
from edged.store.audit_texts import Familiar, Shelf
from edged.store.audit_verify import ChainCheck, VerifyReport, check_page, read_marks
from edged.store.book import Opening
from edged.store.database import Database
from edged.store.head_mark import head_mark_of

__all__ = ["Audit"]

LIGHT_LIMIT: Final = 8_192
"""Waiting rows beyond which reads and refusals are only counted: a second of fast traffic."""
WEIGHTY_LIMIT: Final = 16_384
"""Waiting rows beyond which everything is only counted."""
ITEMS: Final = 4
"""Items of a row that is pending."""
ROWS_IN_GROUP: Final = 2_000
"""Rows written in one transaction: about 20 ms that an intent may have to wait."""
ROWS_REMOVED: Final = 5_000
"""Rows that retention removes in one transaction, for the same reason."""

RETIRE_WITHIN_S: Final = 30.0

Follower = Callable[[tuple[AuditRow, ...]], None]


class Audit:
    """The audit of one database.

    Args:
        database: where it is kept; the audit attaches itself.
        clock: for the times of its own rows.

    Attributes:
        newest_before_ms: when the newest row was written that an earlier life has left.
        loss: which rows are lost, as was found in this life; a sentence, or empty.
    """

    def __init__(self, *, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._followers: list[Follower] = []
        self.newest_before_ms: int | None = None
        self.loss = ""
        self._is_loaded = False
        # Retention and verification must not meet: one removes what the other counts.
        self._pruning = asyncio.Lock()
        # Appended to by the loop's thread, taken from by the store thread: time, action's id, what
        # is told of it, duration, four items a row. Flat, because every tuple that waits would be
        # one more thing for the garbage collector to walk through, again and again.
        self._pending: collections.deque[Any] = collections.deque()
        # How many entries were only counted, ever; and since when the newest of them.
        self._uncounted_since_ms = 0
        self._lost = 0
        # The store thread's own from here: the items of rows made, how many of them are in the
        # running transaction, news that must come first, and how many lost entries have their row.
        self._chain = Chain()
        self._mark = head_mark_of(database.path)
        # The running transaction has a row that somebody relies on: it is synced.
        self._is_relied_on = False
        self._shelf = Shelf()
        self._backlog: list[Any] = []
        self._in_group = 0
        self._news: tuple[str, ...] = ()
        self._lost_written = 0
        self._lost_in_group = 0
        database.attach(self)

    # What the event loop calls.

    async def intend(self, entry: Entry) -> None:
        """Write a row that is on disk, synced, when this returns.

        Raises:
            Failed: STORE_FAILED, with the reason; what was intended must not be done.
        """
        # Weighty, so that the row says all of it by itself.
        intent = entry._replace(is_weighty=True)
        await self._database.write(lambda connection: self._append_intent(connection, intent))

    def _append_intent(self, connection: sqlite3.Connection, intent: Entry) -> None:
        self._is_relied_on = True
        self._chain.append(connection, [self._shelf.row(intent)])

    def note(self, entry: Entry) -> None:
        """Have a row written soon. Never raises, never waits."""
        self.note_again(
            entry,
            entry.time_ms,
            entry.action_id,
            entry.duration_ms,
            is_weighty=entry.is_weighty,
        )

    def note_again(
        self,
        told: Entry | Familiar,
        time_ms: int,
        action_id: str,
        duration_ms: float,
        *,
        is_weighty: bool = False,
    ) -> None:
        """``note`` with time, action and duration of its own; of what is familiar half as dear.

        Args:
            action_id: where ``told`` is familiar, one of edged's own making.
        """
        pending = self._pending
        waiting = (len(pending) + len(self._backlog)) // ITEMS
        if waiting >= LIGHT_LIMIT and (waiting >= WEIGHTY_LIMIT or not is_weighty):
            if self._lost == self._lost_written:
                self._uncounted_since_ms = time_ms
            self._lost += 1
            return
        # In one piece: the store thread never finds half a row.
        pending.extend((time_ms, action_id, told, duration_ms))
        # The store thread takes all that is pending: who is not the first need not ring.
        if is_weighty or waiting == ROWS_IN_GROUP:
            self._database.nudge(is_soon=True)
        elif len(pending) == ITEMS:
            self._database.nudge()

    def event(self, name: str, text: str, *, instrument: str = "") -> None:
        """Have a row written about something that nobody called for (``engine.started``)."""
        self.note(self._event(name, text, instrument=instrument))

    @property
    def waiting(self) -> int:
        """Rows that are not on disk yet."""
        return (len(self._pending) + len(self._backlog)) // ITEMS

    @property
    def lag_s(self) -> float:
        """Age in seconds of the oldest row that is not on disk yet; 0 where none waits."""
        try:
            oldest_ms = self._backlog[0] if self._backlog else self._pending[0]
        except IndexError:
            # The store thread has taken it meanwhile.
            return 0.0
        # No number: it is taking it just now.
        is_time = isinstance(oldest_ms, int)
        return max(0.0, (self._clock.wall_ms() - oldest_ms) / 1000) if is_time else 0.0

    @property
    def lost(self) -> int:
        """Rows that were only counted, in this life of the daemon."""
        return self._lost

    def subscribe(self, follower: Follower) -> Callable[[], None]:
        """Call ``follower`` on the loop with rows as they come to disk; the result ends that."""
        self._followers.append(follower)
        self._chain.is_followed = True
        return lambda: self._unsubscribe(follower)

    def _unsubscribe(self, follower: Follower) -> None:
        self._followers.remove(follower)
        self._chain.is_followed = bool(self._followers)

    async def list(self, wanted: AuditFilter, *, limit: int = 100) -> list[AuditRow]:
        """At most ``limit`` rows that fit, oldest first; the newest ones unless ``after`` is set.

        Raises:
            Failed: STORE_FAILED, the database cannot be read.
        """
        await self._database.flush()
        return await self._database.read(
            lambda connection: list_rows(connection, wanted, limit=limit)
        )

    async def export(self, form: ExportForm, wanted: AuditFilter) -> AsyncIterator[str]:
        """The rows that fit as text, some at a time; see ``export_lines``."""
        await self._database.flush()
        async for text in export_lines(self._database, form, wanted):
            yield text

    async def verify(self) -> VerifyReport:
        """Walk the whole chain as it stands now.

        Raises:
            Failed: STORE_FAILED, the database cannot be read.
        """
        await self._database.flush()
        async with self._pruning:
            check = ChainCheck(await self._database.read(read_marks))
            while not check.is_done:
                await self._database.read(lambda connection: check_page(connection, check))
            return check.report()

    async def oldest_ms(self, now_ms: int) -> int | None:
        """When the oldest row was written that is not from the future; None where there is none.

        Raises:
            Failed: STORE_FAILED, the database cannot be read.
        """
        return await self._database.read(lambda connection: oldest_time(connection, now_ms=now_ms))

    async def retire(self, before_ms: int) -> int:
        """Remove rows older than that, from the oldest on; the chain stays verifiable.

        Returns:
            How many rows were removed.

        Raises:
            Failed: STORE_FAILED; some may have been removed.
        """
        total = 0
        while True:
            async with self._pruning:
                removed = await self._database.write(
                    lambda connection: self._remove(connection, before_ms),
                    is_durable=False,
                    within_s=RETIRE_WITHIN_S,
                )
            total += removed
            if removed < ROWS_REMOVED:
                return total

    # What the store thread calls: the Book.

    @property
    def is_waiting(self) -> bool:
        """See ``Book``."""
        return bool(self._pending or self._backlog or self._news) or self._lost > self._lost_written

    def load(self, connection: sqlite3.Connection, opening: Opening) -> None:
        """See ``Book``."""
        lost = self._chain.load(connection, mark=opening.mark, is_new=opening.follows_damaged)
        if opening.follows_damaged:
            self._mark.write(*self._chain.head)
        if not self._is_loaded:
            self._is_loaded = True
            self.newest_before_ms = newest_time(connection)
        self._news = opening.news
        if lost is not None:
            self.loss = f"Rows {lost[0]} to {lost[1]} of the record are lost."
            self._news = (*self._news, self.loss)
        if not self._news and self._chain.head.seq == 0:
            self._news = ("The audit begins.",)

    def write(self, connection: sqlite3.Connection, *, is_last: bool) -> None:
        """See ``Book``."""
        self._make_rows()
        first = [self._shelf.row(self._event("database", sentence)) for sentence in self._news]
        waiting = len(self._backlog)
        self._in_group = waiting if is_last else min(waiting, ROWS_IN_GROUP * ITEMS)
        items = iter(self._backlog[: self._in_group])
        last = []
        self._lost_in_group = self._lost
        if self._lost_in_group > self._lost_written:
            last = [self._shelf.row(self._summary(self._lost_in_group - self._lost_written))]
        rows = zip(items, items, items, items, strict=True)
        self._chain.append(connection, itertools.chain(first, rows, last))

    def settle(self, *, is_committed: bool) -> None:
        """See ``Book``."""
        on_disk = self._chain.settle(is_committed=is_committed)
        is_relied_on, self._is_relied_on = self._is_relied_on, False
        if is_committed and is_relied_on:
            self._mark.write(*self._chain.head)
        if not is_committed:
            # What waits must not hold more than a row's worth of what was sent.
            self._make_rows()
            self._in_group = 0
            return
        del self._backlog[: self._in_group]
        self._in_group = 0
        self._news = ()
        self._lost_written = self._lost_in_group
        if self._backlog:
            self._database.nudge()
        if self._followers and on_disk:
            self._database.call_soon(self._tell, tuple(map(AuditRow.of, on_disk)))

    def _make_rows(self) -> None:
        take, shelf, backlog = self._pending.popleft, self._shelf, self._backlog
        while self._pending:
            time_ms, action_id, told, duration_ms = take(), take(), take(), take()
            if type(told) is Familiar:
                texts = told.texts
                if texts is None:
                    texts = told.texts = shelf.texts(told.entry)
            else:
                texts = shelf.texts(told)
                action_id = storable_id(action_id)
            backlog += (time_ms, action_id, texts, storable_ms(duration_ms))

    def _remove(self, connection: sqlite3.Connection, before_ms: int) -> int:
        """Remove the oldest rows, and put their last hash into the chain itself.

        A checkpoint that somebody moved afterwards no longer agrees with that row.
        """
        last, removed = self._chain.remove_before(
            connection, before_ms=before_ms, most=ROWS_REMOVED, now_ms=self._clock.wall_ms()
        )
        if removed:
            arguments = {"last_seq": last.seq, "last_hash": last.hash.hex(), "rows": removed}
            entry = self._event(RETENTION_TOOL, "")._replace(arguments=arguments)
            self._chain.append(connection, [self._shelf.row(entry)])
        return removed

    def _summary(self, count: int) -> Entry:
        return self._event(
            "audit.lost",
            f"{count} rows of reads and refusals since {self._uncounted_since_ms} ms were counted "
            "only, because the database was too far behind.",
        )

    def _event(self, name: str, text: str, *, instrument: str = "") -> Entry:
        return Entry(
            time_ms=self._clock.wall_ms(),
            phase=Phase.EVENT,
            tool=name,
            route="internal",
            instrument=instrument,
            arguments={"text": text},
            outcome="ok",
            is_weighty=True,
        )

    def _tell(self, rows: tuple[AuditRow, ...]) -> None:
        for follower in tuple(self._followers):
            follower(rows)
