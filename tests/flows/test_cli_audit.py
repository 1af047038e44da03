"""Record, lockout, trace, completion and doctor on the command line, against a real engine."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edged.actions.outcome import OutcomeStatus
from tests.bench import command_line
from tests.bench.command_line import NO_PROFILES
from tests.bench.engine import Engine, running_engine
from tests.bench.engine_process import REPOSITORY, engine_process
from tests.promises import promise

EDGED = (sys.executable, "-m", "edged")
TOKEN = "a-token-of-this-test"


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with running_engine(tmp_path_factory.mktemp("audit")) as running:
        yield running


def edged(state_dir: Path, *words: str, status: int = 0, **environ: str) -> Any:
    done = command_line.edged(*words, "--state-dir", str(state_dir), environ=environ)
    assert done.returncode == status, done.stderr + done.stdout
    assert "Traceback" not in done.stderr
    return done


def as_json(engine: Engine, *words: str, status: int = 0) -> Any:
    return json.loads(edged(engine.state_dir, *words, "--json", status=status).stdout)


def supply(engine: Engine) -> str:
    (row,) = engine.tool("list_instruments", filter="DP832")["result"]
    return str(row["id"])


def set_voltage(engine: Engine, volts: float) -> Any:
    return engine.tool(
        "execute_command",
        instrument_id="psu1",
        command_name="set_voltage",
        parameters={"channel": 1, "voltage": volts},
    )


@pytest.mark.parametrize("outcome", OutcomeStatus)
def test_rows_are_asked_for_by_every_outcome_that_there_is(
    engine: Engine, outcome: OutcomeStatus
) -> None:
    rows = as_json(engine, "audit", "list", "--outcome", outcome.value)
    assert {row["outcome"] for row in rows} <= {outcome.value}


@promise("audit.command-line")
def test_the_record_is_listed_by_what_is_wanted_and_verified(engine: Engine) -> None:
    assert not set_voltage(engine, 1.5)["is_error"]
    assert set_voltage(engine, 99)["is_error"]
    rows = as_json(engine, "audit", "list", "--instrument", "psu1", "--since", "10m")
    assert [(row["phase"], row["outcome"]) for row in rows][-3:] == [
        ("intent", ""),
        ("end", "ok"),
        ("refusal", "refused"),
    ]
    assert ":SOUR1:VOLT 1.5" in rows[-2]["scpi"] or "1.5" in rows[-2]["scpi"]
    refused = as_json(engine, "audit", "list", "--outcome", "refused", "--caller", "rpc")
    assert {row["outcome"] for row in refused} == {"refused"}
    shown = edged(engine.state_dir, "audit", "list", "--limit", "9").stdout
    assert "execute_command" in shown
    assert as_json(engine, "audit", "verify")["is_intact"]
    edged(engine.state_dir, "audit", "list", "--since", "yesterday-ish", status=1)


@promise("audit.command-line")
def test_the_file_of_a_running_engine_is_left_to_the_engine(tmp_path: Path) -> None:
    # Within one process SQLite's locks exclude nobody.
    with engine_process(tmp_path) as engine:
        database = str(engine.state_dir / "edged.db")
        told = edged(engine.state_dir, "audit", "verify", "--file", database, status=1)
    assert "in use by a running engine" in told.stderr


def test_the_record_is_exported_as_lines_and_as_csv(engine: Engine, tmp_path: Path) -> None:
    set_voltage(engine, 1)
    lines = edged(engine.state_dir, "audit", "export", "--tool", "execute_command").stdout
    rows = [json.loads(line) for line in lines.splitlines()]
    assert {row["tool"] for row in rows} == {"execute_command"}
    file = tmp_path / "audit.csv"
    edged(engine.state_dir, "audit", "export", "--format", "csv", "--output", str(file))
    assert file.read_text().startswith("seq,time_ms,phase,")
    assert len(file.read_text().splitlines()) > len(rows)


@promise("audit.command-line")
@promise("callers.named")
def test_rows_are_followed_as_they_come(engine: Engine) -> None:
    follower = subprocess.Popen(
        [*EDGED, "audit", "follow", "--state-dir", str(engine.state_dir)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=REPOSITORY,
    )
    assert follower.stdout is not None
    try:
        # Rows come a quarter of a second late: those of the verb before this may be among them.
        opening = next(line for line in follower.stdout if "/events" in line)
        assert "edged audit follow at 127.0.0.1" in opening
        engine.tool("get_status")
        assert any("get_status" in line for line in follower.stdout)
    finally:
        follower.terminate()
        follower.wait(5)
        follower.stdout.close()


@promise("lockout.refuses-writes")
def test_a_locked_out_instrument_takes_reads_and_safe_commands_only(engine: Engine) -> None:
    stream = engine.tool(
        "start_stream",
        instrument_id="psu1",
        command_name="measure_voltage",
        parameters={"channel": 1},
        duration_ms=60_000,
        detach=True,
    )["result"]["stream_id"]
    told = as_json(engine, "lockout", "psu1", "--reason", "hands in the fixture", "--by", "anna")
    assert (told["stopped"], told["is_persisted"]) == ([stream], True)
    refused = set_voltage(engine, 2)
    assert refused["error"]["code"] == "locked_out"
    assert "anna: hands in the fixture" in refused["error"]["message"]
    for command, parameters in (
        ("measure_voltage", {"channel": 1}),
        ("output_off", {"channel": 1}),
    ):
        done = engine.tool(
            "execute_command",
            instrument_id="psu1",
            command_name=command,
            parameters=parameters,
        )
        assert not done["is_error"], done
    (row,) = engine.tool("list_instruments", filter="DP832")["result"]
    assert row["lockout"]["reason"] == "hands in the fixture"
    assert as_json(engine, "status")["lockouts"][0]["by"] == "anna"
    assert "hands in the fixture" in edged(engine.state_dir, "lockout").stdout
    assert "FAIL" not in edged(engine.state_dir, "doctor", **NO_PROFILES).stdout
    edged(engine.state_dir, "lockout", "psu1", "--clear")
    assert not set_voltage(engine, 2)["is_error"]
    edged(engine.state_dir, "lockout", "psu1", "--clear", status=1)


def test_the_line_of_an_instrument_is_shown_byte_for_byte(engine: Engine) -> None:
    set_voltage(engine, 1.25)
    shown = edged(engine.state_dir, "trace", "psu1").stdout
    assert "1.25" in shown
    assert {"sent", "received"} <= {e["direction"] for e in as_json(engine, "trace", "psu1")}


def completed(state_dir: Path, *words: str) -> list[str]:
    """What bash offers for the last of these words, with the script that edged prints."""
    script = edged(state_dir, "completion", "bash").stdout
    caller = f'edged() {{ "{sys.executable}" -m edged "$@" --state-dir "{state_dir}"; }}'
    typed = " ".join(shlex.quote(word) for word in ("edged", *words))
    asked = (
        f"{caller}\n{script}\nCOMP_WORDS=({typed}) COMP_CWORD={len(words)}\n"
        '_edged; echo "${COMPREPLY[*]}"'
    )
    done = subprocess.run(
        ["bash"], input=asked, text=True, capture_output=True, check=True, cwd=REPOSITORY
    )
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("doc",), {"doctor"}),
        (("call", "get_st"), {"get_status"}),
        (("trace", "ps"), {"psu1"}),
        (("audit", ""), {"list", "follow", "verify", "export"}),
        (("audit", "export", "--f"), {"--format"}),
        (("audit", "export", "--format", ""), {"jsonl", "csv"}),
        (("instruments", "--w"), {"--watch"}),
        (("stop", "--lo"), {"--lockout"}),
        (("sweep", "start", "ps"), {"psu1"}),
    ],
)
def test_bash_completes_verbs_options_their_values_tools_and_instruments(
    engine: Engine, words: tuple[str, ...], offered: set[str]
) -> None:
    assert set(completed(engine.state_dir, *words)) == offered


def test_zsh_takes_the_same_script(engine: Engine) -> None:
    script = edged(engine.state_dir, "completion", "zsh").stdout
    assert "bashcompinit" in script
    subprocess.run(["bash", "-n"], input=script, text=True, check=True)


def test_status_is_shown_again_and_again_until_it_is_interrupted(engine: Engine) -> None:
    watcher = subprocess.Popen(
        [*EDGED, "instruments", "--watch", "0.1", "--state-dir", str(engine.state_dir)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=REPOSITORY,
    )
    assert watcher.stdout is not None
    try:
        heads = 0
        while heads < 3:
            heads += watcher.stdout.readline().startswith("ID ")
    finally:
        watcher.terminate()
        watcher.wait(5)
        watcher.stdout.close()


@promise("doctor.engine-down")
def test_doctor_and_verify_work_without_an_engine_and_follow_says_that_there_is_none(
    tmp_path: Path,
) -> None:
    with engine_process(tmp_path, config={"INBOUND_AUTH_TOKEN": TOKEN}) as running:
        environ = {"EDGED_INBOUND_AUTH_TOKEN": TOKEN}
        told = edged(running.state_dir, "doctor", "--json", **environ, **NO_PROFILES)
        verdicts = {line["check"]: line["verdict"] for line in json.loads(told.stdout)["checks"]}
        assert verdicts["engine"] == verdicts["MCP listener"] == verdicts["RPC"] == "PASS"
        edged(running.state_dir, "doctor", status=1, **NO_PROFILES)
        edged(running.state_dir, "audit", "follow", status=1, EDGED_INBOUND_AUTH_TOKEN="wrong")
        assert running.stop() == 0
    told = edged(running.state_dir, "doctor", "--json", status=1, **NO_PROFILES)
    verdicts = {line["check"]: line["verdict"] for line in json.loads(told.stdout)["checks"]}
    assert verdicts["engine"] == "FAIL"
    assert verdicts["database"] == "PASS"
    report = json.loads(edged(running.state_dir, "audit", "verify", "--json").stdout)
    assert report["is_intact"]
    edged(running.state_dir, "audit", "follow", status=69)
