"""The exports of an experiment: netCDF, JUnit and openhtf, each in pieces."""

import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from edged.errors import Invalid
from edged.runs.recordings import reader
from edged.runs.recordings.checks import Check, Limits, UnitVerdict
from edged.runs.recordings.reader import export_run, verdicts_of_run
from tests.unit.work.test_experiment_recording import map_head, place
from tests.unit.work.test_run_reader import whole as exported
from tests.unit.work.test_runs import Bench, head

AMPS = Limits(least=0.1, most=0.3, unit="A")
VOLTS = Limits(least=1.5, most=2.5, near=0.01, unit="V")


def board(
    unit: str, idle: float | None, output: float | None = None, own: UnitVerdict = UnitVerdict.NONE
) -> list[Check]:
    """A board whose output is not checked where it is None, and whose idle current is missing."""

    def row(verdict: UnitVerdict, at_ms: int, **more: Any) -> Check:
        return Check(verdict=verdict, time_ms=1_795_000_000_000 + at_ms, unit=unit, **more)

    idle_verdict = (
        UnitVerdict.ERROR if idle is None else UnitVerdict.PASS if idle < 0.3 else UnitVerdict.FAIL
    )
    rows = [row(UnitVerdict.NONE, 0), row(idle_verdict, 500, name="idle", value=idle, limits=AMPS)]
    if output is not None:
        verdict = UnitVerdict.MARGINAL if output > 2.49 else UnitVerdict.PASS
        rows.append(row(verdict, 1_500, name="output", value=output, limits=VOLTS))
    said = "Stopped by <ann> & co\x07." if own is UnitVerdict.ABORTED else ""
    return [*rows, row(own, 2_000, message=said)]


BOARDS = [
    *board("0012", 0.2, 2.0),
    *board("B2", 0.2, 2.495),
    *board("B3", 0.4, 2.0),
    *board("B4", 0.2),
    *board("B5", None, 2.0),
    *board("B6", 0.2, 2.0, UnitVerdict.ABORTED),
]
VERDICTS = ["pass", "marginal", "fail", "incomplete", "error", "aborted"]


@pytest.fixture
async def root(tmp_path: Path) -> AsyncIterator[Path]:
    bench = Bench(tmp_path)
    sink = await bench.book.open(map_head())
    sink.append((0.5, 1.0, 1e-3, None, "late"), (1, 1))
    for check in BOARDS:
        sink.check(check)
    await sink.close("completed")
    plain = await bench.book.open(head("mcp-1"))
    plain.append((1, 2.5))
    await plain.close("ended")
    yield bench.book.root
    await bench.book.stop()


async def test_each_unit_has_its_verdict(root: Path) -> None:
    _, units = verdicts_of_run(root, "exp-1")
    assert [unit.unit for unit in units] == ["0012", "B2", "B3", "B4", "B5", "B6"]
    assert [unit.verdict.value for unit in units] == VERDICTS
    assert verdicts_of_run(root, "mcp-1")[1] == ()


async def test_junit_keeps_failures_and_errors_apart_and_has_values_and_limits(root: Path) -> None:
    top = ET.fromstring(exported(root, "exp-1", "junit").decode())
    assert [suite.get("name") for suite in top] == ["0012", "B2", "B3", "B4", "B5", "B6"]
    counts = [(s.get("tests"), s.get("failures"), s.get("errors")) for s in top]
    assert counts == [
        ("2", "0", "0"),
        ("2", "0", "0"),
        ("2", "1", "0"),
        ("2", "1", "0"),
        ("2", "0", "1"),
        ("3", "0", "1"),
    ]
    assert (top.get("tests"), top.get("failures"), top.get("errors")) == ("13", "2", "2")
    failed = top.find("testsuite[@name='B3']/testcase[@name='idle']")
    assert failed is not None
    found = {one.get("name"): one.get("value") for one in failed.iter("property")}
    assert found == {
        "value": "0.4",
        "unit_of_measure": "A",
        "min": "0.1",
        "max": "0.3",
        "verdict": "fail",
    }
    assert failed.get("time") == "0.500"
    (failure,) = failed.iter("failure")
    assert failure.get("message") == "idle: 0.4 A, not within 0.1 A to 0.3 A."
    (missing,) = top.findall("testsuite[@name='B4']//failure")
    assert (missing.get("type"), missing.get("message")) == (
        "incomplete",
        "output is incomplete. This check never ran.",
    )
    (aborted,) = top.findall("testsuite[@name='B6']//error")
    assert (aborted.get("type"), aborted.get("message")) == (
        "aborted",
        "Stopped by <ann> & co\x07.".replace("\x07", "?"),
    )


