"""The bounded priority mailbox of one line, and the jobs in it.

One thread (the event loop's) puts and withdraws, another (the actor's) takes. They share deques and
one ``SimpleQueue`` of tokens and no lock: every token says "look again", and one too many is only a
look for nothing.
"""

from __future__ import annotations

import enum
import math
import queue
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol

from edged.actions.cause import Cause
from edged.errors import Conflict, EdgedError
from edged.instruments.conversation import Conversation
from edged.instruments.trace import JobWatch
from edged.record import record
from edged.transports.link import Tokens

CAPACITY: Final = 256
"""Jobs that may wait on one line; more than any caller has use for, less than memory notices."""
SAFE_CAPACITY: Final = 256
"""Safe jobs have room of their own, so that a flood of others never keeps one out."""


class Priority(enum.IntEnum):
    """Who goes first; within one priority it is first come, first served."""

    SAFE = 0
    GUARD = 1
    """What others' safety hangs on: no other work makes it late."""
    SWEEP_STEP = 2
    COMMAND = 3
    MEASURE = 4
    PROBE = 5


class Waiter(Protocol):
    """Who waits for a job on its loop: a future, or what is done with the result right there."""

    def done(self) -> bool:
        """It has been told, or waits no more."""
        ...

    def set_result(self, result: Any, /) -> None:
        """The conversation's result."""
        ...

    def set_exception(self, error: EdgedError, /) -> None:
        """The error that it ended by."""
        ...


class JobOwner(Protocol):
    """What a job needs of the owner of its line."""

    def tell(self, function: Callable[[Any], None], value: object, /) -> None:
        """Have the loop call the function, once the line's work has given it back."""
        ...

    def forget(self, job: Job, /) -> None:
        """Its waiter is told: its deadline means nothing any more."""
        ...

    def withdraw(self, job: Job, /) -> None:
        """Nobody waits for it any more: take it out, or free the wire of it."""
        ...


class Hold:
    """Keeps a line for whoever asked the last question on it, until its answer is read.

    Others wait meanwhile as behind a line that is busy; what makes safe, and what others' safety
    hangs on, does not. Made and ended on the loop; the line's work begins it with its job.
    """

    __slots__ = ("_mailbox", "is_over")

    def __init__(self) -> None:
        self.is_over = False
        self._mailbox: Mailbox | None = None

    def on(self, mailbox: Mailbox) -> None:
        """The line that its job waits for."""
        self._mailbox = mailbox

    def end(self) -> None:
        """The answer is read, nobody will, or it was kept long enough; may be said again."""
        if not self.is_over:
            self.is_over = True
            if self._mailbox is not None:
                self._mailbox.look_again()


@record(frozen=False, eq=False)
class Job:
    """One uninterruptible conversation that somebody on the loop waits for.

    Attributes:
        deadline: on the monotonic scale, waiting and running together.
        own_s: its own time limit, without what it waits for others; infinite: there is none.
        submitted_at: on the same scale as the deadline.
        listens: it asks nothing, and reads what an earlier line is answered by.
        rest_s: what is left to its deadline when it has waited for its own time limit; 0: nothing.
        unit: number of the unit this is meant for; another unit on the line refuses it.
        future: who waits.
        owner: of the line that it was submitted to.
        sent: SCPI lines that have gone out; the line's work writes it, any may read.
        is_withdrawn: set by the loop when nobody waits for a job on the wire any more.
        ended_for: set by the loop when a safe job interrupts it.
        is_trial: it only shows that it is taken; nothing is said for it.
        watch: told of what becomes of it.
        hold: keeps the line after it, until that ends; ``None``: nothing does.
    """

    make: Callable[[], Conversation[Any]]
    priority: Priority
    name: str
    deadline: float
    own_s: float = math.inf
    submitted_at: float = 0.0
    rest_s: float = 0.0
    listens: bool = False
    unit: int
    future: Waiter
    owner: JobOwner
    sent: tuple[str, ...] = ()
    is_withdrawn: bool = False
    ended_for: Cause | None = None
    is_trial: bool = False
    watch: JobWatch | None = None
    hold: Hold | None = None

    def deliver(self, result: object) -> None:
        """Hand the result to whoever waits, by the line's work or on the loop."""
        self.owner.tell(self._set_result, result)

    def fail(self, error: EdgedError) -> None:
        """Hand an error to whoever waits, by the line's work or on the loop."""
        self.owner.tell(self._set_error, error)

    def withdraw(self) -> None:
        """Nobody waits for it any more; on the loop."""
        self.owner.withdraw(self)

    def _set_result(self, result: object) -> None:
        self.owner.forget(self)
        if not self.future.done():
            self.future.set_result(result)

    def _set_error(self, error: EdgedError) -> None:
        self.owner.forget(self)
        if not self.future.done():
            self.future.set_exception(error)


