from types import SimpleNamespace
from typing import Any

from edged.engine.status import KEPT_S, StatusReport
from tests.bench.context import bench_of
from tests.bench.driven_clock import DrivenClock


class Nothing:
    """Stands in for every room: there is nothing to tell."""

    def all(self) -> tuple[Any, ...]:
        return ()

    def running(self, *_kind: Any) -> list[Any]:
        return []

    active = all


def report_over(clock: DrivenClock, marks: list[int], asked: list[int]) -> StatusReport:
    room: Any = Nothing()
    return StatusReport(
        bench_of(clock, pool=room, edge_name=""),
        edge_id="e",
        work=SimpleNamespace(  # type: ignore[arg-type]
            registry=room, streams=room, sweeps=room
        ),
        mcp=dict,
        marks=lambda: tuple(marks),
        more={"asked": lambda: len(asked)},
    )


def test_a_report_is_given_again_for_a_moment_and_made_anew_after_it(
    driven_clock: DrivenClock,
) -> None:
    asked: list[int] = []
    report = report_over(driven_clock, [], asked)
    first = report()
    asked.append(1)
    assert report() is first
    driven_clock.move(2 * KEPT_S)
    assert report()["asked"] == 1


def test_whoever_has_done_something_sees_it_in_the_next_report(driven_clock: DrivenClock) -> None:
    marks, asked = [0], list[int]()
    report = report_over(driven_clock, marks, asked)
    assert report()["asked"] == 0
    asked.append(1)
    marks[0] += 1
    assert report()["asked"] == 1
