"""Queries that switch an output on, and stored states: real engines on the simulated bench."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from tests.bench.engine import Engine, running_engine
from tests.bench.waiting import wait_for
from tests.promises import promise


@contextmanager
def smu(directory: Path, must: str, guards: str = "smu1.output_on") -> Iterator[Engine]:
    """A source meter with automatic output, guarded by a meter with nothing connected to it."""
    rule = {
        "name": "rail",
        "when": {"instrument": "dmm1", "command": "measure_dc_voltage"},
        "must": must,
        "max_age_s": 3.0,
        "poll_s": 0.3,
        "guards": [guards],
        "trip": "abort",
    }
    (directory / "bench.yaml").write_text(json.dumps({"format": 1, "interlocks": [rule]}))
    flag = "smu1=keysight_b2901a,dmm1=keysight_34461a"
    with running_engine(directory, "--instruments", flag) as engine:
        wait_for(lambda: engine.tool("get_status")["result"]["instrument_count"] == 2)
        yield engine


def is_on(engine: Engine) -> bool:
    return bool(engine.sim("state")["instruments"]["smu1"]["state"]["is_on"])


def received(engine: Engine, name: str) -> str:
    entries = engine.sim("log", instrument=name, limit=10_000)["entries"]
    return "".join(entry["text"] for entry in entries if entry["direction"] == "in").upper()


def interlock(engine: Engine) -> dict[str, Any]:
    (found,) = engine.tool("get_status")["result"]["interlocks"]
    return found  # type: ignore[no-any-return]


READ = {"instrument_id": "smu1", "command_name": "read"}


@promise("changes.query-is-write")
def test_a_query_that_switches_on_is_refused_under_a_bad_reading_on_every_road(
    tmp_path: Path,
) -> None:
    with smu(tmp_path, "value > 3") as engine:
        dynamic = next(
            tool["name"]
            for tool in engine.rpc("tools/list")["tools"]
            if tool["name"].endswith("keysight_b2901a__read")
        )
        sweep = {
            "instrument_id": "smu1",
            "command_name": "set_voltage",
            "target_value": 1,
            "sweep_rate": 10,
            "measure": [READ],
        }
        for tool, arguments in (
            ("execute_command", READ),
            ("execute_command", {**READ, "command_name": "initiate"}),
            (dynamic, {}),
            ("send_scpi", {"instrument_id": "smu1", "scpi_command": ":READ?"}),
            ("send_scpi", {"instrument_id": "smu1", "scpi_command": ":outp?;:read?"}),
            ("send_scpi", {"instrument_id": "smu1", "scpi_command": ":INIT"}),
            ("start_stream", {**READ, "interval_ms": 100, "duration_ms": 200}),
        ):
            answer = engine.tool(tool, **arguments)
            assert answer["error"]["code"] == "interlock", (tool, arguments, answer)
        # A sweep sets its level, and its measurement is what is refused.
        engine.tool("start_sweep", **sweep)
        wait_for(lambda: not engine.tool("get_status")["result"]["sweeps"])
        sent = received(engine, "smu1")
        assert ":READ?" not in sent
        assert ":INIT" not in sent
        assert not is_on(engine)
        assert "error" not in engine.tool("execute_command", **{**READ, "command_name": "measure"})


@promise("changes.query-is-write")
def test_what_a_query_has_switched_on_is_watched_and_aborted_by_the_interlock(
    tmp_path: Path,
) -> None:
    with smu(tmp_path, "value < 3") as engine:
        answer = engine.tool("send_scpi", instrument_id="smu1", scpi_command=":READ?")
        assert answer["result"]["error"] is None
        assert is_on(engine)
        wait_for(lambda: interlock(engine)["state"] == "watching")
        engine.sim("fault", instrument="dmm1", kind="refuse")
        wait_for(lambda: not is_on(engine))
        assert "gave no reading" in interlock(engine)["reason"]


@promise("changes.query-is-write")
def test_what_a_query_has_switched_on_is_marked_when_the_engine_ends(tmp_path: Path) -> None:
    with smu(tmp_path, "value < 3") as engine:
        assert "error" not in engine.tool("execute_command", **READ)
        assert is_on(engine)
    database = next(engine.state_dir.glob("*.db"))
    with closing(sqlite3.connect(database)) as connection:
        rows = connection.execute("SELECT output FROM told_on").fetchall()
    assert rows == [("OUTP",)]


BENCH = """\
format: 1
psu1:
  limits: {set_voltage: {voltage: {max: 12}}}
  confirm: ["set_voltage.voltage > 6"]
"""


@promise("changes.any-refused")
def test_a_stored_state_does_not_come_back_over_a_limit_until_the_owner_allows_it(
    tmp_path: Path,
) -> None:
    def call(name: str, **parameters: Any) -> Any:
        return engine.tool(
            "execute_command", instrument_id="psu1", command_name=name, parameters=parameters
        )

    def volts() -> float:
        state = engine.sim("state")["instruments"]["psu1"]["state"]
        return float(state["ch1"]["volts_set"])

    def is_limited() -> bool:
        (command,) = (
            one
            for unit in engine.tool("get_capabilities", instrument_id="psu1")["result"]
            for one in unit["commands"]
            if one["name"] == "set_voltage"
        )
        return bool(command["parameters"]["properties"]["voltage"]["maximum"] == 12)

    with running_engine(tmp_path, "--instruments", "psu1=siglent_spd3303x") as engine:
        for name, given in (
            ("set_voltage", {"channel": 1, "voltage": 25.5}),
            ("save_state", {"memory": 1}),
            ("set_voltage", {"channel": 1, "voltage": 5}),
        ):
            assert "error" not in call(name, **given)
        (tmp_path / "bench.yaml").write_text(BENCH)
        wait_for(is_limited)
        for answer in (
            call("recall_state", memory=1),
            engine.tool("siglent_spd3303x__recall_state", memory=1),
            engine.tool("send_scpi", instrument_id="psu1", scpi_command="*RCL 1"),
            call("timer_on", channel=1),
            call("set_tracking", mode="series"),
        ):
            assert answer["error"]["code"] == "denied_by_owner", answer
            assert "limits, confirm" in answer["error"]["message"]
        assert "*RCL" not in received(engine, "psu1")
        assert volts() == 5
        (tmp_path / "bench.yaml").write_text(BENCH + "  allow_changes: [recall_state]\n")
        wait_for(lambda: "error" not in call("recall_state", memory=1))
        assert volts() == 25.5
        assert call("timer_on", channel=1)["error"]["code"] == "denied_by_owner"
