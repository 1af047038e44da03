"""The simulated bench as a program: its ready line, its end, its faults and its log."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bench.engine_process import engine_process
from tests.bench.sim_bench import (
    COMMAND,
    REPOSITORY,
    SimBench,
    SimError,
    bench_process,
    running_bench,
)
from tests.bench.waiting import HANGS_S

PATIENCE_S = HANGS_S
IDN = "RIGOL TECHNOLOGIES,DP832A,DP8B26AM00234,00.01.19"


class Line:
    """One connection to an instrument."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
        self.file = self.socket.makefile("rb")

    def send(self, *messages: str) -> None:
        self.socket.sendall("".join(f"{message}\n" for message in messages).encode("ascii"))

    def read(self) -> str:
        return self.file.readline().decode("latin-1").rstrip("\n")

    def ask(self, message: str) -> str:
        self.send(message)
        return self.read()

    def ends(self) -> bool:
        """Whether the other side is gone, by end of file or by reset."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def close(self) -> None:
        self.file.close()
        self.socket.close()

    def __enter__(self) -> Line:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@pytest.fixture
def bench() -> Iterator[SimBench]:
    with running_bench("--instruments", "psu1,dmm1,g1=generic_scpi", "--seed", "7") as bench:
        yield bench


@pytest.fixture
def psu(bench: SimBench) -> Iterator[Line]:
    with Line(bench.port("psu1")) as line:
        yield line


def test_the_default_bench_is_a_supply_a_meter_and_a_scope() -> None:
    with running_bench() as bench:
        assert {name: entry["model"] for name, entry in bench.instruments.items()} == {
            "psu1": "rigol_dp832",
            "dmm1": "keysight_34461a",
            "scope1": "rigol_ds1054z",
        }
        assert bench.address("psu1") == f"TCPIP::127.0.0.1::{bench.port('psu1')}::SOCKET"


def test_a_meter_sees_over_its_socket_what_the_supply_does(bench: SimBench) -> None:
    bench.tell("psu1", ":SOUR1:VOLT 5", ":OUTP CH1,ON")
    bench.ask("dmm1", "DIAG:DELAY? 0.1")  # the output settles
    assert float(bench.ask("dmm1", "VOLT:NPLC 1;:READ?")) == pytest.approx(4.975, abs=0.01)
    assert bench.state("psu1")["ch1"]["is_on"] is True
    assert bench.call("state")["nodes"]["load1"]["volts"] == pytest.approx(4.975, abs=0.01)


def test_it_ends_when_its_standard_input_closes() -> None:
    with bench_process() as bench:
        assert bench.process.stdin is not None
        bench.process.stdin.close()
        assert bench.process.wait(PATIENCE_S) == 0


def test_it_ends_on_a_term_signal_also_beside_a_hung_query() -> None:
    with bench_process() as bench, Line(bench.port("psu1")) as psu:
        psu.send("DIAG:DELAY? 3000")
        assert bench.stop() == 0
        assert psu.ends()


def test_an_interrupt_is_left_to_the_parent_that_holds_its_input() -> None:
    with bench_process() as bench:
        bench.process.send_signal(signal.SIGINT)
        assert bench.ask("psu1", "*IDN?") == IDN


@pytest.mark.parametrize(
    "arguments",
    [
        ["--instruments", "psu1=nonsense"],
        ["--instruments", "nonsense"],
        ["--instruments", "psu1,psu1"],
        ["--fault", "lat"],
        ["--fault", "late:nobody"],
        ["--latency-ms", "psu1=x"],
        ["--port", "nobody=1"],
        ["--port", "psu1=99999"],
    ],
)
def test_flags_that_cannot_be_are_one_sentence_and_status_2(arguments: list[str]) -> None:
    ended = subprocess.run(
        [*COMMAND, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
        timeout=PATIENCE_S,
        check=False,
    )
    assert ended.returncode == 2
    assert ended.stdout == ""
    assert ended.stderr.count("\n") == 1
    assert "Traceback" not in ended.stderr


def test_a_taken_port_is_status_69(bench: SimBench) -> None:
    ended = subprocess.run(
        [*COMMAND, "--instruments", "psu1", "--port", f"psu1={bench.port('psu1')}"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
        timeout=PATIENCE_S,
        check=False,
    )
    assert ended.returncode == 69
    assert str(bench.port("psu1")) in ended.stderr


def test_a_fault_without_a_name_befalls_every_instrument() -> None:
    with running_bench("--instruments", "psu1,dmm1", "--fault", "timeout") as bench:
        told = bench.call("state")["instruments"]
        assert [len(told[name]["faults"]) for name in ("psu1", "dmm1")] == [1, 1]


def test_a_lost_answer_is_lost_and_the_next_one_comes(bench: SimBench, psu: Line) -> None:
    bench.fault("psu1", "timeout", count=1)
    psu.send('DIAG:ECHO? "lost"')
    assert psu.ask('DIAG:ECHO? "heard"') == "heard"


def test_a_late_answer_comes_before_the_next_one(bench: SimBench, psu: Line) -> None:
    bench.fault("psu1", "late", seconds=0.05, count=1)
    psu.send('DIAG:ECHO? "first"', 'DIAG:ECHO? "second"')
    assert [psu.read(), psu.read()] == ["first", "second"]


def test_an_answer_that_is_held_back_comes_when_the_faults_are_removed(
    bench: SimBench, psu: Line
) -> None:
    bench.fault("psu1", "late", seconds=3_000, count=1)
    psu.send('DIAG:ECHO? "held"')
    _wait_for(lambda: not bench.call("state")["instruments"]["psu1"]["faults"])
    bench.clear()
    assert psu.read() == "held"


def test_garbage_double_stray_and_pieces_are_as_told(bench: SimBench, psu: Line) -> None:
    bench.fault("psu1", "garbage", count=1)
    assert all(ord(letter) >= 0x80 for letter in psu.ask("*IDN?"))
    bench.fault("psu1", "double", count=1)
    assert [psu.ask("*IDN?"), psu.read()] == [IDN, IDN]
    bench.fault("psu1", "stray", count=1)
    assert [psu.ask("*IDN?"), psu.read()] == ["", IDN]
    bench.fault("psu1", "split", count=1)
    assert psu.ask("*IDN?") == IDN


def test_a_dropped_answer_is_half_of_it_and_the_end(bench: SimBench, psu: Line) -> None:
    bench.fault("psu1", "drop", count=1)
    assert psu.ask("*IDN?") == IDN[: (len(IDN) + 1) // 2]
    assert psu.ends()


def test_a_reset_is_a_reset(bench: SimBench, psu: Line) -> None:
    bench.fault("psu1", "reset", count=1)
    psu.send("*IDN?")
    with pytest.raises(ConnectionResetError):
        psu.socket.recv(1)


def test_a_hung_instrument_still_does_what_it_is_told_and_a_frozen_one_does_not(
    bench: SimBench, psu: Line
) -> None:
    bench.fault("psu1", "hang")
    psu.send(
        "*OPC?", ":SOUR1:VOLT 3"
    )  # one after the other: the set-point tells that both are done
    _wait_for(lambda: bench.state("psu1")["ch1"]["volts_set"] == 3)
    bench.clear("psu1")
    assert psu.ask(":SOUR1:VOLT?") == "3.000"
    bench.fault("psu1", "freeze")
    mark = bench.mark()
    psu.send(":SOUR1:VOLT 4")
    _wait_for(lambda: bench.received("psu1", mark) == [":SOUR1:VOLT 4"])
    bench.clear("psu1")
    assert psu.ask(":SOUR1:VOLT?") == "3.000"


def test_power_off_resets_and_refuses_until_power_is_back_at_the_same_port(
    bench: SimBench, psu: Line
) -> None:
    assert psu.ask("*IDN?") == IDN
    bench.fault("psu1", "refuse")
    assert psu.ends()
    with pytest.raises(ConnectionRefusedError):
        Line(bench.port("psu1"))
    bench.clear("psu1")
    assert bench.ask("psu1", "*IDN?") == IDN


def test_power_off_for_a_while_ends_by_itself(bench: SimBench) -> None:
    bench.fault("psu1", "refuse", seconds=0.05)
    _wait_for(lambda: bench.call("state")["instruments"]["psu1"]["is_listening"])
    assert bench.ask("psu1", "*IDN?") == IDN


def test_another_connection_does_not_wait_for_a_hung_query(bench: SimBench, psu: Line) -> None:
    psu.send("DIAG:DELAY? 3000")
    bench.tell("psu1", ":OUTP CH1,OFF")
    bench.clear()


def test_what_was_sent_last_is_done_though_the_sender_is_gone(bench: SimBench) -> None:
    with Line(bench.port("psu1")) as line:
        line.send(":SOUR1:VOLT 2", ":OUTP CH1,ON")
    _wait_for(lambda: bench.state("psu1")["ch1"]["is_on"])


def test_a_single_session_instrument_resets_the_second_connection() -> None:
    with (
        running_bench("--instruments", "psu1", "--single-session", "psu1") as bench,
        Line(bench.port("psu1")) as first,
    ):
        assert first.ask("*IDN?") == IDN
        try:
            second = Line(bench.port("psu1"))
        except ConnectionResetError:
            pass  # the reset was quicker than the end of the connect
        else:
            with second:
                assert second.ends()
        assert first.ask("*IDN?") == IDN


def test_instruments_come_and_go_while_it_runs(bench: SimBench) -> None:
    added = bench.add("psu2", "rigol_dp832")
    assert added["serial"] == "DP8B26AM00235"
    assert bench.ask("psu2", "*IDN?").split(",")[2] == "DP8B26AM00235"
    port = bench.port("psu2")
    bench.remove("psu2")
    with pytest.raises(ConnectionRefusedError):
        Line(port)
    with pytest.raises(SimError, match="psu1"):
        bench.fault("psu2", "late")


def test_another_unit_can_come_to_the_same_port(bench: SimBench) -> None:
    port = bench.port("psu1")
    bench.remove("psu1")
    bench.add("other", "rigol_dp832", serial="DP8B26AM99999", port=port)
    assert bench.port("other") == port
    assert "DP8B26AM99999" in bench.ask("other", "*IDN?")


def test_copies_have_serial_numbers_of_their_own() -> None:
    with running_bench("--instruments", "psu*50=rigol_dp832") as bench:
        assert len({bench.serial(name) for name in bench.instruments}) == 50
        assert bench.serial("psu50") in bench.ask("psu50", "*IDN?")


def test_every_byte_is_in_the_log_with_its_time(bench: SimBench, psu: Line) -> None:
    mark = bench.mark()
    psu.ask("*IDN?")
    entries = bench.log("psu1", mark)
    assert [(entry["direction"], entry["text"]) for entry in entries] == [
        ("in", "*IDN?\n"),
        ("out", f"{IDN}\n"),
    ]
    assert bytes.fromhex(entries[1]["hex"]) == f"{IDN}\n".encode()
    assert entries[0]["t"] <= entries[1]["t"]
    assert bench.log("dmm1", mark) == []


def test_the_byte_log_file_has_the_same(tmp_path: Path) -> None:
    file = tmp_path / "bytes.jsonl"
    with running_bench("--instruments", "psu1", "--byte-log", str(file)) as bench:
        bench.ask("psu1", "*IDN?")
        assert [json.loads(line)["text"] for line in file.read_text().splitlines()][:3] == [
            "",
            "*IDN?\n",
            f"{IDN}\n",
        ]


def test_a_fault_from_the_start_and_a_latency_hold(bench: SimBench) -> None:
    del bench
    with running_bench(
        "--instruments", "psu1", "--fault", "double:psu1::1", "--latency-ms", "psu1=50"
    ) as slow:
        began = time.monotonic()
        with Line(slow.port("psu1")) as line:
            assert [line.ask("*IDN?"), line.read()] == [IDN, IDN]
        assert time.monotonic() - began >= 0.05


def test_unasked_bytes_and_stale_errors_can_be_made(bench: SimBench, psu: Line) -> None:
    assert psu.ask("*IDN?") == IDN
    bench.call("say", instrument="psu1", text="hello\n")
    assert psu.read() == "hello"
    bench.call("push_error", instrument="psu1", code=-222)
    assert psu.ask("SYST:ERR?") == '-222,"Data out of range"'


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"not json", -32700),
        (b"[]", -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"nope"}', -32601),
        (b'{"jsonrpc":"2.0","id":1,"method":"fault","params":{"kind":5}}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"add","params":{"name":"x","model":"y"}}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"log","params":{"since":"x"}}', -32602),
    ],
)
def test_a_control_call_that_cannot_be_is_a_json_rpc_error(
    bench: SimBench, line: bytes, code: int
) -> None:
    with Line(bench.control_port) as control:
        control.socket.sendall(line + b"\n")
        assert json.loads(control.read())["error"]["code"] == code


def _wait_for(condition: object) -> None:
    """Ask the bench again until it is so; each question is a round trip, so none is a busy wait."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it did not come to be"


