"""The sweeps that are running, holding or over: starting, stopping, telling.

Each sweep has one task, owned here, which lets its ramp run until it ends or somebody wishes
otherwise, and then does what the state table says. A wish never acts by itself: it goes into the
sweep's queue, so there is one place where a sweep's state changes.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from edged.actions.action import StartSweep
from edged.actions.cause import ENGINE_STOPPED, Cause
from edged.errors import ErrorCode, Failed, NotFound
from edged.instruments.pool import Event as PoolEvent
from edged.instruments.pool import Left
from edged.record import record
from edged.runs.bench import Bench
from edged.runs.left_work import LeftWork as Found
from edged.runs.ports import NewPlan, Recorder, RunNotes
from edged.runs.run_head import RunNow
from edged.runs.states import SWEEP, RunEvent, RunState
from edged.runs.still_on import still_on
from edged.runs.sweeps.conflicts import SweepClaims
from edged.runs.sweeps.life import SweepJournal, SweepLife, SweepStart
from edged.runs.sweeps.ramp import Ramp
from edged.runs.sweeps.ramp_plan import RampPlan
from edged.runs.sweeps.request import Measure, SweepRequest
from edged.runs.sweeps.sweep import Ending, Sweep, SweptThing
from edged.runs.wording import MADE_SAFE, parked_by, stopped_by
from edged.store.journal import JournalKind

MOST_ENDED: Final = 100
"""Sweeps that are over and can still be asked for; the data of all are on the disk."""
SETTLE_S: Final = 0.5
"""What journal and recording of a sweep that has ended may take of the daemon's stop."""
FULL_ROWS_OF: Final = 10
THINNED_TO: Final = 500
"""The newest so many keep all their rows in memory, older ones so many each."""


@record
class SweepChanged:
    """A sweep has begun, or is in another state."""

    sweep_id: str
    told: Mapping[str, Any]


