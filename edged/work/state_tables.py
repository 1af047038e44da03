"""The state tables of long work as a page for people: docs/states.md is made from it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

from edged.work.states import (
    SEQUENCE,
    STREAM,
    SWEEP,
    SequenceEvent,
    StreamEvent,
    SweepEvent,
)

__all__ = ["reference"]

State = TypeVar("State", bound=StrEnum)
Event = TypeVar("Event", bound=StrEnum)

HEAD = """# The states of sweeps, streams and sequences

<!-- Made by `make docs` from edged/work/states.py; do not edit. -->

Rows are states, columns what can happen, cells the state that follows; an event without a cell is
refused and changes nothing. Where a sweep is stopped its abort runs first, and the abort's failure
makes it failed; of a sequence the `finally` steps run first, with the same rule.
"""


def reference() -> str:
    """The page."""
    parts = [
        HEAD,
        _table("sweep", SWEEP, tuple(SweepEvent)),
        _table("stream", STREAM, tuple(StreamEvent)),
        _table("sequence", SEQUENCE, tuple(SequenceEvent)),
    ]
    return "\n".join(parts)


def _table(
    name: str, table: Mapping[State, Mapping[Event, State]], events: tuple[Event, ...]
) -> str:
    lines = [
        f"## {name.capitalize()}",
        "",
        f"| {name} | {' | '.join(event.value.replace('_', ' ') for event in events)} |",
        f"|---{'|---' * len(events)}|",
    ]
    for state, row in table.items():
        cells = [row[event].value if event in row else "" for event in events]
        lines.append(f"| {state.value} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(reference())
