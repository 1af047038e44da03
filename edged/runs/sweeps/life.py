"""The life of one sweep: its ramp, its rest, its end, and the abort that it may owe.

What is wished is done here, by the sweep's own task: there is one place where a sweep's state
changes. Which state follows is the table's to say (``states.py``).

The beginning of a sweep: from what was asked to a sweep that may take its first step.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence, Set
from itertools import pairwise
from typing import Final

import structlog

from edged.actions.action import Purpose, RunCommand, SendLines, StartSweep
from edged.errors import Invalid
from edged.record import record
from edged.runs.bench import Bench
from edged.runs.journal import HEARTBEAT_S
from edged.runs.ports import NewPlan
from edged.runs.registry import Registry
from edged.runs.run import AbortReport, Ending
from edged.runs.run_head import Column, RunHead, RunKind
from edged.runs.states import RunEvent
from edged.runs.sweeps.ramp import Ramp
from edged.runs.sweeps.ramp_plan import (
    Axis,
    RampPlan,
    SweptThing,
    next_step,
    steps_left,
)
from edged.runs.sweeps.request import Measure, MeasuredColumn, SweepRequest, readings_of
from edged.runs.sweeps.sweep import Sweep, SweepRows
from edged.schema.fields import nearest

LOOK_S: Final = 1.0
"""What a last look at the instrument may delay the word that a sweep holds."""
LONGEST_REST_S: Final = 10.0
"""What the output's time to follow may delay that word besides; nothing is written meanwhile."""
LOOK_EVERY_S: Final = 2.0
"""How soon a parked sweep notices that its instrument was switched off and on."""

log = structlog.get_logger("edged.sweeps")


@record
class SweepLife:
    """What every sweep's task works with.

    Attributes:
        publish: tells that a sweep is in another state.
        let_go: tells that nothing more is sent for a sweep; told more than once.
    """

    runs: Registry
    ramp: Ramp
    publish: Callable[[Sweep], None]
    let_go: Callable[[Sweep], None]

    @property
    def bench(self) -> Bench:
        """What the registry shares."""
        return self.runs.bench

    async def live(self, sweep: Sweep) -> None:
        """From the first step to the last word. The top of the sweep's task."""
        try:
            ending = await sweep.until_ended(self.ramp.run(sweep))
            if ending.event is RunEvent.PAUSE:
                self._move(sweep, ending)
                ending = await sweep.until_ended(self._park(sweep))
            await self._end(sweep, ending)
        finally:
            sweep.parked.set()
            self._be_over(sweep)

    async def abort_completed(self, sweep: Sweep, ending: Ending) -> None:
        """Make safe what a sweep that came to its target has left on. The top of a task."""
        try:
            await self._end(sweep, ending)
        finally:
            self._be_over(sweep)

    async def _park(self, sweep: Sweep) -> Ending:
        """Stay where it is until somebody wishes otherwise; the journal hears that it lives."""
        look = asyncio.create_task(self.ramp.look_back(sweep), name=f"{sweep.run_id}-look")
        try:
            within_s = min(self.ramp.rest_s(sweep), LONGEST_REST_S) + LOOK_S
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
            now = self.bench.clock.monotonic()
            if now - told_at >= HEARTBEAT_S:
                told_at = now
                await self.ramp.beat(sweep)
            if reason := await self.ramp.why_strayed(sweep):
                return Ending(event=RunEvent.FAILURE, error=reason)
            await self.bench.clock.sleep(LOOK_EVERY_S)

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
        error = " ".join((await self.runs.abort(sweep)).values())
        if ending.event is not RunEvent.FAILURE:
            self._move(sweep, ending, abort_error=error)
        elif error:
            sweep.error = f"{sweep.error} Its abort failed too: {error}"
        self._be_over(sweep)
        if error:
            await self.runs.abort_later(sweep)
            self.publish(sweep)
        await self._settle(sweep)

    def _be_over(self, sweep: Sweep) -> None:
        """In one breath with its state: who reads that it has ended may take its unit."""
        sweep.ended.set()
        if not sweep.is_active:
            self.let_go(sweep)

    async def _settle(self, sweep: Sweep) -> None:
        """Its last words: journal and recording."""
        sweep.parked.set()
        self._be_over(sweep)
        await self.runs.journal.finish(sweep)
        if sweep.sink is not None:
            told = sweep.told(self.bench.clock.monotonic())
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
            sweep.ended_s = self.bench.clock.monotonic() - sweep.began
        log.info("sweep_state", sweep_id=sweep.run_id, state=sweep.status, error=sweep.error)
        self.publish(sweep)


