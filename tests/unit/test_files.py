"""Files in STATE_DIR and DATA_DIR are never reached through a symbolic link."""

from __future__ import annotations

import ast
import errno
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from edged import files
from edged.config.load import load_config
from edged.host import Platform, find_places
from edged.runs.recordings.files import RunFiles
from edged.service import StateLock
from edged.store.file import open_database
from tests.bench.sources import modules_with
from tests.promises import promise

SECRET = "root:x:0:0"


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """A file that is not the engine's business."""
    file = tmp_path / "passwd"
    file.write_text(SECRET)
    return file


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    directory = tmp_path / "state"
    directory.mkdir()
    return directory


def _in_link(kept: Path, foreign: Path) -> Path:
    """A file that is a link."""
    (kept / "file").symlink_to(foreign)
    return kept / "file"


def _behind_link(kept: Path, foreign: Path) -> Path:
    """A file in a directory that is a link."""
    (kept / "inner").symlink_to(foreign.parent, target_is_directory=True)
    return kept / "inner" / foreign.name


READERS: Final[tuple[Callable[[Path], object], ...]] = (
    files.open_bytes,
    files.open_text,
    files.open_update,
    files.read_bytes,
    files.read_text,
    lambda path: files.open_appending(path, 0o600),
    lambda path: files.open_descriptor(path, os.O_WRONLY | os.O_TRUNC),
    lambda path: files.open_descriptor(path, os.O_WRONLY | os.O_CREAT),
)


@promise("files.no-links")
@pytest.mark.parametrize("place", [_in_link, _behind_link])
@pytest.mark.parametrize("reach", READERS)
def test_no_file_is_opened_through_a_link(
    reach: Callable[[Path], object],
    place: Callable[[Path, Path], Path],
    kept: Path,
    foreign: Path,
) -> None:
    path = place(kept, foreign)
    with pytest.raises(OSError, match="symbolic link") as refused:
        reach(path)
    assert refused.value.errno == errno.ELOOP
    assert refused.value.filename == str(path)
    assert foreign.read_text() == SECRET


@promise("files.no-links")
def test_what_is_written_moved_or_removed_behind_a_link_is_refused(
    kept: Path, foreign: Path
) -> None:
    path = _behind_link(kept, foreign)
    attempts: tuple[Callable[[], object], ...] = (
        lambda: files.write_atomically(path, "new"),
        lambda: files.remove(path),
        lambda: files.move(path, kept / "mine"),
        lambda: files.make_directory(path.parent / "made"),
        lambda: files.names_in(path.parent),
        lambda: RunFiles(path.parent / "run", ["a"]),
    )
    for attempt in attempts:
        with pytest.raises(OSError, match="symbolic link"):
            attempt()
    assert foreign.read_text() == SECRET
    assert sorted(entry.name for entry in foreign.parent.iterdir()) == ["passwd", "state"]


@promise("files.no-links")
def test_a_link_is_replaced_by_what_is_written_and_its_target_stays(
    kept: Path, foreign: Path
) -> None:
    path = _in_link(kept, foreign)
    files.write_atomically(path, "new")
    assert (path.read_text(), path.is_symlink()) == ("new", False)
    assert foreign.read_text() == SECRET


@promise("files.no-links")
def test_a_link_at_the_lock_leaves_its_target_as_it_is(kept: Path, foreign: Path) -> None:
    (kept / "engine.lock").symlink_to(foreign)
    with pytest.raises(Exception, match="symbolic link"):
        StateLock(kept).take()
    assert foreign.read_text() == SECRET


@promise("files.no-links")
@pytest.mark.parametrize("end", ["", "-wal", "-journal"])
def test_a_database_that_is_a_link_is_not_opened(end: str, kept: Path, foreign: Path) -> None:
    import sqlite3

    (kept / f"edged.db{end}").symlink_to(foreign)
    with pytest.raises(sqlite3.OperationalError, match="symbolic link"):
        open_database(kept / "edged.db")
    assert foreign.read_text() == SECRET


def test_a_fifo_makes_nobody_wait(kept: Path) -> None:
    os.mkfifo(kept / "meta.json")
    with pytest.raises(OSError, match="not a regular file"):
        files.read_bytes(kept / "meta.json")


def test_a_secret_is_made_once_for_its_owner_alone_and_replaces_a_link(
    kept: Path, foreign: Path
) -> None:
    path = _in_link(kept, foreign)
    first = files.keep_secret(path, of=_one_that_was_made, make=lambda: b"made %d" % time.time_ns())
    assert files.keep_secret(path, of=_one_that_was_made, make=lambda: b"made again") == first
    assert path.stat().st_mode & 0o777 == 0o600
    assert foreign.read_text() == SECRET


def _one_that_was_made(held: bytes) -> bytes:
    return held if held.startswith(b"made") else b""