def test_a_silent_supply_with_a_watchdog_switches_off_though_the_control_port_looks_at_it() -> None:
    with running_bench("--instruments", "psu1=keysight_n6700") as bench:
        bench.tell(
            "psu1", "VOLT 5,(@1)", "OUTP ON,(@1)", "OUTP:PROT:WDOG:DEL 1", "OUTP:PROT:WDOG ON"
        )
        assert bench.state("psu1")["ch1"]["is_on"]
        until = time.monotonic() + PATIENCE_S
        while not bench.state("psu1")["watchdog"]["is_tripped"]:
            assert time.monotonic() < until, "looking at it kept it from switching off"
        assert not bench.state("psu1")["ch1"]["is_on"]


def test_a_power_cycle_ends_connections_and_loses_what_is_not_kept() -> None:
    with running_bench("--instruments", "psu1=keysight_n6700") as bench:
        bench.tell("psu1", "OUTP ON,(@1)", "OUTP:PROT:WDOG ON")
        with Line(bench.port("psu1")) as line:
            line.ask("*IDN?")
            bench.call("power_cycle", instrument="psu1")
            assert line.ends()
        assert bench.ask("psu1", "OUTP:PROT:WDOG?") == "0"
        assert not bench.state("psu1")["ch1"]["is_on"]


