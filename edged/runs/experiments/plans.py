"""Plans that were checked: each may be started by its id, as long as it is remembered."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from edged.actions.action import Action
from edged.actions.envelope import Envelope
from edged.errors import ErrorCode, NotFound
from edged.experiments.check import PlanCheck
from edged.experiments.checked import Checked
from edged.experiments.problem import MOST_PROBLEMS, Problem
from edged.experiments.reading import BadPlan, read_plan
from edged.instruments.instrument import Instrument
from edged.runs.bench import Bench
from edged.runs.experiments.bounds import envelope_of
from edged.runs.experiments.run import Plan
from edged.runs.experiments.view import View
from edged.runs.ports import NewPlan
from edged.schema.fields import nearest

MOST_PLANS: Final = 50
"""Checked plans that can still be started by their id."""
JUDGED_A_TURN: Final = 20
"""Commands judged before the loop gets a turn."""


def plan_id_of(checked: Checked, source: str | Mapping[str, Any]) -> str:
    """The hash of what was resolved: the file, the units and the parameters."""
    text = text_of(source)
    units = {role: unit.id for role, unit in checked.units.items()}
    resolved = json.dumps([text, units, dict(checked.values)], sort_keys=True)
    return f"plan-{hashlib.sha256(resolved.encode()).hexdigest()[:12]}"


def text_of(source: str | Mapping[str, Any]) -> str:
    """A plan as its plan.yaml has it; one that came as JSON is YAML as well."""
    return source if isinstance(source, str) else json.dumps(source, indent=2)


class Plans:
    """Checks plans on one bench, and remembers the last ``MOST_PLANS`` that passed.

    Args:
        new_plan: judges how often all steps of a run are sent.
    """

    def __init__(self, bench: Bench, new_plan: NewPlan) -> None:
        self._bench = bench
        self._new_plan = new_plan
        self._plans: dict[str, Plan] = {}

    async def check(
        self,
        action: Action,
        source: str | Mapping[str, Any],
        roles: Mapping[str, str],
        parameters: Mapping[str, Any],
        file: str = "",
        *,
        is_begun: bool = False,
    ) -> tuple[Plan | None, tuple[Problem, ...]]:
        """Judge a plan; one without problems may be started by its id.

        Args:
            file: the name of the saved one that it is.
            is_begun: a part of it was done before a crash: how often that was counts already.
        """
        bad: BadPlan | None = None
        try:
            experiment = await asyncio.to_thread(read_plan, source)
        except BadPlan as unread:
            if unread.rest is None:
                return None, unread.problems
            bad, experiment = unread, unread.rest
        # What a person has approved is compared as a whole; see ``start``.
        caller = replace(action.caller, approval=None)
        view = View(
            bench=self._bench,
            caller=caller,
            tool=action.tool,
            scope=experiment.name,
            plan=self._new_plan(),
        )
        work = PlanCheck(experiment, view, roles, parameters, bad.unread if bad else ())
        work.bind()
        await asyncio.to_thread(work.look_through)
        for number, one in enumerate(work.to_judge, 1):
            work.judge(one)
            if number % JUDGED_A_TURN == 0:
                await asyncio.sleep(0)
        if not is_begun:
            work.spend()
        checked = work.result()
        if bad is not None or checked is None:
            return None, (*(bad.problems if bad else ()), *work.problems)[:MOST_PROBLEMS]
        plan = Plan(
            plan_id=plan_id_of(checked, source),
            source=source,
            experiment=experiment,
            roles=roles,
            parameters=parameters,
            checked=checked,
            file=file,
            asks=view.asks,
        )
        self._plans.pop(plan.plan_id, None)
        self._plans[plan.plan_id] = plan
        while len(self._plans) > MOST_PLANS:
            del self._plans[next(iter(self._plans))]
        return plan, ()

    def plan(self, plan_id: str) -> Plan:
        """One that was checked.

        Raises:
            NotFound: there is none; the engine may have been restarted since.
        """
        plan = self._plans.get(plan_id)
        if plan is None:
            raise NotFound(
                f"There is no checked plan {plan_id[:64]!r}.",
                code=ErrorCode.UNKNOWN_RUN,
                data={"plan_id": plan_id[:64]},
                remedy=nearest(plan_id[:64], self._plans) or "Check it first.",
            )
        return plan

    def envelope(self, plan: Plan) -> Envelope:
        """All that its run may send."""
        units = self.units(unit.id for unit in plan.checked.units.values())
        return envelope_of(plan.plan_id, plan.checked, {one.id: one for one in units})

    def units(self, ids: Iterable[str]) -> tuple[Instrument, ...]:
        """The units with these ids, without doubles; raises NotFound."""
        return tuple(map(self._bench.pool.get, dict.fromkeys(ids)))
