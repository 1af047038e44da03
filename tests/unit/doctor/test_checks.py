"""Each line of doctor: what makes it PASS, WARN, FAIL or SKIP."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import socket
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from edged import __version__
from edged.config.load import Config, load_config, this_machine
from edged.doctor import bench_checks, machine_checks, port_checks
from edged.doctor import machine_checks as state_checks
from edged.doctor.bench_checks import check_wrappers
from edged.doctor.checks import CHECKS, run_checks
from edged.doctor.facts import Facts
from edged.doctor.port_checks import check_hislip, check_relay
from edged.doctor.report import CheckLine, CheckVerdict, fail, passed, report, skip, warn
from edged.errors import ErrorCode, Failed, Invalid, Refused
from edged.host import SUPERVISOR_FILE
from edged.profiles.bench_file import SeenUnit
from edged.store.bench_copy import BenchCopy
from edged.surfaces.rpc.client import EngineFile
from tests.bench.answering_server import AnsweringServer, answering_server
from tests.bench.shipped import shipped_library
from tests.bench.store_bench import running_store
from tests.promises import promise

STATUS = {
    "uptime_s": 12.3,
    "instrument_count": 3,
    "mcp": {"enabled": True, "port": 1, "path": "/mcp", "error": ""},
    "store": {"state": "healthy", "reason": "", "remedy": "", "rows_waiting": 0, "rows_lost": 0},
    "recordings": {"path": "/data/runs", "used_mb": 1.0, "budget_mb": 100, "is_full": False},
    "sweeps": [],
    "lockouts": [],
    "set_aside": [],
    "relay": {"jwks": None},
}


def config(tmp_path: Path, **changes: Any) -> Config:
    base = load_config(places=this_machine(), environ={}, file=None, flags=[]).config
    return dataclasses.replace(base, state_dir=tmp_path, **changes)


def facts(tmp_path: Path, *, status: Any = STATUS, engine: bool = True, **more: Any) -> Facts:
    """An engine that answers, on this very process's PID."""
    file = EngineFile(
        path=tmp_path / "engine.json", pid=os.getpid(), rpc_port=1, mcp_port=1, facts={}
    )
    known = {
        "config": config(tmp_path),
        "engine": file if engine else None,
        "version": __version__,
        "status": status if engine else {},
    }
    return Facts(**{**known, **more})


def told(line: CheckLine) -> tuple[str, str]:
    assert line.found.endswith((".", ":", ";")) or line.found, line
    if line.verdict in {CheckVerdict.WARN, CheckVerdict.FAIL}:
        assert line.remedy, f"nothing says what to do about: {line.found}"
    return line.verdict.value, line.found


def test_the_report_is_ok_unless_something_fails() -> None:
    lines = [("a", passed("fine.")), ("b", warn("so so.", "look.")), ("c", skip("none."))]
    assert report(lines)["is_ok"]
    bad = report([*lines, ("d", fail("gone.", "mend it."))])
    assert not bad["is_ok"]
    assert bad["counts"] == {"PASS": 1, "WARN": 1, "FAIL": 1, "SKIP": 1}
    assert bad["checks"][3] == {
        "check": "d",
        "verdict": "FAIL",
        "found": "gone.",
        "remedy": "mend it.",
    }


def test_a_check_that_stumbles_is_one_line_that_fails(tmp_path: Path) -> None:
    status = {**STATUS, "lockouts": [{"nonsense": 1}]}
    bare = config(tmp_path, profile_dirs=())
    lines = dict(run_checks(facts(tmp_path, config=bare, status=status)))
    assert set(lines) == set(CHECKS)
    assert lines["lockouts"].verdict is CheckVerdict.FAIL
    assert "KeyError" in lines["lockouts"].found


def test_with_the_engine_down_every_check_has_its_line(tmp_path: Path) -> None:
    bare = config(tmp_path, profile_dirs=())
    lines = dict(run_checks(facts(tmp_path, config=bare, engine=False)))
    assert lines["engine"].verdict is CheckVerdict.FAIL
    assert {line.verdict for name, line in lines.items() if name in {"tool list", "lockouts"}} == {
        CheckVerdict.SKIP
    }


