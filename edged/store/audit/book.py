"""The audit: every attempt as a row of a hash chain.

``intend`` is awaited and on disk before it returns; ``note`` appends to a queue in memory and costs
the event loop next to nothing: the store thread makes the row, its hash and its place in the chain.
Rows wait in memory while the database cannot be written. Rows of reads and refusals are bounded
first: beyond the bound they are counted, and one row says how many there were. A write never gets
there: its intent is waited for.

Rows of the audit go when they are old enough: the task that sees to it.

What it goes by is the clock of a machine that may have none of its own. One that is ahead makes
every row old, and what is removed is gone for good: so nothing is removed while the clock is not to
be believed, and at most a day's worth of rows at a time.
"""

from __future__ import annotations

import asyncio
import collections
import sqlite3
from collections.abc import AsyncIterator, Callable
from dataclasses import field
from functools import partial
from typing import Any, Final

import structlog

from edged.clock import RELEASED_MS, Clock
from edged.errors import Failed
from edged.record import part, record
from edged.store.audit.chain import Chain, RepeatedRow, Shelf
from edged.store.audit.history import CallFilter, Calls, find_calls
from edged.store.audit.queries import (
    AuditFilter,
    ExportForm,
    export_lines,
    list_rows,
    newest_time,
    oldest_time,
)
from edged.store.audit.row import RETENTION_TOOL, AuditRow, Entry, Phase, storable_id, storable_ms
from edged.store.audit.run_row import RunRows
from edged.store.audit.run_rows import find_run_rows
from edged.store.audit.verify import ChainCheck, VerifyReport, check_page, read_marks
from edged.store.database import Database, Written
from edged.store.head_mark import HeadMark
from edged.store.writer import DirtyFlag, Opening

LIGHT_LIMIT: Final = 8_192
"""Waiting rows beyond which reads and refusals are only counted: a second of fast traffic."""
WEIGHTY_LIMIT: Final = 16_384
"""Waiting rows beyond which everything is only counted."""
ITEMS: Final = 4
"""Items of a row that is pending."""
ROWS_IN_GROUP: Final = 2_000
"""Rows written in one transaction: about 20 ms that an intent may have to wait."""
ROWS_AT_A_STRETCH: Final = 128
"""Rows made and written before SQLite lets the event loop have the interpreter: half a ms."""
ROWS_REMOVED: Final = 5_000
"""Rows that retention removes in one transaction, for the same reason."""

RETIRE_WITHIN_S: Final = 30.0

Follower = Callable[[tuple[AuditRow, ...]], None]


