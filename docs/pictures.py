"""Take the pictures anew, from a simulated bench on which something happens.

``python docs/pictures.py FOLDER`` writes each view of the bench page in light and dark at 390, 1440
and 2560 pixels; ``--docs`` writes those that the documentation shows into docs/pictures, and no
other: the page, an agent at work, and a question that a person answers. Needs chromium and its
driver. The curves there come from the pages that tell how they are made (``python -m
tests.bench.pages``), the drawings from ``docs/house.py``.
"""

from __future__ import annotations

import argparse
import contextlib
import html
import io
import json
import os
import signal
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from edged.experiments.examples import EXAMPLES
from edged.surfaces.page.owner import keep_page_key
from tests.bench.browser import Browser, running_browser
from tests.bench.engine_process import EngineProcess, engine_process
from tests.bench.pages import run_page, running_page

SIZES = ((390, 844), (1440, 900), (2560, 1440))
SETTLED_S = 2.0
VIEWS = {"bench": "", "recordings": "#runs", "record": "#record", "unit": "#unit/psu1"}
FETS = "smu1=keithley_2400,smu2=keithley_2400,psu1=rigol_dp832,dmm1=keysight_34461a"
CROWD = "psu*10=rigol_dp832,dmm*12=keysight_34461a,scope*8=rigol_ds1054z"
BENCH = """\
format: 1
psu1: {confirm: [set_current], confirm_ttl_s: 600, confirm_by: [page], location: rack 2}
scope1: {location: second bench}
"""


def begin(engine: EngineProcess) -> str:
    """Something to look at; gives the id of a sweep."""
    channel = {"channel": 1}
    on = {"instrument_id": "psu1", "command_name": "output_on", "parameters": channel}
    told(ask_as_agent(engine, "execute_command", on))
    fast = {"nplc": "0.2"}
    sweep = {
        "instrument_id": "psu1",
        "command_name": "set_voltage",
        "parameters": channel,
        "target_value": 24,
        "sweep_rate": 0.2,
        "measure": [
            {"instrument_id": "dmm1", "command_name": "measure_dc_voltage", "parameters": fast},
            {"instrument_id": "psu1", "command_name": "measure_current", "parameters": channel},
        ],
    }
    begun = told(ask_as_agent(engine, "start_sweep", sweep))
    stream = {"instrument_id": "scope1", "command_name": "measure_vpp", "parameters": channel}
    stream |= {"interval_ms": 500, "duration_ms": 600_000, "detach": True}
    told(ask_as_agent(engine, "start_stream", stream))
    return str(begun["sweep_id"])


def take(browser: Browser, engine: EngineProcess, view: str, path: Path) -> None:
    """One picture."""
    look(browser, engine, view)
    time.sleep(SETTLED_S)  # noqa: TID251 - until the plots have points
    picture(browser, path)


def look(browser: Browser, engine: EngineProcess, view: str = "") -> None:
    """Open it as anew."""
    browser.open("about:blank")
    browser.open(f"http://127.0.0.1:{engine.ports['mcp_port']}/bench{view}")
    browser.sees("live, edged")
    browser.wait(lambda: browser.run("return document.querySelector('#view > *')"))


def picture(browser: Browser, path: Path) -> None:
    """What is in the window."""
    browser.picture(path)
    sys.stdout.write(f"{path}\n")


def everywhere(browser: Browser) -> Iterator[str]:
    """Each scheme and size, set; gives the end of a picture's name."""
    for scheme in ("light", "dark"):
        browser.scheme(scheme)
        for width, height in SIZES:
            browser.size(width, height)
            yield f"{width}-{scheme}.png"


def usual(folder: Path, browser: Browser) -> None:
    """Each view while a sweep and a stream run."""
    with engine_with() as engine:
        sweep = begin(engine)
        time.sleep(8 * SETTLED_S)  # noqa: TID251 - until there is something to see
        for end in everywhere(browser):
            for name, view in {**VIEWS, "run": f"#run/{sweep}"}.items():
                take(browser, engine, view, folder / f"{name}-{end}")


