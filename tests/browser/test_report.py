"""The report of a run as it is read: on a phone, on a desk, by whoever hears it."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from tests.bench.browser import Browser
from tests.bench.engine_process import EngineProcess
from tests.bench.waiting import wait_for
from tests.browser.looking import SWEEP, sideways, violations
from tests.promises import promise


@promise("report.one-file")
@pytest.mark.parametrize("width", [390, 1440])
def test_a_report_is_read_on_a_phone_and_on_a_desk_from_the_file_alone(
    engine: EngineProcess, browser: Browser, tmp_path: Path, width: int
) -> None:
    sweep = engine.tool("start_sweep", **{**SWEEP, "target_value": 0.5})["result"]["sweep_id"]
    wait_for(lambda: engine.rpc("runs.show", run_id=sweep)["meta"]["status"] == "completed")
    page = tmp_path / "report.html"
    page.write_bytes(base64.b64decode(engine.rpc("runs.report", run_id=sweep)["content"]))
    browser.complaints()
    browser.requests()
    browser.size(width, 844)
    try:
        browser.open(page.as_uri())
        browser.sees("Limits in force")
        assert sideways(browser) == []
        assert set(browser.requests()) <= {page.as_uri()}
        assert browser.complaints() == []
        assert violations(browser) == []
    finally:
        browser.size(1440, 900)
        browser.open("about:blank")
