"""The bench page from outside of a browser: what is served, to whom, and who may answer on it."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import os
import stat
import subprocess
import sys
import zipfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp.test_utils import TestClient
from pytest_aiohttp import AiohttpClient

from edged.config.load import load_config, this_machine
from edged.errors import Invalid
from edged.surfaces.page.owner import keep_page_key
from edged.surfaces.page.server import TYPES
from tests.bench import command_line
from tests.bench.engine import Engine, running_engine
from tests.bench.engine_process import REPOSITORY
from tests.bench.listener_server import already_at
from tests.bench.loaded_modules import listing_engine, modules_of
from tests.bench.mcp_client import McpClient, modern
from tests.bench.sim_bench import running_bench
from tests.bench.supervised import supervised
from tests.bench.waiting import HANGS_S, wait_for
from tests.promises import promise

STATIC = REPOSITORY / "edged" / "surfaces" / "page" / "static"
CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
MOST_BYTES = 160_000
VOLTS = {"instrument_id": "dmm1", "command_name": "measure_dc_voltage"}
ON = {"instrument_id": "psu1", "command_name": "output_on", "parameters": {"channel": 1}}

JUDGED = """format: 1
experiment: judged
roles: {meter: dmm1}
steps:
  - for: board
    in: {count: 2}
    unit: "{serial}"
    steps:
      - {read: {v: meter.measure_dc_voltage}}
      - {let: {serial: "{board}"}}
      - {check: size, value: "{board}", max: 0.5}
