"""An experiment on the bench page: its map, its questions, its units, its buttons."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edged.experiments.examples import EXAMPLES
from tests.bench.browser import ENTER, TAB, Browser
from tests.bench.engine_process import EngineProcess, engine_process
from tests.bench.sim_bench import running_bench
from tests.bench.waiting import wait_for
from tests.browser.looking import look, sideways, violations
from tests.promises import promise

BENCH = "smu1=keithley_2400,smu2=keithley_2400,psu1=rigol_dp832,dmm1=keysight_34461a"
HOSTILE = '<img src=x onerror="document.title=1"><script>alert(1)</script>'
MAP = EXAMPLES["map"].replace("snake: true", "snake: true\n        wait_s: 0.05")
BOARDS = """format: 1
experiment: boards
roles: {meter: dmm1}
steps:
  - for: board
    in: {count: 3}
    unit: "{serial}"
    steps:
      - {ask: serial, text: "Scan board {board + 1}", type: text, pattern: "^R33-", on_timeout: end}
      - {measure: {v_out: meter.measure_dc_voltage}}
      - {check: output, value: "{v_out}", min: -100, max: 100, unit: V}
      - {ask: led, text: "Is the green LED on?", type: pass_fail}
"""
WAITS = """format: 1
experiment: waits
roles: {supply: psu1}
with: {supply: {channel: 1}}
steps:
  - {command: supply.output_on}
  - repeat: round
    at_most: 1000
    until: "round > 500"
    steps: [{wait_s: 2}, {measure: {v: supply.measure_voltage}}]
finally: [{command: supply.output_off}]
"""
TEXTS = """format: 1
experiment: texts
roles: {meter: dmm1}
steps:
  - for: board
    in: {count: 2}
    unit: "{serial}"
    steps:
      - {ask: serial, text: 'HOSTILE', type: text}
      - {ask: colour, text: "Which?", type: choice, options: ['HOSTILE', "<b>red</b>"]}