@record
class SweepStart:
    """What the beginning of every sweep works with."""

    runs: Registry
    ramp: Ramp
    new_plan: NewPlan

    @property
    def bench(self) -> Bench:
        """What the registry shares."""
        return self.runs.bench

    async def prepare(
        self,
        sweep_id: str,
        action: StartSweep,
        thing: SweptThing,
        request: SweepRequest,
        measures: tuple[Measure, ...],
    ) -> Sweep:
        """Everything that must hold before the first step; it is in the journal when this returns.

        Raises:
            EdgedError: what does not hold; nothing but a question has been sent.
        """
        readings, columns = check_request(thing, request, measures)
        caller = action.caller.nested(
            tool=action.tool, scope=thing.command.name, on_behalf_of=sweep_id
        )
        # Before it is asked: if asking opens the line, the first step asks once more.
        meeting = thing.instrument.meeting
        plan, legs = await self.plan(action, thing, request, sweep_id)
        now = self.bench.clock.monotonic()
        sweep = Sweep(
            head=_head(sweep_id, action, thing, request, measures, legs, columns),
            action=action,
            caller=caller,
            axis=Axis(
                thing=thing,
                confirmed=plan.start,
                aim=plan.start,
                written_at=now,
                meeting=meeting,
                grid=plan.resolution,
            ),
            request=request,
            plan=plan,
            legs=legs,
            measures=measures,
            readings=readings,
            rows=SweepRows(columns),
            began=now,
            started_ms=self.bench.clock.wall_ms(),
        )
        sweep.aborts[thing.instrument.id] = AbortReport(
            lines=tuple(step.send for step in thing.abort_steps()),
            proofs=thing.abort_proofs(),
            row=sweep_id,
        )
        firsts = (next_step(leg, leg.start) for leg in legs)
        if (first := next((value for value in firsts if value is not None), None)) is not None:
            step = self.ramp.mover(sweep).action(sweep.axis, first, plan.rate_per_s)
            self._plan_steps(step, self.bench.precheck(step), legs)
        sweep.sink = await self.runs.recorder.open(sweep.head)
        async with contextlib.AsyncExitStack() as undo:
            undo.push_async_callback(_close_sink, sweep)
            await self.runs.journal.begin(sweep, thing.instrument, sweep.to_journal())
            undo.pop_all()
        return sweep

    def _plan_steps(
        self, step: RunCommand, lines: tuple[str, ...], legs: Sequence[RampPlan]
    ) -> None:
        """Raise Refused where all its steps are more than its owner allows."""
        plan, at_s = self.new_plan(), 0.0
        for leg in legs:
            count, every_s = steps_left(leg, leg.start), leg.interval_s
            plan.add(step, lines, at_s, count=count, every_s=every_s)
            at_s += count * every_s

    async def plan(
        self, action: StartSweep, thing: SweptThing, request: SweepRequest, run_id: str
    ) -> tuple[RampPlan, tuple[RampPlan, ...]]:
        """The ramp from where the instrument stands, and the same from one reading to the next."""
        start = await self._ask_setpoint(action, thing, run_id)
        plan = thing.ramp(start, request.target_value, request.rate_per_s)
        return plan, _legs(plan, thing, request)

    async def _ask_setpoint(self, action: StartSweep, thing: SweptThing, sweep_id: str) -> float:
        """What the instrument holds as set, asked after everything that waits there already."""
        outcome = await self.bench.perform(
            SendLines(
                tool=action.tool,
                caller=action.caller.nested(
                    tool=action.tool, scope=thing.command.name, on_behalf_of=sweep_id
                ),
                action_id=self.bench.new_id(),
                parent_id=action.action_id,
                instrument_id=thing.instrument.id,
                lines=(thing.setpoint_query,),
                purpose=Purpose.CALL,
            )
        )
        if outcome.error is not None:
            raise outcome.error
        return thing.held_in(str(outcome.data["answer"] or ""))


