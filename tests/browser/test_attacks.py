"""The bench page under attack, and where something is away, wrong or too much."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import socketserver
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from edged.runs.recordings.files import RunFiles, write_meta
from tests.bench.browser import Browser
from tests.bench.engine_process import EngineProcess, engine_process
from tests.bench.sim_bench import running_bench
from tests.bench.waiting import wait_for
from tests.browser.looking import (
    CURRENT,
    MEASURED,
    ON,
    TRACES,
    address,
    agent,
    is_on,
    look,
    sideways,
    violations,
)
from tests.promises import promise

HOSTILE = '<img src=x onerror="document.title=1">,<script>alert(1)</script>,<b>SN</b>,1'
CROWD = "psu*10=rigol_dp832,dmm*12=keysight_34461a,scope*8=rigol_ds1054z"
SLOWNESS = 6.0  # thirty at once, beside other browsers
SHIFTED = "const now = Date.now; Date.now = () => now() + ({}); "


@pytest.fixture(autouse=True)
def quiet(engine: EngineProcess, browser: Browser) -> Iterator[None]:
    """What one story did to the bench is over before the next."""
    browser.complaints()
    yield
    browser.open("about:blank")
    browser.size(1440, 900)
    engine.tool("bench__stop_all")


@contextmanager
def hostile_instrument() -> Iterator[int]:
    """Answers whatever it is asked with what a page must never take for its own."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            for line in self.rfile:
                if b"?" in line:
                    self.wfile.write(HOSTILE.encode() + b"\n")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


@promise("page.text")
def test_what_a_hostile_instrument_says_stays_text(tmp_path: Path, browser: Browser) -> None:
    with hostile_instrument() as port:
        config = {
            "INSTRUMENTS": [{"address": f"TCPIP::127.0.0.1::{port}::SOCKET", "name": "bad1"}],
        }
        with engine_process(tmp_path, sim=False, config=config) as engine:
            look(browser, engine)
            browser.sees("bad1")
            browser.sees("onerror")
            engine.tool(
                "send_scpi", instrument_id="bad1", scpi_command="<script>alert(2)</script>?"
            )
            browser.sees("alert(2)")
            for view in ("#unit/bad1", "#record"):
                look(browser, engine, view)
                browser.sees("bad1")
            assert browser.run("return document.querySelectorAll('img, body script').length") == 0
            assert browser.run("return document.title").endswith("bench")
            browser.open("about:blank")
            assert browser.complaints() == []


@promise("page.away")
def test_an_engine_that_dies_is_said_to_be_away_and_stop_goes_on_being_tried_until_it_is_back(
    tmp_path: Path, browser: Browser
) -> None:
    with running_bench("--instruments", "psu1,dmm1") as bench:
        entries = [{"address": bench.address(n), "name": n} for n in bench.instruments]
        config: dict[str, Any] = {"INSTRUMENTS": entries}
        with engine_process(tmp_path, sim=False, config=config) as engine:
            config["MCP_PORT"] = engine.ports["mcp_port"]
            engine.tool("execute_command", **ON)
            look(browser, engine)
            browser.sees("ON: OUTP CH1")
            os.kill(engine.process.pid, signal.SIGKILL)
            engine.process.wait()
            browser.sees("does not answer")
            browser.click("#stop")
            browser.sees("The engine is away")
        with engine_process(tmp_path, sim=False, config=config):
            browser.sees("Stopped")
            wait_for(lambda: not bench.state("psu1")["ch1"]["is_on"])
            browser.sees("live, edged")
            browser.open("about:blank")
    # What the browser says of a connection that is refused or cut is no fault of the page.
    complaints = browser.complaints()
    assert all("net::ERR_" in line or "WebSocket" in line for line in complaints), complaints


