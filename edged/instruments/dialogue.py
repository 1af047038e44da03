"""Speaking on an open link: the steps of a conversation as bytes, with gaps, limits and a trace.

Nothing here opens or cleans a line; it raises what the link raises. Before each question it brings
a line that is out of step back (``in_step.py`` says when that is).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar, assert_never

import structlog

from edged.clock import Clock
from edged.errors import EdgedError, ErrorCode, Invalid
from edged.instruments.conversation import (
    DEFAULT_MAX_BLOCK_MB,
    Answer,
    Apart,
    Ask,
    AskBlock,
    Beat,
    Conversation,
    ExpectMore,
    Listen,
    Pause,
    Send,
    Step,
)
from edged.instruments.in_step import Habits, InStep, Owed
from edged.instruments.mailbox import Job
from edged.instruments.trace import Direction, Trace
from edged.profiles.model import Connection
from edged.scpi.answer_text import clean_text
from edged.scpi.blocks import digits_lacking, find_block_head, whole_length
from edged.scpi.words import asks_idn
from edged.transports.link import Link, LinkGarbled, LinkOverlong, LinkTimeout

__all__ = ["Dialogue", "Known"]

log = structlog.get_logger(__name__)

MEBIBYTE: Final = 1024 * 1024
BLOCK_SLICE_BYTES: Final = 256 * 1024
"""A long block may take long, as long as it moves: the time limit is for each slice."""
STRAY_LINE_S: Final = 0.1
"""After an empty line the answer proper may follow; this long is waited for it, where the answer
may be empty itself and the line is not known for sending empty ones."""
MOST_STRAY_LINES: Final = 8
"""More empty lines than this before an answer are no habit: nothing will come."""
LINE_ENDS: Final = b"\r\n\x00 "
MESSAGE_AVAILABLE: Final = 0x10
"""MAV, IEEE 488.2 11.2.1.2: an answer waits to be read."""
UNREAD_S: Final = 1.0
"""How long an answer may take to come that is said to wait."""
STATUS_S: Final = 1.0
"""How long a status byte is waited for."""
BRING_BACK_S: Final = 1.0
"""What bringing a line back may take besides the name's own time limit and two quiet moments."""
MOST_LEFT_OVER: Final = 30
"""Lines, before the unit's own name; whoever says more than this does not stop talking."""
MOST_LEFT_OVER_BYTES: Final = 1024 * 1024
OUT_OF_STEP: Final = frozenset({ErrorCode.BAD_ANSWER, ErrorCode.VERIFY_FAILED})
"""What a conversation ends by when an answer may have been another question's."""
NO_TEXT: Final = b"\r\n\x00"
"""Bytes around an answer that are none of it; but for a NUL between it and its line end."""
BYTE_FOR_BYTE: Final = "latin-1"
"""How an answer becomes text whose characters are its bytes."""
ECHOES: Final = 8
"""The last questions, of which none can be answered by another's echo."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A question whose answer is known by heart: the unit's name, or its profile's probe."""

    question: str
    is_answer: Callable[[str], bool]


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
        known: Callable[[], Known | None],
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
    ) -> T:
        """Drive a conversation to its end.

        Args:
            deadline: of the whole, on the monotonic scale.
            job: takes note of each line that has gone out, or ``None``.
            is_looked_at: nothing unasked was on the line just now.
            is_selecting: the unit listens only after this, so that it is not asked its name before.

        Raises:
            LinkError: the wire failed.
            EdgedError: the conversation ended itself by an error.
        """
        self.is_suspect = False
        self._is_looked_at = is_looked_at
        self._is_selecting = is_selecting
        answer: Answer = None
        try:
            step = next(conversation)
            while True:
                answer = self._do(step, connection, deadline, job)
                self._is_looked_at = False
                step = conversation.send(answer)
        except StopIteration as stop:
            result: T = stop.value
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
        if self.has_dropped_doubt:
            self.has_dropped_doubt = False
            self.in_step.doubt()

    def left_over(
        self, unasked: bytes, connection: Connection, *, is_seen_coming: bool = False
    ) -> None:
        """Something came that nobody asked for."""
        self._trace.add(Direction.DISCARDED, unasked)
        if self.is_blank(unasked, connection):
            return
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
    ) -> None:
        """Bring the line back, if it is out of step: nothing is owed when this returns.

        Args:
            proves_itself: see ``InStep.before``; the question that follows then settles it.
            patience_s: what that question may take: an instrument that is still at work on what
                was written (``*RST``, a calibration) says its name no sooner.

        Raises:
            LinkError: it did not come back; answers to what was asked before may still come.
        """
        step = self.in_step
        owed = step.before(proves_itself=proves_itself)
        if not owed:
            return
        if self._link.marks_answers():
            # Each answer says whose it is: what is left over is dropped by the link.
            step.unproved.clear()
            step.looked(self._clock.monotonic())
            return
        allowed_s = max(patience_s, connection.timeout_ms / 1000)
        allowed_s += 2 * step.habits.quiet_s + BRING_BACK_S
        limit = min(deadline, self._clock.monotonic() + allowed_s)
        known = self._known()
        if known is None and owed & Owed.NAME:
            # Nothing is known by heart: silence is all that can be had.
            self.has_dropped_doubt = True
            owed = step.owed = Owed.QUIET
            step.unproved.clear()
        is_told = self._rest(connection, owed, limit)
        if self._has_messages and owed & Owed.QUIET and not is_told:
            # What an instrument keeps makes no sound, and it cannot be asked for it.
            step.owed |= Owed.NAME
        if known is not None and step.owed & Owed.NAME:
            self._hear_name(known, connection, limit)
            is_quick = not step.owed & Owed.QUIET
            step.proved(self._quiet_since, known.question)
            self._rest(connection, Owed.NOTHING if is_quick else Owed.QUIET, limit)
        step.looked(self._clock.monotonic())

    def rest(self, connection: Connection, deadline: float) -> None:
        """Read and drop until nothing has come for a while.

        Raises:
            LinkError: as the link does; it does not stop sending.
        """
        self._rest(connection, Owed.QUIET, deadline)

    def _rest(self, connection: Connection, owed: Owed, limit: float) -> bool:
        """Whether a status byte has told that nothing waits."""
        quiet_s = self.in_step.habits.quiet_s if owed & Owed.QUIET else 0.0
        dropped, began = 0, self._clock.monotonic()
        while True:
            unasked, is_told = self._next_unasked(connection, quiet_s, limit)
            if unasked is None:
                break
            dropped += 1 + len(unasked)
            now = self._clock.monotonic()
            is_seen_coming = now > began and not self._has_messages
            self.left_over(unasked, connection, is_seen_coming=is_seen_coming)
            self._quiet_since = began = now
            quiet_s = self.in_step.habits.quiet_s
            if dropped > MOST_LEFT_OVER_BYTES or self._quiet_since >= limit:
                raise LinkGarbled("it does not stop sending")
        if owed & Owed.QUIET:
            self.in_step.rested(self._clock.monotonic(), is_told=is_told)
        return is_told

    def _next_unasked(
        self, connection: Connection, quiet_s: float, limit: float
    ) -> tuple[bytes | None, bool]:
        """What comes before it has been quiet for so long, or ``None``; whether MAV told that."""
        unasked = self._link.pending()
        if unasked:
            return unasked, False
        now = self._clock.monotonic()
        wait_s = self._quiet_since + quiet_s - now
        if now + wait_s > limit:
            raise LinkTimeout("there is no time left for the line to be quiet")
        if not self._has_messages:
            if wait_s <= 0:
                return None, False
            try:
                first = self._link.read_exactly(1, wait_s)
            except LinkTimeout:
                return None, False
            return first + self._link.pending(), False
        if wait_s > 0:
            self._link.pause(wait_s)
        return self._next_message(connection, limit)

    def _next_message(self, connection: Connection, limit: float) -> tuple[bytes | None, bool]:
        """The message that MAV tells of, if it does; whether it told that there is none."""
        if not self._tells_mav:
            return None, False
        left_s = max(0.01, limit - self._clock.monotonic())
        status = self._link.status_byte(min(STATUS_S, left_s))
        if status is None:
            return None, False
        if not status & MESSAGE_AVAILABLE:
            return None, True
        terminator = (connection.read_termination or "\n").encode("ascii")
        try:
            message = self._link.read_message(terminator, min(UNREAD_S, left_s))
        except LinkTimeout:
            # Bit 4 is something else in this instrument's status (they are older than IEEE 488.2).
            self._tells_mav = False
            raise
        return message + terminator, False

    def _hear_name(self, known: Known, connection: Connection, limit: float) -> None:
        """Have the unit answer what is known by heart; what comes before that is dropped."""
        self._put(known.question, connection, limit)
        self._asked.append(known.question)
        for _ in range(MOST_LEFT_OVER):
            line = self._read_line(connection, limit)
            if known.is_answer(line):
                self._trace.note("in step again")
                return
            if line.strip():
                self.left_over(line.encode(connection.encoding, errors="replace"), connection)
        raise LinkGarbled(f"{known.question} was answered by something else")

    def is_blank(self, unasked: bytes, connection: Connection) -> bool:
        """Whether what came unasked is line ends alone; whole lines of them are a habit."""
        if unasked.strip(LINE_ENDS):
            return False
        terminator = (connection.read_termination or "\n").encode("ascii")
        lines = min(unasked.count(terminator), MOST_STRAY_LINES)
        self._stray_lines = max(self._stray_lines, lines)
        return True

    def _do(self, step: Step, connection: Connection, deadline: float, job: Job | None) -> Answer:
        match step:
            case Send():
                self._write(step, connection, deadline, job)
                self.in_step.wrote(step.text)
                return None
            case Ask():
                limit = self._write(step, connection, deadline, job)
                text = self._read_text(step, connection, limit)
                self._note_answer(step, text)
                return text
            case AskBlock():
                self._write(step, connection, deadline, job)
                block = self._read_block(step, connection, deadline)
                self.in_step.asked(step.text, self._quiet_since)
                return block
            case ExpectMore():
                self.in_step.expect_more()
                return None
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
                return None
        assert_never(step)

    def _write(
        self,
        step: Send | Ask | AskBlock,
        connection: Connection,
        deadline: float,
        job: Job | None,
    ) -> float:
        """Send the step's text; gives the moment by which its answer must be there."""
        if not (self._is_looked_at or (type(step) is Send and step.keeps_unread)):
            unasked = self._link.pending()
            if unasked:
                self.left_over(unasked, connection)
        if type(step) is not Send and not self._is_selecting:
            in_step = self.in_step
            if in_step.owed or in_step.unproved:
                proves_itself = type(step) is Ask and step.proves is not None
                self.come_in_step(
                    connection,
                    deadline,
                    proves_itself=proves_itself,
                    patience_s=self._allowed_s(step, connection),
                )
        allowed_s = self._allowed_s(step, connection)
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
        _refuse_unasked(text, connection)
        if data is None:
            data = _encoded(text, connection)
        else:
            data += connection.write_termination.encode("ascii")
        now = self._clock.monotonic()
        if connection.min_gap_ms:
            gap_s = self._quiet_since + connection.min_gap_ms / 1000 - now
            if gap_s > 0:
                self._link.pause(gap_s)
                now = self._clock.monotonic()
        in_step = self.in_step
        if not self._has_messages and now - self._quiet_since >= in_step.habits.quiet_s:
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
        in_step.asked(step.text, self._quiet_since)
        self._asked.append(step.text)
        if self.is_suspect:
            in_step.doubt()
        elif in_step.unproved and step.proves is not None:
            if step.proves(text):
                in_step.proved(self._quiet_since, step.text)
            else:
                in_step.owed |= Owed.NAME

    def _read_text(self, step: Ask, connection: Connection, limit: float) -> str:
        """The first line that is not empty.

        Some instruments send an empty line before or after each answer. Passing it over shifts
        nothing: whoever has answered all earlier questions owes this one alone. Where none but
        empty lines come, a late answer may still follow, and the line is suspect.
        """
        encoding = connection.encoding if step.data is None else BYTE_FOR_BYTE
        text = self._read_line(connection, limit, encoding)
        if ("?" in text or text == step.text) and not step.may_repeat:
            self._refuse_echo(text, step.text)
        if step.takes_first:
            return text
        passed = 0
        while not text.strip() and passed < MOST_STRAY_LINES:
            passed += 1
            until = limit
            if step.may_be_empty and passed > self._stray_lines:
                until = min(limit, self._clock.monotonic() + STRAY_LINE_S)
            try:
                text = self._read_line(connection, until, encoding)
            except LinkTimeout:
                break
        if text.strip():
            self._stray_lines = max(self._stray_lines, passed)
        else:
            self.is_suspect = True
        return text

    def _refuse_echo(self, text: str, question: str) -> None:
        """Raise where a line is what was sent, in whatever case, now or just before."""
        echo = text.strip().upper()
        if any(echo == asked.strip().upper() for asked in (question, *self._asked)):
            raise LinkGarbled("it sends back what it is sent: its echo must be switched off")

    def _read_line(self, connection: Connection, limit: float, encoding: str = "") -> str:
        terminator = (connection.read_termination or "\n").encode("ascii")
        data: bytes | bytearray
        try:
            data = self._link.read_message(terminator, limit - self._clock.monotonic())
            came = data + terminator
        except LinkOverlong as overlong:
            data = came = self._block_head(overlong, limit)
        inside = 0
        if data[:1] == b"#":
            data = self._whole_block(data, came, terminator, limit)
            inside = whole_length(bytes(data[:16])) or 0
        self._quiet_since = self.heard_at = self._clock.monotonic()
        self._trace.add(Direction.RECEIVED, data)
        # What looks like a line end inside of a block is its data.
        data = data[:inside] + data[inside:].strip(NO_TEXT) if inside else _unpadded(data)
        text = data.decode(encoding or connection.encoding, errors="replace")
        if "\ufffd" in text:
            self.is_suspect = True
        return text

    def _block_head(self, overlong: LinkOverlong, limit: float) -> bytes:
        """The head of the block that an answer is which no text can be; it may hold no line end.

        Raises:
            LinkOverlong: it is no block.
        """
        head = self._link.read_exactly(2, limit - self._clock.monotonic())
        if lacks := digits_lacking(head):
            head += self._link.read_exactly(lacks, limit - self._clock.monotonic())
        if whole_length(head) is None:
            raise overlong
        return head

    def _whole_block(
        self, data: bytes, came: bytes, terminator: bytes, limit: float
    ) -> bytes | bytearray:
        """A block that was asked for as text: what looks like an end may stand inside of it.

        Args:
            data: its beginning.
            came: the same with the terminator behind it, where one came.
            terminator: what an instrument puts at the end.
            limit: when it is to be here, by the monotonic clock.
        """
        total = whole_length(data)
        if total is None or len(data) >= total:
            return data
        _check_size(total, self._max_block_mb)

        def left_s() -> float:
            return limit - self._clock.monotonic()

        block = self._read_slices(came, max(total, len(came)), left_s)
        self._quiet_since = self._clock.monotonic()
        block += self._link.read_message(terminator, left_s())
        return block

    def _read_block(
        self, step: AskBlock, connection: Connection, deadline: float
    ) -> bytes | bytearray:
        """One block, header included; what trails it is read and dropped."""
        allowed_s = self._allowed_s(step, connection)

        def left_s() -> float:
            return min(allowed_s, deadline - self._clock.monotonic())

        # ``#4`` and its four digits at once; anything else byte by byte.
        begun = self._link.read_exactly(2, left_s())
        head = find_block_head(begun)
        while head is None:
            lacks = digits_lacking(begun) or 1
            begun += self._link.read_exactly(lacks, left_s())
            head = find_block_head(begun)
        data: bytes | bytearray
        if head.total is None:
            terminator = (connection.read_termination or "\n").encode("ascii")
            data = begun + self._link.read_message(terminator, left_s())
        else:
            _check_size(head.total - head.start, self._max_block_mb)
            data = self._read_slices(begun, head.total, left_s)
        if step.trailing_bytes:
            self._link.read_exactly(step.trailing_bytes, left_s())
        self._quiet_since = self.heard_at = self._clock.monotonic()
        self._trace.add(Direction.RECEIVED, data)
        return data

    def _read_slices(self, begun: bytes, total: int, left_s: Callable[[], float]) -> bytearray:
        """The whole of a block that has ``begun``, in one piece of memory that is never copied."""
        block = bytearray(total)
        block[: len(begun)] = begun
        done = len(begun)
        while done < total:
            part = self._link.read_exactly(min(total - done, BLOCK_SLICE_BYTES), left_s())
            block[done : done + len(part)] = part
            done += len(part)
        return block

    @staticmethod
    def _allowed_s(step: Send | Ask | AskBlock | Listen, connection: Connection) -> float:
        return step.timeout_s if step.timeout_s is not None else connection.timeout_ms / 1000


