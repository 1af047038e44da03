"""Plans that somebody has written to break the check: it says where, or they run to their end."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.bench.twin_lab import TwinLab, on_twins
from tests.promises import promise
from tests.unit.experiments.test_plans import LOOP, READ, SETTLE, Plan, plan, volts

HEAD = "format: 1\nexperiment: x\nroles: {s: psu1, m: dmm1}\nwith: {s: {channel: 1}}\nsteps:\n"
ASK = {"ask": "q", "text": "?", "type": "confirm", "timeout_s": 1, "on_timeout": "abort"}
JUDGE = {"check": "c", "value": 1, "min": 0}
PASS = {"in": [1, 2], "steps": [{"wait_s": 0}]}
MEASURE = {"measure": {"v": "m.measure_dc_voltage"}}
LOG = {"command": "m.measure_dc_voltage", "every_s": 1}


def each(step: Any, values: Any = (0, 1, 2), **more: Any) -> Plan:
    return plan({"for": "i", "in": list(values), "steps": [step], **more})


WRONG: dict[str, tuple[Plan | str, str]] = {
    # Numbers.
    "a text": (plan(volts("abc")), "steps[0]"),
    "a truth value": (plan(volts(True)), "steps[0]"),
    "nan": (plan(volts(math.nan)), "steps[0]"),
    "inf": (plan(volts(math.inf)), "steps[0]"),
    "nan in YAML": (f"{HEAD}  - {{wait_s: .nan}}\n", ""),
    "with its unit": (plan(volts("1 V")), "steps[0]"),
    "a list": (plan(volts([1])), "steps[0].parameters.voltage"),
    "nothing": (plan(volts(None)), "steps[0].parameters.voltage"),
    "a wait that is a truth value": (plan({"wait_s": True}), "steps[0].wait_s"),
    "a wait of less than nothing": (plan({"wait_s": -5}), "steps[0].wait_s"),
    "a wait that can be less": (each({"wait_s": "i - 1"}), "steps[0].steps[0].wait_s"),
    "a loop's wait of less": (plan({**LOOP, "wait_s": -1}), "steps[0].wait_s"),
    "a wait of years": (plan({"wait_s": 1e300}), "at_most_h"),
    # Loops.
    "an empty list": (each({"wait_s": 0}, []), "steps[0].in"),
    "no passes": (plan({**LOOP, "in": {"count": 0}}), "steps[0].in.count"),
    "a part of a pass": (plan({**LOOP, "in": {"count": 2.5}}), "steps[0].in.count"),
    "a logarithm from nothing": (plan({**LOOP, "in": {"log": [0, 1, 3]}}), "steps[0].in"),
    "a loop in itself": (each({**LOOP, "in": [1]}), "steps[0].steps[0].for"),
    "no repetition": (plan({"repeat": "r", "at_most": 0, "until": "1 > 2", "steps": []}),
                      "steps[0].at_most"),
    "a loop called as a column of every run": (plan({**PASS, "for": "attempt"}), "steps[0].for"),
    "a loop called as what was read before": (plan(MEASURE, {**PASS, "for": "v"}), "steps[1].for"),
    "a loop called as the count of another": (each({"repeat": "n_i", "at_most": 1, "until": "1 > 0",
                                                    "steps": []}), "steps[0].steps[0].repeat"),
    "a unit in a unit": (each({"for": "j", "in": [1], "unit": "{j}", "steps": [JUDGE]},
                              unit="{i}"), "steps[0].steps[0].unit"),
    "the end of no loop": (plan({**ASK, "on_timeout": "end"}), "steps[0].on_timeout"),
    "the end of no unit": (plan({**ASK, "on_timeout": "end_unit"}), "steps[0].on_timeout"),
    "a check that ends no unit": (plan({**JUDGE, "on_fail": "end_unit"}), "steps[0].on_fail"),
    "a settle that ends no loop": (plan({**SETTLE, "on_timeout": "end"}), "steps[0].on_timeout"),
    # Expressions.
    "a division by zero in a condition": (plan({"if": "1 / 0 > 1", "then": []}), "steps[0].if"),
    "in a row": (plan({"row": {"x": "1 / 0"}}), "steps[0].row.x"),
    "in a let": (each({"let": {"y": "{1 / i}"}}), "steps[0].steps[0].let.y"),
    "in a check": (plan({"check": "c", "value": "{1 / 0}", "min": 0}), "steps[0].value"),
    "at one point inside": (each({"wait_s": "{1 / (i - 1)}"}), "steps[0].steps[0].wait_s"),
    "in a question": (plan({**ASK, "text": "{1 / 0}?"}), "steps[0].text"),
    "in an until": (plan({"repeat": "r", "at_most": 2, "until": "1 / 0 > 1", "steps": []}),
                    "steps[0].until"),
    "in the name of a unit": (each(JUDGE, unit="{1 / i}"), "steps[0].unit"),
    "a text that is compared": (plan({"let": {"t": "abc"}}, {"if": "t > 1", "then": []}),
                                "steps[1].if"),
    "a number as a condition": (plan({"if": "1 + 1", "then": []}), "steps[0].if"),
    "a let of itself": (plan({"let": {"a": "{a + 1}"}}), "steps[0].let.a"),
    "lets of each other": (plan({"let": {"a": "{b}", "b": "{a}"}}), "steps[0].let.a"),
    "too large": (plan({"let": {"x": "{exp(1000)}"}}), "steps[0].let.x"),
    "a parameter that changes": (
        each({"if": "i > 0", "then": [volts("{v}"), {"let": {"v": 99}}]})
        | {"parameters": {"v": {"type": "float", "default": 1}}},
        "steps[0].steps[0].then[0]"),
    "a loop's value that changes": (
        each({"for": "j", "in": [1, 2], "steps": [volts("{i}"), {"let": {"i": 99}}]}),
        "steps[0].steps[0].steps[0]"),
    "a reading in `with`": (plan(READ) | {"with": {"s": {"channel": "{v}"}}}, "with.s.channel"),
    "a parameter of no command": (plan() | {"with": {"s": {"channel": 1, "chanel": 1}}},
                                  "with.s.chanel"),
    # Limits.
    "limits the wrong way round": (plan({**JUDGE, "min": 5, "max": 2}), "steps[0].min"),
    "nothing but marginal": (plan({**JUDGE, "max": 2, "near": 5}), "steps[0].near"),
    "near less than nothing": (plan({**JUDGE, "near": -1}), "steps[0].near"),
    "a limit that is no number": (plan({**JUDGE, "min": math.nan}), "steps[0].min"),
    "a text that is judged": (plan({"let": {"t": "abc"}}, {**JUDGE, "value": "{t}"}),
                              "steps[1].value"),
    "a drift of less than nothing": (plan({**SETTLE, "drift": -1}), "steps[0].drift"),
    "a question without an answer": (plan({**ASK, "type": "number", "min": 5, "max": 1}),
                                     "steps[0].min"),
    "a ramp out of the limits": (plan({"ramp": "s.set_voltage", "to": 99, "rate": 1}),
                                 "steps[0].ramp"),
    "a ramp that stands": (plan({"ramp": "s.set_voltage", "to": 1, "rate": 0}), "steps[0].rate"),
    "a ramp at a rate that is read": (
        plan(READ, {"ramp": "s.set_voltage", "to": 1, "rate": "{v}"}), "steps[1].rate"),
    # Names and files.
    "a name with an umlaut": (plan({"let": {"größe": 1}}), "steps[0].let.größe"),
    "a path": (plan({"wait_s": 0}, experiment="../../etc"), "experiment"),
    "a table that is a path": (plan(log={"../x": LOG}), "log.../x"),
    "two tables that are one file": (plan(log={"T": LOG, "t": LOG}), "log.t"),
    "a table that is the data": (plan(log={"DATA": LOG}), "log.DATA"),
    "a control character": (plan(part={"number": "a\x1b[31m"}), "part.number"),
    "a column in two units": (plan({"measure": {"v": "m.measure_dc_voltage"}},
                                   {"measure": {"v": "s.measure_current"}}),
                              "steps[1].measure.v"),
    "a plot of nothing": (plan(plots=[{}]), "plots[0]"),
    "another format": (plan(format=2), "format"),
    "a format that is true": (plan(format=True), "format"),
    # YAML.
    "a loop twice by an alias": (
        f"{HEAD}  - &a {{for: i, in: [1], steps: [{{row: {{x: i}}}}]}}\n  - *a\n", "steps[0].for"),
    "a merge key": (f"{HEAD}  - {{<<: {{wait_s: 1}}}}\n", ""),
    "a key twice": (f"{HEAD}  - {{wait_s: 1, wait_s: 2}}\n", ""),
    "a tag": (f"{HEAD}  - !!python/object:os.system {{wait_s: 1}}\n", ""),
    "two documents": (f"{HEAD}  - {{wait_s: 1}}\n---\na: 1\n", ""),
    "an alias in itself": (f"{HEAD}  - &a [*a]\n", ""),
    "too large a file": (HEAD + "  - {wait_s: 1}\n" * 20_000, ""),
    "tabs": (f"{HEAD}\t- {{wait_s: 1}}\n", ""),
    "minutes and seconds": (f"{HEAD}  - {{wait_s: 1:30}}\n", "steps[0].wait_s"),
    "too many steps": (plan(*[{"wait_s": 0}] * 1_001), "steps"),
}  # fmt: skip

GOOD: dict[str, tuple[Plan | str, str]] = {
    "a condition keeps a division by zero away": (
        each({"if": "not (i == 0)", "then": [{"let": {"y": "{1 / i}"}}]}), "completed"),
    "a loop is left before a division by zero": (
        plan({"for": "i", "in": [1, 0], "steps": [
            {"if": "i == 0", "then": [{"leave": "i"}]}, {"let": {"y": "{1 / i}"}}]}), "completed"),
    "a long wait behind a leave": (
        plan({"for": "i", "in": {"count": 1000}, "steps": [
            {"leave": "i"}, {"wait_s": 3600}]}), "completed"),
    "an empty loop": (each({"wait_s": 0}) | {"steps": [{**LOOP, "steps": []}]}, "completed"),
    "a unit that is a path and one that is a formula": (
        plan({"for": "b", "in": ["../../x", "=1+1"], "unit": "{b}", "steps": [JUDGE]},
             report={"per": "unit", "formats": ["junit", "openhtf"]}), "completed"),
    "a check that is called a formula": (
        plan({"check": "=cmd|' /C calc'!A0", "value": 1, "min": 0}), "completed"),
    "a reading of what is switched off": (
        plan({"command": "s.output_off"}, {"measure": {"i": "s.measure_current"}}), "completed"),
    "a step twice by an alias": (
        f"{HEAD}  - &a {{command: s.output_on}}\n  - *a\n  - {{command: s.output_off}}\n",
        "completed"),
    "a ramp that at_most_h ends": (
        plan(volts(0), {"ramp": "s.set_voltage", "to": 5, "rate": 1e-4}, at_most_h=0.01),
        "stopped"),
}  # fmt: skip


@promise("experiment.no-surprise")
def test_what_is_wrong_is_said_where_it_stands() -> None:
    async def story(lab: TwinLab) -> dict[str, Any]:
        found = {}
        for name, (wanted, _) in WRONG.items():
            key = "text" if isinstance(wanted, str) else "plan"
            told = (await lab.tool("bench__check_experiment", **{key: wanted})).data
            found[name] = [error["path"] for error in told.get("errors", ())]
            if isinstance(wanted, str):
                assert all(error["line"] for error in told["errors"]), name
        return found

    assert on_twins(story, "psu1", "dmm1") == {name: [path] for name, (_, path) in WRONG.items()}
    assert len(WRONG) + len(GOOD) >= 75


@promise("experiment.no-surprise")
@pytest.mark.parametrize("name", GOOD)
def test_what_looks_wrong_and_is_not_ends_as_it_is_written(name: str) -> None:
    wanted, state = GOOD[name]

    async def story(lab: TwinLab) -> Any:
        run = await lab.run(wanted)
        return await lab.ended(run.run_id)

    told = on_twins(story, "psu1", "dmm1")
    assert (told["state"], told["error"]) == (state, None)