def _head(
    sweep_id: str,
    action: StartSweep,
    thing: SweptThing,
    request: SweepRequest,
    measures: tuple[Measure, ...],
    legs: tuple[RampPlan, ...],
    columns: list[tuple[str, str]],
) -> RunHead:
    return RunHead(
        kind=RunKind.SWEEP,
        run_id=sweep_id,
        instrument_id=thing.instrument.id,
        command_name=thing.command.name,
        columns=tuple(Column(name=name, unit=unit) for name, unit in columns),
        caller=action.caller,
        parameters=dict(thing.values),
        measures=tuple(dict.fromkeys(m.instrument.id for m in measures)),
        is_measured=bool(measures),
        details={
            "start_value": legs[0].start,
            "target_value": legs[-1].target,
            "sweep_rate": legs[0].rate_per_s,
            "settle_ms": request.settle_s * 1000,
            "dwell_ms": request.dwell_s * 1000,
            "points": len(legs) + 1 if request.points else None,
            "measure": [
                {
                    "instrument_id": m.instrument.id,
                    "command_name": m.command.name,
                    "parameters": dict(m.parameters),
                }
                for m in measures
            ],
        },
    )


def _legs(plan: RampPlan, thing: SweptThing, request: SweepRequest) -> tuple[RampPlan, ...]:
    """The ramps from one set-point to the next; each on the finest grid that holds for it."""
    if request.points is None:
        return (plan,)
    stops = request.points.between(plan.start, plan.target)
    return tuple(thing.ramp(*ends, request.rate_per_s) for ends in pairwise(stops))


def check_request(
    thing: SweptThing, request: SweepRequest, measures: tuple[Measure, ...]
) -> tuple[tuple[tuple[MeasuredColumn, ...], ...], list[tuple[str, str]]]:
    """What can be judged of a sweep before anything is asked.

    Returns:
        The columns of each measure; and (name, unit) of every column.

    Raises:
        Invalid: a rate over the owner's bound, a stop_when on no column.
    """
    _check_rate(thing, request)
    readings = readings_of(measures)
    columns = [("t", "s"), ("set", thing.parameter.unit)]
    columns += [(r.name, r.unit) for group in readings for r in group]
    texts = {r.name for group in readings for r in group if not r.is_number}
    _check_column(request, [name for name, _ in columns], texts)
    return readings, columns


def _check_rate(thing: SweptThing, request: SweepRequest) -> None:
    fastest = thing.fastest
    if fastest is not None and request.rate_per_s > fastest:
        unit = f"{thing.parameter.unit or 'units'}/s"
        raise Invalid(
            f"sweep_rate {request.rate_per_s:g} {unit} is over the maximum {fastest:g} {unit} that "
            f"the owner set for {thing.command.name} of {thing.instrument.called}.",
            data={"parameter": "sweep_rate", "value": request.rate_per_s, "bound": fastest},
            remedy="Ask for a slower sweep.",
        )


def _check_column(request: SweepRequest, names: list[str], texts: Set[str]) -> None:
    wish = request.stop_when
    if wish is not None and wish.column not in names:
        raise Invalid(
            f"stop_when.column {wish.column!r} is none of this sweep's columns: "
            f"{', '.join(names)}.",
            data={"parameter": "stop_when.column", "value": wish.column, "columns": names},
            remedy=nearest(wish.column, names),
        )
    if wish is not None and wish.column in texts:
        raise Invalid(
            f"stop_when.column {wish.column!r} is not a number, so it cannot be compared.",
            data={"parameter": "stop_when.column", "value": wish.column},
        )


async def _close_sink(sweep: Sweep) -> None:
    if sweep.sink is not None:
        await asyncio.shield(sweep.sink.close("failed"))