def _unpadded(data: bytes | bytearray) -> bytes | bytearray:
    """Without what pads it. A NUL between a text and its line end stays: no text ends so."""
    text = data.rstrip(NO_TEXT)
    if text and data[len(text) : len(text) + 1] == b"\x00":
        text += b"\x00"
    return text.lstrip(NO_TEXT)


def _check_size(announced: int, most_mb: int) -> None:
    if announced > most_mb * MEBIBYTE:
        raise LinkGarbled(
            f"the block is too large: {announced} bytes were announced, and MAX_BLOCK_MB is "
            f"{most_mb}"
        )


def _refuse_unasked(text: str, connection: Connection) -> None:
    """Raise where the name is asked for of a unit that is never asked it: here bytes leave.

    Raises:
        Invalid: BAD_SCPI.
    """
    if connection.never_ask_idn and asks_idn(text):
        raise Invalid(
            "*IDN? was not sent: this instrument is never asked it (never_ask_idn).",
            code=ErrorCode.BAD_SCPI,
            data={"scpi": text[:200]},
            remedy="Ask what its profile has; identify says what takes the place of *IDN?.",
        )


def _encoded(text: str, connection: Connection) -> bytes:
    """The bytes of one line.

    Raises:
        Invalid: BAD_SCPI, for characters that the line cannot carry or that would end it early.
    """
    if "\n" in text or "\r" in text:
        raise Invalid("One line of SCPI cannot hold a line end.", code=ErrorCode.BAD_SCPI)
    try:
        return (text + connection.write_termination).encode(connection.encoding)
    except UnicodeEncodeError as error:
        raise Invalid(
            f"{text[error.start]!r} cannot be sent: this line carries {connection.encoding} only.",
            code=ErrorCode.BAD_SCPI,
            data={"scpi": text[:200]},
        ) from error
