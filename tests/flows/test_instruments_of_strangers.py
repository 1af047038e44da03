"""Public instruments, as an engineer describes them who has docs/profiles.md alone, on their wires.

The toys answer what manuals and published drivers say that the real ones answer.
"""

from __future__ import annotations

import base64
import re
import shutil
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from edged.cli.main import main
from tests.bench.engine import Engine, running_engine
from tests.bench.toys import behind_prologix, on_a_pty, on_a_socket

PROFILES = Path(__file__).parent / "data" / "strangers"


@dataclass
class Toy:
    """An instrument: what it answers to a line, and what it heard."""

    answers: Mapping[str, bytes | Callable[[re.Match[str]], bytes]]
    heard: list[str] = field(default_factory=list)

    def hear(self, line: str) -> bytes:
        self.heard.append(line)
        for form, answer in self.answers.items():
            found = re.fullmatch(form, line)
            if found is not None:
                return answer(found) if callable(answer) else answer
        return b""


@dataclass
class Bench:
    engine: Engine
    toy: Toy

    def run(self, command: str, **parameters: Any) -> Any:
        told = self.engine.tool(
            "execute_command", instrument_id="unit", command_name=command, parameters=parameters
        )
        assert not told["is_error"], told
        return told["result"]["data"]

    def failed(self, command: str, **parameters: Any) -> str:
        told = self.engine.tool(
            "execute_command", instrument_id="unit", command_name=command, parameters=parameters
        )
        assert told["is_error"], told
        return str(told["result"]["error"]["message"])

    def raw(self, line: str, **more: Any) -> Any:
        return self.engine.tool("send_scpi", instrument_id="unit", scpi_command=line, **more)

    def trace(self, command: str, **parameters: Any) -> list[float]:
        captured = self.run(command, **parameters)
        told = self.engine.tool(
            "fetch_waveform",
            stream_id=captured["stream_id"],
            point_index=captured["point_index"],
            format="base64",
        )["result"]
        code = "f" if told["y_dtype"] == "float32" else "d"
        data = base64.b64decode(told["y_data"])
        return list(struct.unpack(f"<{captured['y_length']}{code}", data))

    def stop(self) -> Any:
        return self.engine.tool("bench__stop_all")["result"]


@contextmanager
def bench(
    directory: Path, key: str, toy: Toy, wire: AbstractContextManager[str], **more: Any
) -> Iterator[Bench]:
    path = shutil.copy(PROFILES / f"{key}.yaml", directory)
    assert main(["profile", "lint", str(path)]) == 0
    with wire as address:
        entry = {"address": address, "profile": key, "name": "unit", **more}
        config = {"INSTRUMENTS": [entry], "PROFILE_DIRS": [str(directory)]}
        with running_engine(directory, sim=False, config=config) as engine:
            listed = engine.tool("list_instruments")["result"]
            aside = engine.tool("get_status")["result"]["set_aside"]
            assert [one["is_connected"] for one in listed] == [True], (listed, aside, toy.heard)
            yield Bench(engine, toy)


@contextmanager
def on_gpib(toy: Toy, pad: int) -> Iterator[str]:
    with behind_prologix({pad: toy.hear}) as address_of:
        yield address_of(pad)


