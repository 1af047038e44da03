"""What the check lets pass ends well, and what it says to write in the place of an error does."""

from __future__ import annotations

import copy
import functools
import re
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from edged.profiles.budget import Budget
from edged.profiles.confirm import parse_confirm
from edged.profiles.model import Bound
from edged.profiles.unit_rules import UnitRules
from edged.yaml.tree import Mark
from tests.bench.twin_lab import TwinLab, on_twins
from tests.promises import promise

Plan = dict[str, Any]
ROLES = {"s": "psu1", "m": "dmm1"}
ENDS = [{"ramp": "s.set_voltage", "to": 0, "rate": 100}, {"command": "s.output_off"}]


def plan(*steps: Any, **more: Any) -> Plan:
    return {
        "format": 1,
        "experiment": "x",
        "roles": dict(ROLES),
        "with": {"s": {"channel": 1}},
        "steps": list(steps),
        "finally": copy.deepcopy(ENDS),
        **more,
    }


# Random plans

READ = {"read": {"v": "m.measure_dc_voltage"}}
NOT_KNOWN = "bounds|with these values|which has no value"
WHERE = ("note", "end", "abort", "fail")
numbers = st.one_of(
    st.sampled_from([0, 0.5, 1, 2, 1.234567, 2.5, 5, 1e-5]),
    st.sampled_from([-1, 24, 24.5, 31.9, 33]),
)


def volts(voltage: Any) -> dict[str, Any]:
    return {"command": "s.set_voltage", "parameters": {"voltage": voltage}}


