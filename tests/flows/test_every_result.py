"""Every tool is walked through: good calls, bad ones, dry runs; each result fits what is listed."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.bench.engine import Engine, running_engine
from tests.bench.mcp_client import Answer
from tests.bench.waiting import HANGS_S
from tests.promises import promise

SUPPLY = "psu1"
VERSION = "2025-11-25"
CHANNEL = {"channel": 1}
VOLTAGE = {"instrument_id": SUPPLY, "command_name": "set_voltage"}
RAMP = {**VOLTAGE, "parameters": CHANNEL, "target_value": 20, "sweep_rate": 0.05}
MEASURED = {"instrument_id": SUPPLY, "command_name": "measure_voltage", "parameters": CHANNEL}
POINT = {"instrument_id": SUPPLY, "sequence_name": "voltage_point"}
POINT_VALUES = {"channel": 1, "voltage": 0.5, "settle_ms": 0}
CAPTURE = {"instrument_id": "scope1", "command_name": "capture_waveform"}
OVER = {**VOLTAGE, "parameters": {"channel": 1, "voltage": 99}}


class Walk:
    """One client that holds every result against the list."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.tools = {tool["name"]: tool for tool in self._ask("tools/list")["tools"]}
        self.called: set[str] = set()

    def __call__(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """One call; its structured content."""
        result = self._ask("tools/call", name=tool, arguments=arguments)
        # Of a picture there is a line about it, and nothing else.
        structured = result.get("structuredContent", {})
        schema = self.tools[tool].get("outputSchema")
        if schema is not None:
            Draft202012Validator(schema).validate(structured)
            assert list(unnamed(schema, structured, tool)) == []
        if result["isError"]:
            error = structured["error"]
            assert {"code", "message", "remedy"} <= set(error), error
            assert set(error) <= {"code", "message", "remedy", "sent", "data"}, error
        self.called.add(tool)
        return {**structured, "isError": result["isError"]}

    def refused(self, tool: str, /, **arguments: Any) -> None:
        assert self(tool, **arguments)["isError"] is True, tool

    def _ask(self, method: str, **params: Any) -> dict[str, Any]:
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": VERSION,
        }
        request = urllib.request.Request(self.engine.mcp_url, body.encode(), headers)
        with urllib.request.urlopen(request, timeout=HANGS_S) as reply:
            told = Answer.of(reply).messages()[-1]
        result: dict[str, Any] = told["result"]
        return result


def unnamed(schema: Mapping[str, Any], value: Any, place: str) -> Iterator[str]:
    """Members that a schema has properties for, but not for these."""
    if isinstance(value, dict) and "properties" in schema:
        for name, inner in value.items():
            if name in schema["properties"]:
                yield from unnamed(schema["properties"][name], inner, f"{place}.{name}")
            else:
                yield f"{place}.{name}"
    if isinstance(value, list) and "items" in schema:
        for inner in value:
            yield from unnamed(schema["items"], inner, f"{place}[]")


@pytest.fixture(scope="module")
def walk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Walk]:
    with running_engine(tmp_path_factory.mktemp("walk")) as engine:
        yield Walk(engine)


def needed(tool: Mapping[str, Any]) -> list[str]:
    """The arguments without which there is no call."""
    required: list[str] = tool["inputSchema"].get("required", [])
    return required


@promise("results.named")
@promise("results.one-error")
def test_every_result_fits_what_is_listed_and_has_no_member_that_is_not(walk: Walk) -> None:
    for name, tool in walk.tools.items():
        if "__" not in name and tool["annotations"]["idempotentHint"] and not needed(tool):
            walk(name)
    _walk_commands(walk)
    _walk_sequences(walk)
    _walk_sweeps(walk)
    _walk_streams(walk)
    _walk_experiments(walk)
    _walk_bench(walk)
    assert walk.called >= {name for name, tool in walk.tools.items() if "outputSchema" in tool}
    assert walk.called >= {name for name in walk.tools if name.startswith("bench__")}


@promise("results.named")
def test_every_command_of_the_bench_has_a_result_that_is_named(walk: Walk) -> None:
    for tool in walk.tools.values():
        if tool["annotations"]["readOnlyHint"] and not tool["inputSchema"].get("required"):
            walk(tool["name"])
    for unit in walk("get_capabilities")["capabilities"]:
        for command in unit["commands"]:
            if command["is_query"] and not command["parameters"].get("required"):
                name = {"instrument_id": unit["instrument_id"], "command_name": command["name"]}
                walk("execute_command", **name)
                walk("execute_command", **name, dry_run=True)