class Mailbox:
    """Jobs that wait for one line.

    Args:
        tokens: a token for each put and each nudge; the only thing the line's work waits for.
    """

    def __init__(self, tokens: Tokens | None = None) -> None:
        # One deque a priority; appends come from the loop, pops from the actor's thread.
        self._waiting: tuple[deque[Job], ...] = tuple(deque() for _ in Priority)
        # Those that make safe; for who only looks.
        self.safe = self._waiting[Priority.SAFE]
        self._tokens: Tokens = tokens or queue.SimpleQueue()
        # Set by the line's work, as it begins the job that holds.
        self._hold: Hold | None = None

    @property
    def is_held(self) -> bool:
        """Whoever asked last has the line still."""
        return self._hold is not None and not self._hold.is_over

    def hold(self, hold: Hold) -> None:
        """From now on the line is kept, until that hold ends."""
        self._hold = hold

    def look_again(self) -> None:
        """What waited behind a hold may be taken: tokens that came meanwhile are used up."""
        for _ in range(len(self)):
            self._tokens.put(None)

    def __len__(self) -> int:
        """Jobs that wait now."""
        return sum(map(len, self._waiting))

    def put(self, job: Job) -> None:
        """Let a job wait for its turn.

        Raises:
            Conflict: BUSY, when too many wait already.
        """
        safe, *others = map(len, self._waiting)
        is_safe = job.priority is Priority.SAFE
        waiting, capacity = (safe, SAFE_CAPACITY) if is_safe else (sum(others), CAPACITY)
        if waiting >= capacity:
            raise Conflict(
                f"{job.name} cannot wait for its turn: {waiting} jobs wait on this line already.",
                data={"waiting": waiting, "capacity": capacity},
                remedy="Ask less often, or wait until the instrument has answered.",
            )
        self._waiting[job.priority].append(job)
        self._tokens.put(None)

    def put_back(self, job: Job) -> None:
        """Return a job that was taken and not begun to the head of its row."""
        self._waiting[job.priority].appendleft(job)
        self._tokens.put(None)

    def take(self, timeout_s: float | None) -> Job | None:
        """The next job; ``None`` when ``timeout_s`` passed, or after a ``nudge``."""
        try:
            self._tokens.get(timeout=timeout_s)
        except queue.Empty:
            return None
        return self._pop()

    def nudge(self) -> None:
        """Make ``take`` return, with or without a job."""
        self._tokens.put(None)

    def withdraw(self, job: Job) -> bool:
        """Take a waiting job out; False when it is being served already."""
        try:
            self._waiting[job.priority].remove(job)
        except ValueError:
            return False
        return True

    def drain(self) -> list[Job]:
        """Take everything out, first come first."""
        jobs = []
        while (job := self._pop(passes_hold=True)) is not None:
            jobs.append(job)
        return jobs

    def _pop(self, *, passes_hold: bool = False) -> Job | None:
        hold = self._hold
        for priority, jobs in enumerate(self._waiting):
            if not jobs:
                continue
            is_kept_out = priority > Priority.GUARD and not passes_hold
            if is_kept_out and hold is not None and not hold.is_over:
                break
            try:
                return jobs.popleft()
            except IndexError:
                # Withdrawn meanwhile.
                continue
        return None
