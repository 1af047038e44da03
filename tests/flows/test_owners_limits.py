"""What the owner limited for one unit is limited on every road that leads to it.

One engine, one supply whose bench file says 12 V; each test is a road. What must not happen is read
from the byte log of the simulated supply.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.bench.engine import Engine, running_engine
from tests.bench.waiting import wait_for
from tests.promises import promise

BENCH = """\
format: 1
DP8B26AM00234:
  alias: psu1
  limits:
    set_voltage: {voltage: {max: 12}, channel: {max: 2}}
    measure_voltage: {channel: {max: 2}}
  max_rate: {set_voltage: 0.5}
  deny: [output_on, measure_power]
  is_dangerous: [set_current]
  requires_sweep: [set_current]
GX000001: {alias: gx1, raw_scpi: queries}
"""


@dataclass(slots=True)
class Road:
    engine: Engine

    def refused(self, tool: str, **arguments: Any) -> str:
        """Call a tool that must be refused, with nothing sent to the supply; returns why."""
        mark = self.engine.sim("log", since=2**53)["last"]
        answer = self.engine.tool(tool, **arguments)
        page = self.engine.sim("log", instrument="psu1", since=mark)
        sent = [entry["text"] for entry in page["entries"] if entry["direction"] == "in"]
        assert sent == [], (tool, arguments, sent)
        result = answer["result"] if isinstance(answer["result"], dict) else {}
        said = result.get("error") or (answer.get("error") or {}).get("message")
        assert said, (tool, arguments, answer)
        return said if isinstance(said, str) else str(said["message"])


@pytest.fixture(scope="module")
def road(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Road]:
    directory = tmp_path_factory.mktemp("limits")
    (directory / "bench.yaml").write_text(BENCH)
    with running_engine(directory, "--instruments", "psu1,gx1=generic_scpi") as engine:
        wait_for(lambda: engine.tool("get_status")["result"]["instrument_count"] == 2)
        yield Road(engine)


@promise("raw.owner-limits-hold")
def test_the_schemas_that_callers_see_are_narrower(road: Road) -> None:
    tools = {tool["name"]: tool for tool in road.engine.rpc("tools/list")["tools"]}
    voltage = tools["rigol_dp832__set_voltage"]["input_schema"]["properties"]["voltage"]
    assert voltage["maximum"] == 12
    assert "rigol_dp832__output_on" not in tools
    assert tools["rigol_dp832__set_current"]["annotations"]["destructive"]
    sequence = tools["rigol_dp832__sequence__voltage_point"]["input_schema"]["properties"]
    assert sequence["voltage"]["maximum"] == 12


@promise("raw.owner-limits-hold")
def test_tool_and_generic_tool_refuse(road: Road) -> None:
    assert "12" in road.refused("rigol_dp832__set_voltage", channel=1, voltage=12.001)
    given = {"instrument_id": "psu1", "command_name": "set_voltage"}
    assert "12" in road.refused("execute_command", **given, parameters={"voltage": 13})
    road.refused("execute_command", **given, parameters={"voltage": 5, "channel": 3})
    given["command_name"] = "output_on"
    assert "denies" in road.refused("execute_command", **given, parameters={"channel": 1})
    given["command_name"] = "set_current"
    assert "only be ramped" in road.refused("execute_command", **given, parameters={"current": 1})
    assert road.engine.tool("rigol_dp832__set_voltage", channel=1, voltage=12)["is_error"] is False


@promise("raw.owner-limits-hold")
def test_a_sequence_refuses_before_its_first_step(road: Road) -> None:
    given = {"instrument_id": "psu1", "sequence_name": "voltage_point"}
    parameters = {"channel": 1, "voltage": 13}
    assert "12" in road.refused("execute_sequence", **given, parameters=parameters)
    # Its own values are fine here; a step of it runs what may only be ramped.
    parameters["voltage"] = 5
    said = road.refused("execute_sequence", **given, parameters=parameters)
    assert "only be ramped" in said


@promise("raw.owner-limits-hold")
def test_a_sweep_refuses_target_and_rate(road: Road) -> None:
    given = {"instrument_id": "psu1", "command_name": "set_voltage"}
    assert "12" in road.refused("start_sweep", **given, target_value=13, sweep_rate=0.1)
    assert "0.5" in road.refused("start_sweep", **given, target_value=10, sweep_rate=0.6)
    measured = [{"instrument_id": "psu1", "command_name": "measure_power", "parameters": {}}]
    said = road.refused("start_sweep", **given, target_value=10, sweep_rate=0.5, measure=measured)
    assert "denies" in said


@promise("raw.owner-limits-hold")
def test_a_stream_refuses(road: Road) -> None:
    given = {"instrument_id": "psu1", "interval_ms": 100, "duration_ms": 200}
    road.refused("start_stream", **given, command_name="measure_voltage", parameters={"channel": 3})
    assert "denies" in road.refused("start_stream", **given, command_name="measure_power")
    road.refused("start_stream", **given, command_name="set_voltage", parameters={"voltage": 13})


TOO_MUCH = [
    ":SOUR1:VOLT 13",
    ":SOURce1:VOLTage 13",
    "SOUR1:VOLT 13",
    ":sour1:volt 13",
    "  :SOUR1:VOLT\t  13  ",
    ":SOUR1:VOLT 1.3E1",
    ":SOUR1:VOLT +13.0",
    ":SOUR1:VOLT 13V",
    ":SOUR1:VOLT 13000MV",
    ":SOUR1:VOLT MAX",
    ":SOUR:VOLT 13",
    ":VOLT 13",
    "VOLT 13",
    ":SOUR1:VOLT:LEV 13",
    ":SOUR1:VOLT:LEV:IMM:AMPL 13",
    ":SOURCE1:VOLTAGE:LEVEL:IMMEDIATE:AMPLITUDE 13",
    "*CLS;:SOUR1:VOLT 13",
    ":SOUR1:VOLT 5;VOLT 13",
    ":SOUR1:CURR 1;VOLT 13",
    ":MEAS:VOLT? CH1;:SOUR1:VOLT 13",
    ";:SOUR1:VOLT 13",
    ":SOUR3:VOLT 5",
    ":APPL CH3,13,1;:SOUR1:VOLT 13",
    # Denied, only to be ramped, or not of the profile, in whatever spelling.
    ":OUTP CH1,ON",
    ":OUTPut:STATe CH1,ON",
    ":outp ch1 , 1",
    ":OUTP ON",
    ":SOUR1:CURR 1",
    ":SOURce1:CURRent:LEVel 1",
    ":MEAS:POWE? CH1",
    "*RCL 1",
    ":RECALL:LOCAL 1",
    ":SYST:WHATEVER 1",
    ":FETC:UNKNOWN?",
]


@promise("raw.owner-limits-hold")
@pytest.mark.parametrize("line", TOO_MUCH)
def test_raw_scpi_refuses_whatever_the_spelling(road: Road, line: str) -> None:
    road.refused("send_scpi", instrument_id="psu1", scpi_command=line)


def test_raw_scpi_within_the_limits_goes_out(road: Road) -> None:
    for line in (":SOUR1:VOLT 11.5", ":MEAS:VOLT? CH1", "*IDN?", ":SOUR1:VOLT 11;:SOUR1:VOLT?"):
        answer = road.engine.tool("send_scpi", instrument_id="psu1", scpi_command=line)
        assert answer["result"]["error"] is None, (line, answer)
    answer = road.engine.tool("rigol_dp832__get_voltage", channel=1)
    assert answer["result"]["data"] == 11


def test_queries_alone_means_queries_alone(road: Road) -> None:
    def error_of(line: str) -> str:
        answer = road.engine.tool("send_scpi", instrument_id="gx1", scpi_command=line)
        return str((answer["result"] or answer)["error"])

    assert error_of("*IDN?") == "None"
    # It has no profile, so no other query is known.
    for line in ("LEV?", "LEV 5", "*IDN?;LEV 5"):
        assert "raw_scpi is queries for gx1 in the bench file" in error_of(line)