"""


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineProcess]:
    place = tmp_path_factory.mktemp("experiments")
    with engine_process(place, "--instruments", BENCH, config={"BENCH_PAGE": "full"}) as running:
        yield running


@pytest.fixture(autouse=True)
def quiet(engine: EngineProcess, browser: Browser) -> Iterator[None]:
    browser.complaints()
    yield
    browser.open("about:blank")
    engine.tool("bench__stop_all")
    assert browser.complaints() == []


def begun(engine: EngineProcess, text: str, **more: Any) -> str:
    told = engine.tool("bench__start_experiment", text=text, **more)
    assert not told["is_error"], told
    return str(told["result"]["run_id"])


def status(engine: EngineProcess, run_id: str) -> dict[str, Any]:
    found: dict[str, Any] = engine.tool("bench__control_run", run_id=run_id)["result"]
    return found


def measured(browser: Browser) -> int:
    found = re.search(r"(\d+) of 55 cells", browser.text)
    return int(found[1]) if found else 0


def focused(browser: Browser) -> str:
    return str(browser.run("return document.activeElement.dataset.ask ?? ''"))


def scan(browser: Browser, words: str, number: int) -> None:
    """As a scanner, once the field of that question has the focus, and not with its question."""
    browser.wait(lambda: focused(browser).endswith(f" {number}"))
    browser.run_later("setTimeout(arguments[0], 400)")
    browser.press(*words, ENTER)


PAINTED = (
    "const map = document.querySelector('canvas.map'); const seen = new Set(); "
    "const data = map.getContext('2d').getImageData(0, 0, map.width, map.height).data; "
    "for (let i = 0; i < data.length; i += 4) seen.add(data.slice(i, i + 3).join()); "
    "return seen.size"
)


@promise("page.experiment")
def test_a_map_is_seen_growing_with_what_it_skips(engine: EngineProcess, browser: Browser) -> None:
    run_id = begun(engine, MAP)
    look(browser, engine, f"#run/{run_id}")
    browser.wait(lambda: measured(browser) >= 3)
    counted = measured(browser)
    browser.wait(lambda: measured(browser) > counted)
    # It may leave lines early, so nobody knows how many rows there will be.
    assert re.search(r"\d+ rows so far, about \d+ s left", browser.text), browser.text
    assert re.search(r"at steps\[4\].*v_g \d of 5 · v_d \d+ of 11", browser.text), browser.text
    browser.wait(lambda: browser.run("return document.querySelector('progress').value") > 0)
    assert browser.run(PAINTED) > 20
    label = browser.run("return document.querySelector('canvas.map').getAttribute('aria-label')")
    assert label.startswith(f"{run_id}: i_d over v_d and v_g, "), label
    browser.run("document.querySelector('canvas.map').focus()")
    browser.press("\ue012", "\ue012")  # the arrow to the left
    browser.wait(lambda: re.search(r"at v_d .*, v_g .*\s+i_d", browser.text))
    wait_for(lambda: status(engine, run_id)["state"] == "completed")
    browser.sees("completed")
    browser.wait(lambda: "live" not in browser.text.split("cells")[1].splitlines()[0])
    # With the run, its buttons are gone.
    assert "Pause" not in browser.text


@promise("page.experiment")
def test_what_a_plan_leaves_is_hatched(engine: EngineProcess, browser: Browser) -> None:
    run_id = begun(engine, MAP.replace("i_d > 0.015", "v_d > 2.9").replace("snake: true", ""))
    look(browser, engine, f"#run/{run_id}")
    browser.wait(lambda: measured(browser) == 35)
    browser.sees("20 skipped (hatched)")


@promise("page.experiment")
def test_how_far_a_run_of_known_length_is_and_its_lines_are_shown(
    engine: EngineProcess, browser: Browser
) -> None:
    line = '          - {if: "i_d > 0.015", then: [{leave: v_d}]}\n'
    plan = MAP.replace(line, "").replace("{map: i_d, x: v_d, y: v_g}", "{line: i_d, x: v_d}")
    run_id = begun(engine, plan)
    look(browser, engine, f"#run/{run_id}")
    browser.wait(lambda: re.search(r"[1-9]\d* of 55 rows, about \d+ s left", browser.text))
    assert browser.run("return document.querySelector('progress').value") > 0
    browser.sees("i_d at v_g 0 V")


@promise("page.question")
def test_questions_are_answered_with_the_keyboard_alone(
    engine: EngineProcess, browser: Browser
) -> None:
    run_id = begun(engine, BOARDS)
    look(browser, engine, f"#run/{run_id}")
    browser.sees("Scan board 1")
    browser.wait(lambda: focused(browser).endswith(" 1"))
    browser.press(*"X99", ENTER)
    browser.wait(lambda: re.search("does not look like|came within 0.3 s", browser.text))
    # What was refused is selected, so that the next scan takes its place.
    scan(browser, "R33-1", 1)
    browser.sees("Is the green LED on?")
    scan(browser, "R33-1", 2)
    browser.sees("is answered by pass or fail")
    browser.press(TAB, ENTER)
    browser.sees("Scan board 2")
    browser.wait(lambda: re.search(r"✓\s*R33-1\s*pass", browser.text))
    scan(browser, "R33-1", 3)
    browser.sees("R33-1 was tested in this run already: pass. Test it again?")
    scan(browser, "yes", 4)
    browser.sees("under test, try 2")
    scan(browser, "fail", 5)
    browser.wait(lambda: re.search(r"✗\s*R33-1\s*fail, try 2: led", browser.text))
    browser.sees("verdict so far fail")
    assert violations(browser) == []


@promise("page.question")
def test_a_question_takes_nobody_out_of_another_field(
    engine: EngineProcess, browser: Browser
) -> None:
    run_id = begun(engine, BOARDS.replace("steps:\n  - for", "steps:\n  - {wait_s: 3}\n  - for"))
    look(browser, engine, f"#run/{run_id}")
    browser.sees("Add note")
    browser.type("input[name=note]", "a smell")
    browser.sees("Scan board 1")
    browser.press(*" of rosin", ENTER)
    browser.sees("a smell of rosin")
    browser.wait(lambda: browser.run("return document.querySelector('[name=note]').value") == "")
    assert status(engine, run_id)["question"]["number"] == 1


@promise("page.experiment")
def test_a_run_is_paused_resumed_skipped_and_aborted_by_its_buttons(
    engine: EngineProcess, browser: Browser
) -> None:
    run_id = begun(engine, WAITS)
    look(browser, engine)
    browser.sees("waits")
    browser.sees("0 rows so far")
    assert browser.run("return document.querySelector('progress')") is None

    def press(label: str) -> None:
        browser.wait(lambda: browser.run(
            "const [one] = [...document.querySelectorAll('.run button')].filter((b) => "
            "b.innerText === arguments[0]); one?.click(); return one !== undefined", label
        ))  # fmt: skip

    press("Pause")
    wait_for(lambda: status(engine, run_id)["state"] == "paused")
    browser.sees("paused by")
    press("Resume")
    wait_for(lambda: status(engine, run_id)["state"] == "running")
    press("Skip this wait")
    browser.wait(lambda: "was skipped by" in str(status(engine, run_id)["notes"]))
    browser.wait(lambda: re.search(r"[1-9]\d* rows? so far", browser.text))
    press("Stop experiment")
    wait_for(lambda: status(engine, run_id)["state"] == "stopped")
    browser.sees("Nothing runs")
    assert not engine.sim("state")["instruments"]["psu1"]["state"]["ch1"]["is_on"]


@promise("page.experiment")
def test_a_run_that_a_crash_interrupted_is_resumed_by_its_button(
    tmp_path: Path, browser: Browser
) -> None:
    with running_bench("--instruments", "psu1") as bench:
        entries = [{"address": bench.address("psu1"), "name": "psu1"}]
        config = {"BENCH_PAGE": "full", "INSTRUMENTS": entries}
        with engine_process(tmp_path, sim=False, config=config) as engine:
            run_id = begun(engine, f"{WAITS}resume: {{at: round}}\n")
            wait_for(lambda: status(engine, run_id)["done"] > 0)
            engine.process.kill()
            engine.process.wait()
        with engine_process(tmp_path, sim=False, config=config) as engine:
            look(browser, engine, f"#run/{run_id}")
            browser.sees("interrupted")
            browser.sees("Resume")
            wait_for(lambda: engine.tool("list_instruments")["result"][0]["is_connected"])
            browser.run(
                "[...document.querySelectorAll('main button')].find((b) => "
                "b.innerText === 'Resume').click()"
            )
            wait_for(lambda: status(engine, run_id)["state"] == "running")
            browser.sees("Pause")
            browser.open("about:blank")


@promise("page.text")
def test_a_hostile_question_and_unit_stay_text(engine: EngineProcess, browser: Browser) -> None:
    run_id = begun(engine, TEXTS.replace("HOSTILE", HOSTILE))
    look(browser, engine, f"#run/{run_id}")
    browser.sees("onerror")
    scan(browser, HOSTILE, 1)
    browser.sees("<b>red</b>")
    browser.wait(lambda: "under test" in browser.text)
    # A press within 0.3 s of the question is refused, as a second scan is.
    browser.wait(lambda: browser.run("document.querySelector('.ask button')?.click()") or (
        status(engine, run_id)["question"] or {}
    ).get("number") == 3)  # fmt: skip
    for view in (f"#run/{run_id}", "", "#runs"):
        look(browser, engine, view)
        browser.sees("texts")
        assert browser.run("return document.querySelectorAll('main img, body script').length") == 0
        assert browser.run("return document.title").endswith("bench")


@promise("page.accessible")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1440])
def test_axe_finds_no_violation_in_an_experiment(
    engine: EngineProcess, browser: Browser, scheme: str, width: int
) -> None:
    boards, run_id = begun(engine, BOARDS), begun(engine, MAP)
    browser.size(width, 900)
    browser.scheme(scheme)
    try:
        for view, words in ((f"#run/{boards}", "Scan"), (f"#run/{run_id}", "cells"), ("", "Scan")):
            look(browser, engine, view)
            browser.sees(words)
            if words == "Scan":
                browser.wait(lambda: focused(browser))
            assert violations(browser) == [], view
            assert sideways(browser) == [], view
    finally:
        browser.size(1440, 900)
        browser.scheme("light")


@promise("page.modes")
def test_a_page_for_reading_offers_stop_and_nothing_else(tmp_path: Path, browser: Browser) -> None:
    with engine_process(tmp_path, "--instruments", BENCH) as engine:
        run_id = begun(engine, BOARDS)
        look(browser, engine, f"#run/{run_id}")
        browser.sees("Scan board 1")
        browser.sees(f"To answer: edged experiment answer {run_id} VALUE")
        shown = browser.run(
            "return [...document.querySelectorAll('main button')].map((b) => b.innerText)"
        )
        assert "Stop experiment" in shown
        assert not {"Pause", "Send", "Add note"} & set(shown)
        assert browser.run("return document.querySelectorAll('main input').length") == 0
        browser.open("about:blank")


def cells(browser: Browser, rows: list[list[Any]], state: str, loops: str = "vg") -> list[int]:
    """The marks of a map of 2 lines of 3 cells: 0 empty, 1 measured, 2 missing, 3 skipped."""
    sizes = {"t": [7, 8], "g": [0, 1], "v": [0, 1, 2]}
    dimensions = [{"name": name, "unit": "V", "values": sizes[name]} for name in reversed(loops)]
    columns = [*(f"n_{one['name']}" for one in dimensions), "i", "flags"]
    run = {"columns": columns, "units": ["A"] * len(columns), "rows": rows, "state": state}
    found: list[int] = browser.run_later(
        "const [run, dimensions, done] = arguments; import('/bench/static/map.js').then(({mapOf}) "
        "=> done(mapOf(run, dimensions, {map: 'i', x: 'v', y: 'g'}, 1).marks))",
        run, dimensions,
    )  # fmt: skip
    return found


@promise("page.experiment")
def test_each_cell_of_a_map_is_measured_missing_skipped_or_still_to_come(
    engine: EngineProcess, browser: Browser
) -> None:
    look(browser, engine)
    gone = "i: timeout"
    first = [[0, 0, 1.5, None], [0, 1, None, gone]]
    assert cells(browser, [], "running") == [0, 0, 0, 0, 0, 0]
    assert cells(browser, first, "running") == [1, 2, 0, 0, 0, 0]
    # A row of another step of this pass has nothing of this column, and says nothing of it.
    assert cells(browser, [*first, [0, 1, None, None]], "running") == [1, 2, 0, 0, 0, 0]
    assert cells(browser, [*first, [0, 1, 2, None]], "running") == [1, 1, 0, 0, 0, 0]
    # The next line has begun, as a snake from its end: the rest of the first was left out.
    second = [*first, [1, 2, 4, None]]
    assert cells(browser, second, "running") == [1, 2, 3, 0, 0, 1]
    assert cells(browser, second, "stopped") == [1, 2, 3, 0, 0, 1]
    assert cells(browser, second, "completed") == [1, 2, 3, 3, 3, 1]
    # Of a loop around both, the pass under way is shown.
    around = [[0, *row] for row in second] + [[1, 0, 0, 3, None]]
    assert cells(browser, around, "running", loops="vgt") == [1, 0, 0, 0, 0, 0]
    # The inner loop may be the upright axis.
    turned = [[0, 0, 1, None], [1, 0, 1, None]]
    assert cells(browser, turned, "running", loops="gv") == [1, 1, 0, 3, 0, 0]


@promise("page.experiment")
def test_a_log_beside_the_steps_is_drawn(engine: EngineProcess, browser: Browser) -> None:
    plan = BOARDS.replace(
        "steps:\n  - for",
        """log: {v_log: {command: meter.measure_dc_voltage,
  every_s: 0.5}}
plots: [{line: v_log}]
steps:
  - for""",
    )
    run_id = begun(engine, plan)
    look(browser, engine, f"#run/{run_id}")
    browser.wait(lambda: re.search(r"[2-9] points of v_log over elapsed_s, live", browser.text))
    view = browser.run_later(
        "const done = arguments[1]; fetch(`/bench/runs/${arguments[0]}/view.json`)"
        ".then((answer) => answer.json()).then(done)",
        run_id,
    )
    assert (view["logs"]["v_log"]["columns"], view["logs"]["v_log"]["units"]) == (
        ["v_log", "elapsed_s"],
        ["V", "s"],
    )
