"""Where things lie on each platform, and which platforms there are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from edged.errors import ErrorCode, Invalid
from edged.host import (
    Platform,
    find_places,
    find_platform,
    find_shipped,
    keep_edge_id,
    resident_bytes,
)
from tests.promises import promise

HOME = Path("/home/someone")


@promise("platform.macos-refused")
@pytest.mark.parametrize(("name", "spoken"), [("darwin", "macOS"), ("freebsd14", "freebsd14")])
def test_other_platforms_are_refused_by_name(name: str, spoken: str) -> None:
    with pytest.raises(Invalid) as caught:
        find_platform(name)
    assert caught.value.code is ErrorCode.UNSUPPORTED_PLATFORM
    assert spoken in caught.value.message


def test_linux_and_windows_are_platforms() -> None:
    assert find_platform("linux") is Platform.LINUX
    assert find_platform("win32") is Platform.WINDOWS


def test_who_may_write_the_state_directory_uses_the_system_places() -> None:
    places = find_places(
        platform=Platform.LINUX,
        environ={},
        home=HOME,
        shipped=None,
        is_writable=lambda _path: True,
    )
    assert places.config_file == Path("/etc/edged/edged.yaml")
    assert places.bench_file == Path("/etc/edged/bench.yaml")
    assert places.state_dir == Path("/var/lib/edged")
    assert places.profile_dirs[0] == Path("/usr/share/edged/profiles")
    assert places.state_dirs == (Path("/var/lib/edged"),)


def test_an_ordinary_user_gets_their_own_places_and_finds_the_system_engine() -> None:
    places = find_places(
        platform=Platform.LINUX,
        environ={"XDG_DATA_HOME": "/data/someone", "XDG_STATE_HOME": "relative/ignored"},
        home=HOME,
        shipped=None,
        is_writable=lambda _path: False,
    )
    assert places.state_dir == HOME / ".local/state/edged"
    assert places.data_dir == Path("/data/someone/edged")
    assert places.state_dirs == (HOME / ".local/state/edged", Path("/var/lib/edged"))


def test_an_own_configuration_comes_before_the_system_one(tmp_path: Path) -> None:
    (tmp_path / "edged").mkdir()
    (tmp_path / "edged" / "edged.yaml").write_text("")
    places = find_places(
        platform=Platform.LINUX,
        environ={"XDG_CONFIG_HOME": str(tmp_path)},
        home=HOME,
        shipped=None,
        is_writable=lambda _path: False,
    )
    assert places.config_file == tmp_path / "edged" / "edged.yaml"


def test_windows_keeps_everything_under_programdata() -> None:
    places = find_places(
        platform=Platform.WINDOWS, environ={"PROGRAMDATA": "/ProgramData"}, home=HOME, shipped=None
    )
    assert places.config_file == Path("/ProgramData/edged/edged.yaml")
    assert places.state_dir == Path("/ProgramData/edged/state")


def test_what_came_with_the_package_is_found_in_its_tree_or_its_environment(tmp_path: Path) -> None:
    tree, prefix = tmp_path / "tree", tmp_path / "venv"
    module = tree / "edged" / "host.py"
    assert find_shipped(module, prefix) is None
    (prefix / "share" / "edged" / "profiles").mkdir(parents=True)
    assert find_shipped(module, prefix) == prefix / "share" / "edged"
    (tree / "profiles").mkdir(parents=True)
    (tree / "setup.cfg").touch()
    assert find_shipped(module, prefix) == tree


def test_a_checkout_stands_for_the_shipped_profiles() -> None:
    places = find_places(platform=Platform.LINUX, environ={}, home=HOME, shipped=Path("/src/edged"))
    assert places.profile_dirs[0] == Path("/src/edged/profiles")


@promise("config.edge-id-kept")
def test_the_edge_id_is_made_once_and_kept(tmp_path: Path) -> None:
    made = keep_edge_id(tmp_path / "state", "")
    assert made.startswith("edge-")
    assert keep_edge_id(tmp_path / "state", "") == made
    assert keep_edge_id(tmp_path / "state", "bench-7") == "bench-7"
    assert keep_edge_id(tmp_path / "state", "") == made


def test_a_broken_edge_id_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "edge_id").write_bytes(b"\xff\x00 nonsense\n\n")
    made = keep_edge_id(tmp_path, "")
    assert made.startswith("edge-")
    assert (tmp_path / "edge_id").read_text() == f"{made}\n"


def test_the_memory_of_a_process_is_told_and_of_one_that_is_gone_is_none() -> None:
    assert (resident_bytes(os.getpid()) or 0) > 1024 * 1024
    gone = subprocess.Popen([sys.executable, "-S", "-c", ""])
    gone.wait(20)
    assert resident_bytes(gone.pid) is None
