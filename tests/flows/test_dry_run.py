"""Before it happens: what a call would send, told on every road, and not a byte on any wire."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from edged.profiles.model import Command, Parameter
from edged.yaml.tree import Scalar
from tests.bench import command_line
from tests.bench.engine import Engine, running_engine
from tests.bench.mcp_client import McpClient
from tests.bench.shipped import shipped_library
from tests.bench.sim_bench import SimBench, running_bench
from tests.promises import promise

UNITS = {
    "psu1": "rigol_dp832", "dmm1": "keysight_34461a", "scope1": "rigol_ds1054z",
    "smu1": "keithley_2450",
}  # fmt: skip
MEMBERS = {"would_send", "checks", "conflicts", "needs", "steps", "duration_s"}
SET = {"channel": 1, "voltage": 2.5}
SWEEP = {
    "instrument_id": "psu1",
    "command_name": "set_voltage",
    "parameters": {"channel": 1},
    "target_value": 3,
    "sweep_rate": 1,
    "measure": [{"instrument_id": "dmm1", "command_name": "measure_dc_voltage"}],
}
IV = {"channel": 1, "start": 0, "stop": 1, "points": 3, "current_limit": 0.5}


@pytest.fixture(scope="module")
def bench() -> Iterator[SimBench]:
    named = ",".join(f"{name}={model}" for name, model in UNITS.items())
    with running_bench("--instruments", named) as running:
        yield running


@pytest.fixture(scope="module")
def engine(bench: SimBench, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    directory = tmp_path_factory.mktemp("dry")
    (directory / "bench.yaml").write_text(
        f"format: 1\n{bench.serial('psu1')}:\n"
        "  deny: [ovp_off]\n"
        "  limits: {set_voltage: {voltage: {max: 12}}}\n"
        "  max_rate: {set_voltage: 5}\n"
    )
    instruments = [{"address": bench.address(n), "name": n} for n in UNITS]
    with running_engine(directory, sim=False, config={"INSTRUMENTS": instruments}) as running:
        yield running


async def dry(engine: Engine, tool: str, **arguments: Any) -> dict[str, Any]:
    client = McpClient(engine.ports["mcp_port"])
    await client.initialize("2025-06-18")
    answer = await client.call(tool, {**arguments, "dry_run": True})
    assert answer.get("isError") is False, answer
    told: dict[str, Any] = answer["structuredContent"]
    return told


def heard(bench: SimBench, mark: int) -> list[str]:
    """Lines that came, but for the question of a line that was slow on a busy machine."""
    lines = [entry["text"].strip() for entry in bench.log(since=mark) if entry["direction"] == "in"]
    return [line for line in lines if line != "*IDN?"]


def tool_of(engine: Engine, end: str) -> str:
    tools = engine.rpc("tools/list")["tools"]
    return next(t["name"] for t in tools if t["name"].endswith(end) and "dp832" in t["name"])


ROADS: dict[str, tuple[str, dict[str, Any]]] = {
    "a command": (
        "execute_command",
        {"instrument_id": "psu1", "command_name": "set_voltage", "parameters": SET},
    ),
    "a question": (
        "execute_command",
        {"instrument_id": "dmm1", "command_name": "measure_dc_voltage"},
    ),
    "a capture": (
        "execute_command",
        {"instrument_id": "scope1", "command_name": "capture_waveform"},
    ),
    "a safe command": (
        "execute_command",
        {"instrument_id": "psu1", "command_name": "output_off", "parameters": {"channel": 1}},
    ),
    "a sequence": (
        "execute_sequence",
        {"instrument_id": "psu1", "sequence_name": "iv_curve", "parameters": IV},
    ),
    "a sweep": ("start_sweep", SWEEP),
    "raw SCPI": ("send_scpi", {"instrument_id": "psu1", "scpi_command": ":OUTP CH1,ON"}),
    "a command's own tool": ("__set_voltage", SET),
    "a sequence's own tool": ("__sequence__iv_curve", IV),
}


@promise("dry-run.every-road")
@pytest.mark.parametrize("road", ROADS)
async def test_no_road_sends_a_byte_and_all_tell_what_they_would(
    engine: Engine, bench: SimBench, road: str
) -> None:
    tool, arguments = ROADS[road]
    tool = tool_of(engine, tool) if tool.startswith("__") else tool
    newest = engine.rpc("audit.list", limit=1)["rows"][-1]["seq"]
    mark = bench.mark()
    told = await dry(engine, tool, **arguments)
    assert heard(bench, mark) == []
    assert told.keys() >= MEMBERS
    assert told["would_send"]
    assert told["needs"] == told["conflicts"] == []
    assert all(check["is_ok"] is not False for check in told["checks"])
    assert len(json.dumps(told)) <= 8 * 1024
    rows = engine.rpc("audit.list", after=newest)["rows"]
    (row,) = [row for row in rows if row["tool"] == tool]
    assert (row["phase"], row["outcome"], row["scpi"]) == ("end", "dry_run", "")


@promise("dry-run.every-road")
def test_the_command_line_has_it(engine: Engine, bench: SimBench) -> None:
    mark = bench.mark()
    call = ["call", "--dry-run", "--json", tool_of(engine, "__set_voltage"), "channel=1"]
    done = command_line.edged(*call, "voltage=2", "--state-dir", str(engine.state_dir))
    assert done.returncode == 0, done.stderr
    assert ":SOUR1:VOLT 2.000" in done.stdout
    assert heard(bench, mark) == []


def value_of(parameter: Parameter) -> Scalar:
    if parameter.default is not None:
        return parameter.default
    if parameter.options:
        return parameter.options[0]
    if parameter.type == "bool":
        return False
    if parameter.type == "string":
        return "X"
    low = parameter.min if parameter.min is not None else 1
    return int(low) if parameter.type == "int" else low


def asked_of(command: Command) -> dict[str, Scalar]:
    return {name: value_of(parameter) for name, parameter in command.parameters.items()}


PROFILES = shipped_library().profiles
EACH = [
    (unit, name)
    for unit, model in UNITS.items()
    for name, command in PROFILES[model].commands.items()
    # What takes its own time, or waits for somebody to press a button, proves nothing more here.
    if not command.requires_sweep and name not in {"reset", "self_test", "recall_state"}
]


@promise("dry-run.true")
async def test_what_is_told_is_what_is_sent_for_every_command(
    engine: Engine, bench: SimBench
) -> None:
    wrong, compared = {}, 0
    for unit, name in EACH:
        command = PROFILES[UNITS[unit]].commands[name]
        arguments = {
            "instrument_id": unit, "command_name": name, "parameters": asked_of(command),
        }  # fmt: skip
        told = engine.tool("execute_command", **arguments, dry_run=True)
        mark = bench.mark()
        done = engine.tool("execute_command", **arguments)
        if told["is_error"]:
            # Bad arguments are refused by the same words.
            assert told["error"] == done["error"]
            continue
        if done["is_error"]:
            # Not in the state for it; what would have come after was not said.
            continue
        # That its line is in step is the line's own question, asked where it is needed.
        sent = bench.received(unit, since=mark)
        if name != "identify":
            sent = [line for line in sent if line != "*IDN?"]
        if told["result"]["would_send"] != sent:
            wrong[unit, name] = (told["result"]["would_send"], sent)
        compared += 1
    assert wrong == {}
    assert compared > 100


@promise("dry-run.true")
async def test_a_sequence_is_told_step_by_step(engine: Engine, bench: SimBench) -> None:
    asked = {"instrument_id": "psu1", "sequence_name": "iv_curve", "parameters": IV}
    told = await dry(engine, "execute_sequence", **asked)
    mark = bench.mark()
    done = engine.tool("execute_sequence", **asked)
    assert not done["is_error"], done
    assert told["steps"] == done["result"]["steps_executed"]
    assert told["duration_s"] == pytest.approx(0.6)
    # The settings that go with a recording are asked in between, by the recording.
    sent = iter(bench.received("psu1", since=mark))
    assert all(line in sent for line in told["would_send"])


@promise("dry-run.true")
async def test_a_sweep_is_told_from_its_question_to_its_abort(
    engine: Engine, bench: SimBench
) -> None:
    current = {"command_name": "measure_current", "parameters": {"channel": 1}}
    measured = {"measure": [{"instrument_id": "psu1", **current}]}
    asked = {**SWEEP, **measured, "points": {"count": 2}, "dwell_ms": 50, "then": "abort"}
    told = await dry(engine, "start_sweep", **asked)
    mark = bench.mark()
    started = engine.tool("start_sweep", **asked)
    assert not started["is_error"], started
    sweep_id = started["result"]["sweep_id"]
    while engine.tool("get_sweep_status", sweep_id=sweep_id)["result"]["status"] == "running":
        await asyncio.sleep(0.05)
    sent = iter(bench.received("psu1", since=mark))
    missing = [line for line in told["would_send"] if line not in sent]
    assert missing == []
    assert told["would_send"][0] == ":SOUR1:VOLT?"
    assert ":OUTP CH1,OFF" in told["would_send"]
    (ramp,) = [check for check in told["checks"] if check["what"] == "present value"]
    assert "2 set-points" in ramp["bound"]
    assert "0.05 s" in ramp["bound"]


@promise("dry-run.true")
async def test_each_instrument_of_a_sweep_is_looked_for(engine: Engine) -> None:
    told = await dry(engine, "start_sweep", **SWEEP)
    said = {check["what"] for check in told["checks"]}
    assert {"psu1 is connected", "dmm1 is connected"} <= said


@promise("dry-run.true")
async def test_what_is_polled_says_until_when_and_for_how_long(engine: Engine) -> None:
    asked = {"instrument_id": "scope1", "sequence_name": "single_shot"}
    told = await dry(engine, "execute_sequence", **asked)
    (poll,) = [check for check in told["checks"] if "until" in check["what"]]
    assert poll == {
        "what": ':TRIG:STAT? until value == "STOP"',
        "is_ok": None,
        "bound": "asked every 100 ms, for 30 s at most",
    }


@promise("dry-run.true")
async def test_a_raw_line_that_nobody_knows_is_not_called_good(engine: Engine) -> None:
    asked = {"instrument_id": "scope1", "scpi_command": ":FOO:BAR?"}
    told = await dry(engine, "send_scpi", **asked)
    (line,) = [check for check in told["checks"] if check["what"] == ":FOO:BAR?"]
    assert (line["is_ok"], line["bound"]) == (None, "the profile does not know it")


@promise("dry-run.true")
async def test_a_raw_line_that_no_limit_is_held_to_is_not_called_good(
    engine: Engine,
) -> None:
    # RAW_SCPI is all, and the owner has said nothing of this unit.
    line = ":SOUR:VOLT 999"
    told = await dry(engine, "send_scpi", instrument_id="smu1", scpi_command=line)
    rows = {check["what"]: (check["is_ok"], check["bound"]) for check in told["checks"]}
    is_ok, commands = rows[line]
    assert (is_ok, "set_voltage" in commands) == (None, True)
    _, beyond = rows[f"{line} as the profile has it"]
    assert "999 V" in beyond
    is_ok, bound = rows["the profile's limits"]
    assert is_ok is None
    assert bound.startswith("not checked for raw lines")


@promise("dry-run.one-judge")
@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("execute_command", {"instrument_id": "psu1", "command_name": "set_voltage",
                             "parameters": {"channel": 1, "voltage": 13}}),
        ("execute_command", {"instrument_id": "psu1", "command_name": "frobnicate"}),
        ("execute_command", {"instrument_id": "psu9", "command_name": "set_voltage"}),
        ("execute_command", {"instrument_id": "psu1", "command_name": "ovp_off",
                             "parameters": {"channel": 1}}),
        ("execute_command", {"instrument_id": "psu1"}),
        ("execute_sequence", {"instrument_id": "psu1", "sequence_name": "iv_curve",
                              "parameters": {**IV, "stop": 20}}),
        ("start_sweep", {**SWEEP, "sweep_rate": 6}),
        ("start_sweep", {**SWEEP, "target_value": 13}),
        ("start_sweep", {**SWEEP, "stop_when": {"column": "x", "op": ">", "value": 1,
                                                "then": "hold"}}),
        ("start_sweep", {**SWEEP, "measure": [{"instrument_id": "psu1",
                                               "command_name": "set_voltage"}]}),
        ("send_scpi", {"instrument_id": "psu1", "scpi_command": ":OUTP:OVP CH1,OFF"}),
        ("send_scpi", {"instrument_id": "psu1", "scpi_command": ":SOUR1:VOLT 13"}),
        ("send_scpi", {"instrument_id": "psu1", "scpi_command": "a\nb"}),
    ],
)  # fmt: skip
async def test_what_the_call_would_refuse_is_refused_by_the_same_words(
    engine: Engine, bench: SimBench, tool: str, arguments: dict[str, Any]
) -> None:
    mark = bench.mark()
    dry_run = engine.tool(tool, **arguments, dry_run=True)
    called = engine.tool(tool, **arguments)
    assert called["is_error"]
    assert dry_run["error"] == called["error"]
    assert [line for line in bench.received("psu1", mark) if "?" not in line] == []


@promise("dry-run.one-judge")
async def test_what_stands_in_the_way_is_told_as_a_conflict(
    engine: Engine, bench: SimBench
) -> None:
    slow = {**SWEEP, "sweep_rate": 0.05, "measure": []}
    started = engine.tool("start_sweep", **slow)
    assert not started["is_error"], started
    sweep_id = started["result"]["sweep_id"]
    try:
        for road in ("a command", "raw SCPI", "a sequence", "a sweep"):
            tool, arguments = ROADS[road]
            if road == "raw SCPI":
                arguments = {**arguments, "scpi_command": ":SOUR1:VOLT 1"}
            told = await dry(engine, tool, **arguments)
            assert sweep_id in told["conflicts"][0]["message"], road
    finally:
        engine.tool("stop_sweep", sweep_id=sweep_id)
    engine.rpc("lockout.set", instrument_id="psu1", by="Ada", reason="I am soldering")
    try:
        tool, arguments = ROADS["a command"]
        told = await dry(engine, tool, **arguments)
        assert told["conflicts"][0]["code"] == "locked_out"
    finally:
        engine.rpc("lockout.clear", instrument_id="psu1")


@promise("dry-run.argument")
@pytest.mark.parametrize("wrong", ["yes", 1, [], {}])
@pytest.mark.parametrize("road", ["a command", "raw SCPI", "a command's own tool"])
async def test_what_is_no_bool_is_a_wrong_argument(
    engine: Engine, bench: SimBench, road: str, wrong: Any
) -> None:
    tool, arguments = ROADS[road]
    tool = tool_of(engine, tool) if tool.startswith("__") else tool
    mark = bench.mark()
    told = engine.tool(tool, **arguments, dry_run=wrong)
    assert told["error"]["code"] == "bad_arguments"
    assert "dry_run" in told["error"]["message"]
    assert heard(bench, mark) == []


@promise("dry-run.argument")
@pytest.mark.parametrize("nothing", [False, None])
async def test_false_is_the_call_itself(
    engine: Engine, bench: SimBench, nothing: bool | None
) -> None:
    mark = bench.mark()
    told = engine.tool(tool_of(engine, "__set_voltage"), **SET, dry_run=nothing)
    assert not told["is_error"], told
    assert ":SOUR1:VOLT 2.500" in bench.received("psu1", since=mark)


@promise("dry-run.argument")
async def test_other_tools_know_no_such_argument(engine: Engine) -> None:
    assert engine.tool("bench__stop_all", dry_run=True)["error"]["code"] == "bad_arguments"


@promise("dry-run.argument")
async def test_only_the_static_tools_list_it(engine: Engine) -> None:
    listed = [
        tool["name"]
        for tool in engine.rpc("tools/list")["tools"]
        if "dry_run" in tool["input_schema"].get("properties", {})
    ]
    assert set(listed) == {"execute_command", "execute_sequence", "start_sweep", "send_scpi"}


def test_a_refused_dry_run_is_a_refusal_in_the_record(engine: Engine) -> None:
    engine.tool("execute_command", instrument_id="psu1", command_name="nope", dry_run=True)
    rows = engine.rpc("audit.list", tool="execute_command", limit=1)["rows"]
    assert (rows[-1]["outcome"], rows[-1]["code"]) == ("refused", "unknown_command")
