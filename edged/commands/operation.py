"""An operation: one row that says all of one thing that can be asked of the daemon.

Which action it is, at what it is aimed, how it is run, what shape its failure has, and the static
tool by which it is asked, if one asks for it. The rows stand in ``edged.operations``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from edged.actions.action import Action
from edged.commands.pending import Running
from edged.commands.rehearsal import Rehearse, no_rehearsal
from edged.commands.resolve import NOTHING, Resolver
from edged.commands.static_tool import StaticTool
from edged.commands.target import Target
from edged.errors import EdgedError, Failed, Fault
from edged.record import record


@record
class Failure:
    """What a failed call has to tell.

    Attributes:
        target: what it was aimed at, where it got that far.
        told: the error as ``EdgedError.for_caller`` gives it.
    """

    target: Target | None
    error: EdgedError
    told: Mapping[str, Any]
    time_ms: float


def at_nothing(_resolver: Resolver, _action: Action) -> Target:
    """It is aimed at nothing that could hold it back."""
    return NOTHING


def error_alone(failure: Failure) -> Any:
    """A failure that has no other shape."""
    return {"error": failure.told}


def said_by_its_error(_failure: Failure) -> None:
    """A refusal: its error says it all."""


@record
class Operation:
    """One row.

    Attributes:
        action: the type that asks for it.
        run: runs it once it has been judged: (action, target, when that began in monotonic s).
            A plain function that is done, or gives the job on a line that it is; or a coroutine.
            Raises ``EdgedError``. In a row it is a method of the family's class; see ``bind``.
        aim: what the action's names mean.
        failed: the data of a failure, in the tool's own shape.
        refused: the same where nothing was sent to anything.
        tool: the static tool that asks for it.
        rehearse: tells what it would send; of those whose tools take ``dry_run``. A method, too.
    """

    action: type[Action]
    run: Callable[..., Running]
    aim: Callable[[Resolver, Any], Target] = at_nothing
    failed: Callable[[Failure], Any] = error_alone
    refused: Callable[[Failure], Any] = said_by_its_error
    tool: StaticTool | None = None
    rehearse: Rehearse = no_rehearsal


def bind(family: object, rows: Iterable[Operation]) -> dict[type[Action], Operation]:
    """Each row under its action, its methods bound to the object that has what it works with."""
    return {
        row.action: dataclasses.replace(
            row, run=row.run.__get__(family), rehearse=row.rehearse.__get__(family)
        )
        for row in rows
    }


def failure_data(
    operation: Operation, target: Target | None, error: EdgedError, spent_ms: float
) -> Any:
    """The data of a call that failed or was refused; ``None`` where its error says it all."""
    failure = Failure(
        target=target,
        error=error,
        told=error.for_caller(),
        time_ms=round(spent_ms, 3),
    )
    has_failed = isinstance(error, Failed | Fault)
    return operation.failed(failure) if has_failed else operation.refused(failure)
