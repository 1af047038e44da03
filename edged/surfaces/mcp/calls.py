"""Calls in flight: each can be cancelled by its session, by its connection's end, or by shutdown.

A call runs in the task that serves its POST (or in none, see ``asking``); there is no task of its
own. Cancelling a call cancels that task once, and the cancellation ends here: the task goes on and
settles what it owes.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Coroutine
from typing import Any, Protocol, TypeVar

from edged.errors import Conflict, ErrorCode
from edged.protocol.jsonrpc import RequestId

__all__ = ["CallBook", "CallEnd", "CallEndedError", "Endable", "RunningCall"]

T = TypeVar("T")


class CallEnd(enum.Enum):
    """Why a call ended before its result."""

    CANCELLED = "cancelled"
    CLIENT_GONE = "client_gone"
    STOPPING = "stopping"


class Endable(Protocol):
    """A call in flight, however it is served."""

    def end(self, why: CallEnd) -> None:
        """End it; only the first time counts."""
        ...


class CallEndedError(Exception):
    """The call was ended from outside; its work has been cancelled and has finished."""

    def __init__(self, why: CallEnd) -> None:
        super().__init__(why.value)
        self.why = why


class RunningCall:
    """One call that can be ended.

    Args:
        loop: where it runs; asking asyncio for it costs a system call each time (Python 3.11).

    Attributes:
        is_cut_by_disconnect: the client's going ends it.
        ended: why it was ended from outside, if it was.
    """

    __slots__ = ("_loop", "_task", "ended", "is_cut_by_disconnect")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._task: asyncio.Task[Any] | None = None
        self.is_cut_by_disconnect = False
        self.ended: CallEnd | None = None

    def end(self, why: CallEnd) -> None:
        """End it, now or before it begins; only the first time counts.

        A second cancellation would tear the steps that make an instrument safe.
        """
        if self.ended is None:
            self.ended = why
            # Its own task is told by an exception instead: see ``Post.tie``.
            if self._task is not None and self._task is not asyncio.current_task(self._loop):
                self._task.cancel()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do the work in the present task.

        Raises:
            CallEndedError: it was ended from outside, and ``work`` is over.
        """
        if self.ended is not None:
            work.close()
            raise CallEndedError(self.ended)
        self._task = task = asyncio.current_task(self._loop)
        try:
            result = await work
        except asyncio.CancelledError:
            ended = self._why()
            if ended is None or task is None or task.uncancel() > 0:
                raise
            raise CallEndedError(ended) from None
        finally:
            self._task = None
        ended = self._why()
        if ended is not None:
            # The work took the cancellation as its end and came back with an outcome.
            if task is not None:
                task.uncancel()
            raise CallEndedError(ended)
        return result

    def _why(self) -> CallEnd | None:
        return self.ended


class CallBook:
    """The calls of one session by request id; and in the surface's own book, all of them."""

    def __init__(self) -> None:
        self._calls: dict[RequestId, Endable] = {}

    def __len__(self) -> int:
        return len(self._calls)

    def __contains__(self, request_id: RequestId) -> bool:
        return request_id in self._calls

    def add(self, request_id: RequestId, call: Endable) -> None:
        """It is in flight.

        Raises:
            Conflict: BUSY, another call with this id is.
        """
        if request_id in self._calls:
            raise Conflict(
                f"A request with the id {str(request_id)[:80]!r} is in flight in this session.",
                code=ErrorCode.BUSY,
                remedy="Give each request an id of its own.",
            )
        self._calls[request_id] = call

    def discard(self, request_id: RequestId, call: Endable) -> None:
        """It is over; another call with its id (a ``ping`` is not in the book) is not."""
        if self._calls.get(request_id) is call:
            del self._calls[request_id]

    def end(self, request_id: RequestId, why: CallEnd) -> None:
        """End one call; an id that is not in flight is ignored, for it may just have ended."""
        call = self._calls.get(request_id)
        if call is not None:
            call.end(why)

    def end_all(self, why: CallEnd) -> None:
        """End every call."""
        for call in tuple(self._calls.values()):
            call.end(why)
