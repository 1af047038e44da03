"""bench__check through the real endpoint, on twelve instruments of which one hangs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from benchmarks.bench_check import TWELVE
from tests.bench.engine import Engine, running_engine
from tests.bench.mcp_client import McpClient
from tests.bench.waiting import HANGS_S
from tests.promises import promise

MOST_BYTES = 8 * 1024


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    directory = tmp_path_factory.mktemp("check")
    with running_engine(directory, "--instruments", TWELVE, config={"HEARTBEAT_SEC": 0}) as engine:
        yield engine


async def checked(engine: Engine, **arguments: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The whole answer, and its units by alias."""
    client = McpClient(port=engine.ports["mcp_port"])
    await client.initialize("2025-06-18")
    answer = (await client.call("bench__check", arguments))["structuredContent"]
    return answer, {one["alias"]: one for one in answer["instruments"]}


async def test_an_idle_bench_is_healthy_and_every_output_is_told(engine: Engine) -> None:
    answer, units = await checked(engine)
    assert answer["is_healthy"], answer
    assert len(units) == 12
    assert all(one["is_answering"] and one["latency_ms"] > 0 for one in units.values())
    assert [o["name"] for o in units["psu1"]["outputs"]] == ["OUTP CH1", "OUTP CH2", "OUTP CH3"]
    assert [o["is_on"] for o in units["psu2"]["outputs"]] == [False, False, None]
    assert {name: answer[name] for name in ("sweeps", "streams", "sequences", "leases")} == {
        "sweeps": [], "streams": [], "sequences": [], "leases": [],
    }  # fmt: skip


async def test_what_is_on_what_went_wrong_and_who_is_locked_out_is_told(
    engine: Engine,
) -> None:
    ids = {i["alias"]: i["id"] for i in engine.tool("list_instruments")["result"]}
    engine.tool("execute_command", instrument_id="psu1", command_name="output_on",
                parameters={"channel": 2})  # fmt: skip
    engine.rpc("lockout.set", instrument_id="gen1", reason="hands inside", by="anna")
    engine.sim("push_error", instrument="smu2", code=-222, text="Data out of range")
    try:
        rows = await settled_rows(engine)
        answer, units = await checked(engine)
        assert await settled_rows(engine) == rows + 1 + 12
    finally:
        engine.rpc("lockout.clear", instrument_id="gen1")
        engine.tool("bench__stop_all")
    assert [o["is_on"] for o in units["psu1"]["outputs"]] == [False, True, False]
    assert (units["gen1"]["state"], units["gen1"]["is_answering"]) == ("locked", True)
    assert "-222" in units["smu2"]["problems"][0]
    assert not answer["is_healthy"]
    assert answer["lockouts"][0]["instrument_id"] == ids["gen1"]


async def test_one_is_asked_by_its_alias_and_nobody_else(engine: Engine) -> None:
    answer, units = await checked(engine, instrument_id="dmm2")
    assert (list(units), answer["is_healthy"]) == (["dmm2"], True)
    client = McpClient(port=engine.ports["mcp_port"])
    await client.initialize("2025-06-18")
    missing = await client.call("bench__check", {"instrument_id": "nobody"})
    assert missing["isError"]


async def test_a_unit_in_a_sweep_is_told_as_busy_and_not_asked(engine: Engine) -> None:
    sweep_id = engine.tool(
        "start_sweep", instrument_id="psu4", command_name="set_voltage", parameters={"channel": 1},
        target_value=5, sweep_rate=0.1,
    )["result"]["sweep_id"]  # fmt: skip
    asked = asked_its_name(engine)
    try:
        answer, units = await checked(engine)
        assert asked_its_name(engine) == asked
    finally:
        engine.tool("stop_sweep", sweep_id=sweep_id)
    swept = units["psu4"]
    assert (swept["busy_with"], swept["is_answering"], swept["problems"]) == ([sweep_id], True, [])
    assert swept["latency_ms"] is None
    assert [one["sweep_id"] for one in answer["sweeps"]] == [sweep_id]


@promise("bench.check-busy")
async def test_a_unit_whose_line_is_taken_by_a_long_answer_is_busy_and_neither_silent_nor_ill(
    engine: Engine,
) -> None:
    engine.sim("fault", instrument="dmm2", kind="late", seconds=9, count=1)
    call = {"instrument_id": "dmm2", "command_name": "measure_dc_voltage"}
    client = McpClient(port=engine.ports["mcp_port"])
    await client.initialize("2025-06-18")
    measuring = asyncio.create_task(client.call("execute_command", call))
    async with asyncio.timeout(HANGS_S):
        while line_state(engine, "dmm2") != "busy":
            await asyncio.sleep(0.05)
    answer, units = await checked(engine)
    assert not measuring.done()
    engine.sim("clear", instrument="dmm2")
    busy = units["dmm2"]
    assert (busy["state"], busy["is_answering"], busy["problems"]) == ("busy", True, [])
    assert busy["busy_with"] == ["other work on its line"]
    assert answer["is_healthy"], answer
    assert (await measuring)["structuredContent"]["success"]


def line_state(engine: Engine, name: str) -> str:
    (unit,) = engine.tool("list_instruments", filter=name)["result"]
    return str(unit["state"])


async def settled_rows(engine: Engine) -> int:
    """How many rows the record has of checks, once none waits for the disk."""
    async with asyncio.timeout(HANGS_S):
        while engine.tool("get_status")["result"]["store"]["rows_waiting"] > 1:
            await asyncio.sleep(0.05)
    rows = engine.rpc("audit.list", limit=1_000)["rows"]
    return sum(row["tool"] == "bench__check" for row in rows)


def asked_its_name(engine: Engine) -> int:
    trace = engine.rpc("trace", instrument_id="psu4")["exchanges"]
    return [str(entry["text"]).strip() for entry in trace].count("*IDN?")


@promise("bench.check")
async def test_one_of_twelve_that_hangs_does_not_keep_the_answer_back(
    engine: Engine,
) -> None:
    engine.sim("fault", instrument="dmm1", kind="hang")
    try:
        for _ in range(2):
            answer, units = await checked(engine)
            assert len(json.dumps(answer, separators=(",", ":"))) <= MOST_BYTES
            assert (answer["is_healthy"], answer["more"], len(units)) == (False, 0, 12)
            assert not units["dmm1"]["is_answering"]
            assert units["dmm1"]["problems"]
            others = [one for alias, one in units.items() if alias != "dmm1"]
            assert all(one["is_answering"] and not one["problems"] for one in others)
        assert units["dmm1"]["state"] == "silent"
        assert answer["instruments"][0]["alias"] == "dmm1"
    finally:
        engine.sim("clear", instrument="dmm1")
    async with asyncio.timeout(HANGS_S):
        while not (await checked(engine))[0]["is_healthy"]:
            await asyncio.sleep(0.1)
