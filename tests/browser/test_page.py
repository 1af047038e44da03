"""The bench page in Debian's chromium: each test is a story of somebody who looks at it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from edged.surfaces.page.owner import keep_page_key
from tests.bench.browser import ENTER, ESCAPE, HOME, TAB, Browser
from tests.bench.engine_process import EngineProcess, engine_process
from tests.bench.waiting import wait_for
from tests.browser.looking import (
    CURRENT,
    MEASURED,
    ON,
    SWEEP,
    TRACES,
    VOLTS,
    address,
    agent,
    is_on,
    look,
    sideways,
    violations,
)
from tests.promises import promise


@pytest.fixture(autouse=True)
def quiet(engine: EngineProcess, browser: Browser) -> Iterator[None]:
    """Nothing runs before and after a story, and the page has complained of nothing."""
    browser.complaints()
    browser.requests()
    yield
    engine.tool("bench__stop_all")
    assert browser.complaints() == []


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
    call = asyncio.create_task(client.call("execute_command", CURRENT))
    look(browser, engine)
    await asyncio.to_thread(browser.sees, "Waits for a person")
    assert ":SOUR1:CURR 0.500" in browser.text
    (waiting,) = engine.rpc("approvals.list")["approvals"]
    assert browser.run("return document.querySelector('.asks pre').textContent") == waiting["text"]
    assert browser.run("return document.querySelectorAll('.asks button').length") == 0
    key = keep_page_key(engine.state_dir)
    look(browser, engine, f"#key={key}")
    await asyncio.to_thread(browser.sees, "Approve")
    assert key not in browser.run("return location.href")
    assert key not in browser.run("return document.documentElement.outerHTML")
    browser.click(".asks .yes")
    assert not (await call).get("isError")
    browser.sees("live, edged")
    # Kept in the tab's memory and nowhere else: not even by the browser.
    call = asyncio.create_task(client.call("execute_command", CURRENT))
    browser.command("POST", "/refresh")
    await asyncio.to_thread(browser.sees, "open the page with edged open --full")
    for kept in ("localStorage", "sessionStorage", "history.state", "document.cookie"):
        assert key not in str(browser.run(f"return JSON.stringify({kept} ?? '')"))
    assert key not in engine.log.read_text()
    look(browser, engine, f"#key={key}")
    await asyncio.to_thread(browser.sees, "Approve")
    browser.click(".asks .no")
    assert (await call)["isError"]


@promise("page.answers")
def test_a_lease_is_seen_and_broken_by_a_person_with_the_key(
    engine: EngineProcess, browser: Browser
) -> None:
    lease = engine.tool("bench__reserve", instruments=["psu1"], purpose="burn-in")
    assert not lease["is_error"], lease
    look(browser, engine)
    browser.sees("for burn-in")
    look(browser, engine, f"#key={keep_page_key(engine.state_dir)}")
    browser.sees("for burn-in")
    browser.run("location.hash = '#unit/psu1'")
    browser.sees("Break this lease")
    browser.click(".unit .no")
    browser.wait(lambda: engine.tool("get_status")["result"]["leases"] == [])
    browser.wait(lambda: "Break this lease" not in browser.text)


@promise("page.forms")
def test_a_command_is_sent_by_its_form_within_its_limits(
    engine: EngineProcess, browser: Browser
) -> None:
    look(browser, engine, "#unit/psu1")
    browser.sees("set voltage")
    browser.click(".commands details:nth-of-type(1) summary")
    browser.type("details[open] input[name=voltage]", "2.5")
    browser.click("details[open] button[value=dry]")
    browser.sees("would send: :SOUR1:VOLT 2.500")
    assert engine.tool("execute_command", **VOLTS)["result"]["data"] != 2.5
    browser.click("details[open] button[value=run]")
    browser.sees("done")
    assert engine.tool("execute_command", **VOLTS)["result"]["data"] == 2.5


@promise("page.forms")
def test_who_holds_a_lease_uses_the_forms_with_it_and_after_it_without(
    engine: EngineProcess, browser: Browser
) -> None:
    held = engine.tool("bench__reserve", instruments=["psu1"], purpose="mine")["result"]
    look(browser, engine, "#unit/psu1")
    browser.sees("Lease id, if you hold it")
    browser.click(".commands details:nth-of-type(1) summary")
    browser.type("details[open] input[name=voltage]", "1.5")
    browser.click("details[open] button[value=run]")
    browser.sees("for 'mine'")
    browser.type(".commands input[type=password]", held["lease_id"])
    browser.click("details[open] button[value=run]")
    browser.sees("done")
    engine.tool("bench__release", lease_id=held["lease_id"])
    browser.wait(lambda: "Lease id" not in browser.text)
    browser.click("details[open] button[value=dry]")
    browser.sees("would send")
    browser.click("details[open] button[value=run]")
    browser.sees("done")


@promise("page.plot")
async def test_a_plot_keeps_what_is_zoomed_into_and_has_its_cursor_by_the_keys(
    engine: EngineProcess, browser: Browser
) -> None:
    sweep = engine.tool("start_sweep", **SWEEP)["result"]["sweep_id"]
    look(browser, engine, f"#run/{sweep}")

    def points() -> int:
        found = re.search(rf"{sweep}: (\d+) points", browser.text)
        return int(found[1]) if found else 0

    browser.wait(lambda: points() >= 6)
    assert "at " in browser.run("return document.querySelector('.legend').innerText")
    browser.run("document.querySelector('.canvas').focus()")
    browser.press("+")
    browser.sees("of these")
    shown = re.search(r"of these (.*), live", browser.text)
    assert shown is not None
    counted = points()
    browser.wait(lambda: points() > counted + 2)
    assert shown[0] in browser.text, browser.text
    browser.press("0")
    browser.wait(lambda: "of these" not in browser.text)
    browser.press(HOME)
    told = engine.tool("bench__runs", run_id=sweep, rows=1)["result"]
    first = told["rows"][0][told["columns"].index("set")]
    browser.wait(lambda: f"at {first * 1000 if first < 0.1 else first:g} " in browser.text)
    browser.click(".plot .bar button:nth-child(1)")
    browser.wait(
        lambda: browser.run("return document.querySelector('.plot [aria-pressed]') !== null")
    )
    assert (
        browser.run(
            "return document.querySelector('.plot .bar button').getAttribute('aria-pressed')"
        )
        == "true"
    )


@promise("page.shows")
def test_recordings_are_listed_looked_at_and_taken_away(
    engine: EngineProcess, browser: Browser
) -> None:
    stream = engine.tool("start_stream", **MEASURED, interval_ms=100, duration_ms=700, detach=True)
    name = stream["result"]["stream_id"]
    wait_for(lambda: engine.tool("bench__runs", run_id=name)["result"]["state"] == "ended")
    look(browser, engine, "#runs")
    browser.sees("stream: dmm1 measure_dc_voltage")
    links = browser.run(
        f"return [...document.querySelectorAll('a[href*=\"{name}/\"]')].map((a) => a.href)"
    )
    assert [link.rpartition("/")[2] for link in links] == ["data.csv", "data.npz", "report.html"]
    browser.click(f'a[href="#run/{name}"]')
    browser.sees("points of value over time")
    browser.sees("mean")


@promise("page.trace")
def test_a_unit_has_its_trace_both_ways(engine: EngineProcess, browser: Browser) -> None:
    engine.tool("execute_command", **VOLTS)
    look(browser, engine, "#unit/psu1")
    browser.sees("Trace of its line")
    browser.sees(":SOUR1:VOLT?")
    rows = browser.run(
        "return [...document.querySelectorAll('section[aria-label=Trace] td[aria-label]')]"
        ".map((e) => e.getAttribute('aria-label'))"
    )
    assert {"sent", "received"} <= set(rows)


@promise("page.modes")
def test_to_read_there_is_every_stop_and_nothing_else_to_press(
    tmp_path: Path, browser: Browser
) -> None:
    with engine_process(tmp_path, config={}) as reader:
        sweep = reader.tool("start_sweep", **SWEEP)["result"]["sweep_id"]
        look(browser, reader)
        browser.sees("Stop sweep")
        buttons = browser.run(
            "return [...document.querySelectorAll('button')].map((b) => b.innerText)"
        )
        assert not {"Hold here", "Approve"} & set(buttons)
        browser.click(".run .no")
        browser.sees("Nothing runs")
        assert reader.tool("get_sweep_status", sweep_id=sweep)["result"]["status"] == "stopped"
        look(browser, reader, "#unit/psu1")
        browser.sees("guards nothing")
        assert browser.run("return document.querySelectorAll('form').length") == 0
        browser.open("about:blank")


def traced(engine: EngineProcess) -> tuple[str, int]:
    """A stream of traces that has ended, and how many it has."""
    name: str = engine.tool("start_stream", **TRACES)["result"]["stream_id"]
    wait_for(lambda: engine.tool("bench__runs", run_id=name)["result"]["state"] == "ended")
    return name, engine.tool("bench__runs", run_id=name)["result"]["total_rows"]


@promise("page.plot")
def test_a_recording_of_traces_shows_the_newest_over_its_own_time(
    engine: EngineProcess, browser: Browser
) -> None:
    name, count = traced(engine)
    look(browser, engine, f"#run/{name}")
    browser.sees(f"{name}, trace {count} (1200 samples): 1200 points of trace over time")
    assert "live" not in browser.run("return document.querySelector('.plot').innerText")
    browser.run("document.querySelector('.canvas').focus()")
    browser.press(HOME)
    # Its trigger is in the middle.
    browser.sees("at -6 ms")
    assert "y_length" not in browser.run("return document.querySelector('main').innerText")


@promise("page.plot")
def test_a_plot_that_begins_at_nought_is_not_said_to_be_zoomed(
    tmp_path: Path, browser: Browser
) -> None:
    ramp = {"channel": 1, "start": 0, "stop": 1, "points": 3, "current_limit": 0.4, "settle_ms": 0}
    with engine_process(tmp_path) as engine:
        done = engine.tool(
            "execute_sequence",
            instrument_id="psu1",
            sequence_name="iv_curve",
            parameters=ramp,
        )
        look(browser, engine, f"#run/{done['result']['run_id']}")
        browser.sees("3 points of voltage_V, current_A over set_V")
        said = browser.run("return document.querySelector('.plot').innerText")
        assert "of these" not in said
        assert "Show all" not in said
        browser.open("about:blank")


@promise("page.values")
def test_what_one_answer_tells_of_several_things_has_the_unit_of_each_and_a_place_of_its_own(
    engine: EngineProcess, browser: Browser
) -> None:
    engine.tool("execute_command", **{**ON, "command_name": "measure_all"})
    look(browser, engine, "#unit/psu1")
    browser.sees("all power, channel 1")
    read = (
        "return [...document.querySelectorAll('.values > div')].map((e) => "
        "['dt', '.unit-of'].map((part) => e.querySelector(part).innerText))"
    )
    shown = dict(browser.run(read))
    units = {name: shown[f"all {name}, channel 1"][-1] for name in ("voltage", "current", "power")}
    assert units == {"voltage": "V", "current": "A", "power": "W"}
    engine.tool("execute_command", **VOLTS)
    browser.sees("get voltage, channel 1")
    after = [name for name, _ in browser.run(read)]
    assert [name for name in after if name in shown] == list(shown)


@promise("page.answers")
def test_the_key_is_taken_too_where_its_address_is_opened_in_a_tab_that_has_the_page(
    engine: EngineProcess, browser: Browser
) -> None:
    lease = engine.tool("bench__reserve", instruments=["psu1"], purpose="burn-in")["result"]
    key = keep_page_key(engine.state_dir)
    look(browser, engine, "#unit/psu1")
    browser.sees("for burn-in")
    browser.open(address(engine, f"#key={key}"))
    browser.wait(lambda: key not in browser.run("return location.href"))
    browser.run("location.hash = '#unit/psu1'")
    browser.sees("Break this lease")
    engine.tool("bench__release", lease_id=lease["lease_id"])


@promise("page.forms")
def test_the_picture_that_a_command_gives_is_shown(engine: EngineProcess, browser: Browser) -> None:
    look(browser, engine, "#unit/scope1")
    browser.sees("screenshot")
    browser.run(
        "const it = [...document.querySelectorAll('details')].find((e) => "
        "e.innerText.startsWith('screenshot')); it.open = true"
    )
    browser.click("details[open] button[value=run]")
    browser.sees("image/png, ")
    browser.wait(lambda: browser.run("return document.querySelector('form img')?.naturalWidth"))
    assert "iVBOR" not in browser.text
    assert violations(browser) == []


@promise("page.first-paint")
def test_it_is_painted_within_half_a_second(engine: EngineProcess, browser: Browser) -> None:
    painted = []
    for _ in range(5):
        look(browser, engine)
        browser.sees("live, edged")
        paint = "return performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
        painted.append(browser.wait(lambda paint=paint: browser.run(paint)))
    # The least: what else the machine does comes and goes.
    assert min(painted) <= 500, painted


@promise("page.forms")
def test_a_command_is_found_filled_in_and_sent_by_keys_alone(
    engine: EngineProcess, browser: Browser
) -> None:
    look(browser, engine, "#unit/psu1")
    browser.sees("set voltage")
    where = "return document.activeElement.name || document.activeElement.tagName"

    def tab_to(name: str) -> None:
        for _ in range(20):
            browser.press(TAB)
            if browser.run(where) == name:
                return
        raise AssertionError(f"no tab leads to {name}")

    tab_to("SUMMARY")
    browser.press(ENTER)
    tab_to("channel")
    browser.run("document.activeElement.value = ''")
    browser.press("1")
    tab_to("voltage")
    browser.press("3", ENTER)
    browser.sees("done")
    assert engine.tool("execute_command", **VOLTS)["result"]["data"] == 3


VIEWS = ("", "#runs", "#record", "#unit/psu1", "#run/RUN")


@promise("page.accessible")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1440, 2560])
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
            found = violations(browser)
            assert found == [], (view, found)
            assert sideways(browser) == [], view
    finally:
        browser.size(1440, 900)
        browser.scheme("light")


@promise("page.shows")
def test_a_sweep_is_held_where_it_is_and_a_lockout_is_named_where_it_holds(
    engine: EngineProcess, browser: Browser
) -> None:
    engine.tool("execute_command", **ON)
    sweep = engine.tool("start_sweep", **SWEEP)["result"]["sweep_id"]
    look(browser, engine)
    browser.sees("Hold here")
    browser.click(".run .bar button:last-child")
    browser.wait(
        lambda: engine.tool("get_sweep_status", sweep_id=sweep)["result"]["status"] == "holding"
    )
    browser.sees("holding")
    browser.wait(lambda: "Hold here" not in browser.text)
    assert is_on(engine)
    engine.rpc("lockout.set", instrument_id="psu1", reason="hands inside", by="Ada")
    try:
        browser.sees("locked out by Ada: hands inside")
        assert violations(browser) == []
    finally:
        engine.rpc("lockout.clear", instrument_id="psu1")


@promise("page.stop")
def test_escape_once_or_twice_slowly_stops_nothing_and_stop_all_stays_in_sight(
    engine: EngineProcess, browser: Browser
) -> None:
    engine.tool("execute_command", **ON)
    look(browser, engine, "#unit/psu1")
    browser.sees("set voltage")
    # Two seconds pass between the presses.
    browser.press(ESCAPE)
    browser.run(
        "const now = performance.now.bind(performance); performance.now = () => now() + 2e3"
    )
    browser.press(ESCAPE)
    browser.run("scrollTo(0, document.body.scrollHeight)")
    seen = (
        "const box = document.getElementById('stop').getBoundingClientRect(); return scrollY > 300 "
        "&& document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2).id === 'stop'"
    )
    browser.wait(lambda: browser.run(seen))
    assert not browser.run("return document.getElementById('stopped').checkVisibility()")
    assert is_on(engine)
