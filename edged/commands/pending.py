"""A question to an instrument that is under way without a task: who is told, and what by.

The command path begins it and concludes it; between the two there is only the line's own thread,
which calls back on the event loop. Whoever began it may cancel it, as a task would be.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from edged.actions.outcome import Done, Outcome
from edged.commands.target import Target
from edged.errors import EdgedError, ErrorCode, Failed
from edged.instruments.actor import Talk
from edged.instruments.conversation import Reply
from edged.instruments.mailbox import Waiter

__all__ = ["Asking", "Underway"]


class Asking(Protocol):
    """Runs plain queries in two halves."""

    def ask(self, target: Target, waiter: Waiter) -> Talk:
        """Begin one; ``waiter`` gets its ``Reply``. Raises ``EdgedError``: it was not begun."""
        ...

    def answered(self, target: Target, reply: Reply, began: float) -> Done:
        """What came of it. Raises ``Failed``, BAD_ANSWER."""
        ...


class Underway:
    """One question that waits for its answer: the ``Waiter`` of its job.

    Args:
        conclude: makes the outcome of what came; never raises.
        record: writes the outcome down, right after it was told: nothing can come between, and
            whoever waits for the answer does not wait for its row as well.
        tell: given the outcome, or ``None`` once it was cancelled.
    """

    __slots__ = ("_conclude", "_is_over", "_record", "_tell", "talk")

    def __init__(
        self,
        conclude: Callable[[Reply | Exception], Outcome],
        record: Callable[[Outcome], None],
        tell: Callable[[Outcome | None], None],
    ) -> None:
        self._conclude = conclude
        self._record = record
        self._tell = tell
        self._is_over = False
        # Set by who begins it, before anything can come.
        self.talk: Talk | None = None

    def cancel(self) -> None:
        """Whoever asked is gone: it is withdrawn, or the wire freed of it; recorded as such."""
        if self._is_over:
            return
        self._is_over = True
        if self.talk is not None:
            self.talk.withdraw()
        self._record(self._conclude(Failed("The caller went away.", code=ErrorCode.CANCELLED)))
        self._tell(None)

    # The waiter's side

    def done(self) -> bool:
        """See ``Waiter``."""
        return self._is_over

    def set_result(self, reply: Reply, /) -> None:
        """See ``Waiter``."""
        self._settle(reply)

    def set_exception(self, error: EdgedError, /) -> None:
        """See ``Waiter``."""
        self._settle(error)

    def _settle(self, found: Reply | EdgedError) -> None:
        self._is_over = True
        if self.talk is not None:
            self.talk.over()
        outcome = self._conclude(found)
        try:
            self._tell(outcome)
        finally:
            self._record(outcome)
