"""Programs that speak HiSLIP, on a real engine: names, modes, refusals, locks, bounds."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from edged.protocol.hislip import (
    FIRST_MESSAGE_ID,
    HEADER,
    LARGEST_MESSAGE,
    FatalCode,
    HislipMessage,
    LockResult,
    MessageType,
    ProblemCode,
)
from edged.surfaces.hislip import server
from edged.surfaces.hislip.server import MAX_PROGRAMS, MAX_UNOPENED
from tests.bench.engine import Engine, running_engine
from tests.bench.engine_process import engine_process
from tests.bench.hislip_program import HislipEnded, HislipProgram, Line
from tests.bench.sim_bench import running_bench
from tests.bench.waiting import HANGS_S, wait_for
from tests.promises import promise

SERVING = {"VISA_SERVER": ["hislip"], "HISLIP_PORT": 0}
EAV, MAV = 0x04, 0x10
ESTABLISHED, KEEP_ALIVE_TIMER = "01", "02"
"""As /proc/net/tcp tells them."""


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with running_engine(tmp_path_factory.mktemp("hislip"), config=SERVING) as running:
        yield running


def port_of(engine: Engine) -> int:
    return int(engine.ports["hislip_port"])


@pytest.fixture(autouse=True)
def programs_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long a busy machine takes to look through its processes."""
    monkeypatch.setattr(server, "FIND_PROGRAM_S", HANGS_S)


@pytest.fixture
def port(engine: Engine) -> int:
    return port_of(engine)


@pytest.fixture
def psu(port: int) -> Iterator[HislipProgram]:
    with HislipProgram.open(port, "hislip_psu1") as program:
        yield program


def received(engine: Engine, since: int, name: str = "psu1") -> str:
    """What a simulated unit was told since then."""
    entries = engine.sim("log", instrument=name, since=since)["entries"]
    return "".join(entry["text"] for entry in entries if entry["direction"] == "in")


def programs(engine: Engine) -> list[Any]:
    found: list[Any] = engine.tool("get_status")["result"]["visa"]["programs"]
    return found


# Names


@promise("hislip.names")
@pytest.mark.parametrize("name", ["hislip_psu1", "HISLIP_PSU1", "psu1", "hislip_DP8B26AM00234"])
def test_a_unit_is_found_by_its_alias_in_every_spelling(port: int, name: str) -> None:
    with HislipProgram.open(port, name) as program:
        assert "DP832A" in program.query("*IDN?")


@promise("hislip.names")
@pytest.mark.parametrize("name", ["hislip_psu9", "hislip0", "", "inst0", "x" * 200])
def test_a_name_that_is_nobodys_is_told_those_there_are(port: int, name: str) -> None:
    with pytest.raises(HislipEnded, match=r"^3: .*hislip_dmm1, hislip_psu1, hislip_scope1"):
        HislipProgram.open(port, name)


@promise("hislip.names")
def test_hislip0_is_the_only_unit_and_one_without_alias_has_its_short_id(tmp_path: Path) -> None:
    with running_bench("--instruments", "psu1") as bench:
        config = {**SERVING, "INSTRUMENTS": [bench.address("psu1")]}
        with running_engine(tmp_path, sim=False, config=config) as engine:
            (name,) = engine.tool("get_status")["result"]["visa"]["names"]
            (unit,) = engine.tool("list_instruments")["result"]
            assert name == f"hislip_{re.sub('[^A-Za-z0-9_.-]', '', unit['id'])[-8:]}"
            for wanted in ("hislip0", "", name, name.removeprefix("hislip_")):
                with HislipProgram.open(port_of(engine), wanted) as program:
                    assert "DP832A" in program.query("*IDN?")


# What it speaks


@promise("hislip.rules")
def test_a_question_is_answered_once_and_a_write_not_at_all(psu: HislipProgram) -> None:
    psu.write("VOLT 3")
    assert psu.is_silent()
    assert float(psu.query("VOLT?")) == 3
    psu.write(b"VOLT 4\n", pieces=3)
    assert float(psu.query("VOLT?\n")) == 4
    psu.write("VOLT 5\nVOLT?\n")
    assert float(psu.read()) == 5


