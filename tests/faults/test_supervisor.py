"""A real supervisor with its engine on a simulated bench that outlives both."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import psutil

from tests.bench.engine_process import REPOSITORY
from tests.bench.sim_bench import SimBench, running_bench
from tests.bench.supervised import EDGED, Supervised, supervised
from tests.bench.waiting import HANGS_S, wait_for
from tests.promises import promise


def aborts(bench: SimBench, since: int) -> list[float]:
    return [
        float(entry["t"])
        for entry in bench.log("psu1", since)
        if entry["direction"] == "in" and ":OUTP CH1,OFF" in entry["text"]
    ]


@promise("supervisor.abort-after-kill")
def test_after_a_kill_of_the_engine_the_abort_reaches_the_instrument_within_three_seconds(
    tmp_path: Path,
) -> None:
    # The fastest of three: what other programs on a test machine take is none of the engine's time.
    with running_bench("--instruments", "psu1") as bench, supervised(tmp_path, bench) as one:
        assert any(kill_in_a_sweep(one, bench) < 3.0 for _ in range(3))


def kill_in_a_sweep(one: Supervised, bench: SimBench) -> float:
    """Seconds from the kill to the abort at the instrument."""
    start_sweep(one, bench)
    mark = bench.mark()
    killed = time.monotonic()
    os.kill(one.facts()["pid"], signal.SIGKILL)
    wait_for(lambda: aborts(bench, mark))
    spent = time.monotonic() - killed
    wait_for(one.connected)
    return spent


def start_sweep(one: Supervised, bench: SimBench) -> str:
    """The id of a sweep that moves and lasts."""
    begun = bench.mark()
    started = one.engine().tool(
        "start_sweep",
        instrument_id="psu1",
        command_name="set_voltage",
        parameters={"channel": 1},
        target_value=5.0,
        sweep_rate=0.5,
    )
    assert not started["is_error"], started
    wait_for(lambda: any("VOLT 0." in text for text in bench.received("psu1", since=begun)))
    return str(started["result"]["sweep_id"])


@promise("restart.when-idle")
def test_a_restart_when_idle_waits_for_a_sweep_and_begins_both_programs_anew(
    tmp_path: Path,
) -> None:
    with running_bench("--instruments", "psu1") as bench, supervised(tmp_path, bench) as one:
        sweep = start_sweep(one, bench)
        impatient = edged_restart(tmp_path, "--within", "1")
        assert sweep in impatient.communicate(timeout=20)[1]
        assert impatient.returncode == 1
        old = one.facts()["pid"]
        supervisor = psutil.Process(one.process.pid)
        held_before = supervisor.create_time()
        waiting = edged_restart(tmp_path)
        assert waiting.stderr is not None
        assert sweep in waiting.stderr.readline()
        assert one.facts()["pid"] == old
        assert not aborts(bench, 0)
        one.engine().tool("stop_sweep", sweep_id=sweep)
        out, errors = waiting.communicate(timeout=30)
        assert waiting.returncode == 0, errors
        assert f"PID {one.facts()['pid']}" in out
        assert one.facts()["pid"] != old
        # The same process, with another program begun in it.
        assert supervisor.create_time() == held_before
        wait_for(one.connected)
        wait_for(lambda: (tmp_path / "supervisor.json").exists())


def edged_restart(directory: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*EDGED, "restart", "--when-idle", "--config", str(directory / "edged.yaml"), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=REPOSITORY,
    )


@promise("proxy.peer-in-audit")
def test_the_audit_names_the_client_behind_the_proxy_and_whose_token_it_was(
    tmp_path: Path,
) -> None:
    with running_bench("--instruments", "psu1") as bench, supervised(tmp_path, bench) as one:
        call = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {
                "name": "send_scpi",
                "arguments": {"instrument_id": "psu1", "scpi_command": "*IDN?"},
            },
        }
        body = json.dumps(call)
        head = (
            f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n"
            "Content-Type: application/json\r\nAccept: application/json\r\n"
            "Edged-Peer: x 10.1.2.3\r\nConnection: close\r\n"
        )
        port = one.facts()["mcp_port"]

        def status_of(more: str) -> bytes:
            # From 127.0.0.9 to 127.0.0.2: an address that is not the proxy's own.
            with socket.create_connection(("127.0.0.2", port), 5, ("127.0.0.9", 0)) as line:
                line.sendall((head + more + "\r\n" + body).encode())
                with line.makefile("rb") as answer:
                    status = answer.readline().split()[1]
                    answer.read()
            return status

        # The proxy may learn a moment after us that the engine is ready.
        wait_for(lambda: status_of("") != b"503")
        assert status_of("") == b"200"
        assert status_of("Edge-Caller-JWT: x.y.z\r\n") == b"401"
        wait_for(lambda: len(audited(one)) >= 3)  # an intent, its end, a refusal
        rows = audited(one)
    assert {remote for remote, _, _ in rows} == {"127.0.0.9"}
    assert ("127.0.0.9", "direct", "") in rows
    assert ("127.0.0.9", "relay", "not_authenticated") in rows


def audited(one: Supervised) -> list[tuple[str, str, str]]:
    """(remote, route, code) of each call of that tool."""
    rows = one.engine().rpc("audit.list", tool="send_scpi")["rows"]
    return [(row["remote"], row["route"], row["code"]) for row in rows]


def test_a_configuration_that_cannot_be_used_ends_the_supervisor_with_its_status(
    tmp_path: Path,
) -> None:
    done = subprocess.run(
        [*EDGED, "supervisor", "--state-dir", str(tmp_path), "--", "--set", "MCP_PORT=x"],
        capture_output=True,
        text=True,
        timeout=HANGS_S,
        check=False,
    )
    assert done.returncode == 78
    assert "MCP_PORT" in done.stderr  # the engine's own words


def test_a_second_supervisor_of_one_state_directory_names_the_first(tmp_path: Path) -> None:
    with running_bench("--instruments", "psu1") as bench, supervised(tmp_path, bench) as one:
        second = subprocess.run(
            [*EDGED, "supervisor", "--config", str(tmp_path / "edged.yaml")],
            capture_output=True,
            text=True,
            timeout=HANGS_S,
            check=False,
        )
        assert second.returncode == 69
        assert str(one.process.pid) in second.stderr


def test_an_engine_that_a_killed_supervisor_left_is_worked_with_and_left_alone(
    tmp_path: Path,
) -> None:
    with running_bench("--instruments", "psu1") as bench:
        with supervised(tmp_path, bench) as first:
            left = first.facts()["pid"]
            first.process.kill()
            first.process.wait()
        with supervised(tmp_path, bench) as second:
            assert second.facts()["pid"] == left
        assert psutil.pid_exists(left)
        os.kill(left, signal.SIGTERM)
        wait_for(lambda: not psutil.pid_exists(left))


def test_a_request_to_stop_ends_engine_and_supervisor_within_seconds(tmp_path: Path) -> None:
    with running_bench("--instruments", "psu1") as bench, supervised(tmp_path, bench) as one:
        pid = one.facts()["pid"]
        began = time.monotonic()
        one.process.send_signal(signal.SIGTERM)
        assert one.process.wait(10) == 0
        assert time.monotonic() - began < 6
        assert not psutil.pid_exists(pid)
        assert not (tmp_path / "supervisor.json").exists()
