"""What an experiment leaves on the disk, also where it was interrupted and goes on."""

import csv
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from edged.actions.caller import Caller, Route
from edged.errors import EdgedError, ErrorCode
from edged.runs.recordings.checks import Check, Limits, UnitVerdict, check_of
from edged.runs.recordings.figures import PlotWish, run_figure
from edged.runs.recordings.reader import page_of_run
from edged.runs.recordings.table import PageWish
from edged.runs.report.making import look_at
from edged.runs.run_head import Column, Dimension, RunHead, RunKind
from tests.unit.work.test_runs import Bench, head
from tests.unit.work.test_runs_full_disk import FullBench

GRID = ("v_g", "v_d")


def map_head(run_id: str = "exp-1") -> RunHead:
    return RunHead(
        kind=RunKind.EXPERIMENT,
        run_id=run_id,
        instrument_id="nobody",
        command_name="transistor_map",
        columns=(
            Column(name="v_g", unit="V", dimensions=("v_g",)),
            Column(name="v_d", unit="V", dimensions=GRID),
            Column(name="i_d", unit="A", dimensions=GRID),
            Column(name="T", unit="K", dimensions=("v_g",)),
            Column(name="flags", dimensions=GRID, is_text=True),
        ),
        caller=Caller(route=Route.DIRECT, remote="10.0.0.7"),
        is_measured=False,
        dimensions=(
            Dimension(name="v_g", unit="V", values=(0.0, 0.5, 1.0)),
            Dimension(name="v_d", unit="V", values=(0.0, 1.0, 2.0, 3.0)),
        ),
        tables={"T_log": (Column(name="T", unit="K"),)},
        checks=("idle", "output"),
        files={"plan.yaml": b"format: 1\r\n", "resolved.json": b"{}"},
    )


def place(bench: Bench, run_id: str = "exp-1") -> Path:
    (found,) = bench.data_dir.glob(f"runs/*/{run_id}")
    return found


def table(path: Path) -> list[list[str]]:
    with path.open(newline="") as file:
        return list(csv.reader(file))


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    await bench.book.stop()


async def test_its_directory_has_all_that_the_design_lists(bench: Bench) -> None:
    sink = await bench.book.open(map_head())
    bench.clock.move(1.5)
    sink.append((0.5, 1.0, 1e-3, None, "late"), (1, 1))
    sink.append((0.5, None, None, 77.2, None), (1, None))
    sink.append_to("T_log", (77.25,))
    sink.check(
        Check(
            verdict=UnitVerdict.PASS,
            time_ms=5,
            unit="0012",
            name="idle",
            value=0.2,
            limits=Limits(least=0.1, most=0.3, unit="A"),
        )
    )
    sink.event("checkpoint", {"at": {"v_g": 1}})
    await sink.close("completed", {"verdict": "pass"})
    here = place(bench)
    assert (here / "plan.yaml").read_bytes() == b"format: 1\r\n"
    assert (here / "resolved.json").read_bytes() == b"{}"
    assert table(here / "data.csv") == [
        ["n_v_g", "n_v_d", "attempt", "v_g", "v_d", "i_d", "T", "flags", "elapsed_s"],
        ["1", "1", "1", "0.5", "1.0", "0.001", "", "late", "1.5"],
        ["1", "", "1", "0.5", "", "", "77.2", "", "1.5"],
    ]
    assert table(here / "T_log.csv") == [["T", "elapsed_s"], ["77.25", "1.5"]]
    with (here / "checks.csv").open(newline="") as file:
        (check,) = map(check_of, csv.DictReader(file))
    assert (check.unit, check.value, check.limits.most) == ("0012", 0.2, 0.3)
    (event,) = map(json.loads, (here / "events.jsonl").read_text().splitlines())
    assert (event["event"], event["at"], event["elapsed_s"]) == ("checkpoint", {"v_g": 1}, 1.5)
    meta = bench.meta("exp-1")
    assert (meta["kind"], meta["status"], meta["rows"]) == ("experiment", "completed", 2)
    assert meta["dimensions"][1] == {"name": "v_d", "unit": "V", "size": 4}
    assert meta["columns"][5] == {"name": "i_d", "unit": "A", "dimensions": ["v_g", "v_d"]}
    assert meta["checks"] == ["idle", "output"]