def begin_map(engine: EngineProcess) -> str:
    """A map that leaves out a corner; gives the id of its run."""
    plan = EXAMPLES["map"].replace("[0, 5, 11]", "[0, 5, 41]").replace("5]}", "21]}", 1)
    plan = plan.replace("i_d > 0.015", "v_d + v_g > 5").replace("rate: 10", "rate: 100")
    plan = plan.replace("        snake: true\n", "        wait_s: 0.05\n")
    plan = plan.replace("y: v_g}", "y: v_g, log: true}, {line: i_d, x: v_d}")
    run = {"text": plan, "parameters": {"v_max": 2}}
    return str(told(ask_as_agent(engine, "bench__start_experiment", run))["run_id"])


BOARDS = """\
format: 1
experiment: board_test
roles: {meter: dmm1}
steps:
  - for: board
    in: {count: 20}
    unit: "{serial}"
    steps:
      - {ask: serial, text: "Scan board {board + 1} of 20", type: text, timeout_s: 3600}
      - {measure: {v_out: meter.measure_dc_voltage}}
      - {check: output voltage, value: "{v_out}", min: -1, max: 1, near: 0.5, unit: V}
      - {ask: led, text: "Is the green LED on?", type: pass_fail, timeout_s: 3600}
"""


def begin_boards(engine: EngineProcess) -> str:
    """A test of boards that has come to a question; gives the id of its run."""
    begun = told(ask_as_agent(engine, "bench__start_experiment", {"text": BOARDS}))
    for answer in ("R33-000231", "pass", "R33-000232", "fail", "R33-000232", "pass", "R33-000233"):
        reply = {"run_id": begun["run_id"], "action": "answer", "value": answer}
        while engine.tool("bench__control_run", **reply)["is_error"]:
            time.sleep(0.1)  # noqa: TID251 - until it asks
    return str(begun["run_id"])


def experiments(folder: Path, browser: Browser) -> None:
    """A map that grows, and a test that asks."""
    with engine_with("--instruments", FETS) as engine:
        run_id, boards = begin_map(engine), begin_boards(engine)
        time.sleep(8 * SETTLED_S)  # noqa: TID251 - until there is something to see
        for end in everywhere(browser):
            take(browser, engine, f"#run/{run_id}", folder / f"map-{end}")
            take(browser, engine, f"#run/{boards}", folder / f"boards-{end}")
            take(browser, engine, "", folder / f"experiments-{end}")


def unusual(folder: Path, browser: Browser) -> None:
    """A call that waits, a stop while a unit hangs, an engine that is away."""
    with engine_with() as engine:
        begin(engine)
        lease = {"instruments": ["dmm1"], "purpose": "burn-in of the new shunts"}
        engine.tool("bench__reserve", **lease)
        threading.Thread(target=ask, args=(engine,), daemon=True).start()
        key = keep_page_key(engine.state_dir)
        for end in everywhere(browser):
            look(browser, engine, f"#key={key}")
            browser.sees("Waits for a person")
            picture(browser, folder / f"asks-{end}")
        engine.sim("fault", instrument="psu1", kind="freeze")
        for end in everywhere(browser):
            look(browser, engine)
            browser.click("#stop")
            browser.sees("confirmed off")
            picture(browser, folder / f"stopped-{end}")
        engine.sim("clear", instrument="psu1")
        look(browser, engine)
        os.kill(engine.process.pid, signal.SIGSTOP)
        try:
            browser.sees("does not answer", within_s=40)
            browser.click("#stop")
            browser.sees("The engine is away", within_s=20)
            for end in everywhere(browser):
                picture(browser, folder / f"away-{end}")
        finally:
            os.kill(engine.process.pid, signal.SIGCONT)


def ask(engine: EngineProcess) -> None:
    """A call that waits for a yes; nobody gives it."""
    with contextlib.suppress(OSError, AssertionError):
        current = {"channel": 1, "current": 0.5}
        engine.tool(
            "execute_command",
            instrument_id="psu1",
            command_name="set_current",
            parameters=current,
        )


def crowd(folder: Path, browser: Browser) -> None:
    """Thirty instruments, and all of them stopped."""
    with engine_with("--instruments", CROWD) as engine:
        for unit in engine.tool("list_instruments")["result"]:
            if unit["profile_name"] == "rigol_dp832":
                engine.tool("execute_command", instrument_id=unit["id"], command_name="output_on",
                            parameters={"channel": 1})  # fmt: skip
        for end in everywhere(browser):
            look(browser, engine)
            picture(browser, folder / f"crowd-{end}")
            browser.click("#stop")
            browser.sees("confirmed off")
            picture(browser, folder / f"crowd-stopped-{end}")


