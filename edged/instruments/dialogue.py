"""Speaking on an open link: the steps of a conversation as bytes, with gaps, limits and a trace.

Nothing here opens or cleans a line; it raises what the link raises. Before each question it brings
a line that is out of step back (``in_step.py`` says when that is).
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, TypeVar, assert_never

import structlog

from edged.changes import TOLD
from edged.clock import Clock
from edged.errors import EdgedError, ErrorCode, Failed, Invalid
from edged.instruments.conversation import (
    ALL_LINES,
    DEFAULT_MAX_BLOCK_MB,
    UNTIL_QUIET,
    Answer,
    Apart,
    Ask,
    AskBlock,
    Beat,
    Conversation,
    ExpectMore,
    KnownQuestion,
    Listen,
    Pause,
    Reply,
    Send,
    Step,
)
from edged.instruments.in_step import QUIET_S, Habits, InStep, Owed, header_of
from edged.instruments.mailbox import Job
from edged.instruments.overheard import Overheard
from edged.instruments.trace import Direction, Trace
from edged.profiles.model import Connection
from edged.scpi.answer_text import (
    BYTE_FOR_BYTE,
    MOST_SHOWN,
    NO_TEXT,
    UNDECODABLE,
    bad_answer,
    clean_text,
    is_padded_text,
    shown,
    unpadded_bytes,
    what_came,
)
from edged.scpi.blocks import (
    MOST_HEAD,
    BlockHead,
    bad_block,
    bytes_lacking,
    digits_lacking,
    whole_length,
)
from edged.scpi.words import asks_idn
from edged.transports.link import (
    Link,
    LinkError,
    LinkGarbled,
    LinkLost,
    LinkOverlong,
    LinkPreempted,
    LinkShort,
    LinkTimeout,
)

log = structlog.get_logger(__name__)

MEBIBYTE: Final = 1024 * 1024
BLOCK_SLICE_BYTES: Final = 256 * 1024
"""A long block may take long, as long as it moves: the time limit is for each slice."""
STRAY_LINE_S: Final = 0.1
"""After an empty line the answer proper may follow; this long is waited for it, where the answer
may be empty itself and the line is not known for sending empty ones."""
LONGEST_SOON_S: Final = 0.5
"""An answer is not kept back for longer, however late its unit was with what follows others."""
MOST_BEHIND: Final = 64
"""Mebibytes behind the first line of an answer."""
LONGEST_SHOWN: Final = 4_000
"""Characters of an answer with too many lines that its error carries along."""
MOST_STRAY_LINES: Final = 8
"""More empty lines than this before an answer are no habit: nothing will come."""
LINE_ENDS: Final = b"\r\n\x00 "
ANSWER_ENDS: Final = re.compile(r"[;\n]")
"""What stands between the answers to several questions of one line."""
BLANK: Final = " \t\r\n"
"""Characters of an empty line."""
MESSAGE_AVAILABLE: Final = 0x10
"""MAV, IEEE 488.2 11.2.1.2: an answer waits to be read."""
UNREAD_S: Final = 1.0
"""How long an answer may take to come that is said to wait."""
STATUS_S: Final = 1.0
"""How long a status byte is waited for."""
BRING_BACK_S: Final = 0.8
"""What bringing a line back may take, besides the time limit of the question that waits for it. A
call ends within its own time limit and a second."""
EXCHANGE_S: Final = 0.5
"""Asking for a name, and looking for what is unread, besides being quiet."""
LEAST_QUIET_S: Final = (BRING_BACK_S - EXCHANGE_S) / 2
"""Of a unit that answers within no time, unless its habits are quicker."""
SLACK_S: Final = 0.2
"""So much is left for an exchange, whatever was before it."""
MOST_LEFT_OVER: Final = 30
"""Lines, before the unit's own name; whoever says more than this does not stop talking."""
MOST_LEFT_OVER_BYTES: Final = 1024 * 1024
UNENDED: Final = (LinkTimeout, LinkLost, LinkGarbled)
"""What a link raises in an answer of which bytes may have come."""
OUT_OF_STEP: Final = frozenset({ErrorCode.BAD_ANSWER, ErrorCode.VERIFY_FAILED})
"""What a conversation ends by when an answer may have been another question's."""
NAMELESS: Final = (
    "What came may be the answer of another unit of this port, which did not answer in time: this "
    "unit has neither identify nor probe by which its answers could be told apart."
)
NAME_IT: Final = (
    "Ask again when the other unit answers, or after a minute; better, give the profile an "
    "identify. What was sent may have taken effect."
)
OPEN_BLOCK: Final = b"#0"
LEAST_HEAD: Final = 2
"""Bytes that any head has at least."""
MOST_UNANSWERED: Final = 1_024
LONGEST_ECHO: Final = 128 * 1024
"""No line that is sent is longer."""
ECHOES: Final = 8
"""The last questions, of which none can be answered by another's echo."""

T = TypeVar("T")


