"""What the stories of the bench page share: the bench's commands, how one looks, and axe-core."""

from __future__ import annotations

from typing import Any

from tests.bench.browser import Browser
from tests.bench.engine_process import REPOSITORY, EngineProcess
from tests.bench.mcp_client import McpClient

AXE = REPOSITORY / ".venv-clients/node/npm/node_modules/axe-core/axe.min.js"
AXE_RUN = (
    "const done = arguments[0]; axe.run({runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', "
    "'wcag22aa', 'best-practice']}).then((r) => done(r.violations.map((v) => [v.id, v.nodes.map("
    "(n) => [n.html, n.failureSummary])])))"
)
ON = {"instrument_id": "psu1", "command_name": "output_on", "parameters": {"channel": 1}}
VOLTS = {**ON, "command_name": "get_voltage"}
CURRENT = {**ON, "command_name": "set_current", "parameters": {"channel": 1, "current": 0.5}}
MEASURED = {"instrument_id": "dmm1", "command_name": "measure_dc_voltage"}
SWEEP = {
    "instrument_id": "psu1",
    "command_name": "set_voltage",
    "parameters": {"channel": 1},
    "target_value": 20,
    "sweep_rate": 0.5,
    "measure": [MEASURED],
}
TRACES = {
    "instrument_id": "scope1",
    "command_name": "capture_waveform",
    "parameters": {"channel": 1},
    "interval_ms": 150,
    "duration_ms": 500,
    "detach": True,
}


def address(engine: EngineProcess, view: str = "") -> str:
    return f"http://127.0.0.1:{engine.ports['mcp_port']}/bench{view}"


def look(browser: Browser, engine: EngineProcess, view: str = "") -> None:
    """Open it as anew: a change of the fragment alone loads nothing."""
    browser.open("about:blank")
    browser.open(address(engine, view))


def is_on(engine: EngineProcess) -> bool:
    return bool(engine.sim("state")["instruments"]["psu1"]["state"]["ch1"]["is_on"])


def violations(browser: Browser) -> Any:
    """What axe-core has against the page as it is now."""
    browser.run(AXE.read_text())
    return browser.run_later(AXE_RUN)


def sideways(browser: Browser) -> list[str]:
    """What stands out of the window to the right, and is in nothing that scrolls."""
    found: list[str] = browser.run(
        "return [...document.querySelectorAll('body *')].filter((e) => "
        "!e.closest('.scroll, .canvas, .s') && e.getClientRects().length && "
        "e.getBoundingClientRect().right > innerWidth + 1)"
        ".map((e) => e.outerHTML.slice(0, 200))"
    )
    wide = browser.run("return document.documentElement.scrollWidth > innerWidth")
    return [*found, "the page scrolls sideways"] if wide else found


async def agent(engine: EngineProcess, name: str = "") -> McpClient:
    client = McpClient(engine.ports["mcp_port"])
    if name:
        client.client_info = {"name": name, "version": "1"}
    await client.initialize("2025-11-25")
    return client
