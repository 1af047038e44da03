"""What an experiment leaves, read by the libraries that people read it with.

data.nc by xarray and pandas, PyPI's newest and those of Debian bookworm; the verdicts by
junitparser and by openhtf itself.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from edged.runs.recordings.reader import export_run
from tests.bench.engine_process import REPOSITORY, EngineProcess, engine_process
from tests.bench.twin_lab import TwinLab, on_twins
from tests.bench.waiting import first, wait_for
from tests.flows.test_experiment_boards import BOARDS as SHIFT_BOARDS
from tests.flows.test_experiment_boards import shift
from tests.promises import promise
from tests.unit.experiments.test_reports import UNITS, boards_run, folder_of
from tests.unit.work.test_experiment_recording import map_head
from tests.unit.work.test_run_reader import whole
from tests.unit.work.test_runs import Bench
from tests.unit.work.test_unit_reports import BOARDS

CLIENTS = REPOSITORY / ".venv-clients"
SCRIPTS = REPOSITORY / "tests" / "clients"
HELD_AT = 7
"""Points of the run that is held."""
ROWS = 6
"""Of 12 cells; then the writer waits, or is killed."""
WRITER = """
import asyncio, os, sys
from dataclasses import replace
from pathlib import Path
from edged.runs.run_head import Dimension
from tests.unit.work.test_experiment_recording import map_head
from tests.unit.work.test_runs import Bench

async def main(root, rows, is_grid):
    bench = Bench(Path(root))
    head = map_head()
    if not is_grid:
        head = replace(head, dimensions=(head.dimensions[0], Dimension(name="v_d", unit="V")))
    sink = await bench.book.open(head)
    for number in range(rows):
        places = divmod(number, 4)
        sink.append((places[0] / 2, places[1] * 1.0, number / 1000, None, "late"), places)
        assert await sink.written()
    print(sink.told()["path"], flush=True)
    await asyncio.sleep(600)

asyncio.run(main(sys.argv[1], int(sys.argv[2]), sys.argv[3] == "grid"))
"""


def ask(environment: str, script: str, lines: Sequence[str]) -> list[Any]:
    done = subprocess.run(
        [CLIENTS / environment / "bin" / "python", SCRIPTS / script],
        input="".join(f"{line}\n" for line in lines),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(params=["grid", "rows"])
def writing(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Any, Path, str]]:
    """A process that has written some rows of a map, and is in the middle of it."""
    shape: str = request.param
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path), str(ROWS), shape],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        path = Path(process.stdout.readline().strip()) / "data.nc"
        yield process, path, shape
        process.kill()


@pytest.mark.parametrize("environment", ["xarray", "xarray-bookworm"])
def test_xarray_opens_a_file_that_is_written_and_one_whose_writer_was_killed(
    writing: tuple[Any, Path, str], environment: str
) -> None:
    process, path, shape = writing
    (during,) = ask(environment, "xarray_opens.py", [str(path)])
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=10)
    (after,) = ask(environment, "xarray_opens.py", [str(path)])
    assert during == after
    measured = [number / 1000 for number in range(ROWS)]
    current = after["variables"]["i_d"]
    assert current["units"] == "A"
    assert after["attrs"]["title"] == "transistor_map"
    assert after["attrs"]["left_out"] == "flags"
    if shape == "grid":
        assert after["sizes"] == {"v_g": 3, "v_d": 4}
        assert after["coordinates"] == ["v_d", "v_g"]
        assert current["dimensions"] == ["v_g", "v_d"]
        assert list(chain(*current["values"])) == [*measured, *[None] * (12 - ROWS)]
        assert after["variables"]["v_g"]["values"] == [0.0, 0.5, 1.0]
        assert after["variables"]["v_g"]["units"] == "V"
        assert after["variables"]["T"]["dimensions"] == ["v_g"]
    else:
        assert after["sizes"] == {"point": ROWS}
        assert current["dimensions"] == ["point"]
        assert current["values"] == measured
        assert after["variables"]["n_v_d"]["values"] == [0, 1, 2, 3, 0, 1]


@pytest.mark.parametrize("environment", ["xarray", "xarray-bookworm"])
def test_pandas_reads_data_csv_of_a_killed_writer(
    writing: tuple[Any, Path, str], environment: str
) -> None:
    process, path, _ = writing
    process.kill()
    process.wait(timeout=10)
    done = subprocess.run(
        [
            CLIENTS / environment / "bin" / "python",
            "-c",
            "import pandas, sys; print(pandas.read_csv(sys.argv[1])['i_d'].tolist())",
            path.with_name("data.csv"),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == [number / 1000 for number in range(ROWS)]


@pytest.fixture
def held_run(tmp_path: Path) -> Iterator[tuple[EngineProcess, Path]]:
    """An engine with a run that waits in the middle of a map, and the run's folder."""
    steps = [
        {"measure": {"i_d": "drain.measure.current"}},
        {"if": "v_g > 0.9 and v_d > 1.9", "then": [{"wait_s": 600}]},
    ]
    inner = {"for": "v_d", "in": [0, 1, 2, 3], "set": "drain.set_voltage", "steps": steps}
    on = [{"command": f"{role}.output_on"} for role in ("gate", "drain")]
    outer = {"for": "v_g", "in": [0, 1, 2], "set": "gate.set_voltage", "steps": [inner]}
    roles = {"gate": "smu1", "drain": "smu2"}
    wanted = {"format": 1, "experiment": "held", "roles": roles, "steps": [*on, outer],
              "finally": [{"command": f"{role}.output_off"} for role in roles]}  # fmt: skip
    units = "smu1=keithley_2400,smu2=keithley_2400"
    with engine_process(
        tmp_path, "--instruments", units, "--transistor", "smu1=smu2"
    ) as engine:  # fmt: skip
        told = engine.tool("bench__start_experiment", plan=wanted)
        assert not told["is_error"], told
        run_id = told["result"]["run_id"]
        (path,) = first(lambda: list((tmp_path / "data").rglob(f"{run_id}/data.csv")))
        # They go to the disk each second.
        wait_for(lambda: len(path.read_text().splitlines()) == 1 + HELD_AT)
        yield engine, path.parent


