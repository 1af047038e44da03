"""``edged experiment`` against an engine with a simulated bench."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from edged.experiments.examples import EXAMPLES
from edged.experiments.schema import experiment_schema, grammar_text
from edged.host import ExitStatus
from tests.bench import command_line
from tests.bench.engine import Engine, running_engine
from tests.bench.mcp_client import McpClient
from tests.bench.waiting import HANGS_S, first

BENCH = "smu1=keithley_2400,smu2=keithley_2400,psu1=rigol_dp832,dmm1=keysight_34461a"
WAITS = """format: 1
experiment: waits
roles: {supply: psu1}
steps:
  - {ask: go, text: "Go on?", type: confirm, timeout_s: 600}
  - {wait_s: 0.1}
"""
CHECKS = """format: 1
experiment: checks
roles: {supply: psu1}
parameters: {most: {type: float, min: 0, max: 9, default: 1}}
steps:
  - {let: {x: 2}}
  - {check: size, value: "{x}", max: "{most}"}
"""


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    place = tmp_path_factory.mktemp("experiment")
    saved = place / "saved"
    saved.mkdir()
    (saved / "warm_up.yaml").write_text(EXAMPLES["log"])
    config = {"EXPERIMENT_DIRS": [str(saved)]}
    with running_engine(place, "--instruments", BENCH, config=config) as running:
        yield running


def edged(engine: Engine, *words: str, status: int = 0) -> subprocess.CompletedProcess[str]:
    done = command_line.edged("experiment", *words, "--state-dir", str(engine.state_dir))
    assert done.returncode == status, done.stderr + done.stdout
    assert "Traceback" not in done.stderr
    return done


def written(directory: Path, text: str) -> str:
    path = directory / "plan.yaml"
    path.write_text(text)
    return str(path)


def state_of(engine: Engine, run_id: str) -> dict[str, Any]:
    found: dict[str, Any] = engine.tool("bench__control_run", run_id=run_id)["result"]
    return found


def started(engine: Engine, file: str) -> str:
    done = edged(engine, "start", file, "--detach", "--json")
    return str(json.loads(done.stdout)["run_id"])


def answer(engine: Engine, run_id: str, value: str) -> None:
    """Answer the open question; within 0.3 s of it that is refused."""
    words = ("experiment", "answer", run_id, value, "--state-dir", str(engine.state_dir))
    first(lambda: command_line.edged(*words).returncode == 0)


@pytest.mark.parametrize("kind", EXAMPLES)
def test_each_plan_to_begin_with_passes_the_check(
    engine: Engine, tmp_path: Path, kind: str
) -> None:
    assert command_line.edged("experiment", "new", kind).stdout == EXAMPLES[kind]
    file = str(tmp_path / "new.yaml")
    new = ("experiment", "new", kind, "--output", file)
    assert command_line.edged(*new).returncode == ExitStatus.OK
    assert command_line.edged(*new).returncode == ExitStatus.USAGE
    shown = edged(engine, "check", file).stdout
    assert "It sends these commands:\n" in shown


def test_a_map_runs_and_is_followed_to_its_end(engine: Engine, tmp_path: Path) -> None:
    file = written(tmp_path, EXAMPLES["map"])
    shown = edged(engine, "start", file, "v_max=0.5").stdout
    assert "role gate      smu1 (keithley_2400)\n" in shown
    assert "state       completed\n" in shown
    told = json.loads(edged(engine, "list", "--json").stdout)[0]
    assert (told["command_name"], told["status"], told["rows"]) == (
        "transistor_map",
        "completed",
        55,
    )


def test_every_error_of_a_plan_names_file_line_and_path(engine: Engine, tmp_path: Path) -> None:
    text = EXAMPLES["map"].replace("gate.output_on", "gate.output_no")
    file = written(tmp_path, text.replace("drain.set_voltage\n", "drain.set_volts\n"))
    said = edged(engine, "check", file, status=ExitStatus.USAGE).stderr.splitlines()
    line = next(n for n, one in enumerate(text.splitlines(), 1) if "gate.output_no" in one)
    assert said[0].startswith(f"{file}:{line}:6: steps[2].command: gate.output_no: ")
    assert said[0].endswith("Write gate.output_on.")
    assert f"{file}:19:9: steps[4].steps[0].set: drain.set_volts: " in said[1]
    before = edged(engine, "list", "--json").stdout
    edged(engine, "start", file, status=ExitStatus.USAGE)
    assert edged(engine, "list", "--json").stdout == before


def test_roles_and_parameters_can_be_given(engine: Engine, tmp_path: Path) -> None:
    file = written(tmp_path, EXAMPLES["map"])
    shown = edged(engine, "check", file, "v_max=2", "--role", "gate=smu2", "--role", "drain=smu1")
    assert "role gate      smu2 (keithley_2400)\n" in shown.stdout
    assert "set_voltage (voltage 0 … 2 V), ramped at most at" in shown.stdout
    edged(engine, "check", file, "v_max=9", status=ExitStatus.USAGE)
    edged(engine, "check", file, "--role", "gate", status=ExitStatus.USAGE)
    edged(engine, "check", str(tmp_path / "missing.yaml"), status=ExitStatus.USAGE)


def test_a_saved_experiment_is_found_by_its_name(engine: Engine) -> None:
    assert "warm_up" in edged(engine, "check", "warm_up").stdout
    said = edged(engine, "check", "warm_op", status=ExitStatus.ERROR).stderr
    assert 'Did you mean "warm_up"?' in said


@pytest.mark.parametrize(("most", "status"), [("3", 0), ("1", 1)])
def test_the_verdict_is_the_exit_status(
    engine: Engine, tmp_path: Path, most: str, status: int
) -> None:
    done = edged(engine, "start", written(tmp_path, CHECKS), f"most={most}", status=status)
    assert f"verdict     {'fail' if status else 'pass'}\n" in done.stdout


def test_a_detached_run_is_paused_noted_answered_and_ends(engine: Engine, tmp_path: Path) -> None:
    run_id = started(engine, written(tmp_path, WAITS))
    first(lambda: state_of(engine, run_id)["question"])
    assert "state       paused\n" in edged(engine, "pause", run_id).stdout
    edged(engine, "resume", "last")
    assert "a smell of burning" in edged(engine, "note", run_id, "a smell of burning").stdout
    edged(engine, "answer", run_id, "perhaps", status=ExitStatus.ERROR)
    edged(engine, "answer", run_id, "yes", "--question", "9", status=ExitStatus.ERROR)
    answer(engine, run_id, "yes")
    assert "state       completed\n" in edged(engine, "watch", run_id).stdout


def test_an_aborted_run_ends_with_3(engine: Engine, tmp_path: Path) -> None:
    run_id = started(engine, written(tmp_path, WAITS))
    assert "state       stopped\n" in edged(engine, "abort", run_id).stdout
    edged(engine, "watch", run_id, status=ExitStatus.STOPPED)
    edged(engine, "pause", run_id, status=ExitStatus.ERROR)
    edged(engine, "watch", "exp-00000000", status=ExitStatus.ERROR)


@contextlib.contextmanager
def on_a_terminal(engine: Engine, *words: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """The verb with a terminal of its own, and our end of it."""
    ours, its = pty.openpty()
    command = [sys.executable, "-m", "edged", "experiment", *words]
    command += ["--state-dir", str(engine.state_dir)]
    environ = {**os.environ, "COLUMNS": "100", "TERM": "dumb", "NO_COLOR": "1"}
    with subprocess.Popen(
        command, stdin=its, stdout=its, stderr=its, env=environ, start_new_session=True
    ) as process:
        os.close(its)
        try:
            yield process, ours
            process.wait(HANGS_S)
        finally:
            process.kill()
            os.close(ours)


def read_until(ours: int, words: str) -> str:
    said = b""
    with contextlib.suppress(OSError):
        while words.encode() not in said and (piece := os.read(ours, 65_536)):
            said += piece
    return said.decode()


def test_a_question_is_answered_on_the_terminal(engine: Engine, tmp_path: Path) -> None:
    file = written(tmp_path, WAITS)
    with on_a_terminal(engine, "start", file) as (process, ours):
        read_until(ours, "Go on? [yes/no]: ")
        os.write(ours, b"perhaps\n")
        assert "go is answered by yes or no" in read_until(ours, "Go on? [yes/no]: ")
        os.write(ours, b"yes\n")
        assert "completed" in read_until(ours, "elapsed_s")
    assert process.returncode == 0


def test_ctrl_c_leaves_the_run_alone_and_says_so(engine: Engine, tmp_path: Path) -> None:
    run_id = started(engine, written(tmp_path, WAITS))
    with on_a_terminal(engine, "watch", run_id) as (process, ours):
        read_until(ours, "Go on?")
        process.send_signal(signal.SIGINT)
        assert f"{run_id} continues in the engine" in read_until(ours, "ends it.")
    assert process.returncode == ExitStatus.INTERRUPTED
    assert state_of(engine, run_id)["state"] == "running"
    edged(engine, "abort", run_id)


def test_a_watcher_without_a_terminal_is_told_how_to_answer(engine: Engine, tmp_path: Path) -> None:
    run_id = started(engine, written(tmp_path, WAITS))
    said = f"Go on? [yes/no]  Answer it with: edged experiment answer {run_id} VALUE"
    words = ("experiment", "watch", run_id, "--state-dir", str(engine.state_dir))
    command = [sys.executable, "-m", "edged", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert said in process.stdout.readline()
        assert said in edged(engine, "pause", run_id).stdout
        edged(engine, "resume", run_id)
        answer(engine, run_id, "yes")
        assert "completed" in process.stdout.read()


def test_a_plan_to_begin_with_has_the_units_that_are_given() -> None:
    shown = command_line.edged("experiment", "new", "map", "--role", "gate=smu7").stdout
    assert "roles: {gate: smu7, drain: smu2}\n" in shown
    refused = command_line.edged("experiment", "new", "map", "--role", "base=smu7")
    assert (refused.returncode, refused.stdout) == (ExitStatus.USAGE, "")


def test_a_draft_of_what_was_sent_by_hand_passes_the_check(engine: Engine, tmp_path: Path) -> None:
    def send(unit: str, command: str, **parameters: Any) -> None:
        asked = {"instrument_id": unit, "command_name": command, "parameters": parameters}
        told = engine.tool("execute_command", **asked)
        assert not told["is_error"], told

    since = datetime.now().astimezone().isoformat()
    said = edged(engine, "from-history", "--since", since, status=ExitStatus.USAGE).stderr
    assert "No command was sent by hand" in said
    send("psu1", "output_on", channel=1)
    for voltage in (1, 2.5, 4):
        send("psu1", "set_voltage", channel=1, voltage=voltage)
        send("dmm1", "measure_dc_voltage")
        send("psu1", "measure_current", channel=1)
    engine.tool("send_scpi", instrument_id="dmm1", scpi_command="*CLS")
    send("psu1", "output_off", channel=1)
    file = str(tmp_path / "draft.yaml")
    done = edged(engine, "from-history", "--since", since, "--output", file)
    assert (done.stdout, done.stderr) == ("", "")
    text = Path(file).read_text()
    assert "    in: [1, 2.5, 4]\n" in text
    assert "  # send_scpi at dmm1: *CLS\n" in text
    assert text.endswith("finally:\n  - {command: psu1.output_off, parameters: {channel: 1}}\n")
    assert "points         3\n" in edged(engine, "check", file).stdout
    shown = edged(engine, "start", file).stdout
    assert "state       completed\n" in shown
    told = json.loads(edged(engine, "from-history", "--since", since, "--json").stdout)
    assert (told["plan"], told["ok"], told["points"]) == (text, True, 3)
    only = edged(engine, "from-history", "--since", since, "--unit", "dmm1").stdout
    assert "roles: {dmm1: dmm1}\n" in only
    edged(engine, "from-history", "--since", since, "--unit", "dmm7", status=ExitStatus.USAGE)


async def test_agents_read_the_grammar_the_schema_and_saved_experiments(engine: Engine) -> None:
    client = McpClient(engine.ports["mcp_port"], engine.ports["mcp_path"])
    await client.initialize("2025-11-25")

    async def read(uri: str) -> tuple[str, str]:
        answer = await client.request("resources/read", {"uri": uri})
        (content,) = answer.json()["result"]["contents"]
        return content["mimeType"], content["text"]

    assert await read("edged://experiments/grammar") == ("text/markdown", grammar_text())
    mime_type, schema = await read("edged://experiments/schema")
    assert (mime_type, json.loads(schema)) == ("application/schema+json", experiment_schema())
    saved = await read("edged://experiments/saved/warm_up")
    assert saved == ("application/yaml", EXAMPLES["log"])
    asked = {
        "ref": {"type": "ref/resource", "uri": "edged://experiments/saved/{experiment_name}"},
        "argument": {"name": "experiment_name", "value": "warm"},
    }
    answer = await client.request("completion/complete", asked)
    assert answer.json()["result"]["completion"]["values"] == ["warm_up"]
