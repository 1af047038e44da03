"""A step of a ramp on its way: when its lines had gone out, and that they go to who was met.

A ramp keeps its rate by the first, not by the answer. By the second a step is not sent to a unit
that was switched off and on meanwhile: there it would be a jump.
"""

from __future__ import annotations

from collections.abc import Callable

from edged.actions.action import RunCommand
from edged.commands.target import MayGo
from edged.errors import ErrorCode, Failed
from edged.instruments.conversation import Ask, Conversation, Reply, Send
from edged.instruments.instrument import Instrument

__all__ = ["at_one_meeting", "noting_write"]


def at_one_meeting(action: RunCommand, instrument: Instrument, may_go: MayGo | None) -> MayGo:
    """``may_go``, and only while the line has not been opened anew since ``action.meeting``."""

    def may_step() -> None:
        if may_go is not None:
            may_go()
        if action.meeting is not None and instrument.meeting != action.meeting:
            raise Failed(
                f"{instrument.id} was connected anew before {action.command_name} was sent.",
                code=ErrorCode.PREEMPTED,
            )

    return may_step


def noting_write(
    conversation: Conversation[Reply], lines: int, note: Callable[[], None]
) -> Conversation[Reply]:
    """The same conversation; ``note`` is called on the line's thread once ``lines`` are written."""
    left, answer = lines, None
    try:
        while True:
            step = conversation.send(answer)
            answer = yield step
            if isinstance(step, Send | Ask) and left:
                left -= 1
                if not left:
                    note()
    except StopIteration as end:
        reply: Reply = end.value
        return reply
    finally:
        conversation.close()