@promise("results.named")
@promise("results.one-error")
def test_what_the_owner_refuses_and_somebody_stops_is_named_too(tmp_path: Path) -> None:
    rules = {
        "limits": {"set_voltage": {"voltage": {"max": 12}}},
        "max_rate": {"set_voltage": 0.5},
        "deny": ["ovp_off"],
        "budget": {"set_current": {"per_hour": 1}},
        "confirm": ["output_on"],
        "confirm_by": ["cli"],
        "confirm_ttl_s": 1,
    }
    (tmp_path / "bench.yaml").write_text(json.dumps({"format": 1, SUPPLY: rules}))
    with running_engine(tmp_path, "--instruments", SUPPLY) as engine:
        walk = Walk(engine)
        _walk_rules(walk)
        _walk_stops(walk)


def _walk_rules(walk: Walk) -> None:
    over = {"channel": 1, "voltage": 20}
    current = {"channel": 1, "current": 1}
    for command, parameters in (
        ("set_voltage", over),
        ("ovp_off", CHANNEL),
        ("set_current", current),
        ("set_current", current),
        ("output_on", CHANNEL),
    ):
        asked = {"instrument_id": SUPPLY, "command_name": command, "parameters": parameters}
        walk("execute_command", **asked, dry_run=True)
        walk("execute_command", **asked)
    for line in (":FOO 1", ":SOUR1:VOLT 20", ":OUTP CH1,ON"):
        walk("send_scpi", instrument_id=SUPPLY, scpi_command=line, dry_run=True)
        walk.refused("send_scpi", instrument_id=SUPPLY, scpi_command=line)
    ramp = {**RAMP, "target_value": 5}
    for wish in ({"target_value": 20}, {"sweep_rate": 100}):
        walk.refused("start_sweep", **{**ramp, **wish})
        walk.refused("start_sweep", **{**ramp, **wish}, dry_run=True)
    stop_when = {"column": "measure_voltage", "op": ">", "value": 3, "then": "abort"}
    full = {"measure": [MEASURED], "points": {"count": 3}, "stop_when": stop_when, "then": "abort"}
    walk("start_sweep", **ramp, **full, dry_run=True)
    # The step that switches the output on needs a person.
    walk("execute_sequence", **POINT, parameters=POINT_VALUES, dry_run=True)
    walk.refused("execute_sequence", **POINT, parameters=POINT_VALUES)


def _walk_stops(walk: Walk) -> None:
    check = {"instrument_id": SUPPLY, "sequence_name": "safe_state_check"}
    with ThreadPoolExecutor(1) as other:
        for stop in ("bench__stop_all", "stop_stream"):
            stream = other.submit(walk, "start_stream", **MEASURED, interval_ms=20)
            while not (running := walk("get_status")["streams"]):
                continue
            given = {"stream_id": running[0]["stream_id"]} if stop == "stop_stream" else {}
            walk(stop, **given)
            assert stream.result()["reason"]
    walk("execute_sequence", **check)
    sweep = walk("start_sweep", **{**RAMP, "target_value": 5}, measure=[MEASURED])["sweep_id"]
    walk.refused("execute_command", **VOLTAGE, parameters={"channel": 1, "voltage": 1})
    walk("execute_command", **VOLTAGE, parameters={"channel": 1, "voltage": 1}, dry_run=True)
    walk("bench__stop_all")
    walk("get_sweep_status", sweep_id=sweep, points=3)
    walk("stop_sweep", sweep_id=sweep)


def _walk_commands(walk: Walk) -> None:
    assert walk("execute_command", **MEASURED)["unit"] == "V"
    walk("execute_command", **VOLTAGE, parameters={"channel": 1, "voltage": 1})
    assert "previous" in walk("execute_command", **VOLTAGE, parameters={"channel": 1, "voltage": 2})
    assert walk("execute_command", **MEASURED, dry_run=True)["would_send"]
    walk.refused("execute_command", **OVER)
    walk.refused("execute_command", **OVER, dry_run=True)
    walk.refused("execute_command", instrument_id="nobody", command_name="x")
    walk.engine.sim("fault", instrument=SUPPLY, kind="timeout", count=2)
    walk.refused("execute_command", **MEASURED)
    walk("execute_command", **CAPTURE)
    walk("execute_command", **CAPTURE, dry_run=True)
    walk("send_scpi", instrument_id=SUPPLY, scpi_command="*IDN?")
    walk("send_scpi", instrument_id=SUPPLY, scpi_command="*IDN?", dry_run=True)
    for line in (":NO:SUCH:HEADER 1", ":NO:SUCH?", ":OUTP CH1,BLUE"):
        told = walk("send_scpi", instrument_id=SUPPLY, scpi_command=line)
        assert told["isError"] is True
        assert told["response"] is None
        assert told["execution_time_ms"] >= 0
    walk.refused("send_scpi", instrument_id="nobody", scpi_command="*IDN?")