def test_a_configuration_that_cannot_be_read_fails_and_what_it_says_is_told(tmp_path: Path) -> None:
    check = state_checks.check_config
    assert told(check(facts(tmp_path)))[0] == "PASS"
    origins = {"MCP_PORT": "/etc/edged/edged.yaml:3", "TOOLS": "EDGED_TOOLS", "RPC_PORT": "default"}
    found = check(facts(tmp_path, origins=origins)).found
    assert "Keys set: 2" in found
    assert "/etc/edged/edged.yaml" in found
    complaint = Invalid("edged.yaml:3: MCP_PROT is no key.", remedy="Write MCP_PORT.")
    assert told(check(facts(tmp_path, complaint=complaint))) == ("FAIL", complaint.message)


@promise("doctor.directories")
@pytest.mark.parametrize("key", ["state_dir", "data_dir"])
def test_a_directory_that_others_can_write_fails(
    tmp_path: Path, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    above, kept = tmp_path / "above", tmp_path / "above" / "kept"
    kept.mkdir(parents=True)
    known = {"state_dir": tmp_path, "data_dir": tmp_path, key: kept}
    found = facts(tmp_path, config=dataclasses.replace(config(tmp_path), **known))
    check = state_checks.check_state_dir
    for directory, mode, who in (
        (kept, 0o777, "every user"),
        (kept, 0o1777, "every user"),
        (above, 0o777, "every user"),
        (kept, 0o775, "the group lab"),
    ):
        monkeypatch.setattr(state_checks, "_shared_group", lambda _status: "lab")
        assert told(check(found))[0] == "PASS"
        directory.chmod(mode)
        verdict, text = told(check(found))
        assert verdict == "FAIL"
        assert f"{kept} is not safe: {who} can write {directory}" in text
        directory.chmod(0o755)
    above.chmod(0o1777)
    assert told(check(found))[0] == "PASS", "the sticky bit keeps others from what is not theirs"
    kept.chmod(0o775)
    monkeypatch.setattr(state_checks, "_shared_group", lambda _status: "")
    assert told(check(found))[0] == "PASS", "a group of one's own"


def test_a_group_is_shared_when_another_user_is_in_it() -> None:
    import grp
    import pwd

    own = os.stat_result((0, 0, 0, 0, os.getuid(), os.getgid(), 0, 0, 0, 0))
    mine = pwd.getpwuid(os.getuid())
    if {mine.pw_name} >= {
        *grp.getgrgid(os.getgid()).gr_mem,
        *(user.pw_name for user in pwd.getpwall() if user.pw_gid == os.getgid()),
    }:
        assert state_checks._shared_group(own) == ""
    other = next(user for user in pwd.getpwall() if user.pw_uid != os.getuid())
    others = os.stat_result((0, 0, 0, 0, os.getuid(), other.pw_gid, 0, 0, 0, 0))
    assert state_checks._shared_group(others) == grp.getgrgid(other.pw_gid).gr_name


def test_a_state_directory_must_be_writable_and_have_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = state_checks.check_state_dir
    assert told(check(facts(tmp_path)))[0] == "PASS"
    gone = tmp_path / "gone"
    assert told(check(facts(gone, engine=False)))[0] == "PASS"
    assert told(check(facts(gone)))[0] == "FAIL"
    usage = state_checks.psutil.disk_usage(str(tmp_path))
    for free_mb, verdict in ((5, "FAIL"), (100, "WARN")):
        small = usage._replace(free=free_mb * 1024 * 1024)
        monkeypatch.setattr(state_checks.psutil, "disk_usage", lambda _, small=small: small)
        assert told(check(facts(tmp_path)))[0] == verdict


def test_database_by_the_word_of_the_engine(tmp_path: Path) -> None:
    check = state_checks.check_database
    assert told(check(facts(tmp_path)))[0] == "PASS"
    full = {"state": "full", "reason": "the disk is full", "remedy": "Free space."}
    verdict, found = told(check(facts(tmp_path, status={**STATUS, "store": full})))
    assert verdict == "FAIL"
    assert "the disk is full" in found
    lossy = {**STATUS["store"], "rows_lost": 7}
    assert told(check(facts(tmp_path, status={**STATUS, "store": lossy})))[0] == "WARN"


async def test_database_by_its_file_while_no_engine_runs(tmp_path: Path) -> None:
    check = state_checks.check_database
    down = facts(tmp_path, engine=False)
    assert told(check(down))[0] == "SKIP"
    async with running_store(tmp_path / "edged.db") as store:
        store.audit.event("test", "a row")
    verdict, found = told(check(down))
    assert verdict == "PASS"
    assert "2 rows" in found
    with contextlib.closing(sqlite3.connect(tmp_path / "edged.db", isolation_level=None)) as other:
        other.execute("PRAGMA journal_mode = DELETE")
        other.execute("BEGIN EXCLUSIVE")
        verdict, found = told(check(down))
    assert verdict == "SKIP"
    assert "in use" in found
    (tmp_path / "edged.db").write_bytes(b"no database at all" * 100)
    assert told(check(down))[0] == "FAIL"


def test_an_engine_must_run_answer_and_be_of_this_version(tmp_path: Path) -> None:
    check = port_checks.check_engine
    assert told(check(facts(tmp_path)))[0] == "PASS"
    assert told(check(facts(tmp_path, engine=False)))[0] == "FAIL"
    assert told(check(facts(tmp_path, version="0.0.1")))[0] == "WARN"
    hidden = facts(tmp_path, engine=False, unreachable=Failed("Not to be read.", remedy="Ask."))
    assert (check(hidden).found, check(hidden).remedy) == ("Not to be read.", "Ask.")
    silent = facts(tmp_path, status={}, unreachable=Failed("It gave no answer."))
    assert told(check(silent)) == (
        "FAIL",
        f"An engine with PID {os.getpid()} does not answer: It gave no answer.",
    )
    dead = EngineFile(path=tmp_path, pid=2**22 + 1, rpc_port=1, mcp_port=1, facts={})
    assert "has died" in told(check(dataclasses.replace(silent, engine=dead)))[1]


@pytest.fixture
def mcp() -> Iterator[AnsweringServer]:
    with answering_server() as server:
        server.result({"protocolVersion": "2025-06-18"})
        yield server


@promise("doctor.real-initialize")
def test_mcp_listener_passes_only_after_a_real_initialize(
    tmp_path: Path, mcp: AnsweringServer
) -> None:
    check = port_checks.check_mcp
    status = {**STATUS, "mcp": {"port": mcp.port, "path": "/mcp", "error": ""}}
    verdict, found = told(check(facts(tmp_path, status=status)))
    assert verdict == "PASS"
    assert f"127.0.0.1:{mcp.port}/mcp" in found
    mcp.answer(b"<html>It works!</html>")
    assert told(check(facts(tmp_path, status=status)))[0] == "FAIL"


def test_an_engine_that_wants_a_token_serves_mcp_all_the_same(
    tmp_path: Path, mcp: AnsweringServer
) -> None:
    file = EngineFile(
        path=tmp_path, pid=os.getpid(), rpc_port=1, mcp_port=mcp.port, facts={"mcp_path": "/here"}
    )
    refused = Refused("It wants its token.", code=ErrorCode.NOT_AUTHENTICATED, remedy="Give it.")
    untold = facts(tmp_path, status={}, engine=False, unreachable=refused)
    untold = dataclasses.replace(untold, engine=file)
    verdict, found = told(port_checks.check_mcp(untold))
    assert (verdict, f"127.0.0.1:{mcp.port}/here" in found) == ("PASS", True)
    assert told(port_checks.check_reach(untold))[0] == "PASS"
    assert port_checks.check_engine(untold).remedy == "Give it."


def test_mcp_listener_that_is_off_is_skipped(tmp_path: Path) -> None:
    off = facts(tmp_path, config=config(tmp_path, mcp_enabled=False), engine=False)
    assert told(port_checks.check_mcp(off)) == ("SKIP", "MCP_ENABLED is false: nothing is bound.")


@promise("doctor.believes-the-engine")
def test_mcp_that_a_flag_or_the_environment_switched_off_is_skipped(tmp_path: Path) -> None:
    mcp = {"enabled": False, "port": None, "path": "/mcp", "error": ""}
    verdict, found = told(port_checks.check_mcp(facts(tmp_path, status={**STATUS, "mcp": mcp})))
    assert (verdict, "in the running engine" in found) == ("SKIP", True)


@promise("doctor.believes-the-engine")
def test_mcp_that_only_the_file_switches_off_is_looked_at(
    tmp_path: Path, mcp: AnsweringServer
) -> None:
    status = {**STATUS, "mcp": {"enabled": True, "port": mcp.port, "path": "/mcp", "error": ""}}
    on = facts(tmp_path, status=status, config=config(tmp_path, mcp_enabled=False))
    assert told(port_checks.check_mcp(on))[0] == "PASS"


def test_a_port_where_nothing_listens_is_told_in_words(
    tmp_path: Path, free_port: Callable[[], int]
) -> None:
    mcp = {"enabled": True, "port": free_port(), "path": "/mcp", "error": ""}
    verdict, found = told(port_checks.check_mcp(facts(tmp_path, status={**STATUS, "mcp": mcp})))
    assert verdict == "FAIL"
    assert "nothing listens there (connection refused)" in found
    assert "Errno" not in found


def test_an_engine_that_says_no_reason_is_not_told_of_with_an_empty_one(
    tmp_path: Path, free_port: Callable[[], int]
) -> None:
    mcp = {"enabled": True, "port": None, "path": "/mcp", "error": ""}
    mine = facts(
        tmp_path, status={**STATUS, "mcp": mcp}, config=config(tmp_path, mcp_port=free_port())
    )
    line = port_checks.check_mcp(mine)
    assert told(line) == ("FAIL", "The engine does not listen for MCP: It does not say why.")
    assert "tries again every 60 s" in line.remedy


@promise("doctor.port-of-another")
def test_a_port_of_another_program_fails_and_names_it(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        down = facts(tmp_path, engine=False, config=config(tmp_path, mcp_port=port, rpc_port=port))
        for check in (port_checks.check_mcp, port_checks.check_rpc):
            verdict, found = told(check(down))
            assert verdict == "FAIL"
            assert f"PID {os.getpid()}" in found


@promise("doctor.own-supervisor")
def test_the_port_of_its_own_supervisor_is_no_other_programs_and_the_start_is_told(
    tmp_path: Path,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        down = facts(tmp_path, engine=False, config=config(tmp_path, mcp_port=port, rpc_port=0))
        state_dir = down.config.state_dir
        state_dir.mkdir(exist_ok=True)
        (state_dir / SUPERVISOR_FILE).write_text(json.dumps({"pid": os.getpid()}))
        killed = EngineFile(path=tmp_path / "x", pid=2**22 + 1, rpc_port=1, mcp_port=1, facts={})
        silent = Failed("It does not answer.", code=ErrorCode.DISCONNECTED)
        restarted = dataclasses.replace(down, engine=killed, unreachable=silent)
        for check in (port_checks.check_mcp, port_checks.check_engine, port_checks.check_rpc):
            for found_down in (down, restarted):
                verdict, found = told(check(found_down))
                assert verdict == "WARN"
                assert f"The supervisor with PID {os.getpid()} is starting the engine" in found
        # The engine is up, and could not bind its port for another reason.
        up = {**STATUS, "mcp": {"port": None, "error": "No address."}}
        line = port_checks.check_mcp(facts(tmp_path, status=up, config=down.config, engine=True))
        assert "another program" not in line.found
        assert "No address." in line.found
        visa = {**STATUS, "visa": {"enabled": True, "port": None, "error": "No address."}}
        hislip = config(tmp_path, hislip_port=port)
        line = check_hislip(facts(tmp_path, status=visa, config=hislip))
        assert line.found == "No address."


def test_an_rpc_port_that_wants_its_token_fails_with_what_to_do(tmp_path: Path) -> None:
    check = port_checks.check_rpc
    assert told(check(facts(tmp_path)))[0] == "PASS"
    refused = Refused("It wants its token.", code=ErrorCode.NOT_AUTHENTICATED, remedy="Give it.")
    line = check(facts(tmp_path, status={}, unreachable=refused))
    assert (line.verdict, line.remedy) == (CheckVerdict.FAIL, "Give it.")


def test_who_can_reach_it(tmp_path: Path) -> None:
    check = port_checks.check_reach
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert told(check(facts(tmp_path, status={**STATUS, "mcp": {"port": port}})))[0] == "PASS"
    assert told(check(facts(tmp_path, status={**STATUS, "mcp": {"port": port}})))[0] == "SKIP"


def test_usb_instruments_must_be_openable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check = machine_checks.check_usb
    assert told(check(facts(tmp_path, devices=tmp_path)))[0] == "PASS"
    device, interface = tmp_path / "1-2", tmp_path / "1-2:1.0"
    device.mkdir()
    interface.mkdir()
    (device / "busnum").write_text("1\n")
    (device / "devnum").write_text("250\n")
    (interface / "bInterfaceClass").write_text("fe\n")
    (interface / "bInterfaceSubClass").write_text("03\n")
    line = check(facts(tmp_path, devices=tmp_path))
    assert told(line) == ("FAIL", "This user may not open /dev/bus/usb/001/250.")
    assert "udev" in line.remedy


def test_a_visa_library_that_cannot_be_loaded_fails(tmp_path: Path) -> None:
    check = machine_checks.check_visa
    assert check(facts(tmp_path)).verdict in {CheckVerdict.PASS, CheckVerdict.WARN}
    for library in ("/nowhere/libvisa.so", "/nowhere/bench.yaml@sim"):
        lost = facts(tmp_path, config=config(tmp_path, visa_library=library))
        assert told(check(lost))[0] == "FAIL"


def test_a_visa_library_that_is_a_file_for_a_backend_passes(tmp_path: Path) -> None:
    bench = tmp_path / "bench.yaml"
    bench.write_text("spec: '1.1'")
    named = facts(tmp_path, config=config(tmp_path, visa_library=f"{bench}@sim"))
    verdict, found = told(machine_checks.check_visa(named))
    assert (verdict, f"{bench}@sim" in found) == ("PASS", True)


def test_profiles_that_are_missing_broken_or_kept_are_warned_of(tmp_path: Path) -> None:
    check = bench_checks.check_profiles
    assert told(check(facts(tmp_path)))[0] == "PASS"
    mine = tmp_path / "profiles"
    mine.mkdir()
    odd = facts(tmp_path, config=config(tmp_path, profile_dirs=(mine,)))
    assert told(check(odd))[0] == "WARN"
    (mine / "broken.yaml").write_text("key: [")
    verdict, found = told(check(odd))
    assert verdict == "WARN"
    assert "broken.yaml:1:" in found
    kept = {**STATUS, "profiles": {"kept": ["broken"], "bench_error": ""}}
    going_on = facts(tmp_path, config=odd.config, status=kept)
    assert "goes on with the earlier versions of broken" in check(going_on).remedy


@promise("owner.unseen-keys")
def test_the_bench_file(tmp_path: Path) -> None:
    check = bench_checks.check_bench_file
    file = tmp_path / "bench.yaml"
    own = config(tmp_path, bench_file=file)
    assert told(check(facts(tmp_path, config=own)))[0] == "PASS"
    file.write_text("format: 1\n")
    assert f"{file} has no entries" in told(check(facts(tmp_path, config=own)))[1]
    file.write_text("format: 1\nSN1: {limits: {set_voltage: {voltage: {max: 12}}}}\n")
    verdict, found = told(check(facts(tmp_path, config=own)))
    assert (verdict, "has entries for: 1" in found) == ("PASS", True)
    known = SeenUnit(serial="SN1", serial_told="S/N: SN1")
    assert told(check(facts(tmp_path, config=own, seen=[known])))[0] == "PASS"
    other = SeenUnit(serial="SN2", serial_told="SN2")
    verdict, found = told(check(facts(tmp_path, config=own, seen=[other])))
    assert (verdict, f"{file}:2:" in found) == ("WARN", True)
    assert "matches 'SN1', so this entry limits nothing." in found
    file.write_text("format: 1\nSN1: {limits: {set_voltage: {voltage: {max: 1.0e6}}}}\n")
    verdict, found = told(check(facts(tmp_path, config=own)))
    assert verdict == "FAIL"
    assert f"{file}:2:" in found
    wrong = {"bench_error": "bench.yaml:9:1: wrong.", "bench_error_since_ms": 1_790_000_000_000}
    older = {**STATUS, "profiles": {"kept": [], **wrong}}
    verdict, found = told(check(facts(tmp_path, config=own, status=older)))
    assert (verdict, "bench.yaml:9:1" in found, " since 2026-09-2" in found) == ("FAIL", True, True)


@promise("owner.file-lost-lifts-nothing")
def test_a_bench_file_that_is_gone_is_a_failure_with_an_engine_and_without(
    tmp_path: Path,
) -> None:
    check = bench_checks.check_bench_file
    file = tmp_path / "bench.yaml"
    own = config(tmp_path, bench_file=file)
    file.write_text("format: 1\nSN1: {limits: {set_voltage: {voltage: {max: 12}}}}\n")
    copy = BenchCopy(file, own.state_dir)
    copy.keep(copy.read(shipped_library()), 1)
    file.unlink()
    verdict, found = told(check(facts(tmp_path, config=own)))
    assert (verdict, "was there and is gone" in found, str(copy.copy) in found) == (
        "FAIL",
        True,
        True,
    )
    unkept = {**STATUS, "profiles": {"kept": [], "bench_copy_error": "The disk is full."}}
    file.write_text("format: 1\n")
    verdict, found = told(check(facts(tmp_path, config=own, status=unkept)))
    assert (verdict, "The disk is full." in found) == ("WARN", True)


@pytest.mark.parametrize(
    ("names", "verdict", "says"),
    [
        (["list_instruments"], "PASS", "1 tools"),
        (["a.b"], "WARN", "a.b"),
    ],
)
def test_names_that_strict_clients_drop_are_warned_of(
    tmp_path: Path, names: list[str], verdict: str, says: str
) -> None:
    status = {**STATUS, "mcp": {"listed": {"tools": len(names), "kib": 1}, "warning": ""}}
    tools = [{"name": name} for name in names]
    line = bench_checks.check_tool_list(facts(tmp_path, status=status, tools=tools))
    assert told(line)[0] == verdict
    assert says in line.found


def test_a_long_tool_list_is_a_warning_that_names_a_way_out(tmp_path: Path) -> None:
    mcp = {"listed": {"tools": 101, "kib": 150}, "warning": "101 tools: u?tools=essential"}
    line = bench_checks.check_tool_list(facts(tmp_path, status={**STATUS, "mcp": mcp}))
    assert told(line)[0] == "WARN"
    assert "150 KiB" in line.found
    assert "u?tools=essential" in line.found
    assert "edged connect --tools essential" in line.remedy


def test_a_tie_and_a_bus_that_was_not_looked_at_are_warnings(tmp_path: Path) -> None:
    buses = [{"name": "usb", "found": 2, "remark": ""}]
    known = {"buses": buses, "hotplug": {"monitor": "kernel"}, "ties": []}

    def judged(**more: object) -> tuple[str, str]:
        status = {**STATUS, "discovery": {**known, **more}}
        return told(bench_checks.check_discovery(facts(tmp_path, status=status)))

    assert judged() == ("PASS", "Looked at: usb 2; hot-plug monitor: kernel.")
    assert judged(ties=[{"instrument_id": "USB0", "profiles": ["a", "b"]}])[0] == "WARN"
    assert "libusb" in judged(buses=[{"name": "usb", "found": 0, "remark": "no libusb."}])[1]
    assert judged(buses=[])[1].startswith("Looked at: nothing but INSTRUMENTS")
    restricted = {"instrument_id": "psu", "warning": "It does not answer its error query."}
    assert judged(warnings=[restricted])[0] == "WARN"
    twins = [{"instrument_id": "psu", "serial": "A1", "addresses": ["USB0"]}]
    verdict, found = judged(twins=twins)
    assert (verdict, "psu tells A1 as USB0 do" in found) == ("WARN", True)


def test_the_states_of_instruments_are_told_and_one_in_trouble_is_a_warning_by_its_alias(
    tmp_path: Path,
) -> None:
    def judged(**more: object) -> tuple[str, str]:
        status = {**STATUS, **more}
        return told(bench_checks.check_lines(facts(tmp_path, status=status)))

    states = {"ready": 2, "lost": 1}
    lost = {
        "instrument_id": "TCPIP::1",
        "state": "lost",
        "reason": "connection refused",
        "remedy": "Check the name.",
    }
    assert judged(instruments_by_state={"ready": 2}) == ("PASS", "Instruments: 2 ready.")
    verdict, says = judged(instruments_by_state=states, troubled_lines=[{**lost, "alias": "psu"}])
    assert verdict == "WARN"
    assert "psu (TCPIP::1) is lost: connection refused" in says
    assert "TCPIP::1 is lost" in judged(troubled_lines=[{**lost, "alias": ""}])[1]
    status = {**STATUS, "troubled_lines": [{**lost, "alias": ""}] * 2}
    line = bench_checks.check_lines(facts(tmp_path, status=status))
    assert line.remedy == "Check the name. `edged trace ADDRESS` shows it."


def test_an_instrument_without_a_profile_is_a_warning_with_the_command_that_drafts_one(
    tmp_path: Path,
) -> None:
    psu = {"id": "A1", "alias": "psu", "address": "TCPIP::1", "profile_name": "rigol_dp832"}
    bare = {"id": "A2", "alias": "laser", "address": "TCPIP::2", "profile_name": ""}
    check = bench_checks.check_unprofiled
    assert told(check(facts(tmp_path, instruments=[psu])))[0] == "PASS"
    line = check(facts(tmp_path, instruments=[psu, bare]))
    assert told(line)[0] == "WARN"
    assert "an abort of its own: laser (A2)." in line.found
    assert "edged profile new --from TCPIP::2" in line.remedy
    assert told(check(facts(tmp_path, engine=False)))[0] == "SKIP"


def test_a_stop_that_is_not_confirmed_is_a_warning(tmp_path: Path) -> None:
    psu = {"id": "TCPIP::1", "alias": "psu"}
    status = {**STATUS, "stopping": ["TCPIP::1", "TCPIP::2"]}
    verdict, found = told(
        bench_checks.check_attention(facts(tmp_path, status=status, instruments=[psu]))
    )
    assert verdict == "WARN"
    assert "The stop of psu (TCPIP::1), TCPIP::2 is not confirmed yet" in found


def test_what_the_previous_run_left_on_is_a_warning(tmp_path: Path) -> None:
    psu = {"id": "TCPIP::1", "alias": "psu"}
    left_on = [
        {"instrument_id": "TCPIP::1", "outputs": ["A", "B", "*"], "off": ["A"], "left": ["A", "*"]},
        {"instrument_id": "TCPIP::2", "outputs": ["A"], "off": ["A"], "left": ["A"]},
    ]
    status = {**STATUS, "told_on": left_on}
    verdict, found = told(
        bench_checks.check_attention(facts(tmp_path, status=status, instruments=[psu]))
    )
    assert verdict == "WARN"
    assert "left on: psu (TCPIP::1) (an output)." in found


def test_outputs_of_unknown_state_are_a_warning_that_says_why(tmp_path: Path) -> None:
    psu = {"id": "TCPIP::1", "alias": "psu"}
    why = "a raw line that no command of its profile matches was sent"
    any_output = {"instrument_id": "TCPIP::1", "outputs": ["*"], "off": [], "left": [], "why": why}
    left_on = {"instrument_id": "TCPIP::2", "outputs": ["A"], "off": [], "left": ["A"], "why": ""}

    def warned(*told_on: dict[str, Any]) -> bench_checks.CheckLine:
        status = {**STATUS, "told_on": [*told_on]}
        return bench_checks.check_attention(facts(tmp_path, status=status, instruments=[psu]))

    line = warned(any_output)
    assert told(line)[0] == "WARN"
    assert line.found == (
        "The state of the outputs of psu (TCPIP::1) is not known: a raw line that no command of "
        "its profile matches was sent."
    )
    assert "bench__check" in line.remedy
    assert "edged stop" in line.remedy
    assert told(warned({**any_output, "off": ["*"]}))[0] == "PASS"
    both = warned(any_output, left_on)
    assert "left on: TCPIP::2 (A)." in both.found
    assert "of psu (TCPIP::1) is not known" in both.found


def test_set_aside_attention_and_lockouts_are_warnings(tmp_path: Path) -> None:
    silent = {"address": "TCPIP::1::SOCKET", "reason": "no answer to *IDN?", "remedy": "On."}
    left_over = {
        "sweep_id": "sweep-1",
        "instrument_id": "TCPIP::1",
        "alias": "psu",
        "needs_attention": True,
    }
    status = {
        **STATUS,
        "set_aside": [silent],
        "sweeps": [left_over],
        "needs_attention": [left_over],
        "lockouts": [
            {"instrument_id": "TCPIP::1", "alias": "psu", "by": "anna", "reason": "hands"},
            {"instrument_id": "TCPIP::2", "alias": "", "by": "otto", "reason": "hot"},
        ],
    }
    for check, says in (
        (bench_checks.check_set_aside, "no answer"),
        (bench_checks.check_attention, "The abort of sweep-1 on psu (TCPIP::1) was"),
        (bench_checks.check_lockouts, "psu (TCPIP::1) by anna: hands; TCPIP::2 by otto: hot"),
    ):
        assert told(check(facts(tmp_path)))[0] == "PASS"
        verdict, found = told(check(facts(tmp_path, status=status)))
        assert verdict == "WARN"
        assert says in found


@pytest.mark.parametrize(
    ("jwks", "verdict"),
    [
        ({"keys": 2, "age_s": 3, "error": ""}, "PASS"),
        ({"keys": 0, "age_s": None, "error": ""}, "PASS"),
        ({"keys": 2, "age_s": 3, "error": "no route"}, "WARN"),
        ({"keys": 0, "age_s": None, "error": "no route"}, "FAIL"),
    ],
)
def test_a_relay_without_its_issuers_keys_fails(
    tmp_path: Path, jwks: dict[str, Any], verdict: str
) -> None:
    assert told(check_relay(facts(tmp_path)))[0] == "SKIP"
    half = config(tmp_path, relay_issuer="https://issuer.example")
    assert told(check_relay(facts(tmp_path, config=half)))[0] == "FAIL"
    status = {**STATUS, "relay": {"jwks": jwks, "link": CONNECTED}}
    assert told(check_relay(facts(tmp_path, config=relayed(half), status=status)))[0] == verdict


CONNECTED = {
    "state": "connected",
    "since_ms": 1_795_262_400_000,
    "last_error": "",
    "last_error_ms": 0,
}


def relayed(half: Config) -> Config:
    return dataclasses.replace(
        half,
        relay_issuer="https://issuer.example",
        relay_nats_url="nats://user:secret@n.example",
        relay_jwks_url="https://issuer.example/jwks",
    )


@promise("relay.link-told")
@pytest.mark.parametrize("state", ["off", "reconnecting"])
def test_a_relay_that_is_not_connected_is_told_with_since_when_and_why(
    tmp_path: Path, state: str
) -> None:
    link = {**CONNECTED, "state": state, "last_error": "Connection refused"}
    status = {**STATUS, "relay": {"jwks": None, "link": link}}
    verdict, found = told(
        check_relay(facts(tmp_path, config=relayed(config(tmp_path)), status=status))
    )
    assert verdict == "WARN"
    for part in (state, "nats://n.example", "2026-11-21 12:00:00 UTC", "Connection refused"):
        assert part in found
    assert "secret" not in found


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        ({}, "PASS"),
        ({"used_mb": 95.0}, "WARN"),
        ({"is_full": True}, "WARN"),
        ({"error": "The disk is full."}, "FAIL"),
    ],
)
def test_recordings_are_warned_of_before_they_are_refused(
    tmp_path: Path, change: dict[str, Any], verdict: str
) -> None:
    status = {**STATUS, "recordings": {**STATUS["recordings"], **change}}
    assert told(bench_checks.check_budget(facts(tmp_path, status=status)))[0] == verdict


@pytest.mark.parametrize(("is_kept", "verdict"), [(True, "PASS"), (False, "WARN"), (None, "PASS")])
def test_a_clock_that_nobody_keeps_right_is_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_kept: bool | None, verdict: str
) -> None:
    monkeypatch.setattr(bench_checks, "clock_state", lambda: {"is_synchronized": is_kept})
    assert told(bench_checks.check_clock(facts(tmp_path)))[0] == verdict


