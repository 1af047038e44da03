"""Why something was ended from outside, before its own end.

The code that decides the end makes the cause. The cause travels with the cancellation:
``Task.cancel(cause)`` puts it into the ``CancelledError``, and ``cause_of`` reads it from there. So
the error of each write, and its row in the audit log, name the interlock, the stop or the shutdown
that ended it.
"""

from __future__ import annotations

from typing import Final

from edged.record import record


@record(kw_only=False)
class Cause:
    """One reason.

    Attributes:
        clause: completes "… was ended": "by interlock chamber", "because the engine stopped".
        reason: the ``reason`` of a run that ended for it: "the interlock chamber tripped".
        said: the whole sentence, where it is not made of the clause.
        is_safe_only: a run that ends for it cleans up by safe commands alone: what was just
            switched off must not be put out again by a ramp down.
    """

    clause: str
    reason: str = ""
    said: str = ""
    is_safe_only: bool = False

    @property
    def sentence(self) -> str:
        """The message to the caller of an ended call."""
        return self.said or f"The call was ended {self.clause}."


CALLER_GONE: Final = Cause(
    "because its caller went away", "its client went away", "The caller went away."
)
CALLER_CANCELLED: Final = Cause("by its caller", "its client cancelled it")
SESSION_ENDED: Final = Cause("by the end of its session", "its session ended")
TOKEN_EXPIRED: Final = Cause("by the end of its token", "its token expired")
ENGINE_STOPPED: Final = Cause("because the engine stopped", "the daemon stopped")
NOT_NEEDED: Final = Cause("because nobody waited for it any more")
"""A cancellation that was given no cause, such as a time limit of the part that asked."""


def cause_of(cancelled: BaseException) -> Cause:
    """The cause that the cancellation carries, else ``NOT_NEEDED``."""
    found = cancelled.args[0] if cancelled.args else None
    return found if isinstance(found, Cause) else NOT_NEEDED
