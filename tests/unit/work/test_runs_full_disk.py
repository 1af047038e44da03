"""Recordings on a disk that is full, breaks, heals; and beside programs that take files away."""

import asyncio
import csv
import zipfile
from array import array
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from edged.runs.recordings import append
from edged.runs.recordings.registry import MAX_IN_LINE, MAX_WAITING_ROWS, Recording
from tests.bench.small_disk import SmallDisk
from tests.promises import promise
from tests.unit.work.test_runs import Bench, head


class FullBench(Bench):
    def __init__(self, data_dir: Path) -> None:
        self.disk = SmallDisk()
        super().__init__(data_dir, disk=self.disk)

    async def second(self) -> None:
        """What is done each second, to its end."""
        await self.book.sync()

    async def begin(self, run_id: str = "mcp-1") -> Recording:
        """A recording whose settings have been asked: nobody writes now but the test."""
        recording = await self.book.open(head(run_id))
        if recording.settings is not None:
            await recording.settings
        return recording

    def place(self, run_id: str = "mcp-1") -> Path:
        (place,) = self.data_dir.glob(f"runs/*/{run_id}")
        return place


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[FullBench]:
    bench = FullBench(tmp_path)
    yield bench
    bench.disk.room, bench.disk.is_sync_refused = None, False
    await bench.book.stop()


def measure(recording: Recording, rows: int, waveforms: int = 0, start: int = 0) -> None:
    for number in range(start, start + rows):
        recording.append((number, number / 2))
    for number in range(start, start + waveforms):
        recording.append_samples(f"y_{number:06}", "d", array("d", [number] * 100).tobytes())


def names(place: Path) -> list[str]:
    found: list[str] = []
    for path in sorted(place.glob("data*.npz")):
        with zipfile.ZipFile(path) as archive:
            assert archive.testzip() is None
            found += archive.namelist()
    return found


@promise("runs.ended-is-on-disk")
async def test_what_ended_on_a_full_disk_waits_in_line_and_is_written_whole_when_it_heals(
    bench: FullBench,
) -> None:
    recording = await bench.begin()
    measure(recording, 177, 10)
    await bench.second()
    bench.disk.room = 300
    measure(recording, 348, 20, start=177)
    await bench.second()
    await recording.close("ended", {"count": 525})
    assert bench.meta()["status"] == "running"
    assert (bench.book.status()["open"], bench.book.status()["waiting"]) == (0, 1)
    assert "No space left" in bench.book.status()["error"]
    bench.disk.room = 1000
    await bench.second()
    assert bench.meta()["status"] == "running"
    bench.disk.room = None
    await bench.second()
    meta = bench.meta()
    assert (meta["status"], meta["rows"], meta["arrays"], meta["error"]) == ("ended", 525, 30, "")
    assert meta["summary"] == {"count": 525}
    assert [row[0] for row in bench.rows()[1:]] == [str(number) for number in range(525)]
    numbers = [*range(10), *range(177, 197)]
    assert names(bench.place()) == [f"y_{number:06}.npy" for number in numbers]
    assert bench.book.status()["error"] == ""
    assert bench.book.status()["waiting"] == 0
    assert not list(bench.data_dir.glob("runs/.open/*"))


async def test_a_sync_that_fails_takes_back_what_it_may_have_lost_and_writes_it_again(
    bench: FullBench,
) -> None:
    recording = await bench.begin()
    measure(recording, 3, 2)
    bench.disk.is_sync_refused = True
    await bench.second()
    assert "Input/output" in recording.told()["error"]
    assert not list(bench.place().glob("*.npz"))
    bench.disk.is_sync_refused = False
    await bench.second()
    assert recording.told()["error"] == ""
    await recording.close("ended")
    assert [row[0] for row in bench.rows()[1:]] == ["0", "1", "2"]
    assert names(bench.place()) == ["y_000000.npy", "y_000001.npy"]