class Writer:
    """Writes a plan as somebody does who knows which names have a value."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.loops: list[str] = []
        self.units = 0
        self.count = 0

    def one(self, *choices: Any) -> Any:
        return self.draw(st.sampled_from(choices))

    def value(self, names: list[str]) -> Any:
        name, other = self.one(*names, "v_max"), self.one(*names, "v_max")
        return self.one(
            self.draw(numbers),
            f"{{{name}}}",
            f"{{{name} * 2 - {other}}}",
            f"{{min(max({name}, 0), 3)}}",
            f"{{round({name})}}",
            f"{{{name} / {other}}}",
            f"{{sqrt({name})}}",
        )

    def condition(self, names: list[str]) -> str:
        name = self.one(*names, "v_max")
        return str(self.one(f"{name} > 1", f"not ({name} == 1)", f"{name} < 100 or {name} > 3"))

    def steps(self, names: list[str], depth: int = 0) -> list[Any]:
        """``names`` grows by those that these steps give a value."""
        return [self.step(names, depth) for _ in range(self.draw(st.integers(1, 4 - depth)))]

    def step(self, names: list[str], depth: int) -> dict[str, Any]:
        kinds = [name for name in dir(self) if name.startswith("do_")]
        inner = [name for name in dir(self) if name.startswith("in_")] if depth < 2 else []
        made: dict[str, Any] = getattr(self, self.one(*kinds, *inner, *inner))(names, depth)
        return made

    def do_volts(self, names: list[str], _depth: int) -> Any:
        return volts(self.value(names))

    def do_both(self, names: list[str], _depth: int) -> Any:
        given_ = {"voltage": self.value(names), "current": self.one(0.1, 0.2, "{v_max / 10}")}
        return {"command": "s.set_voltage_and_current", "parameters": given_}

    def do_switch(self, _names: list[str], _depth: int) -> Any:
        return {"command": self.one("s.output_on", "s.output_on", "s.output_off")}

    def do_wait(self, names: list[str], _depth: int) -> Any:
        name = self.one(*names, "v_max")
        return {"wait_s": self.one(0, 0.5, 60, -1, f"{name}", f"1 / ({name} - 1)")}

    def do_read(self, names: list[str], _depth: int) -> Any:
        name = self.one("v", "v", "w", "u")
        target = {"v": "m.measure_dc_voltage", "w": "s.measure_current", "u": "s.measure_all.power"}
        names.append(name)
        return {self.one("read", "measure"): {name: target[name]}}

    def do_ask(self, names: list[str], _depth: int) -> Any:
        name = self.one(*names, "v_max")
        ends = ["abort", *(["end"] if self.loops else []), *(["end_unit"] if self.units else [])]
        return {"ask": self.one("q", name), "text": self.one("go on?", f"{{{name}}} V?"),
                "type": self.one("confirm", "number"), "timeout_s": 1,
                "on_timeout": self.one(*ends)}  # fmt: skip

    def do_shadow(self, names: list[str], _depth: int) -> Any:
        """Another value for a name that had one: a parameter's, a loop's, a constant's."""
        return {"let": {self.one(*names, "v_max"): self.value(names)}}

    def do_row(self, names: list[str], _depth: int) -> Any:
        return {"row": {"x": self.one(*names, "v_max"), "y": self.value(names)}}

    def do_let(self, names: list[str], _depth: int) -> Any:
        value = self.value(names)
        name = self.one("a", "b", "c")
        names.append(name)
        return {"let": {name: value}}

    def do_check(self, names: list[str], _depth: int) -> Any:
        near = self.one({}, {"near": 0.1}, {"min": self.value(names)})
        on_fail = self.one("note", "note", "abort", *(["end_unit"] if self.units else []))
        return {"check": "c", "value": self.one(*names, "v_max"), "max": self.value(names), **near,
                "on_fail": on_fail}  # fmt: skip

    def do_ramp(self, names: list[str], _depth: int) -> Any:
        rate = self.one(1, 10, 500, "v_max")
        return {"ramp": "s.set_voltage", "to": self.value(names), "rate": rate}

    def do_poll(self, names: list[str], _depth: int) -> Any:
        bound = self.one("value > 1", "value > -1", f"value < {self.one(*names, 'v_max')}")
        return {"poll": "m.measure_dc_voltage", "until": bound, "timeout_s": self.one(0.2, 2),
                "on_timeout": self.one("note", "end") if self.loops else "note"}  # fmt: skip

    def do_settle(self, names: list[str], _depth: int) -> Any:
        return {"settle": "m.measure_dc_voltage", "drift": self.value(names), "for_s": 0.5,
                "timeout_s": 3, "every_s": self.one(0.05, 0.25), "on_timeout": "note"}  # fmt: skip

    def do_leave(self, names: list[str], _depth: int) -> Any:
        if not self.loops:
            return {"wait_s": 0}
        return {"if": self.condition(names), "then": [{"leave": self.one(*self.loops)}]}

    def in_for(self, names: list[str], depth: int) -> Any:
        self.count += 1
        loop = f"i{self.count}"
        low, high = self.draw(numbers), self.draw(numbers)
        made = {
            "for": loop,
            "in": self.one(
                [low], [low, high, 2], {"lin": [low, high, 3]}, {"log": [0.1, 10, 3]}, {"count": 3},
                {"count": "{v_max}"}, {"lin": [0, "{v_max}", 2]},
                ["{v_max}", f"{{{self.one(*names)}}}"],
                {"count": f"{{min(max(round({self.one(*names)}), 1), 3)}}"},
            ),
            **self.one({}, {"set": "s.set_voltage"}, {"set": "s.set_voltage", "rate": 50},
                       {"set": "s.set_voltage", "rate": 50, "snake": True, "wait_s": "v_max / 10"},
                       {"set": "s.set_current"}, {"on_error": "skip"},
                       {"finally": [{"command": "s.output_off"}, volts(0)]},
                       {"unit": f"{{{loop}}}"}),
        }  # fmt: skip
        self.loops.append(loop)
        self.units += "unit" in made
        made["steps"] = self.steps([*names, loop], depth + 1)
        self.units -= "unit" in made
        self.loops.pop()
        return made

    def in_repeat(self, names: list[str], depth: int) -> Any:
        self.count += 1
        loop = f"k{self.count}"
        self.loops.append(loop)
        steps = self.steps(names, depth + 1)
        self.loops.pop()
        return {"repeat": loop, "at_most": 3, "until": self.condition(names), "steps": steps}

    def in_if(self, names: list[str], depth: int) -> Any:
        then, otherwise = self.steps([*names], depth + 1), self.steps([*names], depth + 1)
        return {"if": self.condition(names), "then": then, "else": otherwise}

    def in_first(self, names: list[str], depth: int) -> Any:
        return {"first": self.steps(names, depth + 1)}


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """A plan of every kind of step; most pass the check."""
    writer = Writer(draw)
    begin = writer.one({"let": {"a": 1, "b": 2}}, {"let": {"a": "{v_max}", "b": 0.5}})
    more: Plan = {
        "bounds": writer.one({}, {"s.set_voltage.voltage": [0, 5]},
                             {"s.set_voltage.voltage": [0, 24],
                              "s.set_voltage_and_current.voltage": [0, 3]}),
        "parameters": {"v_max": {"type": "int", "min": 1, "max": 4, "default": 2}},
        **writer.one({}, {"log": {"T": {"command": "m.measure_dc_voltage", "every_s": 0.5}}},
                     {"on_pause": [{"command": "s.output_off"}]},
                     {"watch": [{"read": "m.measure_dc_voltage", "must": "value < 100",
                                 "every_s": 0.5, "else": "note"}]},
                     {"on_missing": {"m": {"tries": 2, "then": "nan"}}}),
    }  # fmt: skip
    return plan(begin, *writer.steps(["a", "b"]), **more)


