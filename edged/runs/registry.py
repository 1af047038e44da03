"""The registry: every run that is under way, and the last ones that are over.

It owns the tasks of runs, finds, stops and fails them, and forgets the oldest that are over. What
the end of a run means, its kind knows (``Run.end``).
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping
from typing import Any, ClassVar, Final, Generic, TypeVar, cast

import structlog

from edged.actions.action import Purpose, SendLines
from edged.actions.cause import ENGINE_STOPPED, Cause, cause_of
from edged.errors import EdgedError, ErrorCode, Failed, Invalid, NotFound
from edged.runs.bench import Bench
from edged.runs.journal import RunJournal
from edged.runs.left_work import LeftWork
from edged.runs.obey import obey
from edged.runs.ports import Recorder, RunLeases
from edged.runs.run import Ending, Run
from edged.runs.run_head import RunKind, RunNow
from edged.runs.states import RunEvent
from edged.runs.wording import ASK_FIRST
from edged.schema.fields import nearest

FIRST_RETRY_S: Final = 0.25
LONGEST_RETRY_S: Final = 2.0
SETTLE_S: Final = 0.5
"""What journal and recording of a run that has ended may take of the daemon's stop."""

IsMeant = Callable[[str], bool]
"""Whether the instrument with this id is meant."""
EVERY_KIND: Final[Collection[RunKind]] = frozenset(RunKind)

R = TypeVar("R", bound=Run)
T = TypeVar("T")

log = structlog.get_logger("edged.runs")


