"""Reports are made from what is on the disk: hashed by pieces, one at a time, bounded."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from edged.errors import Conflict, Failed, NotFound
from edged.runs.recordings.append import Array
from edged.runs.recordings.files import RunFiles, write_meta
from edged.runs.report import making, reports
from edged.runs.report.making import look_at, take_piece
from edged.runs.report.reports import MOST_WAITING, Reports
from edged.store.audit.run_row import RunRows
from tests.bench.context import bench_of
from tests.bench.driven_clock import DrivenClock
from tests.bench.reported import meta_of

RUN = "sweep-1"


def record(
    root: Path, columns: list[tuple[str, str]], rows: list[tuple[Any, ...]], **more: Any
) -> Path:
    files = RunFiles(root / "2026-09-21" / RUN, [name for name, _ in columns])
    files.write({"data.csv": rows, "data.npz": more.pop("arrays", [])})
    files.close()
    told = [{"name": name, "unit": unit} for name, unit in columns]
    write_meta(files.directory, meta_of(columns=told, **more))
    return files.directory


class FakeRuns:
    """Reads at once, on the loop."""

    def __init__(self, root: Path) -> None:
        self.root = root

    async def written(self, _run_id: str) -> None:
        return None

    async def closed(self, _run_id: str) -> None:
        return None

    async def read(self, function: Callable[..., Any], *arguments: Any) -> Any:
        await asyncio.sleep(0)
        return function(self.root, *arguments)


class FakePool:
    def get(self, name: str) -> Any:
        raise NotFound(f"There is no {name}.")


class Bench:
    def __init__(self, root: Path) -> None:
        self.asked: list[tuple[str, int, int | None]] = []
        self.gate = asyncio.Event()
        self.gate.set()
        runs: Any = FakeRuns(root)
        bench = bench_of(
            DrivenClock(),
            store={"audit": SimpleNamespace(of_run=self.rows_of_run)},
            pool=FakePool(),
        )
        self.reports = Reports(bench, runs)

    async def rows_of_run(self, run_id: str, *, since_ms: int, until_ms: int | None) -> RunRows:
        self.asked.append((run_id, since_ms, until_ms))
        await self.gate.wait()
        return RunRows()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    record(tmp_path, [("t", "s"), ("u", "V")], [(n / 10, n) for n in range(30)])
    return tmp_path


async def test_a_page_is_made_of_what_is_on_the_disk(root: Path) -> None:
    bench = Bench(root)
    page = (await bench.reports.make(RUN)).decode()
    data = (root / "2026-09-21" / RUN / "data.csv").read_bytes()
    assert hashlib.sha256(data).hexdigest() in page
    assert "The first 10 and the last 10 of 30 rows." in page
    meta = meta_of()
    assert bench.asked == [(RUN, meta["started_ms"], meta["ended_ms"])]
    with pytest.raises(NotFound, match="There is no recording"):
        await bench.reports.make("sweep-none")


async def test_one_is_made_at_a_time_and_few_wait(root: Path) -> None:
    bench = Bench(root)
    bench.gate.clear()
    waiting = [asyncio.create_task(bench.reports.make(RUN)) for _ in range(MOST_WAITING)]
    while not bench.asked:
        await asyncio.sleep(0)
    with pytest.raises(Conflict, match="wait to be made already"):
        await bench.reports.make(RUN)
    assert len(bench.asked) == 1
    waiting.pop(1).cancel()
    bench.gate.set()
    pages = await asyncio.gather(*waiting)
    assert len(set(pages)) == 1
    assert await bench.reports.make(RUN) == pages[0]


async def test_one_that_takes_too_long_or_is_too_large_is_refused(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(root)
    bench.gate.clear()
    monkeypatch.setattr(reports, "LONGEST_S", 0.05)
    with pytest.raises(Failed, match="was not made within"):
        await bench.reports.make(RUN)
    bench.gate.set()
    monkeypatch.setattr(reports, "LONGEST_S", 60)
    monkeypatch.setattr(reports, "MAX_REPORT_BYTES", 1_000)
    with pytest.raises(Failed, match="over 0"):
        await bench.reports.make(RUN)


def test_a_long_file_is_hashed_by_pieces(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(making, "PIECE_BYTES", 16)
    file = look_at(root, RUN).files[0]
    pieces = 1
    while take_piece(root, file):
        pieces += 1
    data = (root / "2026-09-21" / RUN / "data.csv").read_bytes()
    assert file.sha256 == hashlib.sha256(data).hexdigest()
    assert file.size == len(data)
    assert pieces == len(data) // 16 + 1


def test_frequencies_over_decades_are_drawn_on_a_logarithmic_axis(tmp_path: Path) -> None:
    record(tmp_path, [("set", "Hz"), ("u", "V")], [(10.0**n, n) for n in range(6)])
    (figure,) = look_at(tmp_path, RUN).figures
    assert figure.log_x


def test_every_archive_of_waveforms_is_hashed_and_the_newest_one_drawn(tmp_path: Path) -> None:
    samples = b"\x00\x00\x80?" * 8
    columns = [("array", ""), ("x_unit", ""), ("y_unit", ""), ("x_increment", "")]
    rows: list[tuple[Any, ...]] = [("y_000000", "s", "V", 0.5)]
    record(tmp_path, columns, rows, arrays=[Array("y_000000", "f", samples)])
    found = look_at(tmp_path, RUN)
    assert [file.path.name for file in found.files] == ["data.csv", "data.npz", "meta.json"]
    assert found.figures[0].panels[0].unit == "V"


@pytest.mark.parametrize(("first", "begins"), [(-0.25, -0.25), (None, 0.0)])
def test_a_recorded_waveform_is_drawn_from_where_its_instrument_said_it_begins(
    tmp_path: Path, first: float | None, begins: float
) -> None:
    names = ("array", "x_unit", "y_unit", "x_increment", *(("x_first",) if first else ()))
    row = ("y_000000", "s", "V", 0.5, *((first,) if first else ()))
    arrays = [Array("y_000000", "f", b"\x00\x00\x80?" * 8)]
    record(tmp_path, [(name, "") for name in names], [row], arrays=arrays)
    (figure,) = look_at(tmp_path, RUN).figures
    places = figure.panels[0].lines[0].x
    assert (places[0], places[1]) == (begins, begins + 0.5)


async def test_a_recording_whose_table_is_gone_is_still_told(root: Path) -> None:
    (root / "2026-09-21" / RUN / "data.csv").unlink()
    page = (await Bench(root).reports.make(RUN)).decode()
    assert "Not drawn" in page
    assert "SER-psu1" in page


async def test_texts_stand_in_the_extract_without_the_guard_of_the_file(tmp_path: Path) -> None:
    record(tmp_path, [("t", "s"), ("note", "")], [(1.0, "a\nb"), (2.0, "=1+1"), (3.0, True)])
    extract = look_at(tmp_path, RUN).extract
    assert extract.total == 3
    assert [row[1] for row in extract.first] == ["a b", "=1+1", "true"]