@promise("page.text")
async def test_long_and_hostile_names_stay_text_and_within_a_phone(
    engine: EngineProcess, browser: Browser
) -> None:
    name = "<img/src=x/onerror=alert(3)>" + "n" * 90
    client = await agent(engine, name)
    await client.call("start_stream", {**MEASURED, "interval_ms": 500, "detach": True})
    hold = {"instruments": ["psu1"], "purpose": f"<b>\u202e{'p' * 150}"}
    held = (await client.call("bench__reserve", hold))["structuredContent"]
    try:
        browser.size(320, 640)
        for view in ("", "#record", "#runs", "#unit/psu1"):
            look(browser, engine, view)
            await asyncio.to_thread(browser.sees, "onerror" if view != "#unit/psu1" else "<b>ppp")
            assert "\u202e" not in browser.text
            assert sideways(browser) == [], view
        assert browser.run("return document.querySelectorAll('img').length") == 0
        look(browser, engine, "#unit/%E0<img src=x>")
        await asyncio.to_thread(browser.sees, "No instrument here is called %E0%3Cimg%20src=x%3E.")
        assert browser.complaints() == []
    finally:
        await client.call("bench__release", {"lease_id": held["lease_id"]})


@promise("page.text")
def test_numbers_of_any_size_are_readable(engine: EngineProcess, browser: Browser) -> None:
    look(browser, engine)
    told = browser.run_later(
        "const done = arguments[0]; import('/bench/static/format.js').then(({measured, age}) => "
        "done([1.5e36, -3.2e-9, 12345.678, 0, 1e-30, 4, 2.5, null, true].map("
        "(v) => measured(v, 'V').join(' ')).concat([age(-5), age(4e5), age(4e9)])))"
    )
    assert told == [
        "1.500e+36 V", "-3.2000 nV", "12.346 kV", "0 V", "1.000e-30 V", "4.0000 V", "2.5000 V",
        "\u2013 V", "on V", "0 s", "7 min", "46 d",
    ]  # fmt: skip


@promise("page.stop")
@pytest.mark.parametrize(("width", "height"), [(390, 844), (1440, 900)])
def test_thirty_instruments_are_stopped_and_the_doubtful_are_named_first(
    tmp_path: Path, browser: Browser, width: int, height: int
) -> None:
    browser.size(width, height)
    with engine_process(tmp_path, "--instruments", CROWD, slowness=SLOWNESS) as engine:
        engine.tool("execute_command", **{**ON, "instrument_id": "psu10"})
        look(browser, engine)
        browser.sees("30 instruments, 1 with outputs on")
        assert sideways(browser) == []
        engine.sim("fault", instrument="psu10", kind="freeze")
        browser.click("#stop")
        browser.sees("NOT all is confirmed off")
        first = browser.run("return document.querySelector('#stopped li').innerText")
        assert first.startswith("psu10: not confirmed: OUTP CH1")
        assert browser.run("return document.querySelectorAll('#stopped li').length") == 30
        tones = browser.run(
            "return [...document.querySelectorAll('#stopped li')].map((one) => "
            "[one.innerText.includes('not confirmed'), getComputedStyle(one).color])"
        )
        # On a busy machine another one may be in doubt, too.
        red, plain = (
            {tone for is_so, tone in tones if is_so is wanted} for wanted in (True, False)
        )
        assert plain, "the others are confirmed"
        assert not red & plain, "only what is doubtful is red"
        box = browser.run(
            "const box = document.getElementById('head').getBoundingClientRect(); "
            "return [box.top, box.bottom < innerHeight * 0.75]"
        )
        assert box == [0, True], "the report leaves room for the bench"
        assert sideways(browser) == []
        assert violations(browser) == []
        engine.sim("clear", instrument="psu10")
        browser.open("about:blank")


@promise("page.age")
@pytest.mark.parametrize("off_by_ms", [-3_600_000, 3_600_000])
def test_ages_are_by_the_bench_s_clock_whatever_that_of_the_phone_says(
    engine: EngineProcess, browser: Browser, off_by_ms: int
) -> None:
    given = browser.devtools(
        "Page.addScriptToEvaluateOnNewDocument", source=SHIFTED.format(off_by_ms)
    )
    try:
        engine.tool("execute_command", **MEASURED)
        look(browser, engine)
        browser.sees("dc voltage")
        age = "return parseInt(document.querySelector('.age').innerText)"
        found = browser.run(age)
        assert found <= 20
        browser.wait(lambda: browser.run(age) > found)
        assert "min" not in browser.run("return document.querySelector('.age').innerText")
    finally:
        browser.devtools("Page.removeScriptToEvaluateOnNewDocument", **given)