async def test_rows_that_come_while_others_are_refused_stay_behind_them(bench: FullBench) -> None:
    recording = await bench.begin()
    bench.disk.room = 0
    measure(recording, 2)
    refused = asyncio.create_task(bench.second())
    measure(recording, 2, start=2)
    closed = asyncio.create_task(recording.close("ended"))
    await asyncio.gather(refused, closed)
    bench.disk.room = None
    await bench.second()
    assert [row[0] for row in bench.rows()[1:]] == ["0", "1", "2", "3"]


async def test_one_whose_caller_goes_while_it_is_closed_is_closed_all_the_same(
    bench: FullBench,
) -> None:
    recording = await bench.begin()
    measure(recording, 2)
    closing = asyncio.create_task(recording.close("ended"))
    await asyncio.sleep(0)
    closing.cancel()
    await asyncio.gather(closing, return_exceptions=True)
    await bench.book.stop()
    assert (bench.meta()["status"], len(bench.rows())) == ("ended", 3)


@promise("runs.ended-is-on-disk")
@pytest.mark.parametrize("room", [0, 10, 200, 1500, 3000])
async def test_one_that_cannot_be_begun_leaves_nothing(bench: FullBench, room: int) -> None:
    bench.disk.room = room
    recording = await bench.begin()
    assert "could not be begun" in recording.told()["error"]
    assert [path.name for path in bench.data_dir.rglob("*") if not path.name.startswith(".")] == [
        "runs"
    ]
    assert not list(bench.data_dir.rglob("*.mark"))


@promise("runs.ended-is-on-disk")
@pytest.mark.parametrize("is_killed", [False, True])
async def test_what_could_not_be_written_until_the_daemons_end_is_said_at_the_next_start(
    tmp_path: Path, *, is_killed: bool
) -> None:
    bench = FullBench(tmp_path)
    recording = await bench.begin()
    measure(recording, 100, 3)
    await bench.second()
    bench.disk.room = 0
    measure(recording, 40, 4, start=100)
    await recording.close("completed", {"count": 140})
    if not is_killed:
        await bench.book.stop()
    again = Bench(tmp_path)
    again.book.start()
    async with asyncio.timeout(20):
        await again.book.mended.wait()
    meta = again.meta()
    assert (meta["status"], meta["rows"], meta["arrays"]) == ("failed", 100, 3)
    assert "Its last 40 rows and 4 waveforms are lost" in meta["error"]
    assert "died" not in meta["error"]
    assert meta["ended_ms"] is not None
    assert names(bench.place()) == [f"y_{number:06}.npy" for number in range(3)]
    await again.book.stop()
    bench.disk.room = None
    await bench.book.stop()


async def test_one_of_which_only_the_last_meta_was_refused_is_ended_at_the_next_start(
    tmp_path: Path,
) -> None:
    bench = FullBench(tmp_path)
    recording = await bench.begin()
    measure(recording, 5)
    await bench.second()
    bench.disk.room = 0
    await recording.close("ended", {"count": 5})
    await bench.book.stop()
    again = Bench(tmp_path)
    again.book.start()
    async with asyncio.timeout(20):
        await again.book.mended.wait()
    meta = again.meta()
    assert (meta["status"], meta["rows"], meta["summary"]) == ("ended", 5, {"count": 5})
    await again.book.stop()


async def test_what_waits_is_bounded_and_what_is_lost_is_told_for_good(bench: FullBench) -> None:
    first = await bench.begin()
    second = await bench.begin("mcp-2")
    bench.disk.room = 0
    measure(first, MAX_WAITING_ROWS)
    measure(second, 7)
    await first.close("ended")
    await second.close("ended")
    assert second.told()["rows"] == 0
    bench.disk.room = None
    await bench.second()
    assert (bench.meta()["status"], bench.meta()["rows"]) == ("ended", MAX_WAITING_ROWS)
    meta = bench.meta("mcp-2")
    assert (meta["status"], meta["rows"]) == ("failed", 0)
    assert "7 rows were lost" in meta["error"]


async def test_none_begins_while_a_hundred_that_have_ended_wait(bench: FullBench) -> None:
    for number in range(MAX_IN_LINE):
        recording = await bench.begin(f"mcp-{number}")
        bench.disk.room = 0
        await recording.close("ended")
        bench.disk.room = None
    refused = await bench.book.open(head("mcp-more"))
    assert f"{MAX_IN_LINE} that have ended wait" in refused.told()["error"]
    await bench.second()
    assert (await bench.begin("mcp-more")).told()["error"] == ""


