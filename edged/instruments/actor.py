"""The owner of one line: takes jobs from the mailbox, has the line serve them, and is pre-empted.

The line's work is ``_run``, on a thread or as a greenlet on the loop (``transports.link.Wake``);
everything else belongs to the loop's side. The two meet in the mailbox, in ``_serving`` (written by
the work, read by the loop) and in ``Link.preempt``.

A second line for safe commands and aborts, where the first does not take them in time.

A unit that answers at two addresses has two ways to be made safe. The first is always tried; when
it has not taken the job after ``HEDGE_S``, or has failed, the same is said at the next address,
after the unit has said its name there. Only what is safe is ever said twice.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final, TypeVar

import structlog

from edged.actions.cause import Cause
from edged.clock import Clock
from edged.deadlines import Deadlines
from edged.errors import ErrorCode, Failed
from edged.instruments.conversation import DEFAULT_MAX_BLOCK_MB, Conversation, lines_conversation
from edged.instruments.dialogue import BRING_BACK_S
from edged.instruments.failures import another_unit, being_recovered
from edged.instruments.identify import identify, identify_otherwise
from edged.instruments.in_step import Habits
from edged.instruments.line import NOBODY, BoundInstrument, Line, LineReport
from edged.instruments.line_state import LineState
from edged.instruments.mailbox import Hold, Job, Mailbox, Priority, Waiter
from edged.instruments.trace import JobWatch, JobWatchOf, Trace, TraceEntry
from edged.profiles.match import has_name_form
from edged.profiles.model import Connection
from edged.record import record
from edged.transports.address import Address
from edged.transports.link import Link

LONG_RECOVERY_S: Final = 0.8
"""A recovery that takes longer is no matter of a moment."""
LOOK_AGAIN_S: Final = 0.2
OVERTIME_S: Final = 0.25
"""A job on the wire ends itself at its deadline; so much later its waiter is told without it."""
RELEASE_S: Final = 0.5
"""What ``on_release`` may take of a stop."""

T = TypeVar("T")

log = structlog.get_logger(__name__)


class Actor:
    """The owner of one line.

    Attributes:
        line: what it serves; any thread may ask where that is, why, and who lives there.
        tell: see ``JobOwner``.
    """

    def __init__(
        self,
        *,
        address: Address,
        link: Link,
        clock: Clock,
        is_same_unit: Callable[[str, str], bool],
        report: Callable[[Actor, LineReport], None],
        max_block_mb: int = DEFAULT_MAX_BLOCK_MB,
        watch_of: JobWatchOf | None = None,
    ) -> None:
        """Make a line that is not connected to anything yet.

        Args:
            is_same_unit: whether two ``*IDN?`` answers come from one unit.
            report: told on the event loop when the known unit is lost, back, or another one.
            max_block_mb: a longer block is not read.
            watch_of: who wants to be told of jobs, if anybody does.
        """
        self.address = address
        self._link = link
        self._clock = clock
        self._watch_of = watch_of
        self._loop = asyncio.get_running_loop()
        self._wake = link.wake
        self.tell = self._wake.teller(self._loop)
        self._mailbox = Mailbox(self._wake.tokens())
        self._trace = Trace(clock)
        self.line = Line(
            name=address.text,
            link=link,
            clock=clock,
            trace=self._trace,
            cleaning=address.transport.cleaning,
            # A port that units share stays open when one of them is opened anew.
            keeps_old_answers=address.transport.keeps_old_answers or bool(address.bus),
            has_messages=address.transport.has_messages,
            is_same_unit=is_same_unit,
            report=partial(self.tell, partial(report, self)),
            max_block_mb=max_block_mb,
        )
        # Numbers of what the thread does, in that order; pre-emption goes by them.
        self._tickets = itertools.count(1)
        # What the thread works for now: its ticket, and the job if there is one.
        self._serving: tuple[int, Job | None] | None = None
        self._is_stopping = False
        self._end_reason = ""
        self._release_by = 0.0
        self._deadlines = Deadlines(self._loop, self._expire)
        # Set on the loop by the thread's last act.
        self._ended = asyncio.Event()
        self._worker = self._wake.worker(self._run, f"edged-line-{address.text}")

    @property
    def is_idle(self) -> bool:
        """The line is ready, and nobody is or waits to be served."""
        is_free = self._serving is None and len(self._mailbox) == 0 and not self._mailbox.is_held
        return is_free and self.line.state is LineState.READY

    @property
    def waiting(self) -> int:
        """How many wait to be served, beside the one that is."""
        return len(self._mailbox)

    @property
    def is_serving(self) -> bool:
        """Somebody is being served now, or the line looked after."""
        return self._serving is not None

    def start(self) -> None:
        """Let the thread run; nothing is connected before the first job."""
        self._worker.start()

    def settle(self, bound: BoundInstrument) -> None:
        """Say who lives here from now on; jobs meant for another unit fail from now on."""
        self.line.bound = bound
        if bound.number:
            self._mailbox.nudge()

    def vacate(self) -> None:
        """Nobody is known here any more; the connection is let go of."""
        self.line.bound = NOBODY
        self._mailbox.nudge()

    def look(self) -> None:
        """Have an idle line noticed whether its peer has left; sends nothing to it.

        Its thread is only woken where that cannot be seen from here: with hundreds of lines, waking
        each of them cost more than all else that an idle engine does.
        """
        if self._serving is not None or len(self._mailbox) > 0:
            return
        if self.line.state is LineState.READY and self._link.is_quiet():
            return
        self._mailbox.nudge()

    def has_overheard(self, line: str) -> bool:
        """Whether something has come as if to answer a line that asks nothing.

        Otherwise an idle line is looked at, so that it is known the next time; on a wire with
        messages by its status byte.
        """
        if self.line.has_overheard(line):
            return True
        if self.is_idle and not self._link.is_quiet():
            self.line.awaited = line
            self._mailbox.nudge()
        return False

    def let_go(self) -> None:
        """Have the connection closed, once what is on the wire is done, if nobody lives here."""
        self._mailbox.nudge()

    def exchanges(self) -> list[TraceEntry]:
        """The last exchanges, oldest first."""
        return self._trace.exchanges()

    def recent(self) -> list[dict[str, object]]:
        """The last few, shortened, for the data of a failure."""
        return self._trace.tail()

    async def converse(
        self,
        make: Callable[[], Conversation[T]],
        *,
        unit: int,
        priority: Priority,
        timeout_s: float,
        name: str,
        cause: Cause | None = None,
    ) -> T:
        """Hold a conversation on the line, in its turn. See ``Instrument.converse``.

        Args:
            unit: number of the unit this is meant for; 0 is whoever answers.
        """
        future: asyncio.Future[T] = self._loop.create_future()
        job = self.submit(
            make,
            future,
            unit=unit,
            priority=priority,
            timeout_s=timeout_s,
            name=name,
            cause=cause,
        )
        try:
            return await future
        except asyncio.CancelledError:
            job.withdraw()
            raise

    def submit(
        self,
        make: Callable[[], Conversation[Any]],
        waiter: Waiter,
        *,
        unit: int,
        priority: Priority,
        timeout_s: float,
        name: str,
        hold: Hold | None = None,
        cause: Cause | None = None,
        own_s: float | None = None,
        listens: bool = False,
    ) -> Job:
        """``converse`` for whoever waits in no task: ``waiter`` is told on the loop, once.

        Args:
            hold: keeps the line once it was served.
            own_s: its own time limit, without what it waits for others; ``None``: the line's.
            listens: see ``Job``.

        Raises:
            Failed: DISCONNECTED, the line is being closed.
            Conflict: BUSY, too many jobs wait already.
        """
        if own_s is None:
            own_s = self.line.bound.connection.timeout_ms / 1000
        now, soon_s = self._clock.monotonic(), min(timeout_s, own_s + BRING_BACK_S)
        job = Job(
            make=make,
            priority=priority,
            name=name,
            deadline=now + timeout_s,
            own_s=own_s,
            submitted_at=now,
            rest_s=timeout_s - soon_s,
            listens=listens,
            unit=unit,
            future=waiter,
            owner=self,
            hold=hold,
        )
        if self._is_stopping:
            raise self._closed(job)
        if self._watch_of is not None:
            job.watch = self._watch_of(name)
        if hold is not None:
            hold.on(self._mailbox)
        self._mailbox.put(job)
        if priority is Priority.SAFE:
            self._make_way(cause or Cause(f"by {name}"))
        self._deadlines.add(job, soon_s)
        return job

    def try_stop(self, waiter: Waiter, timeout_s: float) -> None:
        """Put in what a stop would put in: ``waiter`` is told when that is taken. Sends nothing.

        What is on the wire is let be, which a stop would not; so it may take as long as that.

        Raises:
            Failed: DISCONNECTED, the line is being closed.
            Conflict: BUSY, too many jobs wait already.
        """
        job = Job(
            make=_nothing_said,
            priority=Priority.SAFE,
            name="trial",
            deadline=self._clock.monotonic() + timeout_s,
            unit=0,
            future=waiter,
            owner=self,
            is_trial=True,
        )
        if self._is_stopping:
            raise self._closed(job)
        self._mailbox.put(job)
        self._deadlines.add(job, timeout_s)

    def forget(self, job: Job) -> None:
        self._deadlines.discard(job)
        if job.watch is not None:
            job.watch.taken()

    def withdraw(self, job: Job) -> None:
        self.forget(job)
        job.is_withdrawn = True
        if self._mailbox.withdraw(job):
            return
        serving = self._serving
        if serving is not None and serving[1] is job:
            self._link.preempt(serving[0])

    async def stop(self, timeout_s: float, reason: str = "") -> bool:
        """End the thread: what is on the wire is pre-empted, what waits fails, last words are said.

        Args:
            reason: what happened to the line, as a clause, for those whose jobs end with it.

        Returns:
            False when the thread sits in a call that cannot be woken and was left behind (it is a
            daemon thread and ends with that call).
        """
        self._end_reason = reason
        self.line.end_reason = reason
        self._is_stopping = True
        self.line.is_stopping = True
        self._release_by = self._clock.monotonic() + min(RELEASE_S, timeout_s)
        for job in self._mailbox.drain():
            job.fail(self._closed(job))
        serving = self._serving
        if serving is not None:
            self._link.preempt(serving[0])
        self._mailbox.nudge()
        if not self._worker.is_alive():
            self._link.release()
            return True
        try:
            async with asyncio.timeout(timeout_s):
                await self._ended.wait()
        except TimeoutError:
            log.warning(
                "line_thread_left_behind", line=self.address.text, state=self.line.state.value
            )
            return False
        self._worker.join(1.0)
        self._link.release()
        return True

    # The line's work

    def _run(self) -> None:
        while not self._is_stopping:
            job = self._mailbox.take(self.line.idle_s())
            if job is None:
                self._heal()
            else:
                self._serve(job)
        # One that made way for a safe job in the moment of the stop was put back behind its drain.
        for job in self._mailbox.drain():
            job.fail(self._closed(job))
        bound = self.line.bound
        release = lines_conversation(bound.connection.on_release, bound.connection)
        self.line.release(next(self._tickets), release, self._release_by)
        self.tell(lambda _: self._ended.set(), None)

    def _serve(self, job: Job) -> None:
        ticket = next(self._tickets)
        self._serving = (ticket, job)
        # A stop or a safe job that came before the line above did not see this job on the wire and
        # has pre-empted nothing: it is looked for here.
        if self._is_stopping:
            job.fail(self._closed(job))
        elif job.is_trial:
            job.deliver(None)
        elif job.priority is not Priority.SAFE and self._mailbox.safe:
            self._mailbox.put_back(job)
        else:
            if job.hold is not None:
                # Before its answer is told: whoever reads that ends the hold.
                self._mailbox.hold(job.hold)
            if job.watch is None:
                self.line.serve(job, ticket)
            else:
                self._serve_watched(job, job.watch, ticket)
        self._serving = None

    def _serve_watched(self, job: Job, watch: JobWatch, ticket: int) -> None:
        watch.taken()
        self._trace.watch = watch
        try:
            self.line.serve(job, ticket)
        finally:
            self._trace.watch = None
            watch.over()

    def _heal(self) -> None:
        ticket = next(self._tickets)
        self._serving = (ticket, None)
        if not self._mailbox.safe and not self._is_stopping:
            self.line.heal(ticket)
        self._serving = None

    # Small things of the loop's side

    def _make_way(self, cause: Cause) -> None:
        """Free the wire for a safe job, unless another safe job is on it."""
        serving = self._serving
        if serving is None:
            return
        ticket, job = serving
        if job is None or job.priority is not Priority.SAFE:
            if job is not None:
                job.ended_for = job.ended_for or cause
            self._link.preempt(ticket)

    def _expire(self, job: Job) -> None:
        """A job's time is over: one that waits is taken out, one on the wire ends itself.

        Behind other work it may wait for longer than behind the recovery of its line.
        """
        is_waiting = job is not (self._serving or (0, None))[1]
        recovering_s = self.line.recovering_s if is_waiting else 0.0
        is_hung = recovering_s > LONG_RECOVERY_S
        if job.rest_s and not is_hung:
            # One that has just begun may be over at once.
            more_s = min(job.rest_s, LOOK_AGAIN_S) if recovering_s else job.rest_s
            job.rest_s -= more_s
            self._deadlines.add(job, more_s)
        elif self._mailbox.withdraw(job):
            job.fail(self._untaken(job, is_recovering=is_hung))
        else:
            self._loop.call_later(OVERTIME_S, self._expire_serving, job)

    def _untaken(self, job: Job, *, is_recovering: bool) -> Failed:
        """Why a job has waited in vain."""
        text = self.address.text
        why = f"the line to {text} was busy with other work until the time limit."
        if is_recovering:
            why = f"{text} did not answer in time. {being_recovered(self.line.unanswered)}"
        return Failed(
            f"{job.name} was not sent: {why}",
            code=ErrorCode.TIMEOUT,
            data={"address": text, "line_state": self.line.state.value},
        )

    def _expire_serving(self, job: Job) -> None:
        """The line sits in a call that outlasts the job's deadline: not all can be woken."""
        if job.future.done():
            return
        self.withdraw(job)
        job.fail(
            Failed(
                f"{self.address.text} did not answer in time.",
                code=ErrorCode.TIMEOUT,
                data={"address": self.address.text, "line_state": self.line.state.value},
                sent=job.sent,
            )
        )

    def _closed(self, job: Job) -> Failed:
        return Failed(
            f"{job.name} was not sent: "
            f"{self._end_reason or f'the line to {self.address.text} is being closed'}.",
            code=ErrorCode.DISCONNECTED,
            data={"address": self.address.text},
        )


