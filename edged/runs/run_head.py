"""What a recording is of, told by whoever begins it."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final

from edged.actions.caller import Caller
from edged.record import record
from edged.yaml.tree import Scalar


class RunKind(enum.StrEnum):
    """The kinds of long work whose data are kept."""

    SWEEP = "sweep"
    STREAM = "stream"
    SEQUENCE = "sequence"
    EXPERIMENT = "experiment"


@record
class Column:
    """One column of a recording; ``unit`` is empty for text and bare numbers.

    Attributes:
        dimensions: the loops around what is measured, by the names of ``RunHead.dimensions``, the
            outermost first.
        is_text: its cells are no numbers, so data.nc leaves it out.
    """

    name: str
    unit: str = ""
    dimensions: tuple[str, ...] = ()
    is_text: bool = False


@record
class Dimension:
    """A loop of an experiment, around some of its columns.

    Attributes:
        name: of the loop. A column of this name has what was set; it becomes the coordinate.
        values: what it goes through, in the order of the plan; ``None``: how many there are is
            not known before it runs, and data.nc has rows then, no grid.
    """

    name: str
    unit: str = ""
    values: tuple[Scalar, ...] | None = None

    @property
    def place(self) -> Column:
        """The column of the places in ``values``, from 0."""
        return Column(name=f"n_{self.name}")


ATTEMPT: Final = Column(name="attempt")
"""1, and one more each time that an interrupted experiment goes on."""
ELAPSED: Final = Column(name="elapsed_s", unit="s")
"""When a row came, since the recording began, by the monotonic clock: wall time may jump."""


@record
class RunHead:
    """What stands in meta.json before the first row.

    Attributes:
        run_id: the id under which the user knows the work: of the sweep, stream or sequence run.
        command_name: the command measured or swept, or the sequence.
        columns: what each row is given for, in order.
        measures: ids of further instruments that the rows come from.
        is_measured: its rows are measurements, so the settings of the instruments belong to them;
            what only sets something asks nothing besides.
        sets_up: it sets its instruments before it measures: their settings count from the first
            row on.
        started_ms: when it began, where that was before its recording.
        details: whatever else a reader wants to know in a year; JSON-ready.
        dimensions: of an experiment: its loops, the outermost first.
        tables: of an experiment: the columns of each further table ``<name>.csv``.
        checks: of an experiment: the names of the checks that each unit under test has to have.
        files: of an experiment: small files by name, written before the first row (plan.yaml,
            resolved.json).
        resumed_at: goes on in the recording of this run, from the pass at these places, by the name
            of the loop. The rows that this pass has already are not valid any more, and stay in
            data.csv under their attempt. Empty: no pass is repeated. ``None``: it begins.
        resumed_checks: how many rows checks.csv had before that pass.
    """

    kind: RunKind
    run_id: str
    instrument_id: str
    command_name: str
    columns: tuple[Column, ...]
    caller: Caller
    parameters: Mapping[str, Any] = field(default_factory=dict)
    measures: tuple[str, ...] = ()
    is_measured: bool = True
    sets_up: bool = False
    started_ms: int | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    dimensions: tuple[Dimension, ...] = ()
    tables: Mapping[str, tuple[Column, ...]] = field(default_factory=dict)
    checks: tuple[str, ...] = ()
    files: Mapping[str, bytes] = field(default_factory=dict)
    resumed_at: Mapping[str, int] | None = None
    resumed_checks: int = 0

    @property
    def has_elapsed(self) -> bool:
        """Whether ``ELAPSED`` is the recorder's; a table may have a column of that name itself."""
        return all(column.name != ELAPSED.name for column in self.columns)

    @property
    def recorded(self) -> tuple[Column, ...]:
        """The columns of data.csv: those that rows are given for stay in their order.

        Those of an experiment stand behind its places and the attempt.
        """
        before: tuple[Column, ...] = ()
        if self.kind is RunKind.EXPERIMENT:
            before = (*(dimension.place for dimension in self.dimensions), ATTEMPT)
        return (*before, *self.columns, *((ELAPSED,) if self.has_elapsed else ()))


@record
class RunNow:
    """How a run stands, as those know who have it in memory; its recording may not know yet.

    Attributes:
        state: as its own table of states calls it.
        rows: taken so far.
        reason: why it ended as it was asked to; empty where it did not, or has not.
        error: what went wrong.
        notes: what is true of its rows and misleads who does not know it.
        result: of a sequence that came to its end.
    """

    head: RunHead
    state: str
    started_ms: int
    rows: int = 0
    reason: str = ""
    error: str = ""
    notes: tuple[str, ...] = ()
    result: Mapping[str, Any] = field(default_factory=dict)
