"""A line as its own work sees it: one link, its state, and how a job is served on it.

All of it runs in the actor's work, but for ``bound``, which the loop assigns whole, and plain
attributes that anybody may read. It knows nothing of threads or loops: a test drives it by hand.

The promises kept here: a line that is not clean is made clean before the next command; nothing that
was sent is ever sent again by itself; after a reconnect, and after a time-out whatever the line is,
the same unit must answer before it is driven. A safe job alone does not wait for that last one
while nothing but silence spoke against the unit: a stop must not wait for an instrument that is
busy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any, Final, NoReturn

import structlog

from edged.changes import TOLD
from edged.clock import Clock
from edged.errors import EdgedError, Failed, after_sending
from edged.instruments.conversation import (
    DEFAULT_MAX_BLOCK_MB,
    Conversation,
    KnownQuestion,
    NotAcknowledged,
    greet,
    write_lines,
)
from edged.instruments.dialogue import BRING_BACK_S, SLACK_S, Dialogue
from edged.instruments.failures import another_unit, failure, fault
from edged.instruments.identify import (
    IDENTITY_QUESTION,
    identify_again,
    identify_known,
    identify_otherwise,
    known_by_heart,
)
from edged.instruments.in_step import Habits, Owed
from edged.instruments.line_state import (
    TRANSITIONS,
    LineEvent,
    LineState,
    next_line_state,
    retry_delay_s,
)
from edged.instruments.mailbox import Job, Priority
from edged.instruments.trace import Trace
from edged.patterns import found_in
from edged.profiles.model import Connection
from edged.record import record
from edged.transports.address import Cleaning
from edged.transports.link import (
    Link,
    LinkError,
    LinkGarbled,
    LinkLost,
    LinkPreempted,
    LinkTimeout,
    Since,
    Urgency,
)

MIN_ATTEMPT_GAP_S: Final = 0.25
"""Jobs on a lost line each try once to reopen it, but not more often than this."""
SAFE_IDENTITY_S: Final = 1.0
"""How long a safe job waits for ``*IDN?`` where the connection had been lost."""

log = structlog.get_logger(__name__)


@record
class BoundInstrument:
    """Who lives at the other end: number 0 is nobody known yet.

    Attributes:
        idn: what it answered to ``*IDN?`` when it registered.
        greeted_at: number of the connection (``Line.openings``) on which that happened.
        proof: what takes the place of ``*IDN?`` for a unit that does not know it.
        habits: how it has been seen to answer; on every line the same.
    """

    number: int = 0
    idn: str = ""
    greeted_at: int = -1
    connection: Connection = field(default_factory=Connection)
    proof: Callable[[], Conversation[str]] | None = None
    habits: Habits = field(default_factory=Habits)


NOBODY: Final = BoundInstrument()


@record
class LineUp:
    """The known unit answers again."""

    unit: int


@record
class LineDown:
    """The known unit could not be reached; the line goes on trying."""

    unit: int
    reason: str


@record
class UnitChanged:
    """Somebody else answers where the known unit used to; nothing is sent until a new adoption."""

    unit: int
    idn: str


LineReport = LineUp | LineDown | UnitChanged

Gate = Callable[[str], None]
"""Raises ``Failed`` where this must not be sent now, although it is this work's turn."""