def remove(path: Path) -> None:
    path.unlink()


def replace(path: Path) -> None:
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(data)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def cut(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - 5)


def write_to(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"my note")


@promise("runs.harm-is-told")
@pytest.mark.parametrize(
    ("harm", "says", "lost"),
    [
        (remove, "data.csv was removed", 4),
        (empty, "data.csv was cut short", 4),
        (cut, "data.csv was cut short", 1),
        (replace, "data.csv was replaced", 0),
        (write_to, "data.csv was written to", 0),
    ],
)
@pytest.mark.parametrize("is_at_the_end", [False, True])
async def test_a_table_that_another_program_harms_in_mid_run_is_never_told_as_complete(
    bench: FullBench, harm: object, says: str, lost: int, *, is_at_the_end: bool
) -> None:
    recording = await bench.begin()
    measure(recording, 4)
    await bench.second()
    assert callable(harm)
    harm(bench.place() / "data.csv")
    later = 0 if is_at_the_end else 3
    measure(recording, later, start=4)
    await bench.second()
    await recording.close("completed")
    assert says in recording.told()["error"]
    meta = bench.meta()
    assert (meta["status"], meta["rows"]) == ("failed", 4 - lost + later)
    assert f"{lost} rows that were on the disk are lost" in meta["error"]
    with (bench.place() / "data.csv").open(newline="") as file:
        rows = [row for row in csv.reader(file) if row != ["my note"]]
    kept = [*range(4 - lost), *range(4, 4 + later)]
    assert rows[0] == ["timestamp_ms", "value", "elapsed_s"]
    assert [row[0] for row in rows[1:]] == list(map(str, kept))


@promise("runs.harm-is-told")
@pytest.mark.parametrize(("harm", "lost"), [(remove, 2), (replace, 2), (empty, 2), (cut, 1)])
@pytest.mark.parametrize("is_at_the_end", [False, True])
async def test_an_archive_that_another_program_harms_is_told_and_followed_by_another(
    bench: FullBench, harm: object, lost: int, *, is_at_the_end: bool
) -> None:
    recording = await bench.begin()
    measure(recording, 1, 2)
    await bench.second()
    assert callable(harm)
    harm(bench.place() / "data.npz")
    later = 0 if is_at_the_end else 2
    measure(recording, 0, later, start=2)
    await recording.close("ended")
    meta = bench.meta()
    assert (meta["status"], meta["arrays"]) == ("failed", 2 - lost + later)
    assert f"{lost} waveforms that were on the disk are lost" in meta["error"]
    if harm is not replace:
        assert len(names(bench.place())) == 2 - lost + later


async def test_a_directory_that_is_removed_in_mid_run_is_there_again_with_the_rest(
    bench: FullBench,
) -> None:
    recording = await bench.begin()
    measure(recording, 2)
    await bench.second()
    for path in bench.place().iterdir():
        path.unlink()
    bench.place().rmdir()
    measure(recording, 2, start=2)
    await recording.close("ended")
    assert (bench.meta()["status"], bench.meta()["rows"]) == ("failed", 2)
    assert [row[0] for row in bench.rows()[1:]] == ["2", "3"]


async def test_a_full_archive_that_another_program_takes_is_told_once(
    bench: FullBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(append, "MAX_MEMBERS", 2)
    recording = await bench.begin()
    measure(recording, 1, 3)
    await bench.second()
    (bench.place() / "data.npz").unlink()
    measure(recording, 1, 1, start=3)
    await bench.second()
    told = "data.npz was removed by another program while it was recorded: 2 waveforms"
    assert told in recording.told()["error"]
    await recording.close("ended")
    meta = bench.meta()
    assert (meta["status"], meta["arrays"], meta["error"].count("removed")) == ("failed", 2, 1)
    assert names(bench.place()) == ["y_000002.npy", "y_000003.npy"]
