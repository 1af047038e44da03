"""The command line against a real engine on its simulated bench."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import shlex
import signal
import subprocess
import sys
import tomllib
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from edged.cli.connect import CLIENTS
from edged.operations.bench import InstrumentList
from tests.bench import command_line
from tests.bench.command_line import NO_PROFILES
from tests.bench.engine import Engine, running_engine
from tests.bench.engine_process import engine_process
from tests.bench.waiting import HANGS_S, wait_for
from tests.promises import promise

TOKEN = "s3cret-of-the-test"


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with running_engine(tmp_path_factory.mktemp("cli")) as running:
        yield running


def edged(
    state_dir: Path, *words: str, status: int = 0, environ: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    done = command_line.edged(*words, "--state-dir", str(state_dir), environ=environ)
    assert done.returncode == status, done.stderr + done.stdout
    assert "Traceback" not in done.stderr
    return done


def as_json(engine: Engine, *words: str, status: int = 0) -> Any:
    return json.loads(edged(engine.state_dir, *words, "--json", status=status).stdout)


def test_status_and_instruments_tell_of_the_bench(engine: Engine) -> None:
    status = as_json(engine, "status")
    assert status["instrument_count"] == 3
    assert status["mcp"]["port"] == engine.ports["mcp_port"]
    shown = edged(engine.state_dir, "instruments").stdout
    assert len(shown.splitlines()) == 4
    assert "rigol_dp832" in shown
    assert [row["profile_name"] for row in as_json(engine, "instruments", "dp832")] == [
        "rigol_dp832"
    ]
    assert as_json(engine, "scan") == []


@promise("cli.status-glance")
def test_what_waits_for_a_line_and_who_is_locked_out_stand_under_what_people_call_it(
    engine: Engine,
) -> None:
    call = {"instrument_id": "dmm1", "command_name": "measure_dc_voltage"}
    edged(engine.state_dir, "lockout", "psu1", "--reason", "hands inside", "--by", "anna")
    engine.sim("fault", instrument="dmm1", kind="late", seconds=9, count=1)
    with ThreadPoolExecutor() as callers:
        answers = [callers.submit(engine.tool, "execute_command", **call) for _ in range(4)]

        def waiting() -> list[tuple[str, int]]:
            told = engine.tool("get_status")["result"]["waiting_calls"]
            return [(line["alias"], line["calls"]) for line in told]

        wait_for(lambda: waiting() == [("dmm1", 3)])
        shown = edged(engine.state_dir, "status").stdout
        engine.sim("clear")
        assert "dmm1: calls that wait for its line: 3" in shown
        assert "psu1: locked out by anna: hands inside" in shown
        assert all(answer.result()["result"]["success"] for answer in answers)
    assert engine.tool("get_status")["result"]["waiting_calls"] == []
    doctor = edged(engine.state_dir, "doctor", "--json", environ=NO_PROFILES)
    (line,) = [
        check["found"]
        for check in json.loads(doctor.stdout)["checks"]
        if check["check"] == "lockouts"
    ]
    assert line.startswith("Locked out: psu1 (TCPIP::127.0.0.1::")
    edged(engine.state_dir, "lockout", "psu1", "--clear")


@promise("cli.typed-arguments")
def test_a_call_is_typed_by_the_tools_own_schema(engine: Engine) -> None:
    answer = as_json(engine, "call", "rigol_dp832__set_voltage", "channel=2", "voltage=2.5")
    assert answer["success"] is True
    assert answer["scpi_command"].startswith(":SOUR2:VOLT 2.5")
    parameters = ["parameters.channel=2", "parameters.voltage=3"]
    words = ["command_name=set_voltage", *parameters]
    answer = as_json(engine, "call", "execute_command", "instrument_id=psu1", *words)
    assert answer["scpi_command"].startswith(":SOUR2:VOLT 3")


@promise("cli.typed-arguments")
def test_every_verb_types_its_words_by_the_schema_of_the_command(engine: Engine) -> None:
    """nplc is one of a few texts: what was guessed to be a number was refused."""
    fast = ("dmm1", "measure_dc_voltage", "nplc=0.2")
    stream = as_json(engine, "stream", "start", *fast, "--interval", "100", "--duration", "300")
    assert (stream["status"], stream["error"]) == ("ended", "")
    ramp = ("psu1", "set_voltage", "0.1", "1", "channel=1", "--measure", *fast)
    sweep = as_json(engine, "sweep", "start", *ramp, "--then", "abort")
    assert (sweep["error"], sweep["rows"] > 0) == (None, True)
    named = ("instrument_id=dmm1", "command_name=measure_dc_voltage", "parameters.nplc=0.2")
    assert as_json(engine, "call", "execute_command", *named)["success"]
    wrong = {
        ("stream", "start", "dmm1", "measure_dc_voltage", "npcl=0.2"): (1, "Did you mean nplc?"),
        ("stream", "start", "dmm1", "measure_dc_voltage", "nplc=0.3"): (1, '"0.02", "0.2", "1"'),
        ("sequence", "start", "psu1", "iv_curve", "pionts=3"): (1, "Did you mean points?"),
        ("sequence", "start", "psu1", "iv_curve", "stop=two"): (2, "a number from 0 to 32"),
        ("sweep", "start", *ramp[:4], "channel=x"): (2, "a whole number from 1 to 3"),
    }
    for words, (ended_with, said) in wrong.items():
        assert said in edged(engine.state_dir, *words, status=ended_with).stderr, words


@promise("cli.exit-statuses")
def test_a_refused_call_ends_with_1_and_names_the_bound(engine: Engine) -> None:
    words = ["call", "rigol_dp832__set_voltage", "channel=1", "voltage=61"]
    done = edged(engine.state_dir, *words, status=1)
    assert "61" in done.stderr
    assert "32" in done.stderr
    told = as_json(engine, *words, status=1)
    assert told["error"]["code"] == "bad_arguments"


@promise("cli.exit-statuses")
def test_an_argument_of_the_wrong_type_ends_with_2(engine: Engine) -> None:
    done = edged(engine.state_dir, "call", "rigol_dp832__set_voltage", "voltage=five", status=2)
    assert "voltage must be a number" in done.stderr


def test_an_unknown_tool_is_answered_by_the_engine(engine: Engine) -> None:
    done = edged(engine.state_dir, "call", "no_such_tool", "a=1", status=1)
    assert "no_such_tool" in done.stderr


def test_an_error_is_told_once_with_the_data_of_the_error_alone(engine: Engine) -> None:
    raw = edged(engine.state_dir, "scpi", "psu1", "NO:SUCH 1", status=1)
    assert raw.stderr.count("edged: ") == 1
    assert "Undefined header" in raw.stderr
    lost = as_json(engine, "runs", "show", "nowhere", status=1)["error"]
    assert lost["code"] == "unknown_run"
    assert lost["data"] == {"run_id": "nowhere"}


def test_an_export_that_has_no_place_is_a_sentence(engine: Engine, tmp_path: Path) -> None:
    place = tmp_path / "nowhere" / "audit.csv"
    done = edged(engine.state_dir, "audit", "export", "--output", str(place), status=1)
    assert done.stderr == f"edged: {place} cannot be written: No such file or directory.\n"


def test_a_raw_line_gets_its_answer_alone(engine: Engine) -> None:
    done = edged(engine.state_dir, "scpi", "psu1", "*IDN?")
    assert done.stdout.startswith("RIGOL TECHNOLOGIES,DP832")
    assert len(done.stdout.splitlines()) == 1


@promise("rpc.token-of-client")
def test_the_token_is_taken_from_the_configuration(tmp_path: Path) -> None:
    with running_engine(
        tmp_path, "--instruments", "psu1", config={"INBOUND_AUTH_TOKEN": TOKEN}
    ) as engine:
        done = edged(engine.state_dir, "status", status=1)
        assert "INBOUND_AUTH_TOKEN" in done.stderr
        edged(engine.state_dir, "status", environ={"EDGED_INBOUND_AUTH_TOKEN": TOKEN})
        assert TOKEN not in engine.log.read_text()


@promise("cli.no-engine")
def test_a_killed_engine_is_told_from_a_running_one(tmp_path: Path) -> None:
    with engine_process(tmp_path, "--instruments", "psu1") as engine:
        engine.process.kill()
        engine.process.wait()
        done = edged(engine.state_dir, "status", status=69)
        assert f"PID {engine.process.pid}" in done.stderr


@promise("cli.exit-statuses")
def test_a_second_engine_in_one_state_directory_ends_with_69(engine: Engine) -> None:
    words = ["engine", "--mcp-port", "0", "--rpc-port", "0", "--set", "DISCOVERY=[]"]
    done = edged(engine.state_dir, *words, status=69)
    assert f"PID {engine.ports['pid']}" in done.stderr


def test_a_sweep_is_watched_to_its_end_and_parked_or_stopped_by_its_id(
    engine: Engine,
) -> None:
    words = ("sweep", "start", "psu1", "set_voltage", "0.4", "1", "channel:=1")
    shown = edged(engine.state_dir, *words, "--measure", "psu1", "measure_voltage").stdout
    assert "completed  0.4 of 0.4 V" in shown
    assert "recorded" in shown
    told = as_json(engine, "sweep", "start", "psu1", "set_voltage", "30", "1", "--detach")
    sweep_id = told["sweep_id"]
    assert as_json(engine, "sweep", "status")[0]["sweep_id"] == sweep_id
    assert as_json(engine, "sweep", "stop", sweep_id, "--hold")["status"] == "holding"
    assert as_json(engine, "sweep", "status", sweep_id, "--points", "5")["status"] == "holding"
    assert "stopped" in edged(engine.state_dir, "sweep", "stop", sweep_id).stdout


@promise("cli.every-wish")
def test_a_sweep_is_read_at_points_and_made_safe_at_its_target(engine: Engine) -> None:
    words = ["sweep", "start", "psu1", "set_voltage", "0.4", "2", "channel:=1"]
    wishes = ["--points", "3", "--spacing", "linear", "--dwell", "50", "--then", "abort"]
    measured = ["--measure", "psu1", "measure_voltage", "channel=1"]
    edged(engine.state_dir, "sweep", "start", "psu1", "set_voltage", "0", "20", "channel:=1")
    told = as_json(engine, *words, *wishes, *measured)
    assert (told["status"], told["reason"], told["rows"]) == ("stopped", "target reached", 3)
    assert told["abort"]["state"] == "done"
    kept = as_json(engine, "sweep", "status", told["sweep_id"], "--points", "3")
    assert [row["set"] for row in kept["points"]] == [0.0, 0.2, 0.4]
    spaced = edged(engine.state_dir, *words, "--spacing", "log", status=2)
    assert "--points" in spaced.stderr


@promise("cli.every-wish")
def test_a_sequence_shows_its_table_and_what_is_to_be_said_of_it(engine: Engine) -> None:
    words = ["sequence", "start", "psu1", "iv_curve", "channel=1", "settle_ms=20"]
    words += ["stop=3", "points=4", "current_limit=0.01"]
    shown = edged(engine.state_dir, *words).stdout
    assert "LIMITED" in shown.splitlines()[0]
    assert "the current limit was reached at 3 of 4 points" in shown
    assert "recorded" in shown
    refused = edged(engine.state_dir, *words[:-3], "stop=300", status=1)
    assert "32 V" in refused.stderr


@promise("cli.every-wish")
def test_a_detached_sequence_is_listed_and_ended_by_its_id(engine: Engine) -> None:
    words = ["sequence", "start", "psu1", "iv_curve", "channel=1", "stop=3", "points=500"]
    run_id = as_json(engine, *words, "--detach")["run_id"]
    assert [run["run_id"] for run in as_json(engine, "sequence", "list")] == [run_id]
    assert run_id in edged(engine.state_dir, "sequence", "stop", run_id).stdout
    assert "no sequence runs" in edged(engine.state_dir, "sequence", "list").stdout


@promise("cli.every-wish")
def test_a_sequence_that_is_interrupted_leaves_its_output_off(engine: Engine) -> None:
    words = ["sequence", "start", "psu1", "iv_curve", "channel=1", "stop=3", "points=500"]
    command = [sys.executable, "-m", "edged", *words, "--state-dir", str(engine.state_dir)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as started:
        wait_for(lambda: engine.tool("get_status")["result"]["sequences"])
        started.send_signal(signal.SIGINT)
        assert started.wait(HANGS_S) == 130
    wait_for(lambda: not engine.tool("get_status")["result"]["sequences"])
    off = engine.tool(
        "execute_command",
        instrument_id="psu1",
        command_name="get_output",
        parameters={"channel": 1},
    )
    assert off["result"]["data"] is False


@promise("dry-run.every-road")
@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["call", "rigol_dp832__output_on", "channel=1"], ":OUTP CH1,ON"),
        (["scpi", "psu1", ":OUTP CH1,ON"], ":OUTP CH1,ON"),
        (["sweep", "start", "psu1", "set_voltage", "9", "1", "channel=1"], ":SOUR1:VOLT 9.000"),
        (["sequence", "start", "psu1", "iv_curve", "channel=1", "stop=9"], ":SOUR1:VOLT 9.000"),
    ],
)
def test_a_verb_that_writes_can_tell_what_it_would_send(
    engine: Engine, words: list[str], line: str
) -> None:
    def held() -> list[Any]:
        return [
            engine.tool("send_scpi", instrument_id="psu1", scpi_command=asked)["result"]["response"]
            for asked in (":SOUR1:VOLT?", ":OUTP? CH1")
        ]

    before = held()
    shown = edged(engine.state_dir, *words, "--dry-run").stdout
    assert f"  {line}\n" in shown
    assert "checked:\n  yes    psu1 is connected\n" in shown
    assert shown.endswith("nothing was sent\n")
    assert line in as_json(engine, *words, "--dry-run")["would_send"]
    assert held() == before


def test_stop_makes_the_bench_safe_and_says_what_was_confirmed(engine: Engine) -> None:
    engine.tool(
        "execute_command",
        instrument_id="psu1",
        command_name="output_on",
        parameters={"channel": 1},
    )
    shown = edged(engine.state_dir, "stop").stdout
    assert ":OUTP? CH1 OFF" in shown
    assert as_json(engine, "stop")["is_confirmed"] is True


def test_a_stop_that_is_to_last_asks_for_no_words(engine: Engine) -> None:
    kept = as_json(engine, "stop", "--lockout")
    assert kept["is_confirmed"] is True
    locked = as_json(engine, "lockout")
    assert {one["instrument_id"] for one in locked} == {
        one["instrument_id"] for one in kept["instruments"]
    }
    assert {one["reason"] for one in locked} == {"everything was stopped"}
    assert all(one["by"] for one in locked)
    for one in locked:
        edged(engine.state_dir, "lockout", one["instrument_id"], "--clear")


def texts_of(value: Any) -> Iterator[str]:
    """Every text of a parsed file, wherever it stands."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from texts_of(one)


