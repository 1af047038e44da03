"""When the lines of a step had gone out: a ramp keeps its rate by that, not by the answer to it."""

from __future__ import annotations

from collections.abc import Callable

from edged.instruments.conversation import Conversation, Reply, Send

__all__ = ["noting_write"]


def noting_write(
    conversation: Conversation[Reply], lines: int, note: Callable[[], None]
) -> Conversation[Reply]:
    """The same conversation; ``note`` is called on the line's thread once ``lines`` are written."""
    left, answer = lines, None
    try:
        while True:
            step = conversation.send(answer)
            answer = yield step
            if isinstance(step, Send) and left:
                left -= 1
                if not left:
                    note()
    except StopIteration as end:
        reply: Reply = end.value
        return reply
    finally:
        conversation.close()
