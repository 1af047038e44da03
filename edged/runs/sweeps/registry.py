"""Sweeps: starting, stopping, telling; the life of each: its ramp, its rest, its end, its abort.

Each sweep has one task, owned by the registry, which lets its ramp run until it ends or somebody
wishes otherwise, and then does what the state table says (``states.py``). A wish never acts by
itself, so there is one place where a sweep's state changes.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Mapping
from typing import Any, Final, cast

import structlog

from edged.actions.action import Purpose, StartSweep
from edged.actions.cause import Cause
from edged.errors import ErrorCode, Failed, NotFound
from edged.instruments.pool import Event as PoolEvent
from edged.instruments.pool import Left
from edged.profiles.abort import Proof, asked_about, proofs_of, switch_proofs
from edged.record import record
from edged.runs.journal import HEARTBEAT_S
from edged.runs.ports import NewId, NewPlan, Perform
from edged.runs.registry import Registry, RunsOfKind
from edged.runs.run import Ending
from edged.runs.run_head import RunKind
from edged.runs.states import SWEEP, RunEvent, RunState
from edged.runs.sweeps.beginning import SweepStart
from edged.runs.sweeps.conflicts import SweepClaims
from edged.runs.sweeps.ramp import Ramp
from edged.runs.sweeps.ramp_plan import RampPlan, SweptThing
from edged.runs.sweeps.request import Measure, SweepRequest
from edged.runs.sweeps.sweep import Sweep
from edged.runs.wording import MADE_SAFE, parked_by, stopped_by
from edged.scpi.answer_text import clean_text

MOST_ENDED: Final = Sweep.most_ended


LOOK_S: Final = 1.0
"""What a last look at the instrument may delay the word that a sweep holds."""
LONGEST_REST_S: Final = 10.0
"""What the output's time to follow may delay that word besides; nothing is written meanwhile."""
LOOK_EVERY_S: Final = 2.0
"""How soon a parked sweep notices that its instrument was switched off and on."""
ASK_WITHIN_S: Final = 2.0
"""What asking may delay the answer of a stop that had nothing to stop."""

log = structlog.get_logger("edged.sweeps")


@record
class SweepChanged:
    """A sweep has begun, or is in another state."""

    sweep_id: str
    told: Mapping[str, Any]


