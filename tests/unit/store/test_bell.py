from __future__ import annotations

from pathlib import Path

from edged.clock import SystemClock
from edged.store.audit.book import ROWS_IN_GROUP, Audit
from edged.store.audit.chain import RepeatedRow
from edged.store.audit.row import Entry
from edged.store.head_mark import HeadMark
from edged.store.writer import Book, DirtyFlag, Ring, Settle, WakeSignal
from tests.bench.store_bench import entry


class Times:
    """A clock that says these times, one after the other, and fails on one more question."""

    def __init__(self, *times: float) -> None:
        self.left = list(times)

    def __call__(self) -> float:
        return self.left.pop(0)


def test_rows_of_writes_cut_the_gathering_short() -> None:
    wake_signal = WakeSignal(times := Times(0.0, 0.01, 0.02, 0.08))
    wake_signal.ring_for_rows()
    wake_signal.ring_for_rows(is_soon=True)
    wake_signal.wait(None)
    assert not times.left


def test_rows_of_reads_make_nobody_hurry_and_nobody_slower() -> None:
    wake_signal = WakeSignal(times := Times(0.0, 0.01, 0.02, 0.03, 0.04, 0.06))
    wake_signal.ring_for_rows(is_soon=True)
    wake_signal.ring_for_rows()
    wake_signal._rings.put(Ring.ROWS)
    wake_signal._rings.put(Ring.ROWS)
    wake_signal.wait(None)
    assert not times.left


def test_a_job_ends_the_gathering_at_once() -> None:
    wake_signal = WakeSignal(Times(0.0, 0.0))
    wake_signal.ring_for_rows()
    wake_signal.ring_for_job()
    wake_signal.wait(None)


class Rung:
    """Stands for the database: counts how often somebody rings."""

    head_mark = HeadMark(Path("no such directory", "edged.db-head"))

    def __init__(self) -> None:
        self.rings: list[bool] = []

    def attach(self, book: Book, *, settle: Settle) -> DirtyFlag:
        self.flag = DirtyFlag(book, settle)
        return self.flag

    def nudge(self, *, is_soon: bool = False) -> None:
        self.rings.append(is_soon)


def noted(*entries: Entry) -> list[bool]:
    database = Rung()
    audit = Audit(database=database, clock=SystemClock())  # type: ignore[arg-type]
    for one in entries:
        audit.note(one)
    return database.rings


def test_only_the_first_of_many_reads_rings() -> None:
    assert noted(entry(), entry(), entry()) == [False]


def test_each_write_rings_and_soon() -> None:
    assert noted(entry(), entry(is_weighty=True), entry()) == [False, True]


def test_a_group_that_is_full_is_not_gathered_any_longer() -> None:
    database = Rung()
    audit = Audit(database=database, clock=SystemClock())  # type: ignore[arg-type]
    repeated = RepeatedRow(entry())
    for number in range(ROWS_IN_GROUP + 5):
        audit.note_again(repeated, f"a{number}", 0.5)
    assert database.rings == [False, True]
    assert audit.waiting == ROWS_IN_GROUP + 5
