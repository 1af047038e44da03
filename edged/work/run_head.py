"""What a recording is of, told by whoever begins it."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from edged.actions.caller import Caller

__all__ = ["Column", "RunHead", "RunKind"]


class RunKind(enum.StrEnum):
    """The kinds of long work whose data are kept."""

    SWEEP = "sweep"
    STREAM = "stream"
    SEQUENCE = "sequence"


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of a recording; ``unit`` is empty for text and bare numbers."""

    name: str
    unit: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunHead:
    """What stands in meta.json before the first row.

    Attributes:
        run_id: the id under which the user knows the work: of the sweep, stream or sequence run.
        command_name: the command measured or swept, or the sequence.
        columns: of data.csv, in order.
        measures: ids of further instruments that the rows come from.
        details: whatever else a reader wants to know in a year; JSON-ready.
    """

    kind: RunKind
    run_id: str
    instrument_id: str
    command_name: str
    columns: tuple[Column, ...]
    caller: Caller
    parameters: Mapping[str, Any] = field(default_factory=dict)
    measures: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
