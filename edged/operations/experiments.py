"""Experiments: check a plan, start it, control its run."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from edged.actions.action import Action, NamedAction
from edged.actions.caller import Approval
from edged.actions.elicit import InputRequired
from edged.actions.envelope import Envelope
from edged.actions.outcome import Done
from edged.commands.outgoing import Outgoing
from edged.commands.target import Target
from edged.errors import Conflict, ErrorCode, Invalid, NotFound
from edged.experiments.checked import Checked, Span
from edged.experiments.problem import Problem
from edged.experiments.reading import MOST_BYTES, placed
from edged.experiments.schema import experiment_schema, grammar_text
from edged.operations.experiment_rows import saved_files
from edged.record import record
from edged.runs.experiments.registry import Experiments
from edged.runs.experiments.resuming import LeftRun
from edged.runs.experiments.run import ExperimentRun, Plan
from edged.runs.wording import stopped_by
from edged.schema.fields import nearest
from edged.yaml.file import read_text

NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
Rehearse = Callable[[Plan], Awaitable[dict[str, Any]]]
CELL_BYTES: Final = 20
"""Of a cell in data.csv and data.nc together, likely; ``ROW_BYTES`` of the rest of a row."""
ROW_BYTES: Final = 20
Obtain = Callable[..., Awaitable[Approval | InputRequired]]
PLAN_KEYS: Final = ("plan", "text", "name")


@record
class ExperimentOperations:
    """What they are run with.

    Attributes:
        directories: where experiment files are, the last ones first looked at.
        rehearse: runs a plan on simulated twins of its units, in virtual time.
        obtain: asks a person; see ``ApprovalControl.obtain``.
    """

    experiments: Experiments
    directories: Sequence[Path]
    rehearse: Rehearse
    obtain: Obtain

    async def check(self, action: NamedAction, _target: Target, _began: float) -> Done:
        """Every error at once, or what the plan will do."""
        plan, problems = await self._checked(action)
        if plan is None:
            return Done(data={"ok": False, "errors": [one.to_json() for one in problems]})
        told = _told(plan, self.experiments.plans.envelope(plan))
        if action.arguments.get("rehearse") is True:
            told["rehearsal"] = await self.rehearse(plan)
        return Done(data=told)

    async def start(self, action: NamedAction, _target: Target, _began: float) -> Done:
        """Begin a run, and return."""
        # What stops everything from now on ends it, also while a person is asked.
        halts = self.experiments.halts
        plan_id = action.arguments.get("plan_id")
        if plan_id is not None:
            plan = self.experiments.plans.plan(str(plan_id))
        else:
            checked, problems = await self._checked(action)
            if checked is None:
                raise _unfit(problems)
            plan = checked
        if plan.asks:
            approved = await self._approved(action, plan, {})
            if isinstance(approved, InputRequired):
                return approved
            action = replace(action, caller=replace(action.caller, approval=approved))
        run = await self.experiments.start(action, plan, halts)
        return Done(data={"run_id": run.run_id, "state": run.status, "plan_id": run.plan_id})

    async def _approved(
        self, action: NamedAction, plan: Plan, more: Mapping[str, Any]
    ) -> Approval | InputRequired:
        """A person's yes to all that the plan may send.

        Args:
            more: of the call, to be shown.
        """
        envelope, checked = self.experiments.plans.envelope(plan), plan.checked
        outgoing = Outgoing(envelope=envelope)
        for row in envelope.rows:
            outgoing.add(row.called, row.text.removeprefix(f"{row.called}: "))
        about = {**more, "experiment": plan.experiment.name, "plan_id": plan.plan_id}
        if plan.file:
            about["file"] = plan.file
        about["roles"] = {role: unit.called for role, unit in checked.units.items()}
        about |= {"with": dict(checked.values)} if checked.values else {}
        asking = self.experiments.plans.units(plan.asks)
        first, *others = (
            Target(instrument=unit, is_write=True)
            for unit in self.experiments.plans.units(asked.unit for asked in checked.envelope)
        )
        return await self.obtain(
            replace(action, arguments=about),
            replace(first, inner=tuple(others)),
            outgoing,
            frozenset(line for needed in plan.asks.values() for line in needed.lines),
            asking,
        )

    async def control(self, action: NamedAction, _target: Target, _began: float) -> Done:
        """One wish; then how it stands."""
        asked = action.arguments
        run_id, wish = str(asked.get("run_id", "")), str(asked.get("action", "status"))
        left = await self.experiments.interrupted(run_id)
        if left is not None and wish == "resume":
            if plan := await self.experiments.left.to_approve(action, left):
                approved = await self._approved(action, plan, {"run_id": run_id, "action": wish})
                if isinstance(approved, InputRequired):
                    return approved
                action = replace(action, caller=replace(action.caller, approval=approved))
            await self.experiments.left.resume(action, left)
        elif left is not None:
            await self._do_left(action, left, wish)
        else:
            await self._do(self.experiments.find(run_id), wish, asked, action.caller.who)
        return Done(data=self.experiments.status(run_id))

    async def read_grammar(self, _action: NamedAction, _target: Target, _began: float) -> Done:
        """The grammar in Markdown."""
        return Done(data=grammar_text())

    async def read_schema(self, _action: NamedAction, _target: Target, _began: float) -> Done:
        """The grammar as a JSON Schema."""
        return Done(data=experiment_schema())

    async def read_saved(self, action: NamedAction, _target: Target, _began: float) -> Done:
        """The YAML text of a saved experiment."""
        return Done(
            data=await asyncio.to_thread(saved, self.directories, action.values["experiment_name"])
        )

    async def _do(self, run: ExperimentRun, wish: str, asked: Mapping[str, Any], who: str) -> None:
        match wish:
            case "pause":
                self.experiments.pause(run, f"paused by {who}")
            case "resume":
                self.experiments.resume(run)
            case "abort":
                await self.experiments.abort(run, stopped_by(who))
            case "skip":
                self.experiments.skip(run, who)
            case "answer":
                if "value" not in asked:
                    raise Invalid("An answer needs value.", data={"parameter": "value"})
                self.experiments.answer(run, asked["value"], asked.get("question"))
            case "note" | "tag":
                await self.experiments.note(run, wish, str(asked.get("value", "")), who)
            case _:
                return

    async def _do_left(self, action: Action, left: LeftRun, wish: str) -> None:
        """A wish of a run that is interrupted."""
        who = action.caller.who
        match wish:
            case "status":
                return
            case "abort":
                run = await self.experiments.left.abort(action, left, stopped_by(who))
                if run is not None:
                    await run.ended.wait()
            case "note" | "tag":
                text = str(action.arguments.get("value", ""))
                await self.experiments.note_left(left, wish, text, who)
            case _:
                raise Conflict(
                    f"{left.run_id} is interrupted, so there is nothing to {wish}.",
                    remedy="Resume or abort it.",
                )

    async def _checked(self, action: Action) -> tuple[Plan | None, tuple[Problem, ...]]:
        asked = action.arguments
        source = await self._source(asked)
        plan, problems = await self.experiments.plans.check(
            action,
            source,
            asked.get("roles") or {},
            asked.get("parameters") or {},
            str(asked.get("name") or ""),
        )
        return plan, placed(problems, source) if isinstance(source, str) else problems

    async def _source(self, asked: Mapping[str, Any]) -> str | Mapping[str, Any]:
        given = [key for key in PLAN_KEYS if asked.get(key) is not None]
        if len(given) != 1:
            raise Invalid(
                "Give the experiment as one of plan (a JSON object), text (YAML) and name.",
                data={"parameter": "plan"},
                remedy="edged://experiments/grammar has the grammar and an example.",
            )
        if given == ["name"]:
            try:
                return await asyncio.to_thread(saved, self.directories, str(asked["name"]))
            except NotFound as missing:
                # Of a tool it is an argument that is wrong, and no resource.
                raise Invalid(
                    missing.message, data={"parameter": "name"}, remedy=missing.remedy
                ) from None
        source: str | Mapping[str, Any] = asked[given[0]]
        return source


def saved(directories: Sequence[Path], name: str) -> str:
    """The text of an experiment file; blocks.

    Raises:
        NotFound: there is none of that name.
    """
    known = saved_files(directories)
    if NAME.fullmatch(name) is None or name not in known:
        raise NotFound(
            f"There is no experiment {name[:64]!r}.",
            code=ErrorCode.UNKNOWN_RESOURCE,
            data={"name": name[:64]},
            remedy=nearest(name[:64], known) or f"EXPERIMENT_DIRS has no {name[:64]}.yaml.",
        )
    return read_text(known[name], MOST_BYTES)


def _unfit(problems: Sequence[Problem]) -> Invalid:
    return Invalid(
        f"The plan has {len(problems)} errors; the first: {problems[0].text}",
        data={"errors": [problem.to_json() for problem in problems]},
        remedy="bench__check_experiment tells all of them.",
    )


def _told(plan: Plan, envelope: Envelope) -> dict[str, Any]:
    checked: Checked = plan.checked
    least, most = checked.points
    return {
        "ok": True,
        "plan_id": plan.plan_id,
        "experiment": plan.experiment.name,
        "units": {role: unit.called for role, unit in checked.units.items()},
        "points": most if least == most else {"least": least, "most": most},
        "bytes": most * (CELL_BYTES * (len(checked.columns) + len(checked.loops)) + ROW_BYTES),
        "duration_s": _span(checked.duration),
        "columns": [
            {"name": column.name, "unit": column.unit, "loops": list(column.loops)}
            for column in checked.columns
        ],
        "envelope": list(envelope.text()),
        "later": list(checked.later),
        "left_on": list(checked.left_on),
        "needs": list(plan.needs),
        "errors": [],
    }


def _span(span: Span) -> dict[str, float]:
    return {
        "least": round(span.least, 1),
        "likely": round(span.likely, 1),
        "most": round(span.most, 1),
    }
