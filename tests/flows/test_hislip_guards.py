"""Each guard of the bench, met by a program that speaks HiSLIP."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from edged.protocol.hislip import MessageType
from edged.surfaces.hislip import server
from tests.bench.engine import Engine, running_engine
from tests.bench.guarded_supply import engine_on, is_on, is_running
from tests.bench.hislip_program import HislipEnded, HislipProgram
from tests.bench.sim_bench import running_bench
from tests.bench.waiting import HANGS_S, wait_for
from tests.promises import promise

SERVING = {"VISA_SERVER": ["hislip"], "HISLIP_PORT": 0}
CONFLICT = "-221,"
RAIL = {
    "name": "rail",
    "when": {"instrument": "dmm1", "command": "measure_dc_voltage"},
    "must": "value > 100",
    "max_age_s": 10,
    "poll_s": 1,
    "guards": ["psu1.output_on"],
}
"""An interlock that no reading of the bench lets pass."""


@pytest.fixture(autouse=True)
def programs_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long a busy machine takes to look through its processes."""
    monkeypatch.setattr(server, "FIND_PROGRAM_S", HANGS_S)


@contextmanager
def bench_of(
    directory: Path, told: Mapping[str, Any], **config: Any
) -> Iterator[tuple[Engine, HislipProgram]]:
    """An engine whose owner says that of the bench, and a program at psu1."""
    (directory / "bench.yaml").write_text(json.dumps({"format": 1, **told}))
    with running_engine(directory, config={**SERVING, **config}) as engine:
        wait_for(lambda: len(engine.tool("list_instruments")["result"]) == 3)
        with HislipProgram.open(int(engine.ports["hislip_port"]), "hislip_psu1") as program:
            yield engine, program


def error_of(program: HislipProgram) -> str:
    return program.query("SYST:ERR?")


def volts(program: HislipProgram) -> float:
    return float(program.query(":SOUR1:VOLT?"))


@promise("hislip.guards")
def test_the_owners_limits_and_denials_hold(tmp_path: Path) -> None:
    told = {"psu1": {"limits": {"set_voltage": {"voltage": {"max": 4}}}, "deny": ["output_on"]}}
    with bench_of(tmp_path, told) as (_engine, program):
        assert "over the maximum 4 V" in program.refusal(":SOUR1:VOLT 5")
        assert error_of(program).startswith("-222,")
        assert "owner of this bench denies" in program.refusal(":OUTP CH1,ON")
        assert error_of(program).startswith("-203,")
        program.set(":SOUR1:VOLT 3.5")
        assert volts(program) == 3.5


@promise("hislip.guards")
@pytest.mark.parametrize(
    ("raw", "passes", "refused"),
    [
        ("known", ":SOUR1:VOLT 1", ":SYST:BEEP"),
        ("queries", ":SOUR1:VOLT?", ":SOUR1:VOLT 1"),
        ("off", "*IDN?", ":SOUR1:VOLT?"),
    ],
)
def test_raw_scpi_says_what_may_be_sent(
    tmp_path: Path, raw: str, passes: str, refused: str
) -> None:
    (tmp_path / "bench.yaml").write_text("format: 1\n")
    with (
        running_engine(tmp_path, config={**SERVING, "RAW_SCPI": raw}) as engine,
        HislipProgram.open(int(engine.ports["hislip_port"]), "hislip_psu1") as program,
    ):
        assert program.refusal(refused)
        assert error_of(program).startswith("-203,")
        program.write(passes)
        assert program.read() if "?" in passes else program.is_silent()


@promise("hislip.guards")
def test_permissions_are_those_of_send_scpi(tmp_path: Path) -> None:
    config = {**SERVING, "DIRECT_TOOLS_ALLOW": ["get_status", "list_instruments"]}
    with (
        running_engine(tmp_path, config=config) as engine,
        pytest.raises(HislipEnded, match="send_scpi"),
    ):
        HislipProgram.open(int(engine.ports["hislip_port"]), "hislip_psu1")


@promise("hislip.guards")
def test_what_is_dangerous_is_refused_where_the_owner_allows_no_danger(tmp_path: Path) -> None:
    with bench_of(tmp_path, {}, DIRECT_DANGER_ALLOW=False) as (_engine, program):
        assert "dangerous" in program.refusal(":OUTP CH1,ON")
        assert error_of(program).startswith("-203,")