class Sweeps(RunsOfKind[Sweep]):
    """What starts sweeps, tells of them and stops them.

    Args:
        new_plan: judges all steps of a sweep before its first.

    Attributes:
        claims: what they hold.
    """

    kind = RunKind.SWEEP

    def __init__(self, runs: Registry, *, new_plan: NewPlan) -> None:
        super().__init__(runs)
        self._ramp = Ramp(bench=runs.bench, journal=runs.journal)
        self._start = SweepStart(runs=runs, ramp=self._ramp, new_plan=new_plan)
        self.claims = SweepClaims(self._get, runs.bench.clock)

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
        halts = self._runs.halts
        self.claims.take(thing, sweep_id, action.caller.who)
        with contextlib.ExitStack() as undo:
            undo.callback(self.claims.drop, thing, sweep_id)
            undo.callback(self._runs.notes.run_ended, sweep_id)
            self._runs.notes.run_began(sweep_id, thing.instrument.id, action.caller)
            sweep = await self._start.prepare(sweep_id, action, thing, request, measures)
            await self._still_wanted(sweep, halts)
            undo.pop_all()
        self._runs.live(sweep, self._live(sweep))
        self._publish(sweep)
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
        found = self._runs.left_of(self.kind, sweep_id)
        if found is not None:
            # Its rows went with the daemon that took them; they are in its recording.
            return {**found.told(), **({"columns": [], "points": []} if points > 0 else {})}
        return self._find(sweep_id).told(self._bench.clock.monotonic(), points)

    async def stop(self, run_id: str, who: str, *, hold: bool = False) -> dict[str, Any]:
        """Park a sweep, or abort it, also one that has come to its target and left that set.

        Of any other that is over: its own status, and nothing is set. So it is where somebody else
        has used the unit since: ``who`` names them. Without ``hold``,
        ``aborted`` says whether the abort ran, and ``still_on`` what is still on if it did not.

        Raises:
            NotFound: UNKNOWN_SWEEP.
        """
        found = self._runs.left_of(self.kind, run_id)
        if found is not None:
            known = {} if hold else {"aborted": False, "still_on": []}
            return {**_short(found.told()), **known}
        sweep = self._find(run_id)
        event = RunEvent.PAUSE if hold else RunEvent.STOP
        is_parked = hold and sweep.state is RunState.PAUSED
        was, was_over = sweep.state, sweep.ended.is_set()
        others: list[str] = []
        if not was_over and not is_parked:
            cause = parked_by(who) if hold else stopped_by(who)
            sweep.end(Ending.wished(event, cause))
            await (sweep.parked if hold else sweep.ended).wait()
        elif was is RunState.COMPLETED and not hold and sweep.abort.lines:
            others = self._others_since(sweep, who)
            was_over = bool(others)
            if not others:
                sweep.ended.clear()
                ending = Ending.wished(event, stopped_by(who))
                self._runs.live(sweep, self._live(sweep, ending))
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

    async def stop_run(self, run_id: str, who: str, *, hold: bool) -> Mapping[str, Any]:
        return await self.stop(run_id, who, hold=hold)

    def _others_since(self, sweep: Sweep, who: str) -> list[str]:
        """Who else has written to the unit, or sweeps there, since a sweep was over."""
        instrument = sweep.thing.instrument
        over_s = sweep.began + (sweep.ended_s or 0.0)
        others = [one for one in instrument.writers_since(over_s) if one != who]
        return others + [
            other.caller.who
            for other in self._all()
            if other.is_active and other.thing.instrument is instrument
        ]

    def active(self) -> tuple[dict[str, Any], ...]:
        """One entry a sweep that is running, holding, owes an abort or needs attention."""
        sweeps, left = self._all(), self._runs.found(self.kind)
        if not sweeps and not left:
            return ()
        now = self._bench.clock.monotonic()
        found = (f.told() for f in left if f.needs_attention)
        shown = (sweep for sweep in sweeps if sweep.is_active or sweep.needs_attention)
        return (*found, *(sweep.told(now) for sweep in shown))

    def running_on(self, instrument_id: str) -> tuple[str, ...]:
        """Ids of the sweeps that move or measure it now; not of those that are parked."""
        return tuple(
            sweep.run_id
            for sweep in self._all()
            if sweep.is_active
            and sweep.state is not RunState.PAUSED
            and instrument_id
            in {sweep.thing.instrument.id, *(m.instrument.id for m in sweep.measures)}
        )

    def listed(self) -> tuple[dict[str, Any], ...]:
        """One entry a sweep that is still known, oldest first."""
        now = self._bench.clock.monotonic()
        found = (found.told() for found in self._runs.found(self.kind))
        return (*found, *(sweep.told(now) for sweep in self._all()))

    def note_safe(
        self, instrument_id: str, values: Mapping[str, object], on_behalf_of: str
    ) -> None:
        """A safe command is on its way: it ends the sweeps of what it touches."""
        for sweep in self._going():
            thing = sweep.thing
            if (
                thing.instrument.id == instrument_id
                and sweep.run_id != on_behalf_of
                and not thing.is_elsewhere(values)
            ):
                sweep.end(Ending.wished(RunEvent.STOP, MADE_SAFE))

    def hear(self, event: PoolEvent) -> None:
        """The pool's news: a sweep on an instrument that has left has failed."""
        if not isinstance(event, Left):
            return
        for sweep in self._going():
            if sweep.thing.instrument is event.instrument:
                reason = f"{event.instrument.id} is gone."
                sweep.end(Ending(event=RunEvent.FAILURE, error=reason))

    async def note_made_safe(self, instrument_id: str) -> None:
        """An instrument has obeyed its own abort: what runs owed it is done with."""
        for run in await self._runs.note_made_safe(instrument_id):
            if isinstance(run, Sweep):
                self._publish(run)

    async def stop_all(self, cause: Cause, instrument_id: str = "") -> list[dict[str, Any]]:
        """Abort every sweep (of one instrument), at once; returns what became of each."""
        is_meant = instrument_id.__eq__ if instrument_id else None
        ended = await self._runs.stop_all(cause, is_meant, kinds={self.kind})
        now = self._bench.clock.monotonic()
        return [sweep.told(now) for sweep in cast("list[Sweep]", ended)]

    # The life of one

    async def _live(self, sweep: Sweep, ending: Ending | None = None) -> None:
        """From the first step to the last word. The top of the sweep's task.

        Args:
            ending: of one that came to its target: what it has left on is made safe.
        """
        try:
            if ending is None:
                ending = await sweep.until_ended(self._ramp.run(sweep))
            if ending.event is RunEvent.PAUSE:
                self._move(sweep, ending)
                ending = await sweep.until_ended(self._park(sweep))
            await self._end(sweep, ending)
        finally:
            sweep.parked.set()
            self._let_go(sweep)

    async def _park(self, sweep: Sweep) -> Ending:
        """Stay where it is until somebody wishes otherwise; the journal hears that it lives."""
        look = asyncio.create_task(self._ramp.look_back(sweep), name=f"{sweep.run_id}-look")
        try:
            within_s = min(self._ramp.rest_s(sweep), LONGEST_REST_S) + LOOK_S
            await asyncio.wait({look}, timeout=within_s)
            sweep.parked.set()
            return await self._strayed(sweep)
        finally:
            look.cancel()
            await asyncio.gather(look, return_exceptions=True)

    async def _strayed(self, sweep: Sweep) -> Ending:
        """Once it no longer stands where it was parked; the journal hears that it lives."""
        told_at = float("-inf")
        while True:
            now = self._bench.clock.monotonic()
            if now - told_at >= HEARTBEAT_S:
                told_at = now
                await self._ramp.beat(sweep)
            if reason := await self._ramp.why_strayed(sweep):
                return Ending(event=RunEvent.FAILURE, error=reason)
            await self._bench.clock.sleep(LOOK_EVERY_S)

    async def _end(self, sweep: Sweep, ending: Ending) -> None:
        """Abort where the table wants it, and stay with an abort that the line did not take."""
        needs_abort = ending.event is not RunEvent.DONE
        if not needs_abort or not sweep.abort.lines:
            self._move(sweep, ending)
            await self._settle(sweep)
            return
        sweep.abort.state = "pending"
        if ending.event is RunEvent.FAILURE:
            # It has failed whatever comes of the abort; nobody has to wait for that to know.
            self._move(sweep, ending)
        sweep.abort.cause = ending.cause
        error = " ".join((await self._runs.abort(sweep)).values())
        if ending.event is not RunEvent.FAILURE:
            self._move(sweep, ending, abort_error=error)
        elif error:
            sweep.error = f"{sweep.error} Its abort failed too: {error}"
        self._be_over(sweep)
        if error:
            await self._runs.abort_later(sweep)
            self._publish(sweep)
        await self._settle(sweep)

    def _be_over(self, sweep: Sweep) -> None:
        """In one breath with its state: who reads that it has ended may take its unit."""
        sweep.ended.set()
        if not sweep.is_active:
            self._let_go(sweep)

    async def _settle(self, sweep: Sweep) -> None:
        """Its last words: journal and recording."""
        sweep.parked.set()
        self._be_over(sweep)
        await self._runs.journal.finish(sweep)
        if sweep.sink is not None:
            told = sweep.told(self._bench.clock.monotonic())
            summary = {
                name: told[name]
                for name in ("current_value", "reason", "error", "notes", "behind_s")
            }
            await sweep.sink.close(sweep.status, summary)

    def _move(self, sweep: Sweep, ending: Ending, abort_error: str = "") -> None:
        """To the state that the table says, and tell of it."""
        sweep.move(ending.event, is_clean_up_failed=bool(abort_error))
        sweep.reason = ending.reason
        if ending.event is RunEvent.DONE:
            sweep.error = ""
        elif ending.error:
            sweep.error = ending.error
        if abort_error:
            sweep.error = f"{sweep.error} Its abort failed: {abort_error}".strip()
        if sweep.ended_s is None:
            sweep.ended_s = self._bench.clock.monotonic() - sweep.began
        log.info("sweep_state", sweep_id=sweep.run_id, state=sweep.status, error=sweep.error)
        self._publish(sweep)

    # Small things

    async def _still_wanted(self, sweep: Sweep, halts: int) -> None:
        """Raises if everything was stopped while the sweep was being prepared."""
        try:
            self._runs.refuse_halted(halts, "The sweep", "set")
        except Failed:
            await self._runs.journal.finish(sweep)
            if sweep.sink is not None:
                await sweep.sink.close("failed")
            raise

    def _let_go(self, sweep: Sweep) -> None:
        self.claims.drop(sweep.thing, sweep.run_id)
        self._runs.let_go(sweep)

    def _find(self, sweep_id: str) -> Sweep:
        sweep = self._get(sweep_id)
        if sweep is None:
            known = ", ".join([one.run_id for one in self._all()][-5:]) or "none"
            raise NotFound(
                f"There is no sweep {sweep_id[:64]!r}. The last ones are: {known}.",
                code=ErrorCode.UNKNOWN_SWEEP,
                data={"sweep_id": sweep_id[:64]},
                remedy="get_status lists the sweeps that run; bench__runs has the data of all.",
            )
        return sweep

    def _publish(self, sweep: Sweep) -> None:
        told = sweep.told(self._bench.clock.monotonic())
        self._runs.publish(self.kind, SweepChanged(sweep_id=sweep.run_id, told=told))