def is_known(error: str, wanted: Plan) -> bool:
    """Whether the check could have worked out what the run could not."""
    found = re.search(r'The expression "([^"]*)"', error)
    keeps_away = re.search("'(if|leave|on_error|unit|repeat)'|'(end|end_unit|skip)'", str(wanted))
    if found is None or keeps_away:
        return False
    names = set(re.findall(r"[a-z_]\w*", found[1])) - {"min", "max", "round", "sqrt", "not", "or"}
    changed = set(re.findall(r"'(?:let|read|measure)': \{'(\w+)'|'ask': '(\w+)'", str(wanted)))
    return names.isdisjoint(name for pair in changed for name in pair)


rules = st.sampled_from(
    [
        {},
        {"limits": {"set_voltage": {"voltage": Bound(max=24)}}},
        {"max_rate": {"set_voltage": 20.0}},
        {"requires_sweep": frozenset({"set_voltage"})},
        {"budget": {"output_on": Budget(per_hour=3, min_interval_s=1.0)}},
        {"confirm": (parse_confirm("output_on"), parse_confirm("set_voltage.voltage > 3"))},
        {"confirm": (parse_confirm("set_voltage.voltage == 1"),)},
        {"budget": {"set_voltage": Budget(per_hour=20)}},
    ]
)  # fmt: skip


def owner(**said: Any) -> UnitRules:
    """What the owner of the supply has written."""
    return UnitRules(**said, marks={"": Mark(path="bench.yaml", line=1, column=1)})


@promise("experiment.no-surprise")
@settings(
    max_examples=30, deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)  # fmt: skip
