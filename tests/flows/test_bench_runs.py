"""What was measured, at the MCP endpoint alone: bench__runs, bench__plot, bench__stop_run."""

from __future__ import annotations

import asyncio
import base64
import csv
import json
import math
import shutil
import signal
import statistics
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.bench import command_line
from tests.bench.engine import Engine, running_engine
from tests.bench.engine_process import REPOSITORY, engine_process
from tests.bench.mcp_client import McpClient
from tests.bench.waiting import HANGS_S, wait_for
from tests.promises import promise

BENCH = "psu1,dmm1,scope1,gen1=rigol_dg1022z,lockin1=srs_sr830"
NAMES = BENCH.replace("=rigol_dg1022z", "").replace("=srs_sr830", "").split(",")
ANSWER_BYTES = 8 * 1024
PNG_BYTES = 200 * 1000
VOLTAGE = {"instrument_id": "psu1", "command_name": "measure_voltage", "parameters": {"channel": 1}}
CURVE = {
    "instrument_id": "psu1",
    "sequence_name": "iv_curve",
    "parameters": {"channel": 1, "stop": 3, "points": 400, "settle_ms": 20, "current_limit": 0.7},
}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with running_engine(tmp_path_factory.mktemp("runs"), "--instruments", BENCH) as running:
        wait_for_names(running, NAMES)
        yield running


@pytest.fixture
async def client(engine: Engine) -> AsyncIterator[McpClient]:
    client = client_of(engine)
    await client.initialize("2025-11-25")
    yield client
    await client.call("bench__stop_all")


def client_of(engine: Engine) -> McpClient:
    return McpClient(engine.ports["mcp_port"], engine.ports["mcp_path"])


def wait_for_names(engine: Engine, names: list[str]) -> None:
    for name in names:
        wait_for(lambda name=name: engine.tool("list_instruments", filter=name)["result"])