class Dialogue:
    """The voice of one line; used by the line's work only.

    Args:
        known: what the unit at the other end can be asked; ``None`` while nobody is known there.
        has_messages: the wire marks where an answer ends, so that a read of nothing is an error
            of the instrument's.
        max_block_mb: a longer block is not read, whatever asked for it.
    """

    def __init__(
        self,
        *,
        link: Link,
        clock: Clock,
        trace: Trace,
        known: Callable[[], KnownQuestion | None],
        has_messages: bool = False,
        max_block_mb: int = DEFAULT_MAX_BLOCK_MB,
    ) -> None:
        self._link = link
        self._clock = clock
        self._trace = trace
        self._known = known
        self._has_messages = has_messages
        self._max_block_mb = max_block_mb
        self.in_step = InStep(drops_unread=has_messages)
        # Asked before each line that is sent, with its text; raises where it must not be.
        self.gate: Callable[[str], None] | None = None
        # When the last byte moved, for min_gap_ms.
        self._quiet_since = float("-inf")
        # When the last answer came; any thread may read it.
        self.heard_at = float("-inf")
        # The last conversation met something odd.
        self.is_suspect = False
        # The last questions, as they come back from a line that sends what it is sent.
        self._asked: deque[str] = deque(maxlen=ECHOES)
        # A doubt was dropped because nobody was known who could settle it.
        self.has_dropped_doubt = False
        # Its status byte tells whether an answer waits, as far as is known.
        self._tells_mav = True
        # The line was looked at just now, so that the first step need not look again.
        self._is_looked_at = False
        self._is_selecting = False
        # Since when the line is being recovered for the question that comes next, if it is.
        self._since: float | None = None
        # The last line that asks nothing, until a question was answered; and whether it was to be
        # listened whether it is answered.
        self._written = ""
        self._is_heard = False
        self._overheard = Overheard()
        # Headers of such lines after which nothing came soon, or not before it was looked again.
        self._unanswered: set[str] = set()
        self._answered_late: set[str] = set()
        # The last line or message, and its end, as it came.
        self._last: tuple[bytes | bytearray, bytes] = b"", b""
        # Something came behind the answer in hand.
        self._has_more = False
        # The most empty lines that have come besides an answer: a habit of this instrument.
        self._stray_lines = 0

    def hold(
        self,
        conversation: Conversation[T],
        connection: Connection,
        deadline: float,
        job: Job | None,
        *,
        is_looked_at: bool = False,
        is_selecting: bool = False,
        since: float | None = None,
    ) -> T:
        """Drive a conversation to its end.

        Args:
            deadline: of the whole, on the monotonic scale.
            job: takes note of each line that has gone out, or ``None``.
            is_looked_at: nothing unasked was on the line just now.
            is_selecting: the unit listens only after this, so that it is not asked its name before.
            since: when it was begun to recover the line for this; ``None``: it need not be.

        Raises:
            LinkError: the wire failed.
            EdgedError: the conversation ended itself by an error.
        """
        self.is_suspect = self._is_heard = False
        self._is_looked_at = is_looked_at
        self._is_selecting = is_selecting
        self._since = since
        answer: Answer = None
        try:
            step = next(conversation)
            while True:
                try:
                    answer = self._do(step, connection, deadline, job)
                except Failed as unreadable:
                    # What follows an answer that could not be read is no habit of the unit's.
                    if unreadable.code in OUT_OF_STEP:
                        self.in_step.expect_more()
                    raise
                self._is_looked_at, self._since = False, None
                step = conversation.send(answer)
        except StopIteration as stop:
            result: T = stop.value
            if isinstance(result, Reply) and result.unasked is not None:
                result.came = self._overheard.of(self._written)
                result.unasked = self._overheard.take_all()
            return result
        except EdgedError as error:
            if error.code in OUT_OF_STEP:
                self.in_step.doubt()
            raise
        finally:
            conversation.close()

    def know(self, habits: Habits) -> None:
        """Another unit lives at the other end, or none."""
        if self.in_step.habits is habits:
            return
        self.in_step.habits = habits
        self._written = ""
        self._overheard.clear()
        self._unanswered.clear()
        self._answered_late.clear()
        if self.has_dropped_doubt:
            self.has_dropped_doubt = False
            self.in_step.doubt()

    def left_over(
        self, unasked: bytes, connection: Connection, *, is_seen_coming: bool = False
    ) -> None:
        """Something came that nobody asked for."""
        self._trace.add(Direction.DISCARDED, unasked)
        if self._is_open(self._written, connection):
            self._overheard.add(self._written, unasked)
        elif self.is_blank(unasked, connection):
            return
        elif self._written:
            self._keep_unasked(unasked)
        late_s = self._clock.monotonic() - self._quiet_since
        text = clean_text(unasked.decode(connection.encoding, errors="replace"))
        before = self.in_step.habits.warning
        self.in_step.left_over(text, late_s, is_seen_coming=is_seen_coming)
        if self.in_step.habits.warning != before:
            log.warning("line_out_of_step", warning=self.in_step.habits.warning)

    def come_in_step(
        self,
        connection: Connection,
        deadline: float,
        *,
        proves_itself: bool = False,
        patience_s: float = 0.0,
        is_looked_at: bool = False,
    ) -> None:
        """Bring the line back, if it is out of step: nothing is owed when this returns.

        Args:
            proves_itself: see ``InStep.before``; the question that follows then settles it.
            patience_s: what that question may take: an instrument that is still at work on what
                was written (``*RST``, a calibration) says its name no sooner.
            is_looked_at: see ``hold``.

        Raises:
            LinkError: it did not come back; answers to what was asked before may still come.
        """
        step = self.in_step
        owed = step.before(proves_itself=proves_itself)
        if not owed:
            return
        if is_looked_at and owed == Owed.LOOK and not self._has_messages:
            step.looked(self._clock.monotonic())
            return
        if self._link.marks_answers():
            # Each answer says whose it is: what is left over is dropped by the link.
            step.unproved.clear()
            step.looked(self._clock.monotonic())
            return
        allowed_s = max(patience_s, connection.timeout_ms / 1000)
        allowed_s += BRING_BACK_S
        limit = min(deadline, self._clock.monotonic() + allowed_s)
        if owed & Owed.NAME and self._known() is None:
            # Nothing is known by heart: silence is all that can be had.
            self.has_dropped_doubt = True
            owed = step.owed = Owed.QUIET
            step.unproved.clear()
        is_told = self.rest(connection, owed, limit, is_looked_at=is_looked_at)
        if self._has_messages and owed & Owed.QUIET and not is_told:
            # What an instrument keeps makes no sound, and it cannot be asked for it.
            step.owed |= Owed.NAME
        if step.owed & Owed.NAME and (known := self._known()) is not None:
            self._hear_name(known, connection, limit)
            is_quick = not step.owed & Owed.QUIET
            step.proved(self._quiet_since, known.question)
            self.rest(connection, Owed.NOTHING if is_quick else Owed.QUIET, limit)
        step.looked(self._clock.monotonic())

    def rest(
        self, connection: Connection, owed: int, limit: float, *, is_looked_at: bool = False
    ) -> bool:
        """Read and drop until nothing has come for a while, where quiet is owed.

        Returns:
            Whether a status byte has told that nothing waits.

        Raises:
            LinkError: as the link does; it does not stop sending.
        """
        quiet_s = self._quiet_s(connection) if owed & Owed.QUIET else 0.0
        dropped, began = 0, self._clock.monotonic()
        while True:
            unasked, is_told = self._next_unasked(quiet_s, limit, is_looked_at=is_looked_at)
            is_looked_at = False
            if unasked is None:
                break
            dropped += 1 + len(unasked)
            now = self._clock.monotonic()
            is_seen_coming = now > began and not self._has_messages
            self.left_over(unasked, connection, is_seen_coming=is_seen_coming)
            self._quiet_since = began = now
            quiet_s = self._quiet_s(connection)
            if dropped > MOST_LEFT_OVER_BYTES or self._quiet_since >= limit:
                raise LinkGarbled("it does not stop sending")
        if owed & Owed.QUIET:
            self.in_step.rested(self._clock.monotonic(), is_told=is_told)
        return is_told

    def _quiet_s(self, connection: Connection) -> float:
        """How long it has to be quiet, so that a question fits in that waits for it twice."""
        longest_s = (connection.timeout_ms / 1000 + BRING_BACK_S - EXCHANGE_S) / 2
        return min(self.in_step.habits.quiet_s, longest_s)

    def _next_unasked(
        self, quiet_s: float, limit: float, *, is_looked_at: bool
    ) -> tuple[bytes | None, bool]:
        """What comes before it has been quiet for so long, or ``None``; whether MAV told that."""
        unasked = b"" if is_looked_at else self._link.pending()
        if unasked:
            return unasked, False
        now = self._clock.monotonic()
        wait_s = self._quiet_since + quiet_s - now
        if now + wait_s > limit:
            raise LinkTimeout("there is no time left for the line to be quiet")
        if not self._has_messages:
            if wait_s <= 0:
                return None, False
            return self._heard_within(wait_s) or None, False
        if wait_s > 0:
            self._link.pause(wait_s)
        return self._next_message(limit)

    def _next_message(self, limit: float) -> tuple[bytes | None, bool]:
        """The message that MAV tells of, if it does; whether it told that there is none."""
        if not self._tells_mav:
            return None, False
        left_s = max(0.01, limit - self._clock.monotonic())
        status = self._link.status_byte(min(STATUS_S, left_s))
        if status is None:
            return None, False
        if not status & MESSAGE_AVAILABLE:
            return None, True
        try:
            return self._link.read_message(b"", min(UNREAD_S, left_s)), False
        except LinkTimeout as late:
            # Bit 4 is something else in this instrument's status (they are older than IEEE 488.2:
            # that of the HP 3458A says that it takes orders).
            self._tells_mav = False
            if late.came:
                raise
            return None, False

    def _hear_name(self, known: KnownQuestion, connection: Connection, limit: float) -> None:
        """Have the unit answer what is known by heart; what comes before that is dropped."""
        self._put(known.question, connection, limit)
        self._asked.append(known.question)
        for _ in range(MOST_LEFT_OVER):
            line = self._read_line(connection, limit)
            if known.is_answer(line):
                self._trace.note("in step again")
                return
            if line.strip():
                self.left_over(b"".join(self._last), connection)
        raise LinkGarbled(f"{known.question} was answered by something else")

    def confirm(self, connection: Connection, deadline: float, *, has_heard: bool) -> None:
        """Have the unit say who it is: what comes before that has shifted the answers.

        Args:
            has_heard: something was read that may be an answer of another unit.

        Raises:
            LinkError: it does not answer.
            Failed: BAD_ANSWER, an answer to something else came first, or nobody can tell.
        """
        known = self._known()
        if known is None:
            if has_heard:
                raise Failed(NAMELESS, code=ErrorCode.BAD_ANSWER, remedy=NAME_IT)
            return
        limit = min(deadline, self._clock.monotonic() + connection.timeout_ms / 1000)
        self._put(known.question, connection, limit)
        line = self._read_line(connection, limit)
        while not line.strip():
            line = self._read_line(connection, limit)
        if known.is_answer(line):
            self.in_step.proved(self._quiet_since, known.question)
            return
        self.left_over(b"".join(self._last), connection)
        raise Failed(
            f'"{clean_text(line)[:MOST_SHOWN]}" came besides the answer: another unit of the port '
            "answered late, so that the answers may have been exchanged.",
            code=ErrorCode.BAD_ANSWER,
            remedy="Ask again. What was sent may have taken effect.",
        )

    def is_blank(self, unasked: bytes, connection: Connection) -> bool:
        """Whether what came unasked is line ends alone; whole lines of them are a habit."""
        if unasked.strip(LINE_ENDS):
            return False
        terminator = _terminator(connection.read_termination)
        lines = min(unasked.count(terminator), MOST_STRAY_LINES)
        self._stray_lines = max(self._stray_lines, lines)
        return True

    def _do(self, step: Step, connection: Connection, deadline: float, job: Job | None) -> Answer:
        match step:
            case Send():
                self._write(step, connection, deadline, job)
                self.in_step.wrote(step.text)
                self._written, self._is_heard = step.text, False
                self._overheard.wrote(step.text)
                return None
            case Ask():
                limit = self._write(step, connection, deadline, job)
                text = self._read_text(step, connection, limit, deadline)
                if self._is_heard and step.proves is not None:
                    text = self._pass_over(step, step.proves, text, connection, limit)
                if step.lines is not None:
                    # What comes behind the answer to a caller is told to somebody.
                    self._written, self._is_heard = step.text, False
                elif not self._is_heard:
                    # The check for errors behind a line leaves that line to be answered.
                    self._written = ""
                self._note_answer(step, text)
                return text
            case AskBlock():
                self._write(step, connection, deadline, job)
                block = self._read_block(step, connection, deadline)
                self._written, self._is_heard = step.text, False
                self.in_step.asked(step.text, self._quiet_since, has_more=self._has_more)
                return block
            case ExpectMore() if step.line:
                self._overhear(step.line, connection, deadline)
                return None
            case ExpectMore():
                self.in_step.expect_more()
                return None
            case Listen() if step.line:
                return self._hear_answer(step, connection, deadline)
            case Listen():
                limit = min(deadline, self._clock.monotonic() + self._allowed_s(step, connection))
                try:
                    return self._read_line(connection, limit)
                except LinkTimeout:
                    return None
            case Beat():
                with self._trace.aside() as held:
                    answer = self._do(Ask(step.text), connection, deadline, job)
                    if isinstance(answer, str) and step.is_answer(answer):
                        held.clear()
                return answer
            case Apart():
                self._link.wake.apart(step.work)
                return None
            case Pause():
                if self._clock.monotonic() + step.seconds > deadline:
                    raise LinkTimeout(f"there is no time left for a pause of {step.seconds:g} s")
                self._link.pause(step.seconds)
                return self._clock.monotonic()
        assert_never(step)

    def _pass_over(
        self,
        step: Ask,
        proves: Callable[[str], bool],
        text: str,
        connection: Connection,
        limit: float,
    ) -> str:
        """The answer behind what the line before is answered by, which comes first."""
        for _ in range(MOST_LEFT_OVER):
            if proves(text):
                break
            self.left_over(b"".join(self._last), connection)
            try:
                text = self._read_text(step, connection, limit, limit)
            except LinkTimeout as late:
                if late.came:
                    raise
                break
        return text

    def _overhear(self, line: str, connection: Connection, deadline: float) -> None:
        """Hear what comes soon after a line that asks nothing; later, where it came late before."""
        self._is_heard = True
        self.in_step.may_be_answered()
        header = header_of(line)
        is_late = header in self._answered_late
        if not is_late and (header in self.in_step.habits.silent or header in self._unanswered):
            return
        overheard = self._overheard
        until = self._clock.monotonic() + connection.timeout_ms / 1000
        deadline = min(deadline, until + LONGEST_SOON_S)
        try:
            self.rest(connection, Owed.QUIET, deadline)
            while is_late and not overheard.has(line):
                self._quiet_since = self._clock.monotonic()
                if self._quiet_since > until:
                    break
                self.rest(connection, Owed.QUIET, deadline)
            self._hear_end(line, connection, until)
        except LinkLost as lost:
            lost.came = overheard.of(line) + lost.came
            raise self._unended(lost, b"\n", None) from lost
        if not overheard.has(line):
            self._answered_late.discard(header)
            if len(self._unanswered) < MOST_UNANSWERED:
                self._unanswered.add(header)

    def has_overheard(self, line: str) -> bool:
        """Whether something has come as if to answer a line that asks nothing; any thread."""
        return self._overheard.has(line)

    def overhear(self, line: str, connection: Connection, deadline: float) -> None:
        """Take up what has come by now as if to answer the last line; never waits for it.

        Raises:
            LinkError: as the link does.
        """
        if self._has_messages and line == self._written:
            came, _ = self._next_message(deadline)
            if came:
                self.left_over(came, connection)

    def _keep_unasked(self, unasked: bytes) -> None:
        """Something came as if to answer the last line, which asks nothing."""
        header = header_of(self._written)
        if header in self._unanswered:
            self._unanswered.discard(header)
            self._answered_late.add(header)
        self._overheard.add(self._written, unasked)

    def _is_open(self, line: str, connection: Connection) -> bool:
        """Whether what a line is answered by has begun, and has not ended."""
        if self._has_messages or not line:
            return False
        return self._overheard.is_open(line, _terminator(connection.read_termination))

    def _hear_end(self, line: str, connection: Connection, until: float) -> None:
        """Wait for the end of what a line is answered by, where it has begun.

        Raises:
            LinkError: as the link does; it does not stop sending.
        """
        overheard = self._overheard
        while self._is_open(line, connection):
            more = self._heard_within(max(0.0, until - self._clock.monotonic()))
            if not more:
                overheard.never_ends(line)
                return
            self._quiet_since = self._clock.monotonic()
            self._trace.add(Direction.DISCARDED, more)
            overheard.add(line, more)

    def _hear_answer(self, step: Listen, connection: Connection, deadline: float) -> Answer:
        """What a line is answered by that was written before; ``None``: nothing came in time.

        Raises:
            LinkTimeout: bytes came, and no end of them; or an instrument was addressed to talk, and
                did not.
        """
        limit = min(deadline, self._clock.monotonic() + self._allowed_s(step, connection))
        if self.has_overheard(step.line):
            self._hear_end(step.line, connection, limit)
            return self._overheard.take(step.line).decode(BYTE_FOR_BYTE)
        asked = Ask(step.line, may_be_empty=True, data=b"", lines=ALL_LINES)
        try:
            return self._read_text(asked, connection, limit, deadline)
        except LinkTimeout as late:
            if late.came or self._has_messages:
                raise
            return None
        except LinkPreempted as ended:
            # Nothing was asked, so nothing is owed, and what comes is looked at.
            ended.leaves_clean = not self._has_messages
            raise

    def _write(
        self,
        step: Send | Ask | AskBlock,
        connection: Connection,
        deadline: float,
        job: Job | None,
    ) -> float:
        """Send the step's text; gives the moment by which its answer must be there."""
        unasked = b""
        if not (self._is_looked_at or (type(step) is Send and step.keeps_unread)):
            unasked = self._link.pending()
            if unasked:
                self.left_over(unasked, connection)
        allowed_s = step.timeout_s
        if allowed_s is None:
            allowed_s = connection.timeout_ms / 1000
        if type(step) is not Send and not self._is_selecting:
            since = self._since
            in_step = self.in_step
            if in_step.owed or in_step.unproved:
                since = since or self._clock.monotonic()
                proves_itself = type(step) is Ask and step.proves is not None
                self.come_in_step(
                    connection,
                    deadline,
                    proves_itself=proves_itself,
                    patience_s=allowed_s,
                    is_looked_at=not unasked,
                )
            if since is not None:
                left_s = since + allowed_s - self._clock.monotonic()
                left_s += BRING_BACK_S
                allowed_s = min(allowed_s, max(left_s, SLACK_S))
        return self._put(step.text, connection, deadline, job, allowed_s, step.data)

    def _put(
        self,
        text: str,
        connection: Connection,
        deadline: float,
        job: Job | None = None,
        allowed_s: float | None = None,
        data: bytes | None = None,
    ) -> float:
        if connection.never_ask_idn:
            _refuse_unasked(text)
        if data is not None:
            data += connection.write_termination.encode("ascii")
        elif "\n" in text or "\r" in text:
            raise Invalid("One line of SCPI cannot hold a line end.", code=ErrorCode.BAD_SCPI)
        else:
            try:
                data = (text + connection.write_termination).encode(connection.encoding)
            except UnicodeEncodeError as error:
                raise _unsendable(text, connection, error) from error
        now = self._clock.monotonic()
        if connection.min_gap_ms:
            gap_s = self._quiet_since + connection.min_gap_ms / 1000 - now
            if gap_s > 0:
                self._link.pause(gap_s)
                now = self._clock.monotonic()
        in_step = self.in_step
        silence_s = now - self._quiet_since
        is_quiet = silence_s >= in_step.habits.quiet_s or (
            silence_s >= LEAST_QUIET_S and silence_s >= self._quiet_s(connection)
        )
        if is_quiet and not self._has_messages:
            # Where messages are kept until they are read, silence tells nothing.
            in_step.proved_at = now
        limit = deadline if allowed_s is None else min(deadline, now + allowed_s)
        if limit <= now:
            raise LinkTimeout("its time was over")
        if self.gate is not None:
            self.gate(text)
        if job is not None:
            job.sent += (text,)
        self._trace.add(Direction.SENT, data)
        self._link.write(data, limit - now)
        self._quiet_since = self._clock.monotonic()
        return limit

    def _note_answer(self, step: Ask, text: str) -> None:
        in_step = self.in_step
        in_step.asked(step.text, self._quiet_since, has_more=self._has_more)
        self._asked.append(step.text)
        if self.is_suspect:
            in_step.doubt()
        elif in_step.unproved and step.proves is not None:
            if step.proves(text):
                in_step.proved(self._quiet_since, step.text)
            else:
                in_step.owed |= Owed.NAME

    def _read_text(self, step: Ask, connection: Connection, limit: float, deadline: float) -> str:
        """The first line that is not empty.

        Some instruments send an empty line before or after each answer. Passing it over shifts
        nothing: whoever has answered all earlier questions owes this one alone. Where none but
        empty lines come, a late answer may still follow, and the line is suspect.
        """
        self._has_more = False
        text = self._read_line(connection, limit, step)
        is_short = len(text) <= LONGEST_ECHO and not step.may_repeat
        if is_short and ("?" in text or text.strip() == step.text):
            self._refuse_echo(text, step.text)
        if step.takes_first:
            return text
        passed, ends = 0, b""
        while not text.strip(BLANK) and passed < MOST_STRAY_LINES:
            passed += 1
            ends += b"".join(self._last)
            until = limit
            if step.may_be_empty and passed > self._stray_lines:
                until = min(limit, self._clock.monotonic() + STRAY_LINE_S)
            try:
                text = self._read_line(connection, until, step)
            except LinkTimeout as late:
                if late.came:
                    raise
                break
        # A late line end of the answer before is no data of a unit that is known for such.
        is_data = ends and step.lines is not None and not self._stray_lines and text[:1] != "#"
        if is_data and self._holds_bytes(connection):
            text = ends.decode(BYTE_FOR_BYTE) + text
        elif text.strip(BLANK):
            self._stray_lines = max(self._stray_lines, passed)
        else:
            self.is_suspect = True
        if step.lines is None:
            return text
        if step.lines != 1:
            text, limit = self._read_due(step, text, connection, limit, deadline)
        if self._has_messages:
            return self._with_rest(step, text, connection, limit)
        is_program = step.data is not None
        begun = text.encode(BYTE_FOR_BYTE) if is_program else b""
        is_one = not begun.startswith(OPEN_BLOCK) and step.lines in (1, ALL_LINES)
        others = self._come_soon(step.text, begun, limit, is_one=is_one)
        return self._with_others(step, text, others, connection) if others else text

    def _read_due(
        self, step: Ask, first: str, connection: Connection, limit: float, deadline: float
    ) -> tuple[str, float]:
        """The lines that an answer has, and when the last of them had to be there.

        A message of several lines or a block is all of it. Where nobody knows how many there are,
        the answer has ended once no line comes within the time limit of one.
        """
        lines, ends = [first], "" if step.data is not None else "\n"
        is_long = first.count("\n") > first.endswith("\n") or step.lines == UNTIL_QUIET
        is_whole = first[:1] == "#" or (self._has_messages and is_long)
        due = step.lines or 1
        while not is_whole and (due == UNTIL_QUIET or len(lines) < due):
            limit = min(deadline, self._clock.monotonic() + self._allowed_s(step, connection))
            try:
                line = self._read_line(connection, limit, step)
            except (LinkTimeout, LinkLost) as ended:
                is_open = due == UNTIL_QUIET and limit < deadline
                is_quiet = isinstance(ended, LinkTimeout) and not ended.came.strip(LINE_ENDS)
                if is_open and is_quiet:
                    break
                raise _too_few(lines, due, ended) from ended
            if line.strip():
                lines.append(line)
        return ends.join(lines), limit

    def _with_rest(self, step: Ask, first: str, connection: Connection, limit: float) -> str:
        """The answers to all questions of a line, of which each may come as a message."""
        due = 1 if '"' in step.text else step.text.count("?")
        text, end = first, "" if step.data is not None else "\n"
        until = min(limit, self._clock.monotonic() + LONGEST_SOON_S)
        while due > 1 and self._tells_mav and self._clock.monotonic() < until:
            if len(ANSWER_ENDS.split(text.rstrip(BLANK))) >= due:
                break
            came, _ = self._next_message(limit)
            if came:
                self._trace.add(Direction.RECEIVED, came)
                encoding = BYTE_FOR_BYTE if step.data is not None else connection.encoding
                text = text + end + came.decode(encoding, errors="replace").strip(end)
            else:
                self._link.pause(QUIET_S)
        return text

    def _with_others(self, step: Ask, due: str, others: bytes, connection: Connection) -> str:
        """The answer with what follows it, where the wire does not mark its end.

        Raises:
            Failed: BAD_ANSWER, there are more lines than the answer has.
            LinkTimeout: behind empty lines there is text without an end.
        """
        is_program = step.data is not None
        if not others.strip(LINE_ENDS) and not self._holds_bytes(connection):
            self.left_over(others, connection)
            return due
        self._has_more = True
        self.in_step.habits.calm.discard(header_of(step.text))
        self._trace.add(Direction.RECEIVED, others)
        encoding = BYTE_FOR_BYTE if is_program else connection.encoding
        text = due + ("" if is_program else "\n") + others.decode(encoding, errors="replace")
        if step.lines in (ALL_LINES, UNTIL_QUIET) or is_program:
            return text
        if not due.strip() and others.rstrip(NO_TEXT) == others:
            # Behind empty lines it has begun, and has not ended.
            late = LinkTimeout()
            late.came = others
            raise self._unended(late, _terminator(connection.read_termination), None)
        expected = (step.lines or 1) + step.extra_lines
        lines = [line for line in text.replace("\r", "\n").split("\n") if line.strip()]
        if len(lines) <= expected:
            return text
        wanted = "one was" if expected == 1 else f"{expected} were"
        failed = bad_answer("The instrument", text, f"has {len(lines)} lines where {wanted} due")
        failed.data["answer"] = text[:LONGEST_SHOWN]
        raise failed

    def _holds_bytes(self, connection: Connection) -> bool:
        """Whether the line in hand is no text on a wire that marks no ends: line ends are data."""
        data, _ = self._last
        return not (self._has_messages or is_padded_text(data, connection.encoding))

    def _come_soon(
        self, question: str, begun: bytes, limit: float, *, is_one: bool = True
    ) -> bytes:
        """What comes behind an answer before its line has been quiet.

        After a question that was looked at before, it is what has come by now. What a block lacks
        that the answer has begun is waited for until ``limit``.

        Args:
            is_one: the answer is one line.

        Raises:
            LinkGarbled: it does not stop sending.
        """
        others = bytearray()
        habits = self.in_step.habits
        is_calm = is_one and question.partition(" ")[0] in habits.calm
        try:
            more = self._link.pending()
            if not more:
                quiet_s = 0.0 if is_calm else habits.quiet_s
                more = self._heard_soon(begun, b"", quiet_s, limit) if begun or quiet_s else b""
            while more:
                others += more
                now = self._quiet_since = self._clock.monotonic()
                if len(others) > MOST_BEHIND * MEBIBYTE or now > limit + LONGEST_SOON_S:
                    self._trace.add(Direction.RECEIVED, others)
                    raise LinkGarbled(f"it does not stop sending: {shown(others)}")
                if is_calm and not others.strip(LINE_ENDS):
                    break
                more = self._heard_soon(begun, others, QUIET_S, limit)
        except LinkLost as lost:
            # An instrument that closes the connection after its answer has sent all of it.
            others += lost.came
        return bytes(others)

    def _heard_soon(
        self, begun: bytes, others: bytes | bytearray, quiet_s: float, limit: float
    ) -> bytes:
        """What comes behind the two pieces of an answer; nothing: it is whole."""
        head = bytes(begun[:MOST_HEAD] + others[:MOST_HEAD])[:MOST_HEAD]
        is_cut = bool(begun) and bytes_lacking(head, len(begun) + len(others)) > 0
        wait_s = limit - self._clock.monotonic() if is_cut else min(quiet_s, LONGEST_SOON_S)
        return self._heard_within(wait_s) if wait_s > 0 else b""

    def _heard_within(self, seconds: float) -> bytes:
        """What comes within a time; nothing where nothing does. Of a wire without messages."""
        try:
            first = self._link.read_exactly(1, seconds)
        except LinkTimeout:
            return b""
        try:
            return first + self._link.pending()
        except LinkLost as lost:
            lost.came = first + lost.came
            raise

    def _refuse_echo(self, text: str, question: str) -> None:
        """Raise where a line is what was sent, in whatever case, now or just before."""
        echo = text.strip().upper()
        if any(echo == asked.strip().upper() for asked in (question, *self._asked)):
            raise LinkGarbled("it sends back what it is sent: its echo must be switched off")

    def _read_line(self, connection: Connection, limit: float, step: Ask | None = None) -> str:
        """The next line, or the next message; without its end, unless ``step`` has ``data``."""
        terminator = _terminator(connection.read_termination)
        data, end = self._last = self._read_unit(step, terminator, limit)
        inside = whole_length(bytes(data[:16])) or 0 if data[:1] == b"#" else 0
        self._quiet_since = self.heard_at = self._clock.monotonic()
        TOLD.note()
        self._trace.add(Direction.RECEIVED, data)
        if step is not None and step.data is not None:
            data += end
        elif inside:
            # What looks like a line end inside of a block is its data.
            data = data[:inside] + data[inside:].strip(NO_TEXT)
        elif (
            step is None
            or step.lines is None
            or (
                data
                and (data[0] in NO_TEXT or data[-1] in NO_TEXT)
                and is_padded_text(data, connection.encoding)
            )
        ):
            data = unpadded_bytes(data)
        is_exact = step is not None and step.data is not None
        encoding = BYTE_FOR_BYTE if is_exact else connection.encoding
        text = data.decode(encoding, errors="replace")
        if UNDECODABLE in text:
            self.is_suspect = True
        return text

    def _read_unit(
        self, step: Ask | None, terminator: bytes, limit: float
    ) -> tuple[bytes | bytearray, bytes]:
        """A line or message, and the end that came behind it."""
        is_compound = step is not None and step.text.count("?") > 1
        is_program = step is not None and step.data is not None
        wire_end = b"" if self._has_messages else terminator
        while True:
            try:
                data = self._link.read_message(wire_end, limit - self._clock.monotonic())
                end = terminator if not wire_end and data.endswith(terminator) else wire_end
                data = data.removesuffix(end)
                if data[:1] != b"#" or (is_program and self._has_messages):
                    return data, end
                return self._whole_block(data, end, terminator, limit, is_compound)
            except LinkOverlong as overlong:
                data = self._block_head(overlong, limit)
                return self._whole_block(data, b"", terminator, limit, is_compound)
            except UNENDED as ended:
                is_late = isinstance(ended, LinkTimeout)
                if (is_late or isinstance(ended, LinkLost)) and _is_whole_block(ended.came):
                    # It is whole without a line end; but the next answer of its line may follow.
                    if is_late and is_compound and self._clock.monotonic() < limit:
                        continue
                    # Unless they are part of something that is not whole.
                    with contextlib.suppress(LinkTimeout):
                        return self._link.read_exactly(len(ended.came), STRAY_LINE_S), b""
                raise self._unended(ended, terminator, whole_length(ended.came[:16])) from ended

    def _unended(self, error: LinkError, terminator: bytes, total: int | None) -> LinkError:
        """The same error, with the bytes that came in its words and in the trace.

        Args:
            total: how many are due, if these bytes say it.
        """
        if not error.came:
            return error
        self._trace.add(Direction.RECEIVED, error.came)
        text = what_came(error.came, b"" if self._has_messages else terminator, total)
        if isinstance(error, LinkLost):
            text = f"{error}; before that {text}"
        elif isinstance(error, LinkGarbled):
            text = f"{error}: {shown(error.came)}"
        return type(error)(text, came=error.came)

    def _block_head(self, overlong: LinkOverlong, limit: float) -> bytes:
        """The head of the block that an answer is which no text can be; it may hold no line end.

        Raises:
            LinkOverlong: it is no block.
        """
        head = self._link.read_exactly(2, limit - self._clock.monotonic())
        while lacks := digits_lacking(head):
            head += self._link.read_exactly(lacks, limit - self._clock.monotonic())
        if whole_length(head) is None:
            raise overlong
        return head

    def _whole_block(
        self, data: bytes, end: bytes, terminator: bytes, limit: float, is_compound: bool
    ) -> tuple[bytes | bytearray, bytes]:
        """An answer that may be a block: what looks like an end may stand inside of it.

        Args:
            data: its beginning.
            end: the terminator behind that, where one came.
            terminator: what an instrument puts at the end.
            limit: when it is to be here, by the monotonic clock.
            is_compound: another answer may stand behind it.

        Returns:
            All of it, and the end that came behind.
        """
        total = whole_length(data) if data[:1] == b"#" else None
        if total is None or len(data) >= total:
            return data, end
        _check_size(total, self._max_block_mb)

        def left_s() -> float:
            return limit - self._clock.monotonic()

        begun = data + end
        block = self._read_slices(begun, max(total, len(begun)), left_s)
        self._quiet_since = self._clock.monotonic()
        waits = is_compound or self._has_messages
        end_s = left_s() if waits else min(left_s(), STRAY_LINE_S)
        try:
            block += self._link.read_message(terminator, end_s)
        except (LinkTimeout, LinkLost) as ended:
            if ended.came.strip(NO_TEXT):
                ended.came = bytes(block) + ended.came
                raise
            return block, b""
        return block, terminator

    def _read_block(
        self, step: AskBlock, connection: Connection, deadline: float
    ) -> bytes | bytearray:
        """One block, header included; what trails it is read and dropped.

        A program (``data``) gets all that came, also where that is no block.
        """
        self._has_more = False
        allowed_s = self._allowed_s(step, connection)
        terminator = _terminator(connection.read_termination)

        def left_s() -> float:
            return min(allowed_s, deadline - self._clock.monotonic())

        try:
            data = self._block(step, terminator, left_s)
        except UNENDED as ended:
            head = None
            with contextlib.suppress(Failed):
                head = step.find(ended.came[:MOST_HEAD])
            raise self._unended(ended, terminator, head.total if head else None) from ended
        self._quiet_since = self.heard_at = self._clock.monotonic()
        TOLD.note()
        self._trace.add(Direction.RECEIVED, data)
        if step.data is None:
            self._end_block(step, data, connection, deadline)
        return data

    def _end_block(
        self, step: AskBlock, data: bytes | bytearray, connection: Connection, deadline: float
    ) -> None:
        """Refuse what follows data that are whole, but for line ends.

        Raises:
            Failed: BAD_ANSWER.
        """
        head = step.find(bytes(data[:MOST_HEAD])) if self._has_messages else None
        if head is not None and head.total is not None and len(data) >= head.total:
            more = self._read_to_end(deadline)
        elif self._has_messages:
            more = self._link.pending()
        else:
            limit = self._clock.monotonic() + self._allowed_s(step, connection)
            more = self._come_soon(step.text, b"", min(deadline, limit))
        # A NUL may be the last byte of data in front of which a line end came.
        if more.strip(LINE_ENDS if data[:1] == b"#" else b"\r\n"):
            self._trace.add(Direction.DISCARDED, more)
            raise bad_block(f"{len(data)} bytes as described, and {len(more)} more", data)
        if more:
            self.left_over(more, connection)

    def _block(
        self, step: AskBlock, terminator: bytes, left_s: Callable[[], float]
    ) -> bytes | bytearray:
        head, begun = self._read_head(step, left_s)
        is_program = step.data is not None
        if head is not None and head.total is not None:
            _check_size(head.total - head.start + step.held_bytes, self._max_block_mb)
            takes_short = is_program or step.takes_short
            block = self._read_slices(begun, head.total, left_s, takes_short=takes_short)
            if len(block) < head.total:
                return block
            if is_program:
                is_marked = self._has_messages
                end_s = left_s() if is_marked else min(left_s(), STRAY_LINE_S)
                block += self._read_rest(terminator, end_s, block)
            elif step.trailing_bytes:
                self._link.read_exactly(step.trailing_bytes, left_s())
            return block
        if head is not None:
            block = bytearray(begun) + self._read_open(begun, terminator, left_s)
            return block if is_program else block.removesuffix(terminator) + b"\n"
        if self._has_messages or not begun.endswith(terminator):
            begun += self._read_rest(terminator, left_s(), begun)
        if self._has_messages:
            return begun
        others = self._come_soon(step.text, begun, self._clock.monotonic() + left_s())
        self._has_more = bool(others)
        return begun + others

    def _read_head(
        self, step: AskBlock, left_s: Callable[[], float]
    ) -> tuple[BlockHead | None, bytes]:
        """The head of a block, and what was read for it; ``None``: a program gets no block."""
        begun, limit = b"", self._clock.monotonic() + left_s()
        try:
            # ``#4`` and its four digits at once; anything else byte by byte.
            while (head := step.find(begun)) is None:
                lacks = digits_lacking(begun) or (1 if begun else LEAST_HEAD)
                begun += self._link.read_exactly(lacks, limit - self._clock.monotonic())
        except (Failed, LinkShort) as other:
            if step.data is not None:
                return None, begun
            if isinstance(other, LinkShort):
                raise self._cut_short(begun) from other
            with contextlib.suppress(LinkLost):
                begun += self._link.pending()
            self._trace.add(Direction.RECEIVED, begun)
            # The same error, with all that has come.
            step.find(begun[:MOST_HEAD])
            raise
        except UNENDED as ended:
            ended.came = begun + ended.came
            raise
        return head, begun

    def _cut_short(self, begun: bytes) -> Failed:
        """The error for a message that ends before it is whole."""
        came = begun + self._link.pending()
        return bad_block(f"a message of {len(came)} bytes, which is too short", came)

    def _read_open(self, begun: bytes, terminator: bytes, left_s: Callable[[], float]) -> bytearray:
        """The rest of a block that has ``begun`` and does not say its length, with its line end.

        What looks like a line end may be its data: the last one is its end.
        """
        rest = bytearray()
        try:
            if self._has_messages:
                return bytearray(self._link.read_message(b"", left_s()))
            more = self._link.read_message(terminator, left_s()) + terminator
            while more:
                rest += more
                _check_size(len(rest), self._max_block_mb)
                more = self._heard_within(QUIET_S)
                if more and not more.endswith(terminator):
                    more += self._link.read_message(terminator, left_s()) + terminator
        except UNENDED as ended:
            ended.came = begun + rest + ended.came
            raise
        return rest

    def _read_to_end(self, deadline: float) -> bytes:
        """The rest of a message whose data are whole; nothing where its end does not come."""
        left_s = deadline - self._clock.monotonic()
        try:
            return self._link.read_message(b"", min(STRAY_LINE_S, left_s))
        except LinkTimeout as late:
            return late.came

    def _read_rest(self, terminator: bytes, seconds: float, begun: bytes | bytearray) -> bytes:
        """What follows ``begun`` in an answer for a program, its end included where one came."""
        try:
            if self._has_messages:
                return self._link.read_message(b"", seconds)
            return self._link.read_message(terminator, seconds) + terminator
        except UNENDED as ended:
            if isinstance(ended, LinkTimeout) and not self._has_messages:
                return self._link.read_exactly(len(ended.came), STRAY_LINE_S) if ended.came else b""
            ended.came = bytes(begun) + ended.came
            if isinstance(ended, LinkGarbled) or not _is_whole_block(ended.came):
                raise
            return ended.came[len(begun) :]

    def _read_slices(
        self, begun: bytes, total: int, left_s: Callable[[], float], *, takes_short: bool = False
    ) -> bytearray:
        """The whole of a block that has ``begun``, in one piece of memory that is never copied.

        Args:
            takes_short: a message that ends before is taken as it is.
        """
        block = bytearray(total)
        block[: len(begun)] = begun
        done = len(begun)
        while done < total:
            try:
                part = self._link.read_exactly(min(total - done, BLOCK_SLICE_BYTES), left_s())
            except LinkShort as short:
                if takes_short:
                    return block[:done] + self._link.pending()
                raise self._cut_short(bytes(block[:done])) from short
            except UNENDED as ended:
                ended.came = bytes(block[:done]) + ended.came
                raise
            block[done : done + len(part)] = part
            done += len(part)
        return block

    @staticmethod
    def _allowed_s(step: Send | Ask | AskBlock | Listen, connection: Connection) -> float:
        return step.timeout_s if step.timeout_s is not None else connection.timeout_ms / 1000