@pytest.mark.parametrize("environment", ["xarray", "xarray-bookworm"])
def test_the_files_of_a_real_run_are_read_while_it_runs_and_after_kill_9(
    held_run: tuple[EngineProcess, Path], environment: str
) -> None:
    engine, folder = held_run
    read = "import pandas, sys; print(pandas.read_csv(sys.argv[1])['i_d'].tolist())"

    def found() -> tuple[dict[str, Any], list[float]]:
        (data,) = ask(environment, "xarray_opens.py", [str(folder / "data.nc")])
        python = CLIENTS / environment / "bin" / "python"
        words: list[str | Path] = [python, "-c", read, folder / "data.csv"]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        return data, json.loads(done.stdout)

    data, rows = found()
    engine.process.kill()
    engine.process.wait()
    assert found() == (data, rows)
    cells = list(chain(*data["variables"]["i_d"]["values"]))
    assert data["sizes"] == {"v_g": 3, "v_d": 4}
    assert data["variables"]["i_d"]["units"] == "A"
    assert cells == [*rows, *[None] * (12 - HELD_AT)]
    assert len(rows) == HELD_AT


@pytest.fixture
async def exported(tmp_path: Path) -> Path:
    """The verdicts of six boards: run.xml, and board-0.json and so on."""
    bench = Bench(tmp_path / "data")
    sink = await bench.book.open(map_head())
    for check in BOARDS:
        sink.check(check)
    await sink.close("completed")
    (tmp_path / "run.xml").write_bytes(whole(bench.book.root, "exp-1", "junit"))
    for number in range(6):
        record = export_run(bench.book.root, "exp-1", "openhtf", number)["content"]
        (tmp_path / f"board-{number}.json").write_text(record, encoding="utf-8")
    await bench.book.stop()
    return tmp_path


