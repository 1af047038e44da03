"""The command line by itself: what it says, how it ends, and what it costs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from edged.cli.main import VERBS
from tests.bench import command_line
from tests.promises import promise

AS_INSTALLED = Path(__file__).parents[2] / "packaging" / "edged.yaml"
# What a verb that talks to an engine must not load: upper floors and big libraries, and of the
# standard library what takes a tenth of such a verb's time or more.
HEAVY = {
    "aiohttp",
    "asyncio",
    "decimal",
    "difflib",
    "email",
    "http.client",
    "jsonschema",
    "pyvisa",
    "rich",
    "ruamel.yaml",
    "secrets",
    "ssl",
    "structlog",
    "edged.instruments",
    "edged.patterns",
    "edged.profiles",
    "edged.protocol",
    "edged.scpi",
    "edged.tools",
    "edged.engine",
    "edged.supervisor",
}


def edged(*words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return command_line.edged(*words, environ=environ)


def test_help_lists_every_verb() -> None:
    done = edged("--help")
    assert done.returncode == 0
    assert all(f"  {verb} " in done.stdout for verb in VERBS)


@promise("cli.exit-statuses")
@pytest.mark.parametrize(
    "words", [[], ["statsu"], ["status", "--nonsense"], ["engine", "--seed=1"]]
)
def test_usage_errors_end_with_2(words: list[str]) -> None:
    assert edged(*words).returncode == 2


@promise("cli.exit-statuses")
@promise("config.complaint")
def test_a_bad_configuration_ends_with_78_and_says_all(tmp_path: Path) -> None:
    path = tmp_path / "edged.yaml"
    path.write_text("MCP_PORT: 8767\nRCP_PORT: 1\nLOG_LEVEL: loud\n")
    for verb in ("engine", "status"):
        done = edged(verb, "--config", str(path))
        assert done.returncode == 78
        wrong = f"{path}:2: RCP_PORT is not a configuration key."
        assert f"{wrong} Did you mean RPC_PORT?" in done.stderr
        assert f"{path}:3: LOG_LEVEL must be debug, info" in done.stderr


@promise("cli.no-engine")
@promise("cli.exit-statuses")
@pytest.mark.parametrize(
    "words", [["status"], ["instruments"], ["scan"], ["call", "x", "a=1"], ["scpi", "psu", "*IDN?"]]
)
def test_without_an_engine_a_verb_says_so_and_ends_with_69(
    tmp_path: Path, words: list[str]
) -> None:
    done = edged(*words, "--state-dir", str(tmp_path))
    assert done.returncode == 69
    assert "No engine is running here" in done.stderr
    assert "edged engine" in done.stderr
    assert "Traceback" not in done.stderr


@promise("platform.macos-refused")
@pytest.mark.parametrize("verb", ["engine", "status", "config"])
def test_on_macos_every_verb_says_so_and_ends_with_69(verb: str) -> None:
    script = (
        "import sys\n"
        "from edged.cli.main import main\n"
        "sys.platform = 'darwin'\n"
        f"sys.exit(main([{verb!r}]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 69
    assert done.stderr.startswith("edged: edged does not run on macOS.")


def test_an_error_is_json_where_json_is_wanted(tmp_path: Path) -> None:
    done = edged("status", "--json", "--state-dir", str(tmp_path))
    assert json.loads(done.stdout)["error"]["code"] == "no_engine"


@pytest.mark.parametrize(
    "words",
    [
        ["status", "--timeout", "-1"],
        ["status", "--timeout", "nan"],
        ["status", "--watch", "inf"],
        ["sweep", "start", "psu1", "set_voltage", "nan", "1"],
        ["trace", "psu1", "--last", "0"],
    ],
)
def test_a_number_that_cannot_be_meant_is_told_before_anything_is_asked(words: list[str]) -> None:
    done = edged(*words)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "error: argument" in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="/dev/full and >&- are the shell's")
@pytest.mark.parametrize(
    ("redirected", "status"),
    [("--help >/dev/full", 1), ("doctor --json >/dev/full", 1), ("version >&-", 0)],
)
def test_output_that_cannot_be_written_is_a_sentence_and_no_traceback(
    tmp_path: Path, redirected: str, status: int
) -> None:
    line = f'"{sys.executable}" -m edged {redirected}'
    environ = {**os.environ, **command_line.NO_PROFILES, "EDGED_STATE_DIR": str(tmp_path)}
    done = subprocess.run(
        ["sh", "-c", line], capture_output=True, text=True, timeout=30, check=False, env=environ
    )
    assert done.returncode == status, done.stderr
    told = "edged: standard output: No space left on device\n" if status else ""
    assert done.stderr == told


def test_an_arrow_does_not_stop_a_verb_where_the_output_knows_no_arrows(tmp_path: Path) -> None:
    """As on Windows, where what goes into a file is in the machine's code page."""
    variable = {"PYTHONIOENCODING": "cp1252", **command_line.NO_PROFILES}
    # A process, because it is about a process's output.
    done = command_line.edged(
        "doctor", "--state-dir", str(tmp_path), environ=variable, cwd=tmp_path
    )
    assert done.returncode == 1
    assert "\\u2192 Start it" in done.stdout
    assert done.stderr == ""