@contextlib.contextmanager
def engine_with(*arguments: str) -> Iterator[EngineProcess]:
    """A bench with a full page."""
    config = {"BENCH_PAGE": "full", "EDGE_NAME": "bench7"}
    with tempfile.TemporaryDirectory() as directory:
        (Path(directory) / "bench.yaml").write_text(BENCH if not arguments else "format: 1\n")
        with engine_process(Path(directory), *arguments, config=config) as engine:
            yield engine


SHOWN = Path(__file__).with_name("pictures")
LARGEST_BYTES = 150_000
AGENT: Final = "lab-agent"


def shown(browser: Browser) -> None:
    """What the documentation shows."""
    SHOWN.mkdir(exist_ok=True)
    # Its curve sets a current, for which a person is asked on the bench of the page.
    with tempfile.TemporaryDirectory() as directory, engine_process(Path(directory)) as engine:
        turns = agent_at_work(engine)
    with engine_with() as engine:
        begin(engine)
        time.sleep(12 * SETTLED_S)  # noqa: TID251 - until there is something to see
        for scheme, end in (("light", ""), ("dark", "-dark")):
            browser.scheme(scheme)
            browser.size(*PAGE_SIZE)
            take(browser, engine, "", SHOWN / f"page{end}.png")
            client_window(browser, turns, SHOWN / f"agent{end}.png")
            for name in ("page", "agent"):
                make_small(SHOWN / f"{name}{end}.png")
    browser.scheme("light")
    mapped(browser, SHOWN / "map.png")
    asked(browser, SHOWN / "agent-asks.png")


def mapped(browser: Browser, path: Path) -> None:
    """The view of a map that is under way."""
    browser.size(*PAGE_SIZE)
    with engine_with("--instruments", FETS) as engine:
        run_id = begin_map(engine)
        look(browser, engine, f"#run/{run_id}")
        browser.sees("v_g 13 of 21", within_s=120)
        picture(browser, path)
        make_small(path)


def asked(browser: Browser, path: Path) -> None:
    """The page while the call of docs/agent.md waits that its reader is asked about."""
    text = Path(__file__).with_name("agent.md").read_text(encoding="utf-8")
    browser.size(1000, 640)
    with (
        tempfile.TemporaryDirectory() as place,
        running_page("agent.md", text, Path(place), EDGE_NAME="bench7") as (engine, home),
        contextlib.closing(run_page(text, engine, home)) as told,
    ):
        next(block for block, _ in told if block.commands == "edged approve\n")
        look(browser, engine)
        browser.sees("Waits for a person")
        picture(browser, path)
        make_small(path)


PAGE_SIZE: Final = (1440, 920)


def ask_as_agent(engine: EngineProcess, name: str, arguments: Mapping[str, Any]) -> Any:
    """The result of a tools/call at the MCP endpoint."""
    params = {"name": name, "arguments": arguments}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "User-Agent": AGENT,
        # The first in which arguments that are refused are an answer that a model reads.
        "MCP-Protocol-Version": "2025-11-25",
    }
    request = urllib.request.Request(engine.mcp_url, body.encode(), headers)
    with urllib.request.urlopen(request, timeout=60) as reply:
        return json.load(reply)["result"]


def told(result: Any) -> Any:
    """What a call that succeeded has answered."""
    assert not result.get("isError"), result
    return json.loads(result["content"][0]["text"])


QUESTION: Final = "Measure the IV curve of the load on channel 1, with 0.4 A at most."
CURVE: Final = {"channel": 1, "start": 0, "stop": 6, "points": 13, "current_limit": 0.4}


def agent_at_work(engine: EngineProcess) -> str:
    """What was asked, an agent's calls, and what the engine answered to each, as HTML."""
    turns = [f'<p class="asked">{html.escape(QUESTION)}</p>']

    def call(name: str, kind: str = "", **arguments: Any) -> Any:
        given = ", ".join(f"{key}: {value}" for key, value in arguments.items())
        turns.append(
            f'<div class="call {kind}"><p><b>{name}</b> <span>{html.escape(given)}</span></p>'
        )
        return ask_as_agent(engine, name, arguments)

    def answer(*lines: str) -> None:
        turns.append("".join(f"<pre>{html.escape(line)}</pre>" for line in lines) + "</div>")

    units = told(call("list_instruments"))
    answer(*(f"{u['alias']:8}{u['manufacturer']} {u['model']}, {u['state']}" for u in units))
    refused = call("rigol_dp832__sequence__iv_curve", "refused", **{**CURVE, "stop": 40})
    error = refused["structuredContent"]["error"]
    answer(f"{error['code']}: {error['message']} {error['remedy']}")
    curve = told(call("rigol_dp832__sequence__iv_curve", **CURVE))
    rows = curve["result"]["rows"]
    limited = sum(row["limited"] for row in rows)
    answer(
        f"{curve['status']}: {len(rows)} points, {limited} at the current limit; {curve['run_id']}"
    )
    axes = {"x": "voltage_V", "y": "current_A"}
    content = call("bench__plot", run_id=curve["run_id"], **axes)["content"]
    (picture,) = (part["data"] for part in content if part["type"] == "image")
    turns.append(f'<img src="data:image/png;base64,{picture}"></div>')
    return "".join(turns)


