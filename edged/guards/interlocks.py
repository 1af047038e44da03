"""One interlock: when its meter is read, what a reading means, and when it trips. Pure.

Times are monotonic seconds of one life of the daemon. While an output is on that it guards, it is
*watching*: each good reading lets it go on for ``max_age_s``; a bad one, or none in time, trips it.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Collection, Mapping
from typing import Any, Final

from edged.errors import Invalid
from edged.profiles.expr import Expression
from edged.profiles.interlocks import Interlock
from edged.record import record

MOST_SHOWN: Final = 80
Told = tuple[str, str, int]
"""A unit, an output of it that may be on, and which telling that was."""


class ReadingWorth(enum.Enum):
    """What a reading is worth. ``MISSING``: none came, or no number."""

    GOOD = "good"
    BAD = "bad"
    MISSING = "missing"


class WatchState(enum.StrEnum):
    """``TRIPPED`` lasts until nothing is on, or a guarded write was let through again."""

    IDLE = "idle"
    WATCHING = "watching"
    TRIPPED = "tripped"


@record
class MeterReading:
    """One try to read.

    Attributes:
        said: the value with its unit, or why there is none; for people.
        asked_s: when it was asked.
    """

    verdict: ReadingWorth
    said: str
    asked_s: float
    value: float | None = None


def judged(rule: Interlock, data: Any, unit: str, asked_s: float) -> MeterReading:
    """What an answer means.

    Args:
        data: as the command gives it: a scalar, or fields by name.
        unit: of the value, as far as it is known.
    """
    value = _value(rule, data)
    if value is None:
        said = f"no number, but {str(data)[:MOST_SHOWN]!r}"
        return MeterReading(verdict=ReadingWorth.MISSING, said=said, asked_s=asked_s)
    is_good = _is_true(rule.must, value)
    said = f"{value:g} {unit}".rstrip()
    verdict = ReadingWorth.GOOD if is_good else ReadingWorth.BAD
    return MeterReading(verdict=verdict, said=said, asked_s=asked_s, value=value)


def _value(rule: Interlock, data: Any) -> float | None:
    if isinstance(data, Mapping):
        data = data.get(rule.column)
    if isinstance(data, bool):
        return float(data)
    if not isinstance(data, int | float) or not math.isfinite(data):
        return None
    return float(data)


def _is_true(must: Expression, value: float) -> bool:
    try:
        return must.is_true({"value": value})
    except Invalid:
        # It divides by what is 0 just now: that is not what must be so.
        return False


class Watching:
    """What is known of one interlock.

    Attributes:
        rule: see there.
        last: the last reading.
        reason: why it tripped last; empty if it has not, or a guarded write was let through since.
        tripped_s: when that was.
        aborted: what was on when it tripped; all of it is told to go off.
    """

    def __init__(self, rule: Interlock) -> None:
        self.rule = rule
        self.state = WatchState.IDLE
        self.last: MeterReading | None = None
        self.reason = ""
        self.tripped_s: float | None = None
        self.aborted: frozenset[Told] = frozenset()
        # When the last good reading was asked; while watching, where there was none yet, the
        # moment from which its age counts: that of the first try.
        self._good_s: float | None = None
        self._first_try_s: float | None = None

    def waits(self) -> bool:
        """Whether it has tripped, and what is on waits for its abort."""
        return self.state is WatchState.TRIPPED

    def begin(self, told: Collection[Told]) -> None:
        """Guarded outputs are on, or are about to be.

        Where it has tripped, what was on then waits for its abort; what is told so since is watched
        anew.
        """
        if self.state is WatchState.TRIPPED and not self.aborted.issuperset(told):
            self.state = WatchState.IDLE
        if self.state is WatchState.IDLE:
            self.state, self._first_try_s = WatchState.WATCHING, None

    def rest(self) -> None:
        """Nothing that it guards is on."""
        self.state, self._first_try_s, self.aborted = WatchState.IDLE, None, frozenset()

    def let_through(self) -> None:
        """A guarded write has met a good reading: what tripped it is over."""
        self.reason = ""
        if self.state is WatchState.TRIPPED:
            self.rest()

    def note_try(self, now_s: float) -> None:
        """The meter is about to be asked, or could not be found."""
        if self._first_try_s is None:
            self._first_try_s = now_s

    def take(self, reading: MeterReading) -> str:
        """What a reading comes to: why it trips, empty where it does not."""
        self.last = reading
        if reading.verdict is ReadingWorth.GOOD:
            self._good_s = max(reading.asked_s, self._good_s or reading.asked_s)
        if reading.verdict is ReadingWorth.BAD and self.state is WatchState.WATCHING:
            return f"{self.rule.asked} is {reading.said}, and must be: {self.rule.must.text}"
        return ""

    def overdue(self, now_s: float) -> str:
        """Why it trips by now, though nothing bad was read; empty where it does not."""
        ends_s = self.ends_s
        if ends_s is None or now_s < ends_s:
            return ""
        why = self.last.said if self.last is not None else "it was never read"
        if self.last is not None and self.last.verdict is ReadingWorth.GOOD:
            why = "it does not answer"
        return f"{self.rule.asked} gave no reading for {self.rule.max_age_s:g} s: {why}"

    @property
    def ends_s(self) -> float | None:
        """When it trips unless there is a good reading; ``None`` while it does not watch.

        What is asked ``poll_s`` after the last good one may take ``max_age_s`` to come.
        """
        if self.state is not WatchState.WATCHING or self._first_try_s is None:
            return None
        # A reading of before it watched let it begin, and no more.
        since_s = max(self._first_try_s, self._good_s or -math.inf)
        return since_s + self.rule.poll_s + self.rule.max_age_s

    def trip(self, reason: str, now_s: float, told: Collection[Told]) -> None:
        """It has tripped, and this is made safe."""
        self.state, self.reason, self.tripped_s = WatchState.TRIPPED, reason, now_s
        self.aborted = frozenset(told)

    def cools_until_s(self) -> float:
        """Until when guarded writes are refused, whatever is read."""
        return -math.inf if self.tripped_s is None else self.tripped_s + self.rule.cool_down_s

    def age_s(self, now_s: float) -> float | None:
        """How old the last good reading is; ``None`` where there was none."""
        return None if self._good_s is None else now_s - self._good_s

    def is_fresh(self, now_s: float, within_s: float) -> bool:
        """Whether the last reading of all was good, and asked within that time."""
        good = self.last is not None and self.last.verdict is ReadingWorth.GOOD
        return good and self._good_s is not None and now_s - self._good_s <= within_s
