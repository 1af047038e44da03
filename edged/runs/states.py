"""The states of runs, as data; nothing else decides a next state.

One table holds for every kind of run. A sweep, a stream and a sequence show words of their own for
its states and events. An event that a run does not know raises and changes nothing.

docs/states.md is made from this module.
"""

from __future__ import annotations

import enum
import sys
from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType
from typing import Final

from edged.errors import Conflict
from edged.record import record


class RunState(enum.StrEnum):
    """Where a run stands."""

    WAITING = "waiting"
    RUNNING = "running"
    PAUSED = "paused"
    COMPLETED = "completed"
    STOPPED = "stopped"
    CANCELLED = "cancelled"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


class RunEvent(enum.StrEnum):
    """What can happen to a run. Its clean-up (abort, ``finally``) runs before the next state."""

    BEGIN = "begin"
    DONE = "done"
    PAUSE = "pause"
    RESUME = "resume"
    STOP = "stop"
    CLIENT_GONE = "client_gone"
    FAILURE = "failure"
    SHUTDOWN = "shutdown"
    FOUND_AFTER_CRASH = "found_after_crash"


OVER: Final = frozenset({RunState.COMPLETED, RunState.STOPPED, RunState.CANCELLED, RunState.FAILED})
"""A run in one of these sends nothing more by itself."""
LASTING: Final = (
    RunEvent.PAUSE,
    RunEvent.STOP,
    RunEvent.CLIENT_GONE,
    RunEvent.SHUTDOWN,
    RunEvent.FOUND_AFTER_CRASH,
)
"""Events that change nothing of a run that is over."""
_ENDS: Final = {
    RunEvent.STOP: RunState.STOPPED,
    RunEvent.CLIENT_GONE: RunState.CANCELLED,
    RunEvent.FAILURE: RunState.FAILED,
    RunEvent.SHUTDOWN: RunState.STOPPED,
    RunEvent.FOUND_AFTER_CRASH: RunState.INTERRUPTED,
}

TABLE: Final[Mapping[RunState, Mapping[RunEvent, RunState]]] = MappingProxyType(
    {
        RunState.WAITING: MappingProxyType({RunEvent.BEGIN: RunState.RUNNING, **_ENDS}),
        RunState.RUNNING: MappingProxyType(
            {RunEvent.DONE: RunState.COMPLETED, RunEvent.PAUSE: RunState.PAUSED, **_ENDS}
        ),
        RunState.PAUSED: MappingProxyType(
            {RunEvent.PAUSE: RunState.PAUSED, RunEvent.RESUME: RunState.RUNNING, **_ENDS}
        ),
        RunState.INTERRUPTED: MappingProxyType({RunEvent.RESUME: RunState.RUNNING, **_ENDS}),
        **{state: MappingProxyType(dict.fromkeys(LASTING, state)) for state in OVER},
    }
)


@record
class KindWords:
    """What one kind of run shows of the table.

    Attributes:
        name: the kind, as people call it.
        states: the states that it shows, each with its word.
        events: the events that it knows, each with its word.
        other: cells of its own; ``None`` where it refuses what the table allows.
    """

    name: str
    states: Mapping[RunState, str]
    events: Mapping[RunEvent, str]
    other: Mapping[tuple[RunState, RunEvent], RunState | None] = field(default_factory=dict)

    def row(self, state: RunState) -> dict[RunEvent, RunState]:
        """The next states that are open to a run in ``state``, by the event."""
        cells = ((event, self._cell(state, event)) for event in self.events)
        return {event: following for event, following in cells if following is not None}

    def _cell(self, state: RunState, event: RunEvent) -> RunState | None:
        if (state, event) in self.other:
            return self.other[state, event]
        return TABLE[state].get(event)


SWEEP: Final = KindWords(
    name="sweep",
    states={
        RunState.RUNNING: "running",
        RunState.PAUSED: "holding",
        RunState.COMPLETED: "completed",
        RunState.STOPPED: "stopped",
        RunState.FAILED: "failed",
    },
    events={
        RunEvent.DONE: "target_reached",
        RunEvent.PAUSE: "stop_hold",
        RunEvent.STOP: "stop_abort",
        RunEvent.FAILURE: "failure",
        RunEvent.SHUTDOWN: "shutdown",
        RunEvent.FOUND_AFTER_CRASH: "found_after_crash",
    },
    other={
        # What a completed sweep has left on can still be made safe.
        (RunState.COMPLETED, RunEvent.STOP): RunState.STOPPED,
        (RunState.RUNNING, RunEvent.FOUND_AFTER_CRASH): RunState.FAILED,
        (RunState.PAUSED, RunEvent.FOUND_AFTER_CRASH): RunState.FAILED,
    },
)
STREAM: Final = KindWords(
    name="stream",
    states={
        RunState.RUNNING: "running",
        RunState.COMPLETED: "ended",
        RunState.STOPPED: "terminated",
        RunState.CANCELLED: "cancelled",
        RunState.FAILED: "failed",
    },
    events={
        RunEvent.DONE: "elapsed",
        RunEvent.STOP: "stop",
        RunEvent.CLIENT_GONE: "client_gone",
        RunEvent.FAILURE: "failure",
        RunEvent.SHUTDOWN: "shutdown",
    },
)
SEQUENCE: Final = KindWords(
    name="sequence",
    states={
        RunState.RUNNING: "running",
        RunState.COMPLETED: "completed",
        RunState.FAILED: "failed",
        RunState.CANCELLED: "cancelled",
        RunState.STOPPED: "stopped",
    },
    events={
        RunEvent.DONE: "done",
        RunEvent.FAILURE: "step_failed",
        RunEvent.CLIENT_GONE: "client_gone",
        RunEvent.STOP: "stop",
    },
    other={(state, event): None for state in OVER for event in LASTING},
)
EXPERIMENT: Final = KindWords(
    name="experiment",
    states={
        state: state.value
        for state in RunState
        if state not in {RunState.WAITING, RunState.CANCELLED}
    },
    events={
        event: event.value
        for event in RunEvent
        if event not in {RunEvent.BEGIN, RunEvent.CLIENT_GONE}
    },
)


def next_state(
    words: KindWords, state: RunState, event: RunEvent, *, is_clean_up_failed: bool = False
) -> RunState:
    """The state after ``event``; a clean-up that failed turns any end into ``failed``.

    Raises:
        Conflict: this kind of run does not know that event in this state.
    """
    row = words.row(state)
    if event not in row:
        raise Conflict(
            f"A {words.name} that is {words.states.get(state, state)} cannot take "
            f"{words.events.get(event, event)}."
        )
    following = row[event]
    if is_clean_up_failed and following is not state and following in OVER:
        return RunState.FAILED
    return following


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
    return "\n".join([HEAD, *map(_table, (SWEEP, STREAM, SEQUENCE, EXPERIMENT))])


def _table(words: KindWords) -> str:
    events = words.events
    lines = [
        f"## {words.name.capitalize()}",
        "",
        f"| {words.name} | {' | '.join(word.replace('_', ' ') for word in events.values())} |",
        f"|---{'|---' * len(events)}|",
    ]
    for state, word in words.states.items():
        row = words.row(state)
        cells = [words.states[row[event]] if event in row else "" for event in events]
        lines.append(f"| {word} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(reference())