class Line:
    """One link and everything that is known of its condition."""

    def __init__(
        self,
        *,
        name: str,
        link: Link,
        clock: Clock,
        trace: Trace,
        cleaning: Cleaning,
        keeps_old_answers: bool = False,
        has_messages: bool = False,
        is_same_unit: Callable[[str, str], bool],
        report: Callable[[LineReport], None],
        max_block_mb: int = DEFAULT_MAX_BLOCK_MB,
    ) -> None:
        self.state = LineState.LOST
        # Replaced as a whole by the loop when a unit registers here or is found to be another.
        self.bound = NOBODY
        # Why the line is not ready, for people; empty while it is.
        self.reason = "not connected yet"
        self._why = ""
        # What was asked last on the connection that stands was not answered in time, until the unit
        # has said who it is. Any thread may read it.
        self.is_silent = False
        # The last that was not answered in time, until the unit answers again.
        self.unanswered = ""
        # Asked before whatever is sent that does not make safe; set by the loop.
        self.gate: Gate | None = None
        # Counts connections and clears: who was greeted since need not prove itself again.
        self.openings = 0
        # Set by the loop before the work is asked to end: pre-empted waits are then no offence.
        self.is_stopping = False
        # Why, as a clause; empty when the daemon itself ends.
        self.end_reason = ""
        self._name = name
        self._link = link
        self._clock = clock
        self._trace = trace
        self._cleaning = cleaning
        # Reopening is no new beginning here: answers to earlier questions may still come.
        self._keeps_old_answers = keeps_old_answers
        # *IDN? that were asked in vain on such a line, and may still be answered.
        self._owed_names = 0
        self._tuned_for: Connection | None = None
        self._is_same_unit = is_same_unit
        self._report = report
        # A line that asks nothing and that a program may read the answer of; set by the loop.
        self.awaited = ""
        # Since when it is cleaned, opened or proved; None while it is not.
        self._recovering_since: float | None = None
        self._dialogue = Dialogue(
            link=link,
            clock=clock,
            trace=trace,
            known=self._known,
            has_messages=has_messages,
            max_block_mb=max_block_mb,
        )
        # The unit bound here has not proved who it is since the line was last opened.
        self._owes_identity = True
        # Nothing but silence speaks against the unit bound here since it last proved who it is.
        self._is_trusted = False
        # The lines of ``before`` that were said, if no other unit of the port was spoken to since.
        self._selected_by: tuple[str, ...] | None = None
        # What comes in this turn may be an answer of another unit of the port.
        self._is_mixed = False
        # LineDown has been reported and LineUp not yet.
        self._is_down = False
        self._failures = 0
        self._failed_at = float("-inf")
        # The unit bound here in whose place another unit was found.
        self._foreign_to: BoundInstrument | None = None

    @property
    def heard_at(self) -> float:
        """When the last answer came; any thread may ask."""
        return self._dialogue.heard_at

    @property
    def recovering_s(self) -> float:
        """How long whatever waits for the line has waited for its recovery; any thread may ask."""
        since = self._recovering_since
        return 0.0 if since is None else self._clock.monotonic() - since

    def has_overheard(self, line: str) -> bool:
        """Whether something has come as if to answer a line that asks nothing; any thread."""
        return self._dialogue.has_overheard(line)

    # What the work does

    def serve(self, job: Job, ticket: int) -> None:
        """Do one job from beginning to end, and deliver what came of it. Never raises."""
        bound = self.bound
        if job.is_withdrawn:
            return
        refusal = self._refusal(job, bound)
        if refusal is not None:
            job.fail(refusal)
            return
        self._link.begin(ticket)
        is_safe = job.priority is Priority.SAFE
        self._dialogue.gate = None if is_safe else self.gate
        if not self._link.is_shared:
            self._serve_in_turn(job, bound, is_safe=is_safe)
            return
        try:
            self._take_turn(job.deadline, Urgency.SAFE if is_safe else Urgency.WORK)
        except LinkError as error:
            # Other units have the port: that says nothing about this one.
            job.fail(self._told(error, job))
            return
        try:
            self._serve_in_turn(job, bound, is_safe=is_safe)
        finally:
            self._link.end_turn(is_clean=self.state is LineState.READY)

    def _serve_in_turn(self, job: Job, bound: BoundInstrument, *, is_safe: bool) -> None:
        began = self._clock.monotonic()
        try:
            was_ready = self._make_ready(
                bound,
                self._recover_by(job, bound),
                is_safe=is_safe,
                listens=job.listens,
                job=job,
            )
            self._enter(LineEvent.WORK)
            heard_at = self._dialogue.heard_at
            result = self._dialogue.hold(
                job.make(),
                bound.connection,
                job.deadline,
                job,
                is_looked_at=was_ready,
                since=None if was_ready else began,
            )
            if self._is_mixed:
                has_heard = self._dialogue.heard_at != heard_at
                self._dialogue.confirm(bound.connection, job.deadline, has_heard=has_heard)
        except LinkError as error:
            if isinstance(error, LinkPreempted) and error.leaves_clean:
                self._settle()
            else:
                self._spoil(error)
            if isinstance(error, LinkTimeout) and not job.sent:
                self._note_unanswered()
            job.fail(self._told(error, job))
            if isinstance(error, LinkTimeout) and job.sent:
                self.unanswered = job.sent[-1]
        except EdgedError as error:
            if isinstance(error, NotAcknowledged):
                self._spoil(LinkTimeout(error.message.rstrip(".")))
                self.unanswered = job.sent[-1] if job.sent else ""
            else:
                self._settle()
            told = after_sending(error, job.sent)
            if isinstance(told, Failed):
                told.data.setdefault("trace", self._trace.tail())
            job.fail(told)
        except Exception as error:  # noqa: BLE001 - top of a job: a bug must not end the work
            self._spoil(LinkGarbled(str(error)))
            job.fail(fault(error, job, name=self._name, at_ms=self._clock.wall_ms()))
        else:
            self._enter(LineEvent.DONE)
            job.deliver(result)

    def heal(self, ticket: int) -> None:
        """Nobody waits: look after the line. Never raises.

        Cleans it, reconnects it, or only notices that the peer has left; one without a unit
        is let go of.
        """
        bound = self.bound
        if bound.number == 0:
            if self.state is not LineState.LOST:
                self._lose(LinkLost("no instrument is known here"))
            return
        if self._foreign_to is bound:
            return
        self._link.begin(ticket)
        connection = bound.connection
        patience_s = (connection.open_timeout_ms + 2 * connection.timeout_ms) / 1000
        deadline = self._clock.monotonic() + patience_s
        is_well = self.state is LineState.READY and not self._owes_identity
        try:
            # Where others use the port, it is there.
            self._take_turn(self._clock.monotonic() if is_well else deadline, Urgency.IDLE)
        except LinkError:
            return
        try:
            self._heal_in_turn(bound, deadline)
        finally:
            self._link.end_turn(is_clean=self.state is LineState.READY)

    def _heal_in_turn(self, bound: BoundInstrument, deadline: float) -> None:
        self._dialogue.gate = self.gate
        try:
            awaited, self.awaited = self.awaited, ""
            if self._make_ready(bound, deadline, is_safe=False, is_idle=True) and awaited:
                self._dialogue.overhear(awaited, bound.connection, deadline)
        except LinkError as error:
            if isinstance(error, LinkPreempted):
                # It is tried again later, so that other units of the port are not held up.
                self._failed_at = self._clock.monotonic()
                self._failures += 1
            self._spoil(error)
        except EdgedError as error:
            self._trace.note(str(error))
        except Exception as error:
            log.exception("line_heal_failed", line=self._name)
            self._spoil(LinkGarbled(str(error)))

    def idle_s(self) -> float | None:
        """Seconds until ``heal`` is due; ``None`` while there is nothing to heal."""
        if self.bound.number == 0 or self._foreign_to is self.bound:
            return None
        if self.state is LineState.READY and not self._owes_identity:
            return None
        if self._failures:
            due = self._failed_at + retry_delay_s(self._failures)
            return max(0.0, due - self._clock.monotonic())
        return 0.0

    def release(self, ticket: int, lines: Conversation[Any], deadline: float) -> None:
        """Say the last words on a healthy line, and let go of it. Never raises."""
        if self.state is LineState.READY and not self._owes_identity:
            self._link.begin(ticket)
            self._dialogue.gate = self.gate
            try:
                self._take_turn(deadline, Urgency.WORK)
                self._select(self.bound, deadline, None)
                self._dialogue.hold(lines, self.bound.connection, deadline, None)
            except (LinkError, EdgedError) as error:
                self._trace.note(f"release failed: {error}")
            finally:
                self._link.end_turn(is_clean=self.state is LineState.READY)
        self._link.close()
        self._enter(LineEvent.STOP)

    # How a line becomes ready

    def _refusal(self, job: Job, bound: BoundInstrument) -> Failed | None:
        """Why a job is not even tried, if it is not."""
        if job.unit != bound.number or self._foreign_to is self.bound:
            return another_unit(f"{job.name} was not sent: another unit", self._name)
        now = self._clock.monotonic()
        if now >= job.deadline:
            return self._told(LinkTimeout("its time was over before its turn came"), job)
        is_hasty = now < self._failed_at + MIN_ATTEMPT_GAP_S
        if self.state is LineState.LOST and is_hasty and job.priority is not Priority.SAFE:
            return self._told(LinkLost(self.reason, self._why), job)
        return None

    def _take_turn(self, deadline: float, urgency: Urgency) -> None:
        """Wait for the port, where other units share it.

        Raises:
            LinkError: they did not leave it in time, or a stop wants the line.
        """
        since = self._link.take_turn(max(0.0, deadline - self._clock.monotonic()), urgency)
        self._is_mixed = False
        if since is Since.NOTHING:
            return
        if Since.ANOTHER in since:
            self._selected_by = None
            self._dialogue.in_step.interrupted()
        self._is_mixed = Since.UNANSWERED in since

    def _select(self, bound: BoundInstrument, deadline: float, job: Job | None) -> None:
        """Say what must be said before this unit listens, where it has not been said.

        Raises:
            LinkError: the wire failed, or nothing acknowledged it.
            Failed: it was answered by something else.
        """
        lines = bound.connection.before
        if lines and self._selected_by != lines:
            # Where an answer of another unit may still come, it is passed over.
            select = write_lines(lines, bound.connection, is_urgent=self._is_mixed)
            try:
                self._dialogue.hold(select, bound.connection, deadline, job, is_selecting=True)
            except NotAcknowledged as error:
                raise LinkTimeout(error.message.rstrip(".")) from error
        self._selected_by = lines

    def _recover_by(self, job: Job, bound: BoundInstrument) -> float:
        """When a job must have its line: a call ends within its own time limit and a moment.

        What it has waited counts where it waited for a unit that does not answer.
        """
        if bound.number == 0 or job.priority is Priority.SAFE:
            return job.deadline
        now = self._clock.monotonic()
        is_hung = bool(self.unanswered) or self.state is not LineState.READY
        since = job.submitted_at if is_hung else now
        return min(job.deadline, max(since + job.own_s + BRING_BACK_S, now + SLACK_S))

    def _make_ready(
        self,
        bound: BoundInstrument,
        deadline: float,
        *,
        is_safe: bool,
        is_idle: bool = False,
        job: Job | None = None,
        listens: bool = False,
    ) -> bool:
        """Come back with a connected, empty line on which the unit bound here is known to listen.

        Args:
            listens: nothing is asked: what was not asked for is what is waited for.
            is_idle: nobody waits: a line that is out of step may stay so until somebody asks.

        Returns:
            Whether it was that already, as a look has just shown.

        Raises:
            LinkError: it cannot be had now.
            Failed: DISCONNECTED, another unit answers.
        """
        if self._tuned_for is not bound.connection:
            self._link.tune(bound.connection)
            self._tuned_for = bound.connection
        in_step = self._dialogue.in_step
        if in_step.habits is not bound.habits:
            self._dialogue.know(bound.habits)
        is_there = self.state is LineState.READY
        if is_there and not listens:
            try:
                if unasked := self._link.pending():
                    self._dialogue.left_over(unasked, self.bound.connection)
            except LinkLost as error:
                self._lose(error)
                is_there = False
        if is_there and not self._owes_identity:
            if is_idle or listens:
                return True
            if self._selected_by != bound.connection.before:
                self._select(bound, deadline, job)
            is_name_owed = in_step.owed and in_step.owed & Owed.NAME
            if is_safe or not is_name_owed or self._comes_in_step(bound, deadline):
                return True
        self._recovering_since = self._clock.monotonic()
        try:
            self._recover(bound, deadline, is_safe=is_safe, job=job)
        finally:
            self._recovering_since = None
        return False

    def _recover(
        self, bound: BoundInstrument, deadline: float, *, is_safe: bool, job: Job | None
    ) -> None:
        """Clean or open the line, and have its unit prove who it is."""
        if self.state is LineState.RECOVERING:
            self._clean(deadline)
        if self.state is LineState.LOST:
            self._open(bound, deadline)
        if self._owes_identity and bound.greeted_at == self.openings:
            self._accept(bound)
        if not (self._owes_identity and bound.number) or (is_safe and self._is_trusted):
            self._select(bound, deadline, job)
        if self._owes_identity and bound.number and not (is_safe and self._is_trusted):
            self._prove(bound, deadline, is_safe=is_safe)

    def _comes_in_step(self, bound: BoundInstrument, deadline: float) -> bool:
        """Bring the line back as it is; where that fails, it is to be cleaned or opened anew."""
        # An instrument that is at work says its name late, and a clear would end its work.
        patience_s = (deadline - self._clock.monotonic()) / 2
        try:
            self._dialogue.come_in_step(bound.connection, deadline, patience_s=patience_s)
        except LinkPreempted:
            raise
        except LinkError as error:
            if self._left(deadline) < SLACK_S:
                # No time is left to open it again; that is done when nobody waits.
                raise
            self._spoil(error)
            return False
        return True

    def _clean(self, deadline: float) -> None:
        if self._cleaning is Cleaning.CLEAR_OR_REOPEN and self._link.clear(self._left(deadline)):
            # A clear that was acknowledged proves neither that what was asked is forgotten, nor
            # that the same unit hangs behind the adapter or gateway still.
            self._trace.note("cleared")
            self._selected_by = None
            self._owes_identity = True
            self.openings += 1
            self._dialogue.in_step.begin(is_fresh=False)
            self._enter(LineEvent.CLEAN)
            return
        self._link.close()
        self._enter(LineEvent.LOST)

    def _open(self, bound: BoundInstrument, deadline: float) -> None:
        self._enter(LineEvent.CONNECT)
        self._selected_by = None
        self._owes_identity = True
        self.openings += 1
        self._link.close()
        try:
            self._link.open(min(bound.connection.open_timeout_ms / 1000, self._left(deadline)))
            self._link.pending()
        except LinkPreempted:
            self._enter(LineEvent.LOST)
            raise
        except LinkError as error:
            self._give_up(error)
        self._trace.note("opened")
        self._dialogue.in_step.begin(is_fresh=not self._keeps_old_answers)
        self._enter(LineEvent.CLEAN)

    def _prove(self, bound: BoundInstrument, deadline: float, *, is_safe: bool) -> None:
        """Have the unit say who it is, and greet it as its profile wants.

        Raises:
            LinkError: it did not answer; the line is lost again.
            Failed: DISCONNECTED, somebody else answered.
        """
        if is_safe:
            deadline = min(deadline, self._clock.monotonic() + SAFE_IDENTITY_S)
        in_step = self._dialogue.in_step
        is_fresh = not in_step.owed and not in_step.unproved
        # A stop waits for no silence; what is still owed is left to its own questions.
        waits = not is_fresh and not is_safe
        try:
            if waits:
                self._dialogue.rest(bound.connection, Owed.QUIET, deadline)
            self._select(bound, deadline, None)
            in_step.begin(is_fresh=True)
            idn = self._dialogue.hold(
                self._identify(bound, is_fresh=is_fresh, is_safe=is_safe),
                bound.connection,
                deadline,
                None,
            )
            if self._dialogue.is_suspect:
                raise LinkGarbled("the question that identifies it got an invalid answer")
            is_known = self._is_same_unit(bound.idn, idn)
            if is_known and waits:
                self._dialogue.rest(bound.connection, Owed.QUIET, deadline)
            known = self._known()
            asked = IDENTITY_QUESTION if known is None else known.question
            in_step.proved(self._clock.monotonic(), asked)
            if not is_fresh and is_safe:
                in_step.doubt()
            if is_known and not is_safe:
                self._dialogue.hold(greet(bound.connection), bound.connection, deadline, None)
        except LinkPreempted:
            raise
        except (LinkError, EdgedError) as error:
            self._give_up(error if isinstance(error, LinkError) else LinkGarbled(str(error)))
        if not is_known:
            self._refuse(bound, idn)
        self._is_trusted = True
        self._owed_names = 0
        if not is_safe:
            self._accept(bound)

    def _known(self) -> KnownQuestion | None:
        """What the unit bound here answers, as far as it is known by heart."""
        bound = self.bound
        if not bound.idn:
            return None
        if bound.proof is not None:
            probe = bound.connection.probe
            if probe is None:
                return None
            expected = probe.expect
            return KnownQuestion(
                question=probe.query,
                is_answer=lambda line: found_in(line, expected) is not None,
            )
        return known_by_heart(
            bound.connection, lambda idn: bool(idn) and self._is_same_unit(bound.idn, idn)
        )

    def _identify(
        self, bound: BoundInstrument, *, is_fresh: bool, is_safe: bool
    ) -> Conversation[str]:
        if bound.proof is not None:
            return bound.proof()
        if not bound.connection.asks_idn:
            return identify_otherwise(bound.connection)

        def is_known(idn: str) -> bool:
            return self._is_same_unit(bound.idn, idn)

        if is_fresh:
            return identify_known(bound.idn, is_known)
        owed, self._owed_names = self._owed_names, self._owed_names + 1
        return identify_again(is_known, owed=0 if is_safe else owed)

    def _accept(self, bound: BoundInstrument) -> None:
        """The unit has proved who it is on this very connection, and has been greeted."""
        self._is_trusted = True
        self._owes_identity = False
        self.is_silent = False
        TOLD.note()
        self.unanswered = ""
        self._failures = 0
        self.reason = ""
        if self._is_down:
            self._is_down = False
            self._report(LineUp(unit=bound.number))

    def _refuse(self, bound: BoundInstrument, idn: str) -> NoReturn:
        self._lose(LinkLost("another unit answers"))
        self._foreign_to = bound
        self._report(UnitChanged(unit=bound.number, idn=idn))
        log.warning("line_unit_changed", line=self._name, known=bound.idn[:200], found=idn[:200])
        raise another_unit("Another unit", self._name)

    # How a line becomes unready

    def _spoil(self, error: LinkError) -> None:
        """Note that what is on the line now belongs to nobody."""
        self._trace.note(f"{type(error).__name__}: {error}")
        self._selected_by = None
        if isinstance(error, LinkLost):
            self._lose(error)
        elif self.state in {LineState.BUSY, LineState.READY}:
            self.is_silent = isinstance(error, LinkTimeout)
            if self.is_silent:
                self.reason = str(error)
            self._enter(LineEvent.SPOILED)
        elif self.state is LineState.CONNECTING:
            self._lose(LinkLost(str(error)))

    def _settle(self) -> None:
        """After a conversation ended itself by an error."""
        self._selected_by = None
        if self.state is LineState.BUSY:
            self._enter(LineEvent.DONE)

    def _lose(self, error: LinkLost) -> None:
        """The connection itself has ended: whoever comes next must prove who it is."""
        self._link.close()
        self._selected_by = None
        self._is_trusted = False
        self._owes_identity = True
        self.is_silent = False
        self.reason, self._why = str(error), error.why
        self._enter(LineEvent.LOST)

    def _give_up(self, error: LinkError) -> NoReturn:
        """One attempt to reach the unit has failed; count it, tell it, raise it as lost."""
        was_connected = self.state is LineState.READY
        self._link.close()
        self._selected_by = None
        self._enter(LineEvent.LOST)
        self._failures += 1
        self._failed_at = self._clock.monotonic()
        self.reason, self._why = str(error), error.why
        # Connected but silent is a busy instrument; refused or unreachable may be anybody's end.
        self.is_silent = was_connected and isinstance(error, LinkTimeout)
        TOLD.note()
        if self.is_silent:
            self._note_unanswered()
        self._is_trusted = self._is_trusted and self.is_silent
        bound = self.bound
        if bound.number and not self._is_down:
            self._is_down = True
            self._report(LineDown(unit=bound.number, reason=self.reason))
        if isinstance(error, LinkTimeout):
            raise LinkTimeout(self.reason, error.why) from error
        raise LinkLost(self.reason, error.why) from error

    # Small things

    def _note_unanswered(self) -> None:
        """The unit did not say who it is when its line was recovered."""
        known = self._known()
        self.unanswered = self.unanswered or (known.question if known else IDENTITY_QUESTION)

    def _enter(self, event: LineEvent) -> None:
        following = TRANSITIONS[self.state].get(event)
        self.state = following or next_line_state(self.state, event)
        TOLD.note()

    def _left(self, deadline: float) -> float:
        return max(0.001, deadline - self._clock.monotonic())

    def _told(self, error: LinkError, job: Job) -> Failed:
        end = ""
        if self.is_stopping:
            end = self.end_reason or f"the line to {self._name} was closed"
        return failure(
            error,
            job,
            name=self._name,
            state=self.state,
            end=end,
            unanswered=self.unanswered,
            trace=self._trace.tail(),
        )