def _nothing_said() -> Conversation[None]:
    yield from ()


HEDGE_S: Final = 0.25
"""A stop has 0.5 s (docs/promises.md section 13): opening the other line and *IDN? take of it."""
UNTAKEN: Final = frozenset({ErrorCode.TIMEOUT, ErrorCode.DISCONNECTED, ErrorCode.PREEMPTED})
"""What another line may mend. An instrument's own complaint has come from the instrument."""

Road = Callable[[], Awaitable[T]]


@record
class OtherLine:
    """A line to another address of a unit; nobody lives there while the unit is known elsewhere.

    Attributes:
        connection: as its transport and INSTRUMENTS want it at that address.
        idn: what the unit answers to ``*IDN?``.
        habits: how it has been seen to answer.
    """

    actor: Actor
    connection: Connection
    idn: str
    habits: Habits

    def prepare(self) -> None:
        """Have the line speak as that address wants it."""
        if self.actor.line.bound.number == 0:
            bound = BoundInstrument(connection=self.connection, idn=self.idn, habits=self.habits)
            self.actor.settle(bound)

    def leave(self) -> None:
        """Let go of the connection: the line is another's, or nobody's."""
        if self.actor.line.bound.number == 0:
            self.actor.let_go()


def named_first(
    make: Callable[[], Conversation[T]],
    is_wanted: Callable[[str], bool],
    connection: Connection,
    address: str,
) -> Callable[[], Conversation[T]]:
    """A conversation that is held with the wanted unit only.

    Raises:
        Failed: DISCONNECTED, another one answers; nothing but the question was sent.
    """

    def talk() -> Conversation[T]:
        if connection.asks_idn:
            idn = yield from identify(lambda idn: is_wanted(idn) or has_name_form(idn))
        else:
            idn = yield from identify_otherwise(connection)
        if not is_wanted(idn):
            raise another_unit("Another unit", address)
        return (yield from make())

    return talk


async def first_to_take(roads: Sequence[Road[T]]) -> T:
    """What comes of the first road that works; each is begun when those before are late or failed.

    Raises:
        Failed: what the first road failed with, when none works; or the instrument's own complaint.
    """
    running: list[asyncio.Task[T]] = []
    try:
        for road in roads:
            running.append(asyncio.ensure_future(_come(road)))
            await asyncio.wait(running, timeout=HEDGE_S, return_when=asyncio.FIRST_COMPLETED)
            done = _settled(running)
            if done is not None:
                return await done
        while waiting := [task for task in running if not task.done()]:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            done = _settled(running)
            if done is not None:
                return await done
        return await running[0]
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def _come(road: Road[T]) -> T:
    return await road()


def _settled(running: Sequence[asyncio.Task[T]]) -> asyncio.Task[T] | None:
    """A road that is at its end: it worked, or failed in a way that no other road mends."""
    for task in running:
        if not task.done():
            continue
        error = task.exception()
        if not isinstance(error, Failed) or error.code not in UNTAKEN:
            return task
    return None