@promise("hislip.guards")
def test_a_sweep_owns_its_parameter(tmp_path: Path) -> None:
    with bench_of(tmp_path, {}) as (engine, program):
        begun = engine.tool(
            "start_sweep",
            instrument_id="psu1",
            command_name="set_voltage",
            parameters={"channel": 1},
            target_value=5,
            sweep_rate=0.05,
        )
        assert not begun["is_error"], begun
        sentence = program.refusal(":SOUR1:VOLT 1")
        assert begun["result"]["sweep_id"] in sentence
        assert error_of(program).startswith(CONFLICT)
        assert volts(program) >= 0
        engine.tool("stop_sweep", sweep_id=begun["result"]["sweep_id"])


@promise("hislip.guards")
def test_a_person_is_asked_and_what_is_denied_is_refused(tmp_path: Path) -> None:
    told = {"psu1": {"confirm": ["output_on"], "confirm_by": ["cli"]}}
    with bench_of(tmp_path, told) as (engine, program):
        for is_yes in (False, True):
            program.write(":OUTP CH1,ON")
            wait_for(lambda: engine.rpc("approvals.list")["approvals"])
            (waiting,) = engine.rpc("approvals.list")["approvals"]
            assert re.search(r"HiSLIP zz, PID \d+ .* at 127\.0\.0\.1", waiting["who"])
            assert re.search(
                r"would send 2 lines, .*:\n  :OUTP CH1,ON\n  SYST:ERR", waiting["text"]
            )
            # Others are not kept waiting by it, and the program may ask how things are.
            assert engine.tool("send_scpi", instrument_id="psu1", scpi_command="*IDN?")["result"]
            assert program.status() == 0
            how = "approvals.approve" if is_yes else "approvals.deny"
            engine.rpc(how, approval_id=waiting["approval_id"], by="anna")
            if is_yes:
                assert program.query(":OUTP? CH1") in ("ON", "1")
            else:
                assert program.sync.next().kind == MessageType.ERROR
                assert error_of(program)[:1] == "-"


@promise("hislip.guards")
def test_a_budget_is_counted_over_all_roads(tmp_path: Path) -> None:
    with bench_of(tmp_path, {"psu1": {"budget": {"output_on": {"per_hour": 2}}}}) as (
        engine,
        program,
    ):
        program.set(":OUTP CH1,ON")
        used = engine.tool(
            "execute_command",
            instrument_id="psu1",
            command_name="output_on",
            parameters={"channel": 1},
        )
        assert not used["is_error"], used
        assert "all that the owner allows" in program.refusal(":OUTP CH1,ON")
        assert error_of(program).startswith("-221,")
        program.set(":OUTP CH1,OFF")


def in_a_block(header: str, line: str) -> str:
    """What is one message by IEEE 488.2, and two to an instrument that knows no block there."""
    data = f"\n{line}\n"
    return f"{header} #2{len(data):02}{data}"


@promise("dead-man.untouched")
def test_a_block_hides_nothing_from_a_unit_with_a_dead_man(tmp_path: Path) -> None:
    with (
        running_bench("--instruments", "psu1=keysight_n6700") as sim,
        engine_on(tmp_path, sim, 30.0, config=SERVING) as engine,
        HislipProgram.open(int(engine.ports["hislip_port"]), "hislip_psu1") as program,
    ):
        program.write("OUTP ON,(@1)")
        wait_for(lambda: is_on(sim))
        assert is_running(sim)
        for header in ("*CLS", "VOLT 1,(@1)", "VOLT? (@1)"):
            for line in ("OUTP:PROT:WDOG OFF", "*RST", "OUTP ON,(@1)"):
                assert "set dead_man_s" in program.refusal(in_a_block(header, line))
        assert is_running(sim)


@promise("hislip.guards")
@pytest.mark.parametrize("header", ["*CLS", ":SOUR1:VOLT?"])
@pytest.mark.parametrize("line", [":OUTP CH1,ON", "*RCL 1"])
def test_a_line_in_a_block_is_refused_where_an_interlock_guards(
    tmp_path: Path, header: str, line: str
) -> None:
    with bench_of(tmp_path, {"interlocks": [RAIL]}) as (_engine, program):
        assert "the interlock rail" in program.refusal(in_a_block(header, line))
        assert program.query(":OUTP? CH1") in ("OFF", "0")


@promise("hislip.guards")
def test_an_interlock_is_read_before_what_it_guards(tmp_path: Path) -> None:
    rule = {**RAIL, "trip": "abort"}
    with bench_of(tmp_path, {"interlocks": [rule]}) as (_engine, program):
        assert "rail" in program.refusal(":OUTP CH1,ON")
        assert error_of(program).startswith(CONFLICT)
        assert program.query(":OUTP? CH1") in ("OFF", "0")
