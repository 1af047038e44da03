"""The states of long work, as data; nothing else decides a next state.

An event that a row lacks raises and changes nothing. docs/states.md prints the tables.

The state tables of long work as a page for people: docs/states.md is made from it.
"""

from __future__ import annotations

import enum
import sys
from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final, TypeVar

from edged.errors import Conflict


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


class SweepState(enum.StrEnum):
    """Where a sweep stands."""

    RUNNING = "running"
    HOLDING = "holding"
    COMPLETED = "completed"
    STOPPED = "stopped"
    FAILED = "failed"


class SweepEvent(enum.StrEnum):
    """What can happen to a sweep. Where an abort belongs to it, that runs before the next state."""

    TARGET_REACHED = "target_reached"
    STOP_HOLD = "stop_hold"
    STOP_ABORT = "stop_abort"
    FAILURE = "failure"
    SHUTDOWN = "shutdown"
    FOUND_AFTER_CRASH = "found_after_crash"


def _ended(state: SweepState) -> Mapping[SweepEvent, SweepState]:
    """A sweep that is over stays what it is; nothing is sent for it any more."""
    lasting = (
        SweepEvent.STOP_HOLD,
        SweepEvent.STOP_ABORT,
        SweepEvent.SHUTDOWN,
        SweepEvent.FOUND_AFTER_CRASH,
    )
    return MappingProxyType(dict.fromkeys(lasting, state))


SWEEP: Final[Mapping[SweepState, Mapping[SweepEvent, SweepState]]] = MappingProxyType(
    {
        SweepState.RUNNING: MappingProxyType(
            {
                SweepEvent.TARGET_REACHED: SweepState.COMPLETED,
                SweepEvent.STOP_HOLD: SweepState.HOLDING,
                SweepEvent.STOP_ABORT: SweepState.STOPPED,
                SweepEvent.FAILURE: SweepState.FAILED,
                SweepEvent.SHUTDOWN: SweepState.STOPPED,
                SweepEvent.FOUND_AFTER_CRASH: SweepState.FAILED,
            }
        ),
        SweepState.HOLDING: MappingProxyType(
            {
                SweepEvent.STOP_HOLD: SweepState.HOLDING,
                SweepEvent.STOP_ABORT: SweepState.STOPPED,
                SweepEvent.FAILURE: SweepState.FAILED,
                SweepEvent.SHUTDOWN: SweepState.STOPPED,
                SweepEvent.FOUND_AFTER_CRASH: SweepState.FAILED,
            }
        ),
        # What it has left on can still be made safe.
        SweepState.COMPLETED: MappingProxyType(
            {**_ended(SweepState.COMPLETED), SweepEvent.STOP_ABORT: SweepState.STOPPED}
        ),
        SweepState.STOPPED: _ended(SweepState.STOPPED),
        SweepState.FAILED: _ended(SweepState.FAILED),
    }
)


def next_sweep_state(state: SweepState, event: SweepEvent, *, abort_failed: bool) -> SweepState:
    """The state after ``event``; an abort that failed turns ``stopped`` into ``failed``.

    Raises:
        Conflict: the table has no such transition.
    """
    row = SWEEP[state]
    if event not in row:
        raise Conflict(f"A sweep that is {state} cannot take {event}.")
    following = row[event]
    if abort_failed and following is SweepState.STOPPED and following is not state:
        return SweepState.FAILED
    return following


class StreamState(enum.StrEnum):
    """Where a stream stands."""

    RUNNING = "running"
    ENDED = "ended"
    TERMINATED = "terminated"
    CANCELLED = "cancelled"
    FAILED = "failed"


class StreamEvent(enum.StrEnum):
    """What can happen to a stream."""

    ELAPSED = "elapsed"
    STOP = "stop"
    CLIENT_GONE = "client_gone"
    FAILURE = "failure"
    SHUTDOWN = "shutdown"


def _over(state: StreamState) -> Mapping[StreamEvent, StreamState]:
    """A stream that is over stays what it is, whoever stops it again."""
    lasting = (StreamEvent.STOP, StreamEvent.CLIENT_GONE, StreamEvent.SHUTDOWN)
    return MappingProxyType(dict.fromkeys(lasting, state))


STREAM: Final[Mapping[StreamState, Mapping[StreamEvent, StreamState]]] = MappingProxyType(
    {
        StreamState.RUNNING: MappingProxyType(
            {
                StreamEvent.ELAPSED: StreamState.ENDED,
                StreamEvent.STOP: StreamState.TERMINATED,
                StreamEvent.CLIENT_GONE: StreamState.CANCELLED,
                StreamEvent.FAILURE: StreamState.FAILED,
                StreamEvent.SHUTDOWN: StreamState.TERMINATED,
            }
        ),
        StreamState.ENDED: _over(StreamState.ENDED),
        StreamState.TERMINATED: _over(StreamState.TERMINATED),
        StreamState.CANCELLED: _over(StreamState.CANCELLED),
        StreamState.FAILED: _over(StreamState.FAILED),
    }
)


def next_stream_state(state: StreamState, event: StreamEvent) -> StreamState:
    """The state after ``event``.

    Raises:
        Conflict: the table has no such transition.
    """
    row = STREAM[state]
    if event not in row:
        raise Conflict(f"A stream that is {state} cannot take {event}.")
    return row[event]


State = TypeVar("State", bound=StrEnum)
Event = TypeVar("Event", bound=StrEnum)

HEAD = """# States of sweeps, streams and sequences

<!-- Made by `make docs` from edged/runs/states.py; do not edit. -->

These tables show every state of a sweep, a stream or a sequence, and which events change it. You
see the state in `get_status` and in the list of runs. For example, a running sweep that reaches its
target is `completed`.

A row is a state, a column is an event, and a cell is the next state. An event without a cell is
refused and changes nothing. When a sweep is stopped, its abort runs first; if the abort fails, the
sweep is failed. When a sequence is stopped, its `finally` steps run first, with the same rule.
"""


def reference() -> str:
    """The page."""
    parts = [
        HEAD,
        _table("sweep", SWEEP, tuple(SweepEvent)),
        _table("stream", STREAM, tuple(StreamEvent)),
        _table("sequence", SEQUENCE, tuple(SequenceEvent)),
    ]
    return "\n".join(parts)


def _table(
    name: str, table: Mapping[State, Mapping[Event, State]], events: tuple[Event, ...]
) -> str:
    lines = [
        f"## {name.capitalize()}",
        "",
        f"| {name} | {' | '.join(event.value.replace('_', ' ') for event in events)} |",
        f"|---{'|---' * len(events)}|",
    ]
    for state, row in table.items():
        cells = [row[event].value if event in row else "" for event in events]
        lines.append(f"| {state.value} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(reference())
