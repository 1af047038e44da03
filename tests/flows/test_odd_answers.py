"""What callers of a real engine are told where an instrument answers otherwise than described."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import pyvisa

from edged.protocol.hislip import MessageType
from tests.bench.engine import Engine, running_engine
from tests.bench.hislip_program import HislipProgram
from tests.bench.hosted import hosted
from tests.bench.paced_unit import PacedUnit
from tests.promises import promise

IDN = "Acme,SMU9,S1,1.0"
PROFILE = """
format: 1
profile_key: acme_smu9
manufacturer: Acme
model: SMU9
instrument_class: multimeter
source: a unit of this test
match: {idn: '^Acme,SMU9', examples: ["Acme,SMU9,S1,1.0"]}
connection:
  timeout_ms: 3000
  heartbeat: false
  errors: {query: "SYST:ERR?", kind: queue}
abort: [{send: "OUTP OFF", ask: "OUTP?", expect: '^0$'}]
commands:
  output_on: {description: On, scpi: "OUTP ON", is_dangerous: true}
  get_level: {description: Level, scpi: "LEV?", returns: {type: float, unit: V}}
  get_trace: {description: Trace, scpi: "FORM?", returns: {type: string}}
  set_level:
    description: Set the level
    scpi: "LEV {level}"
    parameters: {level: {type: float, min: 0, max: 5, unit: V}}
    verify: {query: "LEV?", tolerance: 0.01}
  wait:
    description: Wait for it
    scpi: "GO"
    complete: opc
  home:
    description: Go home
    scpi: "GO"
    complete: {poll: "ST?", until: "value > 33", every_ms: 20, timeout_ms: 2000}
