"""What is true of a run and yet misleads whoever reads it alone. Pure.

Source: docs/promises.md section 15, "What is true and misleading is said".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from edged.record import record

LIMITED: Final = "limited"
"""The column of a source's curve, or value of a result: whether its limit was reached."""
SLOW_S: Final = 1.0
SLOW: Final = 0.2
"""Of its time: what is late by less is as it was asked for."""
MOST_NOTES: Final = 32
"""Kept of one run; what was measured is bounded by its profile, what instruments say is not."""


class PointNotes:
    """What was said of single points: each sentence, and of how many of them."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def add(self, notes: Iterable[str]) -> None:
        """A point has come with these."""
        for note in notes:
            if note in self._counts or len(self._counts) < MOST_NOTES:
                self._counts[note] += 1

    def told(self, points: int) -> list[str]:
        """``CH1 is off (known of 12 of 41 points)``."""
        return [
            f"{note} (known of {count} of {points} points)" for note, count in self._counts.items()
        ]


def is_limited(values: Mapping[str, Any]) -> bool:
    """Whether a row of a table, or a result, says that the source's limit was reached there."""
    return values.get(LIMITED) is True


def notes_of_limit(limited: int, points: int, *, is_result_limited: bool) -> list[str]:
    """That a source gave what its limit allowed, and not what was set.

    Args:
        limited: at how many points of the table.
        is_result_limited: the result says so; of one without a table.
    """
    if points:
        return [f"the current limit was reached at {limited} of {points} points"] * bool(limited)
    return ["the current limit was reached"] if is_result_limited else []


def notes_of_fewer(
    came: int, missed: int, interval_s: float, busy_s: float, why: str = ""
) -> list[str]:
    """That fewer points came than were asked for.

    Args:
        busy_s: what the readings that came took together.
        why: the message of the last one that failed.
    """
    if not missed:
        return []
    told = f"{came + missed} points were asked for, {came} came"
    takes_s = busy_s / came if came else 0.0
    told = f"{told}: one reading takes {takes_s:.2g} s" if takes_s > interval_s else told
    return [told, *([f"the last one that failed: {why}"] if why else [])]


@record
class Pace:
    """What a ramp spends its time on, measured on the way.

    Attributes:
        took_s: so far.
        behind_s: how late it is.
        asked_s: what a step takes by its rate.
        write_s: what a step took to be written and confirmed, in the mean.
        read_s: what a row took to be read, in the mean; what it was asked to wait is no part of it.
        is_each_step: a row is taken at each step, not at points of the caller's choice.
    """

    took_s: float
    behind_s: float
    asked_s: float
    write_s: float
    read_s: float
    is_each_step: bool


def why_slower(pace: Pace) -> str:
    """Why a ramp takes longer than its rate and its rests would have; empty where it does not."""
    if pace.behind_s < max(SLOW_S, SLOW * pace.took_s):
        return ""
    if not pace.is_each_step and pace.read_s > max(pace.asked_s, pace.write_s):
        return f"readings take {pace.read_s:.2g} s a point, and the ramp waits for each"
    read_s = pace.read_s if pace.is_each_step else 0.0
    for what, takes_s in (
        ("readings take", read_s),
        ("writes take", pace.write_s),
        ("writes and readings take", pace.write_s + read_s),
    ):
        if takes_s > pace.asked_s:
            return f"{what} {takes_s:.2g} s a step, {pace.asked_s:.2g} s were asked for"
    return f"it took {pace.took_s:.3g} s, {pace.took_s - pace.behind_s:.3g} s by its rate"
