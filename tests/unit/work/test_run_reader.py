import base64
import csv
import io
import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.csv_cells import guarded, unguarded
from edged.errors import EdgedError, ErrorCode, Invalid, NotFound
from edged.files import read_text
from edged.runs.recordings import reader as run_reader
from edged.runs.recordings.append import Array
from edged.runs.recordings.files import RunFiles, write_meta
from edged.runs.recordings.formats import finish_archive, member_bytes
from edged.runs.recordings.reader import export_run, list_runs, page_of_run, show_run
from edged.runs.recordings.table import PageWish
from tests.promises import promise


def record(
    root: Path, run_id: str, *, day: str = "2026-11-21", rows: Any = (), **meta: Any
) -> Path:
    files = RunFiles(root / day / run_id, ["t", "name", "value"])
    files.write({"data.csv": rows, "data.npz": meta.pop("arrays", ())})
    files.close()
    told = {"run_id": run_id, "kind": "stream", "status": "ended", "started_ms": 1, **meta}
    write_meta(files.directory, told)
    return files.directory


def whole(root: Path, run_id: str, form: str) -> bytes:
    """Every piece of an export, put together."""
    content, offset = b"", 0
    while offset is not None:
        piece = export_run(root, run_id, form, offset)
        text = piece["content"]
        content += base64.b64decode(text) if piece["encoding"] == "base64" else text.encode()
        offset = piece["next_offset"]
    return content


def test_the_newest_recordings_come_first_and_can_be_narrowed(tmp_path: Path) -> None:
    record(tmp_path, "mcp-a", day="2026-11-20", started_ms=1)
    record(tmp_path, "mcp-b", started_ms=3, instruments=[{"id": "USB0::1", "alias": "Psu"}])
    record(tmp_path, "sweep-c", started_ms=2, kind="sweep")
    assert [run["run_id"] for run in list_runs(tmp_path, 10)] == ["mcp-b", "sweep-c", "mcp-a"]
    assert [run["run_id"] for run in list_runs(tmp_path, 1)] == ["mcp-b"]
    assert [run["run_id"] for run in list_runs(tmp_path, 10, "sweep")] == ["sweep-c"]
    assert [run["run_id"] for run in list_runs(tmp_path, 10, "", "psu")] == ["mcp-b"]


def test_a_recording_that_is_being_begun_is_none_yet(tmp_path: Path) -> None:
    directory = tmp_path / "2026-11-21" / "mcp-a"
    directory.mkdir(parents=True)
    for _ in ("before data.csv", "before meta.json"):
        assert list_runs(tmp_path, 10) == []
        for read in (
            lambda: page_of_run(tmp_path, "mcp-a", PageWish(first=0, most=10, every=1, columns=())),
            lambda: show_run(tmp_path, "mcp-a", 3),
            lambda: export_run(tmp_path, "mcp-a", "csv"),
        ):
            with pytest.raises(NotFound) as refused:
                read()
            assert refused.value.code is ErrorCode.UNKNOWN_RUN
        (directory / "data.csv").write_text("t,name,value\n")
    write_meta(directory, {"run_id": "mcp-a", "kind": "stream", "status": "running"})
    assert page_of_run(tmp_path, "mcp-a", PageWish(first=0, most=10, every=1, columns=()))[
        "columns"
    ] == ["t", "name", "value"]


@promise("files.no-links")
@pytest.mark.parametrize("form", ["csv", "jsonl", "npz"])
@pytest.mark.parametrize("is_directory", [False, True])
def test_no_caller_gets_a_file_that_a_link_in_the_data_directory_leads_to(
    tmp_path: Path, form: str, is_directory: bool
) -> None:
    root, foreign = tmp_path / "runs", tmp_path / "foreign"
    directory = record(root, "run-1", started_ms=1)
    foreign.mkdir()
    (foreign / "meta.json").write_text((directory / "meta.json").read_text())
    for name in ("data.csv", "data.npz"):
        (foreign / name).write_text("s3cret\n1\n")
        (directory / name).unlink(missing_ok=True)
    if is_directory:
        shutil.rmtree(directory)
        directory.symlink_to(foreign, target_is_directory=True)
    else:
        for name in ("data.csv", "data.npz"):
            (directory / name).symlink_to(foreign / name)
    with pytest.raises(EdgedError, match="symbolic link"):
        export_run(root, "run-1", form)
    with pytest.raises(EdgedError, match="symbolic link"):
        show_run(root, "run-1", 5)


