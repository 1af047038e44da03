"""Other people's VISA programs, unchanged, through ``@edged``: a shell, PyMeasure, QCoDeS."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.bench.engine_process import EngineProcess, engine_process
from tests.bench.sim_bench import running_bench
from tests.promises import promise

REPOSITORY = Path(__file__).resolve().parents[2]
CLIENTS = REPOSITORY / "tests" / "clients"
UNITS = {
    "smu": "keithley_2400",
    "smu2": "keithley_2450",
    "dmm": "keithley_dmm6500",
    "kdmm": "keysight_34465a",
    "psu": "keysight_e36312a",
    "dp": "rigol_dp832",
    "hmp": "rs_hmp4040",
    "gs": "yokogawa_gs200",
}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineProcess]:
    words = ",".join(f"{name}={model}" for name, model in UNITS.items())
    with running_bench("--instruments", words) as bench:
        entries = [{"address": bench.address(name), "name": name} for name in UNITS]
        directory = tmp_path_factory.mktemp("visa-programs")
        with engine_process(directory, sim=False, config={"INSTRUMENTS": entries}) as running:
            yield running


def run(python: Path, words: list[str | Path], home: Path, given: str = "", **more: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "HOME": str(home), **more}
    done = subprocess.run(
        [python, *words],
        input=given,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stderr[-4_000:]
    return done.stdout


def measured(name: str, engine: EngineProcess, home: Path) -> dict[str, Any]:
    python = REPOSITORY / ".venv-clients" / name / "bin" / "python"
    out = run(python, [CLIENTS / f"{name}_session.py", engine.mcp_url], home)
    found: dict[str, Any] = json.loads(out.splitlines()[-1])
    return found


@promise("visa.programs")
def test_pyvisas_own_shell_lists_opens_and_asks(engine: EngineProcess, tmp_path: Path) -> None:
    shell = Path(sys.executable).with_name("pyvisa-shell")
    given = "list\nopen dp\nquery *IDN?\nquery :SYST:ERR?\nattr\ntimeout 1000\nclose\nexit\n"
    environment = {"EDGED_URL": engine.mcp_url}
    out = run(Path(sys.executable), [shell, "-b", "edged"], tmp_path, given, **environment)
    assert "dp has been opened" in out
    assert "RIGOL TECHNOLOGIES,DP832A" in out
    assert '0,"No error"' in out
    assert all(name in out for name in UNITS)


@promise("visa.programs")
def test_drivers_of_pymeasure_measure(engine: EngineProcess, tmp_path: Path) -> None:
    found = measured("pymeasure", engine, tmp_path)
    assert found["keithley_2400"]["current"] == pytest.approx(0.1, abs=0.02)
    assert found["keithley_2450"]["current"] == pytest.approx(0.002, abs=0.001)
    assert abs(found["keithley_dmm6500"]["voltage"]) < 1e-3
    assert found["keysight_e36312a"]["voltage"] == pytest.approx(3.0, abs=0.05)
    assert found["rohdeschwarz_hmp4040"]["voltage"] == 4.0
    assert found["yokogawa_gs200"]["level"] == 1.5
    rows = engine.rpc("audit.list", tool="send_scpi", limit=1)["rows"]
    assert "pymeasure_session.py" in json.dumps(rows)


@promise("visa.programs")
def test_drivers_of_qcodes_measure(engine: EngineProcess, tmp_path: Path) -> None:
    found = measured("qcodes", engine, tmp_path)
    assert found["keithley_2400"]["current"] == pytest.approx(0.1, abs=0.02)
    assert abs(found["keysight_34465a"]["voltage"]) < 1e-3
    assert found["rigol_dp832"]["voltage"] == pytest.approx(3.0, abs=0.05)
    assert found["yokogawa_gs200"]["level"] == 1.5
