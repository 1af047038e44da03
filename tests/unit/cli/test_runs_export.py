"""Exports with several files: one record of openhtf for each unit under test."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from edged.cli import runs
from edged.runs.recordings.reader import export_run
from edged.surfaces.rpc.client import RpcClient
from tests.unit.work.test_experiment_recording import map_head
from tests.unit.work.test_runs import Bench
from tests.unit.work.test_unit_reports import BOARDS


class Client:
    """An engine's answers to runs.export."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def call(self, method: str, wanted: Mapping[str, Any], *, timeout_s: float) -> Any:
        assert (method, timeout_s) == ("runs.export", runs.READ_TIMEOUT_S)
        return export_run(self.root, wanted["run_id"], wanted["format"], wanted["offset"])


def export(root: Path, form: str, output: Path | None) -> int:
    options = argparse.Namespace(run_id="exp-1", format=form, output=output)
    return runs._export(cast("RpcClient", Client(root)), options)


@pytest.fixture
async def root(tmp_path: Path) -> Path:
    bench = Bench(tmp_path / "data")
    sink = await bench.book.open(map_head())
    for check in BOARDS:
        sink.check(check)
    await sink.close("completed")
    await bench.book.stop()
    return bench.book.root


def test_each_unit_is_a_file_of_its_own(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert export(root, "openhtf", tmp_path / "boards.json") == 0
    names = ["boards.json", *(f"boards-{number}.json" for number in range(2, 7))]
    assert sorted(path.name for path in tmp_path.glob("boards*")) == sorted(names)
    units = [json.loads((tmp_path / name).read_text())["dut_id"] for name in names]
    assert units == ["0012", "B2", "B3", "B4", "B5", "B6"]
    assert "boards-6.json" in capsys.readouterr().err


def test_on_standard_output_each_unit_is_a_line(
    root: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert export(root, "openhtf", None) == 0
    lines = capsysbinary.readouterr().out.splitlines()
    assert [json.loads(line)["outcome"] for line in lines][2:4] == ["FAIL", "FAIL"]


@pytest.mark.parametrize(("form", "begins"), [("nc", b"CDF\x02"), ("junit", b"<?xml")])
def test_other_formats_are_one_file(root: Path, tmp_path: Path, form: str, begins: bytes) -> None:
    assert export(root, form, tmp_path / "out") == 0
    assert (tmp_path / "out").read_bytes().startswith(begins)