@promise("runs.list-costs-a-page")
def test_a_page_of_the_list_reads_no_more_recordings_than_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(40):
        kind = "sweep" if number % 2 else "stream"
        record(tmp_path, f"run-{number:02}", started_ms=1000 + number, kind=kind)
    assert len(list_runs(tmp_path, 100)) == 40
    read: list[Path] = []

    def counted(path: Path) -> str:
        read.append(path)
        return read_text(path)

    monkeypatch.setattr("edged.runs.recordings.reader.read_text", counted)
    assert [run["run_id"] for run in list_runs(tmp_path, 2)] == ["run-39", "run-38"]
    assert [run["run_id"] for run in list_runs(tmp_path, 2, "sweep")] == ["run-39", "run-37"]
    assert len(read) == 4


def test_what_has_changed_in_a_recording_or_was_taken_away_is_told_at_once(tmp_path: Path) -> None:
    running = record(tmp_path, "mcp-a", started_ms=3, status="running")
    gone = record(tmp_path, "mcp-b", started_ms=2)
    record(tmp_path, "mcp-c", started_ms=1)
    assert [run["status"] for run in list_runs(tmp_path, 2)] == ["running", "ended"]
    write_meta(running, {**run_reader.read_meta(running), "status": "failed"})
    (gone / "meta.json").unlink()
    found = [(run["run_id"], run["status"]) for run in list_runs(tmp_path, 2)]
    assert found == [("mcp-a", "failed"), ("mcp-c", "ended")]


def test_what_is_no_recording_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "2026-11-21" / "broken").mkdir(parents=True)
    (tmp_path / "2026-11-21" / "broken" / "meta.json").write_text("{")
    (tmp_path / ".open").mkdir()
    assert list_runs(tmp_path, 10) == []
    assert list_runs(tmp_path / "nowhere", 10) == []


def test_a_recording_shows_its_last_rows_as_values(tmp_path: Path) -> None:
    record(tmp_path, "mcp-a", rows=[(1, "x", 0.5), (2, "y", None), (3, "", True)])
    shown = show_run(tmp_path, "mcp-a", 2)
    assert shown["columns"] == ["t", "name", "value"]
    assert shown["rows"] == [[2, "y", None], [3, None, True]]
    assert shown["meta"]["status"] == "ended"


@pytest.mark.parametrize("run_id", ["mcp-none", "../2026-11-21/mcp-a", "", "*"])
def test_an_unknown_recording_is_told_and_no_path_leads_out(tmp_path: Path, run_id: str) -> None:
    record(tmp_path, "mcp-a")
    with pytest.raises(NotFound) as caught:
        show_run(tmp_path, run_id, 1)
    assert caught.value.code is ErrorCode.UNKNOWN_RUN


def test_lines_of_json_carry_the_rows_by_name(tmp_path: Path) -> None:
    record(tmp_path, "mcp-a", rows=[(1, 'a,"b"', 0.5), (2, "", None)])
    lines = whole(tmp_path, "mcp-a", "jsonl").decode().splitlines()
    assert [json.loads(line) for line in lines] == [
        {"t": 1, "name": 'a,"b"', "value": 0.5},
        {"t": 2, "name": None, "value": None},
    ]


@promise("runs.no-formulas")
def test_a_text_is_no_formula_in_csv_and_itself_in_every_other_form(tmp_path: Path) -> None:
    texts = ['=HYPERLINK("http://x")', "+1,2", "-x", "@SUM(A1)", "\tx", "'=x", "it's", "-1.5e-3"]
    numbers = [-0.5, -3, float("-inf"), 1e30]
    rows = [(number, text, -1.0) for number, text in enumerate(texts)]
    record(tmp_path, "mcp-a", rows=[*rows, *((9, number, -1.0) for number in numbers)])
    cells = [row[1] for row in csv.reader(io.StringIO(whole(tmp_path, "mcp-a", "csv").decode()))]
    assert cells[1:] == [
        *(f"'{text}" for text in texts[:6]), "it's", "-1.5e-3", "-0.5", "-3", "-inf", "1e+30"
    ]  # fmt: skip
    told = [json.loads(line) for line in whole(tmp_path, "mcp-a", "jsonl").decode().splitlines()]
    assert [row["name"] for row in told[:7]] == texts[:7]
    assert [row[1] for row in show_run(tmp_path, "mcp-a", 100)["rows"][:7]] == texts[:7]