READ_AS: dict[str, Callable[[str], Any]] = {
    "claude": shlex.split,
    "codex": tomllib.loads,
    "pyvisa": lambda text: re.findall(r'"(.*)@edged"', text),
}
"""How what is printed for a client is read; for all others it is JSON."""


@pytest.mark.parametrize("client", CLIENTS)
def test_connect_prints_an_address_at_which_the_engine_answers(engine: Engine, client: str) -> None:
    printed = edged(engine.state_dir, "connect", client)
    parsed = READ_AS.get(client, json.loads)(printed.stdout)
    (url,) = [text for text in texts_of(parsed) if text.startswith("http://")]
    assert printed.stderr.startswith(CLIENTS[client].where)
    is_short = CLIENTS[client].tools is not None
    assert url == engine.mcp_url + ("?tools=essential" if is_short else "")
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=HANGS_S) as answer:
        names = {tool["name"] for tool in json.load(answer)["result"]["tools"]}
    assert "rigol_dp832__set_voltage" in names
    assert ("rigol_dp832__ovp_off" in names) is not is_short


def test_connect_lists_what_is_asked_for_instead_of_what_fits(engine: Engine) -> None:
    words = ("connect", "cursor", "--tools", "all", "--instrument", "psu1", "--json")
    told = json.loads(edged(engine.state_dir, *words).stdout)
    assert told["url"] == f"{engine.mcp_url}?tools=all&instrument=psu1"