def test_a_source_meter_that_is_programmed_in_tsp(tmp_path: Path) -> None:
    state = {"a.output": 0.0, "b.output": 0.0, "a.levelv": 0.0, "b.levelv": 0.0, "a.func": 1.0}
    errors: list[str] = []
    is_binary: list[bool] = []

    def number(name: str) -> bytes:
        return f"{state[name]:.5e}\n".encode()

    def change(found: re.Match[str]) -> bytes:
        names = {"smua.OUTPUT_DCAMPS": 0.0, "smua.OUTPUT_DCVOLTS": 1.0}
        value = names[found[3]] if found[3] in names else float(found[3])
        state[f"{found[1]}.{found[2]}"] = value
        return b""

    def stored(found: re.Match[str]) -> bytes:
        values = [1e-3 * place for place in range(int(found[1]))]
        if is_binary:
            is_binary.clear()
            return b"#0" + struct.pack(f"<{len(values)}f", *values) + b"\n"
        return ", ".join(f"{value:.5e}" for value in values).encode() + b"\n"

    def is_real(_found: re.Match[str]) -> bytes:
        is_binary.append(True)
        return b""

    def unknown(found: re.Match[str]) -> bytes:
        errors.append(
            f"-2.85000e+02\tTSP Syntax error at line 1: {found[0]}\t2.00000e+01\t1.00000e+00"
        )
        return b""

    def entry(_found: re.Match[str]) -> bytes:
        told = errors.pop(0) if errors else "0.00000e+00\tQueue Is Empty\t0.00000e+00\t0.00000e+00"
        return told.encode() + b"\n"

    toy = Toy({
        r"\*IDN\?": b"Keithley Instruments Inc., Model 2636B, 4012345, 3.3.5\n",
        r"\*CLS": b"",
        r"print\(errorqueue\.next\(\)\)": entry,
        r"print\(smu([ab])\.source\.(output|levelv|func)\)": lambda m: number(f"{m[1]}.{m[2]}"),
        r"print\(smu([ab])\.measure\.iv\(\)\)": b"1.00000e-09\t2.50000e+00\n",
        r"smu([ab])\.source\.(output|levelv|func) = (\S+)": change,
        r"format\.data = format\.REAL32": is_real,
        r"printbuffer\(1, (\d+), smua\.nvbuffer1\.readings\)": stored,
        r".*": unknown,
    })  # fmt: skip
    with bench(tmp_path, "stranger_2636b", toy, on_a_socket(toy.hear)) as lab:
        assert lab.run("set_voltage", channel="b", voltage=2.5)["readback"] == 2.5
        lab.run("set_function", function="current")
        assert lab.run("get_function") == "current"
        both = lab.run("measure_both", channel="a")
        assert (both["current"], both["voltage"]) == (1e-9, 2.5)
        assert lab.run("read_buffer", count=3) == [0, 1e-3, 2e-3]
        assert lab.trace("read_buffer_binary", count=4) == pytest.approx([0, 1e-3, 2e-3, 3e-3])
        lab.run("output_on", channel="b")
        assert lab.run("get_output", channel="b") is True
        assert lab.run("get_output", channel="a") is False
        told = lab.stop()
        assert told["is_confirmed"] is True, told
        assert state["b.output"] == 0.0
        raw = lab.raw("print(smub.source.levelv)")
        assert raw["result"]["response"] == "2.50000e+00", raw


def test_a_meter_that_sends_integers_without_a_header_by_gpib(tmp_path: Path) -> None:
    shorts, longs = (0x0A0D, 0, -32768, 10), (0x0A0D0A0D, -1, 2_000_000_001, 10)
    toy = Toy({
        r"ID\?": b"HP3458A\r\n",
        r"ERRSTR\?": b'0,"NO ERROR"\r\n',
        r"NPLC\?": b" 1.000000000E+01\r\n",
        r"ISCALE\?": b" 1.0E-9\r\n",
        r"TARM SGL": b"-1.234567890E-03\r\n",
        r"TARM SGL,1": struct.pack(">4h", *shorts),
        r"TARM SGL,2": struct.pack(">4i", *longs),
    })  # fmt: skip
    with bench(tmp_path, "stranger_3458a", toy, on_gpib(toy, 22)) as lab:
        assert lab.run("set_speed", cycles=10)["readback"] == 10
        assert lab.run("read") == -1.23456789e-3
        for _ in range(2):
            assert lab.trace("read_short", count=4) == pytest.approx([1e-9 * one for one in shorts])
            assert lab.trace("read_long", count=4) == [1e-9 * one for one in longs]
        assert "*IDN?" not in toy.heard
        raw = lab.raw("TARM SGL", expect_answer=True)
        assert raw["result"]["response"] == "-1.234567890E-03", raw