@promise("cli.light")
@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["version"],
        ["status"],
        ["status", "--config", str(AS_INSTALLED)],
        ["call", "get_status"],
    ],
)
def test_a_verb_loads_nothing_heavy(tmp_path: Path, words: list[str]) -> None:
    more = ["--state-dir", str(tmp_path)] if words[0] in {"status", "call"} else []
    script = (
        "import sys\n"
        "from edged.cli.main import main\n"
        f"main({[*words, *more]!r})\n"
        "print('LOADED', *sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=30, check=True
    )
    *_, loaded = done.stdout.splitlines()
    assert HEAVY & set(loaded.split()) == set()


def test_config_shows_values_and_origins_but_no_secret() -> None:
    done = edged("config", "--json", "--set", "MCP_PORT=9", EDGED_INBOUND_AUTH_TOKEN="s3cret")
    shown = json.loads(done.stdout)
    assert shown["MCP_PORT"] == {"value": 9, "origin": "--set MCP_PORT"}
    assert shown["INBOUND_AUTH_TOKEN"]["origin"] == "EDGED_INBOUND_AUTH_TOKEN in the environment"
    assert "s3cret" not in done.stdout


def test_config_fits_a_hundred_columns_and_shows_the_directories_that_are_not_there() -> None:
    short = {"EDGED_STATE_DIR": "/tmp/s", "EDGED_DATA_DIR": "/tmp/d", "EDGED_BENCH_FILE": "/tmp/b"}
    dirs = {"EDGED_PROFILE_DIRS": "[/, /nowhere/p]", "EDGED_SDK_WRAPPER_DIRS": "[/]"}
    shown = edged("config", **short, **dirs).stdout
    assert "ALLOWED_NETWORKS" in shown
    assert max(map(len, shown.splitlines())) <= 100
    assert '["/", "/nowhere/p (not there yet)"]' in shown


def test_config_tells_of_an_unknown_profile_and_names_the_nearest() -> None:
    entry = "{address: 'TCPIP::127.0.0.1::9::SOCKET', profile: rigol_dp823}"
    done = edged("config", "--set", f"INSTRUMENTS=[{entry}]")
    assert 'rigol_dp823, which does not exist. Did you mean "rigol_dp832"?' in done.stderr


def test_version_is_the_packages() -> None:
    from edged import __version__

    assert f"edged {__version__} " in edged("--version").stdout


def test_a_closed_pipe_is_no_error() -> None:
    done = subprocess.run(
        f"{sys.executable} -m edged config | head -c 1",
        shell=True,
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert done.stderr == ""
