"""The apps in the official host of MCP Apps, in a real browser."""

from __future__ import annotations

import http.client
import re
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.bench.browser import ELEMENT, ESCAPE, HOME, Browser, running_browser
from tests.bench.engine_process import REPOSITORY, EngineProcess, engine_process
from tests.bench.sdk_session import NODE_PACKAGES, node_binary
from tests.bench.waiting import wait_for
from tests.promises import promise

HOST = REPOSITORY / "tests" / "clients" / "node" / "apps_host.mjs"
ESBUILD = NODE_PACKAGES / "node_modules" / "esbuild" / "bin" / "esbuild"
PAGE = (
    b"<!doctype html><link rel=icon href=data:,><title>loading</title><body>"
    b"<script type=module src=/host.js></script>"
)
PASSED_ON = ("accept", "content-type", "mcp-session-id", "mcp-protocol-version", "mcp-method")
ON = {"instrument_id": "psu1", "command_name": "output_on", "parameters": {"channel": 1}}
SWEEP = {
    "instrument_id": "psu1",
    "command_name": "set_voltage",
    "parameters": {"channel": 1},
    "target_value": 10,
    "sweep_rate": 0.5,
    "measure": [{"instrument_id": "dmm1", "command_name": "measure_dc_voltage"}],
}


@contextmanager
def serving(script: bytes, mcp_port: int) -> Iterator[int]:
    """The host's page, and the endpoint beside it as a host's own server carries it."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            files = {"/": (PAGE, "text/html"), "/host.js": (script, "text/javascript")}
            body, kind = files.get(self.path, (b"", "text/plain"))
            self._answer(200 if self.path in files else 405, {"Content-Type": kind}, body)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {n: v for n, v in self.headers.items() if n.lower().startswith("mcp-")}
            headers |= {n: self.headers[n] for n in PASSED_ON if n in self.headers}
            way = http.client.HTTPConnection("127.0.0.1", mcp_port, timeout=30)
            try:
                way.request("POST", "/mcp", body, headers)
                answer = way.getresponse()
                kept = {n: v for n, v in answer.getheaders() if n.lower() in
                        {"content-type", "mcp-session-id"}}  # fmt: skip
                self._answer(answer.status, kept, answer.read())
            finally:
                way.close()

        def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The official host library with the page around it, in one file."""
    made: Path = tmp_path_factory.mktemp("host") / "host.js"
    source = NODE_PACKAGES.resolve() / HOST.name
    source.write_bytes(HOST.read_bytes())
    subprocess.run(
        [str(node_binary()), str(ESBUILD.resolve()), str(source), "--bundle", "--format=esm",
         f"--outfile={made}", "--log-level=error"],
        check=True, timeout=60, cwd=NODE_PACKAGES.resolve(),
    )  # fmt: skip
    return made.read_bytes()


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineProcess]:
    with engine_process(tmp_path_factory.mktemp("apps")) as running:
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running_browser(1000, 800) as running:
        yield running


@contextmanager
def shown(
    browser: Browser, engine: EngineProcess, script: bytes, tool: str, arguments: dict[str, Any]
) -> Iterator[str]:
    """The app of a tool in its frame, in which the browser is; gives the app's address."""
    with serving(script, engine.ports["mcp_port"]) as port:
        browser.complaints()
        browser.open(f"http://127.0.0.1:{port}/")
        browser.wait(lambda: browser.run("return document.title") == "ready")
        uri = browser.run_later(
            "const done = arguments[2]; "
            "show(arguments[0], arguments[1], 'dark').then(done, (e) => done('failed: ' + e))",
            tool, arguments,
        )  # fmt: skip
        frame = browser.element("iframe")
        browser.command("POST", "/frame", {"id": {ELEMENT: frame}})
        try:
            yield str(uri)
        finally:
            browser.command("POST", "/frame", {"id": None})
            # The client asks for a stream that this server has not.
            assert [one for one in browser.complaints() if "/mcp " not in one] == []
            browser.open("about:blank")
            engine.tool("bench__stop_all")


