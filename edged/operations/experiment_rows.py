"""The rows of experiments. What runs them, ``experiments.ExperimentOperations``, is late."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from edged.commands.operation import Operation, Resource, as_text, later
from edged.commands.static_tool import (
    BOOLEAN,
    CALM,
    INTEGER,
    OBJECT,
    READ,
    STRING,
    WORK,
    StaticTool,
    parameters_of,
    result_of,
)

_PLAN: Final[dict[str, Any]] = {
    "plan": {**OBJECT, "description": "The experiment as JSON."},
    "text": {**STRING, "description": "The same as YAML."},
    "name": {**STRING, "description": "A saved one."},
    "roles": {**OBJECT, "description": "role: unit, in place of the plan's."},
    "parameters": {**OBJECT, "description": "name: value, in place of the defaults."},
}
ACTIONS: Final = ("status", "pause", "resume", "abort", "skip", "answer", "note", "tag")
STATUS: Final = (
    "run_id", "experiment", "plan_id", "state", "verdict", "step", "loops", "done", "total",
    "elapsed_s", "eta_s", "last_row", "question", "reason", "notes", "units", "under_test",
    "reports",
)  # fmt: skip
OPERATIONS: Final = (
    Operation(
        run=later("check"),
        tool=StaticTool(
            name="bench__check_experiment",
            title="Check an experiment",
            description=(
                "Judge a whole experiment over several instruments (loops, ramps, checks), and "
                "send nothing: all errors, each with its remedy, or plan_id, points, duration and "
                "what would be set. Grammar: edged://experiments/grammar."
            ),
            schema=parameters_of(
                **_PLAN, rehearse={**BOOLEAN, "description": "Also run it on simulated twins."}
            ),
            output=result_of(
                "ok", "plan_id", "experiment", "units", "points", "bytes", "duration_s",
                "columns", "envelope", "later", "left_on", "needs", "errors", "rehearsal",
            ),
            annotations=READ,
            needs_instruments=True,
        ),
    ),
    Operation(
        run=later("start"),
        tool=StaticTool(
            name="bench__start_experiment",
            title="Start an experiment",
            description=(
                "Run a checked plan in the engine. Returns run_id at once: bench__control_run has "
                "its status, bench__runs its data."
            ),
            schema=parameters_of(plan_id=STRING),
            accepts=_PLAN,
            output=result_of("run_id", "state", "plan_id"),
            annotations=WORK,
            needs_instruments=True,
        ),
    ),
    Operation(
        run=later("control"),
        tool=StaticTool(
            name="bench__control_run",
            title="Control a run",
            description=(
                "Status of an experiment's run, after one action: pause, resume, abort (its "
                "finally steps run), skip (a wait), answer (its question), note, tag."
            ),
            schema=parameters_of(
                ("run_id",),
                run_id=STRING,
                action={**STRING, "enum": list(ACTIONS), "default": "status"},
                value={**STRING, "description": "Of answer, note and tag."},
                question=INTEGER,
            ),
            accepts={"value": {}},
            output=result_of(*STATUS),
            annotations=CALM,
            needs_instruments=True,
        ),
    ),
    Operation(
        name="read_grammar",
        run=later("read_grammar"),
        resources=(
            Resource(
                template="edged://experiments/grammar",
                name="experiment_grammar",
                title="How to write an experiment",
                description="Steps, keys and values of an experiment plan, and an example.",
                tool="bench__check_experiment",
                mime_type="text/markdown",
                show=as_text,
            ),
        ),
    ),
    Operation(
        name="read_experiment_schema",
        run=later("read_schema"),
        resources=(
            Resource(
                template="edged://experiments/schema",
                name="experiment_schema",
                title="JSON Schema of experiments",
                description="For editors and programs that write experiment plans.",
                tool="bench__check_experiment",
                mime_type="application/schema+json",
            ),
        ),
    ),
    Operation(
        name="read_experiment",
        run=later("read_saved"),
        resources=(
            Resource(
                template="edged://experiments/saved/{experiment_name}",
                name="experiment",
                title="One saved experiment",
                description="The YAML text of an experiment file of this bench.",
                tool="bench__check_experiment",
                mime_type="application/yaml",
                show=as_text,
            ),
        ),
    ),
)  # fmt: skip


def saved_files(directories: Sequence[Path]) -> dict[str, Path]:
    """Name → experiment file; of a name that is twice the one in the last directory. Blocks."""
    return {file.stem: file for place in directories for file in sorted(place.glob("*.yaml"))}