def test_junitparser_finds_units_checks_values_and_what_kind_of_failure(exported: Path) -> None:
    (suites,) = ask("verdicts", "verdicts_read.py", [f"junit {exported / 'run.xml'}"])
    assert [suite["name"] for suite in suites] == ["0012", "B2", "B3", "B4", "B5", "B6"]
    assert [suite["counts"] for suite in suites][2:] == [[2, 1, 0], [2, 1, 0], [2, 0, 1], [3, 0, 1]]
    results = {
        (suite["name"], case["name"]): one[:2]
        for suite in suites
        for case in suite["cases"]
        for one in case["results"]
    }
    assert results == {
        ("B3", "idle"): ["Failure", "fail"],
        ("B4", "output"): ["Failure", "incomplete"],
        ("B5", "idle"): ["Error", "error"],
        ("B6", "(unit)"): ["Error", "aborted"],
    }
    failed = suites[2]["cases"][0]
    assert failed["time"] == 0.5
    assert (failed["properties"]["value"], failed["properties"]["max"]) == ("0.4", "0.3")


@promise("experiment.reports")
def test_both_read_the_reports_that_a_plan_ends_with(tmp_path: Path) -> None:
    async def story(lab: TwinLab) -> None:
        folder = await folder_of(lab, await boards_run(lab))
        await lab.core.bench.clock.sleep(5)
        for file in (folder / "reports").iterdir():
            (tmp_path / file.name).write_bytes(file.read_bytes())

    on_twins(story, *UNITS)
    files = sorted(tmp_path.iterdir())
    suites = ask(
        "verdicts", "verdicts_read.py", [f"junit {one}" for one in files if one.suffix == ".xml"]
    )
    names = [suite["name"] for one in suites for suite in one]
    assert names == ["R33-000001", "R33-000002", "R33-000001 (try 2)"]
    read = ask(
        "verdicts", "verdicts_read.py", [f"openhtf {one}" for one in files if one.suffix == ".json"]
    )
    assert [one["outcome"] for one in read] == ["PASS", "FAIL", "FAIL"]
    assert [one["uploaded"]["serial"] for one in read] == ["R33-000001", "R33-000002", "R33-000001"]


def test_openhtf_takes_the_records_as_its_own(exported: Path) -> None:
    lines = [f"openhtf {exported / f'board-{number}.json'}" for number in range(6)]
    read = ask("verdicts", "verdicts_read.py", lines)
    for number, one in enumerate(read):
        told = json.loads((exported / f"board-{number}.json").read_text())
        assert set(told) - {"checkpoints"} == set(one["keys"]) - {"checkpoints"}
        assert sorted(told["phases"][0]) == one["phase_keys"]
        assert [phase["measurements"] for phase in told["phases"]] == one["measurements"]
        assert (told["outcome"], told["outcome_details"]) == (one["outcome"], one["details"])
    uploaded = [one["uploaded"] for one in read]
    assert [one["serial"] for one in uploaded] == ["0012", "B2", "B3", "B4", "B5", "B6"]
    # It uploads what was aborted as an error.
    status = ["PASS", "MARGINAL_PASS", "FAIL", "FAIL", "ERROR", "ERROR"]
    assert [one["status"] for one in uploaded] == status
    assert uploaded[1]["measurements"]["output"] == [2.495, 1.5, 2.5, "MARGINAL_PASS"]
    assert uploaded[2]["measurements"]["idle"] == [0.4, 0.1, 0.3, "FAIL"]
    assert uploaded[3]["codes"][0][0] == "incomplete"


def test_the_readers_count_a_shift_of_twenty_boards(tmp_path: Path) -> None:
    done = shift()
    (tmp_path / "run.xml").write_text(done.junit, encoding="utf-8")
    for number, record in enumerate(done.openhtf):
        (tmp_path / f"{number}.json").write_text(record, encoding="utf-8")
    (suites,) = ask("verdicts", "verdicts_read.py", [f"junit {tmp_path / 'run.xml'}"])
    assert len(suites) == SHIFT_BOARDS
    failed = {suite["name"] for suite in suites if suite["counts"][1] or suite["counts"][2]}
    assert len(failed) == 4
    lines = [f"openhtf {tmp_path / f'{number}.json'}" for number in range(SHIFT_BOARDS)]
    read = ask("verdicts", "verdicts_read.py", lines)
    status = [one["uploaded"]["status"] for one in read]
    assert (status.count("PASS"), status.count("FAIL")) == (16, 4)
    assert read[0]["uploaded"]["serial"] == "R33-000001"