@promise("hislip.rules")
def test_mav_is_set_until_the_answer_is_read_and_eav_while_an_error_waits(
    psu: HislipProgram,
) -> None:
    assert psu.status() & (EAV | MAV) == 0
    psu.write("*IDN?")
    wait_for(lambda: psu.status() & MAV)
    psu.read()
    assert not psu.status() & MAV
    psu.refusal("VOLT 999")
    assert psu.status() & EAV
    assert psu.query("SYST:ERR?").startswith("-222,")
    assert not psu.status() & EAV


@promise("hislip.rules")
def test_a_new_question_interrupts_one_that_is_not_read_and_the_program_is_told(
    engine: Engine, psu: HislipProgram
) -> None:
    psu.sync.socket.sendall(b"")
    first = psu.write("*IDN?")
    second = psu.write("VOLT?")
    assert float(psu.read()) == pytest.approx(float(psu.query("VOLT?")))
    kinds = {one.kind for one in psu.heard}
    assert kinds <= {MessageType.INTERRUPTED}
    assert first != second
    # Whether it was overtaken under way or lay unread, it is the standard's own error.
    assert psu.query("SYST:ERR?").startswith("-410,")
    assert psu.query("SYST:ERR?").lstrip("+ ").startswith("0,")


@promise("hislip.rules")
def test_an_answer_that_was_never_read_is_an_interrupted_query(psu: HislipProgram) -> None:
    psu.write("*IDN?")
    wait_for(lambda: psu.status() & MAV)
    assert psu.query("VOLT?")
    assert psu.query("SYST:ERR?").startswith("-410,")


@promise("hislip.rules")
def test_in_overlap_mode_each_question_is_answered_in_its_turn(psu: HislipProgram) -> None:
    psu.clear(overlapped=True)
    for volts in (1, 2, 3):
        psu.write(f"VOLT {volts}")
        psu.write("VOLT?")
    assert [float(psu.read()) for _ in range(3)] == [1, 2, 3]
    psu.clear()
    assert float(psu.query("VOLT?")) == 3


@promise("hislip.rules")
def test_a_device_clear_gives_up_what_is_under_way(engine: Engine, port: int) -> None:
    with HislipProgram.open(port, "hislip_dmm1") as program:
        # The question alone is lost; what the line is recovered by is answered.
        engine.sim("fault", instrument="dmm1", kind="timeout", count=1)
        program.write("CONF?")
        wait_for(lambda: not engine.sim("state")["instruments"]["dmm1"]["faults"])
        program.clear()
        assert "34461A" in program.query("*IDN?")
    rows = engine.tool("bench__history", instrument_id="dmm1", limit=5)["result"]["rows"]
    (row,) = [row for row in rows if row["parameters"] == {"scpi_command": "CONF?"}]
    assert row["error"] == "The call was ended by a device clear of its program."


@promise("hislip.rules")
def test_what_may_not_be_said_is_an_error_and_the_session_goes_on(psu: HislipProgram) -> None:
    psu.sync.send(MessageType.ASYNC_LOCK_INFO)
    assert psu.sync.receive().control == ProblemCode.UNKNOWN_TYPE
    psu.asynchronous.send(200)
    assert psu.asynchronous.receive().control == ProblemCode.UNKNOWN_VENDOR_TYPE
    psu.asynchronous.send(MessageType.ASYNC_REMOTE_LOCAL_CONTROL, 9)
    assert psu.asynchronous.receive().control == ProblemCode.UNKNOWN_CONTROL
    assert psu.ask_async(MessageType.ASYNC_REMOTE_LOCAL_CONTROL, 1).kind == (
        MessageType.ASYNC_REMOTE_LOCAL_RESPONSE
    )
    psu.sync.socket.sendall(
        HEADER.pack(b"HS", MessageType.DATA_END, 0, FIRST_MESSAGE_ID, LARGEST_MESSAGE + 1)
    )
    psu.sync.socket.sendall(bytes(LARGEST_MESSAGE + 1))
    assert psu.sync.receive().control == ProblemCode.TOO_LARGE
    assert "DP832A" in psu.query("*IDN?")


def test_answers_go_in_pieces_that_the_program_takes(port: int) -> None:
    with HislipProgram.open(port, "hislip_scope1") as scope:
        scope.write("WAV:DATA?")
        whole = scope.read(20)
        scope.agree_on_size(HEADER.size + 100)
        scope.write("WAV:DATA?")
        sizes = []
        data = b""
        while True:
            piece = scope.sync.next(20)
            sizes.append(len(piece.payload))
            data += piece.payload
            if piece.kind == MessageType.DATA_END:
                break
        assert len(data) == len(whole) > 1_000
        assert max(sizes) == 100


