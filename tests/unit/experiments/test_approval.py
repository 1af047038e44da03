"""A plan that a person must approve: asked about once, by all that it may send, for one run."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edged.actions.action import Purpose, RunCommand
from edged.actions.caller import Approval, Caller, Route
from edged.actions.envelope import Allowed, Envelope, EnvelopeRow, OpenEnvelope
from edged.actions.outcome import Outcome
from edged.errors import ErrorCode
from edged.profiles.confirm import Way, parse_confirm
from edged.profiles.unit_rules import UnitRules
from edged.runs.experiments.bounds import approval_left, approval_told
from edged.runs.run_head import RunKind
from edged.runs.wording import stopped_by
from tests.bench.driven_clock import DrivenClock
from tests.bench.fake_instruments import FakeInstrument
from tests.bench.twin_lab import TwinLab, on_twins
from tests.promises import promise

START = "bench__start_experiment"
SET = re.compile(r":SOUR1:VOLT (\S+)")


def asks(*rules: str, **more: Any) -> UnitRules:
    found = tuple(map(parse_confirm, rules))
    return UnitRules(confirm=tuple(rule for rule in found if rule is not None), **more)


def plan(*steps: Any, **more: Any) -> dict[str, Any]:
    return {
        "format": 1,
        "experiment": "x",
        "roles": {"s": "psu1", "m": "dmm1"},
        "with": {"s": {"channel": 1}},
        "steps": list(steps),
        "finally": [{"ramp": "s.set_voltage", "to": 0, "rate": 10}, {"command": "s.output_off"}],
        **more,
    }


def volts(voltage: Any) -> dict[str, Any]:
    return {"command": "s.set_voltage", "parameters": {"voltage": voltage}}


ON = {"command": "s.output_on"}
SWITCHES_ON = plan(volts(1), ON, {"measure": {"v": "m.measure_dc_voltage"}})
RULES = {"psu1": asks("output_on")}


def code_of(outcome: Outcome) -> ErrorCode | None:
    return outcome.error.code if outcome.error is not None else None


def writes(lab: TwinLab) -> list[str]:
    return [line for _, line in lab.sent if "?" not in line]


async def needs(lab: TwinLab, wanted: Mapping[str, Any]) -> list[str]:
    """What the check says that a person has to do."""
    told = (await lab.tool("bench__check_experiment", plan=wanted)).data
    assert told["ok"], told
    found: list[str] = told["needs"]
    return found


@promise("experiment.approval")
def test_a_plan_is_approved_once_and_then_runs_to_its_end() -> None:
    async def story(lab: TwinLab) -> None:
        checked = (await lab.tool("bench__check_experiment", plan=SWITCHES_ON)).data
        assert checked["needs"] == ["approval"]
        assert lab.sent == []
        calling = asyncio.create_task(lab.tool(START, plan_id=checked["plan_id"]))
        question = await lab.question()
        assert writes(lab) == []
        lines = question["text"].splitlines()
        assert f"experiment x, plan_id {checked['plan_id']}" in lines[1]
        assert [line.strip() for line in lines if line.startswith("  ")] == checked["envelope"]
        shown = lab.core._approvals.shown(question["approval_id"], 0)["lines"]
        assert shown == checked["envelope"][:4]
        name = question["approval_id"]
        await lab.core._approvals.answer(name, is_yes=True, way=Way.CLI, by="anna")
        run_id = (await calling).data["run_id"]
        told = await lab.ended(run_id)
        assert (told["state"], told["error"]) == ("completed", None)
        assert ":OUTP CH1,ON" in writes(lab)
        rows = [row.tool for row in await lab.rows("approval.")]
        assert rows == [f"approval.{part}" for part in ("asked", "approved", "used", "ended")]
        used = await lab.rows("approval.used")
        assert f"{name}: {run_id} of {checked['plan_id']}" in used[0].parameters
        # It was for that run alone: another start is another question.
        again = asyncio.create_task(lab.tool(START, plan_id=checked["plan_id"]))
        other = await lab.question()
        assert other["approval_id"] != name
        again.cancel()

    on_twins(story, "psu1", "dmm1", rules=RULES)


@promise("experiment.approval")
@pytest.mark.parametrize("answer", [False, None])
def test_without_a_yes_nothing_is_sent(answer: bool | None) -> None:
    async def story(lab: TwinLab) -> None:
        outcome = await lab.start({"plan": SWITCHES_ON}, answer=answer)
        denied, unanswered = ErrorCode.APPROVAL_DENIED, ErrorCode.NEEDS_APPROVAL
        assert code_of(outcome) is (denied if answer is False else unanswered)
        assert lab.sent == []
        assert lab.core.work.registry.running(RunKind.EXPERIMENT) == ()

    on_twins(story, "psu1", "dmm1", rules={"psu1": asks("output_on", confirm_ttl_s=3)})


@promise("experiment.approval")
@pytest.mark.parametrize("how", ["stop", "lockout", "lease"])
def test_what_ends_a_call_that_waits_ends_a_start_that_waits(how: str) -> None:
    async def story(lab: TwinLab) -> None:
        calling = asyncio.create_task(lab.tool(START, plan=SWITCHES_ON))
        await lab.question()
        if how == "stop":
            lab.core._recall(stopped_by("anna"))
        elif how == "lockout":
            await lab.core._lockout.set("psu1", reason="hands inside", by="anna")
        else:
            bob = Caller(route=Route.DIRECT, client="bob", session_id="b")
            await lab.core._leases.reserve(bob, ["psu1"], purpose="burn-in", ttl_s=900)
        outcome = await calling
        codes = {"stop": "preempted", "lockout": "locked_out", "lease": "leased"}
        assert outcome.error is not None
        assert outcome.error.code.value == codes[how]
        assert lab.core._approvals.listed() == []
        assert not any(":OUTP CH1,ON" in line for _, line in lab.sent)

    on_twins(story, "psu1", "dmm1", rules=RULES)


def test_only_what_the_owner_wants_to_be_asked_about_is_asked_about() -> None:
    async def story(lab: TwinLab) -> None:
        assert await needs(lab, plan(volts(5))) == []
        assert await needs(lab, plan(volts(25))) == ["approval"]
        # What only finally sends is held back by nothing.
        high = {"ramp": "s.set_voltage", "to": 25, "rate": 10}
        assert await needs(lab, plan(volts(5), **{"finally": [high]})) == []
        ask = {"ask": "go", "text": "Go on?", "type": "confirm"}
        assert await needs(lab, plan(ask, volts(25))) == ["approval", "answers"]
        outcome = await lab.start({"plan": plan(volts(5))})
        assert (await lab.ended(outcome.data["run_id"]))["state"] == "completed"

    on_twins(story, "psu1", "dmm1", rules={"psu1": asks("set_voltage.voltage > 24")})


@pytest.mark.parametrize(("rule", "is_asked"), [("== 2", True), ("!= 2", True), ("> 3", False)])
def test_a_value_inside_of_a_range_is_asked_about_where_only_its_ends_are_judged(
    rule: str, is_asked: bool
) -> None:
    read = {"read": {"v": "m.measure_dc_voltage"}}
    wanted = [
        plan({"ramp": "s.set_voltage", "to": 3, "rate": 1}),
        plan(read, volts("{v}"), bounds={"s.set_voltage.voltage": [0, 3]}),
    ]

    async def story(lab: TwinLab) -> None:
        for one in wanted:
            assert await needs(lab, one) == (["approval"] if is_asked else [])
        # Another parameter of the command has one value, and is judged by that.
        outcome = await lab.start({"plan": wanted[0]}, answer=True if is_asked else None)
        assert (await lab.ended(outcome.data["run_id"]))["state"] == "completed"

    rules = asks(f"set_voltage.voltage {rule}", "set_voltage.channel == 2")
    on_twins(story, "psu1", "dmm1", rules={"psu1": rules})


@promise("experiment.approval")
def test_who_answers_must_be_allowed_to_by_every_owner_that_is_asked() -> None:
    both = plan(ON, {"command": "l.input_on"}, roles={"s": "psu1", "l": "load1"})

    async def story(lab: TwinLab) -> None:
        outcome = await lab.start({"plan": both})
        assert code_of(outcome) is ErrorCode.NEEDS_APPROVAL
        assert "no way in common" in str(outcome.error)
        calling = asyncio.create_task(lab.tool(START, plan=SWITCHES_ON))
        assert (await lab.question())["ways"] == ["cli"]
        calling.cancel()

    rules = {
        "psu1": asks("output_on", confirm_by=frozenset({Way.CLI})),
        "load1": asks("input_on", confirm_by=frozenset({Way.PAGE})),
    }
    on_twins(story, "psu1", "load1", "dmm1", rules=rules)


def test_a_plan_that_would_send_something_else_by_now_is_asked_about_again() -> None:
    async def story(lab: TwinLab) -> None:
        experiments = lab.core.work.experiments.get()
        checked = (await lab.tool("bench__check_experiment", plan=SWITCHES_ON)).data
        plan_ = experiments.plans.plan(checked["plan_id"])
        other = replace(experiments.plans.envelope(plan_), rows=())
        clock = lab.core.bench.clock
        approval = Approval(approval_id="ask-1", envelope=OpenEnvelope(other, clock.monotonic))
        action = lab.action(START)
        action = replace(action, caller=replace(action.caller, approval=approval))
        with pytest.raises(Exception, match="needs a person's approval of what it would send now"):
            await experiments.start(action, plan_)
        assert lab.sent == []

    on_twins(story, "psu1", "dmm1", rules=RULES)


@promise("experiment.approval")
def test_the_approval_ends_with_its_run() -> None:
    async def story(lab: TwinLab) -> None:
        outcome = await lab.start({"plan": SWITCHES_ON}, answer=True)
        run = lab.core.work.experiments.get().find(outcome.data["run_id"])
        await lab.ended(run.run_id)
        step = RunCommand(
            tool=START,
            caller=run.caller,
            action_id="late",
            instrument_id="psu1",
            command_name="output_on",
            parameters={"channel": 1},
            purpose=Purpose.SEQUENCE_STEP,
        )
        late = await lab.core.bench.perform(step)
        assert code_of(late) is ErrorCode.NEEDS_APPROVAL
        assert run.caller.approval is not None
        assert run.caller.approval.approval_id in str(late.error)

    on_twins(story, "psu1", "dmm1", rules=RULES)


@promise("experiment.enveloped")
@settings(max_examples=25, deadline=None)
@given(answers=st.lists(st.floats(0, 16), min_size=1, max_size=6))
def test_whatever_an_instrument_answers_only_what_was_approved_is_sent(
    answers: list[float],
) -> None:
    left = list(answers)
    steps = [
        volts(1),
        ON,
        {
            "for": "i",
            "in": {"count": len(answers)},
            "steps": [
                {"read": {"v": "m.measure_dc_voltage"}},
                volts("{v * 2}"),
                {"ramp": "s.set_voltage", "to": "{v / 2}", "rate": 100},
            ],
        },
    ]
    wanted = plan(*steps, bounds={"s.set_voltage.voltage": [1, 4]})

    def lie(unit: str, query: str) -> str | None:
        is_reading = unit == "dmm1" and query.startswith(("READ?", "MEAS"))
        return f"{left.pop(0):.9E}" if is_reading and left else None

    async def story(lab: TwinLab) -> dict[str, Any]:
        outcome = await lab.start({"plan": wanted}, answer=True)
        told = await lab.ended(outcome.data["run_id"])
        found = [SET.fullmatch(line) for _, line in lab.sent]
        # Last it is ramped down, from wherever it stands then.
        sent = [float(one[1]) for one in found if one is not None]
        assert sent
        ramped = [value for value in sent if value < 1]
        assert sent[len(sent) - len(ramped) :] == ramped == sorted(ramped, reverse=True)
        assert all(value <= 4 for value in sent), sent
        return told

    told = on_twins(story, "psu1", "dmm1", rules={"psu1": asks("output_on")}, lie=lie)
    told_values = [float(f"{value:.9E}") for value in answers]
    if any(value / 2 < 1 or value * 2 > 4 for value in told_values):
        assert told["state"] == "failed"
        said = ("is outside of what a person has approved (ask-", "is not ramped: voltage")
        assert any(one in told["error"] for one in said), told
    else:
        assert told["state"] == "completed"


@promise("experiment.finally")
def test_a_run_that_takes_too_long_is_ramped_down_all_the_same() -> None:
    poll = {"poll": "m.measure_dc_voltage", "until": "value > 9", "every_s": 60}
    steps = [volts(2), ON, {**poll, "timeout_s": 3_000}]

    async def story(lab: TwinLab) -> None:
        outcome = await lab.start({"plan": plan(*steps, at_most_h=0.5)}, answer=True)
        told = await lab.ended(outcome.data["run_id"])
        assert (told["state"], told["error"]) == ("stopped", None)
        down = [line for line in writes(lab) if line.startswith(":SOUR1:VOLT")]
        assert down[-3:] == [":SOUR1:VOLT 2.000", ":SOUR1:VOLT 1.000", ":SOUR1:VOLT 0.000"]

    on_twins(story, "psu1", "dmm1", rules=RULES)


UNIT = FakeInstrument(id="1", profile=None, rules=UnitRules(approval_survives_crash=True))
STRICT = FakeInstrument(id="2", profile=None, rules=UnitRules())
ROW = EnvelopeRow(
    unit="a",
    called="psu1",
    command="set_voltage",
    parameters={"channel": Allowed(values=(1,)), "voltage": Allowed(between=(0, 5), unit="V")},
)
ENVELOPE = Envelope(plan_id="plan-1", rows=(ROW,), most_s=3600)


def test_a_resumed_run_has_the_approval_only_where_every_owner_lets_it_survive() -> None:
    clock = DrivenClock()
    opened = OpenEnvelope(ENVELOPE, clock.monotonic)
    approval = Approval(approval_id="ask-1", envelope=opened)
    payload = approval_told(approval, clock.wall_ms())
    assert approval_told(Approval(approval_id="", envelope=opened), clock.wall_ms()) == {}

    left = approval_left(payload, ENVELOPE, [UNIT], clock)
    assert left is not None
    assert left.approval_id == "ask-1"
    assert left.envelope is not None
    assert left.envelope.why_outside("a", "set_voltage", {"channel": 1, "voltage": 6}) != ""
    assert approval_left(payload, ENVELOPE, [UNIT, STRICT], clock) is None
    assert approval_left({}, ENVELOPE, [UNIT], clock) is None
    assert approval_left({"approval": {"id": "ask-1"}}, ENVELOPE, [UNIT], clock) is None
    other = replace(ENVELOPE, rows=(replace(ROW, most=2),))
    assert approval_left(payload, other, [UNIT], clock) is None
    clock.move(3_601)
    assert approval_left(payload, ENVELOPE, [UNIT], clock) is None