@promise("page.away")
def test_an_engine_that_hangs_is_said_not_to_answer_though_its_socket_is_open(
    tmp_path: Path, browser: Browser
) -> None:
    with engine_process(tmp_path) as engine:
        engine.tool("execute_command", **ON)
        look(browser, engine)
        browser.sees("ON: OUTP CH1")
        os.kill(engine.process.pid, signal.SIGSTOP)
        try:
            browser.sees("does not answer")
            assert violations(browser) == []
        finally:
            os.kill(engine.process.pid, signal.SIGCONT)
        browser.sees("live, edged")
        assert not browser.run("return document.getElementById('away').checkVisibility()")
        browser.open("about:blank")


@promise("page.away")
def test_after_a_minute_of_trying_it_asks_again(tmp_path: Path, browser: Browser) -> None:
    with running_bench("--instruments", "psu1") as bench:
        config: dict[str, Any] = {
            "INSTRUMENTS": [{"address": bench.address("psu1"), "name": "psu1"}]
        }
        with engine_process(tmp_path, sim=False, config=config) as engine:
            config["MCP_PORT"] = engine.ports["mcp_port"]
            engine.tool("execute_command", **ON)
            look(browser, engine)
            browser.sees("ON: OUTP CH1")
        # A minute in a few seconds.
        browser.run(
            "const now = performance.now.bind(performance); performance.now = () => now() * 15"
        )
        browser.sees("does not answer")
        browser.click("#stop")
        browser.sees("The engine is away")
        browser.sees("The engine did not answer for a minute. Nothing is confirmed")
        assert violations(browser) == []
        with engine_process(tmp_path, sim=False, config=config):
            browser.sees("live, edged")
            assert "NOT stopped" in browser.text, "nobody asked again"
            browser.click("#stopped .no")
            browser.sees("Stopped: all that was on is confirmed off")
            wait_for(lambda: not bench.state("psu1")["ch1"]["is_on"])
            browser.open("about:blank")


@promise("page.plot")
def test_a_trace_that_the_engine_no_longer_holds_is_a_picture(
    tmp_path: Path, browser: Browser
) -> None:
    with engine_process(tmp_path) as engine:
        name = engine.tool("start_stream", **TRACES)["result"]["stream_id"]
        wait_for(lambda: engine.tool("bench__runs", run_id=name)["result"]["state"] == "ended")
    with engine_process(tmp_path) as engine:
        look(browser, engine, f"#run/{name}")
        browser.wait(
            lambda: browser.run("return document.querySelector('.plot img')?.naturalWidth > 0")
        )
        alt = browser.run("return document.querySelector('.plot img').alt")
        assert "1,200 samples; over time (s)" in alt
        assert violations(browser) == []
        browser.open("about:blank")


def record(
    directory: Path, run_id: str, kind: str, columns: Sequence[str], rows: Sequence[Sequence[float]]
) -> None:
    """A recording that an engine which starts in that directory finds."""
    files = RunFiles(directory / "data" / "runs" / "2026-11-21" / run_id, columns)
    files.write({"data.csv": [tuple(row) for row in rows]})
    files.close()
    told = {"run_id": run_id, "kind": kind, "status": "completed", "started_ms": 1}
    told |= {"instrument_id": "psu1", "command_name": "iv_curve"}
    names = [{"name": name, "unit": "V"} for name in columns]
    write_meta(files.directory, {**told, "rows": len(rows), "columns": names})