@part
class Audit:
    """The audit of one database.

    Attributes:
        database: where it is kept; the audit attaches itself.
        clock: for the times of its own rows.
        newest_before_ms: when the newest row was written that an earlier life has left.
        loss: which rows are lost, as was found in this life; a sentence, or empty.
    """

    database: Database
    clock: Clock
    _mark: HeadMark = field(init=False)
    _flag: DirtyFlag = field(init=False)
    _followers: list[Follower] = field(default_factory=list)
    newest_before_ms: int | None = None
    loss: str = ""
    _is_loaded: bool = False
    # Retention and verification must not meet: one removes what the other counts.
    _pruning: asyncio.Lock = field(default_factory=asyncio.Lock)
    # Appended to by the loop's thread, taken from by the store thread: time, action's id, what
    # is told of it, duration, four items a row. Flat, because every tuple that waits would be
    # one more thing for the garbage collector to walk through, again and again.
    _pending: collections.deque[Any] = field(default_factory=collections.deque)
    # How many entries were only counted, ever; and since when the newest of them.
    _uncounted_since_ms: int = 0
    _lost: int = 0
    # The store thread's own from here: the items of rows made, how many of them are in the
    # running transaction, news that must come first, and how many lost entries have their row.
    _chain: Chain = field(default_factory=Chain)
    # The running transaction has a row that somebody relies on: it is synced.
    _is_relied_on: bool = False
    _shelf: Shelf = field(default_factory=Shelf)
    _backlog: list[Any] = field(default_factory=list)
    _in_group: int = 0
    _news: tuple[str, ...] = ()
    _lost_written: int = 0
    _lost_in_group: int = 0

    def __post_init__(self) -> None:
        self._mark = self.database.head_mark
        self._flag = self.database.attach(self, settle=self.settle)

    # What the event loop calls.

    def intend(self, entry: Entry) -> Written[None]:
        """Write a row that is on disk, synced, when this is done.

        Raises:
            Failed: STORE_FAILED, with the reason, here or as its exception; what was intended must
                not be done.
        """
        # Weighty, so that the row says all of it by itself.
        intent = entry if entry.is_weighty else entry._replace(is_weighty=True)
        return self.database.submit(partial(self._append_intent, intent))

    def _append_intent(self, intent: Entry, connection: sqlite3.Connection) -> None:
        self._is_relied_on = self._flag.is_open = True
        self._chain.append(connection, [self._shelf.row(intent)])

    def note(self, entry: Entry) -> None:
        """Have a row written soon. Never raises, never waits."""
        self.note_again(
            entry,
            entry.action_id,
            entry.duration_ms,
            time_ms=entry.time_ms,
            is_weighty=entry.is_weighty,
        )

    def note_again(
        self,
        told: Entry | RepeatedRow,
        action_id: str,
        duration_ms: float,
        *,
        time_ms: int | None = None,
        is_weighty: bool = False,
    ) -> None:
        """``note`` with time, action and duration of its own; of what is repeated half as dear.

        Args:
            action_id: where ``told`` is repeated, one of edged's own making.
            time_ms: where it is not now.
        """
        pending = self._pending
        if time_ms is None:
            time_ms = self.clock.wall_ns() // 1_000_000
        waiting = (len(pending) + len(self._backlog)) // ITEMS
        if waiting >= LIGHT_LIMIT and (waiting >= WEIGHTY_LIMIT or not is_weighty):
            if self._lost == self._lost_written:
                self._uncounted_since_ms = time_ms
            self._lost += 1
            self._flag.is_raised = True
            return
        # In one piece: the store thread never finds half a row.
        pending.extend((time_ms, action_id, told, duration_ms))
        # The store thread takes all that is pending: who is not the first need not ring.
        self._flag.is_raised = True
        if is_weighty or waiting == ROWS_IN_GROUP:
            self.database.nudge(is_soon=True)
        elif len(pending) == ITEMS:
            self.database.nudge()

    def event(self, name: str, text: str, *, instrument: str = "", part: str = "engine") -> None:
        """Have a row written about something that nobody called for (``engine.started``).

        Args:
            part: of the engine, which noticed it; see ``Caller.part``.
        """
        self.note(self._event(name, text, instrument=instrument, part=part))

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
        return max(0.0, (self.clock.wall_ms() - oldest_ms) / 1000) if is_time else 0.0

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
        await self.database.flush()
        return await self.database.read(
            lambda connection: list_rows(connection, wanted, limit=limit)
        )

    async def calls(
        self, wanted: CallFilter, *, limit: int, may_see: Callable[[AuditRow], bool]
    ) -> Calls:
        """Who did what; see ``find_calls``.

        Raises:
            Failed: STORE_FAILED, the database cannot be read.
        """
        await self.database.flush()
        return await find_calls(
            self.database, wanted, limit=limit, may_see=may_see, clock=self.clock
        )

    async def of_run(self, run_id: str, *, since_ms: int, until_ms: int | None) -> RunRows:
        """The rows that belong to a run; see ``find_run_rows``.

        Raises:
            Failed: STORE_FAILED, the database cannot be read.
        """
        await self.database.flush()
        return await find_run_rows(
            self.database, run_id, since_ms=since_ms, until_ms=until_ms, clock=self.clock
        )

    async def export(self, form: ExportForm, wanted: AuditFilter) -> AsyncIterator[str]:
        """The rows that fit as text, some at a time; see ``export_lines``."""
        await self.database.flush()
        async for text in export_lines(self.database, form, wanted):
            yield text

    async def verify(self) -> VerifyReport:
        """Walk the whole chain as it stands now.

        Raises:
            Failed: STORE_FAILED, the database cannot be read.
        """
        await self.database.flush()
        async with self._pruning:
            check = ChainCheck(await self.database.read(read_marks))
            while not check.is_done:
                await self.database.read(lambda connection: check_page(connection, check))
            return check.report()

    async def oldest_ms(self, now_ms: int) -> int | None:
        """When the oldest row was written that is not from the future; None where there is none.

        Raises:
            Failed: STORE_FAILED, the database cannot be read.
        """
        return await self.database.read(lambda connection: oldest_time(connection, now_ms=now_ms))

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
                removed = await self.database.write(
                    lambda connection: self._remove(connection, before_ms),
                    is_durable=False,
                    within_s=RETIRE_WITHIN_S,
                )
            total += removed
            if removed < ROWS_REMOVED:
                return total

    # What the store thread calls: the Book.

    def load(self, connection: sqlite3.Connection, opening: Opening) -> None:
        lost = self._chain.load(connection, mark=opening.mark, is_new=opening.follows_damaged)
        if opening.follows_damaged:
            self._mark.write(*self._chain.head)
        if not self._is_loaded:
            self._is_loaded = True
            self.newest_before_ms = newest_time(connection)
        self._news = opening.news
        if lost is not None:
            self.loss = f"Rows {lost[0]} to {lost[1]} of the audit log are lost."
            self._news = (*self._news, self.loss)
        if not self._news and self._chain.head.seq == 0:
            self._news = ("The audit begins.",)
        if self._news:
            self._flag.is_raised = True

    def write(self, connection: sqlite3.Connection, *, is_last: bool) -> None:
        news = [self._shelf.row(self._event("database", sentence)) for sentence in self._news]
        if news:
            self._chain.append(connection, news)
        most = len(self._backlog) + len(self._pending) if is_last else ROWS_IN_GROUP * ITEMS
        at = 0
        while at < most:
            if at == len(self._backlog):
                self._make_rows(ROWS_AT_A_STRETCH)
            stretch = self._backlog[at : min(at + ROWS_AT_A_STRETCH * ITEMS, most)]
            if not stretch:
                break
            items = iter(stretch)
            self._chain.append(connection, zip(items, items, items, items, strict=True))
            at += len(stretch)
        self._in_group = at
        self._lost_in_group = self._lost
        if self._lost_in_group > self._lost_written:
            count = self._lost_in_group - self._lost_written
            self._chain.append(connection, [self._shelf.row(self._summary(count))])

    def settle(self, *, is_committed: bool) -> None:
        on_disk = self._chain.settle(is_committed=is_committed)
        is_relied_on, self._is_relied_on = self._is_relied_on, False
        if is_committed and is_relied_on:
            self._mark.write(*self._chain.head)
        if not is_committed:
            # What waits must not hold more than a row's worth of what was sent.
            self._make_rows(len(self._pending))
            self._in_group = 0
            return
        del self._backlog[: self._in_group]
        self._in_group = 0
        self._news = ()
        self._lost_written = self._lost_in_group
        if self._backlog or self._pending:
            self._flag.is_raised = True
            self.database.nudge()
        if self._followers and on_disk:
            self.database.call_soon(self._tell, tuple(map(AuditRow.of, on_disk)))

    def _make_rows(self, most: int) -> None:
        take, shelf, backlog = self._pending.popleft, self._shelf, self._backlog
        for _ in range(min(most, len(self._pending) // ITEMS)):
            time_ms, action_id, told, duration_ms = take(), take(), take(), take()
            if type(told) is RepeatedRow:
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
            connection, before_ms=before_ms, most=ROWS_REMOVED, now_ms=self.clock.wall_ms()
        )
        if removed:
            arguments = {"last_seq": last.seq, "last_hash": last.hash.hex(), "rows": removed}
            entry = self._event(RETENTION_TOOL, "")._replace(arguments=arguments)
            self._flag.is_open = True
            self._chain.append(connection, [self._shelf.row(entry)])
        return removed

    def _summary(self, count: int) -> Entry:
        return self._event(
            "audit.lost",
            f"{count} rows of reads and refusals since {self._uncounted_since_ms} ms were counted "
            "only, because the database was too far behind.",
        )

    def _event(
        self, name: str, text: str, *, instrument: str = "", part: str = "audit log"
    ) -> Entry:
        return Entry(
            time_ms=self.clock.wall_ms(),
            phase=Phase.EVENT,
            tool=name,
            route="internal",
            client=part,
            instrument=instrument,
            arguments={"text": text},
            outcome="ok",
            is_weighty=True,
        )

    def _tell(self, rows: tuple[AuditRow, ...]) -> None:
        for follower in tuple(self._followers):
            follower(rows)


EVERY_S: Final = 3600.0
DAY_S: Final = 24 * 3600.0
DAY_MS: Final = 24 * 3600 * 1000


def why_implausible(
    *, now_ms: int, expected_ms: int | None, built_ms: int, is_synchronized: bool | None
) -> str:
    """Why a clock is not to be believed; empty where nothing speaks against it.

    Args:
        now_ms: what it says, Unix epoch milliseconds.
        expected_ms: the newest row of the record and the time that has passed since it was found;
            ``None`` where there is no row.
        built_ms: when this program was made.
        is_synchronized: whether a time service keeps it right; ``None`` where nobody tells.
    """
    if now_ms < built_ms:
        return "the clock is before the date of this program"
    if is_synchronized is False:
        return "this machine's time service has not set the clock yet"
    if expected_ms is not None and now_ms > expected_ms + DAY_MS:
        days = (now_ms - expected_ms) / DAY_MS
        return f"the clock is {days:.1f} days ahead of the newest row"
    return ""


@record(frozen=False)
class Retention:
    """Removes what is older than so many days.

    Attributes:
        audit: whose rows.
        clock: for the age and the hour.
        days: AUDIT_RETENTION_DAYS of the configuration.
        is_synchronized: see ``why_implausible``.
        waits: why nothing is removed now, or empty.
    """

    audit: Audit
    clock: Clock
    days: int
    is_synchronized: Callable[[], bool | None]
    waits: str = ""
    # What the clock has to agree with: a time, and the monotonic clock at that moment.
    _believed: tuple[int, float] | None = field(default=None, init=False)
    # The same, of what the clock has said since its last jump.
    _steady: tuple[int, float] | None = field(default=None, init=False)

    async def keep(self) -> None:
        """Remove a day's worth at once and every hour, until cancelled."""
        newest_ms = self.audit.newest_before_ms
        if newest_ms is not None:
            self._believed = (newest_ms, self.clock.monotonic())
        while True:
            await self._look()
            await self.clock.sleep(EVERY_S)

    async def _look(self) -> None:
        now_ms = self.clock.wall_ms()
        self._watch_steadiness(now_ms)
        before, self.waits = (
            self.waits,
            why_implausible(
                now_ms=now_ms,
                expected_ms=self._since(self._believed),
                built_ms=RELEASED_MS,
                is_synchronized=self.is_synchronized(),
            ),
        )
        log = structlog.get_logger("edged.store")
        if self.waits:
            if self.waits != before:
                log.warning("audit_retention_waits", reason=self.waits)
            return
        try:
            oldest_ms = await self.audit.oldest_ms(now_ms)
            if oldest_ms is None:
                return
            removed = await self.audit.retire(min(now_ms - self.days * DAY_MS, oldest_ms + DAY_MS))
        except Failed as failure:
            # The database says by itself how it is; the next hour comes.
            log.info("audit_not_retired", error=failure.message)
        else:
            if removed:
                log.info("audit_retired", rows=removed)

    def _watch_steadiness(self, now_ms: int) -> None:
        """Believe a clock after a gap in the record, once it has gone evenly for a day.

        A bench that was off for weeks has no newer row, and is right all the same.
        """
        expected_ms = self._since(self._steady)
        if self._steady is None or expected_ms is None or abs(now_ms - expected_ms) > DAY_MS:
            self._steady = (now_ms, self.clock.monotonic())
        elif self.clock.monotonic() - self._steady[1] >= DAY_S:
            self._believed = self._steady

    def _since(self, known: tuple[int, float] | None) -> int | None:
        """What the clock should say by a time that was known and what has passed since."""
        if known is None:
            return None
        known_ms, at_s = known
        return known_ms + round((self.clock.monotonic() - at_s) * 1000)