def _walk_sequences(walk: Walk) -> None:
    walk("execute_sequence", **POINT, parameters=POINT_VALUES)
    walk("execute_sequence", **POINT, parameters=POINT_VALUES, dry_run=True)
    walk("execute_sequence", **POINT, parameters=POINT_VALUES, detach=True)
    walk.refused("execute_sequence", **POINT, parameters={**POINT_VALUES, "voltage": 99})
    walk.refused("execute_sequence", instrument_id=SUPPLY, sequence_name="none")
    walk("bench__stop_all")
    walk.engine.sim("fault", instrument=SUPPLY, kind="timeout", count=5)
    walk.refused("execute_sequence", **POINT, parameters=POINT_VALUES)
    walk.engine.sim("clear")


def _walk_sweeps(walk: Walk) -> None:
    walk("start_sweep", **RAMP, dry_run=True)
    sweep = walk("start_sweep", **RAMP, measure=[MEASURED])["sweep_id"]
    walk("get_sweep_status", sweep_id=sweep, points=5)
    walk("get_sweep_status", sweep_id=sweep, format="png")
    walk.refused("start_sweep", **RAMP)
    walk("stop_sweep", sweep_id=sweep, hold=True)
    walk("stop_sweep", sweep_id=sweep)
    walk("stop_sweep", sweep_id=sweep)
    for tool in ("get_sweep_status", "stop_sweep"):
        walk.refused(tool, sweep_id="nosuch")
        walk.refused(tool)
    walk.refused("start_sweep", **{**RAMP, "sweep_rate": 0})
    walk.refused("start_sweep", **{**RAMP, "target_value": 99})
    walk.refused("start_sweep", **{**RAMP, "command_name": "output_on"})


def _walk_streams(walk: Walk) -> None:
    done = walk("start_stream", **MEASURED, interval_ms=20, duration_ms=50)
    detached = walk("start_stream", **MEASURED, interval_ms=20, duration_ms=60_000, detach=True)
    walk("stop_stream", stream_id=detached["stream_id"])
    walk("stop_stream", stream_id=done["stream_id"])
    walk.refused("stop_stream", stream_id="nosuch")
    walk.refused("start_stream", **{**MEASURED, "command_name": "none"})
    waveform = walk("start_stream", **CAPTURE, interval_ms=50, duration_ms=60)["stream_id"]
    for form in ("base64", "summary", "decimated", "png"):
        walk("fetch_waveform", stream_id=waveform, point_index=0, format=form)
    walk.refused("fetch_waveform", stream_id=waveform, point_index=99)
    walk.refused("fetch_waveform", stream_id="nosuch", point_index=0)
    walk("bench__runs", run_id=done["stream_id"])
    walk("bench__plot", run_id=done["stream_id"], y="value")
    walk("bench__stop_run", run_id=detached["stream_id"])


def _walk_experiments(walk: Walk) -> None:
    plan = {
        "format": 1,
        "experiment": "walked",
        "roles": {"supply": SUPPLY},
        "with": {"supply": {"channel": 1}},
        "steps": [{"measure": {"v": "supply.measure_voltage"}}, {"wait_s": 60}],
    }
    checked = walk("bench__check_experiment", plan=plan)
    assert walk("bench__check_experiment", plan={**plan, "roles": {"supply": "x"}})["errors"]
    walk.refused("bench__check_experiment", name="nosuch")
    run_id = walk("bench__start_experiment", plan_id=checked["plan_id"])["run_id"]
    walk.refused("bench__start_experiment", plan_id="nosuch")
    for action in ("status", "pause", "resume", "abort"):
        walk("bench__control_run", run_id=run_id, action=action)
    walk.refused("bench__control_run", run_id=run_id, action="answer", value="yes")
    walk.refused("bench__control_run", run_id="nosuch")


def _walk_bench(walk: Walk) -> None:
    walk("bench__check")
    walk("bench__find_tools", query="voltage")
    walk("bench__history")
    walk("bench__runs")
    lease = walk("bench__reserve", instruments=SUPPLY)["lease_id"]
    walk.refused("bench__reserve", instruments=["nobody"])
    walk.refused("execute_command", **VOLTAGE, parameters={"channel": 1, "voltage": 1})
    walk("bench__renew", lease_id=lease)
    walk("bench__release", lease_id=lease)
    for tool, name in (("bench__renew", "lease_id"), ("bench__stop_run", "run_id")):
        walk.refused(tool, **{name: "nosuch"})
    walk.refused("bench__release", lease_id=lease)
    walk.refused("bench__plot", run_id="nosuch")
    walk.refused("bench__find_tools", query="")
    walk.refused("get_capabilities", instrument_id="nobody")
    assert walk("get_capabilities", instrument_class="oven")["capabilities"] == []
    assert walk("get_capabilities", instrument_class="no such class")["capabilities"] == []
