"""The states of long work, as data; nothing else decides a next state.

An event that a row lacks raises and changes nothing. The tables are those of ARCHITECTURE.md.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from edged.errors import Conflict

__all__ = ["SEQUENCE", "SequenceEvent", "SequenceState", "next_sequence_state"]


class SequenceState(enum.StrEnum):
    """Where a sequence run stands."""

    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    STOPPED = "stopped"


class SequenceEvent(enum.StrEnum):
    """What can happen to a sequence run. Its ``finally`` steps run before the next state holds."""

    DONE = "done"
    STEP_FAILED = "step_failed"
    CLIENT_GONE = "client_gone"
    STOP = "stop"


SEQUENCE: Final[Mapping[SequenceState, Mapping[SequenceEvent, SequenceState]]] = MappingProxyType(
    {
        SequenceState.RUNNING: MappingProxyType(
            {
                SequenceEvent.DONE: SequenceState.COMPLETED,
                SequenceEvent.STEP_FAILED: SequenceState.FAILED,
                SequenceEvent.CLIENT_GONE: SequenceState.CANCELLED,
                SequenceEvent.STOP: SequenceState.STOPPED,
            }
        ),
        SequenceState.COMPLETED: MappingProxyType({}),
        SequenceState.FAILED: MappingProxyType({}),
        SequenceState.CANCELLED: MappingProxyType({}),
        SequenceState.STOPPED: MappingProxyType({}),
    }
)


def next_sequence_state(
    state: SequenceState, event: SequenceEvent, *, finally_failed: bool
) -> SequenceState:
    """The state after ``event``; failed ``finally`` steps make any end a failure.

    Raises:
        Conflict: the table has no such transition.
    """
    row = SEQUENCE[state]
    if event not in row:
        raise Conflict(f"A sequence that is {state} cannot take {event}.")
    return SequenceState.FAILED if finally_failed else row[event]
