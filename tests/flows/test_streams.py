"""Streams, waveforms and recorded data as their users meet them: a real engine, real sockets."""

from __future__ import annotations

import asyncio
import base64
import csv
import io
import json
import signal
import socket
import subprocess
import sys
import threading
import time
import zipfile
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edged.clock import SystemClock
from tests.bench import command_line
from tests.bench.engine import Engine, running_engine
from tests.bench.engine_process import REPOSITORY, engine_process
from tests.bench.mcp_client import OMIT, Connection, McpClient
from tests.bench.waiting import HANGS_S, first, wait_for

METER = "dmm1"
SUPPLY = "psu1"
SCOPE = "scope1"
WITHIN_MS = 200 + 250
"""One interval of the stream that is cut, and what a busy machine may take to notice."""


STOPPED = {"status": "terminated", "reason": "stopped by test 1 at 127.0.0.1"}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with running_engine(tmp_path_factory.mktemp("streams")) as running:
        for name in (METER, SUPPLY, SCOPE):
            there(running, name)
        yield running


@pytest.fixture(autouse=True)
def healthy_bench(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "engine" in request.fixturenames:
        request.getfixturevalue("engine").sim("clear")


def there(engine: Engine, name: str) -> None:
    """Wait until an instrument has answered: a busy machine is slower than an engine's start."""
    wait_for(lambda: engine.tool("list_instruments", filter=name)["result"])


def client_of(engine: Engine) -> McpClient:
    return McpClient(engine.ports["mcp_port"], engine.ports["mcp_path"])


def start_message(client: McpClient, *, token: Any = None, **arguments: Any) -> dict[str, Any]:
    wishes = {
        "instrument_id": SUPPLY,
        "command_name": "measure_voltage",
        "parameters": {"channel": 1},
        "interval_ms": 50,
        "duration_ms": 300,
        **arguments,
    }
    params: dict[str, Any] = {"name": "start_stream", "arguments": wishes}
    if token is not None:
        params["_meta"] = {"progressToken": token}
    return client.message("tools/call", params)


def result_of(message: Any) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(message["result"]["content"][0]["text"])
    return result


async def first_stream(connection: Connection) -> tuple[str, dict[str, Any]]:
    """The stream's id and first point, from the first progress event."""
    event = await connection.next_event()
    assert event is not None
    params = event.json()["params"]
    return params["_meta"]["stream_id"], params


def asked_since(engine: Engine, mark: int, instrument: str = SUPPLY) -> list[str]:
    entries = engine.sim("log", since=mark, instrument=instrument)["entries"]
    return [entry["text"] for entry in entries if entry["direction"] == "in"]


def mark_of(engine: Engine) -> int:
    mark: int = engine.sim("log", since=1 << 40)["next"]
    return mark


@pytest.mark.parametrize("token", [0, 7, "watch", ""])
async def test_every_point_is_a_progress_event_and_the_result_comes_last(
    engine: Engine, token: Any
) -> None:
    client = client_of(engine)
    async with await client.open_post(start_message(client, token=token)) as connection:
        status, headers = await connection.read_head()
        assert (status, headers["content-type"]) == (200, "text/event-stream")
        messages = []
        while (event := await connection.next_event()) is not None:
            messages.append(event.json())
    *progress, final = messages
    result = result_of(final)
    assert [m["params"]["progress"] for m in progress] == list(range(1, len(progress) + 1))
    assert {m["params"]["progressToken"] for m in progress} == {token}
    assert {m["params"]["_meta"]["stream_id"] for m in progress} == {result["stream_id"]}
    point = json.loads(progress[0]["params"]["message"])
    assert set(point) == {"value", "unit", "timestamp_ms"}
    assert abs(point["timestamp_ms"] - SystemClock().wall_ms()) < 10_000
    assert (result["status"], result["count"]) == ("ended", len(progress))
    assert set(result["stats"]) == {"mean", "std", "min", "max", "skipped"}
    assert result["count"] + result["stats"]["skipped"] == 6
    assert result["last"] == json.loads(progress[-1]["params"]["message"])


async def test_without_a_token_or_without_events_the_result_still_comes(
    engine: Engine,
) -> None:
    client = client_of(engine)
    plain = await client.post(start_message(client), {"Accept": "application/json"})
    assert result_of(plain.json())["status"] == "ended"
    no_events = await client.post(start_message(client, token="t"), {"Accept": "application/json"})
    assert result_of(no_events.json())["status"] == "ended"
    anything = await client.post(start_message(client, token="t"), {"Accept": OMIT})
    assert result_of(anything.messages()[-1])["status"] == "ended"


@pytest.mark.promise("stream.client-gone")
@pytest.mark.parametrize("how", ["reset", "closed"])
async def test_a_client_that_is_killed_in_mid_stream_leaves_a_silent_instrument(
    engine: Engine, how: str
) -> None:
    client = client_of(engine)
    connection = await client.open_post(
        start_message(client, token=1, interval_ms=200, duration_ms=60_000)
    )
    await connection.read_head()
    stream_id, _ = await first_stream(connection)
    # The settings of the recording are read once, at its beginning.
    await asyncio.sleep(0.3)
    mark, cut_ms = mark_of(engine), SystemClock().wall_ms()
    if how == "reset":
        connection.abort()
    else:
        await connection.close()
    async with asyncio.timeout(HANGS_S):
        while engine.rpc("streams.show", stream_id=stream_id)["status"] == "running":
            await asyncio.sleep(0.05)
    assert engine.rpc("streams.show", stream_id=stream_id)["status"] == "cancelled"
    await asyncio.sleep(0.6)
    entries = engine.sim("log", since=mark, instrument=SUPPLY)["entries"]
    late = [e for e in entries if e["direction"] == "in" and e["wall_ms"] > cut_ms + WITHIN_MS]
    assert late == []
    answer = engine.tool("execute_command", instrument_id=SUPPLY, command_name="identify")
    assert answer["is_error"] is False


async def test_another_session_stops_a_stream_and_its_starter_gets_the_partial_result(
    engine: Engine,
) -> None:
    client, other = client_of(engine), client_of(engine)
    await other.initialize()
    async with await client.open_post(
        start_message(client, token="a", interval_ms=100, duration_ms=60_000)
    ) as connection:
        await connection.read_head()
        stream_id, _ = await first_stream(connection)
        running = (await other.call("get_status"))["content"][0]["text"]
        assert stream_id in running
        stopped = await other.call("stop_stream", {"stream_id": stream_id})
        assert json.loads(stopped["content"][0]["text"]) == STOPPED
        last = None
        while (event := await connection.next_event()) is not None:
            last = event.json()
    result = result_of(last)
    assert result["status"] == "terminated"
    assert result["count"] >= 1
    assert engine.rpc("runs.show", run_id=stream_id)["meta"]["status"] == "terminated"
    again = engine.tool("stop_stream", stream_id=stream_id)["result"]
    assert again == STOPPED


async def test_a_cancelled_request_cancels_its_stream(engine: Engine) -> None:
    client = client_of(engine)
    await client.initialize()
    message = start_message(client, token="c", interval_ms=100, duration_ms=60_000)
    async with await client.open_post(message) as connection:
        await connection.read_head()
        stream_id, _ = await first_stream(connection)
        await client.notify("notifications/cancelled", {"requestId": message["id"]})
        async with asyncio.timeout(HANGS_S):
            while engine.rpc("runs.show", run_id=stream_id)["meta"]["status"] == "running":
                await asyncio.sleep(0.05)
    assert engine.rpc("streams.show", stream_id=stream_id)["status"] == "cancelled"
    assert engine.rpc("runs.show", run_id=stream_id)["meta"]["status"] == "cancelled"


def test_a_detached_stream_outlives_its_client(engine: Engine) -> None:
    answer = engine.tool(
        "start_stream",
        instrument_id=SUPPLY,
        command_name="measure_all",
        parameters={"channel": 1},
        interval_ms=50,
        duration_ms=400,
        detach=True,
    )["result"]
    stream_id = answer.pop("stream_id")
    assert answer == {"count": 0, "last": None, "status": "running"}
    wait_for(lambda: engine.rpc("streams.show", stream_id=stream_id)["status"] != "running")
    shown = engine.rpc("streams.show", stream_id=stream_id)
    assert shown["status"] == "ended"
    assert set(shown["last"]["value"]) >= {"voltage", "current"}
    # Its recording is closed right after it.
    wait_for(lambda: engine.rpc("runs.show", run_id=stream_id)["meta"]["status"] != "running")
    recorded = engine.rpc("runs.export", run_id=stream_id, format="jsonl")["content"]
    rows = [json.loads(line) for line in recorded.splitlines()]
    assert len(rows) == shown["count"]
    assert set(rows[0]) >= {"timestamp_ms", "voltage", "current"}


def test_an_instrument_that_falls_silent_fails_its_stream_with_what_was_measured(
    engine: Engine,
) -> None:
    started = engine.tool(
        "start_stream",
        instrument_id=SUPPLY,
        command_name="measure_voltage",
        parameters={"channel": 1},
        interval_ms=50,
        duration_ms=60_000,
        detach=True,
    )["result"]

    def show() -> Any:
        return engine.rpc("streams.show", stream_id=started["stream_id"])

    deadline = time.monotonic() + 20
    while not (shown := show())["count"] and time.monotonic() < deadline:
        pause(0.05)
    # The daemon asks things of its own (settings, who is there): until it is a point that is lost.
    while (shown := show())["status"] == "running" and time.monotonic() < deadline:
        if not engine.sim("state")["instruments"][SUPPLY]["faults"]:
            engine.sim("fault", instrument=SUPPLY, kind="timeout", count=1)
        pause(0.05)
    engine.sim("clear", instrument=SUPPLY)
    while (
        engine.tool(
            "execute_command",
            instrument_id=SUPPLY,
            command_name="measure_voltage",
            parameters={"channel": 1},
        )["is_error"]
        and time.monotonic() < deadline
    ):
        pause(0.05)
    assert shown["status"] == "failed"
    assert shown["count"] >= 1
    assert shown["error"]


@pytest.mark.parametrize(
    ("tool", "arguments", "code"),
    [
        ("start_stream", {"command_name": "set_voltage"}, "bad_arguments"),
        ("start_stream", {"command_name": "no_such_command"}, "unknown_command"),
        ("start_stream", {"command_name": "measure_voltage", "interval_ms": 9}, "bad_arguments"),
        (
            "start_stream",
            {"command_name": "measure_voltage", "duration_ms": 86_400_001},
            "bad_arguments",
        ),
        (
            "start_stream",
            {"command_name": "measure_voltage", "parameters": {"channel": 9}},
            "bad_arguments",
        ),
    ],
)
def test_what_cannot_be_measured_is_refused_before_a_byte_is_sent(
    engine: Engine, tool: str, arguments: dict[str, Any], code: str
) -> None:
    mark = mark_of(engine)
    answer = engine.tool(tool, instrument_id=SUPPLY, **arguments)
    assert answer["error"]["code"] == code
    assert asked_since(engine, mark) == []


def test_a_million_points_come_whole_in_one_conversation(engine: Engine) -> None:
    for command, parameters in (
        ("run", {}),
        ("set_memory_depth", {"depth": "12000000"}),
        ("stop", {}),
    ):
        done = engine.tool(
            "execute_command", instrument_id=SCOPE, command_name=command, parameters=parameters
        )
        assert not done["is_error"], done
    captured = engine.tool(
        "execute_command",
        instrument_id=SCOPE,
        command_name="capture_memory",
        parameters={"channel": 1, "first": 1, "last": 1_000_000},
    )
    assert not captured["is_error"], captured
    told = captured["result"]["data"]
    assert (told["y_length"], told["y_dtype"], told["point_index"]) == (1_000_000, "float32", 0)
    fetched = engine.tool("fetch_waveform", stream_id=told["stream_id"], point_index=0)["result"]
    samples = array("f", base64.b64decode(fetched["y_data"]))
    assert len(samples) == 1_000_000
    assert (fetched["encoding"], fetched["byte_order"]) == ("base64", "little")
    summary = engine.tool(
        "fetch_waveform", stream_id=told["stream_id"], point_index=0, format="summary"
    )["result"]
    assert summary["y_min"] == pytest.approx(min(samples), rel=1e-5)
    assert "y_data" not in summary
    assert "frequency" in summary
    missing = engine.tool("fetch_waveform", stream_id=told["stream_id"], point_index=1)
    assert missing["error"]["code"] == "unknown_point"


def test_a_stream_of_waveforms_carries_metadata_and_records_the_samples(
    engine: Engine, tmp_path: Path
) -> None:
    result = engine.tool(
        "start_stream",
        instrument_id=SCOPE,
        command_name="capture_waveform",
        parameters={"channel": 1},
        interval_ms=150,
        duration_ms=600,
    )["result"]
    assert set(result["last"]) == {"y_dtype", "y_length", "x_unit", "y_unit", "x_increment"}
    fetched = engine.tool(
        "fetch_waveform", stream_id=result["stream_id"], point_index=result["count"] - 1
    )["result"]
    out = tmp_path / "run.npz"
    done = cli(engine, "runs", "export", result["stream_id"], "--format", "npz", "--output", out)
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(out) as archive:
        assert archive.testzip() is None
        assert len(archive.namelist()) == result["count"]
        last = archive.read(archive.namelist()[-1])
    assert last.endswith(base64.b64decode(fetched["y_data"]))
    # A recording knows of its traces where they begin, as the instrument said.
    assert fetched["x_first"] == fetched["preamble"]["x_origin"] < 0
    run = engine.tool("bench__runs", run_id=result["stream_id"])["result"]
    begins = [row[run["columns"].index("x_first")] for row in run["rows"]]
    assert begins == [fetched["x_first"]] * result["count"]


def test_a_picture_of_the_screen_comes_with_its_type(engine: Engine) -> None:
    shot = engine.tool("execute_command", instrument_id=SCOPE, command_name="screenshot")["result"]
    picture = base64.b64decode(shot["data"]["image"])
    assert (shot["data"]["mime"], picture[:4]) == ("image/png", b"\x89PNG")
    assert shot["data"]["length"] == len(picture)


def pause(seconds: float) -> None:
    """Let a real process do its work."""
    threading.Event().wait(seconds)


def cli(engine: Engine, *words: Any) -> subprocess.CompletedProcess[str]:
    return command_line.edged(*map(str, words), "--state-dir", str(engine.state_dir))


def test_the_command_line_streams_lists_shows_and_exports(engine: Engine, tmp_path: Path) -> None:
    words = ("stream", "start", SUPPLY, "measure_voltage", "channel=1", "--interval", 50)
    done = cli(engine, *words, "--duration", 300, "--json")
    assert done.returncode == 0, done.stderr
    end = json.loads(done.stdout)
    assert (end["status"], end["count"] + end["stats"]["skipped"]) == ("ended", 6)
    run_id = end["stream_id"]
    rows = engine.rpc("audit.list", limit=1000)["rows"]
    looks = [row for row in rows if row["parameters"] == {"stream_id": run_id}]
    assert [row["tool"] for row in looks] == ["streams.show"]

    listed = json.loads(cli(engine, "runs", "list", "--json").stdout)
    assert listed[0]["run_id"] == run_id
    assert run_id in cli(engine, "runs", "list").stdout
    shown = json.loads(cli(engine, "runs", "show", run_id, "--json").stdout)
    assert shown["meta"]["instruments"][0]["idn"].startswith("RIGOL")
    assert shown["columns"] == ["timestamp_ms", "value", "flag", "elapsed_s"]
    text = cli(engine, "runs", "export", run_id).stdout
    rows = list(csv.reader(io.StringIO(text)))
    assert len(rows) == end["count"] + 1
    out = tmp_path / "table.npz"
    cli(engine, "runs", "export", run_id, "--format", "npz", "--output", out)
    with zipfile.ZipFile(out) as archive:
        assert archive.namelist() == [f"{name}.npy" for name in shown["columns"]]
    picture = tmp_path / "run.png"
    cli(engine, "runs", "show", run_id, "--png", str(picture))
    assert picture.read_bytes().startswith(b"\x89PNG")
    unknown = cli(engine, "runs", "show", "mcp-nothing")
    assert unknown.returncode == 1
    assert "runs list" in unknown.stderr
    assert json.loads(cli(engine, "stream", "list", "--json").stdout) == []


@pytest.mark.skipif(sys.platform == "win32", reason="a process there is not asked to end")
def test_a_command_line_that_is_ended_ends_its_stream(engine: Engine) -> None:
    words = ["stream", "start", SUPPLY, "measure_voltage", "--interval", "50"]
    more = ["--duration", "60000", "--state-dir", str(engine.state_dir)]
    with subprocess.Popen(
        [sys.executable, "-m", "edged.cli.main", *words, *more],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
    ) as watching:
        assert watching.stdout is not None
        first = watching.stdout.readline().decode().split("\t")
        assert watching.stdout.readline().count(b"\t") == 2
        watching.send_signal(signal.SIGTERM)
        rest = watching.stdout.read().decode()
        assert watching.wait(5) == 0
    assert first[0].isdigit()
    assert "terminated" in rest
    assert engine.tool("get_status")["result"]["streams"] == []


def test_the_settings_of_the_instrument_are_written_down(engine: Engine) -> None:
    result = engine.tool(
        "start_stream",
        instrument_id=SUPPLY,
        command_name="measure_voltage",
        parameters={"channel": 1},
        interval_ms=100,
        duration_ms=800,
    )["result"]
    meta = engine.rpc("runs.show", run_id=result["stream_id"])["meta"]
    (unit,) = meta["instruments"]
    assert unit["profile"]["key"] == "rigol_dp832"
    assert unit["limits"]["set_voltage"]["voltage"]["min"] == 0
    voltages = [s for s in unit["settings"] if s["name"] == "voltage"]
    assert [s["for"] for s in voltages] == [{"channel": 1}, {"channel": 2}, {"channel": 3}]
    assert all(isinstance(s["value"], float) for s in voltages)
    assert meta["caller"]["route"] == "rpc"
    assert set(meta["clock"]) == {"is_synchronized", "source"}


@pytest.mark.promise("runs.kill")
@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
def test_kill_9_loses_at_most_the_last_second(tmp_path: Path) -> None:
    with engine_process(tmp_path) as engine:
        there(engine, SUPPLY)
        started = engine.tool(
            "start_stream",
            instrument_id=SUPPLY,
            command_name="measure_voltage",
            parameters={"channel": 1},
            interval_ms=20,
            duration_ms=60_000,
            detach=True,
        )["result"]
        pause(1.6)
        count = engine.rpc("streams.show", stream_id=started["stream_id"])["count"]
        engine.process.send_signal(signal.SIGKILL)
        engine.process.wait()
    (data,) = tmp_path.glob("data/runs/*/mcp-*/data.csv")
    rows = data.read_text().splitlines()[1:]
    assert len(rows) >= count - 60
    with engine_process(tmp_path) as again:

        def status() -> str:
            return str(again.rpc("runs.show", run_id=started["stream_id"])["meta"]["status"])

        wait_for(lambda: status() != "running")
        assert status() == "failed"
        shown = again.rpc("runs.show", run_id=started["stream_id"], rows=0)
        assert shown["meta"]["rows"] == len(rows)


async def test_a_daemon_that_stops_ends_its_streams_and_still_answers_them(
    tmp_path: Path,
) -> None:
    with engine_process(tmp_path) as engine:
        there(engine, SUPPLY)
        client = client_of(engine)
        async with await client.open_post(
            start_message(client, token=1, duration_ms=60_000)
        ) as connection:
            await connection.read_head()
            await first_stream(connection)
            engine.process.send_signal(signal.SIGTERM)
            last = None
            while (event := await connection.next_event()) is not None:
                last = event.json()
        assert result_of(last)["status"] == "terminated"
        assert await asyncio.to_thread(engine.process.wait, 5) == 0


def test_the_table_of_a_sequence_is_recorded(engine: Engine) -> None:
    done = engine.tool(
        "execute_sequence",
        instrument_id=METER,
        sequence_name="dc_voltage_series",
        parameters={"count": 3, "interval_ms": 0, "nplc": "0.02"},
    )
    assert not done["is_error"], done
    recording = done["result"]["recording"]
    assert (recording["rows"], recording["error"]) == (3, "")
    shown = engine.rpc("runs.show", run_id=recording["run_id"])
    assert shown["columns"] == ["number", "voltage_V", "elapsed_s"]
    assert [row[1] for row in shown["rows"]] == [
        row["voltage_V"] for row in done["result"]["result"]["rows"]
    ]
    assert (shown["meta"]["kind"], shown["meta"]["status"]) == ("sequence", "completed")


def test_a_client_of_the_rpc_interface_that_goes_cancels_its_stream(engine: Engine) -> None:
    params = {
        "instrument_id": SUPPLY,
        "command_name": "measure_voltage",
        "parameters": {"channel": 1},
        "interval_ms": 100,
        "duration_ms": 60_000,
    }
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "start_stream", "params": params})
    port = engine.ports["rpc_port"]
    with socket.create_connection(("127.0.0.1", port), 5) as line:
        line.sendall(
            f"POST /rpc HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n{body}".encode()
        )
        (running,) = first(lambda: engine.tool("get_status")["result"]["streams"])
    shown = first(
        lambda: (
            found
            if (found := engine.rpc("streams.show", stream_id=running["stream_id"]))["status"]
            != "running"
            else None
        )
    )
    assert shown["status"] == "cancelled"
