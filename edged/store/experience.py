"""What experience says about each command of each instrument.

Counted on the event loop, kept in memory, written by the store thread every two seconds: the counts
of the last moments before a power failure are lost, and nothing but those.

How long something takes, as a histogram of fixed size. Pure.

Buckets are a quarter of an octave wide, so a percentile is right within 9 %. Old measurements fade:
when a histogram is full, every count is halved.
"""

from __future__ import annotations

import bisect
import collections
import json
import sqlite3
from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final, NamedTuple

from edged.clock import Clock
from edged.record import part
from edged.store.database import Database
from edged.store.writer import Opening

SMALLEST_MS: Final = 0.05
BUCKETS: Final = 100
"""From 50 µs to 25 minutes."""
BOUNDS_MS: Final = tuple(SMALLEST_MS * 2 ** (step / 4) for step in range(BUCKETS - 1))
FULL: Final = 2_000


class Unit(NamedTuple):
    """One physical instrument: a key that stays the same, and the firmware it has now."""

    key: str
    firmware: str = ""


def unit_of(
    *, manufacturer: str, model: str, serial: str, firmware: str, instrument_id: str
) -> Unit:
    """The unit behind an identity; without a serial number its address is all there is."""
    tail = serial or instrument_id
    return Unit(f"{manufacturer}|{model}|{tail}", firmware)