def test_triggers_are_taken(psu: HislipProgram) -> None:
    psu.trigger()
    psu.sync.socket.settimeout(0.3)
    assert "DP832A" in psu.query("*IDN?")


# Refusals and guards


@promise("hislip.refusals")
def test_a_refused_question_has_an_error_and_no_answer(psu: HislipProgram) -> None:
    sentence = psu.refusal("VOLT 300;VOLT?")
    assert "over the maximum 32 V" in sentence
    assert psu.is_silent()
    assert psu.query("SYST:ERR?").startswith('-222,"Data out of range;')


@promise("hislip.refusals")
def test_refusals_stand_in_the_queue_of_who_was_refused_alone(port: int) -> None:
    with (
        HislipProgram.open(port, "hislip_psu1") as one,
        HislipProgram.open(port, "hislip_psu1") as other,
    ):
        one.refusal("VOLT 300")
        assert not other.status() & EAV
        assert other.query("SYST:ERR?").lstrip("+ ").startswith("0,")
        assert one.query("SYST:ERR?").startswith("-222,")


@promise("hislip.guards")
@promise("hislip.stops-pass")
def test_a_lockout_refuses_and_stops_pass_while_a_question_is_held(
    engine: Engine, psu: HislipProgram
) -> None:
    engine.sim("fault", instrument="psu1", kind="timeout")
    mark = engine.sim("log", limit=1)["last"]
    psu.write("VOLT?")
    wait_for(lambda: "VOLT?" in received(engine, mark))
    engine.rpc("lockout.set", instrument_id="psu1", reason="hands inside", by="anna")
    engine.sim("clear", instrument="psu1")
    try:
        assert psu.sync.next().kind == MessageType.ERROR
        assert "hands inside" in psu.refusal("VOLT 1")
    finally:
        engine.rpc("lockout.clear", instrument_id="psu1")
    psu.write("*CLS")
    psu.write("VOLT 1")
    assert float(psu.query("VOLT?")) == 1


@promise("hislip.stops-pass")
def test_stop_all_does_not_wait_for_a_programs_question(engine: Engine, psu: HislipProgram) -> None:
    psu.set(":OUTP CH1,ON")
    # Its answer would come; the line is the question's until then.
    engine.sim("fault", instrument="psu1", kind="late", seconds=60, count=1)
    mark = engine.sim("log", limit=1)["last"]
    psu.write(":SOUR1:VOLT?")
    wait_for(lambda: ":SOUR1:VOLT?" in received(engine, mark))
    assert engine.stop_all()["is_confirmed"]
    ended = psu.sync.next()
    assert ended.kind == MessageType.ERROR
    assert b"stop all" in ended.payload, ended
    psu.clear()
    assert psu.query(":OUTP? CH1") in ("OFF", "0")


@promise("hislip.record")
def test_the_record_names_maker_address_and_process(engine: Engine, psu: HislipProgram) -> None:
    psu.query("VOLT?")
    rows = engine.tool("bench__history", instrument_id="psu1", limit=5)["result"]["rows"]
    # The newest comes first; others may have asked the same before.
    who = next(row["who"] for row in rows if row["scpi"] == "VOLT?")
    assert who.startswith(f"HiSLIP zz, PID {os.getpid()} ")
    assert who.endswith(" at 127.0.0.1")
    assert [one["who"] for one in programs(engine)] == [who]


# Locks


@promise("hislip.locks")
def test_a_lock_is_a_lease_others_are_refused_and_read(engine: Engine, port: int) -> None:
    with (
        HislipProgram.open(port, "hislip_psu1") as holder,
        HislipProgram.open(port, "hislip_psu1") as other,
    ):
        assert holder.lock() is LockResult.SUCCESS
        assert holder.lock() is LockResult.ERROR
        assert other.lock_info() == (True, 1)
        assert other.lock(timeout_s=0.2) is LockResult.FAILURE
        (lease,) = engine.tool("get_status")["result"]["leases"]
        assert "HiSLIP zz" in lease["purpose"]
        holder.set("VOLT 2")
        assert float(other.query("VOLT?")) == 2
        assert "lock of HiSLIP zz" in other.refusal("VOLT 3")
        assert other.query("SYST:ERR?").startswith("-221,")
        refused = engine.tool(
            "execute_command",
            instrument_id="psu1",
            command_name="set_voltage",
            parameters={"channel": 1, "voltage": 1},
        )
        assert refused["is_error"]
        assert "HiSLIP zz" in refused["error"]["message"]
        assert holder.unlock() is LockResult.SUCCESS
        assert holder.unlock() is LockResult.ERROR
        other.set("VOLT 1")
        assert float(other.query("VOLT?")) == 1
        assert engine.tool("get_status")["result"]["leases"] == []