async def told(client: McpClient, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call(tool, arguments)
    assert not result.get("isError"), result
    content: dict[str, Any] = result["structuredContent"]
    return content


async def over(client: McpClient, run_id: str) -> dict[str, Any]:
    """The run once it runs no more."""
    async with asyncio.timeout(HANGS_S):
        while (run := await told(client, "bench__runs", run_id=run_id))["state"] == "running":
            await asyncio.sleep(0.05)
    return run


async def rows_taken(client: McpClient, run_id: str, count: int) -> dict[str, Any]:
    """The run once it has so many rows."""
    async with asyncio.timeout(HANGS_S):
        while (run := await told(client, "bench__runs", run_id=run_id))["total_rows"] < count:
            await asyncio.sleep(0.05)
    return run


def size_of(result: Any) -> int:
    return len(json.dumps(result, separators=(",", ":")))


async def test_the_command_line_s_list_and_page_of_a_run_are_of_now_while_it_runs(
    engine: Engine, client: McpClient
) -> None:
    begun = await told(
        client, "start_stream", **VOLTAGE, interval_ms=20, duration_ms=60_000, detach=True
    )
    run_id = begun["stream_id"]
    await rows_taken(client, run_id, 30)
    (listed,) = engine.rpc("runs.list", limit=1)["runs"]
    meta = engine.rpc("runs.show", run_id=run_id)["meta"]
    assert (listed["run_id"], listed["status"], meta["status"]) == (run_id, "running", "running")
    assert listed["rows"] >= 30
    assert meta["rows"] >= 30
    assert meta["statistics"]["value"]["n"] >= 30


@promise("sweep.bode")
async def test_a_bode_plot_over_generator_and_lock_in_is_one_call(client: McpClient) -> None:
    async def set_up(name: str, command: str, **parameters: Any) -> None:
        arguments = {"instrument_id": name, "command_name": command, "parameters": parameters}
        assert (await told(client, "execute_command", **arguments))["success"]

    await set_up("lockin1", "set_reference", reference="external")
    await set_up("lockin1", "set_time_constant", time_constant="3 ms")
    await set_up("gen1", "set_frequency", channel=1, frequency=10)
    await set_up("gen1", "set_amplitude", channel=1, amplitude=2)
    await set_up("gen1", "output_on", channel=1)
    begun = await told(
        client,
        "start_sweep",
        instrument_id="gen1",
        command_name="set_frequency",
        parameters={"channel": 1},
        target_value=100_000,
        sweep_rate=2_000_000,
        points={"count": 9, "spacing": "log"},
        dwell_ms=60,
        measure=[
            {"instrument_id": "lockin1", "command_name": "measure_r"},
            {"instrument_id": "lockin1", "command_name": "measure_theta"},
        ],
    )
    run = await over(client, begun["sweep_id"])
    assert (run["state"], run["reason"], run["error"]) == ("completed", "target reached", None)
    assert run["columns"] == ["t", "set", "measure_r", "measure_theta", "elapsed_s"]
    assert run["units"] == ["s", "Hz", "V", "deg", "s"]
    assert [row[1] for row in run["rows"]] == pytest.approx(
        [10 * 10 ** (i / 2) for i in range(9)], rel=1e-5
    )
    for _, hertz, r, theta, _ in run["rows"]:
        response = 1 / (1 + 1j * hertz / 1000)
        assert r == pytest.approx(abs(response) / math.sqrt(2), rel=0.02)
        assert theta == pytest.approx(math.degrees(math.atan2(response.imag, response.real)), abs=1)
    picture = await client.call(
        "bench__plot",
        {
            "run_id": begun["sweep_id"],
            "x": "set",
            "y": ["measure_r", "measure_theta"],
            "log_x": True,
            "log_y": True,
            "title": "RC",
        },
    )
    line = check_picture(picture)
    assert line.startswith("RC; over set (Hz): measure_r ")


@promise("sweep.bode")
async def test_a_bode_plot_over_generator_and_oscilloscope_is_one_call(client: McpClient) -> None:
    """The generator's channel 1 is wired to the scope's channel 2, with nothing in between."""

    async def set_up(name: str, command: str, **parameters: Any) -> None:
        arguments = {"instrument_id": name, "command_name": command, "parameters": parameters}
        assert (await told(client, "execute_command", **arguments))["success"]

    # A stop of everything stops a scope, too: what it showed before would be measured.
    await set_up("scope1", "run")
    await set_up("scope1", "set_channel_display", channel=2, shown=True)
    await set_up("scope1", "set_vertical", channel=2, probe="1", scale=0.5)
    await set_up("scope1", "set_time_scale", scale=0.005)
    await set_up("gen1", "set_frequency", channel=1, frequency=50)
    await set_up("gen1", "set_amplitude", channel=1, amplitude=2)
    await set_up("gen1", "output_on", channel=1)
    begun = await told(
        client,
        "start_sweep",
        instrument_id="gen1",
        command_name="set_frequency",
        parameters={"channel": 1},
        target_value=2_000,
        sweep_rate=1_000_000,
        points={"count": 9, "spacing": "log"},
        dwell_ms=20,
        measure=[
            {"instrument_id": "scope1", "command_name": name, "parameters": {"channel": 2}}
            for name in ("measure_vpp", "measure_frequency")
        ],
    )
    run = await over(client, begun["sweep_id"])
    assert (run["state"], run["reason"], run["error"]) == ("completed", "target reached", None)
    assert run["columns"] == ["t", "set", "measure_vpp", "measure_frequency", "elapsed_s"]
    assert run["units"] == ["s", "Hz", "V", "Hz", "s"]
    wanted = [50 * 40 ** (i / 8) for i in range(9)]
    assert [row[1] for row in run["rows"]] == pytest.approx(wanted, rel=1e-5)
    for _, hertz, vpp, seen_hertz, _ in run["rows"]:
        assert vpp == pytest.approx(2, rel=0.06)
        assert seen_hertz == pytest.approx(hertz, rel=0.05)
    picture = await client.call(
        "bench__plot",
        {
            "run_id": begun["sweep_id"],
            "x": "set",
            "y": ["measure_vpp"],
            "log_x": True,
            "log_y": True,
        },
    )
    assert "over set (Hz): measure_vpp" in check_picture(picture)


def check_picture(result: Any) -> str:
    """A PNG that is small enough, and a line of text; gives that."""
    text, image = result["content"]
    assert (text["type"], image["type"], image["mimeType"]) == ("text", "image", "image/png")
    png = base64.b64decode(image["data"])
    assert png.startswith(b"\x89PNG\r\n")
    assert len(png) <= PNG_BYTES
    assert "\n" not in text["text"]
    line: str = text["text"]
    return line


@promise("runs.pages")
@promise("runs.statistics")
async def test_a_long_stream_comes_by_pages_with_the_statistics_of_all(client: McpClient) -> None:
    begun = await told(
        client, "start_stream", **VOLTAGE, interval_ms=10, duration_ms=600_000, detach=True
    )
    run_id = begun["stream_id"]
    await rows_taken(client, run_id, 201)
    await told(client, "bench__stop_run", run_id=run_id)
    whole = await over(client, run_id)
    total = whole["total_rows"]
    assert whole["state"] == "terminated"
    assert len(whole["rows"]) < total
    rows, following = [], 0
    while following is not None:
        result = await client.call("bench__runs", {"run_id": run_id, "from_row": following})
        assert size_of(result) <= ANSWER_BYTES
        page = result["structuredContent"]
        assert page["statistics"] == whole["statistics"]
        rows += page["rows"]
        following = page["next_row"]
    assert len(rows) == total
    place = whole["columns"].index("value")
    values = [row[place] for row in rows]
    found = whole["statistics"]["value"]
    assert found["n"] == total
    assert found["mean"] == pytest.approx(statistics.fmean(values))
    assert found["std"] == pytest.approx(statistics.stdev(values))
    assert (found["min"], found["max"]) == (min(values), max(values))
    thin = await told(
        client, "bench__runs", run_id=run_id, every=50, columns=["value"], from_row=3, rows=1000
    )
    assert thin["rows"] == [[value] for value in values[3::50]]
    assert thin["columns"] == ["value"]
    assert thin["next_row"] is None
    assert thin["statistics"] == {"value": found}


@promise("runs.any")
async def test_every_kind_of_run_is_listed_and_read(client: McpClient) -> None:
    sweep = await told(
        client,
        "start_sweep",
        instrument_id="psu1",
        command_name="set_voltage",
        parameters={"channel": 2},
        target_value=1,
        sweep_rate=5,
    )
    stream = await told(client, "start_stream", **VOLTAGE, interval_ms=20, duration_ms=100)
    table = await told(
        client,
        "execute_sequence",
        **{**CURVE, "parameters": {"channel": 1, "stop": 1, "points": 3, "settle_ms": 0}},
    )
    point = await told(
        client,
        "execute_sequence",
        instrument_id="psu1",
        sequence_name="voltage_point",
        parameters={"channel": 1, "voltage": 1, "settle_ms": 0},
    )
    ids = [sweep["sweep_id"], stream["stream_id"], table["run_id"], point["run_id"]]
    await over(client, ids[0])
    result = await client.call("bench__runs", {})
    assert size_of(result) <= ANSWER_BYTES
    listed = {run["run_id"]: run for run in result["structuredContent"]["runs"]}
    assert set(ids) <= set(listed)
    states = [listed[run_id]["state"] for run_id in ids]
    assert states == ["completed", "ended", "completed", "completed"]
    assert [listed[run_id]["kind"] for run_id in ids] == ["sweep", "stream", "sequence", "sequence"]
    assert listed[ids[2]]["rows"] == 3
    assert "127.0.0.1" in listed[ids[0]]["who"]
    assert [run["started_ms"] for run in listed.values()] == sorted(
        (run["started_ms"] for run in listed.values()), reverse=True
    )
    ramp = await told(client, "bench__runs", run_id=ids[0])
    assert ramp["columns"] == ["t", "set", "elapsed_s"]
    assert [row[1] for row in ramp["rows"]] == [0.5, 1.0]
    curve = await told(client, "bench__runs", run_id=ids[2])
    assert [row[0] for row in curve["rows"]] == [0.0, 0.5, 1.0]
    assert curve["result"] == {k: v for k, v in table["result"].items() if k != "rows"}
    assert "result" not in ramp
    single = await told(client, "bench__runs", run_id=ids[3])
    assert single["result"] == point["result"] != {}
    empty = await client.call("bench__plot", {"run_id": ids[3]})
    assert f"{ids[3]} has no rows, so there is nothing to draw." in json.dumps(empty)
    only = await told(client, "bench__runs", kind="sweep", limit=1)
    assert [run["kind"] for run in only["runs"]] == ["sweep"]
    missing = await client.call("bench__runs", {"run_id": "sweep-nobody"})
    assert missing["isError"]
    assert "bench__runs" in missing["content"][0]["text"]
    wrong = await client.call("bench__runs", {"run_id": ids[0], "columns": ["volts"]})
    assert "there are t, set, elapsed_s" in json.dumps(wrong)


@promise("sequence.detach")
async def test_a_detached_sequence_goes_on_when_its_client_has_gone(engine: Engine) -> None:
    starter = client_of(engine)
    await starter.initialize("2025-11-25")
    begun = await told(starter, "execute_sequence", **CURVE, detach=True)
    assert begun["status"] == "running"
    await starter.send("DELETE")
    client = client_of(engine)
    await client.initialize("2025-11-25")
    run = await rows_taken(client, begun["run_id"], 3)
    assert run["state"] == "running"
    assert begun["run_id"] in [r["run_id"] for r in (await told(client, "bench__runs"))["runs"]]
    check_picture(await client.call("bench__plot", {"run_id": begun["run_id"]}))
    ended = await told(client, "bench__stop_run", run_id=begun["run_id"])
    assert (ended["kind"], ended["status"]) == ("sequence", "stopped")
    run = await told(client, "bench__runs", run_id=begun["run_id"])
    assert run["state"] == "stopped"
    assert ":SOUR1:CURR 0.7" in run["error"]


@promise("sequence.client-gone-tells")
async def test_what_was_measured_before_the_client_went_is_found_by_the_first_progress(
    engine: Engine, client: McpClient
) -> None:
    leaver = client_of(engine)
    params = {"name": "execute_sequence", "arguments": CURVE, "_meta": {"progressToken": "p"}}
    async with await leaver.open_post(leaver.message("tools/call", params)) as connection:
        status, _ = await connection.read_head()
        assert status == 200
        event = await connection.next_event()
        assert event is not None
        run_id = event.json()["params"]["_meta"]["run_id"]
        await rows_taken(client, run_id, 3)
        connection.abort()
    run = await over(client, run_id)
    assert run["state"] == "cancelled"
    assert run["total_rows"] >= 3
    assert run["reason"].startswith("its client went away after ")
    # The sequence's own rules switch the output off, and leave its limit as it set it.
    assert ":SOUR1:CURR 0.7" in run["error"]
    state = engine.sim("state")["instruments"]["psu1"]["state"]
    assert not json.dumps(state).count('"is_on": true')


@promise("runs.stop")
async def test_any_run_is_ended_by_its_id(client: McpClient) -> None:
    ramp = {
        "instrument_id": "psu1",
        "command_name": "set_voltage",
        "parameters": {"channel": 2},
        "target_value": 20,
        "sweep_rate": 1,
    }
    held = (await told(client, "start_sweep", **ramp))["sweep_id"]
    ended = await told(client, "bench__stop_run", run_id=held, hold=True)
    assert (ended["kind"], ended["status"]) == ("sweep", "holding")
    assert (await told(client, "bench__stop_run", run_id=held))["status"] == "stopped"
    run = await told(client, "bench__runs", run_id=held)
    assert (run["state"], run["error"]) == ("stopped", None)
    stream = await told(client, "start_stream", **VOLTAGE, duration_ms=60_000, detach=True)
    stream_id = stream["stream_id"]
    refused = await client.call("bench__stop_run", {"run_id": stream_id, "hold": True})
    assert "only a sweep can be held" in json.dumps(refused)
    ended = await told(client, "bench__stop_run", run_id=stream_id)
    assert (ended["kind"], ended["status"]) == ("stream", "terminated")
    unknown = await client.call("bench__stop_run", {"run_id": "seq-nobody"})
    assert unknown["isError"]


@promise("runs.plot")
async def test_a_stream_is_drawn_while_it_runs_and_a_waveform_by_its_stream_id(
    client: McpClient,
) -> None:
    stream = await told(
        client, "start_stream", **VOLTAGE, interval_ms=20, duration_ms=60_000, detach=True
    )
    await rows_taken(client, stream["stream_id"], 5)
    line = check_picture(await client.call("bench__plot", {"stream_id": stream["stream_id"]}))
    assert "over time (s): value" in line
    trace = await told(
        client,
        "execute_command",
        instrument_id="scope1",
        command_name="capture_waveform",
        parameters={"channel": 1},
    )
    drawn = await client.call("bench__plot", {"stream_id": trace["data"]["stream_id"]})
    assert "Waveform 0 of" in check_picture(drawn)
    wrong = await client.call("bench__plot", {"run_id": stream["stream_id"], "y": "nothing"})
    assert "There is no column 'nothing'" in json.dumps(wrong)
    neither = await client.call("bench__plot", {})
    assert "either run_id or stream_id" in json.dumps(neither)


@promise("runs.any")
@promise("runs.without-instruments")
@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
async def test_after_a_kill_the_rows_are_found_with_the_bench_switched_off(tmp_path: Path) -> None:
    with engine_process(tmp_path, "--instruments", "psu1") as engine:
        wait_for_names(engine, ["psu1"])
        client = client_of(engine)
        await client.initialize("2025-11-25")
        begun = await told(client, "execute_sequence", **CURVE, detach=True)
        run_id = begun["run_id"]
        before = await rows_taken(client, run_id, 5)
        engine.process.send_signal(signal.SIGKILL)
        engine.process.wait()
    with engine_process(tmp_path, sim=False) as again:
        client = client_of(again)
        await client.initialize("2025-11-25")
        assert not (await told(client, "list_instruments"))["instruments"]
        names = (await told(client, "get_status"))["unlisted_tools"]
        assert {"bench__runs", "bench__plot"} <= set(names)
        run = await over(client, run_id)
        assert run["state"] == "failed"
        assert "daemon died" in run["error"]
        assert run["rows"][:5] == before["rows"][:5]
        assert run["statistics"]["set_V"]["n"] == run["total_rows"]
        assert [r["run_id"] for r in (await told(client, "bench__runs"))["runs"]] == [run_id]
        check_picture(await client.call("bench__plot", {"run_id": run_id, "y": "current_A"}))


RESTING = """\
format: 1
profile_key: example_gx100
manufacturer: Example
model: GX100
instrument_class: other
source: "a test"
match: {idn: 'example instruments,gx100\\b', examples: ["Example Instruments,GX100,GX000001,1.0"]}
connection: {errors: {query: "SYST:ERR?", kind: queue}}
commands:
  read: {description: Read it., scpi: "MEAS?", returns: {type: float, unit: V}}
sequences:
  rest:
    description: Read, rest, and read again.
    steps: [{command: read, as: first}, {wait_ms: 60000}, {command: read, as: last}]
    result: {first: "{first}", last: "{last}"}
"""
POINT = {
    "instrument_id": "psu1",
    "sequence_name": "voltage_point",
    "parameters": {"channel": 1, "voltage": 1, "settle_ms": 60_000},
}
RAMP = {
    "instrument_id": "psu1",
    "command_name": "set_voltage",
    "parameters": {"channel": 2},
    "target_value": 20,
    "sweep_rate": 0.1,
}


@promise("runs.on-disk-at-once")
@promise("crash.who")
@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
async def test_after_a_kill_every_run_is_told_with_who_began_it_and_when(tmp_path: Path) -> None:
    profiles = tmp_path / "profiles"
    profiles.mkdir()
    (profiles / "example_gx100.yaml").write_text(RESTING)
    config = {"PROFILE_DIRS": [str(REPOSITORY / "profiles"), str(profiles)]}
    units = "psu1,gx1=generic_scpi"
    with engine_process(tmp_path, "--instruments", units, config=config) as engine:
        wait_for_names(engine, ["psu1", "gx1"])
        client = client_of(engine)
        await client.initialize("2025-11-25")
        rest = {"instrument_id": "gx1", "sequence_name": "rest", "detach": True}
        resting = (await told(client, "execute_sequence", **rest))["run_id"]
        pointing = (await told(client, "execute_sequence", **POINT, detach=True))["run_id"]
        ramping = (await told(client, "start_sweep", **RAMP))["sweep_id"]
        before = {run["run_id"]: run for run in (await told(client, "bench__runs"))["runs"]}
        assert before.keys() == {resting, pointing, ramping}
        assert {run["state"] for run in before.values()} == {"running"}
        async with asyncio.timeout(HANGS_S):
            while len(places := [*tmp_path.glob("data/runs/*/*/meta.json")]) < 3:
                await asyncio.sleep(0.05)
        engine.process.send_signal(signal.SIGKILL)
        engine.process.wait()
    # As where its recording had been refused: then the journal alone knows.
    shutil.rmtree(next(place.parent for place in places if place.parent.name == ramping))
    with engine_process(tmp_path, sim=False, config=config) as again:
        client = client_of(again)
        await client.initialize("2025-11-25")
        after = {run["run_id"]: run for run in (await told(client, "bench__runs"))["runs"]}
        assert after.keys() == before.keys()
        for run_id, run in after.items():
            assert run["who"] == before[run_id]["who"] == "test 1 at 127.0.0.1"
            assert abs(run["started_ms"] - before[run_id]["started_ms"]) < 500
            assert run["kind"] == before[run_id]["kind"]
        assert [after[name]["state"] for name in (resting, pointing, ramping)] == ["failed"] * 3
        status = await told(client, "get_sweep_status", sweep_id=ramping)
        assert status["who"] == "test 1 at 127.0.0.1"
        lost = await told(client, "bench__runs", run_id=resting)
        assert "daemon died" in lost["error"]


@promise("runs.any")
async def test_a_sweep_that_measures_nothing_is_recorded_listed_exported_and_drawn(
    engine: Engine, client: McpClient
) -> None:
    begun = await told(
        client,
        "start_sweep",
        instrument_id="psu1",
        command_name="set_voltage",
        parameters={"channel": 3},
        target_value=2,
        sweep_rate=5,
    )
    run_id = begun["sweep_id"]
    run = await over(client, run_id)
    assert (run["state"], run["columns"]) == ("completed", ["t", "set", "elapsed_s"])
    assert run["rows"][-1][1] == 2.0

    def edged(*words: str) -> str:
        done = command_line.edged("runs", *words, "--state-dir", str(engine.state_dir))
        assert done.returncode == 0, done.stderr
        return done.stdout

    listed = json.loads(await asyncio.to_thread(edged, "list", "--json"))
    assert run_id in json.dumps(listed)
    rows = list(csv.DictReader((await asyncio.to_thread(edged, "export", run_id)).splitlines()))
    assert [float(row["set"]) for row in rows] == [row[1] for row in run["rows"]]
    drawn = await client.call("bench__plot", {"run_id": run_id})
    assert not drawn.get("isError"), drawn
    (image,) = [part for part in drawn["content"] if part["type"] == "image"]
    assert base64.b64decode(image["data"]).startswith(b"\x89PNG")
