import asyncio
import csv
import json
import zipfile
from array import array
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edged.actions.action import Action
from edged.actions.caller import Caller, Route
from edged.actions.outcome import Outcome
from edged.instruments.pool import InstrumentPool
from edged.runs.recordings.append import THE_DISK, Disk
from edged.runs.recordings.formats import member_bytes
from edged.runs.recordings.registry import RunRegistry
from edged.runs.run_head import Column, RunHead, RunKind
from tests.bench.context import bench_of
from tests.bench.driven_clock import DrivenClock
from tests.promises import promise


def head(run_id: str = "mcp-1") -> RunHead:
    return RunHead(
        kind=RunKind.STREAM,
        run_id=run_id,
        instrument_id="nobody",
        command_name="measure",
        columns=(Column(name="timestamp_ms", unit="ms"), Column(name="value", unit="V")),
        caller=Caller(route=Route.DIRECT, remote="10.0.0.7"),
        parameters={"channel": 1},
        details={"interval_ms": 500},
    )


async def nobody(action: Action) -> Outcome:
    raise AssertionError("no instrument is here to be asked")


class Bench:
    def __init__(self, data_dir: Path, budget_mb: int = 100, disk: Disk = THE_DISK) -> None:
        self.clock = DrivenClock()
        self.data_dir = data_dir
        self.book = RunRegistry(
            bench_of(
                self.clock,
                data_dir=data_dir,
                data_budget_mb=budget_mb,
                pool=InstrumentPool(clock=self.clock),
                perform=nobody,
            ),
            disk=disk,
        )

    def meta(self, run_id: str = "mcp-1") -> dict[str, Any]:
        (path,) = self.data_dir.glob(f"runs/*/{run_id}/meta.json")
        found: dict[str, Any] = json.loads(path.read_text())
        return found

    def rows(self, run_id: str = "mcp-1") -> list[list[str]]:
        (path,) = self.data_dir.glob(f"runs/*/{run_id}/data.csv")
        with path.open(newline="") as file:
            return list(csv.reader(file))


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    await bench.book.stop()


async def test_a_recording_is_a_table_and_what_is_needed_to_trust_it(bench: Bench) -> None:
    recording = await bench.book.open(head())
    recording.append((1, 0.1))
    recording.append((2, None))
    bench.clock.move(2.0)
    await recording.close("ended", {"count": 2})
    assert bench.rows() == [
        ["timestamp_ms", "value", "elapsed_s"],
        ["1", "0.1", "0.0"],
        ["2", "", "0.0"],
    ]
    meta = bench.meta()
    assert (meta["run_id"], meta["kind"], meta["status"]) == ("mcp-1", "stream", "ended")
    assert meta["columns"][1] == {"name": "value", "unit": "V"}
    assert meta["caller"]["remote"] == "10.0.0.7"
    assert meta["parameters"] == {"channel": 1}
    assert meta["details"] == {"interval_ms": 500}
    assert meta["ended_ms"] - meta["started_ms"] == 2000
    assert meta["rows"] == 2
    assert meta["summary"] == {"count": 2}
    assert set(meta["clock"]) == {"is_synchronized", "source"}
    assert recording.told()["path"].endswith("/mcp-1")
    assert recording.told()["error"] == ""


@promise("runs.elapsed")
async def test_rows_tell_how_long_after_the_beginning_they_came_whatever_wall_time_does(
    bench: Bench,
) -> None:
    recording = await bench.book.open(head())
    recording.append((1, 0.1))
    bench.clock.move(1.25)
    recording.append((2, 0.2))
    bench.clock.set_wall(0)
    recording.append((3, 0.3))
    await recording.close("ended")
    assert [row[2] for row in bench.rows()] == ["elapsed_s", "0.0", "1.25", "1.25"]
    assert bench.meta()["columns"][2] == {"name": "elapsed_s", "unit": "s"}


