"""What is true and misleading is said: notes, and what a setter replaced, at the real endpoint."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.bench.engine import Engine, running_engine
from tests.bench.mcp_client import McpClient
from tests.promises import promise

SCOPES = {
    "rigol_ds1054z": "scope1",
    "siglent_sds1104xe": "scope2",
    "tektronix_tbs1000c": "scope3",
}
OLD = ["acquisition is stopped: this trace is from before"]
OLD_READING = ["acquisition is stopped: this measurement is from before"]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    scopes = ",".join(f"{name}={key}" for key, name in SCOPES.items())
    with running_engine(
        tmp_path_factory.mktemp("notes"), "--instruments", f"psu1,{scopes}"
    ) as running:
        yield running


async def call(engine: Engine, tool: str, **arguments: Any) -> dict[str, Any]:
    client = McpClient(engine.ports["mcp_port"])
    await client.initialize("2025-06-18")
    answer = await client.call(tool, arguments)
    assert not answer.get("isError"), answer
    result: dict[str, Any] = answer["structuredContent"]
    return result


async def own(engine: Engine, command: str, **parameters: Any) -> dict[str, Any]:
    return await call(engine, f"rigol_dp832__{command}", **parameters)


async def command(engine: Engine, name: str, **parameters: Any) -> dict[str, Any]:
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
    engine: Engine, road: Any
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
async def test_what_a_setter_replaced_stands_beside_what_it_set(engine: Engine, road: Any) -> None:
    await road(engine, "set_voltage", channel=1, voltage=2.5)
    told = await road(engine, "set_voltage", channel=1, voltage=3)
    assert told["previous"] == {"voltage": 2.5}
    assert told["data"]["set"] == {"channel": 1, "voltage": 3.0}


@promise("previous.never-guessed")
async def test_nothing_is_guessed_after_raw_scpi(engine: Engine) -> None:
    await own(engine, "set_voltage", channel=1, voltage=2)
    await call(engine, "send_scpi", instrument_id="psu1", scpi_command=":SOUR1:VOLT 7")
    assert "previous" not in await own(engine, "set_voltage", channel=1, voltage=3)


@promise("notes.off")
async def test_after_everything_was_stopped_what_is_measured_is_said_to_be_off(
    engine: Engine,
) -> None:
    await own(engine, "output_on", channel=1)
    await call(engine, "bench__stop_all")
    told = await own(engine, "measure_voltage", channel=1)
    assert told["notes"] == ["output 1 is off"]


@promise("notes.off")
async def test_what_was_switched_off_is_not_shown_as_on_and_stays_in_doubt_until_it_is_asked(
    engine: Engine,
) -> None:
    async def told() -> dict[str, Any]:
        (unit,) = (await call(engine, "get_status"))["told_on"]
        return {"outputs": unit["outputs"], "off": unit["off"]}

    await own(engine, "output_on", channel=1)
    assert await told() == {"outputs": ["OUTP CH1"], "off": []}
    await own(engine, "output_off", channel=1)
    assert await told() == {"outputs": ["OUTP CH1"], "off": ["OUTP CH1"]}
    await own(engine, "output_on", channel=1)
    assert (await told())["off"] == []
    await call(engine, "bench__stop_all")
    assert (await call(engine, "get_status"))["told_on"] == []


@promise("notes.off")
async def test_what_a_check_of_the_bench_has_seen_to_be_off_is_said(
    engine: Engine,
) -> None:
    await own(engine, "output_on", channel=1)
    await call(engine, "send_scpi", instrument_id="psu1", scpi_command=":OUTP CH1,OFF")
    assert "notes" not in await own(engine, "measure_voltage", channel=1)
    assert "OUTP CH1" in json.dumps((await call(engine, "get_status"))["told_on"])
    await call(engine, "bench__check")
    assert "OUTP CH1" not in json.dumps((await call(engine, "get_status"))["told_on"])
    told = await own(engine, "measure_voltage", channel=1)
    assert told["notes"] == ["output 1 is off"]


async def trace(engine: Engine, scope: str) -> tuple[list[float], bool, list[str]]:
    """The samples of channel 1, whether they are told to be fresh, and what is said besides."""
    told = await call(
        engine,
        "execute_command",
        instrument_id=scope,
        command_name="capture_waveform",
        parameters={"channel": 1},
    )
    data = told["data"]
    wanted = {"stream_id": data["stream_id"], "point_index": 0, "format": "decimated"}
    samples = await call(engine, "fetch_waveform", **wanted, points=100)
    return samples["y_values"], data["is_fresh"], told.get("notes", [])


@promise("notes.old-trace")
@pytest.mark.parametrize("scope", SCOPES.values())
async def test_a_stopped_scope_gives_its_old_trace_and_the_result_says_so(
    engine: Engine, scope: str
) -> None:
    async def tell(name: str, **parameters: Any) -> None:
        wanted = {"instrument_id": scope, "command_name": name, "parameters": parameters}
        await call(engine, "execute_command", **wanted)

    await own(engine, "set_voltage", channel=1, voltage=1)
    await own(engine, "output_on", channel=1)
    await tell("stop")
    old, is_fresh, notes = await trace(engine, scope)
    assert (is_fresh, notes) == (False, OLD)
    await own(engine, "output_off", channel=1)
    again, is_fresh, notes = await trace(engine, scope)
    assert (again, is_fresh, notes) == (old, False, OLD)
    reading = {"command_name": "measure_vpp", "parameters": {"channel": 1}}
    measured = await call(engine, "execute_command", instrument_id=scope, **reading)
    assert measured["notes"] == OLD_READING
    dry_run = await call(engine, "execute_command", instrument_id=scope, **reading, dry_run=True)
    assert len(dry_run["would_send"]) >= 2
    await tell("run")
    measured = await call(engine, "execute_command", instrument_id=scope, **reading)
    assert "notes" not in measured
    new, is_fresh, notes = await trace(engine, scope)
    assert new != old
    assert (is_fresh, notes) == (True, [])
    await tell("single")
    assert (await trace(engine, scope))[1:] == (True, [])
    assert (await trace(engine, scope))[1:] == (False, OLD)