"""
T_S = 3.0
LATE_S = 20.0
"""What a loaded machine adds to what docs/promises.md says."""


@contextlib.contextmanager
def bench(directory: Path) -> Iterator[tuple[Engine, PacedUnit]]:
    profiles = directory / "profiles"
    profiles.mkdir()
    (profiles / "acme_smu9.yaml").write_text(PROFILE)
    with hosted(lambda: PacedUnit(IDN)) as unit:
        config = {
            "PROFILE_DIRS": [str(profiles)],
            "INSTRUMENTS": [{"address": unit.address, "name": "smu"}],
            "VISA_SERVER": ["hislip"],
            "HISLIP_PORT": 0,
        }
        with running_engine(directory, sim=False, config=config) as engine:
            unit.special["LEV?"] = lambda: b"1.5\n"
            yield engine, unit


@pytest.fixture(scope="module")
def smu(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Engine, PacedUnit]]:
    with bench(tmp_path_factory.mktemp("odd")) as made:
        yield made


@contextlib.contextmanager
def manager(engine: Engine) -> Iterator[Any]:
    opened = pyvisa.ResourceManager(f"{engine.mcp_url}@edged")
    try:
        yield opened
    finally:
        opened.close()


def run(engine: Engine, command: str, **parameters: Any) -> dict[str, Any]:
    return engine.tool(
        "execute_command", instrument_id="smu", command_name=command, parameters=parameters
    )


def raw(engine: Engine, line: str, **more: Any) -> dict[str, Any]:
    told: dict[str, Any] = engine.tool("send_scpi", instrument_id="smu", scpi_command=line, **more)[
        "result"
    ]
    return told


@promise("call.sent-is-failed")
def test_a_poll_that_cannot_be_judged_is_a_failed_call_with_what_was_sent(
    smu: tuple[Engine, PacedUnit],
) -> None:
    engine, unit = smu
    unit.special["ST?"] = lambda: b"1TS000033\n"
    told = run(engine, "home")
    assert told["is_error"]
    error = told["result"]["error"]
    assert error["sent"] == ["GO", "ST?"]
    assert "1TS000033" in error["message"]
    row = engine.rpc("audit.list", tool="execute_command", limit=1)["rows"][0]
    assert row["outcome"] == "failed"
    assert run(engine, "get_level")["result"]["data"] == 1.5


@promise("call.sent-is-failed")
@pytest.mark.parametrize("answer", [b"0\n", b"E01\n", b"1\n1\n", b"ERROR 1x\n"])
def test_no_answer_but_one_says_that_it_is_done(
    smu: tuple[Engine, PacedUnit], answer: bytes
) -> None:
    engine, unit = smu
    unit.special["*OPC?"] = lambda: answer
    told = run(engine, "wait")
    assert told["is_error"]
    assert told["result"]["error"]["code"] == "bad_answer"
    assert told["result"]["error"]["sent"] == ["GO", "*OPC?"]
    for good in (b"1\n", b"+1\n", b"*OPC 1\n", b"1.0\n"):
        unit.special["*OPC?"] = lambda data=good: data  # type: ignore[misc]
        assert not run(engine, "wait")["is_error"]


@promise("answer.whole")
def test_no_first_line_of_several_verifies_completes_or_confirms(
    smu: tuple[Engine, PacedUnit],
) -> None:
    engine, unit = smu
    before = unit.special["LEV?"]
    unit.special["LEV?"] = unit.special["OUTP?"] = lambda: b"0\n1\n"
    unit.special["ST?"] = lambda: b"34\n1\n"
    try:
        for command, parameters in (("set_level", {"level": 0}), ("home", {})):
            told = run(engine, command, **parameters)
            assert told["is_error"]
            assert "has 2 lines" in told["result"]["error"]["message"]
            assert told["result"]["error"]["sent"][0] in {"LEV 0", "GO"}
        (stopped,) = engine.stop_all()["instruments"]
        assert stopped["state"] == "failed", stopped
        assert "has 2 lines" in stopped["error"]
    finally:
        unit.special["LEV?"] = before
        unit.special["OUTP?"] = lambda: b"0\n"
    (stopped,) = engine.stop_all()["instruments"]
    assert stopped["state"] == "confirmed", stopped


@promise("answer.unasked")
def test_an_answer_that_nobody_expected_is_in_the_warning_and_can_be_asked_for(
    smu: tuple[Engine, PacedUnit],
) -> None:
    engine, unit = smu
    unit.special["R1"] = lambda: b"R+1.25\n"
    told = raw(engine, "R1")
    assert told["response"] is None
    assert told["error"] is None
    assert 'R1" was answered by "R+1.25"' in told["warning"]
    assert raw(engine, "R1", expect_answer=True)["response"] == "R+1.25"
    quiet = raw(engine, "ARM")
    assert "warning" not in quiet
    (listed,) = engine.tool("list_instruments")["result"]
    assert listed["warning"] == ""


@promise("answer.unasked")
def test_programs_read_what_a_line_without_a_question_mark_is_answered_by(
    smu: tuple[Engine, PacedUnit],
) -> None:
    engine, unit = smu
    unit.special["print(x)"] = unit.special["1TS"] = lambda: b"1.00000e+00\n2\n"
    with (
        manager(engine) as rm,
        rm.open_resource("smu", read_termination="\n", timeout=2000) as program,
    ):
        for line in ("print(x)", "1TS") * 2:
            program.write(line)
            assert [program.read(), program.read()] == ["1.00000e+00", "2"]
        assert program.query("LEV?") == "1.5"
    with HislipProgram.open(int(engine.ports["hislip_port"]), "smu") as program:
        for line in ("print(x)", "1TS") * 2:
            program.write(line)
            assert program.read() == b"1.00000e+00\n2\n"
    unit.special["print(y)"] = lambda: b"7\n"
    assert raw(engine, "print(y)")["response"] == "7"


THEIRS = """
import pyvisa
unit = pyvisa.ResourceManager("@py").open_resource(
    "TCPIP::127.0.0.1::hislip_smu,{port}::INSTR", read_termination="\\n", timeout=5000
)
for _ in range(2):
    unit.write("R8")
    print(unit.read(), unit.query("LEV?"))
