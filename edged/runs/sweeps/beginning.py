"""The beginning of a sweep: from what was asked to a sweep that may take its first step."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence, Set
from itertools import pairwise

from edged.actions.action import Purpose, RunCommand, SendLines, StartSweep
from edged.actions.caller import Caller
from edged.errors import Invalid
from edged.record import record
from edged.runs.bench import Bench
from edged.runs.moving import taken
from edged.runs.ports import NewPlan
from edged.runs.registry import Registry
from edged.runs.run import AbortReport
from edged.runs.run_head import Column, RunHead, RunKind
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
        # Before it is asked: if asking opens the line, the first step asks once more.
        meeting = thing.instrument.meeting
        plan, legs = await self.plan(action, thing, request, sweep_id)
        now = self.bench.clock.monotonic()
        sweep = Sweep(
            head=_head(sweep_id, action, thing, request, measures, legs, columns),
            action=action,
            caller=nested(action, thing, sweep_id),
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
        asked = SendLines(
            tool=action.tool,
            caller=nested(action, thing, run_id),
            action_id=self.bench.new_id(),
            parent_id=action.action_id,
            instrument_id=thing.instrument.id,
            lines=(thing.setpoint_query,),
            purpose=Purpose.CALL,
        )
        # It is asked after everything that waits there already.
        outcome = taken(await self.bench.perform(asked))
        start = thing.held_in(str(outcome.data["answer"] or ""))
        plan = thing.ramp(start, request.target_value, request.rate_per_s)
        return plan, _legs(plan, thing, request)


def nested(action: StartSweep, thing: SweptThing, run_id: str) -> Caller:
    """Who performs the steps of a sweep."""
    return action.caller.nested(tool=action.tool, scope=thing.command.name, on_behalf_of=run_id)


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