@promise("hislip.locks")
def test_who_waits_for_a_lock_gets_it_when_its_holder_goes(engine: Engine, port: int) -> None:
    with HislipProgram.open(port, "hislip_psu1") as waiting:
        holder = HislipProgram.open(port, "hislip_psu1")
        assert holder.lock() is LockResult.SUCCESS
        waiting.asynchronous.send(MessageType.ASYNC_LOCK, 1, 5_000)
        with pytest.raises(TimeoutError):
            waiting.asynchronous.next(0.3)
        holder.sync.reset()
        holder.asynchronous.reset()
        assert waiting.asynchronous.next().control == LockResult.SUCCESS
        waiting.set("VOLT 1")
        assert float(waiting.query("VOLT?")) == 1
    wait_for(lambda: engine.tool("get_status")["result"]["leases"] == [])


@promise("hislip.locks")
def test_a_shared_lock_lets_those_write_who_know_its_string(engine: Engine, port: int) -> None:
    with (
        HislipProgram.open(port, "hislip_psu1") as one,
        HislipProgram.open(port, "hislip_psu1") as two,
        HislipProgram.open(port, "hislip_psu1") as stranger,
    ):
        assert one.lock("bench") is LockResult.SUCCESS
        assert two.lock("other") is LockResult.FAILURE
        assert two.lock("bench") is LockResult.SUCCESS
        assert stranger.lock_info() == (False, 2)
        one.set("VOLT 1")
        two.set("VOLT 2")
        assert float(two.query("VOLT?")) == 2
        assert "lock of" in stranger.refusal("VOLT 3")
        # One of them may have it alone for a while.
        assert two.lock() is LockResult.SUCCESS
        assert one.refusal("VOLT 4")
        two.set("VOLT 5")
        assert two.unlock() is LockResult.SUCCESS
        one.set("VOLT 1.5")
        assert float(one.query("VOLT?")) == 1.5
        assert one.unlock() is LockResult.SHARED_RELEASED
        assert one.refusal("VOLT 3")
        two.set("VOLT 2.5")
        assert float(one.query("VOLT?")) == 2.5
        assert two.unlock() is LockResult.SHARED_RELEASED
        stranger.set("VOLT 1")
        assert float(stranger.query("VOLT?")) == 1
    wait_for(lambda: engine.tool("get_status")["result"]["leases"] == [])


@promise("hislip.locks")
def test_somebody_elses_lease_is_a_lock_that_is_held(engine: Engine, psu: HislipProgram) -> None:
    lease = engine.tool("bench__reserve", instruments=["psu1"], purpose="calibration")["result"]
    try:
        assert psu.lock_info() == (True, 1)
        assert psu.lock(timeout_s=0.3) is LockResult.FAILURE
        assert "calibration" in psu.refusal("VOLT 3")
        assert psu.query("VOLT?")
    finally:
        engine.tool("bench__release", lease_id=lease["lease_id"])
    assert psu.lock() is LockResult.SUCCESS
    assert psu.unlock() is LockResult.SUCCESS


@promise("hislip.locks")
def test_a_lock_that_the_owner_breaks_is_told_once_and_over(engine: Engine, port: int) -> None:
    with (
        HislipProgram.open(port, "hislip_psu1") as program,
        HislipProgram.open(port, "hislip_psu1") as other,
    ):
        assert program.lock() is LockResult.SUCCESS
        (lease,) = engine.rpc("leases.list")["leases"]
        engine.rpc("leases.break", lease_id=lease["lease_id"], reason="lunch is over", by="anna")
        assert other.lock_info() == (False, 0)
        assert other.lock() is LockResult.SUCCESS
        assert "lock of HiSLIP zz" in program.refusal("VOLT 1")
        assert other.unlock() is LockResult.SUCCESS
        assert program.lock() is LockResult.SUCCESS
        program.set("VOLT 1")


# Bounds


