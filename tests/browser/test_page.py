"""The bench page in Debian's chromium: each test is a story of somebody who looks at it."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from edged.surfaces.page.owner import keep_page_key
from tests.bench.browser import ENTER, ESCAPE, TAB, Browser
from tests.bench.engine_process import REPOSITORY, EngineProcess, running_engine
from tests.bench.mcp_client import McpClient
from tests.bench.relay_chain import wait_for
from tests.bench.sim_bench import running_bench
from tests.promises import promise

AXE = REPOSITORY / ".venv-clients/node/npm/node_modules/axe-core/axe.min.js"
HOSTILE = '<img src=x onerror="document.title=1">,<script>alert(1)</script>,<b>SN</b>,1'
ON = {"instrument_id": "psu1", "command_name": "output_on", "parameters": {"channel": 1}}
VOLTS = {**ON, "command_name": "get_voltage"}
SWEEP = {
    "instrument_id": "psu1",
    "command_name": "set_voltage",
    "parameters": {"channel": 1},
    "target_value": 20,
    "sweep_rate": 0.5,
    "measure": [{"instrument_id": "dmm1", "command_name": "measure_dc_voltage"}],
}


def address(engine: EngineProcess, view: str = "") -> str:
    return f"http://127.0.0.1:{engine.ports['mcp_port']}/bench{view}"


def look(browser: Browser, engine: EngineProcess, view: str = "") -> None:
    """Open it as anew: a change of the fragment alone loads nothing."""
    browser.open("about:blank")
    browser.open(address(engine, view))


def is_on(engine: EngineProcess) -> bool:
    return bool(engine.sim("state")["instruments"]["psu1"]["state"]["ch1"]["is_on"])


@pytest.fixture(autouse=True)
def quiet(engine: EngineProcess, browser: Browser) -> Iterator[None]:
    """Nothing runs before and after a story, and the page has complained of nothing."""
    browser.complaints()
    browser.requests()
    yield
    engine.tool("bench__stop_all")
    assert browser.complaints() == []


async def agent(engine: EngineProcess) -> McpClient:
    client = McpClient(engine.ports["mcp_port"])
    await client.initialize("2025-11-25")
    return client


@promise("page.shows")
async def test_an_agent_sweeps_and_the_page_shows_it_and_stops_it(
    engine: EngineProcess, browser: Browser
) -> None:
    look(browser, engine)
    browser.sees("3 instruments")
    browser.sees("Nothing runs")
    client = await agent(engine)
    await client.call("execute_command", ON)
    begun = await client.call("start_sweep", SWEEP)
    sweep_id = begun["structuredContent"]["sweep_id"]
    browser.sees("ON: OUTP CH1")
    browser.sees("psu1 set_voltage")
    browser.sees("in use: set_voltage")

    def points() -> int:
        found = re.search(rf"{sweep_id}: (\d+) points?", browser.text)
        return int(found[1]) if found else 0

    browser.wait(lambda: points() >= 3)
    assert browser.run("return document.querySelectorAll('.u-over').length") == 1
    assert re.search(r"dc voltage.*\n?.*V", browser.text)
    assert re.search(r"\d+ s ago", browser.text)
    browser.sees(":SOUR1:VOLT")
    browser.click(".run .no")
    await asyncio.to_thread(
        wait_for,
        lambda: engine.tool("get_sweep_status", sweep_id=sweep_id)["result"]["status"] == "stopped",
    )
    browser.sees("Nothing runs")


@promise("page.stop")
def test_stop_all_is_one_press_and_names_each_unit(engine: EngineProcess, browser: Browser) -> None:
    engine.tool("execute_command", **ON)
    look(browser, engine)
    browser.sees("ON: OUTP CH1")
    browser.click("#stop")
    browser.sees("all that was on is confirmed off")
    assert "psu1: confirmed off" in browser.text
    assert "dmm1" in browser.run("return document.getElementById('stopped').innerText")
    assert not is_on(engine)


@promise("page.stop")
def test_a_unit_that_hangs_is_told_as_not_confirmed(
    engine: EngineProcess, browser: Browser
) -> None:
    engine.tool("execute_command", **ON)
    look(browser, engine)
    browser.sees("ON: OUTP CH1")
    engine.sim("fault", instrument="psu1", kind="freeze")
    try:
        browser.click("#stop")
        browser.sees("NOT all is confirmed off")
        assert "psu1: not confirmed" in browser.text
    finally:
        engine.sim("clear", instrument="psu1")
    wait_for(lambda: not is_on(engine))


@promise("page.stop")
def test_the_keyboard_alone_reaches_everything_and_escape_twice_stops(
    engine: EngineProcess, browser: Browser
) -> None:
    engine.tool("execute_command", **ON)
    look(browser, engine)
    browser.sees("ON: OUTP CH1")
    browser.press(ESCAPE, ESCAPE)
    browser.sees("confirmed off")
    assert not is_on(engine)
    seen = []
    for _ in range(12):
        browser.press(TAB)
        seen.append(browser.run("return document.activeElement.innerText"))
    assert {"Bench", "Recordings", "Record", "STOP ALL", "psu1"} <= set(seen)
    browser.run("document.querySelector('.unit a[href=\"#unit/psu1\"]').focus()")
    browser.press(ENTER)
    browser.sees("DP8B26AM00234")
    outline = "return getComputedStyle(document.querySelector('#nav a')).outlineStyle"
    browser.run("document.querySelector('#nav a').focus()")
    browser.press(TAB)
    browser.run("document.querySelector('#nav a').focus()")
    assert browser.run(outline) != "none"


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
        with running_engine(tmp_path, sim=False, config=config) as engine:
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
        with running_engine(tmp_path, sim=False, config=config) as engine:
            config["MCP_PORT"] = engine.ports["mcp_port"]
            engine.tool("execute_command", **ON)
            look(browser, engine)
            browser.sees("ON: OUTP CH1")
            os.kill(engine.process.pid, signal.SIGKILL)
            engine.process.wait()
            browser.sees("does not answer")
            browser.click("#stop")
            browser.sees("The engine is away")
        with running_engine(tmp_path, sim=False, config=config):
            browser.sees("Stopped", within_s=30)
            wait_for(lambda: not bench.state("psu1")["ch1"]["is_on"])
            browser.sees("live, edged")
            browser.open("about:blank")
    # What the browser says of a connection that is refused is no fault of the page.
    assert all("ERR_CONNECTION" in line or "WebSocket" in line for line in browser.complaints())


@promise("page.sixteen")
def test_sixteen_pages_are_open_at_once_and_all_are_live(
    engine: EngineProcess, browser: Browser
) -> None:
    first = browser.command("GET", "/window")
    opened = []
    try:
        for _ in range(15):
            told = browser.command("POST", "/window/new", {"type": "tab"})
            opened.append(told["handle"])
            browser.command("POST", "/window", {"handle": told["handle"]})
            browser.open(address(engine))
        browser.command("POST", "/window", {"handle": first})
        look(browser, engine)
        engine.tool("execute_command", instrument_id="dmm1", command_name="measure_dc_voltage")
        for handle in (first, *opened):
            browser.command("POST", "/window", {"handle": handle})
            browser.sees("dc voltage")
    finally:
        for handle in opened:
            browser.command("POST", "/window", {"handle": handle})
            browser.command("DELETE", "/window")
        browser.command("POST", "/window", {"handle": first})


@promise("page.nothing-elsewhere")
def test_it_asks_for_nothing_anywhere_else(engine: EngineProcess, browser: Browser) -> None:
    browser.requests()
    for view in ("", "#runs", "#record", "#unit/psu1"):
        look(browser, engine, view)
        browser.sees("live, edged")
    here = f"127.0.0.1:{engine.ports['mcp_port']}/"
    asked = {url for url in browser.requests() if not url.startswith(("data:", "about:"))}
    assert asked
    assert all(here in url.split("?")[0] for url in asked), asked


@promise("page.answers")
async def test_a_person_with_the_key_approves_and_one_without_cannot(
    engine: EngineProcess, browser: Browser
) -> None:
    client = await agent(engine)
    current = {"channel": 1, "current": 0.5}
    asked = {"instrument_id": "psu1", "command_name": "set_current", "parameters": current}
    call = asyncio.create_task(client.call("execute_command", asked))
    look(browser, engine)
    await asyncio.to_thread(browser.sees, "Waits for a person")
    assert ":SOUR1:CURR 0.500" in browser.text
    assert browser.run("return document.querySelectorAll('.asks button').length") == 0
    key = keep_page_key(engine.state_dir)
    look(browser, engine, f"#key={key}")
    await asyncio.to_thread(browser.sees, "Approve")
    assert key not in browser.run("return location.href")
    assert key not in browser.run("return document.documentElement.outerHTML")
    browser.click(".asks .yes")
    assert not (await call).get("isError")
    browser.sees("live, edged")


@promise("page.forms")
def test_a_command_is_sent_by_its_form_within_its_limits(
    engine: EngineProcess, browser: Browser
) -> None:
    look(browser, engine, "#unit/psu1")
    browser.sees("set voltage")
    browser.click("details.card:nth-of-type(1) summary")
    browser.type("details[open] input[name=voltage]", "2.5")
    browser.click("details[open] button[value=dry]")
    browser.sees("would send: :SOUR1:VOLT 2.500")
    assert engine.tool("execute_command", **VOLTS)["result"]["data"] != 2.5
    browser.click("details[open] button[value=run]")
    browser.sees("done")
    assert engine.tool("execute_command", **VOLTS)["result"]["data"] == 2.5


VIEWS = ("", "#runs", "#record", "#unit/psu1", "#run/RUN")


@promise("page.accessible")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1440])
def test_axe_finds_no_violation_in_any_view(
    engine: EngineProcess, browser: Browser, scheme: str, width: int
) -> None:
    engine.tool("execute_command", **ON)
    engine.tool("execute_command", instrument_id="dmm1", command_name="measure_dc_voltage")
    sweep = engine.tool("start_sweep", **SWEEP)["result"]["sweep_id"]
    wait_for(lambda: engine.tool("bench__runs", run_id=sweep)["result"]["total_rows"] > 2)
    browser.size(width, 900)
    browser.scheme(scheme)
    try:
        for view in VIEWS:
            look(browser, engine, view.replace("RUN", sweep))
            browser.sees("live, edged")
            browser.wait(
                lambda: browser.run("return document.querySelector('main').children.length")
            )
            if "RUN" in view:
                browser.sees("points of")
            browser.run(AXE.read_text())
            found = browser.run_later(
                "const done = arguments[0]; axe.run({runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', "
                "'wcag21aa', 'wcag22aa', 'best-practice']}).then((r) => done(r.violations.map("
                "(v) => [v.id, v.nodes.map((n) => [n.html, n.failureSummary])])))"
            )
            assert found == [], (view, found)
    finally:
        browser.size(1440, 900)
        browser.scheme("light")
