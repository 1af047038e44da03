"""The seam to the record: what the command path writes down, and when.

``Record`` is what the path needs; ``LogRecord`` here writes log lines. The rule is the same for
every record: the intent of a write stands before its first byte is sent, and every attempt gets its
end, refused ones included.

Counts every attempt on its way to the record, for /metrics; costs a call some dictionary reads.

Latencies go into fixed buckets, so that no label and no list grows with traffic.
"""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final, Protocol

import structlog

from edged.actions.action import Action
from edged.actions.caller import Caller, Route
from edged.actions.outcome import Outcome, OutcomeStatus
from edged.commands.target import Target
from edged.errors import EdgedError, ErrorCode
from edged.log import ASIDE

Again = Callable[[str, float], object]
"""Takes the id of an action, and how long it took (ms)."""


class Record(Protocol):
    """Where every attempt is written."""

    def intend(self, action: Action, target: Target) -> Awaitable[None] | None:
        """Write down that this write or dangerous command is about to be sent.

        Returns:
            What is done once it is written; ``None``: there is nothing to wait for.

        Raises:
            Failed: STORE_FAILED, here or where it is waited for, when it cannot be written; nothing
                may be sent then.
        """
        ...

    def conclude(self, action: Action, target: Target | None, outcome: Outcome) -> None:
        """Write down how an action ended. Never raises, never waits."""
        ...

    def again(self, action: Action, target: Target) -> Again | None:
        """What ``conclude`` does when the same was told once more; ``None``: it has to be called.

        Args:
            action: told from memory, without arguments.
        """
        ...

    def refuse(self, caller: Caller, tool: str, error: EdgedError) -> None:
        """Write down an attempt that ended before there was an action (unknown tool, bad token)."""
        ...


class MethodRecord(Protocol):
    """Where it is written down that a surface was asked something that is no tool."""

    def __call__(
        self,
        caller: Caller,
        name: str,
        params: Mapping[str, Any],
        *,
        action_id: str,
        error: EdgedError | None,
        duration_ms: float,
    ) -> None:
        """Never raises, never waits."""
        ...


class LogRecord:
    """A record that is the log. What went well is put aside, so that nobody waits for its line."""

    def __init__(self) -> None:
        # Bound once, since logging has been set up: a write tells two lines.
        self._log = structlog.get_logger("edged.record").bind()
        self._put_aside = partial(ASIDE.put, self._log)

    async def intend(self, action: Action, target: Target) -> None:
        self.note_intent(action, target.instrument_id, target.command_name, target.lines)

    def note_intent(
        self, action: Action, instrument_id: str, command: str, lines: tuple[str, ...]
    ) -> None:
        """``intend``, for a record that waits for something else."""
        self._put_aside(
            "intent",
            action_id=action.action_id,
            tool=action.tool,
            instrument_id=instrument_id,
            command=command,
            scpi=lines,
        )

    def conclude(self, action: Action, target: Target | None, outcome: Outcome) -> None:
        """See ``Record``. Reads that went well are logged at debug: they are the hot path."""
        if outcome.status is not OutcomeStatus.OK:
            write = self._log.info
        else:
            is_quiet = target is None or not target.is_write
            write = self._log.debug if is_quiet else self._put_aside
        write(
            "action",
            action_id=action.action_id,
            parent_id=action.parent_id,
            tool=action.tool,
            route=action.caller.route._value_,
            remote=action.caller.remote,
            instrument_id=target.instrument_id if target else "",
            command=target.command_name if target else "",
            status=outcome.status._value_,
            error=outcome.error.message if outcome.error else "",
            execution_time_ms=round(outcome.execution_time_ms, 3),
        )

    def again(self, action: Action, target: Target) -> Again | None: ...

    def refuse(self, caller: Caller, tool: str, error: EdgedError) -> None:
        self._log.info(
            "refused",
            tool=tool,
            route=caller.route.value,
            remote=caller.remote,
            code=error.code.value,
            error=error.message,
        )


BUCKETS_S: Final = (
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1,
    2.5,
    5,
    10,
    30,
)
MAX_TOOLS: Final = 500
MOST_UNCOUNTED: Final = 64
"""Calls that have ended and are not counted: together they cost a fraction of what each costs."""
OTHER: Final = "(other)"


class Latencies:
    """A histogram: how many fell under each bound of ``BUCKETS_S``, above all, and their sum."""

    __slots__ = ("counts", "sum_s")

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS_S) + 1)
        self.sum_s = 0.0


class CountedRecord:
    """A record that counts, and hands on to another.

    Attributes:
        calls: (kind of action, route, outcome) → how many, as of ``count``; so the next two.
        tools: (tool, outcome) → how many calls from outside; names beyond 500 share one.
        latencies: kind of action → how long those took that were tried.
        faults: bugs of ours that callers met.
        listener: hears how each command of an instrument ended, where anybody wants to know.
    """

    def __init__(self, inner: Record) -> None:
        self._inner = inner
        self.intend = inner.intend
        self.calls: Counter[tuple[str, str, str]] = Counter()
        self.tools: Counter[tuple[str, str]] = Counter()
        self.latencies: dict[str, Latencies] = {}
        # Not counted yet: row, route and tool of an action (no tool of an inner one), its outcome
        # and its time (ms).
        self._ended: list[tuple[type[Action] | str, Route, str | None, str, float]] = []
        self.faults = 0
        self.listener: Callable[[Action, Target | None, Outcome], None] | None = None

    def conclude(self, action: Action, target: Target | None, outcome: Outcome) -> None:
        self._note(action, outcome.status._value_, outcome.execution_time_ms)
        if outcome.error is not None and outcome.error.code is ErrorCode.INTERNAL:
            self.faults += 1
        self._inner.conclude(action, target, outcome)
        if self.listener is not None and target is not None and target.command is not None:
            self.listener(action, target, outcome)

    def again(self, action: Action, target: Target) -> Again | None:
        inner, note = self._inner.again(action, target), self._note
        return inner and (lambda id_, ms: (note(action, "ok", ms), inner(id_, ms)))

    def _note(self, action: Action, status: str, duration_ms: float) -> None:
        tool = None if action.parent_id else action.tool
        self._ended.append((action.row, action.caller.route, tool, status, duration_ms))
        if len(self._ended) >= MOST_UNCOUNTED:
            self.count()

    def count(self) -> None:
        """Count what has ended."""
        ended, self._ended = self._ended, []
        for row, route, tool, status, duration_ms in ended:
            kind = row if isinstance(row, str) else row.__name__
            self.calls[kind, route._value_, status] += 1
            if tool is not None:
                key = (tool, status)
                if key not in self.tools and len(self.tools) >= MAX_TOOLS:
                    key = (OTHER, status)
                self.tools[key] += 1
            latencies = self.latencies.get(kind)
            if latencies is None:
                latencies = self.latencies[kind] = Latencies()
            seconds = duration_ms / 1000
            latencies.counts[bisect.bisect_left(BUCKETS_S, seconds)] += 1
            latencies.sum_s += seconds

    def refuse(self, caller: Caller, tool: str, error: EdgedError) -> None:
        self.calls["none", caller.route.value, "refused"] += 1
        self._inner.refuse(caller, tool, error)