def test_instruments_are_at_their_kept_ports_unless_somebody_else_is_there() -> None:
    listed = ("--instruments", "psu1,dmm1")
    with running_bench(*listed) as bench:
        addresses = [bench.address("psu1"), bench.address("dmm1")]
    ports = [int(address.split("::")[2]) for address in addresses]
    kept = (*listed, f"--kept-port=psu1={ports[0]}", f"--kept-port=dmm1={ports[1]}")
    with running_bench(*kept, "--kept-port=psu9=5") as bench:
        assert [bench.address("psu1"), bench.address("dmm1")] == addresses
    with socket.create_server(("127.0.0.1", ports[0])), running_bench(*kept) as bench:
        assert bench.address("psu1") != addresses[0]
        assert bench.address("dmm1") == addresses[1]


def test_the_bench_of_an_engine_is_where_it_was_before_a_kill(tmp_path: Path) -> None:
    found = []
    for _ in range(2):
        with engine_process(tmp_path) as engine:
            found.append({one["address"] for one in engine.rpc("instruments")["result"]})
            engine.process.kill()
            engine.process.wait()
    assert found[0] == found[1] != set()
    kept = tmp_path / "state" / "sim_ports.json"
    kept.write_text('{"psu1": "x", "dmm1": 70000, "scope1": true}')
    with engine_process(tmp_path) as engine:
        assert len(engine.rpc("instruments")["result"]) == len(found[0])
    foreign = tmp_path / "passwd"
    foreign.write_text("root")
    kept.unlink()
    kept.symlink_to(foreign)
    with engine_process(tmp_path):
        pass
    assert foreign.read_text() == "root"
