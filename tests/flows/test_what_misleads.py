"""What is true and misleading is said: notes, and what a setter replaced, at the real endpoint."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.bench.engine_process import EngineProcess, running_engine
from tests.bench.mcp_client import McpClient
from tests.promises import promise


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineProcess]:
    with running_engine(tmp_path_factory.mktemp("notes"), "--instruments", "psu1") as running:
        yield running


async def call(engine: EngineProcess, tool: str, **arguments: Any) -> dict[str, Any]:
    client = McpClient(engine.ports["mcp_port"])
    await client.initialize("2025-06-18")
    answer = await client.call(tool, arguments)
    assert not answer.get("isError"), answer
    result: dict[str, Any] = answer["structuredContent"]
    return result


async def own(engine: EngineProcess, command: str, **parameters: Any) -> dict[str, Any]:
    return await call(engine, f"rigol_dp832__{command}", **parameters)


async def command(engine: EngineProcess, name: str, **parameters: Any) -> dict[str, Any]:
    return await call(
        engine,
        "execute_command",
        instrument_id="psu1",
        command_name=name,
        parameters=parameters,
    )


@promise("notes.off")
@pytest.mark.parametrize("road", [own, command])
async def test_zero_volts_of_an_output_that_is_off_are_told_with_why(
    engine: EngineProcess, road: Any
) -> None:
    assert "notes" not in await road(engine, "output_off", channel=1)
    told = await road(engine, "measure_voltage", channel=1)
    assert told["notes"] == ["output 1 is off"]
    await road(engine, "output_on", channel=1)
    assert "notes" not in await road(engine, "measure_voltage", channel=1)
    assert (await road(engine, "get_output", channel=2))["data"] is False
    told = await road(engine, "measure_current", channel=2)
    assert told["notes"] == ["output 2 is off"]


@promise("previous.known")
@pytest.mark.parametrize("road", [own, command])
async def test_what_a_setter_replaced_stands_beside_what_it_set(
    engine: EngineProcess, road: Any
) -> None:
    await road(engine, "set_voltage", channel=1, voltage=2.5)
    told = await road(engine, "set_voltage", channel=1, voltage=3)
    assert told["previous"] == {"voltage": 2.5}
    assert told["data"]["set"] == {"channel": 1, "voltage": 3.0}


@promise("previous.never-guessed")
async def test_nothing_is_guessed_after_raw_scpi_or_a_stop(engine: EngineProcess) -> None:
    raw = {"instrument_id": "psu1", "scpi_command": ":SOUR1:VOLT 7"}
    for tool, arguments in (("send_scpi", raw), ("bench__stop_all", {})):
        await own(engine, "set_voltage", channel=1, voltage=2)
        await call(engine, tool, **arguments)
        told = await own(engine, "set_voltage", channel=1, voltage=3)
        assert "previous" not in told, tool
