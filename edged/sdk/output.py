"""What a wrapper and its vendor's library print → lines of the log, as many as a log can bear."""

from __future__ import annotations

from collections import deque
from typing import Final

import structlog

from edged.clock import Clock

__all__ = ["OutputLog"]

LONGEST_LINE: Final = 1_000
MOST_LINES: Final = 100
"""In one window; beyond that they are counted only."""
WINDOW_S: Final = 10.0
LAST_WORDS: Final = 8
MOST_OF_A_CHUNK: Final = 256


class OutputLog:
    """Takes the bytes of one wrapper's standard output and error, of all its lives.

    Args:
        stem: the wrapper, for the lines.
        clock: for the window.
    """

    def __init__(self, stem: str, clock: Clock) -> None:
        self._log = structlog.get_logger("edged.sdk").bind(wrapper=stem)
        self._clock = clock
        self._rest = b""
        self._began = clock.monotonic()
        self._count = 0
        self._dropped = 0
        self._last: deque[str] = deque(maxlen=LAST_WORDS)

    @property
    def last_words(self) -> str:
        """The newest lines."""
        return "\n".join(self._last)

    def take(self, chunk: bytes) -> bool:
        """Note what was printed; returns whether it was too much, so that the reader rests."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        if len(self._rest) > LONGEST_LINE:
            lines.append(self._rest)
            self._rest = b""
        self._roll()
        shown = lines[-MOST_OF_A_CHUNK:]
        self._dropped += len(lines) - len(shown)
        for line in shown:
            self._note(line)
        return self._count >= MOST_LINES

    def end(self) -> None:
        """The process is gone: what has no line end yet is a line, too."""
        if self._rest:
            self._note(self._rest)
            self._rest = b""
        self._tell_dropped()

    def _note(self, line: bytes) -> None:
        text = line[:LONGEST_LINE].decode("utf-8", "replace").strip()
        if not text:
            return
        self._last.append(text[:200])
        if self._count >= MOST_LINES:
            self._dropped += 1
            return
        self._count += 1
        self._log.info("sdk_output", text=text)

    def _roll(self) -> None:
        now = self._clock.monotonic()
        if now - self._began >= WINDOW_S:
            self._tell_dropped()
            self._began, self._count = now, 0

    def _tell_dropped(self) -> None:
        if self._dropped:
            self._log.warning("sdk_output_dropped", lines=self._dropped)
            self._dropped = 0
