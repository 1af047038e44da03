"""What edged exports as Parquet, read by the library that most people read it with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.bench.engine_process import REPOSITORY, engine_process
from tests.bench.waiting import wait_for

ENVIRONMENT = REPOSITORY / ".venv-clients" / "parquet"
PYTHON = ENVIRONMENT / "bin" / "python"
SCRIPT = REPOSITORY / "tests" / "clients" / "parquet_columns.py"
WRITER = (
    "import sys; from edged.cli.runs import _parquet; "
    "sys.stdout.buffer.write(_parquet(sys.stdin.buffer.read()))"
)


def with_pyarrow() -> dict[str, str]:
    (packages,) = ENVIRONMENT.glob("lib/python*/site-packages")
    return {**os.environ, "PYTHONPATH": str(packages)}


def written(path: Path, table: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WRITER],
        input=table.encode(),
        capture_output=True,
        env=with_pyarrow(),
        cwd=REPOSITORY,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    path.write_bytes(done.stdout)


def read(path: Path) -> dict[str, Any]:
    done = subprocess.run(
        [PYTHON, SCRIPT, path], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    columns: dict[str, Any] = json.loads(done.stdout)
    return columns


def test_types_values_and_gaps_are_those_of_the_cells(tmp_path: Path) -> None:
    path = tmp_path / "run.parquet"
    head = "time_ms,voltage (V),is_over,remark,nothing,either\n"
    rows = [
        "1795266503383,5.97,true,überlast,,1",
        '1795266503483,nan,,"\'=Ω, ""x""\ny",,high',
        ",,false,,,2",
        "",
    ]
    written(path, head + "\n".join(rows))
    found = read(path)
    assert list(found) == head.strip().split(",")
    assert found["time_ms"] == {"type": "int64", "values": [1795266503383, 1795266503483, None]}
    assert found["voltage (V)"] == {"type": "double", "values": [5.97, "nan", None]}
    assert found["is_over"] == {"type": "bool", "values": [True, None, False]}
    assert found["remark"] == {"type": "string", "values": ["überlast", '=Ω, "x"\ny', None]}
    assert found["nothing"]["values"] == [None, None, None]
    assert found["either"]["values"] == ["1", "high", "2"]


def test_what_is_long_and_what_is_empty_is_written_too(tmp_path: Path) -> None:
    path = tmp_path / "run.parquet"
    written(path, "a,b\n" + "1,\n,2\n" * 50_000)
    assert read(path)["b"]["values"] == [None, 2] * 50_000
    written(path, "a,b\n")
    assert read(path)["b"]["values"] == []


def test_the_command_line_exports_a_run(tmp_path: Path) -> None:
    with engine_process(tmp_path, "--instruments", "dmm1") as engine:
        wait_for(lambda: engine.tool("list_instruments", filter="dmm1")["result"])
        edged = [sys.executable, "-m", "edged"]
        where = ["--state-dir", str(engine.state_dir)]
        stream = ["stream", "start", "dmm1", "measure_dc_voltage", "--interval", "50"]
        subprocess.run(
            [*edged, *stream, "--duration", "300", *where], check=True, capture_output=True
        )
        out = tmp_path / "run.parquet"
        export = ["runs", "export", "last", "--format", "parquet", "--output", str(out)]
        subprocess.run([*edged, *export, *where], check=True, env=with_pyarrow())
        shown = engine.rpc("runs.show", run_id=engine.rpc("runs.list")["runs"][0]["run_id"])
    found = read(out)
    assert list(found) == shown["columns"]
    assert found["value"]["type"] == "double"
    assert len(found["value"]["values"]) == shown["meta"]["rows"]
