"""How a line comes back: its states, what makes it clean, and how long to wait. Pure.

A line is *dirty* after anything but a complete, expected answer: a timeout, a pre-empted wait,
bytes that do not decode, bytes too many. A dirty line is made clean before its next command,
because otherwise the late answer to one question is taken for the answer to the next, and all that
follow are one behind for ever (pyvisa-py issue 376 and our own measurements).
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from edged.errors import ErrorCode, Fault

FIRST_RETRY_S: Final = 0.25
LONGEST_RETRY_S: Final = 5.0
"""A power-cycled instrument boots for 10 to 60 s; asking a dead address costs next to nothing."""


class LineState(enum.StrEnum):
    """Where a line is."""

    CONNECTING = "connecting"
    READY = "ready"
    BUSY = "busy"
    RECOVERING = "recovering"
    LOST = "lost"
    CLOSED = "closed"


class LineEvent(enum.StrEnum):
    """What can happen to a line; texts, since they are looked up for every job."""

    CONNECT = "connect"
    CLEAN = "clean"
    WORK = "work"
    DONE = "done"
    SPOILED = "spoiled"
    LOST = "lost"
    STOP = "stop"


def next_line_state(state: LineState, event: LineEvent) -> LineState:
    """Where ``event`` takes a line.

    Raises:
        Fault: the table has no such cell; nothing has changed.
    """
    following = TRANSITIONS[state].get(event)
    if following is None:
        raise Fault(
            f"A line that is {state.value} cannot meet {event.value}.", code=ErrorCode.INTERNAL
        )
    return following


def retry_delay_s(failures: int) -> float:
    """Seconds to wait after that many (≥ 1) failed attempts in a row."""
    return min(LONGEST_RETRY_S, FIRST_RETRY_S * 2.0 ** min(failures - 1, 16))


_ANY_TIME: Final = {LineEvent.LOST: LineState.LOST, LineEvent.STOP: LineState.CLOSED}

TRANSITIONS: Final[Mapping[LineState, Mapping[LineEvent, LineState]]] = MappingProxyType(
    {
        LineState.LOST: {LineEvent.CONNECT: LineState.CONNECTING, **_ANY_TIME},
        LineState.CONNECTING: {LineEvent.CLEAN: LineState.READY, **_ANY_TIME},
        LineState.READY: {
            LineEvent.WORK: LineState.BUSY,
            LineEvent.SPOILED: LineState.RECOVERING,
            **_ANY_TIME,
        },
        LineState.BUSY: {
            LineEvent.DONE: LineState.READY,
            LineEvent.SPOILED: LineState.RECOVERING,
            **_ANY_TIME,
        },
        LineState.RECOVERING: {
            LineEvent.SPOILED: LineState.RECOVERING,
            LineEvent.CLEAN: LineState.READY,
            **_ANY_TIME,
        },
        LineState.CLOSED: {LineEvent.STOP: LineState.CLOSED, LineEvent.LOST: LineState.CLOSED},
    }
)