@given(wanted=plans(), said=rules)
def test_what_passes_the_check_ends_without_an_error_that_it_could_have_known(
    wanted: Plan, said: Mapping[str, Any]
) -> None:
    async def story(lab: TwinLab) -> tuple[bool, Any]:
        checked = (await lab.tool("bench__check_experiment", plan=wanted)).data
        if not checked["ok"]:
            return False, checked["errors"]
        answer = True if "approval" in checked["needs"] else None
        outcome = await lab.start({"plan_id": checked["plan_id"]}, answer=answer)
        assert outcome.error is None, outcome.error
        return True, await lab.ended(outcome.data["run_id"])

    passed, told = on_twins(
        story,
        "psu1",
        "dmm1",
        rules={"psu1": owner(**said)},
    )
    event(f"passes: {passed}")
    if passed:
        # A reading may leave its bounds, or be no value of an expression: nobody can know before.
        error = str(told["error"])
        is_of_a_reading = re.search(NOT_KNOWN, error) and not is_known(error, wanted)
        is_wished = told["state"] == "stopped" and told["error"] is None
        assert told["state"] == "completed" or is_wished or is_of_a_reading, told["error"]
    else:
        assert told


V_MAX = {"v_max": {"type": "int", "min": 1, "max": 4, "default": 2}}


@pytest.mark.parametrize(
    "step",
    [
        {"settle": "m.measure_dc_voltage", "drift": "{1 / 0}", "for_s": 1, "every_s": 0.2},
        {"settle": "m.measure_dc_voltage", "target": "{sqrt(v_max - 9)}", "within": 1, "for_s": 1},
        {"check": "c", "value": "{v_max}", "max": "{1 / (v_max - v_max)}"},
        volts("{1 / 0}"),
        {"wait_s": "{1 / 0}"},
    ],
    ids=["drift", "target", "max", "argument", "wait"],
)
def test_an_expression_of_what_is_known_is_worked_out_by_the_check(step: dict[str, Any]) -> None:
    async def story(lab: TwinLab) -> Any:
        return (await lab.tool("bench__check_experiment", plan=plan(step, parameters=V_MAX))).data

    told = on_twins(story, "psu1", "dmm1")
    assert not told["ok"]
    assert re.search("with these values|which has no value", told["errors"][0]["message"])


def test_a_parameter_that_is_unfit_is_one_error() -> None:
    async def story(lab: TwinLab) -> Any:
        wanted = plan(volts("{v_max}"), parameters=V_MAX)
        given = {"plan": wanted, "parameters": {"v_max": "abc"}}
        return (await lab.tool("bench__check_experiment", **given)).data

    told = on_twins(story, "psu1", "dmm1")
    assert [error["path"] for error in told["errors"]] == ["parameters.v_max"]


def test_braces_inside_of_a_text_are_no_expression() -> None:
    async def story(lab: TwinLab) -> Any:
        loop = {"for": "b", "in": {"count": 2}, "unit": "board {b}", "steps": [{"wait_s": 0}]}
        return (await lab.tool("bench__check_experiment", plan=plan(loop))).data

    told = on_twins(story, "psu1", "dmm1")
    assert [error["path"] for error in told["errors"]] == ["steps[0].unit"]
    assert "no expression" in told["errors"][0]["message"]


@pytest.mark.parametrize(("per_hour", "is_fit"), [(19, False), (21, True)])
def test_the_steps_of_a_ramp_count_for_a_budget(per_hour: int, is_fit: bool) -> None:
    async def story(lab: TwinLab) -> Any:
        ramp = {"ramp": "s.set_voltage", "to": 2, "rate": 1}
        return (await lab.tool("bench__check_experiment", plan=plan(ramp))).data

    budget = {"set_voltage": Budget(per_hour=per_hour, min_interval_s=None)}
    told = on_twins(story, "psu1", "dmm1", rules={"psu1": owner(budget=budget)})
    assert told["ok"] is is_fit


def test_another_channel_is_no_place_where_a_ramp_can_begin() -> None:
    async def story(lab: TwinLab) -> Any:
        other = {"command": "s.set_voltage", "parameters": {"channel": 2, "voltage": 5}}
        ramp = {"ramp": "s.set_voltage", "to": 2, "rate": 1}
        return (await lab.tool("bench__check_experiment", plan=plan(other, ramp))).data

    budget = {"set_voltage": Budget(per_hour=22, min_interval_s=None)}
    told = on_twins(story, "psu1", "dmm1", rules={"psu1": owner(budget=budget)})
    assert told["ok"], told["errors"]


