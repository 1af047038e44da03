"""A run: a sweep, a stream, a sequence or an experiment, as the registry knows it.

A kind of run adds its own fields and says what its end means (``end``). Whatever ends a run goes
through ``end``, which never waits; the run's own task then does what the state table says.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Mapping
from dataclasses import field
from typing import Any, ClassVar, TypeVar

import structlog

from edged.actions.action import Action, Purpose, RunCommand
from edged.actions.caller import Caller
from edged.actions.cause import ENGINE_STOPPED, NOT_NEEDED, Cause
from edged.errors import EdgedError, ErrorCode, Failed
from edged.profiles.abort import Proof
from edged.record import record
from edged.runs.ports import RowSink
from edged.runs.run_head import RunHead, RunKind, RunNow
from edged.runs.states import KindWords, RunEvent, RunState, next_state

A = TypeVar("A", bound=Action)

log = structlog.get_logger("edged.runs")


def mistake(run_id: str, bug: BaseException) -> Failed:
    """What a run ends with in which edged itself made a mistake."""
    log.error("run_fault", run_id=run_id, exc_info=bug)
    return Failed(f"edged made a mistake; its log has it under {run_id}.", code=ErrorCode.INTERNAL)


@record
class Ending:
    """Why a run leaves the state it is in.

    Attributes:
        reason: where somebody, or the run's own plan, wanted it.
        error: where nobody did.
        cause: reported by a call that it interrupts.
        failure: the error itself, where a caller gets it.
    """

    event: RunEvent
    reason: str = ""
    error: str = ""
    cause: Cause = NOT_NEEDED
    failure: EdgedError | None = None

    @classmethod
    def wished(cls, event: RunEvent, cause: Cause, failure: EdgedError | None = None) -> Ending:
        """Somebody, or something, ends the run; with ``failure`` it has failed by that."""
        error = failure.message if failure is not None else ""
        reason = "" if error else cause.reason
        return cls(event=event, reason=reason, error=error, cause=cause, failure=failure)


class Ended(Exception):
    """Something that a run does wants its end, and says how."""

    def __init__(self, ending: Ending) -> None:
        super().__init__(ending.reason or ending.error)
        self.ending = ending


@record(frozen=False)
class AbortReport:
    """What became of an abort that a run may have to send to a unit.

    Attributes:
        proofs: what shows that the lines were obeyed.
        row: of the journal; it stays there until the abort is done.
        state: ``not_needed``, ``pending``, ``done`` or ``given_up``.
        at_ms: when the instrument had taken it, Unix epoch milliseconds; 0 until then.
        cause: the cause that an interrupted call reports.
        needs_attention: a person has to look at the unit.
    """

    lines: tuple[str, ...]
    proofs: tuple[Proof, ...]
    row: str
    state: str = "not_needed"
    cause: Cause = NOT_NEEDED
    at_ms: int = 0
    tries: int = 0
    error: str = ""
    needs_attention: bool = False

    def to_json(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "state": self.state,
            "scpi": list(self.lines),
            "at_ms": self.at_ms or None,
            "tries": self.tries,
            "error": self.error or None,
        }


@record(frozen=False, eq=False)
class Run:
    """One run.

    Attributes:
        words: the words of its kind for the states.
        head: of its recording: kind, id, first instrument, command, columns, who began it.
        action: by which it was started.
        caller: the caller as which its steps are performed.
        began: monotonic seconds when it was started; ``started_ms`` the same for people.
        reason: why it ended, where nothing went wrong.
        error: what went wrong.
        sink: its recording; ``None`` before there is one.
        needs_attention: a person has to look at a unit of it.
        aborts: what it may have to send to make its units safe, by their ids.
        task: owned by the registry; ``None`` before its life has begun.
        ended: set once a stop need not wait any longer; its last words may still be written.
        ending: what somebody wants of it; ``body`` what it does until then.
    """

    words: ClassVar[KindWords]
    is_cut_at_close: ClassVar[bool] = False
    """Its task is cancelled when the daemon stops and the bound of that is over."""
    most_ended: ClassVar[int] = 100
    """So many of its kind that are over can still be asked for; the data of all are on the disk."""

    head: RunHead
    action: Action
    caller: Caller
    began: float
    started_ms: int
    state: RunState = RunState.RUNNING
    reason: str = ""
    error: str = ""
    needs_attention: bool = False
    aborts: dict[str, AbortReport] = field(default_factory=dict)
    sink: RowSink | None = None
    task: asyncio.Task[None] | None = None
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    ending: Ending | None = None
    body: asyncio.Task[Ending] | None = None

    @property
    def run_id(self) -> str:
        """The id under which its user knows it."""
        return self.head.run_id

    @property
    def kind(self) -> RunKind:
        """What kind of run it is."""
        return self.head.kind

    @property
    def status(self) -> str:
        """Its state, in the word of its kind."""
        return self.words.states[self.state]

    @property
    def units(self) -> Collection[str]:
        """Ids of the instruments that it works; a stop of one of them ends it."""
        return (self.head.instrument_id,)

    @property
    def owes_abort(self) -> bool:
        """An abort is to be sent that its unit has not taken yet."""
        return any(report.state == "pending" for report in self.aborts.values())

    @property
    def row_count(self) -> int:
        """Rows taken so far."""
        return 0

    @property
    def result(self) -> Mapping[str, Any]:
        """What it returns, once it has come to its end."""
        return {}

    def end(self, ending: Ending) -> None:
        """Have it end, or pause; returns at once, and is safe to be called again.

        Who wants its end first is the reason; a pause gives way to that.
        """
        gives_way = self.ending is not None and self.ending.event is RunEvent.PAUSE
        if self.ending is None or (gives_way and ending.event is not RunEvent.PAUSE):
            self.ending = ending
            if self.body is not None:
                self.body.cancel(ending.cause)

    async def until_ended(self, body: Coroutine[Any, Any, Ending]) -> Ending:
        """Let it do this to its end, or until somebody wants another.

        Who stops is obeyed, also when it has come to its end in the same moment.
        """
        self.body = asyncio.create_task(body, name=f"{self.run_id}-body")
        if self.ending is not None:
            self.body.cancel(self.ending.cause)
        try:
            await asyncio.wait({self.body})
        finally:
            # A step that waits for its turn is withdrawn before an abort takes the line.
            self.body.cancel(ENGINE_STOPPED)
            await asyncio.gather(self.body, return_exceptions=True)
        failure = None if self.body.cancelled() else self.body.exception()
        if not isinstance(failure, Ended | EdgedError | None):
            failure = mistake(self.run_id, failure)
        if (ending := self.ending) is not None:
            self.ending = None if ending.event is RunEvent.PAUSE else ending
            return ending
        if isinstance(failure, Ended):
            return failure.ending
        if isinstance(failure, EdgedError):
            return Ending(event=RunEvent.FAILURE, error=str(failure), failure=failure)
        if self.body.cancelled():
            return Ending(event=RunEvent.STOP, reason="it was cancelled")
        return self.body.result()

    def act(
        self, kind: Callable[..., A], action_id: str, unit: str, purpose: Purpose, **more: Any
    ) -> A:
        """An action of one of its steps, at a unit by its id."""
        return kind(
            tool=self.action.tool,
            caller=self.caller,
            action_id=action_id,
            parent_id=self.action.action_id,
            instrument_id=unit,
            purpose=purpose,
            **more,
        )

    def act_command(
        self, action_id: str, purpose: Purpose, unit: str, name: str, values: Mapping[str, Any]
    ) -> RunCommand:
        """The same for a command of the unit's profile."""
        return self.act(RunCommand, action_id, unit, purpose, command_name=name, parameters=values)

    def move(self, event: RunEvent, *, is_clean_up_failed: bool = False) -> None:
        """Go to the state that the table says.

        Raises:
            Conflict: its kind does not know that event in this state.
        """
        self.state = next_state(
            self.words, self.state, event, is_clean_up_failed=is_clean_up_failed
        )

    def entry(self, now_s: float) -> dict[str, Any]:
        """Its entry in get_status; ``now_s`` is monotonic."""
        raise NotImplementedError

    def notes(self, now_s: float, /) -> list[str]:
        """What is true of its rows and misleads who does not know it; ``now_s`` is monotonic."""
        raise NotImplementedError

    def what_went_wrong(self) -> str:
        """Its error, as the list of runs has it."""
        return self.error

    def fade(self, newer: int) -> None:
        """Give up memory: so many of its kind have ended since it has."""

    def now(self, now_s: float) -> RunNow:
        """How it stands; ``now_s`` is monotonic."""
        return RunNow(
            head=self.head,
            state=self.status,
            started_ms=self.started_ms,
            rows=self.row_count,
            reason=self.reason,
            error=self.what_went_wrong(),
            notes=tuple(self.notes(now_s)),
            result=self.result,
        )