"""


@promise("answer.unasked")
def test_a_hislip_program_reads_what_its_line_is_answered_by_later(
    tmp_path: Path,
) -> None:
    # A bench of its own: a busy machine may find its answers later than they are looked for.
    with bench(tmp_path) as (engine, unit):
        _late_answers_are_read(engine, unit)


def _late_answers_are_read(engine: Engine, unit: PacedUnit) -> None:
    with HislipProgram.open(int(engine.ports["hislip_port"]), "smu") as program:
        for line in ("R7", "2TS"):
            program.write(line)
            assert program.is_silent(0.2)
            unit.say_to_all(b"3.5")
            assert program.is_silent(0.2)
            unit.say_to_all(b"0\n")
            assert program.read(5) == b"3.50\n"
            assert program.query("LEV?") == "1.5"
        # Others use the unit meanwhile: nothing is kept from them, and the answer is still read.
        program.write("R7")
        assert program.is_silent(0.2)
        assert raw(engine, "LEV?")["response"] == "1.5"
        assert program.query("LEV?") == "1.5"
        # An answer that comes behind the next message is not given to that.
        program.write("R7")
        assert program.is_silent(0.2)
        program.write("ARM 2")
        program.write("LEV?")
        assert program.read() == b"1.5\n"
    # Another's client, which reads without a word to the server.
    unit.paced["R8"] = [0.4, b"4.5\n"]
    program = THEIRS.format(port=engine.ports["hislip_port"])
    command = [sys.executable, "-c", program]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["4.5", "1.5"] * 2


@promise("answer.unasked")
def test_a_late_answer_that_ends_behind_the_next_message_is_not_given_to_that(
    tmp_path: Path,
) -> None:
    with (
        bench(tmp_path) as (engine, unit),
        HislipProgram.open(int(engine.ports["hislip_port"]), "smu") as program,
    ):
        program.write("R7")
        assert program.is_silent(0.2)
        unit.say_to_all(b"3.5")
        assert program.is_silent(0.4)
        program.write("LEV?")
        time.sleep(0.05)  # noqa: TID251 - it has come before the end of the answer
        unit.say_to_all(b"0\n")
        assert program.read(5) == b"1.5\n"
        assert [one.kind for one in program.heard] == [MessageType.INTERRUPTED]


@promise("answer.unasked")
def test_what_comes_later_than_an_answer_is_told_or_read(
    smu: tuple[Engine, PacedUnit],
) -> None:
    engine, unit = smu
    unit.special["Q?"] = lambda: b"1\n"
    assert raw(engine, "Q?")["response"] == "1"
    unit.say_to_all(b"2\n")
    told = raw(engine, "LEV?")
    assert told["response"] == "1.5"
    assert told["warning"] == '"2" came behind the answer to "Q?".'
    with manager(engine) as rm, rm.open_resource("smu", timeout=2000) as program:
        program.write("Q?")
        assert program.read_raw() == b"1\n"
        unit.say_to_all(b"2\n")
        assert program.read_raw() == b"2\n"


@promise("answer.whole")
def test_a_program_reads_the_bytes_that_came(smu: tuple[Engine, PacedUnit]) -> None:
    engine, unit = smu
    unit.special["B?"] = lambda: b"\x00\x00\x01\x02\x00\n"
    assert raw(engine, "B?")["response"] == "\x00\x00\x01\x02\x00"
    with manager(engine) as rm, rm.open_resource("smu", timeout=2000) as program:
        program.write("B?")
        assert program.read_raw() == b"\x00\x00\x01\x02\x00\n"


@promise("answer.whole")
def test_an_answer_of_several_lines_is_an_error_that_shows_them(
    smu: tuple[Engine, PacedUnit],
) -> None:
    engine, unit = smu
    unit.special["FORM?"] = lambda: b"0.5,0\n1.5,0\n2.5,0\n"
    told = run(engine, "get_trace")
    assert told["is_error"]
    assert "has 3 lines" in told["result"]["error"]["message"]
    assert "has 3 lines" in str(raw(engine, "FORM?")["error"])
    assert run(engine, "get_level")["result"]["data"] == 1.5


@promise("answer.bytes-came")
def test_an_answer_without_its_line_end_is_shown(smu: tuple[Engine, PacedUnit]) -> None:
    engine, unit = smu
    unit.special["V?"] = lambda: b"1.5\r"
    error = raw(engine, "V?")["error"]["message"]
    assert "it ended in CR" in error
    assert "1.5\\x0d" in error
    trace = engine.rpc("trace", instrument_id="smu")
    assert any("1.5\r" in str(entry.get("text")) for entry in trace["exchanges"])


@promise("line.recovery-bounded")
def test_each_call_to_a_unit_that_hangs_ends_in_time_and_says_why(tmp_path: Path) -> None:
    with bench(tmp_path) as (engine, unit):
        assert raw(engine, "ARM")["error"] is None
        unit.is_silent = True
        said = []
        for _ in range(4):
            began = time.monotonic()
            told = run(engine, "get_level")
            took_s = time.monotonic() - began
            assert told["is_error"]
            said.append(told["result"]["error"]["message"])
            assert took_s < T_S + 1.0 + LATE_S
        assert any("is being recovered" in one for one in said[1:])
        # What makes safe is sent all the same.
        stopped = engine.tool("bench__stop_all")
        assert stopped["result"]["instruments"]
        unit.is_silent = False


@promise("line.recovery-bounded")
def test_no_raw_line_has_an_entry_of_words_taken_for_an_answer_of_its_own(tmp_path: Path) -> None:
    # "0  No Error", without a comma.
    with running_engine(tmp_path, "--instruments", "psu1=siglent_spd3303x") as engine:
        done = engine.tool("send_scpi", instrument_id="psu1", scpi_command="*RST")
        assert done["result"] | {"execution_time_ms": 0} == {
            "response": None,
            "error": None,
            "execution_time_ms": 0,
        }
        heard = engine.rpc("trace", instrument_id="psu1")["exchanges"]
        assert [one for one in heard if one["direction"] == "discarded"] == []
