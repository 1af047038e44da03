"""What came as if to answer lines that ask nothing, until a caller gets it. Pure."""

from __future__ import annotations

from collections import deque
from dataclasses import field
from typing import Final

from edged.record import record
from edged.scpi.blocks import MOST_HEAD, bytes_lacking
from edged.transports.link import LinkGarbled

MOST_LINES: Final = 8
LONGEST: Final = 1024 * 1024
"""Bytes that are kept of what one line is answered by."""
MOST_UNENDED: Final = 64
LONGEST_UNENDED: Final = 16
"""Bytes of an acknowledgement without a line end that is known the next time."""


@record(frozen=False, kw_only=False)
class _Answer:
    """What has come after one line.

    Attributes:
        is_old: the same line was written again since, so that this answers it no more.
    """

    line: str
    data: bytearray = field(default_factory=bytearray)
    is_old: bool = False


class Overheard:
    """The answers that came after the last lines, each in one piece.

    ``has`` may be called from any thread; all else by the work of the line.
    """

    def __init__(self) -> None:
        self._answers: deque[_Answer] = deque(maxlen=MOST_LINES)
        # Whole answers without a line end: an acknowledgement may be one byte.
        self._unended: set[bytes] = set()

    def wrote(self, line: str) -> None:
        """A line goes out: what came before answers none like it."""
        for answer in self._answers:
            answer.is_old = answer.is_old or answer.line == line

    def add(self, line: str, data: bytes) -> None:
        """Keep the next piece of what a line is answered by.

        Raises:
            LinkGarbled: it is too long to be kept, and would be given in part.
        """
        answer = self._answers[-1] if self._answers else None
        if answer is None or answer.is_old or answer.line != line:
            answer = _Answer(line)
            self._answers.append(answer)
        answer.data += data
        if len(answer.data) > LONGEST:
            self._answers.pop()
            raise LinkGarbled(f"{line[:80]} was answered by more than {LONGEST} bytes")

    def has(self, line: str) -> bool:
        """Whether something has come as if to answer this line."""
        return any(one.line == line and not one.is_old for one in tuple(self._answers))

    def of(self, line: str) -> bytes:
        """What has come as if to answer this line."""
        return b"".join(one.data for one in self._answers if one.line == line and not one.is_old)

    def take(self, line: str) -> bytes:
        """``of``, and forget it."""
        came = self.of(line)
        kept = [one for one in self._answers if one.line != line or one.is_old]
        self._answers = deque(kept, MOST_LINES)
        return came

    def take_all(self) -> tuple[tuple[str, bytes], ...]:
        """All lines with what came after them; forget it."""
        told = tuple((one.line, bytes(one.data)) for one in self._answers)
        self._answers.clear()
        return told

    def clear(self) -> None:
        """Forget all."""
        self._answers.clear()
        self._unended.clear()

    def is_open(self, line: str, terminator: bytes) -> bool:
        """Whether an answer has begun, and not ended, on a wire that marks no ends."""
        came = self.of(line)
        if not came or came in self._unended:
            return False
        return bytes_lacking(came[:MOST_HEAD], len(came)) > 0 or not came.endswith(terminator)

    def never_ends(self, line: str) -> None:
        """No line end came behind an answer in time: the same bytes are an answer from now on."""
        came = self.of(line)
        if len(came) <= LONGEST_UNENDED and len(self._unended) < MOST_UNENDED:
            self._unended.add(came)
