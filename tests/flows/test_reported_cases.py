"""Instruments of public bug reports on the roads of a real engine; each case names its report."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import pyvisa

from tests.bench.engine import Engine, running_engine
from tests.bench.hislip_program import HislipProgram
from tests.bench.hosted import hosted
from tests.bench.loopback_instrument import LoopbackInstrument
from tests.bench.paced_unit import PacedUnit, Piece
from tests.bench.waiting import first, wait_for
from tests.promises import promise

TSP = """
format: 1
profile_key: toy_tsp
manufacturer: Toy
model: SMU
instrument_class: power_supply
source: a test
match: {idn: 'toy,smu\\b', examples: ["TOY,SMU,1,1.0"]}
connection:
  timeout_ms: 3000
  heartbeat: false
  errors: {query: {ask: "print(errorqueue.next())"}, kind: queue}
abort:
  - send: "smua.source.output = 0"
    ask: "print(smua.source.output)"
    expect: '^0(\\.0+)?(e[+-]?0+)?$'
commands:
  set_level:
    scpi: "smua.source.levelv = {level}"
    parameters: {level: {type: float, min: 0, max: 5, unit: V}}
    verify: {query: {ask: "print(smua.source.levelv)"}, tolerance: 0.001}
    sweep:
      parameter: level
      setpoint: {ask: "print(smua.source.levelv)"}
      readback: measure
      interval_ms: 20
  output_on: {scpi: "smua.source.output = 1", is_dangerous: true}
  output_off: {scpi: "smua.source.output = 0", is_safe: true}
  is_on: {scpi: "print(smua.source.output)", is_query: true, returns: {type: bool}}
  measure: {scpi: "print(smua.measure.v())", is_query: true, returns: {type: float, unit: V}}
  points: {scpi: "print(smua.nvbuffer1.n)", is_query: true, returns: {type: int}}
  buffer:
    scpi: "printbuffer(1, 3, smua.nvbuffer1)"
    is_query: true
    returns: {type: list, item: float, unit: V}
"""
NO_ERROR = "0.00000e+00\tQueue Is Empty\t0.00000e+00"
AN_ERROR = "-2.85000e+02\tTSP Syntax error at line 1\t2.00000e+01\t1.00000e+00"


class Smu(LoopbackInstrument):
    """Speaks TSP: numbers in exponent form, questions without a question mark (pymeasure#528)."""

    def __init__(self) -> None:
        super().__init__("TOY,SMU,1,1.0")
        self.values = {"smua.source.levelv": 0.0, "smua.source.output": 0.0}
        self.queue: list[str] = []
        # It stays as it is, whatever it is set to.
        self.stuck = ""

    async def _answer_to(self, line: str) -> bytes:
        name, _, value = line.partition(" = ")
        if name in self.values:
            if name != self.stuck:
                self.values[name] = float(value)
            return b""
        if line.startswith("printbuffer("):
            return b"1.00000e+00, 2.50000e+00, 9.91000e+37\n"
        if not line.startswith("print("):
            if line != "*IDN?":
                self.queue.append(AN_ERROR)
            return await super()._answer_to(line)
        asked = line.removeprefix("print(")[:-1]
        if asked == "errorqueue.next()":
            return (self.queue.pop(0) if self.queue else NO_ERROR).encode() + b"\n"
        level = self.values["smua.source.levelv"]
        told = {**self.values, "smua.measure.v()": level, "smua.nvbuffer1.n": 3.0}.get(asked)
        return b"nil\n" if told is None else b"%.5e\n" % told


@contextlib.contextmanager
def bench(directory: Path, profile: str, unit: LoopbackInstrument) -> Iterator[Engine]:
    key = profile.partition("profile_key: ")[2].partition("\n")[0]
    (directory / f"{key}.yaml").write_text(profile, encoding="utf-8")
    with hosted(lambda: unit):
        config = {
            "PROFILE_DIRS": [str(directory)],
            "INSTRUMENTS": [{"address": unit.address, "name": "u"}],
            "VISA_SERVER": ["hislip"],
            "HISLIP_PORT": 0,
        }
        with running_engine(directory, sim=False, config=config) as engine:
            yield engine


@pytest.fixture(scope="module")
def smu(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Engine, Smu]]:
    unit = Smu()
    with bench(tmp_path_factory.mktemp("tsp"), TSP, unit) as engine:
        yield engine, unit


def run(engine: Engine, command: str, **parameters: Any) -> dict[str, Any]:
    return engine.tool(
        "execute_command", instrument_id="u", command_name=command, parameters=parameters
    )


def data(engine: Engine, command: str, **parameters: Any) -> Any:
    told = run(engine, command, **parameters)
    assert not told["is_error"], told
    return told["result"]["data"]


def raw(engine: Engine, line: str, **more: Any) -> dict[str, Any]:
    told: dict[str, Any] = engine.tool("send_scpi", instrument_id="u", scpi_command=line, **more)
    result: dict[str, Any] = told["result"]
    return result


