"""How the store thread is woken: rarely, because every waking costs more than a row.

Whoever has something to write appends it to a queue first and rings then. A bell that has been rung
for rows, or for a job, is not rung again until the thread has answered; it answers before it takes
from the queues, so nothing that was appended is missed.
"""

from __future__ import annotations

import enum
import queue
from collections.abc import Callable, Mapping
from typing import Final

__all__ = ["Bell", "Ring"]


class Ring(enum.Enum):
    """Why the thread is woken."""

    ROWS = enum.auto()
    ROWS_SOON = enum.auto()
    JOB = enum.auto()
    STOP = enum.auto()
    DAMAGE = enum.auto()


GATHER_S: Final[Mapping[Ring | None, float]] = {Ring.ROWS: 0.25, Ring.ROWS_SOON: 0.05}
"""How long rows that nobody waits for may wait for company: those of reads, and those of writes.

A group costs what some fifty rows cost, and both threads some waiting for each other."""


class Bell:
    """One thread listens; any thread rings."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._rings: queue.SimpleQueue[Ring] = queue.SimpleQueue()
        self._rung_for_rows = False
        self._rung_for_soon = False
        self._rung_for_job = False
        # Set by the thread itself as it hears of them, and never reset here.
        self.is_stopping = False
        self.is_damaged = False

    def ring_for_rows(self, *, is_soon: bool = False) -> None:
        """Rows wait; costs next to nothing when that has been said already."""
        if is_soon and not self._rung_for_soon:
            self._rung_for_soon = self._rung_for_rows = True
            self._rings.put(Ring.ROWS_SOON)
        elif not self._rung_for_rows:
            self._rung_for_rows = True
            self._rings.put(Ring.ROWS)

    def ring_for_job(self) -> None:
        """A job waits, and somebody for it."""
        if not self._rung_for_job:
            self._rung_for_job = True
            self._rings.put(Ring.JOB)

    def ring(self, why: Ring) -> None:
        """Something that happens once."""
        self._rings.put(why)

    def wait(self, timeout_s: float | None) -> None:
        """Return when a group is due: at once for a job, after a short gathering for rows.

        Args:
            timeout_s: return after that long whatever happens; None is for ever.
        """
        ring = self._hear(timeout_s)
        if ring not in GATHER_S:
            return
        end = self._monotonic() + GATHER_S[ring]
        while (left_s := end - self._monotonic()) > 0:
            ring = self._hear(left_s)
            if ring not in GATHER_S:
                return
            end = min(end, self._monotonic() + GATHER_S[ring])

    def answer(self) -> None:
        """What is rung for from now on is new. To be called before anything is taken."""
        self._rung_for_rows = self._rung_for_soon = self._rung_for_job = False

    def _hear(self, timeout_s: float | None) -> Ring | None:
        try:
            ring = self._rings.get(timeout=timeout_s)
        except queue.Empty:
            return None
        if ring is Ring.STOP:
            self.is_stopping = True
        elif ring is Ring.DAMAGE:
            self.is_damaged = True
        return ring