def _short(told: Mapping[str, Any]) -> dict[str, Any]:
    """stop_sweep's result."""
    return {name: told[name] for name in ("sweep_id", "status", "current_value", "reason", "error")}


async def still_on(perform: Perform, new_id: NewId, sweep: Sweep) -> list[dict[str, Any]]:
    """One {name, query, answer} for each output that the instrument does not call off.

    Asked of the instrument, since the end of such a sweep sent nothing. The questions are those by
    which its abort would be proved; where it works a switch, a level that was left set says
    nothing. What cannot be asked, or does not answer in time, is not in the list.
    """
    found: list[dict[str, Any]] = []

    async def ask() -> None:
        for proof in _questions(sweep):
            outcome = await perform(sweep.lines(new_id(), proof.question, Purpose.MEASURE))
            answer = outcome.data["answer"] if outcome.error is None else None
            if answer and not proof.is_given_by(answer):
                told = {"query": proof.asked, "answer": clean_text(answer)}
                found.append({"name": asked_about(proof), **told})

    asking = asyncio.ensure_future(ask())
    try:
        done, _ = await asyncio.wait({asking}, timeout=ASK_WITHIN_S)
        for over in done:
            over.result()
    finally:
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
    return found


def _questions(sweep: Sweep) -> tuple[Proof, ...]:
    """What proves the sweep's own abort, else the profile's."""
    profile = sweep.thing.profile
    if profile is None:
        return ()
    steps, proofs = sweep.thing.abort_steps(), sweep.abort.proofs
    if not proofs:
        steps, proofs = profile.abort, proofs_of(profile, profile.abort)
    return switch_proofs(steps, proofs)