@promise("names.fit")
def test_connect_warns_of_a_name_that_makes_the_names_of_tools_too_long(engine: Engine) -> None:
    for name, is_long in (("edged", False), ("lab", False), ("bench-of-alice", True)):
        printed = edged(engine.state_dir, "connect", "claude", "--name", name)
        assert ("64 characters" in printed.stderr) is is_long


def on_a_screen(state_dir: Path, width: int, *words: str) -> str:
    """What a verb prints on a terminal of that many columns."""
    ours, its = pty.openpty()
    environ = {**os.environ, "COLUMNS": str(width), "TERM": "dumb", "NO_COLOR": "1"}
    command = [sys.executable, "-m", "edged", *words, "--state-dir", str(state_dir)]
    with subprocess.Popen(command, stdout=its, stderr=subprocess.STDOUT, env=environ) as process:
        os.close(its)
        pieces = []
        # Linux tells the end of a pseudo-terminal as an error.
        with contextlib.suppress(OSError):
            while piece := os.read(ours, 65_536):
                pieces.append(piece)
    os.close(ours)
    assert process.returncode == 0, pieces
    return b"".join(pieces).decode().replace("\r\n", "\n")


LISTS = (
    ("runs", "list"),
    ("audit", "list", "--limit", "20"),
    ("stream", "list"),
    ("sweep", "status"),
    ("sequence", "list"),
    ("lease", "list"),
    ("lockout",),
    ("instruments",),
)


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """A bench on which something stands in every list but that of sequences."""
    with running_engine(tmp_path_factory.mktemp("busy")) as running:
        yield prepare(running)


