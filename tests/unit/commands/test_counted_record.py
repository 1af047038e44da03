"""Calls are counted together, and nobody who asks sees a number too small."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from edged.actions.action import MemoryAction
from edged.actions.caller import Caller, Route
from edged.actions.outcome import Outcome, OutcomeStatus
from edged.commands.record import MAX_TOOLS, MOST_UNCOUNTED, OTHER, CountedRecord

CALLER = Caller(client="x", remote="1", route=Route.DIRECT)


def action(tool: str, **more: Any) -> MemoryAction:
    return MemoryAction(operation=tool, action_id="1", tool=tool, caller=CALLER, **more)


@pytest.fixture
def record() -> CountedRecord:
    inner: Any = SimpleNamespace(intend=None, conclude=lambda *_: None)
    return CountedRecord(inner)


@pytest.mark.parametrize("count", [1, MOST_UNCOUNTED - 1, MOST_UNCOUNTED, 2 * MOST_UNCOUNTED + 3])
def test_each_call_that_ended_is_counted_once(record: CountedRecord, count: int) -> None:
    for _ in range(count):
        done = Outcome(status=OutcomeStatus.OK, execution_time_ms=2.0)
        record.conclude(action("get_status"), None, done)
    for _ in range(2):
        record.count()
        assert record.calls == {("get_status", "direct", "ok"): count}
        assert record.tools == {("get_status", "ok"): count}
        latencies = record.latencies["get_status"]
        assert sum(latencies.counts) == count
        assert latencies.sum_s == pytest.approx(count * 0.002)


def test_what_belongs_to_a_call_is_no_call_of_a_tool(record: CountedRecord) -> None:
    record.conclude(action("get_status", parent_id="0"), None, Outcome(status=OutcomeStatus.OK))
    record.count()
    assert not record.tools
    assert record.calls.total() == 1


def test_names_beyond_the_most_share_one(record: CountedRecord) -> None:
    for number in range(MAX_TOOLS + 2):
        record.conclude(action(f"tool{number}"), None, Outcome(status=OutcomeStatus.OK))
    record.count()
    assert record.tools[OTHER, "ok"] == 2
    assert len(record.tools) == MAX_TOOLS + 1
