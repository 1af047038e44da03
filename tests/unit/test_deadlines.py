"""One timer for many deadlines, on a loop whose time is turned by hand."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

from edged.deadlines import Deadlines


class Alarm:
    def __init__(self, at: float, ring: Callable[[], None]) -> None:
        self.at, self.ring, self.is_cancelled = at, ring, False

    def when(self) -> float:
        return self.at

    def cancel(self) -> None:
        self.is_cancelled = True

    def __lt__(self, other: Alarm) -> bool:
        return self.at < other.at


class TurnedLoop:
    def __init__(self) -> None:
        self.now = 0.0
        self.alarms: list[Alarm] = []

    def time(self) -> float:
        return self.now

    def call_at(self, at: float, ring: Callable[[], None]) -> Alarm:
        alarm = Alarm(at, ring)
        heapq.heappush(self.alarms, alarm)
        return alarm

    def turn_to(self, now: float) -> None:
        while self.alarms and self.alarms[0].at <= now:
            alarm = heapq.heappop(self.alarms)
            self.now = max(self.now, alarm.at)
            if not alarm.is_cancelled:
                alarm.ring()
        self.now = now


def make() -> tuple[TurnedLoop, Deadlines, list[tuple[Any, float]]]:
    loop, expired = TurnedLoop(), list[tuple[Any, float]]()
    deadlines = Deadlines(loop, lambda job: expired.append((job, loop.now)))  # type: ignore[arg-type]
    return loop, deadlines, expired


def test_each_job_expires_at_its_own_time_in_whatever_order_they_came() -> None:
    loop, deadlines, expired = make()
    for job, timeout_s in (("slow", 9.0), ("quick", 1.0), ("middle", 5.0)):
        deadlines.add(job, timeout_s)  # type: ignore[arg-type]
    loop.turn_to(20)
    assert expired == [("quick", 1.0), ("middle", 5.0), ("slow", 9.0)]


def test_a_job_that_is_done_in_time_never_expires_and_later_ones_still_do() -> None:
    loop, deadlines, expired = make()
    deadlines.add("done", 2.0)  # type: ignore[arg-type]
    deadlines.discard("done")  # type: ignore[arg-type]
    loop.turn_to(1.0)
    deadlines.add("late", 3.0)  # type: ignore[arg-type]
    loop.turn_to(20)
    assert expired == [("late", 4.0)]


def test_a_thousand_jobs_that_are_done_in_time_set_one_timer() -> None:
    loop, deadlines, _ = make()
    for number in range(1_000):
        deadlines.add(number, 10.0)  # type: ignore[arg-type]
        deadlines.discard(number)  # type: ignore[arg-type]
        loop.now += 0.001
    assert len(loop.alarms) == 1


def test_what_is_added_while_another_expires_keeps_its_time() -> None:
    loop, expired = TurnedLoop(), list[Any]()

    def expire(job: Any) -> None:
        expired.append((job, loop.now))
        if job == "first":
            deadlines.add("second", 1.0)  # type: ignore[arg-type]

    deadlines = Deadlines(loop, expire)  # type: ignore[arg-type]
    deadlines.add("first", 1.0)  # type: ignore[arg-type]
    deadlines.add("other", 5.0)  # type: ignore[arg-type]
    loop.turn_to(20)
    assert expired == [("first", 1.0), ("second", 2.0), ("other", 5.0)]


def test_a_time_that_is_said_again_counts_instead_sooner_or_later() -> None:
    loop, deadlines, expired = make()
    deadlines.add("put off", 1.0)
    deadlines.add("put off", 5.0)
    deadlines.add("brought near", 9.0)
    deadlines.add("brought near", 2.0)
    loop.turn_to(20)
    assert expired == [("brought near", 2.0), ("put off", 5.0)]