CLIENT: Final = """\
<!doctype html><meta name="color-scheme" content="light dark">
<style>
  :root {
    --back: #fff; --ink: #15191f; --soft: #545d6b; --line: #d5dbe2; --card: #f4f6f8;
    --tool: #0b57a8; --good: #17713f; --bad: #b3150c; --asked: #e8f1fb;
    --code: ui-monospace, "DejaVu Sans Mono", monospace;
  }
  @media (prefers-color-scheme: dark) {
    :root {
      --back: #12161b; --ink: #e9edf2; --soft: #a3adba; --line: #39424d; --card: #1a2027;
      --tool: #7ab8ff; --good: #63d693; --bad: #ff8f88; --asked: #1d3146;
    }
    img { filter: invert(0.9) hue-rotate(180deg); }
  }
  body {
    margin: 0; padding: 24px 28px; width: 920px; box-sizing: border-box;
    background: var(--back); color: var(--ink);
    font: 16px/1.5 system-ui, "DejaVu Sans", sans-serif;
  }
  p { margin: 0; }
  .asked {
    width: fit-content; margin: 0 0 18px auto; padding: 10px 16px;
    border-radius: 14px 14px 3px 14px; background: var(--asked);
  }
  .call {
    margin: 0 0 12px; padding: 10px 14px; border: 1px solid var(--line);
    border-left: 4px solid var(--good); border-radius: 8px; background: var(--card);
  }
  .call:last-child { margin: 0; }
  .refused { border-left-color: var(--bad); }
  b { color: var(--tool); font: 600 14px var(--code); }
  span { margin-left: 6px; color: var(--soft); font-size: 13px; }
  pre { margin: 4px 0 0; white-space: pre-wrap; font: 13px/1.5 var(--code); }
  .refused pre { color: var(--bad); }
  img { display: block; width: 760px; margin: 8px 0 2px; border-radius: 6px; }
</style>
"""


def client_window(browser: Browser, turns: str, path: Path) -> None:
    """A conversation as a client shows it."""
    browser.size(920, 200)
    browser.open("data:text/html;charset=utf-8," + quote(CLIENT + turns))
    browser.wait(lambda: browser.run("return [...document.images].every((one) => one.complete)"))
    size = {"width": 920, "height": int(browser.run("return document.body.offsetHeight"))}
    # Twice as fine: it is words, and shown as large as the page is wide.
    browser.devtools(
        "Emulation.setDeviceMetricsOverride", **size, deviceScaleFactor=2, mobile=False
    )
    picture(browser, path)


def make_small(path: Path) -> None:
    """The same in 256 colours: what is drawn, not photographed, has no more."""
    with Image.open(path) as full:
        reduced = full.convert("RGB").quantize(256, dither=Image.Dither.NONE)
    packed = io.BytesIO()
    reduced.save(packed, "PNG", optimize=True)
    path.write_bytes(packed.getvalue())
    assert path.stat().st_size <= LARGEST_BYTES, f"{path} is too large: {path.stat().st_size} bytes"


STORIES = {"usual": usual, "experiments": experiments, "unusual": unusual, "crowd": crowd}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("var/pictures"))
    parser.add_argument("--docs", action="store_true", help="those in docs/pictures alone")
    parser.add_argument("--story", choices=STORIES, action="append", help="these alone")
    options = parser.parse_args()
    with running_browser() as browser:
        if options.docs:
            shown(browser)
            return 0
        options.folder.mkdir(parents=True, exist_ok=True)
        for name in options.story or STORIES:
            STORIES[name](options.folder, browser)
    return 0


if __name__ == "__main__":
    sys.exit(main())