# Remedies

LOOP = {"for": "i", "in": [1, 2], "set": "s.set_voltage", "steps": [{"row": {"x": "i"}}]}
SETTLE = {"settle": "m.measure_dc_voltage", "drift": 1, "for_s": 1, "every_s": 0.2}
LOG = {"command": "m.measure_dc_voltage", "every_s": 1}

MISTAKES: dict[str, Plan] = {
    "a command that is spelled wrongly": plan({"command": "s.output_onn"}),
    "a role that is spelled wrongly": plan({"command": "ss.output_on"}),
    "a parameter that is spelled wrongly": plan(
        {"command": "s.set_voltage", "parameters": {"voltag": 1}}
    ),
    "a field that is spelled wrongly": plan({"read": {"p": "s.measure_all.powr"}}),
    "no field of an answer with several": plan({"read": {"p": "s.measure_all"}}),
    "a field of an answer that is one value": plan({"read": {"v": "m.measure_dc_voltage.value"}}),
    "a query that is spelled wrongly": plan({"measure": {"v": "m.measure_dc_volt"}}),
    "a name that is spelled wrongly": plan({"let": {"speed": 1}}, {"wait_s": "{sped}"}),
    "a name without a value on every way": plan(
        READ, {"if": "v > 1", "then": [{"let": {"x": 1}}]}, {"row": {"y": "x"}}
    ),
    "a column that is the loop's": plan({**LOOP, "steps": [{"row": {"i": "i"}}]}),
    "a log that has another file's name": plan({"wait_s": 0}, log={"data": LOG}),
    "a set-point from a reading without bounds": plan(READ, volts("{v}")),
    "a ramp of what has no set-point query": plan({**LOOP, "set": "s.set_ovp_level", "rate": 1}),
    "a window that is too short": plan({**SETTLE, "for_s": 10, "timeout_s": 5}),
    "readings too far apart": plan({**SETTLE, "every_s": 0.8}),
    "a plot of no column": plan(LOOP, plots=[{"line": "xx"}]),
    "a key that is spelled wrongly": plan({**LOOP, "snaek": True}),
    "a key of the plan that is spelled wrongly": plan({"wait_s": 0}, finaly=[]),
    "a step that is spelled wrongly": plan({"wait": 1}),
    "a decimal comma": plan({"wait_s": "0,5"}),
    "a bad name": plan({"let": {"v-max": 1}}),
    "a command step with a field": plan({"command": "s.output_on.channel"}),
    "reports without checks": plan({"wait_s": 0}, report={"formats": ["html", "junit"]}),
    "a bound on no parameter": plan({"wait_s": 0}, bounds={"s.set_voltage.volts": [0, 1]}),
    "a loop that is left from outside": plan({**LOOP, "steps": [{"leave": "j"}]}),
    "a poll that is a command": plan({"poll": "m.measure_dc_voltag", "until": "value > 0"}),
    "a set-point that may only be ramped": plan({**LOOP, "set": "s.set_current", "in": [0.1, 0.2]}),
    "longer than it may take": plan({"wait_s": 7200}, at_most_h=1),
    "limits the wrong way round": plan({"check": "c", "value": 1, "min": 5, "max": 2}),
    "nothing but marginal": plan({"check": "c", "value": 1, "min": 0, "max": 2, "near": 5}),
    "a wait of less than nothing": plan({"wait_s": -5}),
    "a drift of less than nothing": plan({**SETTLE, "drift": -1}),
    "a loop to end that is not there": plan({**SETTLE, "on_timeout": "end"}),
    "a unit to end that is not there": plan(
        {"check": "c", "value": 1, "min": 0, "on_fail": "end_unit"}
    ),
    "a unit in a unit": plan(
        {"for": "i", "in": [1], "unit": "{i}", "steps": [{**LOOP, "for": "j", "unit": "{j}"}]}
    ),
    "a number that cannot be answered": plan(
        {"ask": "q", "text": "?", "type": "number", "min": 5, "max": 1}
    ),
    "a column in two units": plan(
        {"measure": {"v": "m.measure_dc_voltage"}}, {"measure": {"v": "s.measure_current"}}
    ),
    "two tables that are one file": plan({"wait_s": 0}, log={"T": LOG, "t": LOG}),
    "an argument that no command has": plan(
        {"wait_s": 0}, **{"with": {"s": {"channel": 1, "chanel": 1}}}
    ),
    "a role that with has alone": plan(
        {"wait_s": 0}, **{"with": {"s": {"channel": 1}, "ss": {"channel": 1}}}
    ),
    "a rate over the owner's": plan(
        {**LOOP, "set": "s.set_current", "in": [0.1, 0.2], "rate": 100}
    ),
    "a part of the plan that is empty": plan(volts(1), bounds={}, tags=[], part={}, roles=ROLES),
}