def prepare(engine: Engine) -> Engine:
    long = {"interval_ms": 1_000, "duration_ms": 600_000, "detach": True}
    measure = {"instrument_id": "dmm1", "command_name": "measure_dc_voltage"}
    assert engine.tool("start_stream", **measure, **long)["is_error"] is False
    ramp = {"command_name": "set_voltage", "parameters": {"channel": 1}}
    rate = {"target_value": 5, "sweep_rate": 0.01}
    assert engine.tool("start_sweep", instrument_id="psu1", **ramp, **rate)["is_error"] is False
    edged(engine.state_dir, "lease", "reserve", "scope1", "--purpose", "burn-in over the night")
    edged(engine.state_dir, "lockout", "scope1", "--reason", "hands are inside", "--by", "anna")
    return engine


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("words", LISTS, ids=" ".join)
def test_no_text_of_a_list_runs_into_the_next(
    busy: Engine, words: tuple[str, ...], width: int
) -> None:
    shown = on_a_screen(busy.state_dir, width, *words)
    lines = shown.splitlines()
    rule = next((number for number, line in enumerate(lines) if set(line.strip()) == {"─"}), None)
    if rule is None:
        # A block for each row: name, two blanks, value.
        assert all(re.match(r"\S.*?(  |$)", line) for line in lines if line), shown
        return
    assert max(map(len, lines)) <= width, shown


