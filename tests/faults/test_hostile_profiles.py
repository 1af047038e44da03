"""A profile directory full of what should not be there: each file is named, and work goes on."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from tests.bench.engine_process import REPOSITORY, EngineProcess, engine_process
from tests.promises import promise

SHIPPED = len(list((REPOSITORY / "profiles").glob("*.yaml")))
HEAD = "format: 1\nprofile_key: {key}\n"
WITHIN_S = 40.0


def bomb(path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    path.write_text("\n".join(lines) + "\n")


def huge(path: Path) -> None:
    with path.open("wb") as file:
        file.write(b"format: 1\n")
        file.truncate(50 * 1024 * 1024)


def in_itself(path: Path) -> None:
    path.write_text("format: &a [*a]\n")


def fifo(path: Path) -> None:
    os.mkfifo(path)


FILES: Mapping[str, tuple[Callable[[Path], object], str]] = MappingProxyType(
    {
        "bomb.yaml": (bomb, "more than 50000 entries"),
        "huge.yaml": (huge, "52428800 bytes"),
        "twice.yaml": (
            lambda p: p.write_text(HEAD.format(key="twice") + "format: 1\n"),
            'key "format" is here twice, first in line 1',
        ),
        "tabs.yaml": (lambda p: p.write_text("format: 1\nmatch:\n\tidn: x\n"), "blanks, not tabs"),
        "utf16.yaml": (
            lambda p: p.write_bytes(HEAD.format(key="wide").encode("utf-16")), "is not UTF-8",
        ),
        "latin.yaml": (
            lambda p: p.write_bytes(b"format: 1\nmanufacturer: M\xfcller\n"), "0xfc is not UTF-8",
        ),
        "nul.yaml": (lambda p: p.write_bytes(b"format: 1\x00\n"), "not YAML"),
        "loop.yaml": (lambda p: p.symlink_to(p), "cannot be read"),
        "nowhere.yaml": (lambda p: p.symlink_to("/nonexistent/profile.yaml"), "cannot be read"),
        "device.yaml": (lambda p: p.symlink_to("/dev/zero"), "not a regular file"),
        "directory.yaml": (lambda p: p.mkdir(), "not a regular file"),
        "fifo.yaml": (fifo, "not a regular file"),
        "deep.yaml": (lambda p: p.write_text("[" * 10_000), "nested deeper than 32"),
        "in_itself.yaml": (in_itself, "is inside itself"),
        "tagged.yaml": (lambda p: p.write_text("format: !!python/object:os.system 1\n"), "tag"),
        "merge.yaml": (lambda p: p.write_text("<<: {format: 1}\n"), "Merge keys"),
        "second.yaml": (lambda p: p.write_text("format: 1\n---\nformat: 1\n"), "second document"),
        "empty.yaml": (lambda p: p.write_text(""), "empty"),
    }
)  # fmt: skip


def complaints_of(engine: EngineProcess) -> list[str]:
    found: list[str] = engine.tool("get_status")["result"]["profiles"]["complaints"]
    return found


def assert_all_are_named(engine: EngineProcess, directory: Path) -> None:
    complaints = complaints_of(engine)
    for name, (_, words) in FILES.items():
        mine = [text for text in complaints if text.startswith(f"{directory / name}:")]
        assert len(mine) == 1, (name, complaints)
        assert re.match(r":[1-9]\d*:[1-9]\d*: \S", mine[0].removeprefix(str(directory / name)))
        assert words in mine[0]
    assert engine.tool("get_status")["result"]["profiles"]["count"] == SHIPPED
    listed = engine.tool("execute_command", instrument_id="psu1", command_name="get_voltage")
    assert listed["result"]["success"]


@promise("profile.bad-file-harms-none")
def test_a_start_names_every_bad_file_and_works_with_the_others(tmp_path: Path) -> None:
    directory = tmp_path / "profiles"
    directory.mkdir()
    for name, (make, _) in FILES.items():
        make(directory / name)
    config = {"PROFILE_DIRS": [str(REPOSITORY / "profiles"), str(directory)]}
    with engine_process(tmp_path, config=config) as engine:
        assert_all_are_named(engine, directory)


@promise("profile.bad-file-harms-none")
def test_bad_files_that_come_later_harm_nothing_either(tmp_path: Path) -> None:
    directory = tmp_path / "profiles"
    directory.mkdir()
    config = {"PROFILE_DIRS": [str(REPOSITORY / "profiles"), str(directory)]}
    with engine_process(tmp_path, config=config) as engine:
        for name, (make, _) in FILES.items():
            make(directory / name)
        deadline = time.monotonic() + WITHIN_S
        while len(complaints_of(engine)) < len(FILES):
            assert time.monotonic() < deadline, engine.log.read_text(errors="replace")
            time.sleep(0.1)  # noqa: TID251 - a real process has no event to wait for
        assert_all_are_named(engine, directory)


def widening(path: Path) -> None:
    path.write_text("format: 1\nDP8B26AM00234: {limits: {set_voltage: {voltage: {max: 1.0e6}}}}\n")


@pytest.mark.parametrize(
    "make",
    [widening, bomb, huge, in_itself, fifo, lambda p: p.symlink_to(p)],
    ids=lambda make: make.__name__,
)
def test_a_bench_file_like_that_stops_the_start_with_its_place(
    tmp_path: Path, make: Callable[[Path], object]
) -> None:
    make(tmp_path / "bench.yaml")
    with (
        pytest.raises(AssertionError, match=r"bench\.yaml:[1-9]\d*:[1-9]\d*: "),
        engine_process(tmp_path),
    ):
        pass