@promise("answer.is-its-type")
def test_a_tsp_unit_is_read_set_verified_and_swept(smu: tuple[Engine, Smu]) -> None:
    engine, unit = smu
    assert data(engine, "set_level", level=1.5)["readback"] == 1.5
    assert data(engine, "measure") == 1.5
    assert data(engine, "points") == 3
    assert data(engine, "is_on") is False
    assert data(engine, "buffer") == [1.0, 2.5, None]
    begun = engine.tool(
        "start_sweep", instrument_id="u", command_name="set_level", target_value=1.6, sweep_rate=20
    )
    assert not begun["is_error"], begun
    wait_for(lambda: not engine.tool("get_status")["result"]["sweeps"])
    assert unit.values["smua.source.levelv"] == pytest.approx(1.6)


def stopped(engine: Engine) -> Any:
    """What a stop has come to; a machine that is slower than a stop may be has to ask again."""

    def told() -> Any:
        (one,) = engine.tool("bench__stop_all")["result"]["instruments"]
        return one if one["state"] != "trying" else None

    return first(told)


@promise("stop-all.truth")
def test_a_stop_of_a_tsp_unit_is_proved_by_its_own_question(smu: tuple[Engine, Smu]) -> None:
    engine, unit = smu
    unit.values["smua.source.output"] = 1.0
    told = stopped(engine)
    assert told["state"] == "confirmed", told
    assert unit.values["smua.source.output"] == 0.0
    unit.stuck, unit.values["smua.source.output"] = "smua.source.output", 1.0
    told = stopped(engine)
    assert told["state"] == "failed", told
    unit.stuck, unit.values["smua.source.output"] = "", 0.0


@promise("answer.unasked")
@promise("visa.own-error-form")
def test_programs_ask_a_tsp_unit_and_read_their_own_errors(smu: tuple[Engine, Smu]) -> None:
    engine, unit = smu
    assert raw(engine, "print(smua.nvbuffer1.n)")["response"] == "3.00000e+00"
    manager = pyvisa.ResourceManager(f"{engine.mcp_url}@edged")
    try:
        program: Any = manager.open_resource("u", read_termination="\n", timeout=2000)
        for _ in range(2):
            assert program.query("print(smua.nvbuffer1.n)") == "3.00000e+00"
            program.write("nonsense here")
            assert unit.queue == [], "edged has read it"
            assert program.query("print(errorqueue.next())") == AN_ERROR
            assert program.query("print(errorqueue.next())") == NO_ERROR
    finally:
        manager.close()
    with HislipProgram.open(int(engine.ports["hislip_port"]), "u") as hislip:
        hislip.write("nonsense here")
        hislip.write("print(errorqueue.next())")
        assert hislip.read() == f"{AN_ERROR}\n".encode()


ODD = """
format: 1
profile_key: toy_odd
manufacturer: Toy
model: Odd
instrument_class: other
source: a test
match: {idn: 'toy,odd\\b', examples: ["TOY,ODD,1,1.0"]}
connection: {timeout_ms: 1500, heartbeat: false, errors: none, acknowledge: '^(|\\x06|.*:VALID)$'}
commands:
  get_number: {scpi: "MEAS?", returns: {type: float, unit: V}}
  get_field:
    scpi: "READ:DEV:GRPZ:PSU:SIG:FLD"
    is_query: true
    returns:
      fields:
        - name: field
          type: si
          unit: T
          pattern: '^STAT:DEV:GRPZ:PSU:SIG:FLD:([^: ]{1,32})$'
  set_field:
    scpi: "SET:DEV:GRPZ:PSU:SIG:FSET:{field}"
    parameters: {field: {type: float, min: 0, max: 9, unit: T}}
  set_start: {scpi: "START {hz}", parameters: {hz: {type: int, min: 0, max: 9}}}
  get_text: {scpi: "TEXT?", returns: {type: string}}
  wait: {scpi: "GO", complete: opc}
"""


@pytest.fixture(scope="module")
def odd(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Engine, PacedUnit]]:
    unit = PacedUnit("TOY,ODD,1,1.0")
    with bench(tmp_path_factory.mktemp("odd"), ODD, unit) as engine:
        yield engine, unit


@pytest.mark.parametrize(
    ("answer", "shown"),
    [
        (b"-0.-1\n", "-0.-1"),  # Qcodes#2023
        (b":MEASURE:VOLT 1.5\n", ":MEASURE:VOLT 1.5"),  # headers on: lowRISC/ot-sca#320
        (b"1.5;2.5\n", "1.5;2.5"),
        (b"1,5\n", "1,5"),
        (b"1.5 V\n", "1.5 V"),
        (b"+1.5E+00\x00\n", "+1.5E+00"),
        (b"\xff\xfe\n", ""),
        (b"#0abc\n", "#0abc"),
    ],
)
@promise("answer.is-its-type")
def test_what_is_no_number_is_an_error_that_shows_it(
    odd: tuple[Engine, LoopbackInstrument], answer: bytes, shown: str
) -> None:
    engine, unit = odd
    unit.special["MEAS?"] = lambda: answer
    told = run(engine, "get_number")
    assert told["is_error"], told
    assert told["result"]["error"]["code"] == "bad_answer"
    assert shown in told["result"]["error"]["message"]
    unit.special["MEAS?"] = lambda: b"+1.5E+00\r\n"
    assert data(engine, "get_number") == 1.5