@promise("page.plot")
@promise("page.text")
def test_a_hundred_thousand_rows_are_drawn_thinned_with_gaps_where_there_is_no_number(
    tmp_path: Path, browser: Browser
) -> None:
    odd = (math.nan, math.inf, -math.inf, 1e300)
    rows = [(n / 1000, odd[n % 4] if n % 1000 < 400 else n % 7, math.nan) for n in range(100_000)]
    name = "<img src=x onerror=alert(1)>"
    record(tmp_path, "sweep-big", "sweep", ("set", name, "never"), rows)
    with engine_process(tmp_path) as engine:
        look(browser, engine, "#run/sweep-big")
        browser.sees("sweep-big: 4000 points of <img")
        said = browser.run("return document.querySelector('.plot').innerText")
        assert "over set, each for 25 rows" in said
        assert "never" not in said
        assert browser.run("return document.querySelectorAll('.u-over').length") == 1
        assert browser.run("return document.querySelectorAll('img[src=x]').length") == 0
        assert sideways(browser) == []
        assert violations(browser) == []
        assert browser.complaints() == []
        browser.open("about:blank")


@promise("page.plot")
def test_a_loop_is_drawn_row_by_row_and_not_as_if_it_went_one_way(
    tmp_path: Path, browser: Browser
) -> None:
    there = [(float(n), n * 2.0) for n in range(4)]
    back = [(float(n), n * 3.0) for n in reversed(range(3))]
    record(tmp_path, "seq-loop", "sequence", ("field", "set_V"), [(y, x) for x, y in there + back])
    record(tmp_path, "seq-line", "sequence", ("field", "set_V"), [(y, x) for x, y in there[::-1]])
    with engine_process(tmp_path) as engine:
        look(browser, engine, "#run/seq-loop")
        browser.sees("7 points of field, set_V over row")
        look(browser, engine, "#run/seq-line")
        browser.sees("4 points of field over set_V")
        browser.open("about:blank")


@promise("page.one-row")
def test_a_page_left_at_a_run_that_is_not_there_asks_for_it_once(
    engine: EngineProcess, browser: Browser
) -> None:
    look(browser, engine, "#run/nobody")
    browser.sees("There is no recording 'nobody'.")
    asked = "return performance.getEntriesByType('resource').length"
    for _ in range(3):
        before = browser.run(asked)
        engine.tool("execute_command", **MEASURED)
        browser.wait(lambda before=before: browser.run(asked) >= before + 2)
    rows = engine.rpc("audit.list", limit=300)["rows"]
    assert len([row for row in rows if "nobody" in str(row)]) == 1


@promise("page.as-tools")
def test_where_the_owner_shows_nothing_the_page_says_so_and_stops_all_the_same(
    tmp_path: Path, browser: Browser
) -> None:
    allowed = {"DIRECT_TOOLS_ALLOW": ["get_status", "bench__stop_all", "execute_command"]}
    with engine_process(tmp_path, config=allowed) as engine:
        engine.tool("execute_command", **ON)
        look(browser, engine)
        browser.sees("The tool bench__check is not among those")
        assert "does not answer" not in browser.text
        assert "instrument" not in browser.text
        browser.click("#stop")
        browser.sees("confirmed off")
        assert not is_on(engine)
        browser.open("about:blank")


@contextmanager
def page_of_another_port() -> Iterator[str]:
    """A page that somebody else serves on this computer."""

    class Handler(BaseHTTPRequestHandler):
        # A connection that a browser opens beforehand and asks nothing on.
        timeout = 1

        def do_GET(self) -> None:
            body = b"<!doctype html><link rel=icon href=data:,><title>other</title>"
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = False
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/"
        finally:
            server.shutdown()
            thread.join()


