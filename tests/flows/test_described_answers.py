"""Answers that a profile describes: binary data of many forms, lists, several lines, switches.

The commands are those of docs/profiles.md, on an instrument that answers as the real ones do.
"""

from __future__ import annotations

import base64
import re
import struct
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import pyvisa
from pyvisa.resources import MessageBasedResource

from tests.bench.engine import Engine, running_engine
from tests.bench.engine_process import REPOSITORY
from tests.bench.hosted import hosted
from tests.bench.loopback_instrument import LoopbackInstrument
from tests.bench.waiting import wait_for

HEAD = """\
format: 1
profile_key: toy_meter
manufacturer: Toy
model: M1
instrument_class: multimeter
source: a test
match: {idn: 'toy,m1\\b'}
connection: {timeout_ms: 700, heartbeat: false, errors: none}
"""
MORE = """\
  set_level:
    scpi: "LEV {level}"
    parameters: {level: {type: float, min: -5, max: 5, unit: V}}
    verify: {query: "LEV?", tolerance: 0.01, decimal: ","}
    sweep: {parameter: level, setpoint: "LEV?", decimal: ",", readback: get_level, interval_ms: 10}
  get_level: {scpi: "LEV?", returns: {type: si, unit: V, decimal: ","}}
  is_on: {scpi: "print(on)", is_query: true, returns: {type: bool}}
  read_five: {scpi: "FIVE?", returns: {type: list, item: int, lines: 5}}
  read_packets:
    scpi: "PACK?"
    returns:
      type: waveform
      dtype: u1
      packets: {fields: [[size, 9], [total, 9], [sent, 9]], until: sent + size >= total}
  read_pieces:
    scpi: "P? {first},{last}"
    parameters: {first: {type: int, min: 1, max: 9}, last: {type: int, min: 1, max: 9}}
    returns: {type: waveform, header: none, count: last - first + 1, dtype: u1, chunk_points: 2}
settings:
  level: {get: "LEV?", unit: V, type: si, decimal: ","}
"""
FLOATS = (1.5, -2.0, 0.0)
TRACE = bytes(range(48, 58)) * 400  # what looks like digits


def hantek() -> Callable[[], bytes]:
    """Three packets, the first with settings alone."""
    return packets([b"s" * 99, TRACE[:2000], TRACE[2000:]], counts_head=True)


def packets(parts: list[bytes], *, counts_head: bool) -> Callable[[], bytes]:
    total, waiting = sum(map(len, parts)), list(parts)

    def answer() -> bytes:
        if not waiting:
            waiting.extend(parts)
        sent = total - sum(map(len, waiting))
        part = waiting.pop(0)
        size = len(part) + (29 if counts_head else 18)
        return b"#9%09d%09d%09d" % (size, total, sent) + part

    return answer


class Meter(LoopbackInstrument):
    """Answers what the commands ask; ``level`` is set by ``LEV``."""

    def __init__(self) -> None:
        super().__init__("TOY,M1,0001,1.0")
        self.level = 0.0
        pairs = [(0.5, 0.0), (-0.25, 1e-3), (3.0, 0.0)]
        data = struct.pack(">6d", *(number for pair in pairs for number in pair))
        readings = b"+2.87536000E-04,+9.90000000E+37"
        self.special = {
            "ISCALE?": lambda: b"1.0E-3\n",
            "TARM SGL": lambda: bytes.fromhex("0000 0102 000A"),
            "TRCB? 1,0,3": lambda: struct.pack("<3f", *FLOATS),
            "TRCA? 1,0,3": lambda: b"1.5E+00,-2.0E+00,0.0E+00,\n",
            "FORM4;OUTPFORM": lambda: b"".join(b" %.6E, %.6E\n" % pair for pair in pairs),
            "FORM3;OUTPFORM": lambda: b"#A" + struct.pack(">H", len(data)) + data,
            "WAVeform:DATA:ALL?": hantek(),
            "PACK?": packets([TRACE[:2500], TRACE[2500:]], counts_head=False),
            "C1:WF? ALL": lambda: b"C1:WF ALL,#9000000349" + b"#" * 346 + b"\x01\xff\x0a" + b"\n",
            "R?": lambda: b"#231" + readings + b"\n",
            'MMEM:DATA? "SETUP.CSV"': lambda: b"#215CH1,ON\nCH2,OFF\n\n",
            "U?": lambda: b"-1,2 V;+0,001 V\n",
            "LEV?": lambda: f"{self.level:.3f} V\n".replace(".", ",").encode(),
            "print(on)": lambda: b"1.00000e+00\n",
            "P? 1,2": lambda: b"\x01\x02",
            "P? 3,4": lambda: b"\x03\x04",
            "P? 5,5": lambda: b"\x05",
            "FIVE?": lambda: b"1\n2\n\n3,4\n5\n6\n",
        }

    async def _answer_to(self, line: str) -> bytes:
        word, _, value = line.partition(" ")
        if word == "LEV" and value:
            self.level = float(value)
            return b""
        return await super()._answer_to(line)