def at_host(browser: Browser, script: str) -> Any:
    """What a function body returns in the host's own page."""
    frame = None
    browser.command("POST", "/frame", {"id": None})
    try:
        found = browser.run(script)
        frame = browser.element("iframe")
    finally:
        browser.command("POST", "/frame", {"id": {ELEMENT: frame} if frame else None})
    return found


@promise("app.lives")
def test_the_bench_is_shown_follows_the_theme_and_stops_all(
    browser: Browser, engine: EngineProcess, script: bytes
) -> None:
    engine.tool("execute_command", **ON)
    with shown(browser, engine, script, "get_status", {}) as uri:
        assert uri == "ui://edged/bench"
        browser.sees("3 instruments")
        browser.sees("ON: OUTP CH1")
        assert browser.run("return document.documentElement.dataset.theme") == "dark"
        paper = "return getComputedStyle(document.querySelector('.card')).backgroundColor"
        dark = browser.run(paper)
        at_host(browser, "setTheme('light')")
        browser.wait(lambda: browser.run(paper) != dark)
        engine.tool("start_sweep", **SWEEP)
        browser.sees("psu1 set_voltage")
        browser.click("#stop")
        browser.sees("all that was on is confirmed off")
        browser.sees("Nothing runs")
        assert "bench__stop_all" in at_host(browser, "return said.calls")
        assert at_host(browser, "return said.sizes") > 0


@promise("app.lives")
def test_a_sweep_is_plotted_while_it_runs_and_stopped_by_the_keyboard(
    browser: Browser, engine: EngineProcess, script: bytes
) -> None:
    engine.tool("execute_command", **ON)
    with shown(browser, engine, script, "start_sweep", SWEEP) as uri:
        assert uri == "ui://edged/run"

        def points() -> int:
            found = re.search(r": (\d+) points? of measure_dc_voltage over set, live", browser.text)
            return int(found[1]) if found else 0

        first = browser.wait(points)
        browser.wait(lambda: points() > first)
        assert browser.run("return document.querySelectorAll('.u-over').length") == 1
        browser.run("document.body.focus(); document.getElementById('stop').focus()")
        browser.press(ESCAPE, ESCAPE)
        browser.sees("confirmed off")
        browser.sees("sweep, stopped")
    assert not engine.sim("state")["instruments"]["psu1"]["state"]["ch1"]["is_on"]


@promise("app.lives")
def test_recordings_are_listed_and_one_is_chosen(
    browser: Browser, engine: EngineProcess, script: bytes
) -> None:
    volts = {"instrument_id": "dmm1", "command_name": "measure_dc_voltage"}
    stream = engine.tool("start_stream", **volts, interval_ms=100, duration_ms=2_000, detach=True)
    name = stream["result"]["stream_id"]
    wait_for(lambda: engine.tool("bench__runs", run_id=name)["result"]["state"] == "ended")
    with shown(browser, engine, script, "bench__runs", {}):
        browser.sees("recording")
        browser.click("#view li:first-child button")
        browser.sees("stream, ended")
        browser.sees("points of value over time")


@promise("app.lives")
def test_a_trace_is_drawn(browser: Browser, engine: EngineProcess, script: bytes) -> None:
    wave = {"instrument_id": "scope1", "command_name": "capture_waveform"}
    command = next(
        one["name"]
        for one in engine.tool("get_capabilities", instrument_id="scope1")["result"][0]["commands"]
        if one.get("returns", {}).get("type") == "waveform"
    )
    wave["command_name"] = command
    stream = engine.tool("start_stream", **wave, interval_ms=500, duration_ms=400, detach=True)
    name = stream["result"]["stream_id"]
    wait_for(lambda: engine.tool("bench__runs", run_id=name)["result"]["state"] == "ended")
    asked = {"stream_id": name, "point_index": 0, "format": "decimated"}
    with shown(browser, engine, script, "fetch_waveform", asked):
        browser.sees("waveform:")
        assert browser.run("return document.querySelectorAll('.u-over').length") == 1
        browser.run("document.querySelector('.canvas').focus()")
        browser.press(HOME)
        # Its trigger is in the middle.
        browser.sees("at -6 ms")
    with shown(browser, engine, script, "bench__runs", {"run_id": name}):
        browser.sees("(1200 samples): ")
        assert browser.run("return document.querySelectorAll('.u-over').length") == 1
