"""Reports of runs on a simulated bench: one file that has everything, as a page."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import html
import json
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.bench import command_line
from tests.bench.engine import Engine
from tests.bench.engine_process import engine_process
from tests.bench.waiting import wait_for
from tests.promises import promise

BENCH = """\
format: 1
DP8B26AM00234:
  alias: psu1
  calibration_due: 2026-01-31
  limits: {set_voltage: {voltage: {max: 12}}}
MY54506462: {alias: dmm1, location: rack 2, calibration_due: 2031-01-31}
"""
SWEEP = {
    "instrument_id": "psu1",
    "command_name": "set_voltage",
    "parameters": {"channel": 1},
    "target_value": 1,
    "sweep_rate": 2,
    "measure": [{"instrument_id": "dmm1", "command_name": "measure_dc_voltage"}],
}


def bench_in(directory: Path) -> Any:
    (directory / "bench.yaml").write_text(BENCH)
    return engine_process(directory, "--instruments", "psu1,dmm1")


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """A bench with a supply and a meter."""
    directory = tmp_path_factory.mktemp("reports")
    with bench_in(directory) as running:
        yield running


@pytest.fixture(scope="module")
def sweep(engine: Engine) -> str:
    return swept(engine)


def swept(engine: Engine) -> str:
    """A sweep that has ended."""
    for name in ("psu1", "dmm1"):
        wait_for(lambda name=name: engine.tool("list_instruments", filter=name)["result"])
    sweep_id: str = engine.tool("start_sweep", **SWEEP)["result"]["sweep_id"]
    wait_for(lambda: engine.rpc("runs.show", run_id=sweep_id)["meta"]["status"] == "completed")
    return sweep_id


def edged(
    engine: Engine, *words: str, status: int = 0, cwd: Path
) -> subprocess.CompletedProcess[str]:
    with contextlib.chdir(cwd):
        done = command_line.edged("runs", *words, "--state-dir", str(engine.state_dir))
    assert done.returncode == status, done.stderr + done.stdout
    assert "Traceback" not in done.stderr
    return done


def text_of(page: bytes) -> str:
    """What a reader of the page sees, a line each element."""
    told = re.sub(r"<style>.*?</style>", "", page.decode(), flags=re.DOTALL)
    return html.unescape(re.sub(r"<[^>]*>", "\n", told))


@promise("report.whole")
@promise("report.calibration")
def test_a_sweep_is_told_with_units_limits_and_hashes_as_they_stand_in_the_record(
    engine: Engine, sweep: str, tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    edged(engine, "report", sweep, "--html", "-o", str(page), cwd=tmp_path)
    told = text_of(page.read_bytes())
    shown = engine.rpc("runs.show", run_id=sweep)
    for unit in shown["meta"]["instruments"]:
        assert unit["serial"] in told
        assert unit["firmware"] in told
    assert "2026-01-31 overdue" in told
    assert "2031-01-31" in told
    assert "2031-01-31 overdue" not in told
    assert "channel: 1 to 3; voltage: 0 to 12" in told
    assert "target reached" in told
    assert shown["meta"]["caller"]["who"] in told
    data = Path(shown["path"], "data.csv").read_bytes()
    assert hashlib.sha256(data).hexdigest() in told
    rows = engine.rpc("audit.list", after=0, limit=5_000)["rows"]
    begun = {row["parent_id"] for row in rows if row["on_behalf_of"] == sweep} - {""}
    mine = [r for r in rows if r["on_behalf_of"] == sweep or r["action_id"] in begun]
    assert {"intent", "end"} <= {r["phase"] for r in mine if r["action_id"] in begun}
    for row in (*mine[:20], *mine[-20:]):
        assert row["hash"] in told, row
    digest = hashlib.sha256("".join(f"{row['hash']}\n" for row in mine).encode()).hexdigest()
    assert digest in told
    last = data.decode().splitlines()[-1].split(",")
    assert all(cell in told for cell in last)
    assert b"<svg" in page.read_bytes()
    assert "What is not known" not in told


@promise("report.calibration")
def test_what_was_due_then_stands_in_the_recording_itself(engine: Engine, sweep: str) -> None:
    units = engine.rpc("runs.show", run_id=sweep)["meta"]["instruments"]
    dues = {unit["alias"]: unit["calibration_due"] for unit in units}
    assert dues == {"psu1": "2026-01-31", "dmm1": "2031-01-31"}


@promise("cli.exit-statuses")
def test_the_command_line_writes_a_file_and_never_over_one_unasked(
    engine: Engine, sweep: str, tmp_path: Path
) -> None:
    edged(engine, "report", sweep, cwd=tmp_path)
    page = tmp_path / f"{sweep}.html"
    first = page.read_bytes()
    assert first.startswith(b"<!DOCTYPE html>")
    refused = edged(engine, "report", sweep, cwd=tmp_path, status=1)
    assert "exists already; it was not changed" in refused.stderr
    assert page.read_bytes() == first
    told = edged(engine, "report", sweep, "--force", "--json", cwd=tmp_path)
    assert json.loads(told.stdout) == {"run_id": sweep, "path": page.name}
    assert page.read_bytes() != first, "another time of day stands in it"
    printed = edged(engine, "report", sweep, "-o", "-", cwd=tmp_path)
    assert printed.stdout.startswith("<!DOCTYPE html>")
    assert [path.name for path in tmp_path.iterdir()] == [page.name]
    edged(
        engine, "report", sweep, "-o", str(tmp_path / "nowhere" / "x.html"), status=1, cwd=tmp_path
    )


def test_an_unknown_run_is_an_error_that_names_the_one_that_was_meant(
    engine: Engine, sweep: str, tmp_path: Path
) -> None:
    refused = edged(engine, "report", sweep[:-1] + "_", cwd=tmp_path, status=1)
    assert f"Did you mean {sweep}?" in refused.stderr
    for name in ("nothing-like-it", "../../etc/passwd"):
        refused = edged(engine, "report", name, "-o", "-", status=1, cwd=tmp_path)
        assert "There is no recording" in refused.stderr
    assert list(tmp_path.iterdir()) == []


@promise("report.says-what-is-missing")
def test_after_a_kill_what_is_not_known_is_said(tmp_path: Path) -> None:
    with bench_in(tmp_path) as engine:
        wait_for(lambda: engine.tool("list_instruments", filter="dmm1")["result"])
        begun = engine.tool(
            "start_stream",
            instrument_id="psu1",
            command_name="measure_voltage",
            parameters={"channel": 1},
            interval_ms=20,
            detach=True,
        )
        run_id = begun["result"]["stream_id"]
        wait_for(lambda: len(engine.rpc("runs.show", run_id=run_id)["rows"]) > 3)
        under_way = engine.rpc("runs.report", run_id=run_id)
        assert "It was still under way" in text_of(base64.b64decode(under_way["content"]))
        engine.process.send_signal(signal.SIGKILL)
        engine.process.wait(10)
    with bench_in(tmp_path) as engine:
        wait_for(lambda: engine.rpc("runs.show", run_id=run_id)["meta"]["status"] == "failed")
        told = text_of(base64.b64decode(engine.rpc("runs.report", run_id=run_id)["content"]))
    assert "The daemon died while this was recorded" in told
    assert "What is not known" in told
    assert "When it ended." in told