def test_lists_name_instruments_as_people_do_and_tell_since_when(busy: Engine) -> None:
    streams = edged(busy.state_dir, "stream", "list").stdout
    assert re.search(r"  dmm1  .*  (\d\d:\d\d:\d\d|yesterday \d\d:\d\d) \(\d+ \w+ ago\)", streams)
    for words, name in {
        ("sweep", "status"): "psu1",
        ("runs", "list"): "dmm1",
        ("audit", "list"): "dmm1",
        ("lease", "list"): "scope1",
        ("lockout",): "scope1",
    }.items():
        shown = edged(busy.state_dir, *words).stdout
        assert name in shown, shown
        assert "TCPIP::" not in shown, shown
    assert as_json(busy, "stream", "list")[0]["instrument_id"].startswith("TCPIP::")
    shown = as_json(busy, "runs", "list")[0]
    assert shown["instrument_id"].startswith("TCPIP::")
    assert isinstance(shown["started_ms"], int)


@pytest.mark.parametrize(
    "words",
    [
        ("status",),
        ("lockout",),
        ("lease", "list"),
        ("bench", "show"),
        ("audit", "list", "--instrument", "psu1"),
    ],
    ids=" ".join,
)
def test_a_verb_says_that_the_list_of_instruments_failed(
    busy: Engine, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_listing: InstrumentList) -> None:
        raise RuntimeError("broken for a test")

    monkeypatch.setattr(InstrumentList, "all", broken)
    done = command_line.edged(*words, "--state-dir", str(busy.state_dir))
    assert done.returncode != 0
    assert "An internal error occurred" in done.stderr