@promise("page.guarded")
def test_a_page_of_another_port_neither_sees_nor_does_anything(
    engine: EngineProcess, browser: Browser
) -> None:
    engine.tool("execute_command", **ON)
    call = (
        '{"jsonrpc":"2.0","id":1,"method":"tools/call",'
        '"params":{"name":"bench__stop_all","arguments":{}}}'
    )
    with page_of_another_port() as url:
        browser.open(url)
        told = browser.run_later(
            "const [bench, mcp, call, done] = arguments; const said = []; "
            "const tried = async (what, options) => { try { const a = await fetch(what, options); "
            "said.push(a.type === 'opaque' ? 'opaque' : await a.text()); } "
            "catch { said.push('refused'); } }; (async () => { "
            "await tried(bench); await tried(bench + '/runs/x/data.csv'); "
            "await tried(bench + '/owner/approve', {method: 'POST', body: '{}'}); "
            "await tried(mcp, {method: 'POST', mode: 'no-cors', body: call}); "
            "await tried(mcp, {method: 'POST', body: call, "
            "headers: {'Content-Type': 'application/json'}}); "
            "const socket = new WebSocket(bench.replace('http', 'ws') + '/events'); "
            "socket.onopen = () => { said.push('open'); done(said); }; "
            "socket.onerror = () => { said.push('refused'); done(said); }; })()",
            address(engine), engine.mcp_url, call,
        )  # fmt: skip
        assert told == ["refused", "refused", "refused", "opaque", "refused", "refused"]
        # Nor is the page shown in a frame of it.
        browser.run(
            "const f = document.createElement('iframe'); f.src = arguments[0]; "
            "f.onload = () => { document.title = 'loaded'; }; document.body.append(f)",
            address(engine),
        )
        browser.wait(lambda: browser.run("return document.title") == "loaded")
        assert any("frame-ancestors" in line or "403" in line for line in browser.complaints())
    assert is_on(engine)


@promise("page.accessible")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1440])
async def test_axe_finds_nothing_while_a_call_waits_and_after_a_stop(
    engine: EngineProcess, browser: Browser, scheme: str, width: int
) -> None:
    browser.size(width, 844)
    browser.scheme(scheme)
    client = await agent(engine)
    call = asyncio.create_task(client.call("execute_command", CURRENT))
    try:
        look(browser, engine)
        await asyncio.to_thread(browser.sees, "Waits for a person")
        assert violations(browser) == []
        assert sideways(browser) == []
        browser.click("#stop")
        await asyncio.to_thread(browser.sees, "confirmed off")
        assert violations(browser) == []
        assert sideways(browser) == []
    finally:
        browser.scheme("light")
        for one in engine.rpc("approvals.list")["approvals"]:
            engine.rpc("approvals.deny", approval_id=one["approval_id"], by="a test")
        await call


@promise("page.answers")
@pytest.mark.parametrize(
    ("ways", "said"),
    [
        ("[page]", "answered on the bench page alone, and BENCH_PAGE is read: nobody can answer."),
        ("[page, cli]", "To answer: edged approve ask-"),
    ],
)
async def test_who_cannot_answer_on_the_page_is_told_where_the_owner_has_it_answered(
    tmp_path: Path, browser: Browser, ways: str, said: str
) -> None:
    (tmp_path / "bench.yaml").write_text(
        f"format: 1\npsu1: {{confirm: [set_current], confirm_ttl_s: 5, confirm_by: {ways}}}\n"
    )
    with engine_process(tmp_path) as engine:
        client = await agent(engine)
        call = asyncio.create_task(client.call("execute_command", CURRENT))
        look(browser, engine)
        await asyncio.to_thread(browser.sees, said)
        browser.open("about:blank")
        engine.tool("bench__stop_all")
        await call


@promise("page.shows")
async def test_when_more_is_done_than_a_page_is_told_it_says_so(
    engine: EngineProcess, browser: Browser
) -> None:
    client = await agent(engine)
    look(browser, engine)
    await asyncio.to_thread(browser.sees, "Record, the newest")
    assert "not all" not in browser.text

    async def call_on() -> None:
        while True:
            await asyncio.gather(*(client.call("get_status") for _ in range(50)))

    calling = asyncio.create_task(call_on())
    try:
        await asyncio.to_thread(browser.sees, "Record, the newest, not all")
    finally:
        calling.cancel()
        await asyncio.gather(calling, return_exceptions=True)
    look(browser, engine, "#record")
    await asyncio.to_thread(browser.sees, "get_status")
