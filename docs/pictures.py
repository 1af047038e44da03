"""Take the pictures of the bench page anew, from a simulated bench on which something happens.

``python docs/pictures.py FOLDER`` writes each view in light and dark at 390, 1440 and 2560 pixels;
``--readme`` writes docs/page.png alone. Needs chromium and chromium-driver.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.bench.browser import Browser, running_browser
from tests.bench.engine_process import EngineProcess, running_engine

SIZES = ((390, 844), (1440, 900), (2560, 1440))
SETTLED_S = 4.0
VIEWS = {"bench": "", "recordings": "#runs", "record": "#record", "unit": "#unit/psu1"}


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
    browser.open("about:blank")
    browser.open(f"http://127.0.0.1:{engine.ports['mcp_port']}/bench{view}")
    browser.sees("live, edged")
    time.sleep(SETTLED_S)  # noqa: TID251 - until the plots have points
    browser.picture(path)
    sys.stdout.write(f"{path}\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("var/pictures"))
    parser.add_argument("--readme", action="store_true", help="docs/page.png alone")
    options = parser.parse_args()
    config = {"BENCH_PAGE": "full", "EDGE_NAME": "bench7"}
    with (
        tempfile.TemporaryDirectory() as directory,
        running_engine(Path(directory), config=config) as engine,
        running_browser() as browser,
    ):
        sweep = begin(engine)
        time.sleep(4 * SETTLED_S)  # noqa: TID251 - until there is something to see
        if options.readme:
            take(browser, engine, "", Path(__file__).with_name("page.png"))
            return 0
        options.folder.mkdir(parents=True, exist_ok=True)
        for name, view in {**VIEWS, "run": f"#run/{sweep}"}.items():
            for scheme in ("light", "dark"):
                browser.scheme(scheme)
                for width, height in SIZES:
                    browser.size(width, height)
                    take(browser, engine, view, options.folder / f"{name}-{width}-{scheme}.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