async def test_its_rows_are_read_like_those_of_any_run(bench: Bench) -> None:
    sink = await bench.book.open(map_head())
    sink.append((0.5, 1.0, 1e-3, None, None), (1, 1))
    assert await sink.written()
    wish = PageWish(first=0, most=10, columns=("n_v_d", "i_d"))
    page = page_of_run(bench.book.root, "exp-1", wish)
    assert (page["rows"], page["units"]) == ([[1, 0.001]], ["", "A"])
    await sink.close("completed")
    page = page_of_run(bench.book.root, "exp-1", wish)
    assert page["statistics"]["i_d"]["n"] == 1


async def killed(tmp_path: Path) -> Bench:
    """A bench whose daemon was killed after some rows of an experiment; then started again."""
    before = Bench(tmp_path)
    sink = await before.book.open(map_head())
    for number in range(6):
        sink.append((0.0, number / 1, number / 1000, None, None), divmod(number, 4))
    sink.append_samples("y_0", "d", bytes(16))
    before.clock.move(10.0)
    await sink.written()
    with (place(before) / "data.csv").open("a") as file:
        file.write("1,2,1,0.5,2.0,0.0")
    # As far as the disk knows: nobody ended it.
    before.book._open.clear()
    await before.book.stop()
    after = Bench(tmp_path)
    after.clock.move(60.0)
    after.book.start()
    await after.book.mended.wait()
    return after


async def test_one_that_was_killed_is_interrupted_and_goes_on_in_its_files(tmp_path: Path) -> None:
    bench = await killed(tmp_path)
    meta = bench.meta("exp-1")
    assert (meta["status"], meta["rows"], meta["arrays"]) == ("interrupted", 6, 1)
    sink = await bench.book.open(replace(map_head(), resumed_at={"v_g": 1}))
    assert sink.told()["error"] == ""
    sink.append((0.5, 0.0, 0.4, None, None), (1, 0))
    sink.append_samples("y_1", "d", bytes(16))
    sink.event("resumed", {})
    await sink.close("completed")
    rows = table(place(bench) / "data.csv")
    assert [row[:3] for row in rows[5:]] == [["1", "0", "1"], ["1", "1", "1"], ["1", "0", "2"]]
    assert float(rows[-1][-1]) >= float(rows[-2][-1])
    meta = bench.meta("exp-1")
    assert (meta["status"], meta["rows"], meta["arrays"], meta["error"]) == ("completed", 7, 2, "")
    assert [(one["attempt"], one["at"]) for one in meta["resumes"]] == [(2, {"v_g": 1})]
    assert meta["statistics"]["i_d"]["n"] == 7
    (panel,) = run_figure(bench.book.root, "exp-1", PlotWish(y=("i_d",))).panels
    assert len(panel.lines[0].x) == 5, "those of the repeated pass are not drawn"
    assert sorted(path.name for path in place(bench).glob("*.npz")) == ["data-2.npz", "data.npz"]
    await bench.book.stop()


@pytest.mark.parametrize(
    ("head", "says"),
    [
        (replace(map_head("exp-9"), resumed_at={}), "no recording 'exp-9'"),
        (replace(map_head(), resumed_at={}, columns=()), "other columns"),
        (replace(map_head("exp-2"), tables={"../x": ()}), "not a name for a file"),
        (replace(map_head("exp-2"), tables={"data": ()}), "not a name for a file"),
        (replace(map_head("exp-2"), files={"a/b": b""}), "not a name for a file"),
    ],
)
async def test_what_cannot_be_gone_on_with_or_begun_is_told_and_harms_nothing(
    tmp_path: Path, head: RunHead, says: str
) -> None:
    bench = await killed(tmp_path)
    before = (place(bench) / "meta.json").read_bytes()
    sink = await bench.book.open(head)
    assert says in sink.told()["error"]
    sink.append((0.0,))
    sink.event("note", {"text": "nobody keeps it"})
    assert await sink.written() is False
    await sink.close("failed")
    assert (place(bench) / "meta.json").read_bytes() == before
    assert not list(bench.data_dir.glob("runs/*/exp-2"))
    await bench.book.stop()