@given(st.text())
def test_a_text_is_read_back_as_it_was_guarded(text: str) -> None:
    assert unguarded(guarded(text)) == text


@given(
    rows=st.lists(st.tuples(st.integers(), st.text(), st.floats(allow_nan=False)), max_size=60),
    chunk=st.integers(1, 200),
)
def test_pieces_of_any_size_make_the_whole(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Any], chunk: int
) -> None:
    root = tmp_path_factory.mktemp("runs")
    directory = record(root, "mcp-a", rows=rows)
    before = run_reader.CHUNK_BYTES
    try:
        run_reader.CHUNK_BYTES = chunk  # type: ignore[misc]
        assert whole(root, "mcp-a", "csv") == (directory / "data.csv").read_bytes()
        lines = whole(root, "mcp-a", "jsonl").decode().splitlines()
    finally:
        run_reader.CHUNK_BYTES = before  # type: ignore[misc]
    assert [json.loads(line)["t"] for line in lines] == [row[0] for row in rows]


def test_a_table_becomes_an_archive_of_columns(tmp_path: Path) -> None:
    record(tmp_path, "mcp-a", rows=[(1, "on", 0.5), (2, "off", None)])
    with zipfile.ZipFile(io.BytesIO(whole(tmp_path, "mcp-a", "npz"))) as archive:
        assert archive.namelist() == ["t.npy", "name.npy", "value.npy"]
        assert b"'<U3'" in archive.read("name.npy")
        assert b"'<f8'" in archive.read("value.npy")


def test_archives_of_waveforms_come_one_after_the_other(tmp_path: Path) -> None:
    directory = record(tmp_path, "mcp-a", arrays=[Array("y_0", "f", b"\0" * 4000)])
    second = directory / "data-2.npz"
    second.write_bytes(member_bytes("y_1.npy", b"x" * 100))
    finish_archive(second)
    names, offset, content = [], 0, b""
    while offset is not None:
        piece = export_run(tmp_path, "mcp-a", "npz", offset)
        names.append(piece["name"])
        content += base64.b64decode(piece["content"])
        offset = piece["next_offset"]
    assert names == ["mcp-a.npz", "mcp-a-2.npz", "mcp-a.npz"]
    assert content == (directory / "data.npz").read_bytes() + second.read_bytes()


@promise("page.downloads")
@pytest.mark.parametrize("torn", [b"", member_bytes("y_3.npy", b"x" * 500)[:99]])
def test_the_archive_of_a_run_under_way_is_whole_up_to_where_it_was_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, torn: bytes
) -> None:
    directory = record(tmp_path, "mcp-a", arrays=[Array("y_0", "f", b"\0" * 4000)])
    second = directory / "data-2.npz"
    second.write_bytes(b"".join(member_bytes(f"y_{n}.npy", b"x" * 500) for n in (1, 2)) + torn)
    monkeypatch.setattr(run_reader, "CHUNK_BYTES", 300)
    files: dict[str, bytes] = {}
    offset = 0
    while offset is not None:
        piece = export_run(tmp_path, "mcp-a", "npz", offset)
        files.setdefault(piece["name"], b"")
        files[piece["name"]] += base64.b64decode(piece["content"])
        offset = piece["next_offset"]
    names = {}
    for name, content in files.items():
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            assert archive.testzip() is None
            names[name] = archive.namelist()
    assert names == {"mcp-a.npz": ["y_0.npy"], "mcp-a-2.npz": ["y_1.npy", "y_2.npy"]}


def test_an_unknown_format_names_the_known_ones(tmp_path: Path) -> None:
    record(tmp_path, "mcp-a")
    with pytest.raises(Invalid, match="csv, jsonl, npz"):
        export_run(tmp_path, "mcp-a", "xls")