async def test_a_table_with_a_column_of_that_name_keeps_its_own(bench: Bench) -> None:
    recording = await bench.book.open(replace(head(), columns=(Column(name="elapsed_s"),)))
    recording.append((7.5,))
    await recording.close("ended")
    assert bench.rows() == [["elapsed_s"], ["7.5"]]


async def test_what_is_set_up_before_it_measures_is_asked_for_its_settings_at_the_first_row(
    bench: Bench,
) -> None:
    recording = await bench.book.open(replace(head(), sets_up=True))
    assert recording.settings is None
    recording.append((1, 0.1))
    asked = recording.settings
    assert asked is not None
    recording.append((2, 0.2))
    assert recording.settings is asked
    without = await bench.book.open(replace(head("seq-1"), sets_up=True))
    await without.close("completed")
    assert without.settings is None


async def test_who_asks_for_a_run_whose_files_are_being_made_waits_for_them(bench: Bench) -> None:
    opening = asyncio.create_task(bench.book.open(head()))
    await asyncio.sleep(0)
    assert bench.book.status()["open"] == 0
    recording = await bench.book.written("mcp-1")
    assert recording is not None
    assert recording is await opening
    await recording.close("ended")


@promise("report.whole")
async def test_who_wants_a_run_that_has_ended_to_its_end_waits_while_its_settings_are_read(
    bench: Bench,
) -> None:
    answers = asyncio.Event()
    recording = await bench.book.open(head())
    assert recording.settings is not None
    await recording.settings

    async def answering() -> None:
        await answers.wait()

    recording.settings = asyncio.create_task(answering())
    await bench.book.closed("mcp-1")
    assert bench.meta()["status"] == "running", "what runs is not waited for"
    closing = asyncio.create_task(recording.close("ended"))
    waiting = asyncio.create_task(bench.book.closed("mcp-1"))
    await asyncio.sleep(0)
    assert not waiting.done()
    answers.set()
    await waiting
    assert bench.meta()["status"] == "ended"
    await closing


async def test_a_recording_is_kept_under_its_date(bench: Bench) -> None:
    recording = await bench.book.open(head())
    await recording.close("ended")
    (place,) = bench.data_dir.glob("runs/*/mcp-1")
    assert place.parent.name == bench.meta()["started"][:10]


@pytest.mark.parametrize(("status", "is_awaited"), [("ended", True), ("terminated", False)])
async def test_a_short_recording_has_its_settings_too_and_a_stop_waits_for_none(
    bench: Bench, status: str, is_awaited: bool
) -> None:
    recording = await bench.book.open(head())
    assert recording.settings is not None
    await recording.settings
    asked = asyncio.Event()

    async def answering() -> None:
        await asked.wait()
        recording.meta["settings_read"] = True

    recording.settings = asyncio.create_task(answering())
    asyncio.get_running_loop().call_later(0.02, asked.set)
    await recording.close(status)
    assert bench.meta().get("settings_read", False) is is_awaited


