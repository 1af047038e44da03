"""The recording of a sequence's table: its columns, and its rows as cells. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from edged.actions.action import RunSequence
from edged.actions.caller import Caller
from edged.profiles.model import ForStep, RowStep, Scalar, Sequence, Step
from edged.work.run_head import Column, RunHead, RunKind

__all__ = ["row_cells", "table_head"]


def table_head(run_id: str, action: RunSequence, sequence: Sequence, caller: Caller) -> RunHead:
    """What is recorded: one column for each that any ``row`` step of the sequence fills."""
    steps = (*sequence.steps, *sequence.finally_steps)
    names = dict.fromkeys(name for row in _rows(steps) for name in row.columns)
    return RunHead(
        kind=RunKind.SEQUENCE,
        run_id=run_id,
        instrument_id=action.instrument_id,
        command_name=sequence.name,
        columns=tuple(Column(name=name) for name in names),
        caller=caller,
        parameters=action.parameters,
    )


def row_cells(head: RunHead, row: Mapping[str, Any]) -> tuple[Scalar | None, ...]:
    """One row in the order of the columns; what is no scalar goes as JSON."""
    return tuple(_cell(row.get(column.name)) for column in head.columns)


def _cell(value: Any) -> Scalar | None:
    return value if isinstance(value, Scalar | None) else json.dumps(value, default=str)


def _rows(steps: tuple[Step, ...]) -> Iterator[RowStep]:
    for step in steps:
        match step:
            case RowStep():
                yield step
            case ForStep():
                yield from _rows(step.steps)
            case _:
                continue