def keys_of(path: str) -> list[str | int]:
    """``steps[4].steps[1].set`` as keys; the name of a bound has dots of its own."""
    if path.startswith("bounds."):
        return ["bounds", path.removeprefix("bounds.")]
    found = re.findall(r"(\w[\w-]*)|\[(\d+)\]", path)
    return [name or int(number) for name, number in found]


def mended(wanted: Plan, problem: Mapping[str, Any]) -> bool:
    """Do what a remedy says, where it says the whole; whether it does."""
    *outer, key = keys_of(problem["path"])
    there = functools.reduce(lambda part, one: part[one], outer, wanted)
    remedy, message = problem["remedy"] or "", problem["message"]

    def rename(old: Any, new: str) -> None:
        there[new] = there.pop(old)

    match re.match(r"(Write|Did you mean|Call it|Known:|Leave|Add rate|Set|Give|Add to)", remedy):
        case None:
            return False
        case found:
            verb = found[0]
    words = remedy.rstrip(".?").split()
    last = words[-1].strip('".')
    match verb:
        case "Write" if problem["code"] == "unknown_parameter":
            rename(key, last)
        case "Write" if problem["code"] == "no_value":
            old = message.split()[0]
            there[key] = re.sub(rf"\b{old}\b", last, there[key])
        case "Write" | "Known:":
            there[key] = float(last) if re.fullmatch(r"[\d.]+", last) else last
        case "Did you mean" if isinstance(key, int):
            (old,) = there[key]
            there[key] = {last: there[key][old]}
        case "Did you mean" | "Call it":
            rename(key, last)
        case "Leave" if isinstance(there.get(key), list):
            there[key].remove(words[1])
        case "Leave":
            del there[words[1]]
        case "Add rate":
            there["rate"] = float(last)
        case "Set":
            number = float(next(word for word in words if re.fullmatch(r"[\d.]+", word)))
            there[key] = number * 1.01 if "above" in words else number
        case "Give":
            wanted["steps"].insert(0, {"let": {words[-2].strip("{:"): 0}})
        case "Add to":
            name = re.findall(r"\{(\S+): \[", remedy)[0]
            wanted.setdefault("bounds", {})[name] = [0, 1]
    return True


@promise("experiment.no-surprise")
def test_every_mistake_is_mended_by_what_its_remedy_says() -> None:
    async def story(lab: TwinLab) -> None:
        for mistake, wanted in MISTAKES.items():
            for _ in range(4):
                told = (await lab.tool("bench__check_experiment", plan=wanted)).data
                if told["ok"]:
                    break
                assert mended(wanted, told["errors"][0]), (mistake, told["errors"])
            assert told["ok"], (mistake, told["errors"])

    on_twins(story, "psu1", "dmm1", rules={"psu1": owner(max_rate={"set_current": 2.0})})
    assert len(MISTAKES) >= 15
