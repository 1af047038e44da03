"""A program's question, from its write to the last byte that is read of its answer. Pure."""

from __future__ import annotations

from edged.errors import EdgedError


class ProgramQuestion:
    """What became of it.

    Attributes:
        error: why there is no answer; ``None``: there is one, or none yet.
    """

    def __init__(self) -> None:
        self.error: EdgedError | None = None
        self._answer: memoryview | None = None
        self._at = 0

    @property
    def is_settled(self) -> bool:
        """Its answer is here, or it is known that none comes."""
        return self._answer is not None or self.error is not None

    @property
    def has_answer(self) -> bool:
        """Some of its answer waits to be read (MAV)."""
        return self._answer is not None and self._at < len(self._answer)

    @property
    def is_over(self) -> bool:
        """All of it was read, or there is nothing to read."""
        return self.is_settled and not self.has_answer

    def answered(self, answer: bytes) -> None:
        """The whole answer, line end included, is here."""
        self._answer = memoryview(answer)

    def failed(self, error: EdgedError) -> None:
        """None will come."""
        self.error = error

    def peek(self, most: int) -> bytes | None:
        """All that is left, where that is there and no more than so many bytes."""
        if self._answer is None or not 0 < len(self._answer) - self._at <= most:
            return None
        return bytes(self._answer[self._at :])

    def take(self, count: int) -> tuple[bytes, bool]:
        """The next bytes, ``count`` at most; and whether they are the last."""
        if self._answer is None:
            return b"", False
        piece = bytes(self._answer[self._at : self._at + count])
        self._at += len(piece)
        return piece, not self.has_answer