class Latency:
    """Latencies of one command on one instrument, in milliseconds."""

    __slots__ = ("_counts", "_total")

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self._total = 0

    def note(self, duration_ms: float) -> None:
        """Take a measurement in."""
        bucket = bisect.bisect_left(BOUNDS_MS, duration_ms)
        self._counts[bucket] = self._counts.get(bucket, 0) + 1
        self._total += 1
        if self._total >= FULL:
            self._counts = {at: count // 2 for at, count in self._counts.items() if count > 1}
            self._total = sum(self._counts.values())

    def percentile(self, share: float) -> float | None:
        """The duration under which that share (0 to 1) stayed; None before the first one."""
        counts = dict(self._counts)
        rest = share * sum(counts.values())
        for bucket in sorted(counts):
            rest -= counts[bucket]
            if rest <= 0:
                # The geometric middle of the bucket; its upper bound is a factor 2^(1/8) above.
                return round(BOUNDS_MS[min(bucket, BUCKETS - 2)] / 2**0.125, 3)
        return None

    def dump(self) -> str:
        """As text, for ``parse``."""
        return json.dumps(sorted(self._counts.items()), separators=(",", ":"))

    @classmethod
    def parse(cls, text: str) -> Latency:
        """From ``dump``'s text; an empty one from anything else."""
        latency = cls()
        try:
            pairs = [(int(bucket), int(count)) for bucket, count in json.loads(text)]
        except (TypeError, ValueError):
            return latency
        latency._counts = {at: n for at, n in pairs if 0 <= at < BUCKETS and n > 0}
        latency._total = sum(latency._counts.values())
        return latency


FLUSH_S: Final = 2.0
MAX_UNITS: Final = 500
"""An instrument that answers another serial number each time must not fill the memory."""
ERROR_CHARS: Final = 200

SAVE_UNIT: Final = "INSERT OR REPLACE INTO capability_unit (unit, firmware) VALUES (?, ?)"
SAVE: Final = (
    "INSERT OR REPLACE INTO capability (unit, command, calls, failures, last_success_ms, "
    "last_error, is_undefined, latencies) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)
LOAD: Final = (
    "SELECT unit, command, calls, failures, last_success_ms, last_error, is_undefined, latencies "
    "FROM capability"
)
FORGET: Final = "DELETE FROM capability WHERE unit = ?"
FORGET_UNIT: Final = "DELETE FROM capability_unit WHERE unit = ?"


@part
class CommandKnowledge:
    """What is known of one command on one unit.

    Attributes:
        calls: attempts that reached the instrument, failed ones included.
        failures: those that failed.
        last_success_ms: Unix epoch milliseconds, 0 before the first.
        last_error: text of the newest failure, empty when there was none.
        is_undefined: the instrument itself said that it does not know the command, and nothing
            since has shown otherwise.
    """

    unit: str
    command: str
    calls: int = 0
    failures: int = 0
    last_success_ms: int = 0
    last_error: str = ""
    is_undefined: bool = False
    latency: Latency = field(default_factory=Latency)
    # It waits in the queue of what must be written.
    is_dirty: bool = False

    def to_json(self) -> dict[str, Any]:
        """JSON-ready; latencies are of calls that went well."""
        p50, p95 = self.latency.percentile(0.5), self.latency.percentile(0.95)
        return {
            "calls": self.calls,
            "failures": self.failures,
            "last_success_ms": self.last_success_ms or None,
            "last_error": self.last_error,
            "latency_ms": None if p50 is None else {"p50": p50, "p95": p95},
            "is_undefined": self.is_undefined,
        }


class CapabilityBook:
    """Counters for every command of every instrument.

    Args:
        database: where they are kept; the book attaches itself.
        clock: for the time of the last success and of the next writing.
    """

    def __init__(self, *, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._firmware: dict[str, str] = {}
        self._units: dict[str, dict[str, CommandKnowledge]] = {}
        # Appended to by the loop's thread, taken from by the store thread: what has changed, and
        # units to forget or (a Unit) whose firmware is to be remembered.
        self._dirty: collections.deque[CommandKnowledge] = collections.deque()
        self._unit_changes: collections.deque[tuple[Unit, bool]] = collections.deque()
        # The store thread's own: what is in the running transaction.
        self._writing: list[CommandKnowledge] = []
        self._writing_units: list[tuple[Unit, bool]] = []
        self._written_at = clock.monotonic()
        self._is_loaded = False
        self._flag = database.attach(self, settle=self.settle)

    def seen(self, unit: Unit) -> None:
        """A unit has said who it is. With other firmware, what was learned no longer holds."""
        before = self._firmware.get(unit.key)
        if before == unit.firmware:
            return
        self._firmware[unit.key] = unit.firmware
        is_changed = before is not None
        if is_changed:
            self._units.pop(unit.key, None)
        self._unit_changes.append((unit, is_changed))
        self._forget_too_many()
        self._flag.is_raised = True
        self._database.nudge()

    def note(
        self,
        unit: Unit,
        command: str,
        *,
        is_ok: bool,
        duration_ms: float,
        error: str = "",
        is_undefined: bool = False,
    ) -> None:
        """Count one attempt that reached the instrument. Never raises, never waits.

        Args:
            duration_ms: how long it took; counted when it went well.
            error: why it failed.
            is_undefined: the instrument called the command undefined.
        """
        if self._firmware.get(unit.key) != unit.firmware:
            self.seen(unit)
        known = self._units.setdefault(unit.key, {})
        knowledge = known.get(command)
        if knowledge is None:
            knowledge = known[command] = CommandKnowledge(unit.key, command)
        knowledge.calls += 1
        if is_ok:
            knowledge.last_success_ms = self._clock.wall_ns() // 1_000_000
            knowledge.is_undefined = False
            knowledge.latency.note(duration_ms)
        else:
            knowledge.failures += 1
            knowledge.last_error = error[:ERROR_CHARS]
            knowledge.is_undefined = knowledge.is_undefined or is_undefined
        if not knowledge.is_dirty:
            self._mark(knowledge)

    def of(self, unit: Unit) -> Mapping[str, CommandKnowledge]:
        """What is known of each command of a unit with this firmware; empty when nothing is."""
        if self._firmware.get(unit.key) != unit.firmware:
            return {}
        return self._units.get(unit.key, {})

    def _mark(self, knowledge: CommandKnowledge) -> None:
        knowledge.is_dirty = True
        self._dirty.append(knowledge)
        self._flag.is_raised = True
        self._database.nudge()

    def _forget_too_many(self) -> None:
        while len(self._firmware) > MAX_UNITS:
            oldest = next(iter(self._firmware))
            del self._firmware[oldest]
            self._units.pop(oldest, None)
            self._unit_changes.append((Unit(oldest, ""), True))

    # What the store thread calls: the Book.

    def load(self, connection: sqlite3.Connection, opening: Opening) -> None:
        """See ``Book``. Memory goes before what is stored, once there is something in it."""
        if self._is_loaded:
            if opening.is_fresh:
                self._write_all_again()
            return
        firmware = connection.execute("SELECT unit, firmware FROM capability_unit").fetchall()
        units: dict[str, dict[str, CommandKnowledge]] = {}
        for row in connection.execute(LOAD).fetchall():
            knowledge = _knowledge(row)
            units.setdefault(knowledge.unit, {})[knowledge.command] = knowledge
        # Nobody counts before the database has been started, so this replaces nothing.
        self._firmware, self._units = dict(firmware), units
        self._is_loaded = True

    def write(self, connection: sqlite3.Connection, *, is_last: bool) -> None:
        """See ``Book``. Holds back until it is time, so that a busy bench writes little."""
        now = self._clock.monotonic()
        if not is_last and now - self._written_at < FLUSH_S:
            self._flag.is_raised = True
            return
        self._written_at = now
        while self._unit_changes:
            unit, is_changed = self._unit_changes.popleft()
            self._writing_units.append((unit, is_changed))
            if is_changed:
                connection.execute(FORGET, (unit.key,))
                connection.execute(FORGET_UNIT, (unit.key,))
            if unit.key in self._firmware:
                connection.execute(SAVE_UNIT, unit)
        while self._dirty:
            knowledge = self._dirty.popleft()
            # Before the values are read: what changes after that marks it again.
            knowledge.is_dirty = False
            self._writing.append(knowledge)
            if self._is_current(knowledge):
                connection.execute(SAVE, _values(knowledge))

    def settle(self, *, is_committed: bool) -> None:
        if not is_committed:
            self._unit_changes.extendleft(reversed(self._writing_units))
            for knowledge in self._writing:
                if not knowledge.is_dirty:
                    knowledge.is_dirty = True
                    self._dirty.append(knowledge)
        self._writing.clear()
        self._writing_units.clear()

    def _is_current(self, knowledge: CommandKnowledge) -> bool:
        """False for what was forgotten while it waited."""
        return self._units.get(knowledge.unit, {}).get(knowledge.command) is knowledge

    def _write_all_again(self) -> None:
        self._flag.is_raised = True
        for key, firmware in list(self._firmware.items()):
            self._unit_changes.append((Unit(key, firmware), False))
        for known in list(self._units.values()):
            for knowledge in list(known.values()):
                if not knowledge.is_dirty:
                    knowledge.is_dirty = True
                    self._dirty.append(knowledge)


def _knowledge(row: tuple[Any, ...]) -> CommandKnowledge:
    """From a stored row; a number that somebody has spoiled is 0."""
    unit, command, *counts, error, undefined, latencies = row
    calls, failures, success = (n if isinstance(n, int) else 0 for n in counts)
    return CommandKnowledge(
        str(unit),
        str(command),
        calls=calls,
        failures=failures,
        last_success_ms=success,
        last_error=str(error),
        is_undefined=bool(undefined),
        latency=Latency.parse(latencies),
    )


def _values(knowledge: CommandKnowledge) -> tuple[Any, ...]:
    return (
        knowledge.unit,
        knowledge.command,
        knowledge.calls,
        knowledge.failures,
        knowledge.last_success_ms,
        knowledge.last_error.encode("utf-8", "replace").decode("utf-8"),
        int(knowledge.is_undefined),
        knowledge.latency.dump(),
    )