async def test_rows_are_on_the_disk_each_second(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.book.start()
    recording = await bench.book.open(head())
    recording.append((1, 5.0))
    await bench.clock.advance(1.0)
    # The writer has one thread: whatever it does next comes after the sync.
    await bench.book.open(head("mcp-2"))
    assert bench.rows()[1:] == [["1", "5.0", "0.0"]]
    assert bench.meta()["status"] == "running"
    await bench.book.stop()
    assert bench.meta()["status"] == "failed"


async def test_closing_twice_changes_nothing(bench: Bench) -> None:
    recording = await bench.book.open(head())
    await recording.close("ended")
    await recording.close("failed")
    assert bench.meta()["status"] == "ended"


async def test_text_never_takes_more_than_one_line(bench: Bench) -> None:
    recording = await bench.book.open(head())
    recording.append((1, 'a\nb,"c"'))
    await recording.close("ended")
    assert bench.rows()[1] == ["1", 'a b,"c"', "0.0"]


@pytest.mark.promise("runs.budget")
async def test_over_the_budget_new_recordings_are_refused_and_nothing_is_deleted(
    tmp_path: Path,
) -> None:
    old = tmp_path / "runs" / "2020-01-01" / "mcp-old"
    old.mkdir(parents=True)
    (old / "data.csv").write_bytes(b"x" * 1_100_000)
    bench = Bench(tmp_path, budget_mb=1)
    await bench.book.measure()
    recording = await bench.book.open(head())
    recording.append((1, 1.0))
    told = recording.told()
    assert "DATA_BUDGET_MB" in told["error"]
    assert (told["path"], told["rows"]) == ("", 0)
    await recording.close("ended")
    assert bench.book.status()["is_full"]
    assert (old / "data.csv").stat().st_size == 1_100_000
    assert not list(tmp_path.glob("runs/*/mcp-1"))
    await bench.book.stop()


@pytest.mark.parametrize("run_id", ["../up", "a/b", "", ".hidden"])
async def test_an_id_that_is_no_plain_name_is_not_recorded(bench: Bench, run_id: str) -> None:
    recording = await bench.book.open(head(run_id))
    assert recording.told()["error"]


async def test_a_disk_that_refuses_leaves_the_measurement_alone(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file where a directory should be")
    bench = Bench(tmp_path)
    recording = await bench.book.open(head())
    recording.append((1, 1.0))
    assert "could not be begun" in recording.told()["error"]
    await recording.close("ended")
    await bench.book.stop()


async def test_waveforms_go_into_an_archive_that_numpy_reads(bench: Bench) -> None:
    recording = await bench.book.open(head())
    recording.append((1, 1.0))
    recording.append_samples("y_000000", "f", array("f", [1.0, 2.0]).tobytes())
    recording.append_samples("y_000001", "d", array("d", [3.0]).tobytes())
    await recording.close("ended")
    (path,) = bench.data_dir.glob("runs/*/mcp-1/data.npz")
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert archive.namelist() == ["y_000000.npy", "y_000001.npy"]
        assert archive.read("y_000001.npy").endswith(array("d", [3.0]).tobytes())
    assert bench.meta()["arrays"] == 2


@pytest.mark.promise("runs.kill")
async def test_what_a_killed_daemon_left_is_mended_at_the_next_start(tmp_path: Path) -> None:
    killed = Bench(tmp_path)
    recording = await killed.book.open(head())
    recording.append((1, 1.0))
    recording.append_samples("y_000000", "f", array("f", [1.0]).tobytes())
    await killed.book.sync()
    assert recording.settings is not None
    await recording.settings
    (place,) = tmp_path.glob("runs/*/mcp-1")
    with (place / "data.csv").open("ab") as rows:
        rows.write(b"2,2.")
    with (place / "data.npz").open("ab") as arrays:
        arrays.write(member_bytes("y_000001.npy", b"torn")[:-2])

    again = Bench(tmp_path)
    again.book.start()
    async with asyncio.timeout(20):
        await again.book.mended.wait()
    meta = again.meta()
    assert (meta["status"], meta["rows"]) == ("failed", 1)
    assert "died" in meta["error"]
    assert again.rows()[1:] == [["1", "1.0", "0.0"]]
    with zipfile.ZipFile(place / "data.npz") as archive:
        assert archive.namelist() == ["y_000000.npy"]
    await again.book.stop()
    await killed.book.stop()


async def test_a_recording_that_begins_with_the_daemon_is_not_taken_for_a_dead_one(
    tmp_path: Path,
) -> None:
    bench = Bench(tmp_path)
    bench.book.start()
    recording = await bench.book.open(head())
    async with asyncio.timeout(20):
        await bench.book.mended.wait()
    assert bench.meta()["status"] == "running"
    await recording.close("ended")
    assert bench.meta()["status"] == "ended"
    await bench.book.stop()