"""
EMPTY = "format: 1\nexperiment: empty\nroles: {meter: dmm1}\nsteps: [{wait_s: 0.1}]\n"


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    place = tmp_path_factory.mktemp("page")
    (place / "bench.yaml").write_text(
        "format: 1\npsu1: {confirm: [output_on], confirm_ttl_s: 30}\n"
    )
    with running_engine(place, config={"BENCH_PAGE": "full"}) as running:
        yield running


def base(engine: Engine) -> str:
    return f"http://127.0.0.1:{engine.ports['mcp_port']}"


@pytest.fixture
async def browser(engine: Engine, aiohttp_client: AiohttpClient) -> TestClient:
    return await aiohttp_client(already_at(engine.ports["mcp_port"]))


def rows(engine: Engine, tool: str = "") -> list[dict[str, Any]]:
    found = engine.rpc("audit.list", limit=1000)["rows"]
    return [row for row in found if tool in ("", row["tool"])]


@promise("page.headers")
async def test_the_page_is_one_file_with_a_policy_that_lets_nothing_else_in(
    browser: TestClient,
) -> None:
    page = await browser.get("/bench")
    assert page.status == 200
    text = await page.text()
    assert "{{facts}}" not in text
    assert "&quot;mode&quot;:&quot;full&quot;" in text
    assert page.headers["Content-Security-Policy"] == CSP
    assert page.headers["X-Content-Type-Options"] == "nosniff"
    assert page.headers["Referrer-Policy"] == "no-referrer"
    assert "Set-Cookie" not in page.headers
    again = await browser.get("/bench", headers={"If-None-Match": page.headers["ETag"]})
    assert again.status == 304


@promise("page.small")
def test_all_that_a_browser_gets_is_small_and_asks_for_nothing_elsewhere() -> None:
    files = list(STATIC.iterdir())
    assert sum(file.stat().st_size for file in files) <= MOST_BYTES
    for file in files:
        assert file.suffix in TYPES or file.name.endswith(".LICENSE"), file
        if file.suffix in {".html", ".css"} or (file.suffix == ".js" and "uPlot" not in file.name):
            assert "://" not in file.read_text().replace("http:", ""), file
    assert "MIT" in (STATIC / "uPlot.LICENSE").read_text()


@promise("page.headers")
@pytest.mark.parametrize("name", sorted(file.name for file in STATIC.iterdir()))
async def test_each_file_is_served_by_its_name(browser: TestClient, name: str) -> None:
    found = await browser.get(f"/bench/static/{name}")
    if name == "index.html":
        assert found.status == 404
        return
    assert found.status == 200
    assert await found.read() == (STATIC / name).read_bytes()
    assert found.headers["Content-Security-Policy"] == CSP


@promise("page.guarded")
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://127.0.0.1:1"}, 403),
        ({"Origin": "http://localhost"}, 403),
        ({"Origin": "{own}", "Sec-Fetch-Site": "same-site"}, 403),
        ({"Edge-Caller-JWT": "x"}, 404),
        ({"Edge-Caller-JWT": ""}, 404),
    ],
)
@pytest.mark.parametrize(
    "path",
    [
        "/bench", "/bench/static/main.js", "/bench/events", "/bench/units/psu1/trace",
        "/bench/runs/x/data.csv", "/bench/runs/x/data.npz", "/bench/runs/x/report.html",
        "/bench/runs/x/view.json",
    ],
)  # fmt: skip
async def test_it_is_behind_the_guard_of_the_endpoint_and_not_on_the_relay_route(
    engine: Engine, browser: TestClient, headers: dict[str, str], status: int, path: str
) -> None:
    told = {name: value.format(own=base(engine)) for name, value in headers.items()}
    refused = await browser.get(path, headers=told)
    assert refused.status == status, await refused.text()
    post = await browser.post("/bench/owner/approve", json={"id": "x"}, headers=told)
    assert post.status == status, await post.text()
    assert "traceback" not in (await refused.text()).lower()


@promise("page.guarded")
@pytest.mark.parametrize(
    "path",
    [
        "/bench/static/../server.py",
        "/bench/static/%2e%2e/server.py",
        "/bench/static/..%2fserver.py",
        "/bench/static//etc/passwd",
        "/bench/static/main.js%00",
        "/bench/static/",
        "/bench/other",
        "/bench/runs/..%2f..%2fx/data.csv",
        "/bench/runs/nobody/data.csv",
        "/bench/runs/nobody/view.json",
        "/bench/runs/nobody/data.exe",
    ],
)
async def test_nothing_else_of_the_disk_can_be_reached(browser: TestClient, path: str) -> None:
    answer = await browser.get(path)
    assert answer.status in {404, 400}, answer
    assert answer.url.raw_path == path
    assert b"def " not in await answer.read()


async def told(socket: aiohttp.ClientWebSocketResponse, topic: str) -> dict[str, Any]:
    async with asyncio.timeout(HANGS_S):
        while True:
            message = await socket.receive_json()
            if message.get("params", {}).get("topic") == topic:
                params: dict[str, Any] = message["params"]
                return params


async def subscribed(socket: aiohttp.ClientWebSocketResponse, *topics: str) -> dict[str, Any]:
    await socket.send_json(
        {"jsonrpc": "2.0", "id": 1, "method": "subscribe", "params": {"topics": list(topics)}}
    )
    answer: dict[str, Any] = (await socket.receive_json())["result"]
    return answer


@promise("page.values")
async def test_whatever_anybody_measures_is_told_with_its_unit_and_the_last_to_who_comes_later(
    engine: Engine, browser: TestClient
) -> None:
    async with browser.ws_connect("/bench/events") as socket:
        await subscribed(socket, "value")
        client = McpClient(engine.ports["mcp_port"])
        await client.initialize("2025-11-25")
        result = await client.call("execute_command", VOLTS)
        event = await told(socket, "value")
        (value,) = event["data"]
        assert value["command"] == "measure_dc_voltage"
        assert value["unit"] == "V"
        assert value["value"] == result["structuredContent"]["data"]
        async with browser.ws_connect("/bench/events") as later:
            greeting = await subscribed(later, "value")
        assert value in greeting["values"]
        assert 0 <= greeting["time_ms"] - value["time_ms"] < 20_000


@promise("page.trace")
async def test_the_trace_of_a_line_is_short_and_that_of_nobody_is_none(
    engine: Engine, browser: TestClient
) -> None:
    for _ in range(40):
        engine.tool("send_scpi", instrument_id="dmm1", scpi_command="CONF?")
    found = await browser.get("/bench/units/dmm1/trace")
    told = (await found.json())["exchanges"]
    assert 20 <= len(told) <= 60
    assert {one["direction"] for one in told} >= {"sent", "received"}
    times = [one["timestamp_ms"] for one in told]
    assert times == sorted(times, reverse=True)
    assert len(await found.read()) < 16_000
    assert (await browser.get("/bench/units/nobody/trace")).status == 404


@promise("page.late")
async def test_an_engine_has_loaded_none_of_it_until_somebody_looks(
    tmp_path: Path, aiohttp_client: AiohttpClient
) -> None:
    with listing_engine(tmp_path) as engine:
        client = McpClient(engine.ports["mcp_port"])
        await client.initialize("2025-11-25")
        await client.call("get_status")
        before = modules_of(engine)
        browser = await aiohttp_client(already_at(engine.ports["mcp_port"]))
        assert (await browser.get("/bench")).status == 200
        after = modules_of(engine)
    assert "edged.engine.bench_page" in before
    # The owner's key is written at the start.
    server = {name for name in after - before if name.startswith("edged.surfaces.page.")}
    assert "edged.surfaces.page.server" in server
    kept = {name for name in before if name.startswith("edged.surfaces.page.")}
    assert kept == {"edged.surfaces.page.owner"}


async def one_shot(client: McpClient, tool: str, arguments: dict[str, Any], look: str) -> Any:
    """A call as the page makes it, in the revision without sessions."""
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": tool, "arguments": arguments}}  # fmt: skip
    message, headers = modern(call)
    answer = await client.post(message, {**headers, "Edged-Look": look})
    return answer.messages()[-1]


@promise("page.one-row")
async def test_an_open_page_is_one_row_and_its_looks_are_none(
    engine: Engine, browser: TestClient
) -> None:
    def new_tools(since: int) -> list[str]:
        found = [row["tool"] for row in rows(engine) if row["seq"] > since]
        return sorted(set(found) - {"audit.list"})

    def newest() -> int:
        return max(row["seq"] for row in rows(engine))

    client = McpClient(engine.ports["mcp_port"])
    wave = {"instrument_id": "scope1", "command_name": "capture_waveform"}
    stream = engine.tool("execute_command", **wave)["result"]["data"]["stream_id"]
    trace = {"stream_id": stream, "point_index": 0, "format": "decimated"}
    looks: dict[str, dict[str, Any]] = {
        "get_status": {},
        "list_instruments": {},
        "bench__runs": {},
        "bench__history": {},
        "bench__plot": {"stream_id": stream},
        "fetch_waveform": trace,
    }
    since = newest()
    async with browser.ws_connect("/bench/events") as socket:
        look = (await subscribed(socket, "instrument", "value"))["look"]
        for tool, arguments in looks.items():
            answer = await one_shot(client, tool, arguments, look)
            assert not answer["result"].get("isError"), answer
        started = engine.tool("bench__start_experiment", text=EMPTY)["result"]["run_id"]
        view = await (await browser.get(f"/bench/runs/{started}/view.json")).json()
        assert view["status"]["run_id"] == started
        # What asks an instrument has its row whoever asks.
        await one_shot(client, "execute_command", VOLTS, look)
        wait_for(lambda: "execute_command" in new_tools(since))
        assert new_tools(since) == ["bench__start_experiment", "execute_command", "page.open"]
    since = newest()
    await one_shot(client, "get_status", {}, look)
    await one_shot(client, "bench__history", {"limit": 1}, "invented")
    wait_for(lambda: new_tools(since) == ["bench__history", "get_status"])


@asynccontextmanager
async def waiting_call(engine: Engine) -> AsyncIterator[tuple[asyncio.Task[Any], str]]:
    """A call that waits for a yes, and the id of its question."""
    client = McpClient(engine.ports["mcp_port"])
    await client.initialize("2025-06-18")
    call = asyncio.create_task(client.call("execute_command", ON))
    found: list[Any] = []
    async with asyncio.timeout(HANGS_S):
        while not found:
            found = await asyncio.to_thread(lambda: engine.rpc("approvals.list")["approvals"])
    yield call, found[0]["approval_id"]
    await call


def page_key(engine: Engine) -> str:
    return (engine.state_dir / "page_key").read_text().strip()


def typed(engine: Engine, *words: str) -> str:
    where = ("--state-dir", str(engine.state_dir))
    done = command_line.edged(*words, *where, environ=command_line.NO_PROFILES)
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout


def opened(engine: Engine, *flags: str) -> dict[str, Any]:
    told_: dict[str, Any] = json.loads(typed(engine, "open", "--json", *flags))
    return told_


@promise("page.named")
def test_the_page_is_named_by_status_doctor_and_open_the_key_by_open_full_alone(
    engine: Engine,
) -> None:
    page = f"{base(engine)}/bench"
    key = keep_page_key(engine.state_dir)
    for words in (("status",), ("doctor",), ("open", "--print"), ("open", "--qr")):
        told_ = typed(engine, *words)
        assert page in told_, words
        assert key not in told_
    assert "\N{FULL BLOCK}" in typed(engine, "open", "--qr")
    assert typed(engine, "open", "--full", "--print").strip() == f"{page}#key={key}"


@promise("page.key-unseen")
def test_the_key_is_in_no_command_line_when_the_page_is_opened(
    engine: Engine, tmp_path: Path
) -> None:
    browser, seen = tmp_path / "browser", tmp_path / "seen"
    browser.write_text(f'#!/bin/sh\nprintf "%s" "$*" > {seen}\n')
    browser.chmod(0o755)
    environment = {**os.environ, "BROWSER": f"{browser} %s"}

    def opened_by(*flags: str) -> str:
        words = [sys.executable, "-m", "edged.cli.main", "open", *flags]
        words += ["--state-dir", str(engine.state_dir)]
        subprocess.run(words, env=environment, check=True, capture_output=True, timeout=HANGS_S)
        return seen.read_text()

    redirect = engine.state_dir / "open.html"
    key = keep_page_key(engine.state_dir)
    assert opened_by("--full") == redirect.as_uri()
    assert stat.S_IMODE(redirect.stat().st_mode) == 0o600
    assert f'location.replace("{base(engine)}/bench#key={key}")' in redirect.read_text()
    assert opened_by() == f"{base(engine)}/bench"
    assert not redirect.exists()


@promise("page.key")
async def test_an_agent_with_the_url_cannot_answer_and_a_person_with_the_key_can(
    engine: Engine, browser: TestClient
) -> None:
    url = opened(engine, "--full")["url"]
    key = url.rpartition("#key=")[2]
    assert key == page_key(engine)
    assert len(key) == 32
    assert stat.S_IMODE((engine.state_dir / "page_key").stat().st_mode) == 0o600
    assert "key" not in opened(engine)["url"]
    async with waiting_call(engine) as (call, name):
        for given in (
            {}, {"Edged-Page-Key": ""}, {"Edged-Page-Key": "0" * 32},
            {"Edged-Page-Key": key[:-1]}, {"Authorization": f"Bearer {key}"},
            {"Cookie": f"key={key}"},
        ):  # fmt: skip
            for what, body in (
                ("approve", {"id": name}), ("deny", {"id": name}),
                ("break", {"lease": "psu1", "reason": "mine"}),
            ):  # fmt: skip
                refused = await browser.post(f"/bench/owner/{what}", json=body, headers=given)
                assert refused.status == 401, (given, await refused.text())
        assert not call.done()
        held = {"Edged-Page-Key": key}
        for body in ("", "[]", "{}", '{"id": 5}', '{"id": ""}', "x" * 70_000):
            bad = await browser.post(
                "/bench/owner/approve",
                data=body,
                headers={**held, "Content-Type": "application/json"},
            )
            assert bad.status in {400, 413}, (body[:20], await bad.text())
        form = await browser.post("/bench/owner/approve", data={"id": name}, headers=held)
        assert form.status == 400
        unknown = await browser.post("/bench/owner/approve", json={"id": "nobody"}, headers=held)
        assert unknown.status == 404
        assert not call.done()
        done = await browser.post("/bench/owner/approve", json={"id": name}, headers=held)
        assert done.status == 200, await done.text()
        assert not (await call).get("isError")
    granted = [row for row in rows(engine) if "the page at 127.0.0.1" in json.dumps(row)]
    assert granted
    assert key not in json.dumps(rows(engine))
    assert key not in engine.log.read_text()
    history = engine.tool("bench__history", limit=100)
    assert key not in json.dumps(history)


@promise("page.key")
async def test_no_on_the_page_is_no_and_the_owner_breaks_a_lease_there(
    engine: Engine, browser: TestClient
) -> None:
    key = {"Edged-Page-Key": opened(engine, "--full")["url"].rpartition("#key=")[2]}
    async with waiting_call(engine) as (call, name):
        done = await browser.post("/bench/owner/deny", json={"id": name}, headers=key)
        assert done.status == 200
        assert (await call)["isError"]
        client = McpClient(engine.ports["mcp_port"])
        await client.initialize("2025-11-25")
        await client.call("bench__reserve", {"instruments": ["psu1"], "purpose": "burn-in"})
        broken = await browser.post(
            "/bench/owner/break", json={"lease": "psu1", "reason": "lunch"}, headers=key
        )
        assert broken.status == 200, await broken.text()
        assert engine.tool("get_status")["result"]["leases"] == []


@promise("page.downloads")
async def test_a_run_is_taken_away_whole(engine: Engine, browser: TestClient) -> None:
    stream = engine.tool("start_stream", **VOLTS, interval_ms=100, duration_ms=1000, detach=True)[
        "result"
    ]["stream_id"]
    wait_for(lambda: engine.tool("bench__runs", run_id=stream)["result"]["state"] == "ended")
    count = engine.tool("bench__runs", run_id=stream)["result"]["total_rows"]
    table = await browser.get(f"/bench/runs/{stream}/data.csv")
    assert table.status == 200
    assert table.headers["Content-Disposition"] == f'attachment; filename="{stream}.csv"'
    found = list(csv.reader(io.StringIO(await table.text())))
    assert len(found) == count + 1
    packed = await browser.get(f"/bench/runs/{stream}/data.npz")
    assert zipfile.ZipFile(io.BytesIO(await packed.read())).testzip() is None
    report = await browser.get(f"/bench/runs/{stream}/report.html")
    assert report.status == 200
    assert report.headers["Content-Disposition"].startswith("attachment")
    assert "MY54506462" in await report.text()
    for name in ("data.csv", "data.npz", "report.html"):
        assert (await browser.get(f"/bench/runs/nobody/{name}")).status == 404


@promise("page.experiment")
async def test_an_experiment_of_a_former_life_has_its_units_and_verdict(
    tmp_path: Path, aiohttp_client: AiohttpClient
) -> None:
    with running_engine(tmp_path) as engine:
        run_id = engine.tool("bench__start_experiment", text=JUDGED)["result"]["run_id"]
        asked = {"run_id": run_id}
        wait_for(
            lambda: engine.tool("bench__control_run", **asked)["result"]["state"] == "completed"
        )
    with running_engine(tmp_path) as engine:
        browser = await aiohttp_client(already_at(engine.ports["mcp_port"]))
        view = await (await browser.get(f"/bench/runs/{run_id}/view.json")).json()
    assert (view["status"], view["verdict"]) == (None, "fail")
    assert [(one["unit"], one["verdict"], one["failed"]) for one in view["tested"]] == [
        ("0", "pass", []),
        ("1", "fail", ["size"]),
    ]
    assert view["dimensions"] == []


@promise("page.modes")
async def test_off_there_is_none_and_read_answers_nothing(
    tmp_path: Path, aiohttp_client: AiohttpClient
) -> None:
    for mode in ("off", "read"):
        place = tmp_path / mode
        place.mkdir()
        with running_engine(place, config={"BENCH_PAGE": mode}) as engine:
            browser = await aiohttp_client(already_at(engine.ports["mcp_port"]))
            page = await browser.get("/bench")
            assert page.status == (404 if mode == "off" else 200)
            if mode == "read":
                key = {"Edged-Page-Key": keep_page_key(engine.state_dir)}
                refused = await browser.post("/bench/owner/approve", json={"id": "x"}, headers=key)
                assert refused.status == 403


@promise("page.as-tools")
async def test_whoever_may_not_use_the_tools_sees_no_more_on_the_page(
    tmp_path: Path, aiohttp_client: AiohttpClient
) -> None:
    with running_engine(tmp_path, config={"DIRECT_TOOLS_ALLOW": ["get_status"]}) as engine:
        browser = await aiohttp_client(already_at(engine.ports["mcp_port"]))
        assert (await browser.get("/bench")).status == 200
        for path in ("runs/x/data.csv", "runs/x/view.json", "units/psu1/trace", "events"):
            assert (await browser.get(f"/bench/{path}")).status == 403, path
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await browser.ws_connect("/bench/events")
        assert refused.value.status == 403


@promise("page.as-tools")
async def test_the_page_shows_rows_of_the_tools_that_the_owner_allows_and_no_others(
    tmp_path: Path, aiohttp_client: AiohttpClient
) -> None:
    allowed = ["bench__check", "bench__history", "bench__runs", "get_status"]
    with running_engine(tmp_path, config={"DIRECT_TOOLS_ALLOW": allowed}) as engine:
        browser = await aiohttp_client(already_at(engine.ports["mcp_port"]))
        async with browser.ws_connect("/bench/events") as socket:
            await subscribed(socket, "audit")
            engine.tool("send_scpi", instrument_id="psu1", scpi_command="*IDN?")
            engine.tool("get_status")
            event = await told(socket, "audit")
            assert event["data"]["tool"] == "get_status"
        # How an experiment stands is what bench__control_run tells.
        run_id = engine.tool("bench__start_experiment", text=EMPTY)["result"]["run_id"]
        view = await (await browser.get(f"/bench/runs/{run_id}/view.json")).json()
        assert view["status"] is None


@promise("page.origins")
async def test_pages_of_allowed_origins_may_ask_and_read_and_no_others(
    tmp_path: Path, aiohttp_client: AiohttpClient
) -> None:
    friend, foe = "https://lab.example", "https://evil.example"
    wish = {
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "content-type, mcp-method, mcp-param-a",
    }
    with running_engine(tmp_path, config={"ALLOWED_ORIGINS": [friend]}) as engine:
        browser = await aiohttp_client(already_at(engine.ports["mcp_port"]))
        for path in ("/mcp", "/bench/owner/approve"):
            asked = await browser.options(path, headers={"Origin": friend, **wish})
            assert asked.status == 204
            assert asked.headers["Access-Control-Allow-Origin"] == friend
            assert "POST" in asked.headers["Access-Control-Allow-Methods"]
            assert "mcp-param-a" in asked.headers["Access-Control-Allow-Headers"]
            refused = await browser.options(path, headers={"Origin": foe, **wish})
            assert refused.status == 403
            assert "Access-Control-Allow-Origin" not in refused.headers
        call = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        for origin in (friend, None):
            answered = await browser.post(
                "/mcp", json=call, headers={"Origin": origin} if origin else {}
            )
            assert answered.status == 200
            assert answered.headers.get("Access-Control-Allow-Origin") == origin
        page = await browser.get("/bench", headers={"Origin": friend})
        assert page.headers["Access-Control-Allow-Origin"] == friend
    place = tmp_path / "none"
    place.mkdir()
    with running_engine(place) as engine:
        browser = await aiohttp_client(already_at(engine.ports["mcp_port"]))
        own = {"Origin": base(engine)}
        page = await browser.get("/bench", headers=own)
        assert "Access-Control-Allow-Origin" not in page.headers
        assert (await browser.options("/mcp", headers=own)).status == 405


@promise("page.modes")
@pytest.mark.parametrize("path", ["/bench", "/bench/", "/bench/mcp", "/metrics"])
def test_the_endpoint_cannot_be_where_the_page_is(path: str) -> None:
    with pytest.raises(Invalid) as refused:
        load_config(places=this_machine(), environ={"EDGED_MCP_PATH": path})
    assert "neither /bench nor /metrics" in str(refused.value)


@promise("page.supervised")
async def test_the_supervisor_carries_the_page_and_its_socket(
    tmp_path: Path, aiohttp_client: AiohttpClient
) -> None:
    with (
        running_bench("--instruments", "psu1,dmm1") as bench,
        supervised(tmp_path, bench) as one,
    ):
        engine = one.engine()
        browser = await aiohttp_client(already_at(engine.ports["mcp_port"]))
        assert (await browser.get("/bench")).status == 200
        async with browser.ws_connect("/bench/events") as socket:
            assert (await subscribed(socket, "value"))["look"]
            await asyncio.to_thread(lambda: engine.tool("execute_command", **VOLTS))
            assert (await told(socket, "value"))["data"][0]["unit"] == "V"