@promise("hislip.bounds")
@pytest.mark.parametrize(
    ("first", "code"),
    [
        (b"GET /mcp HTTP/1.1\r\n\r\n", FatalCode.BAD_HEADER),
        (HEADER.pack(b"HS", MessageType.DATA_END, 0, 0, 0), FatalCode.BAD_INITIALIZATION),
        (HEADER.pack(b"HS", MessageType.ASYNC_INITIALIZE, 0, 7, 0), FatalCode.BAD_INITIALIZATION),
        (HEADER.pack(b"HS", MessageType.INITIALIZE, 0, 0, 1 << 40), FatalCode.BAD_HEADER),
        (
            HEADER.pack(b"HS", 0xED, 0, 0, 14) + b"secret 8.8.8.8",
            FatalCode.BAD_INITIALIZATION,
        ),
    ],
)
def test_what_does_not_begin_a_session_is_told_why_and_closed(
    port: int, first: bytes, code: FatalCode
) -> None:
    line = Line.to(port)
    line.socket.sendall(first)
    received = line.receive()
    assert (received.kind, received.control) == (MessageType.FATAL_ERROR, code)
    assert line.is_ended()
    line.close()


@promise("hislip.bounds")
def test_data_before_the_second_connection_end_the_session(port: int) -> None:
    line = Line.to(port)
    line.send(MessageType.INITIALIZE, 0, 0x01000000, b"hislip_psu1")
    assert line.next().kind == MessageType.INITIALIZE_RESPONSE
    line.send(MessageType.DATA_END, 0, FIRST_MESSAGE_ID, b"*IDN?")
    with pytest.raises(HislipEnded, match=f"^{FatalCode.CHANNEL_MISSING:d}: "):
        line.next()
    line.close()


@promise("hislip.bounds")
def test_who_opens_no_session_is_few_and_soon_gone(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "OPEN_WITHIN_S", 600.0)
    silent = [Line.to(port) for _ in range(100)]
    halves = []
    try:
        sockets = [line.socket for line in silent]
        wait_for(lambda: len(select.select(sockets, [], [], 0)[0]) >= 100 - MAX_UNOPENED)
        for line in silent[-(100 - MAX_UNOPENED) :]:
            with pytest.raises(HislipEnded, match=f"^{FatalCode.TOO_MANY_CLIENTS:d}: "):
                line.next()
        monkeypatch.setattr(server, "OPEN_WITHIN_S", 0.1)
        assert silent[0].is_ended()
        monkeypatch.setattr(server, "OPEN_WITHIN_S", 600.0)
        half = Line.to(port)
        halves.append(half)
        half.send(MessageType.INITIALIZE, 0, 0x01000000, b"hislip_psu1")
        assert half.next().kind == MessageType.INITIALIZE_RESPONSE
        monkeypatch.setattr(server, "OPEN_WITHIN_S", 0.1)
        with pytest.raises(HislipEnded, match="was not opened in time"):
            half.next()
    finally:
        for line in [*silent, *halves]:
            line.close()
    with HislipProgram.open(port, "hislip_psu1") as program:
        assert program.query("VOLT?")


