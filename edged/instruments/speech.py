"""Speaking on an open link: the steps of a conversation as bytes, with gaps, limits and a trace.

Nothing here opens, cleans or judges a line; it raises what the link raises, and notes in
``is_suspect`` that an answer was not what a clean line gives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar, assert_never

from edged.clock import Clock
from edged.errors import ErrorCode, Invalid
from edged.instruments.conversation import (
    Answer,
    Ask,
    AskBlock,
    Conversation,
    Listen,
    Pause,
    Send,
    Step,
)
from edged.instruments.link import Link, LinkGarbled, LinkTimeout
from edged.instruments.mailbox import Job
from edged.instruments.trace import Direction, Trace
from edged.profiles.blocks import find_block_head
from edged.profiles.model import Connection

__all__ = ["Speech"]

MAX_BLOCK_BYTES: Final = 256 * 1024 * 1024
"""Deeper than any scope's memory in one block; a length beyond it is garbage."""
BLOCK_SLICE_BYTES: Final = 256 * 1024
"""A long block may take long, as long as it moves: the time limit is for each slice."""
STRAY_LINE_S: Final = 0.1
"""After an empty line the answer proper may follow; this long is waited for it, where the answer
may be empty itself and the line is not known for sending empty ones."""
MOST_STRAY_LINES: Final = 8
"""More empty lines than this before an answer are no habit: nothing will come."""
LINE_ENDS: Final = b"\r\n\x00 "

T = TypeVar("T")


class Speech:
    """The voice of one line; used by the actor's thread only."""

    def __init__(self, *, link: Link, clock: Clock, trace: Trace) -> None:
        self._link = link
        self._clock = clock
        self._trace = trace
        # When the last byte moved, for min_gap_ms.
        self._quiet_since = float("-inf")
        # The last conversation met something odd; the line wants cleaning before the next one.
        self.is_suspect = False
        # The line was looked at just now, so that the first step need not look again.
        self._is_looked_at = False
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
    ) -> T:
        """Drive a conversation to its end.

        Args:
            deadline: of the whole, on the monotonic scale.
            job: takes note of each line that has gone out, or ``None``.
            is_looked_at: nothing unasked was on the line just now.

        Raises:
            LinkError: the wire failed.
            EdgedError: the conversation ended itself by an error.
        """
        self.is_suspect = False
        self._is_looked_at = is_looked_at
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
        finally:
            conversation.close()

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
                return None
            case Ask():
                limit = self._write(step, connection, deadline, job)
                return self._read_text(step, connection, limit)
            case AskBlock():
                self._write(step, connection, deadline, job)
                return self._read_block(step, connection, deadline)
            case Listen():
                limit = min(deadline, self._clock.monotonic() + self._allowed_s(step, connection))
                try:
                    return self._read_line(connection, limit)
                except LinkTimeout:
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
        data = _encoded(step.text, connection)
        unasked = b"" if self._is_looked_at else self._link.pending()
        if unasked:
            self._trace.add(Direction.DISCARDED, unasked)
            if not self.is_blank(unasked, connection):
                self.is_suspect = True
        if connection.min_gap_ms:
            gap_s = self._quiet_since + connection.min_gap_ms / 1000 - self._clock.monotonic()
            if gap_s > 0:
                self._link.pause(gap_s)
        now = self._clock.monotonic()
        limit = min(deadline, now + self._allowed_s(step, connection))
        if limit <= now:
            raise LinkTimeout("its time was over")
        if job is not None:
            job.sent += (step.text,)
        self._trace.add(Direction.SENT, data)
        self._link.write(data, limit - now)
        self._quiet_since = self._clock.monotonic()
        return limit

    def _read_text(self, step: Ask, connection: Connection, limit: float) -> str:
        """The first line that is not empty.

        Some instruments send an empty line before or after each answer. Passing it over shifts
        nothing: whoever has answered all earlier questions owes this one alone. Where none but
        empty lines come, a late answer may still follow, and the line is suspect.
        """
        text = self._read_line(connection, limit)
        if text == step.text:
            raise LinkGarbled("it sends back what it is sent: its echo must be switched off")
        passed = 0
        while not text.strip() and passed < MOST_STRAY_LINES:
            passed += 1
            until = limit
            if step.may_be_empty and passed > self._stray_lines:
                until = min(limit, self._clock.monotonic() + STRAY_LINE_S)
            try:
                text = self._read_line(connection, until)
            except LinkTimeout:
                break
        if text.strip():
            self._stray_lines = max(self._stray_lines, passed)
        else:
            self.is_suspect = True
        return text

    def _read_line(self, connection: Connection, limit: float) -> str:
        terminator = (connection.read_termination or "\n").encode("ascii")
        data = self._link.read_message(terminator, limit - self._clock.monotonic())
        self._quiet_since = self._clock.monotonic()
        self._trace.add(Direction.RECEIVED, data)
        text = data.decode(connection.encoding, errors="replace")
        if "\ufffd" in text:
            self.is_suspect = True
        return text.strip("\r\n\x00")

    def _read_block(self, step: AskBlock, connection: Connection, deadline: float) -> bytes:
        """One block, header included; what trails it is read and dropped."""
        allowed_s = self._allowed_s(step, connection)

        def left_s() -> float:
            return min(allowed_s, deadline - self._clock.monotonic())

        data = b""
        head = None
        while head is None:
            data += self._link.read_exactly(1, left_s())
            head = find_block_head(data)
        if head.total is None:
            terminator = (connection.read_termination or "\n").encode("ascii")
            data += self._link.read_message(terminator, left_s())
        else:
            if head.total > MAX_BLOCK_BYTES:
                raise LinkGarbled(f"a block announces {head.total} bytes")
            data += self._read_slices(head.total - len(data), left_s)
        if step.trailing_bytes:
            self._link.read_exactly(step.trailing_bytes, left_s())
        self._quiet_since = self._clock.monotonic()
        self._trace.add(Direction.RECEIVED, data)
        return data

    def _read_slices(self, count: int, left_s: Callable[[], float]) -> bytes:
        parts = []
        while count > 0:
            part = self._link.read_exactly(min(count, BLOCK_SLICE_BYTES), left_s())
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

    @staticmethod
    def _allowed_s(step: Send | Ask | AskBlock | Listen, connection: Connection) -> float:
        return step.timeout_s if step.timeout_s is not None else connection.timeout_ms / 1000


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