class Registry:
    """Every run, of whatever kind.

    Args:
        recorder: opens recordings.
        notes: told of each run that writes.

    Attributes:
        journal: where a run is found after a crash.
        kinds: what starts and stops runs of each kind; whoever makes it enters it here.
        halts: how often everything was stopped: a run that was being prepared meanwhile must not
            begin. ``halted_by`` is the cause of the last time.
        is_closing: the daemon stops.
    """

    def __init__(self, bench: Bench, *, recorder: Recorder, notes: RunLeases) -> None:
        self.bench = bench
        self.recorder = recorder
        self.notes = notes
        self.journal = RunJournal(journal=bench.store.journal, clock=bench.clock)
        self.kinds: dict[RunKind, Late[Any]] = {}
        self.halts, self.halted_by = 0, ENGINE_STOPPED
        self.is_closing = False
        # By id, in the order of their start, those whose life is not over.
        self.going_runs: dict[str, Run] = {}
        # Those that are over, in the order of their end.
        self._over: dict[RunKind, dict[str, Run]] = {kind: {} for kind in RunKind}
        # What a former life of the daemon left; told of, and never run again.
        self._found: dict[str, LeftWork] = {}
        # What goes on behind the end of a run: recordings that are being written.
        self._behind: set[asyncio.Task[None]] = set()
        self._listeners: dict[RunKind, list[Callable[[Any], None]]] = {k: [] for k in RunKind}

    # Who listens

    def subscribe(self, kind: RunKind, listener: Callable[[Any], None]) -> Callable[[], None]:
        """Call ``listener`` on the loop with all news of one kind; returns what ends that."""
        listeners = self._listeners[kind]
        listeners.append(listener)
        return lambda: listeners.remove(listener)

    def publish(self, kind: RunKind, news: object) -> None:
        """Tell those who listen."""
        for listener in tuple(self._listeners[kind]):
            listener(news)

    # What there is

    def going(self, kind: RunKind) -> Iterator[Run]:
        """Runs whose life is not over, oldest first; their last words may be being written."""
        return (run for run in tuple(self.going_runs.values()) if run.kind is kind)

    def under_way(
        self, is_meant: IsMeant | None = None, kinds: Collection[RunKind] = EVERY_KIND
    ) -> list[Run]:
        """Runs that have not ended, on instruments that are meant."""
        return [
            run
            for run in self.going_runs.values()
            if run.kind in kinds
            and not run.ended.is_set()
            and (is_meant is None or any(map(is_meant, run.units)))
        ]

    def running(self, kind: RunKind) -> tuple[dict[str, Any], ...]:
        """Each of a kind that is under way, as get_status has it."""
        # Mostly nothing runs, and get_status asks every kind.
        if not self.going_runs:
            return ()
        now_s = self.bench.clock.monotonic()
        return tuple(run.entry(now_s) for run in self.under_way(kinds={kind}))

    def known(self, kind: RunKind) -> list[Run]:
        """All that are remembered: first those that are over."""
        over = list(self._over[kind].values())
        return [*over, *self.going(kind)] if self.going_runs else over

    def get(self, kind: RunKind, run_id: str) -> Run | None:
        """The run of that kind with that id, if it is remembered."""
        run = self.going_runs.get(run_id) or self._over[kind].get(run_id)
        return run if run is not None and run.kind is kind else None

    def find(self, run_id: str) -> Run:
        """The run with that id, of any kind.

        Raises:
            NotFound: UNKNOWN_RUN; its remedy has the ids that are near.
        """
        for kind in RunKind:
            if (run := self.get(kind, run_id)) is not None:
                return run
        raise NotFound(
            f"There is no run {run_id[:100]!r}.",
            code=ErrorCode.UNKNOWN_RUN,
            data={"run_id": run_id[:100]},
            remedy=nearest(run_id[:100], [run.head.run_id for run in self.runs()]),
        )

    def found(self, kind: RunKind) -> list[LeftWork]:
        """What a former life of the daemon left of one kind."""
        if not self._found:
            return []
        return [left for left in self._found.values() if left.entry.kind.value == kind.value]

    def left_of(self, kind: RunKind, run_id: str) -> LeftWork | None:
        """The one with that id."""
        return next((left for left in self.found(kind) if left.entry.id == run_id), None)

    def runs(self) -> tuple[RunNow, ...]:
        """All that are remembered, of every kind, and those found after a crash."""
        now_s = self.bench.clock.monotonic()
        known = (run.now(now_s) for kind in RunKind for run in self.known(kind))
        left = (one.as_run() for one in self._found.values())
        # An experiment has left a row for each of its units.
        found = {now.head.run_id: now for now in left}
        return (*found.values(), *known)

    # Beginning

    def add(self, run: Run) -> None:
        """Find, stop and list this run from now on; its life begins with ``live``."""
        self.going_runs[run.run_id] = run

    def drop(self, run: Run) -> None:
        """It has not begun after all, and is forgotten."""
        run.ended.set()
        del self.going_runs[run.run_id]
        self.let_go(run)

    def live(self, run: Run, life: Coroutine[Any, Any, None]) -> None:
        """Let it live in a task of its own: ``life`` is all of it, from first step to last word."""
        self.going_runs[run.run_id] = run
        self._over[run.kind].pop(run.run_id, None)
        if run.task is not None:
            self._await_at_close(run.task)
        run.task = asyncio.create_task(self._live(run, life), name=run.run_id)

    def keep(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Have this go on behind the end of a run; the daemon's stop waits for it."""
        self._await_at_close(asyncio.create_task(work, name=name))

    def _await_at_close(self, task: asyncio.Task[None]) -> None:
        self._behind.add(task)
        task.add_done_callback(self._behind.discard)

    async def attend(self, run: Run) -> None:
        """Wait for the end of a run; who goes away meanwhile ends it.

        Raises:
            asyncio.CancelledError: the caller went away; the run has ended by then.
        """
        if run.task is None:
            return
        try:
            await asyncio.shield(run.task)
        except asyncio.CancelledError as cancelled:
            if not run.ended.is_set():
                run.end(Ending.wished(RunEvent.CLIENT_GONE, cause_of(cancelled)))
            while not run.ended.is_set():
                # Whoever cancels once more waits for its end all the same.
                with contextlib.suppress(asyncio.CancelledError):
                    await run.ended.wait()
            raise

    async def _live(self, run: Run, life: Coroutine[Any, Any, None]) -> None:
        try:
            await life
        finally:
            # Else it lives again, and this task has only written how its first life ended.
            if run.task is asyncio.current_task():
                self.let_go(run)
                del self.going_runs[run.run_id]
                self._over[run.kind][run.run_id] = run
                run.ended.set()
                self._retire(self._over[run.kind])

    def let_go(self, run: Run) -> None:
        """Nothing more is sent for it; may be called more than once."""
        self.notes.run_ended(run.run_id)

    def _retire(self, over: dict[str, Run]) -> None:
        """Forget the oldest, but for those that a person has to look at."""
        for newer, run in enumerate(reversed(tuple(over.values()))):
            run.fade(newer)
            if newer >= run.most_ended and not run.needs_attention:
                del over[run.run_id]

    # Aborts

    async def abort(self, run: Run) -> Mapping[str, str]:
        """Send each abort that it owes now, and see that it is obeyed; why not, by the unit."""
        owed = [unit for unit, report in run.aborts.items() if report.state == "pending"]
        errors = await asyncio.gather(*(self._abort(run, unit) for unit in owed))
        return {unit: error for unit, error in zip(owed, errors, strict=True) if error}

    async def _abort(self, run: Run, unit: str) -> str:
        report = run.aborts[unit]
        report.tries += 1
        action = run.act(
            SendLines,
            self.bench.new_id(),
            unit,
            Purpose.ABORT,
            lines=report.lines,
            cause=report.cause,
        )
        report.error = (await obey(self.bench.perform, action, report.proofs)).error
        if not report.error:
            report.state, report.at_ms = "done", self.bench.clock.wall_ms()
        told = {"scpi": report.lines, "error": report.error}
        log.warning("run_abort", run_id=run.run_id, instrument_id=unit, **told)
        return report.error

    async def abort_later(self, run: Run) -> None:
        """Try again until its units take it, or until it is too late to do so unasked.

        What is not taken stays in the journal.
        """
        clock, delay_s = self.bench.clock, FIRST_RETRY_S
        give_up = clock.monotonic() + self.bench.config.abort_after_crash_sec
        for report in run.aborts.values():
            # What is on the disk already says enough to clean up by.
            with contextlib.suppress(Failed):
                changes = {"status": run.status, "error": run.error}
                await self.journal.journal.update(report.row, changes, is_forced=True)
        while run.owes_abort and clock.monotonic() < give_up:
            await clock.sleep(delay_s)
            delay_s = min(2 * delay_s, LONGEST_RETRY_S)
            await self.abort(run)
        for report in run.aborts.values():
            if report.state == "pending":
                report.state = "given_up"
                report.needs_attention = run.needs_attention = True

    async def note_made_safe(self, unit: str) -> list[Run]:
        """A unit has obeyed its own abort: those that had given it up are done with it."""
        known = [run for kind in RunKind for run in self.known(kind)]
        runs = [run for run in known if unit in run.aborts and run.aborts[unit].needs_attention]
        for run in runs:
            run.aborts[unit].needs_attention = False
            run.needs_attention = any(one.needs_attention for one in run.aborts.values())
            await self.journal.journal.finish(run.aborts[unit].row)
        return runs

    # Ends

    def refuse_halted(self, halts: int, what: str, done: str) -> None:
        """Raises Failed: CANCELLED, everything was stopped since while it was being prepared."""
        if halts == self.halts and not self.is_closing:
            return
        raise Failed(
            f"{what} was ended {self.halted_by.clause} while it was about to begin; "
            f"nothing was {done}.",
            code=ErrorCode.CANCELLED,
            remedy="It was stopped to make the bench safe: ask before you start again.",
        )

    async def stop(self, run: Run, ending: Ending) -> None:
        """End one run; returns when it has ended."""
        if not run.ended.is_set():
            run.end(ending)
            await run.ended.wait()

    async def stop_all(
        self,
        cause: Cause,
        is_meant: IsMeant | None = None,
        *,
        event: RunEvent = RunEvent.STOP,
        kinds: Collection[RunKind] = EVERY_KIND,
    ) -> list[Run]:
        """End every run that works an instrument that is meant; returns when they have ended.

        Args:
            is_meant: ``None``: every instrument is.
        """
        self.halts, self.halted_by = self.halts + 1, cause
        return await self._end_all(Ending.wished(event, cause), is_meant, kinds)

    async def fail_all(
        self,
        cause: Cause,
        error: EdgedError,
        is_meant: IsMeant,
        kinds: Collection[RunKind] = EVERY_KIND,
    ) -> list[Run]:
        """An instrument is not as it was: the same, and they have failed by ``error``."""
        failed = Ending.wished(RunEvent.FAILURE, cause, error)
        return await self._end_all(failed, is_meant, kinds)

    async def _end_all(
        self, ending: Ending, is_meant: IsMeant | None, kinds: Collection[RunKind]
    ) -> list[Run]:
        runs = self.under_way(is_meant, kinds)
        for run in runs:
            run.end(ending)
        for run in runs:
            await run.ended.wait()
        return runs

    async def close(self, within_s: float) -> None:
        """The daemon stops: end every run; what an instrument does not take stays journalled.

        Args:
            within_s: after that the tasks of runs that may be cut are cancelled.
        """
        self.is_closing = True
        ending = asyncio.ensure_future(self.stop_all(ENGINE_STOPPED, event=RunEvent.SHUTDOWN))
        await asyncio.wait({ending}, timeout=within_s)
        settling = [r.task for r in self.going_runs.values() if r.task and not r.owes_abort]
        if settling:
            await asyncio.wait(settling, timeout=SETTLE_S)
        ending.cancel(ENGINE_STOPPED)
        tasks = {run.task: run for run in self.going_runs.values() if run.task}
        for task, run in tasks.items():
            if run.is_cut_at_close or run.owes_abort:
                task.cancel(ENGINE_STOPPED)
        await asyncio.gather(ending, *tasks, *self._behind, return_exceptions=True)

    def adopt(self, left: Iterable[LeftWork]) -> None:
        """Tell of runs that were found after a crash."""
        self._found.update({found.entry.id: found for found in left})

    def forget_left(self, run_id: str) -> None:
        """A run that was found goes on, or is over: its status says so from now on."""
        self._found = {
            entry_id: left
            for entry_id, left in self._found.items()
            if left.entry.payload.get("run") != run_id
        }


class Late(Generic[T]):
    """What runs work with and an idle engine does not need: it is made when it is first used.

    Args:
        module: imported before it is made, on a thread: other work of the loop cannot wait so long.
        make: makes it.

    Attributes:
        made: ``None`` until then.
    """

    def __init__(self, runs: Registry, module: str, make: Callable[[], T]) -> None:
        self._runs = runs
        self._module = module
        self._make = make
        self.made: T | None = None

    @classmethod
    def of(cls, runs: Registry, made: T) -> Late[T]:
        """One that is there already."""
        late = cls(runs, "", lambda: made)
        late.made = made
        return late

    async def come(self) -> T:
        """It, once it is there.

        Raises:
            Failed: CANCELLED, what it was wanted for was stopped while it was made.
        """
        if self.made is None:
            halts = self._runs.halts
            await asyncio.to_thread(importlib.import_module, self._module)
            if halts != self._runs.halts:
                raise Failed(
                    f"{self._runs.halted_by.sentence} Nothing was sent.",
                    code=ErrorCode.CANCELLED,
                    remedy=ASK_FIRST,
                )
        return self.get()

    def get(self) -> T:
        """The same, at once."""
        if self.made is None:
            self.made = self._make()
        return self.made


class RunsOfKind(Generic[R]):
    """What starts runs of one kind and answers for them; how they live is the registry's."""

    kind: ClassVar[RunKind]

    def __init__(self, runs: Registry) -> None:
        self._runs = runs
        self._bench = runs.bench

    def subscribe(self, listener: Callable[[Any], None]) -> Callable[[], None]:
        """Call ``listener`` on the loop with all news of this kind; returns what ends that."""
        return self._runs.subscribe(self.kind, listener)

    async def stop_run(self, run_id: str, who: str, *, hold: bool) -> Mapping[str, Any]:
        """Stop one, as ``bench__stop_run`` does.

        Raises:
            NotFound: there is no such run.
            Invalid: this kind cannot be held.
        """
        if hold:
            raise Invalid(
                f"{run_id} is a {self.kind}: only a sweep can be held.",
                data={"parameter": "hold"},
                remedy="Stop it without hold.",
            )
        return await self.stop(run_id, who)

    async def stop(self, run_id: str, who: str) -> Mapping[str, Any]:
        """Stop one, as its own tool does; returns that tool's result. Raises NotFound."""
        raise NotImplementedError

    def _going(self) -> list[R]:
        # Mostly nothing runs, and get_status asks every kind.
        if not self._runs.going_runs:
            return []
        return self._runs.under_way(kinds={self.kind})  # type: ignore[return-value] # of this kind

    def _all(self) -> list[R]:
        return self._runs.known(self.kind)  # type: ignore[return-value] # of this kind

    def _get(self, run_id: str) -> R | None:
        return cast("R | None", self._runs.get(self.kind, run_id))
