"""What long work is given at start-up: how to act, how to ask whether it could, where to record.

The first two are the command path's (floor 4); long work does not know that, it knows these types.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

from edged.actions.action import Action, RunCommand, SendScpi
from edged.actions.caller import Caller
from edged.actions.outcome import Outcome
from edged.errors import EdgedError
from edged.runs.recordings.checks import Check
from edged.runs.run_head import RunHead
from edged.yaml.tree import Scalar

Perform = Callable[[Action], Awaitable[Outcome]]
"""Performs an action and never raises an ``EdgedError``: what went wrong is in the outcome."""

NewId = Callable[[], str]
"""A fresh action id, unique in the audit."""


Precheck = Callable[[Action], tuple[str, ...]]
"""Judges an action as the path would, and sends nothing: the lines that would be sent.

Raises what ``Perform`` would have put into the outcome. What only lacks a person's yes raises
NeedsApproval, last of all.
"""


class Judge(Protocol):
    """``Precheck``, for who wants to know all that is in the way."""

    def __call__(
        self, action: Action, conflicts: list[EdgedError] | None = None
    ) -> tuple[str, ...]:
        """The same.

        Args:
            conflicts: takes what stands in the way just now, a missing yes last, which is raised
                without it.
        """
        ...


class RunLeases(Protocol):
    """Is told of each run that writes, on the loop, and gives one with a plan its units."""

    def run_began(self, run_id: str, instrument_id: str, caller: Caller) -> None:
        """It is about to begin; nothing of it was sent."""
        ...

    def run_ended(self, run_id: str) -> None:
        """It is over, or did not begin; may be told twice."""
        ...

    async def take(
        self, run_id: str, caller: Caller, names: Sequence[str] | str, hours: float
    ) -> str:
        """All of these units, by id or alias, or none; on disk when this returns.

        From then on only what has ``on_behalf_of`` of this run writes there; reads, safe commands
        and stops of everybody pass.

        Args:
            hours: as long at most, up to 168.

        Raises:
            NotFound: UNKNOWN_INSTRUMENT.
            Invalid: another number of hours.
            Conflict: LEASED, somebody has reserved one, or a run writes there.
            Failed: STORE_FAILED; nothing was given.
        """
        ...

    def pause(self, run_id: str, is_paused: bool) -> None:
        """While a run is paused, who started it may write to its units."""
        ...

    def end(self, run_id: str) -> None:
        """It is over; may be told twice."""
        ...


class StepPlan(Protocol):
    """Takes the steps of a run before its first, in their order."""

    def add(
        self,
        action: RunCommand | SendScpi,
        lines: tuple[str, ...],
        at_s: float,
        *,
        count: int = 1,
        every_s: float = 0.0,
    ) -> None:
        """A step, or ``count`` of them, at the earliest so long from now; raises Refused."""
        ...


NewPlan = Callable[[], StepPlan]
"""Begins the plan of one run."""


class RowSink(Protocol):
    """Takes what a run leaves. None of its methods waits or raises, but ``written``.

    Attributes:
        attempt: 1, and one more each time that it went on after a crash.
        check_count: how many checks it has been given, in all attempts.
    """

    attempt: int
    check_count: int

    def append(self, row: Sequence[Scalar | None], places: Sequence[int | None] = ()) -> None:
        """One row of data.csv in the order of ``head.columns``.

        Args:
            places: for each of ``head.dimensions`` the place of this pass among its values, also
                where the loop goes through them backwards; ``None`` outside of that loop.
        """
        ...

    def append_samples(self, name: str, type_code: str, samples: bytes | bytearray) -> None:
        """One array of little-endian numbers (``f``, ``d``)."""
        ...

    def append_to(self, table: str, row: Sequence[Scalar | None]) -> None:
        """One row of a table of ``head.tables``, in the order of its columns.

        ``elapsed_s`` is added at its end, as to data.csv.
        """
        ...

    def check(self, check: Check) -> None:
        """One row of checks.csv; see ``Check`` for the rows of a unit itself."""
        ...

    def event(self, name: str, fields: Mapping[str, Any]) -> None:
        """One line of events.jsonl: {time_ms, elapsed_s, event: name, …}.

        For example a checkpoint, an answer, a pause or a note; ``fields`` are JSON-ready.
        """
        ...

    async def written(self) -> bool:
        """Write what has come until now; whether all of it is on the disk."""
        ...

    def told(self) -> dict[str, Any]:
        """{run_id, path, rows, error}: for the result of whatever is recorded."""
        ...

    async def close(self, status: str, summary: Mapping[str, Any] | None = None) -> None:
        """Everything is on disk when this returns; a second time does nothing."""
        ...


class Recorder(Protocol):
    """Opens recordings."""

    async def open(self, head: RunHead) -> RowSink:
        """Begin a recording; never raises: what cannot be recorded is measured all the same."""
        ...
