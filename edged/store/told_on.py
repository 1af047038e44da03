"""Which outputs of which units have been told to put something out, and were not seen to be off.

What stop all may call confirmed hangs on it, so it outlives the daemon: a mark is set before the
order is written down and goes to disk with it, in one transaction; it is taken back only by an
answer that says "off". Where a crash leaves a mark too many, one is asked once more.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from edged.clock import Clock
from edged.record import record
from edged.store.database import Database, FewRows

Turns = Mapping[str, Mapping[str, int]]
"""Unit → output → which telling it was; a later one has a higher number."""

COLUMNS: Final = ("unit", "output", "instrument_id", "since_ms")
LEFT: Final = 0
"""The turn of a mark that was there when the engine started."""


@record(frozen=False, kw_only=False)
class _Mark:
    instrument_id: str
    since_ms: int
    turn: int
    why: str = ""


class ToldOn:
    """The marks, in memory and on disk. All methods belong to the loop.

    Args:
        database: where they are kept.
        clock: for since when.
    """

    def __init__(self, *, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        # By unit and output; the inner mappings are replaced, so that the store thread may read.
        self._marks: dict[str, dict[str, _Mark]] = {}
        self._turn = 0
        self._table = FewRows(database, "told_on", COLUMNS, take=self._take, rows=self._rows)

    def note(self, unit: str, instrument_id: str, outputs: Collection[str], why: str = "") -> None:
        """A command that may set these outputs is about to be sent. Never raises, never waits.

        Args:
            why: why their state is not known afterwards, a clause; empty if it is known.
        """
        if not outputs:
            return
        self._turn += 1
        known = self._marks.get(unit, {})
        for output in outputs:
            if output in known:
                known[output].turn, known[output].why = self._turn, why
        fresh = [output for output in outputs if output not in known]
        if fresh:
            now = self._clock.wall_ms()
            added = {output: _Mark(instrument_id, now, self._turn, why) for output in fresh}
            self._replace({**self._marks, unit: {**known, **added}})

    def turns(self) -> Turns:
        """All that is marked, as it is now."""
        return {
            unit: {output: mark.turn for output, mark in marks.items()}
            for unit, marks in self._marks.items()
        }

    def of(self, unit: str) -> Mapping[str, int]:
        """What of one unit is marked."""
        return {output: mark.turn for output, mark in self._marks.get(unit, {}).items()}

    def since_ms(self, unit: str) -> int | None:
        """Since when the first that is marked of one unit is; ``None``: nothing is."""
        return min((mark.since_ms for mark in self._marks.get(unit, {}).values()), default=None)

    def instrument_of(self, unit: str) -> str:
        """Under which id the unit was last told something."""
        return next((mark.instrument_id for mark in self._marks.get(unit, {}).values()), "")

    def told(self) -> dict[str, dict[str, Any]]:
        """Unit → {instrument_id, outputs, since_ms, why, left}; the id is the one at that time.

        ``why`` is why the state of its outputs is not known; empty if that was in a previous run of
        the engine. ``left`` are the outputs that the previous run left on, and that were neither
        set since nor seen to be off.
        """
        return {
            unit: {
                "instrument_id": self.instrument_of(unit),
                "outputs": sorted(marks),
                "since_ms": self.since_ms(unit),
                "why": next((mark.why for mark in marks.values() if mark.why), ""),
                "left": sorted(output for output, mark in marks.items() if mark.turn == LEFT),
            }
            for unit, marks in self._marks.items()
        }

    def forget(self, names: Collection[str]) -> list[str]:
        """A person has looked: take back what is marked of these ids or units; its outputs."""
        found: list[str] = []
        for unit, marks in list(self._marks.items()):
            if unit in names or self.instrument_of(unit) in names:
                found += sorted(marks)
                self._replace({key: kept for key, kept in self._marks.items() if key != unit})
        return found

    def clear(self, unit: str, seen_off: Mapping[str, int]) -> None:
        """These were seen to be off; what was told something since that turn stays marked."""
        known = self._marks.get(unit, {})
        left = {
            output: mark
            for output, mark in known.items()
            if output not in seen_off or mark.turn > seen_off[output]
        }
        if len(left) < len(known):
            others = {key: marks for key, marks in self._marks.items() if key != unit}
            self._replace({**others, unit: left} if left else others)

    def _replace(self, marks: dict[str, dict[str, _Mark]]) -> None:
        self._marks = marks
        self._table.changed()
        self._database.nudge()

    # What the store thread calls.

    def _take(self, rows: list[tuple[Any, ...]]) -> None:
        for unit, output, instrument_id, since_ms in rows:
            since = since_ms if isinstance(since_ms, int) else 0
            marks = self._marks.setdefault(str(unit), {})
            marks.setdefault(str(output), _Mark(str(instrument_id), since, LEFT))

    def _rows(self) -> list[tuple[Any, ...]]:
        return [
            (unit, output, mark.instrument_id, mark.since_ms)
            for unit, marks in self._marks.items()
            for output, mark in marks.items()
        ]
