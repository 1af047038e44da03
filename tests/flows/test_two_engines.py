"""Two engines on one DATA_DIR: the second ends before it has touched a file there."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.bench.engine import Engine
from tests.bench.engine_process import REPOSITORY, engine_process
from tests.promises import promise


def start_second(directory: Path, data_dir: Path) -> subprocess.CompletedProcess[str]:
    settings = ("RPC_PORT=0", "MCP_PORT=0", "DISCOVERY=[]", f"DATA_DIR={data_dir}")
    words = [word for setting in settings for word in ("--set", setting)]
    return subprocess.run(
        [sys.executable, "-m", "edged", "engine", "--state-dir", str(directory), *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=REPOSITORY,
        timeout=60,
    )


def start_recording(engine: Engine) -> Path:
    told = engine.tool(
        "start_sweep",
        instrument_id="psu1",
        command_name="set_voltage",
        target_value=30,
        sweep_rate=0.2,
        parameters={"channel": 1},
        measure=[
            {
                "instrument_id": "psu1",
                "command_name": "measure_voltage",
                "parameters": {"channel": 1},
            }
        ],
    )
    (directory,) = engine.state_dir.parent.glob(f"data/runs/*/{told['result']['sweep_id']}")
    return directory


def files_of(directory: Path) -> dict[str, Any]:
    return {
        "meta": json.loads((directory / "meta.json").read_text()),
        "marks": sorted(p.name for p in directory.parents[1].rglob("*.mark")),
    }


@promise("data.one-engine")
def test_the_second_says_who_holds_the_data_and_leaves_live_runs_alone(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with engine_process(tmp_path) as engine:
        recording = start_recording(engine)
        before = files_of(recording)
        assert before["meta"]["status"] == "running"
        refused = start_second(tmp_path / "second", data)
        assert refused.returncode == 69
        assert f"PID {engine.process.pid}, STATE_DIR {engine.state_dir}" in refused.stderr
        assert str(data) in refused.stderr
        assert "Traceback" not in refused.stderr
        assert files_of(recording)["meta"]["status"] == "running"
        assert files_of(recording)["marks"] == before["marks"]
        # The lock goes with the process, however that ends.
        engine.process.send_signal(signal.SIGKILL)
        engine.process.wait()
    with engine_process(tmp_path) as engine:
        assert engine.tool("get_status")["result"]["recordings"]["path"].startswith(str(data))