def examples() -> str:
    """The commands of the page."""
    page = (REPOSITORY / "docs" / "profiles.md").read_text(encoding="utf-8")
    found = re.search(r"### Examples of binary.*?```yaml\n(.*?)```", page, re.DOTALL)
    assert found is not None
    return found.group(1)


@pytest.fixture(scope="module")
def meter() -> Iterator[Meter]:
    with hosted(Meter) as running:
        yield running


@pytest.fixture(scope="module")
def engine(meter: Meter, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    directory = tmp_path_factory.mktemp("described")
    (directory / "toy_meter.yaml").write_text(HEAD + examples() + MORE, encoding="utf-8")
    config = {
        "PROFILE_DIRS": [str(directory)],
        "INSTRUMENTS": [{"address": meter.address, "name": "m1"}],
    }
    with running_engine(directory, sim=False, config=config) as running:
        yield running


def answer(engine: Engine, command: str, **parameters: object) -> Any:
    return engine.tool(
        "execute_command", instrument_id="m1", command_name=command, parameters=parameters
    )


def run(engine: Engine, command: str, **parameters: object) -> Any:
    told = answer(engine, command, **parameters)
    assert not told["is_error"], told
    return told["result"]["data"]


def trace(engine: Engine, command: str, **parameters: object) -> list[float]:
    captured = run(engine, command, **parameters)
    told = engine.tool(
        "fetch_waveform",
        stream_id=captured["stream_id"],
        point_index=captured["point_index"],
        format="base64",
    )["result"]
    data = base64.b64decode(told["y_data"])
    code = "f" if told["y_dtype"] == "float32" else "d"
    return list(struct.unpack(f"<{captured['y_length']}{code}", data))


@pytest.mark.parametrize(
    ("command", "parameters", "expected"),
    [
        ("read_burst", {"count": 3}, [0, 0.258, 0.010]),
        ("read_buffer", {"points": 3}, FLOATS),
        ("read_trace", {}, [0.5, -0.25, 3.0]),
        ("read_memory", {}, list(TRACE)),
        ("read_packets", {}, list(TRACE)),
        ("read_lecroy", {}, [1, -1, 10]),
    ],
)
def test_a_trace_is_what_the_instrument_sent(
    engine: Engine, command: str, parameters: dict[str, Any], expected: list[float]
) -> None:
    for _ in range(2):
        assert trace(engine, command, **parameters) == pytest.approx(list(expected))


@pytest.mark.parametrize(
    ("command", "parameters", "expected"),
    [
        ("read_buffer_text", {"points": 3}, list(FLOATS)),
        ("read_trace_text", {}, [0.5, 0.0, -0.25, 1e-3, 3.0, 0.0]),
        ("read_and_erase", {}, [2.87536e-4, None]),
        ("read_file", {}, "CH1,ON\nCH2,OFF\n"),
        ("read_voltages", {}, [-1.2, 0.001]),
        ("read_five", {}, [1, 2, 3, 4, 5, 6]),
        ("is_on", {}, True),
    ],
)
def test_text_of_many_forms_is_read_as_described(
    engine: Engine, command: str, parameters: dict[str, Any], expected: Any
) -> None:
    for _ in range(2):
        assert run(engine, command, **parameters) == expected


@pytest.mark.parametrize(
    ("command", "parameters", "lines"),
    [
        (
            "read_burst",
            {"count": 3},
            ["OFORMAT SINT", "NRDGS 3,AUTO", "ISCALE?", "TARM SGL"],
        ),
        ("read_pieces", {"first": 1, "last": 5}, ["P? 1,2", "P? 3,4", "P? 5,5"]),
        ("read_packets", {}, ["PACK?"]),
    ],
)
def test_a_dry_run_names_every_line(
    engine: Engine, command: str, parameters: dict[str, Any], lines: list[str]
) -> None:
    told = engine.tool(
        "execute_command",
        instrument_id="m1",
        command_name=command,
        parameters=parameters,
        dry_run=True,
    )
    assert told["result"]["would_send"] == lines


def test_data_in_pieces_are_counted_for_each(engine: Engine) -> None:
    assert trace(engine, "read_pieces", first=1, last=5) == [1, 2, 3, 4, 5]


def test_capabilities_say_that_a_list_has_items(engine: Engine) -> None:
    (unit,) = engine.tool("get_capabilities", instrument_id="m1")["result"]
    told = {command["name"]: command.get("returns") for command in unit["commands"]}
    assert told["read_and_erase"] == {"type": "list", "items": {"type": "float"}, "unit": "V"}


@pytest.mark.parametrize(
    ("command", "line", "sent", "told"),
    [
        ("read_buffer", "TRCB? 1,0,3", struct.pack("<3f", *FLOATS) + b"more", "and 4 more"),
        ("read_buffer", "TRCB? 1,0,3", b"abc", '3 bytes came of a block of 12: "abc"'),
        ("read_five", "FIVE?", b"1\n2\n3\n4\n5\n6\n", "has 6 lines where 5 were due"),
        ("read_five", "FIVE?", b"1\n2\n3\n4\n", '4 of 5 lines came: "1\\x0a2'),
        ("read_and_erase", "R?", b"1,2\n3,4\n", "has 2 lines"),
        ("read_lecroy", "C1:WF? ALL", b"C2:WF ALL,#11x\n" * 20, "begin with"),
        ("read_memory", "WAVeform:DATA:ALL?", b"#9%09d%09d%09d" % (39, 99, 50) + b"x" * 10, "50"),
    ],
)
def test_what_is_not_described_is_an_error_that_shows_it(
    engine: Engine, meter: Meter, command: str, line: str, sent: bytes, told: str
) -> None:
    before, parameters = meter.special[line], {"points": 3} if command == "read_buffer" else {}
    meter.special[line] = lambda: sent
    try:
        failed = answer(engine, command, **parameters)
    finally:
        meter.special[line] = before
    assert failed["is_error"]
    assert told in failed["result"]["error"]["message"]
    assert run(engine, "is_on") is True


def test_a_raw_line_gets_every_byte_of_what_is_described(engine: Engine) -> None:
    def raw(line: str) -> Any:
        told = engine.tool("send_scpi", instrument_id="m1", scpi_command=line)
        assert not told["is_error"], told
        return told["result"]["response"]

    assert raw("TRCB? 1,0,3").encode("latin-1") == struct.pack("<3f", *FLOATS)
    assert raw("C1:WF? ALL").encode("latin-1")[-4:-1] == b"#\x01\xff"
    assert raw("FIVE?").split() == ["1", "2", "3,4", "5", "6"]


def test_a_program_gets_the_values_of_binary_data_without_a_header(engine: Engine) -> None:
    manager = pyvisa.ResourceManager(f"{engine.mcp_url}@edged")
    try:
        unit = manager.open_resource("m1")
        assert isinstance(unit, MessageBasedResource)
        for _ in range(2):
            values = unit.query_binary_values(
                "TRCB? 1,0,3", "f", header_fmt="empty", data_points=3, expect_termination=False
            )
            assert tuple(values) == FLOATS
            unit.write("TRCB? 1,0,3")
            assert unit.read_bytes(12) == struct.pack("<3f", *FLOATS)
    finally:
        manager.close()


def test_a_stream_of_a_list_is_recorded_as_json(engine: Engine) -> None:
    begun = engine.tool(
        "start_stream",
        instrument_id="m1",
        command_name="read_voltages",
        interval_ms=50,
        duration_ms=150,
    )
    assert not begun["is_error"], begun
    (data,) = engine.state_dir.parent.glob(f"data/runs/*/{begun['result']['stream_id']}/data.csv")
    wait_for(lambda: '"[-1.2,0.001]"' in data.read_text(encoding="utf-8"))


def test_a_ramp_goes_by_a_set_point_with_a_decimal_comma(engine: Engine, meter: Meter) -> None:
    assert run(engine, "set_level", level=0.5)["readback"] == pytest.approx(0.5)
    begun = engine.tool(
        "start_sweep",
        instrument_id="m1",
        command_name="set_level",
        target_value=0.6,
        sweep_rate=20,
        measure=[{"instrument_id": "m1", "command_name": "read_voltages"}],
    )
    assert not begun["is_error"], begun
    sweep_id = begun["result"]["sweep_id"]
    wait_for(lambda: not engine.tool("get_status")["result"]["sweeps"])
    told = engine.tool("get_sweep_status", sweep_id=sweep_id)["result"]
    assert (told["status"], meter.level) == ("completed", pytest.approx(0.6)), told
    (data,) = engine.state_dir.parent.glob(f"data/runs/*/{sweep_id}/data.csv")
    wait_for(lambda: '"[-1.2, 0.001]"' in data.read_text(encoding="utf-8"))