class SweepRegistry:
    """All sweeps.

    Args:
        perform: the command path.
        precheck: the command path's judgement without its effect.
        new_id: makes action ids.
        journal: where an unfinished sweep is found after a crash.
        recorder: where measured rows go.
        clock: for ramps.
        abort_within_s: how long an abort that an instrument did not take is tried again.
        notes: told of each.

    Attributes:
        claims: what they hold.
    """

    def __init__(
        self, bench: Bench, *, recorder: Recorder, notes: RunNotes, new_plan: NewPlan
    ) -> None:
        self._bench = bench
        self._notes = notes
        self._journal = SweepJournal(journal=bench.store.journal)
        ramp = Ramp(bench=bench, note=self._journal.note)
        self._start = SweepStart(
            bench=bench, ramp=ramp, journal=self._journal, recorder=recorder, new_plan=new_plan
        )
        self._life = SweepLife(
            bench=bench,
            ramp=ramp,
            journal=self._journal,
            publish=self._publish,
            let_go=self._let_go,
        )
        # By id in the order of their start; those that are over go out at the front.
        self._sweeps: dict[str, Sweep] = {}
        self.claims = SweepClaims(self._sweeps.get, bench.clock)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        # What a former life of the daemon left; told of, and never run again.
        self._found: dict[str, Found] = {}
        self._listeners: list[Callable[[SweepChanged], None]] = []
        # Counts stops of everything: a sweep that was being prepared meanwhile does not begin.
        self._halts, self._halted_by = 0, ENGINE_STOPPED
        self._is_closing = False

    def subscribe(self, callback: Callable[[SweepChanged], None]) -> Callable[[], None]:
        """Call ``callback`` on the loop at each change of a state; returns how to end that."""
        self._listeners.append(callback)
        return lambda: self._listeners.remove(callback)

    async def start(
        self,
        action: StartSweep,
        thing: SweptThing,
        request: SweepRequest,
        measures: tuple[Measure, ...],
    ) -> dict[str, Any]:
        """Begin a ramp from where the instrument stands; returns at once: {sweep_id, status}.

        Raises:
            Conflict: SWEEP_CONFLICT, another sweep holds this parameter.
            Invalid: a rate over the owner's bound, a stop_when on no column, a first step that
                would break a limit.
            Failed: the set-point cannot be known, or the journal cannot be written.
        """
        sweep_id = f"sweep-{secrets.token_hex(4)}"
        halts = self._halts
        self.claims.take(thing, sweep_id, action.caller.who)
        with contextlib.ExitStack() as undo:
            undo.callback(self.claims.drop, thing, sweep_id)
            undo.callback(self._notes.run_ended, sweep_id)
            self._notes.run_began(sweep_id, thing.instrument.id, action.caller)
            sweep = await self._start.prepare(sweep_id, action, thing, request, measures)
            await self._still_wanted(sweep, halts)
            undo.pop_all()
        self._sweeps[sweep_id] = sweep
        self._tasks[sweep_id] = asyncio.create_task(self._live(sweep), name=sweep_id)
        self._publish(sweep)
        self._retire()
        return {"sweep_id": sweep_id, "status": sweep.status}

    async def forecast(
        self, action: StartSweep, thing: SweptThing, request: SweepRequest
    ) -> tuple[RampPlan, ...]:
        """The ramps that it would make from where the instrument stands, which is read.

        Raises:
            Failed: the set-point cannot be known.
        """
        _, legs = await self._start.plan(action, thing, request, action.action_id)
        return legs

    def read(self, sweep_id: str, points: int) -> dict[str, Any]:
        """State of a sweep, with at most ``points`` rows.

        Raises:
            NotFound: UNKNOWN_SWEEP.
        """
        found = self._found.get(sweep_id)
        if found is not None:
            # Its rows went with the daemon that took them; they are in its recording.
            return {**found.told(), **({"columns": [], "points": []} if points > 0 else {})}
        return self._find(sweep_id).told(self._bench.clock.monotonic(), points)

    async def stop(self, sweep_id: str, who: str, *, hold: bool) -> dict[str, Any]:
        """Park a sweep, or abort it, also one that has come to its target and left that set.

        Of any other that is over: its own status, and nothing is set. So it is where somebody else
        has used the unit since: ``who`` names them. Without ``hold``,
        ``aborted`` says whether the abort ran, and ``still_on`` what is still on if it did not.

        Raises:
            NotFound: UNKNOWN_SWEEP.
        """
        found = self._found.get(sweep_id)
        if found is not None:
            known = {} if hold else {"aborted": False, "still_on": []}
            return {**_short(found.told()), **known}
        sweep = self._find(sweep_id)
        event = RunEvent.PAUSE if hold else RunEvent.STOP
        is_parked = hold and sweep.state is RunState.PAUSED
        was, was_over = sweep.state, sweep.ended.is_set()
        others: list[str] = []
        if not was_over and not is_parked:
            cause = parked_by(who) if hold else stopped_by(who)
            sweep.wishes.put_nowait(Ending.wished(event, cause))
            await (sweep.parked if hold else sweep.ended).wait()
        elif was is RunState.COMPLETED and not hold and sweep.abort.lines:
            others = self._others_since(sweep, who)
            was_over = bool(others)
            if not others:
                self._abort_completed(sweep, Ending.wished(event, stopped_by(who)))
                await sweep.ended.wait()
        told = _short(sweep.told(self._bench.clock.monotonic()))
        if hold:
            return told
        if was is not sweep.state and was is not RunState.RUNNING:
            told["was"] = SWEEP.states[was]
        told["aborted"] = not was_over and sweep.abort.state == "done"
        if was_over or sweep.state is RunState.COMPLETED:
            told["still_on"] = await still_on(self._bench.perform, self._bench.new_id, sweep)
        if others:
            told["who"] = ", ".join(others)
        return told

    def _others_since(self, sweep: Sweep, who: str) -> list[str]:
        """Who else has written to the unit, or sweeps there, since a sweep was over."""
        instrument = sweep.thing.instrument
        over_s = sweep.began + (sweep.ended_s or 0.0)
        others = [one for one in instrument.writers_since(over_s) if one != who]
        return others + [
            other.caller.who
            for other in self._sweeps.values()
            if other.is_active and other.thing.instrument is instrument
        ]

    def _abort_completed(self, sweep: Sweep, ending: Ending) -> None:
        sweep.ended.clear()

        async def live() -> None:
            try:
                await self._life.abort_completed(sweep, ending)
            finally:
                self._let_go(sweep)
                del self._tasks[sweep.sweep_id]

        self._tasks[sweep.sweep_id] = asyncio.create_task(live(), name=sweep.sweep_id)

    def active(self) -> tuple[dict[str, Any], ...]:
        """One entry a sweep that is running, holding, owes an abort or needs attention."""
        now = self._bench.clock.monotonic()
        found = tuple(found.told() for found in self._found.values() if found.needs_attention)
        return found + tuple(
            sweep.told(now)
            for sweep in self._sweeps.values()
            if sweep.is_active or sweep.needs_attention
        )

    def running_on(self, instrument_id: str) -> tuple[str, ...]:
        """Ids of the sweeps that move or measure it now; not of those that are parked."""
        return tuple(
            sweep.sweep_id
            for sweep in self._sweeps.values()
            if sweep.is_active
            and sweep.state is not RunState.PAUSED
            and instrument_id
            in {sweep.thing.instrument.id, *(m.instrument.id for m in sweep.measures)}
        )

    def listed(self) -> tuple[dict[str, Any], ...]:
        """One entry a sweep that is still known, oldest first."""
        now = self._bench.clock.monotonic()
        found = tuple(found.told() for found in self._found.values())
        return found + tuple(sweep.told(now) for sweep in self._sweeps.values())

    def runs(self) -> tuple[RunNow, ...]:
        """Those that are still known, as runs."""
        now = self._bench.clock.monotonic()
        found = tuple(found.as_run() for found in self._found.values())
        return found + tuple(
            RunNow(
                head=sweep.head,
                state=sweep.status,
                started_ms=sweep.began_ms,
                rows=sweep.rows.count,
                reason=sweep.reason,
                error=sweep.error,
                notes=tuple(sweep.notes(now)),
            )
            for sweep in self._sweeps.values()
            if sweep.head is not None
        )

    def adopt(self, left: Iterable[Found]) -> None:
        """Tell of sweeps that were found after a crash."""
        self._found.update(
            {found.entry.id: found for found in left if found.entry.kind is JournalKind.SWEEP}
        )

    def note_safe(
        self, instrument_id: str, values: Mapping[str, object], on_behalf_of: str
    ) -> None:
        """A safe command is on its way: it ends the sweeps of what it touches."""
        for sweep in self._sweeps.values():
            thing = sweep.thing
            if (
                thing.instrument.id == instrument_id
                and not sweep.ended.is_set()
                and sweep.sweep_id != on_behalf_of
                and not thing.is_elsewhere(values)
            ):
                sweep.wishes.put_nowait(Ending.wished(RunEvent.STOP, MADE_SAFE))

    def hear(self, event: PoolEvent) -> None:
        """The pool's news: a sweep on an instrument that has left has failed."""
        if not isinstance(event, Left):
            return
        for sweep in self._sweeps.values():
            if sweep.thing.instrument is event.instrument and not sweep.ended.is_set():
                reason = f"{event.instrument.id} is gone."
                sweep.wishes.put_nowait(Ending(event=RunEvent.FAILURE, error=reason))

    async def note_made_safe(self, instrument_id: str) -> None:
        """An instrument has obeyed its own abort: what its sweeps owed it is done with."""
        for sweep in list(self._sweeps.values()):
            if sweep.thing.instrument.id == instrument_id and sweep.needs_attention:
                sweep.needs_attention = False
                await self._journal.finish(sweep)
                self._publish(sweep)

    # Ends

    async def stop_all(self, cause: Cause, instrument_id: str = "") -> list[dict[str, Any]]:
        """Abort every sweep (of one instrument), at once; returns what became of each."""
        self._halts, self._halted_by = self._halts + 1, cause
        return await self._end_all(RunEvent.STOP, cause, instrument_id)

    async def fail_all(self, cause: Cause, error: str, instrument_id: str) -> list[dict[str, Any]]:
        """It is not as it was: every sweep of an instrument fails, and is aborted."""
        return await self._end_all(RunEvent.FAILURE, cause, instrument_id, error)

    async def close(self, within_s: float) -> None:
        """The daemon stops: abort what runs; what an instrument does not take stays journalled."""
        self._is_closing = True
        self._halts, self._halted_by = self._halts + 1, ENGINE_STOPPED
        ending = asyncio.ensure_future(self._end_all(RunEvent.SHUTDOWN, ENGINE_STOPPED))
        await asyncio.wait({ending}, timeout=within_s)
        settling = [
            task for sweep_id, task in self._tasks.items() if not self._sweeps[sweep_id].owes_abort
        ]
        if settling:
            await asyncio.wait(settling, timeout=SETTLE_S)
        tasks = [ending, *self._tasks.values()]
        for task in tasks:
            task.cancel(ENGINE_STOPPED)
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _end_all(
        self, event: RunEvent, cause: Cause, instrument_id: str = "", error: str = ""
    ) -> list[dict[str, Any]]:
        ending = [
            sweep
            for sweep in self._sweeps.values()
            if not sweep.ended.is_set() and instrument_id in ("", sweep.thing.instrument.id)
        ]
        for sweep in ending:
            sweep.wishes.put_nowait(Ending.wished(event, cause, error))
        for sweep in ending:
            await sweep.ended.wait()
        now = self._bench.clock.monotonic()
        return [sweep.told(now) for sweep in ending]

    # Small things

    async def _still_wanted(self, sweep: Sweep, halts: int) -> None:
        """Raises if everything was stopped while the sweep was being prepared."""
        if halts == self._halts and not self._is_closing:
            return
        await self._journal.finish(sweep)
        if sweep.sink is not None:
            await sweep.sink.close("failed")
        raise Failed(
            f"The sweep was ended {self._halted_by.clause} while it was about to begin; nothing "
            "was set.",
            code=ErrorCode.CANCELLED,
            remedy="It was stopped to make the bench safe: ask before you start again.",
        )

    async def _live(self, sweep: Sweep) -> None:
        try:
            await self._life.live(sweep)
        finally:
            self._let_go(sweep)
            del self._tasks[sweep.sweep_id]

    def _let_go(self, sweep: Sweep) -> None:
        self.claims.drop(sweep.thing, sweep.sweep_id)
        self._notes.run_ended(sweep.sweep_id)

    def _find(self, sweep_id: str) -> Sweep:
        sweep = self._sweeps.get(sweep_id)
        if sweep is None:
            known = ", ".join(list(self._sweeps)[-5:]) or "none"
            raise NotFound(
                f"There is no sweep {sweep_id[:64]!r}. The last ones are: {known}.",
                code=ErrorCode.UNKNOWN_SWEEP,
                data={"sweep_id": sweep_id[:64]},
                remedy="get_status lists the sweeps that run; bench__runs has the data of all.",
            )
        return sweep

    def _publish(self, sweep: Sweep) -> None:
        told = sweep.told(self._bench.clock.monotonic())
        for listener in tuple(self._listeners):
            listener(SweepChanged(sweep_id=sweep.sweep_id, told=told))

    def _retire(self) -> None:
        """Forget the oldest that are over, and thin the rows of those that are not so new."""
        # What is still being written down of one that is over is its task's.
        over = [
            sweep
            for sweep_id, sweep in self._sweeps.items()
            if sweep.ended.is_set() and not sweep.is_active and sweep_id not in self._tasks
        ]
        for sweep in over[: max(0, len(over) - MOST_ENDED)]:
            if not sweep.needs_attention:
                del self._sweeps[sweep.sweep_id]
        for sweep in over[: max(0, len(over) - FULL_ROWS_OF)]:
            sweep.rows.thin(THINNED_TO)


def _short(told: Mapping[str, Any]) -> dict[str, Any]:
    """stop_sweep's result."""
    return {name: told[name] for name in ("sweep_id", "status", "current_value", "reason", "error")}