@promise("sdk.doctor")
def test_wrappers_that_cannot_be_used_are_a_warning_with_what_to_install(tmp_path: Path) -> None:
    fine = {
        "wrapper": "a",
        "state": "ready",
        "is_seen": True,
        "is_usable": True,
        "tools": 3,
    }
    missing = {
        "wrapper": "b",
        "state": "library_missing",
        "is_seen": True,
        "is_usable": False,
        "tools": 2,
        "problem": "libdwf.so was not found.",
        "remedy": "Install WaveForms.",
    }

    def look(*wrappers: Any, complaints: Any = ()) -> CheckLine:
        sdk = {"wrappers": list(wrappers), "complaints": list(complaints)}
        return check_wrappers(facts(tmp_path, status={**STATUS, "sdk": sdk}))

    assert told(look()) == ("PASS", "There is no SDK wrapper.")
    assert told(look(fine)) == ("PASS", "a with 3 tools.")
    helper = {**fine, "wrapper": "h", "tools": 0}
    assert told(look(fine, helper)) == ("PASS", "a with 3 tools, h (no tools declared).")
    line = look(fine, missing)
    assert told(line) == ("WARN", "b (library_missing): libdwf.so was not found.")
    assert line.remedy == "Install WaveForms."
    absent = look({**missing, "is_seen": False})
    assert told(absent)[0] == "PASS"
    assert "no such device was seen" in absent.found
    assert told(look(fine, complaints=["x.py: no."]))[0] == "WARN"
    many = look(*[{**missing, "wrapper": name} for name in "bcdefg"]).found
    assert many.startswith("b (library_missing): libdwf.so was not found. / c (")
    assert many.endswith("/ 3 more: see `edged status`.")
    assert told(check_wrappers(facts(tmp_path, engine=False)))[0] == "SKIP"
