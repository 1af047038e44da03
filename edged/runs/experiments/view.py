"""The bench as the check of a plan sees it; see ``edged.experiments.checked.BenchView``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

from edged.actions.action import Purpose, RunCommand
from edged.actions.caller import Caller
from edged.errors import EdgedError, ErrorCode, NeedsApproval, NotFound
from edged.experiments.checked import Judgement, RoleUnit
from edged.instruments.instrument import Instrument
from edged.profiles.model import Command, SweepPlan
from edged.record import record
from edged.runs.bench import Bench
from edged.runs.ports import StepPlan
from edged.runs.sweeps.ramp_plan import SweptThing
from edged.runs.units import unit_of_instrument
from edged.yaml.tree import Scalar


@record
class View:
    """The bench, judged as one caller.

    Attributes:
        tool: as the caller called it.
        scope: the experiment's name.
        plan: takes all that is sent, for the budgets.
        asks: by the ids of units: a step of theirs that a person must approve.
    """

    bench: Bench
    caller: Caller
    tool: str
    scope: str
    plan: StepPlan
    asks: dict[str, NeedsApproval] = field(default_factory=dict)
    _units: dict[str, Instrument] = field(default_factory=dict)

    def unit(self, name: str) -> RoleUnit:
        instrument = self.bench.pool.get(name)
        self._units[instrument.id] = instrument
        profile = instrument.profile
        if profile is None:
            raise NotFound(
                f"{instrument.called} has no profile, so it has no commands.",
                code=ErrorCode.UNKNOWN_COMMAND,
                data={"instrument_id": instrument.id},
                remedy="Its owner has to give it a profile.",
            )
        known = self.bench.store.capability.of(unit_of_instrument(instrument))
        took = {name: one.latency.percentile(0.5) for name, one in known.items()}
        return RoleUnit(
            id=instrument.id,
            called=f"{instrument.called} ({profile.key})",
            commands=profile.commands,
            spoken_s={name: ms / 1000 for name, ms in took.items() if ms is not None},
        )

    def judge(
        self,
        unit: RoleUnit,
        command: Command,
        values: Mapping[str, Scalar],
        *,
        is_step: bool,
        is_last: bool,
        ranged: frozenset[str],
        conflicts: list[EdgedError],
    ) -> tuple[str, ...]:
        action = self._action(unit, command, values, is_step=is_step, is_last=is_last)
        found: list[EdgedError] = []
        lines = self.bench.precheck(replace(action, ranged=ranged), found)
        for conflict in found:
            if isinstance(conflict, NeedsApproval):
                # Who starts it is asked about all of it at once.
                self.asks.setdefault(unit.id, conflict)
            else:
                conflicts.append(conflict)
        return lines

    def spend(self, one: Judgement, at_s: float, count: int, every_s: float) -> None:
        if not self._units[one.unit.id].rules.budget:
            return
        given = {"is_step": one.is_step, "is_last": one.is_last}
        action = self._action(one.unit, one.command, one.values, **given)
        lines = self.bench.precheck(action, [])
        self.plan.add(action, lines, at_s, count=count, every_s=every_s)

    def _action(
        self,
        unit: RoleUnit,
        command: Command,
        values: Mapping[str, Scalar],
        *,
        is_step: bool,
        is_last: bool,
    ) -> RunCommand:
        purpose = Purpose.SWEEP_STEP if is_step else Purpose.SEQUENCE_STEP
        if command.is_query or is_last:
            purpose = Purpose.MEASURE if command.is_query else Purpose.FINALLY_STEP
        return RunCommand(
            tool=self.tool,
            caller=self.caller.nested(tool=self.tool, scope=self.scope, on_behalf_of="check"),
            action_id=self.bench.new_id(),
            instrument_id=unit.id,
            command_name=command.name,
            parameters=values,
            purpose=purpose,
            rate=1.0 if is_step else 0.0,
        )

    def fastest(self, unit: RoleUnit, command: Command) -> float | None:
        instrument = self._units[unit.id]
        if command.sweep is None:
            return instrument.rules.max_rate_for(command.name)
        return swept(instrument, command, command.sweep, {}).fastest


def swept(
    instrument: Instrument, command: Command, plan: SweepPlan, values: Mapping[str, Scalar]
) -> SweptThing:
    """What a ``set`` or ``ramp`` moves, with the defaults of what is not given."""
    defaults = {
        name: one.default for name, one in command.parameters.items() if one.default is not None
    }
    return SweptThing(
        instrument=instrument,
        command=command,
        plan=plan,
        values={**defaults, **values},
        profile=instrument.profile,
    )
