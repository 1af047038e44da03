"""A check says all that is wrong at once, and nothing that only follows from it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.bench.twin_lab import TwinLab, on_twins
from tests.promises import promise
from tests.unit.experiments.test_plans import LOOP, READ, Plan, plan, volts

WRONG = {"command": "s.output_onn"}
"""A step whose mistake only a bench knows."""


def paths(wanted: Plan | str) -> list[str]:
    """Where a check finds something wrong."""

    async def story(lab: TwinLab) -> list[str]:
        key = "text" if isinstance(wanted, str) else "plan"
        told = (await lab.tool("bench__check_experiment", **{key: wanted})).data
        assert not told["ok"]
        return [error["path"] for error in told["errors"]]

    return on_twins(story, "psu1", "dmm1")


@promise("experiment.no-surprise")
@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (plan({"wait": 1}, WRONG), ["steps[0]", "steps[1].command"]),
        (plan({**LOOP, "snaek": True, "steps": [WRONG]}, WRONG),
         ["steps[0].snaek", "steps[0].steps[0].command", "steps[1].command"]),
        (plan({"fore": "i", "in": [1], "steps": [WRONG, {"row": {"x": "i"}}]}),
         ["steps[0]", "steps[0].steps[0].command"]),
        (plan({"if": "1 >", "then": [WRONG], "else": [{"wait": 2}]}),
         ["steps[0].if", "steps[0].else[0]", "steps[0].then[0].command"]),
        (plan(WRONG, finaly=[]), ["finaly", "steps[0].command"]),
        (plan(WRONG, roles={"s": "psu1", "m": "dmm1", "x": 5}), ["roles.x", "steps[0].command"]),
        (plan(WRONG, log={"T": {"command": 1}}, plots=[{"mapp": "x"}]),
         ["log.T", "log.T.command", "plots[0].mapp", "steps[0].command"]),
        (plan(WRONG, resume={"at": "nowhere"}), ["resume", "steps[0].command"]),
        (plan({"leave": "i"}, WRONG), ["steps[0].leave", "steps[1].command"]),
    ],
)  # fmt: skip
def test_a_step_or_key_that_cannot_be_read_hides_no_other_error(
    wanted: Plan, found: list[str]
) -> None:
    assert paths(wanted) == found


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        # What an unreadable part would have given is not missing as well.
        (plan({"let": {"x": "{1 +}"}}, volts("{x}")), ["steps[0].let.x"]),
        (plan({"read": {"v": "m.measure dc"}}, {"row": {"y": "v * 2"}}, plots=[{"line": "v"}]),
         ["steps[0].read.v"]),
        (plan({**LOOP, "for": "volts", "in": {"linn": [0, 1, 2]}, "steps": [volts("{volts}")]}),
         ["steps[0].in"]),
        (plan(volts(1), **{"with": {"s": {"channel": [1]}}}), ["with.s.channel"]),
        (plan(READ, volts("{v}"), bounds={"s.set_voltage.voltage": [1, 0]}),
         ["bounds.s.set_voltage.voltage"]),
        (plan({"wait_s": "{t}"}, parameters={"t": {"type": "flot", "default": 1}}),
         ["parameters.t.type"]),
        (plan({"checks": "c", "value": 1, "min": 0}, report={"formats": ["junit"]}), ["steps[0]"]),
        (plan({"repeet": "i", "at_most": 3, "until": "1", "steps": [{"leave": "i"}]},
              resume={"at": "i"}), ["steps[0]"]),
    ],
)  # fmt: skip
def test_what_only_follows_from_an_error_is_no_other_one(wanted: Plan, found: list[str]) -> None:
    assert paths(wanted) == found


@promise("experiment.no-surprise")
def test_a_unit_that_somebody_has_hides_no_error_and_is_said_once() -> None:
    async def story(lab: TwinLab) -> Any:
        await lab.run(plan({"wait_s": 60}, volts(1)))
        wanted = plan(volts(1), volts(99), {"command": "s.output_on"}, WRONG, volts(98))
        return (await lab.tool("bench__check_experiment", plan=wanted)).data["errors"]

    told = on_twins(story, "psu1", "dmm1")
    assert [(error["path"], error["code"]) for error in told] == [
        ("steps[3].command", "unknown_command"),
        ("steps[0]", "leased"),
        ("steps[1]", "bad_arguments"),
        ("steps[4]", "bad_arguments"),
    ]