@pytest.mark.parametrize("command", ["move_to", "move_by_text"])
def test_a_stage_that_is_polled_by_a_state_with_its_address(tmp_path: Path, command: str) -> None:
    states = ["28", "1E", "28"]
    place = ["0"]
    errors = ["@"]

    def move(found: re.Match[str]) -> bytes:
        place[0] = found[1]
        states[:] = ["28", "1E", "28"]
        return b""

    toy = Toy({
        r"2VE": b"2VE SMC_CC_1.0.3\r\n",
        r"2TE": lambda _: b"2TE" + errors.pop().encode() + b"\r\n" if errors else b"2TE@\r\n",
        r"2TS": lambda _: b"2TS0000" + (states.pop() if states else "33").encode() + b"\r\n",
        r"2TP": lambda _: b"2TP" + place[0].encode() + b"\r\n",
        r"2PA(.*)": move,
    })  # fmt: skip
    with bench(tmp_path, "stranger_smc100", toy, on_a_pty(toy.hear, b"\n"), bus_address=2) as lab:
        lab.run(command, position=12.5)
        assert place == ["12.5000"]
        assert not states, "it was polled until it was ready"
        assert lab.run("get_state") == {"errors": 0, "state": "ready"}
        errors[:] = ["C"]
        assert "C" in lab.failed(command, position=1)


def test_a_network_analyser_that_sends_a_line_for_each_point(tmp_path: Path) -> None:
    pairs = [(0.5, 0.0), (-0.25, 1e-3), (3.0, 0.0)]
    data = struct.pack(">6d", *(number for pair in pairs for number in pair))
    lines = b"".join(b" %.6E, %.6E\n" % pair for pair in pairs)
    toy = Toy({
        r"\*IDN\?": b"HEWLETT PACKARD,8753E,0,7.10\n",
        r"FORM4;OUTPFORM|FORM4;OUTPDATA": lines,
        r"FORM3;OUTPFORM": b"#A" + struct.pack(">H", len(data)) + data,
        r"OUTPMARK": b"-2.5E+00, 0.0E+00, 1.5E+09\n",
    })  # fmt: skip
    with bench(tmp_path, "stranger_8753e", toy, on_gpib(toy, 16)) as lab:
        numbers = [number for pair in pairs for number in pair]
        for _ in range(2):
            assert lab.run("read_trace_text") == numbers
            assert lab.run("read_counted") == numbers
            assert lab.trace("read_trace") == [0.5, -0.25, 3.0]
            assert lab.run("read_marker")["frequency"] == 1.5e9


@pytest.mark.parametrize("wire", ["serial", "gpib"])
def test_a_lock_in_whose_buffer_is_read_in_three_ways(tmp_path: Path, wire: str) -> None:
    end = b"\r" if wire == "serial" else b"\n"
    floats = (1.5, -2.0, 0.0, 6.25e-9)
    pairs = [(24576, 110), (-16384, 111), (0, 0), (27488, 82)]
    toy = Toy({
        r"\*IDN\?": b"Stanford_Research_Systems,SR830C,s/n12345,ver1.07" + end,
        r"\*ESR\?": b"0" + end,
        r"TRCA\? 1,0,4": b"1.5e+00,-2.0e+00,0.0e+00,6.25e-09," + end,
        r"TRCB\? 1,0,4": struct.pack("<4f", *floats),
        r"TRCL\? 1,0,4": struct.pack("<8h", *(one for pair in pairs for one in pair)),
        r"SNAP\? 1,2,9": b"0.001,-0.002,1000.0" + end,
    })  # fmt: skip
    place = on_a_pty(toy.hear) if wire == "serial" else on_gpib(toy, 8)
    with bench(tmp_path, "stranger_sr830", toy, place) as lab:
        for _ in range(2):
            assert lab.run("read_text", points=4) == list(floats)
            assert lab.trace("read_floats", points=4) == pytest.approx(floats)
            assert lab.trace("read_pairs", points=4) == pytest.approx(
                [mantissa * 2.0 ** (exponent - 124) for mantissa, exponent in pairs]
            )
            assert lab.run("snap")["frequency"] == 1000.0
        assert "OUTX 0" in toy.heard if wire == "serial" else "OUTX 1" in toy.heard