@promise("hislip.bounds")
def test_an_opening_that_takes_us_long_is_not_the_clients_fault(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look_long(kind: str) -> list[object]:
        monkeypatch.setattr(server, "OPEN_WITHIN_S", 0.0)
        # Longer than from one look at the openings to the next.
        threading.Event().wait(1.5)
        return []

    monkeypatch.setattr(psutil, "net_connections", look_long)
    with contextlib.closing(Line.to(port)) as line:
        line.send(MessageType.INITIALIZE, 0, 0x01000000, b"hislip_psu1")
        assert line.next().kind == MessageType.INITIALIZE_RESPONSE


@promise("hislip.bounds")
def test_programs_are_so_many_at_most_and_one_more_is_told_so(
    engine: Engine, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It looks through all processes of this machine, 64 times.
    monkeypatch.setattr(psutil, "net_connections", lambda kind: [])
    wait_for(lambda: programs(engine) == [])
    with contextlib.ExitStack() as opened:
        for _ in range(MAX_PROGRAMS):
            opened.enter_context(HislipProgram.open(port, "hislip_psu1"))
        with pytest.raises(HislipEnded, match=f"^{FatalCode.TOO_MANY_CLIENTS:d}: 64 programs"):
            HislipProgram.open(port, "hislip_psu1")
    wait_for(lambda: programs(engine) == [])
    with HislipProgram.open(port, "hislip_psu1") as program:
        assert program.query("*IDN?")


@promise("hislip.bounds")
def test_garbage_in_a_session_ends_it_and_no_other(port: int, psu: HislipProgram) -> None:
    with HislipProgram.open(port, "hislip_psu1") as other:
        other.sync.socket.sendall(b"\x00" * 64)
        with pytest.raises(HislipEnded, match=f"^{FatalCode.BAD_HEADER:d}: "):
            other.sync.next()
        assert other.asynchronous.is_ended()
    assert psu.query("VOLT?")


@promise("hislip.bounds")
def test_a_flood_that_nobody_reads_keeps_neither_memory_nor_others_waiting(
    engine: Engine, port: int, psu: HislipProgram
) -> None:
    with HislipProgram.open(port, "hislip_dmm1") as flooding:
        flooding.sync.socket.setblocking(False)
        sent = 0
        with contextlib.suppress(BlockingIOError):
            while sent < 50_000_000:
                sent += flooding.sync.socket.send(
                    HEADER.pack(b"HS", MessageType.DATA_END, 0, FIRST_MESSAGE_ID, 5) + b"*IDN?"
                )
        assert sent < 50_000_000
        assert psu.query("VOLT?")
        # Its other channel is heard all the while.
        assert flooding.ask_async(MessageType.ASYNC_LOCK_INFO).kind == (
            MessageType.ASYNC_LOCK_INFO_RESPONSE
        )


@promise("hislip.bounds")
def test_one_connection_without_the_other_is_no_session(engine: Engine, port: int) -> None:
    for end in ("sync", "asynchronous"):
        program = HislipProgram.open(port, "hislip_psu1")
        getattr(program, end).reset()
        left = program.asynchronous if end == "sync" else program.sync
        assert left.is_ended()
        program.close()
    wait_for(lambda: programs(engine) == [])


def test_connections_are_kept_alive_so_that_a_vanished_program_is_noticed(
    engine: Engine, psu: HislipProgram
) -> None:
    own, peer = f":{port_of(engine):04X}", f":{psu.sync.socket.getsockname()[1]:04X}"

    def timer() -> tuple[str, float]:
        """Which timer of the engine's side runs, and for how many seconds yet."""
        rows = Path("/proc/net/tcp").read_text().splitlines()
        for fields in map(str.split, rows):
            is_ours = fields[1].endswith(own) and fields[2].endswith(peer)
            if is_ours and fields[3] == ESTABLISHED:
                kind, rest = fields[5].split(":")
                return kind, int(rest, 16) / 100
        # While others come and go the kernel may leave a row out.
        return "", 0.0

    wait_for(lambda: timer()[0] == KEEP_ALIVE_TIMER and 20 < timer()[1] <= 30)


# Off, taken, ended


@promise("hislip.off")
def test_nobody_listens_unless_the_owner_wants_it(tmp_path: Path) -> None:
    with running_engine(tmp_path) as engine:
        assert engine.ports["hislip_port"] is None
        assert engine.tool("get_status")["result"]["visa"]["enabled"] is False


@promise("hislip.off")
def test_a_port_that_is_taken_is_a_warning_and_is_bound_later(tmp_path: Path) -> None:
    taken = socket.create_server(("127.0.0.1", 0))
    port = taken.getsockname()[1]
    config = {**SERVING, "HISLIP_PORT": port, "RESCAN_INTERVAL_SEC": 1}
    with running_engine(tmp_path, config=config) as engine:
        told = engine.tool("get_status")["result"]["visa"]
        assert told["enabled"]
        assert f"The HISLIP port {port} on 127.0.0.1 cannot be bound" in told["error"]
        taken.close()
        file = engine.state_dir / "engine.json"
        wait_for(lambda: json.loads(file.read_text())["hislip_port"] == port)
        with HislipProgram.open(port, "hislip_psu1") as program:
            assert program.query("VOLT?")


def test_an_engine_that_ends_says_goodbye(tmp_path: Path) -> None:
    with engine_process(tmp_path, config=SERVING) as engine:
        program = HislipProgram.open(port_of(engine), "hislip_psu1")
        assert program.query("VOLT?")
        assert engine.stop() == 0
        assert program.sync.receive() == HislipMessage(
            MessageType.FATAL_ERROR, FatalCode.UNIDENTIFIED, 0, b"edged ends."
        )
        assert program.asynchronous.is_ended()
        program.close()