@promise("call.sent-is-failed")
def test_writes_are_acknowledged_in_each_makers_way(
    odd: tuple[Engine, LoopbackInstrument],
) -> None:
    engine, unit = odd
    # QCoDeS, MercuryiPS: what was read is repeated, with a unit behind the number.
    unit.special["READ:DEV:GRPZ:PSU:SIG:FLD"] = lambda: b"STAT:DEV:GRPZ:PSU:SIG:FLD:+0.1250T\n"
    assert data(engine, "get_field") == {"field": 0.125}
    line = "SET:DEV:GRPZ:PSU:SIG:FSET:1"
    unit.special[line] = lambda: f"STAT:{line}:VALID\n".encode()
    assert not run(engine, "set_field", field=1)["is_error"]
    unit.special[line] = lambda: f"STAT:{line}:INVALID\n".encode()
    refused = run(engine, "set_field", field=1)
    assert refused["is_error"]
    assert "INVALID" in refused["result"]["error"]["message"]
    assert refused["result"]["error"]["sent"] == [line]
    # LibreVNA#78: an empty line, or ERROR; QCoDeS, stahl: 0x06 (ACK).
    for taken in (b"\n", b"\x06\n"):
        unit.special["START 5"] = lambda data=taken: data  # type: ignore[misc]
        assert not run(engine, "set_start", hz=5)["is_error"]
    unit.special["START 5"] = lambda: b"ERROR\n"
    assert "ERROR" in run(engine, "set_start", hz=5)["result"]["error"]["message"]
    unit.special["MEAS?"] = lambda: b"2.5\n"
    assert data(engine, "get_number") == 2.5


VNA = "[1.00000000e+06,0.5,-0.25],[2.00000000e+06,0.25,0.125]"


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        pytest.param([b"1.5\n\n"], "1.5", id="pyvisa#658: an empty line behind each answer"),
        pytest.param([b"1.5\n\x00\x00\x00"], "1.5", id="pyvisa#202: NUL behind the line end"),
        pytest.param([b"1.5\n\r"], "1.5", id="libsigrok#70: LF CR (GDM-8251A)"),
        pytest.param([1.2, b"1.5\n"], "1.5", id="the first answer takes 1.2 s"),
        pytest.param([b"\n"], "", id="opentap#2327, riden-dongle#68: an empty line"),
        pytest.param([VNA.encode(), b"\n"], VNA, id="LibreVNA#118: a trace as text"),
        pytest.param(
            [b"#215CH1,ON", 0.1, b"\nCH2,OFF\n"], "CH1,ON\nCH2,OFF\n", id="pyvisa#306: ZVL, a file"
        ),
        pytest.param(
            [b"#215CH1,ON\nCH2,OFF\n", b"\n"], "CH1,ON\nCH2,OFF\n", id="the same with a line end"
        ),
    ],
)
@promise("answer.whole")
def test_an_answer_is_what_the_instrument_meant_on_every_road(
    odd: tuple[Engine, PacedUnit], pieces: Sequence[Piece], text: str
) -> None:
    engine, unit = odd
    unit.paced["TEXT?"] = unit.paced["OTHER?"] = pieces
    sent = b"".join(piece for piece in pieces if isinstance(piece, bytes))
    for _ in range(2):
        assert data(engine, "get_text") == text
        # Raw, a block keeps its header.
        raw_text = sent.decode().rstrip("\0\r\n") if sent.startswith(b"#") else text
        told = raw(engine, "OTHER?")
        assert told["error"] is None, told
        assert told["response"].rstrip("\n") == raw_text.rstrip("\n")
    manager = pyvisa.ResourceManager(f"{engine.mcp_url}@edged")
    try:
        program: Any = manager.open_resource("u", timeout=3000)
        program.write("OTHER?")
        assert program.read_raw().rstrip(b"\0\r\n") == sent.rstrip(b"\0\r\n")
    finally:
        manager.close()
    del unit.paced["TEXT?"], unit.paced["OTHER?"]
    unit.special["MEAS?"] = lambda: b"2.5\n"
    assert data(engine, "get_number") == 2.5


def test_an_end_that_is_told_late_with_a_sign_is_waited_for(odd: tuple[Engine, PacedUnit]) -> None:
    engine, unit = odd
    unit.special["GO"] = lambda: b"\n"
    unit.paced["*OPC?"] = [0.4, b"+1\n"]
    assert not run(engine, "wait")["is_error"]
    unit.paced["*OPC?"] = [0.1, b"+0\n"]
    assert run(engine, "wait")["is_error"]
