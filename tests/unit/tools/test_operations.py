"""The table of operations is whole: each action has one row, and each row can be run."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Iterator

from edged.actions.action import Action
from edged.operations.table import OPERATIONS


def kinds_of(kind: type[Action]) -> Iterator[type[Action]]:
    for below in kind.__subclasses__():
        yield below
        yield from kinds_of(below)


def test_each_action_has_exactly_one_row() -> None:
    rows = Counter(row.key for row in OPERATIONS)
    assert "" not in rows
    assert set(rows.values()) == {1}
    # By name: a class with slots was made anew, and the one that it was made of may still be known.
    kinds = {kind.__qualname__ for kind in kinds_of(Action)}
    assert {row.action.__qualname__ for row in OPERATIONS} == kinds


def test_what_answers_at_once_is_a_plain_function() -> None:
    at_once = [row for row in OPERATIONS if row.action.answers_at_once]
    assert at_once
    for row in at_once:
        assert not inspect.iscoroutinefunction(row.run), row.action


def test_no_two_tools_share_a_name() -> None:
    names = Counter(row.tool.name for row in OPERATIONS if row.tool is not None)
    assert set(names.values()) == {1}