def test_of_two_makers_of_a_secret_both_get_the_same(kept: Path) -> None:
    path, start = kept / "secret", threading.Barrier(8)
    made: list[bytes] = []

    def make() -> None:
        start.wait()
        made.append(files.keep_secret(path, of=lambda held: held, make=lambda: os.urandom(8)))

    makers = [threading.Thread(target=make) for _ in range(8)]
    for one in makers:
        one.start()
    for one in makers:
        one.join()
    assert len(set(made)) == 1
    assert [entry.name for entry in kept.iterdir()] == ["secret"]


def test_an_atomic_write_leaves_no_draft(tmp_path: Path) -> None:
    files.write_atomically(tmp_path / "a" / "b.json", "{}")
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b.json"]


@promise("files.no-links")
def test_an_owner_may_keep_the_directories_themselves_behind_links(tmp_path: Path) -> None:
    (tmp_path / "disk" / "state").mkdir(parents=True)
    (tmp_path / "var").symlink_to(tmp_path / "disk", target_is_directory=True)
    places = find_places(platform=Platform.LINUX, environ={}, home=tmp_path, shipped=None)
    config = load_config(
        places=places, environ={}, flags=[("STATE_DIR", str(tmp_path / "var" / "state"), "--set")]
    ).config
    assert config.state_dir == tmp_path / "disk" / "state"
    assert config.data_dir == tmp_path / "disk" / "state" / "data"
    files.write_atomically(config.state_dir / "engine.json", "{}")
    assert files.read_text(config.state_dir / "engine.json") == "{}"


OPENERS: Final = frozenset(
    {"open", "open_code", "read_text", "read_bytes", "write_text", "write_bytes", "fdopen"}
)
"""Calls that open a file, as functions or as methods of a path."""
NAMED: Final = frozenset({"ZipFile", "mkstemp", "NamedTemporaryFile"})
PATH_CHANGES: Final = frozenset({"unlink", "rmdir", "mkdir", "makedirs", "rmtree", "rename"})
OF_OS: Final = frozenset({"replace", "remove", "link", "symlink", "truncate"})
NOT_KEPT: Final = {
    "store/at_once.py": "the database of a rehearsal, which goes with it",
    "files.py": "the module itself",
    "cli/audit.py": "standard output, and a file that the owner names",
    "cli/main.py": "/dev/null in the place of a closed terminal",
    "cli/runs.py": "copies of recordings where the owner wants them",
    "doctor/machine_checks.py": "/sys",
    "edged_author/cli/new.py": "a profile, which is the owner's",
    "edged_author/one_off_engine.py": "a temporary directory of its own",
    "edged_relay/dev_issuer.py": (
        "the key of a program for tests, in a directory that the owner names"
    ),
    "edged_relay/fleet/pages.py": "files of the package",
    "edged_sim/wires/serial.py": "a temporary directory of its own",
    "edged_sim/wires/stream.py": "a record that whoever starts the simulation names",
    "edged_sim/wires/usbtmc.py": "/sys",
    "host.py": "/proc",
    "profiles/authoring/verification.py": "profiles, which are the owner's",
    "profiles/library_cache.py": "profiles, which are the owner's",
    "relay/link.py": "RELAY_CREDENTIALS, a file of the owner's",
    "runs/recordings/figures.py": "an archive that files.py has opened",
    "sdk/worker.py": "a wrapper, and /dev/null",
    "store/file.py": "databases, which SQLite opens by name after files.refuse_link",
    "surfaces/page/panels.py": "files of the package",
    "surfaces/page/server.py": "files of the package",
    "yaml/file.py": "profiles and configuration, which are the owner's",
}
"""Modules that open files which are not in STATE_DIR or DATA_DIR, and which files those are."""


def _opens(call: ast.Call) -> bool:
    """Whether a call opens or changes a file without ``edged.files``."""
    match call.func:
        case ast.Name(id=name):
            return name in {"open", *NAMED}
        case ast.Attribute(value=ast.Name(id="os" | "io" | "shutil"), attr=name):
            return name in OPENERS | NAMED | PATH_CHANGES | OF_OS
        case ast.Attribute(value=ast.Name(id="files" | "output"), attr=_):
            return False
        case ast.Attribute(value=ast.Name(id="sqlite3"), attr="connect"):
            return True
        case ast.Attribute(attr="open", value=_):
            # Those of a path have a mode or an encoding; links and listeners are opened, too.
            words = [a.value for a in call.args if isinstance(a, ast.Constant)]
            modes = {word for word in words if isinstance(word, str)}
            return bool(
                modes & {"r", "rb", "w", "wb", "a", "ab", "r+b", "a+", "r+", "x", "xb"}
            ) or any(keyword.arg in ("encoding", "mode") for keyword in call.keywords)
        case ast.Attribute(attr=name):
            return name in (OPENERS | NAMED | PATH_CHANGES) - {"open"}
        case _:
            return False


@promise("files.one-owner")
def test_no_other_module_opens_what_lies_in_the_state_or_data_directory() -> None:
    found = {
        place
        for place, text in modules_with().items()
        for call in ast.walk(ast.parse(text))
        if isinstance(call, ast.Call) and _opens(call)
    }
    assert found - NOT_KEPT.keys() == set()
    assert NOT_KEPT.keys() - found == set()
