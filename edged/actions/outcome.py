"""What came of an action, in the one form that audit, tools and both surfaces use."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, ClassVar

from edged.actions.cause import Cause
from edged.errors import EdgedError
from edged.record import record


class OutcomeStatus(enum.StrEnum):
    """``REFUSED``: nothing was sent to anything. ``FAILED``: it was tried.

    ``DRY_RUN``: it was only told what would have been sent. ``ASKED``: the client was given a
    question, and nothing was sent.
    """

    OK = "ok"
    DRY_RUN = "dry_run"
    ASKED = "asked"
    REFUSED = "refused"
    FAILED = "failed"


@record
class Picture:
    """A picture that goes with a result, beside its data."""

    mime: str
    data: bytes


@record
class ResourceLink:
    """A resource that belongs to a result, to be read by its URI; ``size`` in bytes."""

    uri: str
    name: str
    mime: str
    size: int


@record(frozen=False)
class Done:
    """What running an operation made. Made for every call, so not frozen."""

    status: ClassVar = OutcomeStatus.OK

    data: Any
    scpi: tuple[str, ...] = ()
    written_at: float = 0.0
    pictures: tuple[Picture, ...] = ()
    links: tuple[ResourceLink, ...] = ()


class Underway:
    """What a call has begun and has not come to its end.

    No ``ABC``: every call asks whether it is one, and that class answers in Python.
    """

    __slots__ = ()

    def cancel(self, cause: Cause) -> None:
        """End it for this cause; only the first time counts."""
        raise NotImplementedError


@record(frozen=False)
class Outcome:
    """The end of one action; nobody changes it. Not frozen, since that would cost every call.

    Attributes:
        data: the tool's result as JSON-ready values, in the tool's own shape; also of a failure
            where the shape of the tool has one (execute_command: success false…).
        scpi: the SCPI lines that were sent, in order.
        execution_time_ms: monotonic time from the path's first step to its last.
        written_at: monotonic seconds by which a sweep's step had gone out; 0 elsewhere.
        error: why, when the status is not OK.
        pictures: shown beside ``data``.
        links: told beside ``data``, which names their URIs too.
        is_tool_error: the result is shown to a model as an error (``isError``).
        again: does the same for the same caller under another action id, and records it, as
            ``CommandPath.begin`` does; gives ``None`` once it has to be judged anew. Of what is
            read from memory, and of plain queries; ``None`` for all else.
    """

    status: OutcomeStatus
    data: Any = None
    scpi: tuple[str, ...] = ()
    execution_time_ms: float = 0.0
    written_at: float = 0.0
    error: EdgedError | None = None
    pictures: tuple[Picture, ...] = ()
    links: tuple[ResourceLink, ...] = ()
    is_tool_error: bool = False
    again: Callable[[str, Tell], Outcome | Underway | None] | None = None


Tell = Callable[[Outcome | None], None]
"""Given the outcome, on the loop and once; ``None`` where what was begun was cancelled."""
