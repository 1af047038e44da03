"""An action that has begun and is not over yet, and how what runs it comes to its end.

An operation's row runs in one of three ways: a plain function that is done when it returns; a job
on an instrument's line, which calls back on the event loop; a coroutine, for which a task is made
here. A write begins once its intent is on disk (``Held``). Whoever began an action holds its
``Pending``, may cancel it, and is told once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import copy_context
from functools import partial
from typing import Any

from edged.actions.cause import NOT_NEEDED, Cause, cause_of
from edged.actions.outcome import Done, Outcome, Tell, Underway
from edged.errors import EdgedError, ErrorCode, Failed, after_sending
from edged.instruments.conversation import Reply

# For the surfaces, which know no lines.
from edged.instruments.mailbox import Hold as Hold
from edged.instruments.mailbox import Job, Waiter
from edged.record import part
from edged.store.database import Written


class LineJob:
    """A run that is one conversation on an instrument's line.

    No ``ABC``: every call asks what its run is, and that class answers in Python.
    """

    __slots__ = ()

    def submit(self, waiter: Waiter) -> Job:
        """Begin it; ``waiter`` gets its ``Reply``. Raises ``EdgedError``: it was not started."""
        raise NotImplementedError

    def done(self, reply: Reply) -> Done:
        """What came of it. Raises ``Failed``."""
        raise NotImplementedError

    def over(self) -> None:
        """It has ended, however that was; said once or more, and last."""


Work = Coroutine[Any, Any, Done | LineJob]
"""What needs a task; it may come to a job on a line."""


class Held:
    """A run that ``go`` begins as soon as ``waits`` is done, and not at all if that fails."""

    __slots__ = ("go", "waits")

    def __init__(self, waits: Awaitable[None], go: Callable[[], Running]) -> None:
        self.waits = waits
        self.go = go


Running = Done | LineJob | Work | Held
"""What a row's ``run`` gives, and what comes before it."""


async def begun(running: Running) -> Done | LineJob:
    """What it comes to, as a coroutine may go on with it."""
    while not isinstance(running, Done | LineJob):
        if isinstance(running, Held):
            await running.waits
            running = running.go()
        else:
            running = await running
    return running


@part
class Pending(Underway):
    """One action under way; the ``Waiter`` of its job where it is one on a line.

    Attributes:
        conclude: makes the outcome of what came; never raises.
        record: writes the outcome down, right before it is told.
        tell: see ``Tell``; never raises.
    """

    conclude: Callable[[Done | Exception], Outcome]
    record: Callable[[Outcome], None]
    tell: Tell
    # What it is on a line, and on its way there; or the task that it is until then.
    _line_job: LineJob | None = None
    _job: Job | None = None
    _task: asyncio.Future[Any] | None = None
    _work: Work | None = None
    _cause: Cause | None = None
    _is_over: bool = False

    def run(self, running: LineJob | Work | Held) -> None:
        """Begin what is not done at once.

        Raises:
            EdgedError: it was not started.
        """
        if isinstance(running, LineJob):
            self._line_job = running
            try:
                self._job = running.submit(self)
            except EdgedError:
                running.over()
                raise
        elif isinstance(running, Held):
            go = partial(self._go, running.go)
            if isinstance(running.waits, Written):
                # Every write waits for its intent: neither a task nor a turn of the loop for it.
                self._task = running.waits
                running.waits.then = partial(copy_context().run, go)
            else:
                self._task = asyncio.ensure_future(running.waits)
                self._task.add_done_callback(go)
        else:
            self.run_as_task(running)

    def run_as_task(self, work: Work) -> None:
        """Make a task of a coroutine; it ends by itself, by ``cancel``, or as a job on a line."""
        self._work = work
        self._task = asyncio.get_running_loop().create_task(self._carry_out(work))
        self._task.add_done_callback(self._task_is_done)

    async def _carry_out(self, work: Work) -> Done | None:
        """What the work comes to; ``None`` where it goes on on a line, begun in the same breath."""
        found = await work
        if isinstance(found, Done):
            return found
        if self._cause is not None:
            found.over()
            raise _ended(self._cause)
        self.run(found)
        self._task = None
        return None

    def _go(self, go: Callable[[], Running], waited: asyncio.Future[None]) -> None:
        if waited.cancelled() or waited.exception() is not None:
            self._task_is_done(waited)
            return
        self._task = None
        if self._cause is not None:
            self._settle(_ended(self._cause))
            return
        found: Done | Exception
        try:
            running = go()
            if not isinstance(running, Done):
                self.run(running)
                return
            found = running
        except Exception as error:  # noqa: BLE001 - a bug of one call must not take others along
            found = error
        self._settle(found)

    def cancel(self, cause: Cause) -> None:
        """End it for a cause: withdraw it, or free the wire of it; its row names the cause.

        A task is cancelled once, however often this is called: a second cancellation would tear the
        steps that make an instrument safe. It is over once those are done.
        """
        if self._is_over or self._cause is not None:
            return
        self._cause = cause
        if self._task is not None:
            self._task.cancel(cause)
            if isinstance(self._task, Written):
                self._settle(_ended(cause))
            return
        if self._job is not None:
            self._job.withdraw()
        self._settle(_ended(cause))

    async def is_over(self) -> None:
        """Wait for the end of what was cancelled."""
        if self._task is not None and not self._is_over:
            await asyncio.wait((self._task,))

    # The waiter's side

    def done(self) -> bool:
        return self._is_over

    def set_result(self, reply: Reply, /) -> None:
        found: Done | Exception
        try:
            found = self._line_job.done(reply) if self._line_job is not None else _ended(NOT_NEEDED)
        except EdgedError as error:
            found = after_sending(error, reply.sent)
        except Exception as error:  # noqa: BLE001 - a bug of one call must not take others along
            found = error
        self._settle(found)

    def set_exception(self, error: EdgedError, /) -> None:
        self._settle(error)

    def _task_is_done(self, task: asyncio.Future[Any]) -> None:
        found: Done | Exception | None
        if task.cancelled():
            self._cause = self._cause or NOT_NEEDED
            if self._work is not None:
                # Its task may not have come to it.
                self._work.close()
            found = _ended(self._cause)
        else:
            error = task.exception()
            if error is not None and not isinstance(error, Exception):
                raise error
            found = error if error is not None else task.result()
        if found is not None:
            self._settle(found)

    def _settle(self, found: Done | Exception) -> None:
        self._is_over = True
        if self._line_job is not None:
            self._line_job.over()
        outcome = self.conclude(found)
        try:
            self.record(outcome)
        finally:
            self.tell(None if self._cause is not None else outcome)


async def settled(begin: Callable[[Tell], Outcome | Pending]) -> Outcome:
    """Begin an action and wait for its outcome.

    Raises:
        asyncio.CancelledError: whoever waits was cancelled; the action was, too, and is over.
    """
    future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

    def tell(outcome: Outcome | None) -> None:
        if future.done():
            return
        if outcome is None:
            future.cancel()
        else:
            future.set_result(outcome)

    begun = begin(tell)
    if isinstance(begun, Outcome):
        return begun
    try:
        return await future
    except asyncio.CancelledError as cancelled:
        begun.cancel(cause_of(cancelled))
        await begun.is_over()
        raise


def _ended(cause: Cause) -> Failed:
    return Failed(cause.sentence, code=ErrorCode.CANCELLED)
