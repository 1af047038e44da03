"""What `edged experiment` prints of a run and of a plan's errors, and its exit statuses."""

from __future__ import annotations

from typing import Any

import pytest

from edged.cli import experiment
from edged.cli.experiment import line_of, status_of
from edged.host import ExitStatus
from edged.runs.states import EXPERIMENT, OVER, RunState


def told(**more: Any) -> dict[str, Any]:
    return {
        "run_id": "exp-1",
        "state": "running",
        "verdict": None,
        "done": 3,
        "total": None,
        "loops": {},
        "step": None,
        "eta_s": None,
        "question": None,
        **more,
    }


@pytest.mark.parametrize(
    ("state", "verdict", "status"),
    [
        ("completed", None, ExitStatus.OK),
        ("completed", "pass", ExitStatus.OK),
        ("completed", "marginal", ExitStatus.OK),
        ("completed", "incomplete", ExitStatus.FAILED),
        ("completed", "fail", ExitStatus.FAILED),
        ("completed", "aborted", ExitStatus.STOPPED),
        ("stopped", "aborted", ExitStatus.STOPPED),
        ("interrupted", None, ExitStatus.STOPPED),
        ("completed", "error", ExitStatus.ERROR),
        ("failed", "error", ExitStatus.ERROR),
        ("failed", None, ExitStatus.ERROR),
    ],
)
def test_the_exit_status_is_that_of_the_verdict_and_the_state(
    state: str, verdict: str | None, status: ExitStatus
) -> None:
    assert status_of(told(state=state, verdict=verdict)) == status


def test_the_verb_knows_every_state_in_which_a_run_is_over() -> None:
    ends = {EXPERIMENT.states[state] for state in OVER if state in EXPERIMENT.states}
    assert ends | {EXPERIMENT.states[RunState.INTERRUPTED]} == experiment.OVER


def test_a_line_says_how_far_a_run_is() -> None:
    loops = {"v_g": "2 of 5", "v_d": "1 of 11"}
    line = line_of(told(total=55, loops=loops, step="steps[4]", eta_s=61.2))
    expected = (
        "exp-1  running  3 of 55 rows  v_g 2 of 5, v_d 1 of 11  at steps[4]  about 0:01:01 left"
    )
    assert line == expected
    assert line_of(told(question={"name": "led"})) == "exp-1  running  3 rows  asks led"


@pytest.mark.parametrize(
    ("problem", "line"),
    [
        (
            {
                "line": 6,
                "column": 3,
                "path": "steps[0].set",
                "message": "It is wrong.",
                "remedy": "Write a.b.",
            },
            "plan.yaml:6:3: steps[0].set: It is wrong. Write a.b.",
        ),
        (
            {"line": None, "column": None, "path": "bounds", "message": "none.", "remedy": None},
            "plan.yaml: bounds: none.",
        ),
    ],
)
def test_an_error_of_a_plan_is_printed_as_compilers_do(problem: dict[str, Any], line: str) -> None:
    assert experiment._error_line(problem, "plan.yaml") == line