@functools.lru_cache(maxsize=16)
def _terminator(termination: str | None) -> bytes:
    return (termination or "\n").encode("ascii")


def _is_whole_block(data: bytes) -> bool:
    """Whether it is a definite block, and no more than line ends behind that."""
    total = whole_length(data[:16])
    return total is not None and len(data) >= total and not data[total:].strip(NO_TEXT)


def _too_few(lines: Sequence[str], due: int, ended: LinkError) -> LinkError:
    """The error for an answer that lacks lines, with those that came."""
    came = "\n".join(lines).encode(errors="replace")
    of = "" if due == UNTIL_QUIET else f" of {due}"
    last = f"; then {ended}" if ended.came or isinstance(ended, LinkLost) else ""
    return type(ended)(f"{len(lines)}{of} lines came: {shown(came)}{last}", came=came + ended.came)


def _check_size(announced: int, most_mb: int) -> None:
    if announced > most_mb * MEBIBYTE:
        raise LinkGarbled(
            f"the block is too large: {announced} bytes were announced, and MAX_BLOCK_MB is "
            f"{most_mb}"
        )


def _refuse_unasked(text: str) -> None:
    """Raise where the name is asked for of a unit that is never asked it: here bytes leave.

    Raises:
        Invalid: BAD_SCPI.
    """
    if asks_idn(text):
        raise Invalid(
            "*IDN? was not sent: this instrument is never asked it (never_ask_idn).",
            code=ErrorCode.BAD_SCPI,
            data={"scpi": text[:200]},
            remedy="Ask what its profile has; identify says what takes the place of *IDN?.",
        )


def _unsendable(text: str, connection: Connection, error: UnicodeEncodeError) -> Invalid:
    return Invalid(
        f"{text[error.start]!r} cannot be sent: this line carries {connection.encoding} only.",
        code=ErrorCode.BAD_SCPI,
        data={"scpi": text[:200]},
    )
