"""What the recording of a run begins with: columns, dimensions, tables, and its plan as given."""

from __future__ import annotations

import json
from typing import Any

from edged.experiments.checked import Checked
from edged.experiments.model import Experiment
from edged.experiments.targets import answer_unit
from edged.runs.experiments.plans import text_of
from edged.runs.experiments.run import Plan
from edged.runs.report.at_end import FOLDER
from edged.runs.run_head import Column, Dimension


def columns_of(checked: Checked) -> tuple[Column, ...]:
    """The values of loops, what is read, and why something is missing."""
    values = [
        Column(name=one.name, unit=one.unit, dimensions=(one.name,))
        for one in dimensions_of(checked)
    ]
    read = [
        Column(name=column.name, unit=column.unit, dimensions=column.loops)
        for column in checked.columns
    ]
    return (*values, *read, Column(name="flags", is_text=True))


def tables_of(checked: Checked) -> dict[str, tuple[Column, ...]]:
    """The table of each entry of ``log``, with the unit of what it reads."""
    found: dict[str, tuple[Column, ...]] = {}
    for name, log in checked.experiment.logs.items():
        target = log.command
        command = checked.units[target.role].commands.get(target.command)
        found[name] = (Column(name=name, unit=answer_unit(command, target.member)),)
    return found


def dimensions_of(checked: Checked) -> tuple[Dimension, ...]:
    """The loops around what is recorded, the outermost first."""
    loops = dict.fromkeys(loop for column in checked.columns for loop in column.loops)
    return tuple(
        Dimension(name=loop, unit=checked.loops[loop][1], values=checked.loops[loop][2])
        for loop in loops
    )


def reports_told(experiment: Experiment) -> dict[str, Any]:
    """Where the reports of the run are, and which."""
    wanted = experiment.report
    if wanted is None:
        return {}
    told = {"folder": FOLDER, "per": wanted.per, "formats": list(wanted.formats)}
    return {"reports": told}


def resolved(plan: Plan) -> bytes:
    """What the plan was resolved to: units and parameters."""
    checked = plan.checked
    told = {
        "plan_id": plan.plan_id,
        "experiment": plan.experiment.name,
        "roles": {role: unit.id for role, unit in checked.units.items()},
        "parameters": dict(checked.values),
    }
    return json.dumps(told, indent=2).encode()


def source_of(plan: Plan) -> bytes:
    """The file as it was given."""
    return text_of(plan.source).encode()