async def test_one_that_is_recorded_is_not_begun_or_gone_on_with_a_second_time(
    bench: Bench,
) -> None:
    sink = await bench.book.open(map_head())
    for resumed_at in (None, {"v_g": 0}):
        second = await bench.book.open(replace(map_head(), resumed_at=resumed_at))
        assert "exp-1 is still being recorded" in second.told()["error"]
        await second.close("failed")
    sink.append((0.0, 0.0, 1.0, None, None), (0, 0))
    await sink.close("completed")
    assert (bench.meta("exp-1")["status"], bench.meta("exp-1")["rows"]) == ("completed", 1)


async def test_one_that_could_not_be_mended_before_it_goes_on_is_not_mended_under_it(
    tmp_path: Path,
) -> None:
    bench = await killed(tmp_path)
    left = bench.book.root / ".left" / "exp-1.mark"
    left.write_text(f"{place(bench).relative_to(bench.book.root)}\n")
    sink = await bench.book.open(replace(map_head(), resumed_at={"v_g": 1}))
    assert not left.exists()
    await sink.close("completed")
    await bench.book.stop()


async def test_a_report_hashes_all_files_but_the_one_that_is_derived(bench: Bench) -> None:
    sink = await bench.book.open(map_head())
    sink.append((0.0, 0.0, 1.0, None, None), (0, 0))
    await sink.close("completed")
    found = look_at(bench.book.root, "exp-1")
    assert [file.path.name for file in found.files] == [
        "data.csv",
        "T_log.csv",
        "checks.csv",
        "dimensions.json",
        "events.jsonl",
        "plan.yaml",
        "resolved.json",
        "meta.json",
    ]
    assert len(found.figures) == 1


async def test_what_a_full_disk_refuses_waits_for_each_file(tmp_path: Path) -> None:
    bench = FullBench(tmp_path)
    sink = await bench.book.open(map_head())
    bench.disk.room = 60
    for number in range(40):
        sink.append((0.0, 0.0, number, None, None), (0, 0))
        sink.event("note", {"number": number})
    assert await sink.written() is False
    bench.disk.room = None
    assert await sink.written() is True
    await sink.close("completed")
    assert [row[5] for row in table(place(bench) / "data.csv")[1:]] == list(map(str, range(40)))
    events = (place(bench) / "events.jsonl").read_text().splitlines()
    assert [json.loads(line)["number"] for line in events] == list(range(40))
    assert bench.meta("exp-1")["error"] == ""
    await bench.book.stop()


async def test_a_note_is_added_while_it_runs_and_long_after_it_has_ended(bench: Bench) -> None:
    sink = await bench.book.open(map_head())
    await bench.book.add_event("exp-1", "note", {"text": "first"})
    await sink.close("completed")
    before = bench.meta("exp-1")
    await bench.book.add_event("exp-1", "note", {"text": "second"})
    events = list(map(json.loads, (place(bench) / "events.jsonl").read_text().splitlines()))
    assert [event["text"] for event in events] == ["first", "second"]
    assert bench.meta("exp-1") == before
    await (await bench.book.open(head("mcp-1"))).close("ended")
    for run_id, code in (("exp-9", ErrorCode.UNKNOWN_RUN), ("mcp-1", ErrorCode.RECORDING_FAILED)):
        with pytest.raises(EdgedError) as refused:
            await bench.book.add_event(run_id, "note", {})
        assert refused.value.code is code


async def test_it_is_drawn_over_its_innermost_loop_without_places_and_attempts(
    bench: Bench,
) -> None:
    sink = await bench.book.open(map_head())
    for number in range(12):
        row = (number // 4 / 2, number % 4 * 1.0, number / 1000, None, None)
        sink.append(row, divmod(number, 4))
    await sink.close("completed")
    figure = run_figure(bench.book.root, "exp-1")
    assert (figure.x_label, figure.x_unit) == ("v_d", "V")
    drawn = {line.label for panel in figure.panels for line in panel.lines}
    assert drawn == {"v_g", "i_d"}
    assert run_figure(bench.book.root, "exp-1", PlotWish(x="n_v_g", y=("i_d",))).x_label == "n_v_g"


async def test_a_further_file_that_another_program_removes_is_told(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    sink = await bench.book.open(map_head())
    sink.event("note", {"number": 0})
    await sink.written()
    (place(bench) / "events.jsonl").unlink()
    sink.event("note", {"number": 1})
    await sink.close("completed")
    assert "events.jsonl was removed by another program" in bench.meta("exp-1")["error"]
    assert len((place(bench) / "events.jsonl").read_text().splitlines()) == 1
    await bench.book.stop()
