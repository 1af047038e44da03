"""What edged writes as Parquet, read by the library that most people read it with."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from edged.runs.recordings.formats import parquet_bytes

REPOSITORY = Path(__file__).resolve().parents[2]
PYTHON = REPOSITORY / ".venv-clients" / "parquet" / "bin" / "python"
SCRIPT = REPOSITORY / "tests" / "clients" / "parquet_columns.py"


def read(path: Path) -> dict[str, Any]:
    done = subprocess.run(
        [PYTHON, SCRIPT, path], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    columns: dict[str, Any] = json.loads(done.stdout)
    return columns


def test_pyarrow_reads_types_values_and_gaps(tmp_path: Path) -> None:
    path = tmp_path / "run.parquet"
    columns = {
        "time_ms": ["1795266503383", "1795266503483", ""],
        "voltage (V)": ["5.97", "nan", ""],
        "is_over": ["true", "", "false"],
        "remark": ["überlast", "", 'Ω, "x"'],
        "nothing": ["", "", ""],
    }
    path.write_bytes(parquet_bytes(list(columns.items())))
    found = read(path)
    assert list(found) == list(columns)
    assert found["time_ms"] == {"type": "int64", "values": [1795266503383, 1795266503483, None]}
    assert found["voltage (V)"] == {"type": "double", "values": [5.97, "nan", None]}
    assert found["is_over"] == {"type": "bool", "values": [True, None, False]}
    assert found["remark"] == {"type": "string", "values": ["überlast", None, 'Ω, "x"']}
    assert found["nothing"]["values"] == [None, None, None]


def test_pyarrow_reads_what_is_long_and_what_is_empty(tmp_path: Path) -> None:
    path = tmp_path / "run.parquet"
    path.write_bytes(parquet_bytes([(f"c{n}", [str(n), ""] * 50_000) for n in range(3)]))
    assert read(path)["c2"]["values"] == [2, None] * 50_000
    path.write_bytes(parquet_bytes([("c", [])]))
    assert read(path)["c"]["values"] == []
