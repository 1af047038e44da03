"""What a verb that asks an engine does without: the configuration, where none is there."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from edged.cli.shared.options import add_engine_options, connect
from edged.errors import Failed, Invalid
from tests.promises import promise

ENGINE = '{"pid": 1, "rpc_port": 1, "mcp_port": null}'
HEAVY = (
    "dataclasses",
    "edged.config.load",
    "http.client",
    "rich",
    "hashlib",
    "ruamel.yaml",
    "shutil",
)


def options(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="edged status")
    add_engine_options(parser)
    return parser.parse_args(words)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine of its own, on which an engine has left its file."""
    for name in ("EDGED_STATE_DIR", "EDGED_LEASE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("CONFIG", "STATE", "DATA"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    # Of the system, where this user may write there; the same places then.
    monkeypatch.setattr("edged.host.SYSTEM_STATE", tmp_path / "state" / "edged")
    monkeypatch.setattr("edged.host.SYSTEM_CONFIG", tmp_path / "config" / "edged")
    for place in ("state/edged", "named", "other"):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "engine.json").write_text(ENGINE)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "environment", "place"),
    [
        ((), {}, "state/edged"),
        (("--state-dir", "{home}/named"), {}, "named"),
        ((), {"EDGED_STATE_DIR": "{home}/named"}, "named"),
        (("--state-dir", "{home}/named"), {"EDGED_STATE_DIR": "{home}/other"}, "named"),
        (("--set", "STATE_DIR={home}/named"), {}, "named"),
        (("--state-dir", "named"), {}, "named"),
        (("--state-dir", " {home}/named "), {}, "named"),
        (("--state-dir", "'{home}/named'"), {}, "named"),
    ],
)
def test_the_engine_is_found_however_its_place_is_said(
    words: tuple[str, ...],
    environment: Mapping[str, str],
    place: str,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(home)
    for name, value in environment.items():
        monkeypatch.setenv(name, value.format(home=home))
    client = connect(options(*(word.format(home=home) for word in words)))
    assert client.engine.path.parent.resolve() == (home / place).resolve()
    assert client.token is None


@promise("config.precedence")
@pytest.mark.parametrize("file", ["config/edged/edged.yaml", "config/edged/edged.yaml.d/a.yaml"])
def test_what_a_file_sets_counts(file: str, home: Path) -> None:
    (home / file).parent.mkdir(parents=True, exist_ok=True)
    (home / file).write_text(f"INBOUND_AUTH_TOKEN: word\nSTATE_DIR: {home}/other\n")
    client = connect(options())
    assert client.engine.path.parent == home / "other"
    assert client.token == "word"
    assert connect(options("--state-dir", f"{home}/named")).token == "word"


def test_a_variable_that_is_wrong_is_told_all_the_same(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGED_MCP_PORT", "many")
    with pytest.raises(Invalid, match="EDGED_MCP_PORT"):
        connect(options("--state-dir", f"{home}/named"))


def test_where_no_engine_runs_the_places_are_told(home: Path) -> None:
    (home / "state/edged/engine.json").unlink()
    with pytest.raises(Failed, match="No engine is running here") as failed:
        connect(options())
    assert failed.value.data["looked_in"] == [f"{home}/state/edged"]


def test_a_status_imports_next_to_nothing(home: Path) -> None:
    # Where the package is installed, the system has a configuration.
    program = f"""
import sys
from pathlib import Path
from edged import host
host.SYSTEM_CONFIG = Path("{home}/config/edged")
from edged.cli.main import main
main(["status", "--state-dir", "{home}/named"])
print([name for name in {HEAVY!r} if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout.decode().split() == ["[]"]
