"""Take the pictures anew, from a simulated bench on which something happens.

``python docs/pictures.py FOLDER`` writes each view of the bench page in light and dark at 390, 1440
and 2560 pixels; ``--docs`` writes into docs/pictures what the documentation shows, and no other.
Needs chromium and its driver.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from edged.surfaces.page.owner import keep_page_key
from tests.bench.browser import Browser, running_browser
from tests.bench.engine_process import EngineProcess, running_engine
from tests.bench.pages import run_page, running_page

SIZES = ((390, 844), (1440, 900), (2560, 1440))
SETTLED_S = 2.0
VIEWS = {"bench": "", "recordings": "#runs", "record": "#record", "unit": "#unit/psu1"}
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
    engine.tool("execute_command", **on)
    sweep = engine.tool(
        "start_sweep",
        instrument_id="psu1",
        command_name="set_voltage",
        parameters=channel,
        target_value=24,
        sweep_rate=0.5,
        measure=[
            {"instrument_id": "dmm1", "command_name": "measure_dc_voltage"},
            {"instrument_id": "psu1", "command_name": "measure_current", "parameters": channel},
        ],
    )
    stream = {"instrument_id": "scope1", "command_name": "measure_vpp", "parameters": channel}
    engine.tool("start_stream", **stream, interval_ms=500, duration_ms=600_000, detach=True)
    return str(sweep["result"]["sweep_id"])


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
        with running_engine(Path(directory), *arguments, config=config) as engine:
            yield engine


SHOWN = Path(__file__).with_name("pictures")
LARGEST_BYTES = 150_000


def shown(browser: Browser) -> None:
    """What the documentation shows."""
    SHOWN.mkdir(exist_ok=True)
    with engine_with() as engine:
        begin(engine)
        time.sleep(8 * SETTLED_S)  # noqa: TID251 - until there is something to see
        for scheme, name in (("light", "page"), ("dark", "page-dark")):
            browser.scheme(scheme)
            path = SHOWN / f"{name}.png"
            take(browser, engine, "", path)
            make_small(path)
    browser.scheme("light")
    asked(browser, SHOWN / "agent-asks.png")


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


def make_small(path: Path) -> None:
    """The same in 256 colours: what is drawn, not photographed, has no more."""
    with Image.open(path) as full:
        reduced = full.convert("RGB").quantize(256, dither=Image.Dither.NONE)
    packed = io.BytesIO()
    reduced.save(packed, "PNG", optimize=True)
    path.write_bytes(packed.getvalue())
    assert path.stat().st_size <= LARGEST_BYTES, f"{path} is too large: {path.stat().st_size} bytes"


STORIES = {"usual": usual, "unusual": unusual, "crowd": crowd}


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
