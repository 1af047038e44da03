"""The result of list_instruments, built again only after a change of what it shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from edged.changes import TOLD
from edged.clock import Clock
from edged.instruments.instrument import USED_FOR_MS, Instrument
from edged.instruments.pool import InstrumentPool
from edged.instruments.unit_state import StateOf, heard_ms
from edged.protocol.results import ToldList
from edged.store.lockouts import Lockout

__all__ = ["InstrumentList"]


class InstrumentList:
    """Makes the entries, and keeps all of them.

    Args:
        pool: the instruments.
        lockout: gives the lockout of one, or none.
        lease: gives who has reserved it, if anybody has.
        state_of: gives its state.
        clock: for when it was heard, and until when it counts as used.
    """

    def __init__(
        self,
        *,
        pool: InstrumentPool,
        lockout: Callable[[Instrument], Lockout | None],
        lease: Callable[[Instrument], Mapping[str, Any] | None],
        state_of: StateOf,
        clock: Clock,
    ) -> None:
        self._pool = pool
        self._lockout = lockout
        self._lease = lease
        self._state_of = state_of
        self._clock = clock
        # The latest list, the mark that it was made under, and the end of its life (Unix ms).
        self._list = ToldList()
        self._mark = ""
        self._until_ms: int | None = None

    def entry(self, instrument: Instrument) -> dict[str, Any]:
        """What is told of one; cached values only."""
        lockout = self._lockout(instrument)
        return {
            **instrument.summary(),
            "state": self._state_of(instrument).value,
            "heard_ms": heard_ms(instrument, self._clock),
            "lockout": lockout.to_json() if lockout else None,
            "lease": self._lease(instrument),
        }

    def all(self) -> ToldList:
        """What is told of each."""
        if self._mark != TOLD.mark() or (
            self._until_ms is not None and self._clock.wall_ms() >= self._until_ms
        ):
            # Before it is made: what changes meanwhile makes it old.
            self._mark = TOLD.mark()
            self._list = ToldList(self.entry(instrument) for instrument in self._pool.all())
            ends = [end for end in map(_until_ms, self._list) if end is not None]
            self._until_ms = min(ends, default=None)
        return self._list


def _until_ms(entry: Mapping[str, Any]) -> int | None:
    """Until when it stays true by itself: a lease is renewed by each call, and a use forgotten."""
    if entry["lease"] is not None:
        return 0
    used_ms: int | None = entry["used_by_ms"]
    return None if used_ms is None else used_ms + USED_FOR_MS