async def test_openhtf_has_one_record_for_each_unit(root: Path) -> None:
    pieces: list[dict[str, Any]] = []
    offset: int | None = 0
    while offset is not None:
        pieces.append(export_run(root, "exp-1", "openhtf", offset))
        offset = pieces[-1]["next_offset"]
    assert [piece["name"] for piece in pieces[:2]] == ["exp-1.json", "exp-1-2.json"]
    records = [json.loads(piece["content"]) for piece in pieces]
    assert [record["dut_id"] for record in records][:2] == ["0012", "B2"]
    assert [(record["outcome"], record["marginal"]) for record in records] == [
        ("PASS", False),
        ("PASS", True),
        ("FAIL", False),
        ("FAIL", False),
        ("ERROR", False),
        ("ABORTED", False),
    ]
    measured = records[1]["phases"][1]["measurements"]["output"]
    assert measured == {
        "name": "output",
        "outcome": "PASS",
        "validators": ["1.5 <= Marginal:1.51 <= x <= Marginal:2.49 <= 2.5"],
        "units": {"name": "volt", "code": "VLT", "suffix": "V"},
        "measured_value": 2.495,
    }
    assert records[3]["phases"][1]["measurements"]["output"]["outcome"] == "UNSET"
    assert records[3]["outcome_details"] == [
        {"code": "incomplete", "description": "output is incomplete. This check never ran."}
    ]
    with pytest.raises(Invalid):
        export_run(root, "exp-1", "openhtf", 6)


@pytest.mark.parametrize("form", ["junit", "openhtf"])
async def test_a_run_without_checks_has_no_verdicts_to_export(root: Path, form: str) -> None:
    with pytest.raises(Invalid, match="mcp-1 has no checks, so it has no verdicts"):
        export_run(root, "mcp-1", form)


async def test_netcdf_is_the_file_of_an_experiment_and_is_made_of_any_other_run(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "CHUNK_BYTES", 100)
    (of_map,) = root.glob("*/exp-1/data.nc")
    assert exported(root, "exp-1", "nc") == of_map.read_bytes()
    data = exported(root, "mcp-1", "nc")
    assert data.startswith(b"CDF\x02\x00\x00\x00\x01")
    assert b"point" in data
    of_map.unlink()
    assert exported(root, "exp-1", "nc").startswith(b"CDF\x02\x00\x00\x00\x00")
    assert base64.b64decode(export_run(root, "mcp-1", "nc")["content"]) == data[:100]
    assert not list(root.glob("*/mcp-1/data.nc"))


async def test_pieces_of_junit_make_the_whole(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = exported(root, "exp-1", "junit")
    monkeypatch.setattr(reader, "CHUNK_BYTES", 64)
    assert exported(root, "exp-1", "junit") == whole


async def test_a_run_without_units_is_one_suite_of_its_own_name(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    sink = await bench.book.open(map_head())
    sink.check(Check(verdict=UnitVerdict.FAIL, time_ms=1, name="idle", value=False))
    await sink.close("completed")
    top = ET.fromstring(exported(bench.book.root, "exp-1", "junit").decode())
    assert [(suite.get("name"), suite.get("failures")) for suite in top] == [("exp-1", "2")]
    (place(bench) / "checks.csv").write_text("unit,try\nx,y\n")
    with pytest.raises(Exception, match="has not written"):
        verdicts_of_run(bench.book.root, "exp-1")
    await bench.book.stop()