def test_a_controller_whose_answers_echo_the_question(tmp_path: Path) -> None:
    point = ["0.0000"]

    def change(found: re.Match[str]) -> bytes:
        if float(found[1]) > 250:
            return f"STAT:{found[0]}:INVALID\n".encode()
        point[0] = f"{float(found[1]):.4f}"
        return f"STAT:{found[0]}:VALID\n".encode()

    toy = Toy({
        r"\*IDN\?": b"IDN:OXFORD INSTRUMENTS:MERCURY ITC:151250123:2.3.12.000\n",
        r"READ:DEV:MB1\.T1:TEMP:SIG:TEMP": b"STAT:DEV:MB1.T1:TEMP:SIG:TEMP:4.2031K\n",
        r"READ:DEV:MB1\.T1:TEMP:LOOP:TSET": lambda found: (
            f"STAT:{found[0].removeprefix('READ:')}:{point[0]}K\n".encode()
        ),
        r"SET:DEV:MB1\.T1:TEMP:LOOP:TSET:(.*)": change,
        r"SET:DEV:MB1\.T1:TEMP:LOOP:ENAB:(\S+)": lambda found: f"STAT:{found[0]}:VALID\n".encode(),
        r"READ:DEV:MB1\.T1:TEMP:LOOP:ENAB": b"STAT:DEV:MB1.T1:TEMP:LOOP:ENAB:OFF\n",
        r"READ:SYS:CAT": b"STAT:SYS:CAT:DEV:MB1.T1:TEMP\n",
    })  # fmt: skip
    with bench(tmp_path, "stranger_mercury", toy, on_a_socket(toy.hear)) as lab:
        (listed,) = lab.engine.tool("list_instruments")["result"]
        assert (listed["manufacturer"], listed["model"], listed["serial"]) == (
            "OXFORD INSTRUMENTS", "MERCURY ITC", "151250123",
        )  # fmt: skip
        assert lab.run("measure_temperature")["temperature"] == 4.2031
        assert lab.run("set_point", temperature=10)["readback"] == 10
        assert "INVALID" in lab.failed("set_point", temperature=299)
        raw = lab.raw("READ:SYS:CAT", expect_answer=True)
        assert raw["result"]["response"] == "STAT:SYS:CAT:DEV:MB1.T1:TEMP", raw
        raw = lab.raw("READ:SYS:CAT")
        assert "STAT:SYS:CAT:DEV:MB1.T1:TEMP" in str(raw["result"]), raw
        assert lab.stop()["is_confirmed"] is True


def test_a_source_that_writes_decimal_commas(tmp_path: Path) -> None:
    share = [0.5]

    def change(found: re.Match[str]) -> bytes:
        share[0] = float(found[1])
        return b"\x06\r"

    toy = Toy({
        r"IDN": b"BS042 10 8 b\r",
        r"BS042 CH01 (.*)": change,
        r"BS042 U01": lambda _: f"{20 * share[0] - 10:+.3f} V\r".replace(".", ",").encode(),
        r"BS042 I01": b"-0,001 mA\r",
        r"BS042 TEMP": b"TEMP 30.5 \xb0C\r",
    })  # fmt: skip
    with bench(tmp_path, "stranger_stahl", toy, on_a_pty(toy.hear)) as lab:
        lab.run("set_voltage", share=0.75)
        assert lab.run("get_voltage") == 5.0
        assert lab.run("get_current") == -1e-6
        assert lab.run("get_temperature")["temperature"] == 30.5
        told = lab.stop()
        assert told["is_confirmed"] is True, told
        assert share == [0.5]


def test_a_loop_controller_with_an_address_on_a_line_of_seven_bits(tmp_path: Path) -> None:
    point = ["0000.0"]

    def change(found: re.Match[str]) -> bytes:
        point[0] = found[1]
        return b"01 OK\r\n"

    toy = Toy({
        r"01 II": b"01 II A100\r\n",
        r"01 PV": b"01 PV 0023.5\r\n",
        r"01 SL": lambda _: f"01 SL {point[0]}\r\n".encode(),
        r"01 SL (.*)": change,
        r"01 OP 0000\.0": b"01 OK\r\n",
        r"01 OP": b"01 OP 0000.0\r\n",
    })  # fmt: skip
    with bench(tmp_path, "stranger_loop", toy, on_a_pty(toy.hear), bus_address="01") as lab:
        assert lab.run("get_temperature")["temperature"] == 23.5
        assert lab.run("set_point", temperature=99.5)["readback"] == 99.5
        assert point == ["0099.5"]
        assert lab.stop()["is_confirmed"] is True


