"""PyVISA programs on the guarded bench through ``pyvisa_edged``: real engines, simulated bench."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
import pyvisa
from pyvisa import constants
from pyvisa.constants import StatusCode
from pyvisa.resources import MessageBasedResource

from pyvisa_edged import EdgedVisaError
from tests.bench.engine import Engine, running_engine
from tests.bench.engine_process import REPOSITORY, engine_process
from tests.bench.mcp_client import McpClient
from tests.bench.waiting import HANGS_S, wait_for
from tests.promises import promise

LONG = "x" * 2_049
PSU, SCOPE, DMM = "psu1", "scope1", "dmm1"


@contextlib.contextmanager
def bench(
    directory: Path,
    rules: dict[str, Any] | None = None,
    start: Callable[..., AbstractContextManager[Any]] = running_engine,
    **config: Any,
) -> Iterator[Any]:
    if rules is not None:
        (directory / "bench.yaml").write_text(json.dumps({"format": 1, **rules}))
    with start(directory, config=config) as engine:
        yield engine


@contextlib.contextmanager
def manager(engine: Engine) -> Iterator[pyvisa.ResourceManager]:
    opened = pyvisa.ResourceManager(f"{engine.mcp_url}@edged")
    try:
        yield opened
    finally:
        opened.close()


def opened(rm: pyvisa.ResourceManager, name: str, **more: Any) -> MessageBasedResource:
    resource = rm.open_resource(name, read_termination="\n", **more)
    assert isinstance(resource, MessageBasedResource)
    return resource


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with bench(tmp_path_factory.mktemp("visa")) as running:
        yield running


@pytest.fixture
def rm(engine: Engine) -> Iterator[pyvisa.ResourceManager]:
    with manager(engine) as made:
        yield made
    for lease in engine.rpc("leases.list")["leases"]:
        engine.rpc("leases.break", lease_id=lease["lease_id"], reason="test is over", by="test")


def rows(engine: Engine, **asked: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = engine.rpc("audit.list", **asked)["rows"]
    return found


@promise("visa.every-call")
def test_units_are_listed_and_opened_by_every_name(
    engine: Engine, rm: pyvisa.ResourceManager
) -> None:
    assert set(rm.list_resources()) == {PSU, SCOPE, DMM}
    everything = rm.list_resources("?*")
    addresses = [name for name in everything if name.startswith("TCPIP")]
    assert len(addresses) == 3
    assert set(everything) == {PSU, SCOPE, DMM, *addresses}
    assert set(rm.list_resources("?*::SOCKET")) == set(addresses)
    units = engine.tool("list_instruments")["result"]
    (psu,) = [unit for unit in units if unit["alias"] == PSU]
    for name in (PSU, psu["id"], psu["address"], psu["serial"], psu["address"].lower()):
        with opened(rm, name) as unit:
            assert psu["serial"] in unit.query("*IDN?")
    info = rm.resource_info(PSU)
    assert (info.resource_class, info.alias) == ("SOCKET", PSU)
    with pytest.raises(EdgedVisaError, match=PSU) as unknown:
        rm.open_resource("nobody")
    assert unknown.value.error_code == StatusCode.error_resource_not_found


@promise("visa.every-call")
def test_each_call_of_pyvisas_does_what_it_does_elsewhere(rm: pyvisa.ResourceManager) -> None:
    psu = opened(rm, PSU)
    assert psu.query("*IDN?").startswith("RIGOL")
    psu.write("*IDN?")
    assert psu.read_bytes(5) == b"RIGOL"
    assert psu.read().endswith("00.01.19")
    psu.write(":APPL CH1,2,1")
    assert psu.query_ascii_values(":APPL? CH1,VOLT") == [2.0]
    psu.write_raw(b"*IDN?\n")
    assert psu.read_raw().startswith(b"RIGOL")
    psu.write("*IDN?")
    wait_for(lambda: psu.read_stb() & 0x10)
    psu.clear()
    with pytest.raises(EdgedVisaError) as nothing:
        psu.read()
    assert nothing.value.error_code == StatusCode.error_timeout
    psu.timeout = 300
    assert psu.timeout == 300
    del psu.timeout
    assert psu.timeout == float("inf")
    assert psu.query("*OPC?") == "1"
    assert not psu.read_stb() & 0x10
    psu.assert_trigger()
    psu.flush(constants.BufferOperation.discard_read_buffer)
    psu.write_termination = "\r\n"
    assert psu.query("*IDN?").startswith("RIGOL")
    assert psu.get_visa_attribute(constants.ResourceAttribute.resource_manufacturer_name)
    for what in (
        lambda: psu.enable_event(
            constants.EventType.service_request, constants.EventMechanism.queue
        ),
        lambda: psu.wait_on_event(constants.EventType.service_request, 1),
    ):
        with pytest.raises(EdgedVisaError, match="not offered") as event:
            what()
        assert event.value.error_code == StatusCode.error_nonsupported_operation
    psu.close()
    with pytest.raises(pyvisa.InvalidSession):
        psu.query("*IDN?")


@promise("visa.every-call")
def test_blocks_come_and_go_whole(rm: pyvisa.ResourceManager) -> None:
    scope = opened(rm, SCOPE)
    scope.write(":WAV:SOUR CHAN1;:WAV:MODE NORM;:WAV:FORM BYTE")
    values = scope.query_binary_values(":WAV:DATA?", datatype="B")
    assert len(values) == 1200
    scope.chunk_size = 100
    assert len(scope.query_binary_values(":WAV:DATA?", datatype="B")) == 1200


@promise("visa.bounds")
def test_a_known_command_is_held_to_the_profiles_bounds_and_the_refusal_is_in_its_queue(
    engine: Engine, rm: pyvisa.ResourceManager
) -> None:
    psu, other = opened(rm, PSU), opened(rm, PSU)
    before = len(sent(engine))
    with pytest.raises(EdgedVisaError, match="99") as refused:
        psu.write(":SOUR1:VOLT 99")
    assert (refused.value.error_code, refused.value.scpi) == (
        StatusCode.error_invalid_parameter,
        -222,
    )
    assert not any("99" in line for line in sent(engine)[before:])
    assert psu.read_stb() & 4
    assert other.query(":SYST:ERR?").startswith("0")
    assert psu.query(":SYSTEM:ERROR:NEXT?").startswith('-222,"Data out of range;')
    assert psu.query("SYST:ERR?").startswith("0")
    assert not psu.read_stb() & 4


def sent(engine: Engine, name: str = PSU) -> list[str]:
    entries = engine.sim("log", instrument=name, limit=10_000)["entries"]
    return "".join(e["text"] for e in entries if e["direction"] == "in").splitlines()


@promise("visa.one-path")
def test_each_line_has_a_row_with_the_programs_name(
    engine: Engine, rm: pyvisa.ResourceManager
) -> None:
    psu = opened(rm, PSU)
    psu.write(":SOUR2:VOLT 1.25")
    wait_for(lambda: any(":SOUR2:VOLT 1.25" in json.dumps(row) for row in rows(engine, limit=20)))
    (row,) = [r for r in rows(engine, limit=20) if ":SOUR2:VOLT 1.25" in json.dumps(r)][:1]
    assert row["tool"] == "send_scpi"
    assert f"PyVISA {pyvisa.__version__}" in json.dumps(row)


@promise("visa.guards")
def test_a_lockout_refuses_writes_and_lets_reads_pass(
    engine: Engine, rm: pyvisa.ResourceManager
) -> None:
    psu = opened(rm, PSU)
    engine.rpc("lockout.set", instrument_id=PSU, reason="wiring", by="test")
    try:
        with pytest.raises(EdgedVisaError, match="wiring") as held:
            psu.write(":SOUR1:VOLT 1")
        assert held.value.error_code == StatusCode.error_resource_locked
        assert psu.query("SYST:ERR?").startswith("-221,")
        assert psu.query("*IDN?").startswith("RIGOL")
        psu.write("*CLS")
    finally:
        engine.rpc("lockout.clear", instrument_id=PSU)
    psu.write(":SOUR1:VOLT 1")


@promise("visa.guards")
def test_a_lease_of_another_refuses_writes_and_lets_reads_pass(
    engine: Engine, rm: pyvisa.ResourceManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = engine.tool("bench__reserve", instruments=[PSU], purpose="burn-in")["result"]
    psu = opened(rm, PSU)
    with pytest.raises(EdgedVisaError, match="burn-in"):
        psu.write(":SOUR1:VOLT 1")
    assert psu.query("SYST:ERR?").startswith("-221,")
    assert psu.query(":SOUR1:VOLT?")
    assert psu.query("*ESR?") == "16"
    with pytest.raises(EdgedVisaError, match="burn-in") as locked:
        psu.lock_excl(timeout=0)
    assert locked.value.error_code == StatusCode.error_resource_locked
    monkeypatch.setenv("EDGED_LEASE", lease["lease_id"])
    own = pyvisa.ResourceManager(f"{engine.mcp_url}?as=holder@edged")
    opened(own, PSU).write(":SOUR1:VOLT 1")
    own.close()


@promise("visa.lock-is-a-lease")
def test_a_lock_is_a_lease_that_ends_with_its_program(
    engine: Engine, rm: pyvisa.ResourceManager
) -> None:
    psu, other = opened(rm, PSU), pyvisa.ResourceManager(f"{engine.mcp_url}?another@edged")
    theirs = opened(other, PSU)
    with psu.lock_context(timeout=0):
        (lease,) = engine.rpc("leases.list")["leases"]
        assert lease["instruments"] == [PSU]
        assert "lock of" in lease["purpose"]
        assert psu.lock_state == constants.AccessModes.exclusive_lock
        psu.write(":SOUR1:VOLT 1.5")
        with pytest.raises(EdgedVisaError):
            theirs.write(":SOUR1:VOLT 1")
        assert theirs.query(":SOUR1:VOLT?")
        refused = engine.tool("send_scpi", instrument_id=PSU, scpi_command=":SOUR1:VOLT 1")
        assert refused["error"]["code"] == "leased"
    assert engine.rpc("leases.list")["leases"] == []
    key = psu.lock(timeout=0)
    theirs.lock(timeout=0, requested_key=key)
    theirs.write(":SOUR1:VOLT 1")
    theirs.unlock()
    other.close()
    assert len(engine.rpc("leases.list")["leases"]) == 1
    psu.close()
    assert engine.rpc("leases.list")["leases"] == []


@promise("visa.lock-is-a-lease")
def test_a_lock_under_a_lease_that_has_ended_is_refused_and_gives_no_other(
    engine: Engine, rm: pyvisa.ResourceManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = engine.tool("bench__reserve", instruments=[PSU])["result"]["lease_id"]
    other = engine.tool("bench__reserve", instruments=[DMM])["result"]["lease_id"]
    engine.tool("bench__release", lease_id=lease)
    monkeypatch.setenv("EDGED_LEASE", lease)
    late = pyvisa.ResourceManager(f"{engine.mcp_url}?as=late@edged")
    try:
        psu = opened(rm, PSU)
        for key, reason in (
            (lease, "unknown_lease"),
            ("nonsense", "unknown_lease"),
            (other, "leased"),
        ):
            with pytest.raises(EdgedVisaError) as refused:
                psu.lock(timeout=0, requested_key=key)
            assert refused.value.reason == reason
        with pytest.raises(EdgedVisaError) as refused:
            opened(late, PSU).lock_excl(timeout=0)
        assert refused.value.reason == "unknown_lease"
        assert [row["instruments"] for row in engine.rpc("leases.list")["leases"]] == [[DMM]]
        psu.write(":SOUR1:VOLT 1")
    finally:
        engine.tool("bench__release", lease_id=other)
        late.close()


@promise("visa.lock-is-a-lease")
def test_who_gives_back_a_lock_that_it_shared_works_without_it(
    engine: Engine, rm: pyvisa.ResourceManager
) -> None:
    psu, other = opened(rm, PSU), pyvisa.ResourceManager(f"{engine.mcp_url}?sharing@edged")
    theirs = opened(other, PSU)
    key = psu.lock(timeout=0)
    theirs.lock(timeout=0, requested_key=key)
    theirs.unlock()
    with pytest.raises(EdgedVisaError):
        theirs.write(":SOUR1:VOLT 1")
    psu.unlock()
    theirs.write(":SOUR1:VOLT 1")
    with theirs.lock_context(timeout=0):
        theirs.write(":SOUR1:VOLT 1.5")
    other.close()


@promise("mcp.bounded-bodies")
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("open", {"resource": LONG}),
        ("open", {"resource": PSU, "program": LONG}),
        ("lock", {"session": 1, "lease_id": LONG}),
    ],
)
async def test_a_text_that_is_longer_than_any_name_is_refused(
    engine: Engine, method: str, params: dict[str, Any]
) -> None:
    client = McpClient(engine.ports["mcp_port"])
    await client.initialize("2025-06-18")
    await client.request("edged/visa.open", {"resource": PSU})
    refused = (await client.request(f"edged/visa.{method}", params)).json()["error"]
    assert refused["code"] == -32602, refused
    assert refused["message"].endswith("is a text of at most 2048 characters.")


@promise("visa.guards")
def test_a_sweep_owns_its_parameter(engine: Engine, rm: pyvisa.ResourceManager) -> None:
    psu = opened(rm, PSU)
    psu.write(":SOUR3:VOLT 0")
    swept = engine.tool(
        "start_sweep",
        instrument_id=PSU,
        command_name="set_voltage",
        parameters={"channel": 3},
        target_value=3,
        sweep_rate=0.05,
    )
    assert "error" not in swept, swept
    try:
        with pytest.raises(EdgedVisaError) as held:
            psu.write(":SOUR3:VOLT 2")
        assert held.value.reason == "sweep_conflict"
        assert psu.query("SYST:ERR?").startswith("-221,")
    finally:
        engine.tool("bench__stop_all")


@promise("visa.guards")
def test_raw_policy_budget_interlock_and_approval_hold_for_programs(tmp_path: Path) -> None:
    rules = {
        PSU: {
            "budget": {"output_on": {"per_hour": 1}},
            "limits": {"set_voltage": {"voltage": {"max": 4}}},
            "confirm": ["set_current"],
            "confirm_ttl_s": 1,
        },
        "interlocks": [
            {
                "name": "rail",
                "when": {"instrument": DMM, "command": "measure_dc_voltage"},
                "must": "value > 1e6",
                "max_age_s": 5,
                "poll_s": 1,
                "guards": [SCOPE],
                "trip": "abort",
            }
        ],
    }
    with bench(tmp_path, rules) as engine, manager(engine) as rm:
        psu, scope = opened(rm, PSU), opened(rm, SCOPE)
        cases = [
            (psu, ":FOO:BAR 1", "raw_scpi_restricted", "-203,"),
            (psu, ":SOUR1:VOLT 4.5", "bad_arguments", "-222,"),
            (psu, ":SOUR1:CURR 1", "needs_approval", "-221,"),
            (scope, ":CHAN1:SCAL 1", "interlock", "-221,"),
        ]
        psu.write(":OUTP CH1,ON")
        psu.write(":OUTP CH1,OFF")
        cases.append((psu, ":OUTP CH1,ON", "budget", "-221,"))
        for unit, line, reason, entry in cases:
            with pytest.raises(EdgedVisaError) as refused:
                unit.write(line)
            assert refused.value.reason == reason, (line, str(refused.value))
            assert unit.query("SYST:ERR?").startswith(entry), line
        assert psu.query("*IDN?").startswith("RIGOL")


@promise("visa.held-question")
def test_a_question_keeps_the_unit_until_it_is_read(
    engine: Engine, rm: pyvisa.ResourceManager
) -> None:
    psu = opened(rm, PSU, timeout=HANGS_S * 1000)
    psu.write("*IDN?")
    wait_for(lambda: psu.read_stb() & 0x10)
    told: list[Any] = []
    asking = threading.Thread(
        target=lambda: told.append(
            engine.tool(
                "execute_command",
                instrument_id=PSU,
                command_name="measure_voltage",
                parameters={"channel": 1},
            )
        )
    )
    asking.start()
    asking.join(0.5)
    assert not told
    stopped = engine.tool("bench__stop_all")
    assert "error" not in stopped
    assert not told
    assert psu.read().startswith("RIGOL")
    asking.join(HANGS_S)
    assert told[0]["result"]["success"]


@promise("visa.held-question")
def test_a_question_that_is_not_read_keeps_the_unit_no_longer_than_its_time_limit(
    engine: Engine, rm: pyvisa.ResourceManager
) -> None:
    psu = opened(rm, PSU, timeout=300)
    psu.write("*IDN?")
    # Whoever waits for the unit longer than its own time limit of two seconds is refused.
    answer = engine.tool("send_scpi", instrument_id=PSU, scpi_command=":SOUR1:VOLT?")
    assert answer["result"]["error"] is None


@promise("visa.permission")
def test_the_owners_bound_on_tools_holds_by_send_scpis_name(tmp_path: Path) -> None:
    with (
        bench(tmp_path, DIRECT_TOOLS_ALLOW=["list_instruments"]) as engine,
        manager(engine) as rm,
        pytest.raises(EdgedVisaError, match="send_scpi"),
    ):
        rm.open_resource(PSU)


@promise("visa.permission")
def test_where_danger_is_not_allowed_known_commands_pass_and_unknown_lines_do_not(
    tmp_path: Path,
) -> None:
    allowed = {"DIRECT_TOOLS_ALLOW": ["send_scpi"], "DIRECT_DANGER_ALLOW": False}
    with bench(tmp_path, **allowed) as engine, manager(engine) as rm:
        psu = opened(rm, PSU)
        psu.write(":SOUR1:VOLT 1")
        assert psu.query(":SOUR1:VOLT?")
        with psu.lock_context(timeout=0):
            psu.write("*CLS")
        for line in (":FOO 1", ":OUTP CH1,ON"):
            with pytest.raises(EdgedVisaError, match="dangerous"):
                psu.write(line)


@promise("visa.methods")
def test_the_methods_are_in_no_list_and_need_a_session(engine: Engine) -> None:
    import urllib.request

    body = {"jsonrpc": "2.0", "id": 1, "method": "edged/visa.list", "params": {}}
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    request = urllib.request.Request(engine.mcp_url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=10) as answer:
        reply = json.load(answer)
    assert "needs a session" in reply["error"]["message"]
    assert "edged/visa" not in json.dumps(engine.rpc("tools/list"))


SCRIPT = """
import sys, pyvisa
rm = pyvisa.ResourceManager(sys.argv[1] + "@edged")
psu = rm.open_resource("psu1", timeout=2000)
psu.lock_excl()
psu.write("*IDN?")
print("ready", flush=True)
sys.stdin.read()
"""


@promise("visa.client-gone")
def test_a_program_that_is_killed_keeps_nothing_for_long(
    engine: Engine, rm: pyvisa.ResourceManager
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT, engine.mcp_url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    ) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == b"ready\n"
        program.send_signal(signal.SIGKILL)
        program.wait()
    psu = opened(rm, PSU, timeout=5000)
    assert psu.query("*IDN?").startswith("RIGOL")
    (lease,) = engine.rpc("leases.list")["leases"]
    assert lease["expires_ms"] - time.time_ns() // 1_000_000 <= 60_000


@promise("visa.restart")
def test_a_restarted_engine_is_found_again_and_a_lost_answer_is_said(tmp_path: Path) -> None:
    with bench(tmp_path, start=engine_process) as engine:
        port = engine.ports["mcp_port"]
        with manager(engine) as rm:
            psu = opened(rm, PSU)
            assert psu.query("*IDN?")
            os.kill(engine.process.pid, signal.SIGKILL)
            engine.process.wait()
            with pytest.raises(EdgedVisaError) as gone:
                psu.query("*IDN?")
            assert gone.value.error_code == StatusCode.error_connection_lost
            with bench(tmp_path, MCP_PORT=port):
                assert psu.query("*IDN?").startswith("RIGOL")


@promise("visa.restart")
def test_a_unit_that_was_open_before_a_restart_is_never_taken_for_one_opened_since(
    tmp_path: Path,
) -> None:
    with bench(tmp_path, start=engine_process) as engine:
        port = engine.ports["mcp_port"]
        with manager(engine) as rm:
            psu, dmm = opened(rm, PSU), opened(rm, DMM)
            os.kill(engine.process.pid, signal.SIGKILL)
            engine.process.wait()
            with bench(tmp_path, MCP_PORT=port):
                # It is the first that is opened there, as the other was before.
                assert dmm.query("*IDN?").startswith("Keysight")
                psu.close()
                assert dmm.query("*IDN?").startswith("Keysight")
