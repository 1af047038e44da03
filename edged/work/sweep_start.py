"""The beginning of a sweep: from what was asked to a sweep that may take its first step."""

from __future__ import annotations

import asyncio
from collections.abc import Set
from dataclasses import dataclass

from edged.actions.action import Purpose, SendLines, StartSweep
from edged.clock import Clock
from edged.errors import Invalid
from edged.work.plan import RampPlan, make_plan, next_step
from edged.work.ports import NewId, Perform, Precheck, Recorder, RowSink
from edged.work.run_head import Column, RunHead, RunKind
from edged.work.sweep import Sweep, SweptThing
from edged.work.sweep_journal import SweepJournal
from edged.work.sweep_ramp import Ramp
from edged.work.sweep_reach import grid_of, setpoint_from
from edged.work.sweep_request import Measure, SweepRequest, readings_of
from edged.work.sweep_rows import SweepRows

__all__ = ["SweepStart"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepStart:
    """What the beginning of every sweep works with."""

    ramp: Ramp
    journal: SweepJournal
    recorder: Recorder
    perform: Perform
    precheck: Precheck
    new_id: NewId
    clock: Clock

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
        _check_rate(thing, request)
        readings = readings_of(measures)
        parameter = thing.parameter
        columns = [("t", "s"), ("set", parameter.unit)]
        columns += [(r.name, r.unit) for group in readings for r in group]
        texts = {r.name for group in readings for r in group if not r.is_number}
        _check_column(request, [name for name, _ in columns], texts)
        caller = action.caller.nested(
            tool=action.tool, scope=thing.command.name, on_behalf_of=sweep_id
        )
        # Before it is asked: if asking opens the line, the first step asks once more.
        meeting = thing.instrument.meeting
        plan = await self._plan(action, thing, request, sweep_id)
        now = self.clock.monotonic()
        sweep = Sweep(
            sweep_id=sweep_id,
            action=action,
            caller=caller,
            thing=thing,
            request=request,
            plan=plan,
            measures=measures,
            readings=readings,
            rows=SweepRows(columns),
            began=now,
            began_ms=self.clock.wall_ms(),
            confirmed=plan.start,
            written_at=now,
            meeting=meeting,
        )
        sweep.abort.lines = tuple(step.send for step in thing.abort_steps())
        sweep.abort.proofs = thing.abort_proofs()
        if (first := next_step(plan, plan.start)) is not None:
            self.precheck(self.ramp.step(sweep, first))
        sweep.sink = await self._open_sink(sweep) if measures else None
        try:
            await self.journal.begin(sweep)
        except BaseException:
            if sweep.sink is not None:
                await asyncio.shield(sweep.sink.close("failed"))
            raise
        return sweep

    async def _plan(
        self, action: StartSweep, thing: SweptThing, request: SweepRequest, sweep_id: str
    ) -> RampPlan:
        """The ramp from where the instrument stands."""
        start = await self._ask_setpoint(action, thing, sweep_id)
        return make_plan(
            start=start,
            target=request.target_value,
            rate_per_s=request.rate_per_s,
            interval_s=thing.plan.interval_ms / 1000,
            resolution=grid_of(
                thing.command, thing.plan.parameter, start=start, target=request.target_value
            ),
        )

    async def _ask_setpoint(self, action: StartSweep, thing: SweptThing, sweep_id: str) -> float:
        """What the instrument holds as set, asked after everything that waits there already."""
        query = thing.setpoint_query
        outcome = await self.perform(
            SendLines(
                tool=action.tool,
                caller=action.caller.nested(
                    tool=action.tool, scope=thing.command.name, on_behalf_of=sweep_id
                ),
                action_id=self.new_id(),
                parent_id=action.action_id,
                instrument_id=thing.instrument.id,
                lines=(query,),
                purpose=Purpose.CALL,
            )
        )
        if outcome.error is not None:
            raise outcome.error
        answer = str(outcome.data["answer"] or "")
        return setpoint_from(answer, thing.parameter.unit, query, thing.plan.pattern)

    async def _open_sink(self, sweep: Sweep) -> RowSink:
        thing = sweep.thing
        return await self.recorder.open(
            RunHead(
                kind=RunKind.SWEEP,
                run_id=sweep.sweep_id,
                instrument_id=thing.instrument.id,
                command_name=thing.command.name,
                columns=tuple(Column(name=name, unit=unit) for name, unit in sweep.rows.columns),
                caller=sweep.action.caller,
                parameters=dict(thing.values),
                measures=tuple(dict.fromkeys(m.instrument.id for m in sweep.measures)),
                details={
                    "start_value": sweep.plan.start,
                    "target_value": sweep.plan.target,
                    "sweep_rate": sweep.plan.rate_per_s,
                    "settle_ms": sweep.request.settle_s * 1000,
                    "measure": [
                        {
                            "instrument_id": m.instrument.id,
                            "command_name": m.command.name,
                            "parameters": dict(m.parameters),
                        }
                        for m in sweep.measures
                    ],
                },
            )
        )


def _check_rate(thing: SweptThing, request: SweepRequest) -> None:
    fastest = thing.instrument.rules.max_rate_for(thing.command.name)
    if fastest is not None and request.rate_per_s > fastest:
        unit = f"{thing.parameter.unit or 'units'}/s"
        raise Invalid(
            f"sweep_rate {request.rate_per_s:g} {unit} is over the maximum {fastest:g} {unit} that "
            f"the owner set for {thing.command.name} of {thing.instrument.id}.",
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
        )
    if wish is not None and wish.column in texts:
        raise Invalid(
            f"stop_when.column {wish.column!r} is no number, so it cannot be compared.",
            data={"parameter": "stop_when.column", "value": wish.column},
        )