def test_a_bath_whose_errors_stand_in_its_status(tmp_path: Path) -> None:
    state = {"sp_00": "20.00", "mode_05": "0"}
    errors: list[str] = []

    def change(found: re.Match[str]) -> bytes:
        if found[1] == "sp_00" and float(found[2]) > 140:
            errors.append("-11 VALUE TOO LARGE")
        else:
            state[found[1]] = found[2]
        return b""

    toy = Toy({
        r"version": b"JULABO FP50_MH Simulator, ISIS\r\n",
        r"status": lambda _: (errors.pop() if errors else "03 REMOTE START").encode() + b"\r\n",
        r"in_pv_00": b" 23.45 \r\n",
        r"in_(.*)": lambda found: state[found[1]].encode() + b"\r\n",
        r"out_(\S+) (.*)": change,
    })  # fmt: skip
    with bench(tmp_path, "stranger_julabo", toy, on_a_pty(toy.hear)) as lab:
        assert lab.run("get_temperature") == 23.45
        assert lab.run("set_point", temperature=37.5)["readback"] == 37.5
        assert "VALUE TOO LARGE" in lab.failed("set_point", temperature=149)
        lab.run("start")
        assert lab.run("is_running") is True
        assert lab.stop()["is_confirmed"] is True
        assert state["mode_05"] == "0"


def test_a_monitor_on_a_line_of_seven_bits_and_odd_parity(tmp_path: Path) -> None:
    readings = "+293.15,+077.35,+004.20,+000.00,+010.01,+020.02,+030.03,+040.04"
    toy = Toy({
        r"\*IDN\?": b"LSCI,MODEL218S,21A1B2,032301\r\n",
        r"KRDG\? 0": readings.encode() + b"\r\n",
        r"KRDG\? (\d)": lambda found: readings.split(",")[int(found[1]) - 1].encode() + b"\r\n",
        r"RDGST\? \d": b"032\r\n",
        r"DATETIME\?": b"11,28,26,16,40,00\r\n",
    })  # fmt: skip
    with bench(tmp_path, "stranger_ls218", toy, on_a_pty(toy.hear, b"\n")) as lab:
        assert lab.run("read_all") == [293.15, 77.35, 4.2, 0.0, 10.01, 20.02, 30.03, 40.04]
        assert lab.run("read", channel=3) == 4.2
        assert lab.run("get_status", channel=1) == {
            "invalid": False, "under_range": False, "over_range": True,
        }  # fmt: skip
        assert lab.run("get_log_time") == "11,28,26,16,40,00"


# A Tektronix scope answers the whole preamble in an order and words of its firmware's own
# (python-ivi#61, #72).
PREAMBLES = {
    "in the order of the manual": b'1;8;BINARY;RI;MSB;"Ch1, DC coupling";4;Y;"s";1E-3;-2E-3;0;"V"',
    "in another order, with short words": b'MSB;BIN;RI;8;1;4;PT_FMT Y;XUNIT "s";YZE 0.1;XIN 1E-3',
    "with headers": b":WFMOUTPRE:ENCDG BIN;BYT_OR LSB;NR_PT 4;XINCR 1E-3;YMULT 4E-2",
}


@pytest.mark.parametrize("preamble", PREAMBLES)
def test_a_scope_whose_preamble_has_another_order_or_other_words(
    tmp_path: Path, preamble: str
) -> None:
    toy = Toy(
        {
            r"\*IDN\?": b"TEKTRONIX,TBS1102C,C025730,CF:91.1CT FV:v1.29.30; FPGA:v20.78;\n",
            r"\*ESR\?": b"0\n",
            r"TRIGger:STATE\?": b"SAVE\n",
            r"WFMOutpre\?": PREAMBLES[preamble] + b"\n",
            r"WFMOutpre:NR_Pt\?": b"4\n",
            r"WFMOutpre:XINcr\?": b"1.0E-3\n",
            r"WFMOutpre:XZEro\?": b"-2.0E-3\n",
            r"WFMOutpre:YMUlt\?": b"40.0E-3\n",
            r"WFMOutpre:YOFf\?": b"-5.0E+0\n",
            r"WFMOutpre:YZEro\?": b"100.0E-3\n",
            r"CURVe\?": b"#14" + bytes([251, 0, 5, 10]) + b"\n",
        }
    )
    with on_a_socket(toy.hear) as address:
        config = {"INSTRUMENTS": [{"address": address, "name": "unit"}]}
        with running_engine(tmp_path, sim=False, config=config) as engine:
            lab = Bench(engine, toy)
            for _ in range(2):
                volts = lab.trace("capture_waveform", channel=1, points=4)
                assert volts == pytest.approx([0.1, 0.3, 0.5, 0.7])
            assert "WFMOutpre?" not in toy.heard


def test_a_supply_of_aim_tti_is_drafted_by_what_it_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # QCoDeS, tests/sim: AimTTi_PL601P.yaml. It has no error queue, and answers no unknown line.
    toy = Toy(
        {
            r"\*IDN\?": b"THURLBY THANDAR, PL601P, 514710, 3.05 - 4.06\r\n",
            r"V1\?": b"V1 1.000\r\n",
            r"I1\?": b"I1 0.100\r\n",
            r"V1O\?": b"1.001V\r\n",
            r"I1O\?": b"0.010A\r\n",
            r"OP1\?": b"0\r\n",
        }
    )
    monkeypatch.chdir(tmp_path)
    own = ["--state-dir", str(tmp_path / "own")]
    with on_a_socket(toy.hear) as address:
        assert main(["profile", "new", "--from", address, *own]) == 0
        (path,) = tmp_path.glob("*.yaml")
        assert main(["profile", "lint", str(path)]) == 0
        text = path.read_text()
        assert "manufacturer: 'THURLBY THANDAR'" in text
        assert "model: 'PL601P'" in text
        assert "#   errors:" in text, "no error query was found, and none is made up"
        assert {line for line in toy.heard if "?" not in line} == {"*CLS", "EDGED:NONE"}
        config = {"INSTRUMENTS": [{"address": address, "name": "unit"}]}
        config["PROFILE_DIRS"] = [str(tmp_path)]  # type: ignore[list-item]
        with running_engine(tmp_path, sim=False, config=config) as engine:
            (listed,) = engine.tool("list_instruments")["result"]
            assert (listed["model"], listed["serial"]) == ("PL601P", "514710")
            lab = Bench(engine, toy)
            assert lab.raw("V1O?")["result"]["response"] == "1.001V"


def test_an_instrument_that_ends_its_answers_with_nul_behind_an_adapter(tmp_path: Path) -> None:
    # pymeasure#954.
    toy = Toy({r"\*IDN\?": b"ACME,N1,7,1.0\x00", r"V\?": b"+1.5E+00\x00"})
    profile = """
format: 1
profile_key: acme_n1
manufacturer: Acme
model: N1
instrument_class: multimeter
source: a report
match: {idn: '^ACME,N1,', examples: ["ACME,N1,7,1.0"]}
connection: {read_termination: "\\0", heartbeat: false, errors: none, timeout_ms: 1000}
commands:
  read: {scpi: "V?", returns: {type: float, unit: V}}
"""
    (tmp_path / "acme_n1.yaml").write_text(profile)
    with on_gpib(toy, 5) as address:
        config: dict[str, Any] = {
            "INSTRUMENTS": [{"address": address, "name": "unit"}],
            "PROFILE_DIRS": [str(tmp_path)],
        }
        with running_engine(tmp_path, sim=False, config=config) as engine:
            lab = Bench(engine, toy)
            for _ in range(2):
                assert lab.run("read") == 1.5
            assert lab.raw("V?")["result"]["response"] == "+1.5E+00"
