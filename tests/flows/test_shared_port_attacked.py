"""Units that share a port, under what a bench does to them: each line must reach its own unit."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pyvisa

from edged.cli.main import main
from tests.bench.addressed_units import Flows
from tests.bench.engine import Engine, running_engine
from tests.bench.engine_process import engine_process
from tests.bench.hislip_program import HislipProgram
from tests.bench.tagged_bus import PROFILE, Bus, tagged_bus
from tests.bench.toys import on_a_pty
from tests.bench.waiting import HANGS_S, OwnTime, wait_for
from tests.promises import promise

NUMBERS = ("6", "7", "8")
GUARDS = """
format: 1
u6: {dead_man_s: 5}
interlocks:
  - name: hot
    when: {instrument: u8, command: measure}
    must: "value < 50"
    guards: [u7]
    poll_s: 0.2
    max_age_s: 20
    trip: abort
"""


@dataclass
class Lab:
    engine: Engine
    bus: Bus
    port: str

    def run(self, number: str, command: str, **parameters: Any) -> Any:
        return self.engine.tool(
            "execute_command",
            instrument_id=f"u{number}",
            command_name=command,
            parameters=parameters,
        )

    def get(self, number: str, command: str, **parameters: Any) -> Any:
        told = self.run(number, command, **parameters)
        assert not told["is_error"], told
        return told["result"]["data"]

    def soon(self, condition: Callable[[], bool], within_s: float = HANGS_S) -> None:
        deadline = time.monotonic() + within_s
        while not condition():
            assert time.monotonic() < deadline, (self.bus.lines[-40:], self.bus.misdirected)
            time.sleep(0.02)  # noqa: TID251 - a unit has no event to wait for


def config_for(directory: Path, port: str, numbers: tuple[str, ...] = NUMBERS) -> dict[str, Any]:
    (directory / "tagged.yaml").write_text(PROFILE)
    entries = [
        {"address": port, "profile": "tagged", "name": f"u{number}", "bus_address": number}
        for number in numbers
    ]
    return {
        "INSTRUMENTS": entries,
        "PROFILE_DIRS": [str(directory)],
        "BENCH_FILE": str(directory / "bench.yaml"),
    }


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with tagged_bus(*NUMBERS) as (bus, port):
        config = {**config_for(tmp_path, port), "VISA_SERVER": ["hislip"], "HISLIP_PORT": 0}
        with running_engine(tmp_path, sim=False, config=config) as engine:
            yield Lab(engine, bus, port)
        assert bus.misdirected == []


@promise("instruments.shared-port")
def test_all_surfaces_address_a_unit_before_they_speak_to_it(lab: Lab) -> None:
    for number in NUMBERS:
        lab.get(number, "set_voltage", voltage=float(number))
    is_over = threading.Event()
    failures: list[Any] = []

    def calls() -> None:
        while not is_over.is_set():
            told = lab.run("6", "measure")
            if told["is_error"] or told["result"]["data"] != 6.0:
                failures.append(told)

    def program() -> None:
        manager = pyvisa.ResourceManager(f"{lab.engine.mcp_url}@edged")
        try:
            unit = manager.open_resource("u7")
            while not is_over.is_set():
                told = unit.query("MV7?")
                if float(told) != 7.0:
                    failures.append(told)
        finally:
            manager.close()

    def hislip() -> None:
        with HislipProgram.open(lab.engine.ports["hislip_port"], "hislip_u6") as unit:
            while not is_over.is_set():
                told = unit.query("MV6?")
                if float(told) != 6.0:
                    failures.append(told)

    threads = [threading.Thread(target=one) for one in (calls, program, hislip)]
    for thread in threads:
        thread.start()
    begun = lab.engine.tool(
        "start_sweep", instrument_id="u8", command_name="set_voltage", target_value=9, sweep_rate=5
    )
    assert not begun["is_error"], begun
    stream = lab.engine.tool(
        "start_stream", instrument_id="u6", command_name="measure", interval_ms=50, duration_ms=800
    )
    assert not stream["is_error"], stream
    lab.soon(lambda: lab.bus.units["8"].volts == "9.000")
    told = lab.engine.tool("send_scpi", instrument_id="u8", scpi_command="MV8?")
    assert told["result"]["response"] == "9.000", told
    is_over.set()
    for thread in threads:
        thread.join(20)
    assert failures == []


@promise("instruments.shared-port")
def test_errors_and_what_follows_them_stay_with_their_unit(lab: Lab) -> None:
    lab.bus.units["7"].error = "9"
    told = lab.run("6", "set_voltage", voltage=1)
    assert not told["is_error"], told
    told = lab.run("7", "set_voltage", voltage=1)
    assert told["is_error"], told
    assert lab.get("6", "measure") == 1.0


@promise("instruments.shared-port")
def test_a_late_answer_is_not_taken_for_another_units(lab: Lab) -> None:
    """Unit 6 answers after its time limit, while unit 7 is asked."""
    lab.get("6", "set_voltage", voltage=6)
    lab.get("7", "set_voltage", voltage=7)
    for late_s in (0.55, 0.65, 0.8, 1.0, 1.2):
        lab.bus.units["6"].late_s["MV"] = late_s
        lab.bus.units["7"].late_s["MV"] = 0.2
        assert lab.run("6", "measure")["is_error"]
        for _ in range(3):
            told = lab.run("7", "measure")
            assert told["is_error"] or told["result"]["data"] == 7.0, (late_s, told)
        lab.bus.units["6"].late_s.clear()
        lab.bus.units["7"].late_s.clear()
        lab.soon(lambda: not lab.run("6", "measure")["is_error"])
        assert lab.get("7", "measure") == 7.0


@promise("instruments.shared-port")
@pytest.mark.parametrize("late_s", [0.55, 0.9, 1.3])
def test_a_late_answer_is_not_taken_for_that_of_a_unit_without_a_name(
    tmp_path: Path, late_s: float
) -> None:
    """No query tells which unit has answered."""
    named = 'identify: {ask: "IDN{address}?", expect: "^ACME,BUS-1,"}'
    assert named in PROFILE
    with tagged_bus("6", "7") as (bus, port):
        config = config_for(tmp_path, port, ("6", "7"))
        (tmp_path / "tagged.yaml").write_text(PROFILE.replace(named, "never_ask_idn: true"))
        for entry in config["INSTRUMENTS"]:
            entry["never_ask_idn"] = True
        with running_engine(tmp_path, sim=False, config=config) as engine:
            lab = Lab(engine, bus, port)
            lab.get("6", "set_voltage", voltage=6)
            lab.get("7", "set_voltage", voltage=7)
            lab.get("7", "output_on")
            bus.units["6"].late_s["MV"] = late_s
            # It is silent itself, so that no second line tells of the first one.
            bus.units["7"].late_s["MV"] = float("inf")
            assert lab.run("6", "measure")["is_error"]
            for _ in range(3):
                told = lab.run("7", "measure")
                assert told["is_error"], (late_s, told)
            for unit in bus.units.values():
                unit.late_s.clear()
            bus.units["6"].is_plugged = False
            assert lab.run("6", "measure")["is_error"]
            told = lab.run("7", "measure")
            assert "identify" in told["result"]["error"]["message"], told
            # What makes safe is sent all the same.
            engine.tool("bench__stop_all")
            lab.soon(lambda: not bus.units["7"].is_on)
            bus.units["6"].is_plugged = True
            for tag in ("6", "7"):
                lab.soon(lambda tag=tag: not lab.run(tag, "measure")["is_error"])  # type: ignore[misc]
            assert lab.get("7", "measure") == 7.0


@promise("instruments.shared-port")
@pytest.mark.parametrize("late_s", [0.3, 0.45, 0.6, 0.8])
def test_a_late_answer_proves_no_stop_of_another_unit(lab: Lab, late_s: float) -> None:
    """Unit 6 says that it is off just when unit 7, which stays on, is asked the same."""
    lab.get("7", "output_on")
    lab.bus.units["7"].obeys = False
    lab.bus.units["7"].late_s["OUT"] = 0.25
    lab.bus.units["6"].late_s["OUT"] = late_s
    asking = threading.Thread(target=lambda: lab.run("6", "get_output"))
    asking.start()
    lab.soon(lambda: "OUT6?" in lab.bus.lines)
    told = lab.engine.tool("bench__stop_all")["result"]
    asking.join(10)
    (state,) = (one for one in told["instruments"] if one["alias"] == "u7")
    assert state["state"] != "confirmed", state
    assert told["is_confirmed"] is False
    assert lab.bus.units["7"].is_on


@promise("instruments.shared-port")
def test_a_stop_of_all_is_proved_of_the_others_while_a_unit_is_busy(lab: Lab) -> None:
    for number in NUMBERS:
        lab.get(number, "output_on")
    lab.bus.units["6"].late_s["SLOW"] = 3.0
    asking = threading.Thread(target=lambda: lab.run("6", "ask_slow"))
    asking.start()
    lab.soon(lambda: "SLOW6?" in lab.bus.lines)
    with OwnTime() as own:
        told = lab.engine.tool("bench__stop_all")["result"]
        took_s = own.seconds()
    asking.join(10)
    states = {one["alias"]: one["state"] for one in told["instruments"]}
    assert (states["u7"], states["u8"]) == ("confirmed", "confirmed"), told
    assert states["u6"] != "confirmed", "it was busy"
    assert took_s < 2.5, took_s
    lab.soon(lambda: not lab.bus.units["6"].is_on)
    assert not any(unit.is_on for unit in lab.bus.units.values())


@promise("instruments.shared-port")
def test_a_unit_that_hangs_and_one_that_is_unplugged_do_not_stop_the_third(lab: Lab) -> None:
    for number in NUMBERS:
        lab.get(number, "output_on")
    lab.bus.units["6"].is_plugged = False
    lab.bus.units["7"].late_s.update(dict.fromkeys(("MV", "PV", "OUT", "IDN"), float("inf")))
    assert lab.run("6", "measure")["is_error"]
    assert lab.run("7", "measure")["is_error"]
    slowest_s = 0.0
    for _ in range(20):
        with OwnTime() as own:
            told = lab.run("8", "measure")
            slowest_s = max(slowest_s, own.seconds())
        assert not told["is_error"], told
    assert slowest_s < 1.5
    told = lab.engine.tool("bench__stop_all")["result"]
    states = {one["alias"]: one["state"] for one in told["instruments"]}
    assert states["u8"] == "confirmed", told
    assert "confirmed" not in (states["u6"], states["u7"]), told

    def connected() -> set[str]:
        listed = lab.engine.tool("list_instruments")["result"]
        return {one["alias"] for one in listed if one["is_connected"]}

    lab.soon(lambda: connected() == {"u8"})
    lab.bus.units["6"].is_plugged = True
    lab.bus.units["7"].late_s.clear()
    for number in ("6", "7"):
        lab.soon(lambda number=number: not lab.run(number, "measure")["is_error"])
    # What was stopped while it did not answer is switched off, once it does.
    lab.soon(lambda: not lab.bus.units["7"].is_on)


@promise("instruments.shared-port")
def test_a_unit_that_leaves_a_write_unanswered_says_its_name_before_the_next_one(lab: Lab) -> None:
    lab.get("6", "set_voltage", voltage=1)
    lab.bus.units["6"].late_s["PV"] = float("inf")
    told = lab.run("6", "set_voltage", voltage=2)
    assert told["is_error"], told
    assert "PV6 2.000" in told["result"]["error"]["sent"]
    lab.bus.units["6"].late_s.clear()
    said = len(lab.bus.lines)
    lab.soon(lambda: not lab.run("6", "set_voltage", voltage=3)["is_error"])
    own = [line for line in lab.bus.lines[said:] if "6" in line]
    assert own.index("IDN6?") < own.index("PV6 3.000")


@promise("instruments.shared-port")
def test_a_dead_man_and_an_interlock_address_their_unit(tmp_path: Path) -> None:
    (tmp_path / "bench.yaml").write_text(GUARDS)
    with tagged_bus(*NUMBERS) as (bus, port):
        config = config_for(tmp_path, port)
        with running_engine(tmp_path, sim=False, config=config) as engine:
            lab = Lab(engine, bus, port)
            lab.get("6", "output_on")
            lab.get("7", "output_on")
            assert bus.units["6"].is_guarded
            time.sleep(5.5)  # noqa: TID251 - it is fed for longer than its timer takes
            assert bus.units["6"].is_on
            bus.units["8"].volts = "55.0"
            lab.soon(lambda: not bus.units["7"].is_on)
            assert bus.units["6"].is_on
        assert bus.misdirected == []


def test_a_killed_engine_makes_each_unit_safe_at_its_own_address(tmp_path: Path) -> None:
    with tagged_bus(*NUMBERS) as (bus, port):
        config = config_for(tmp_path, port)
        with engine_process(tmp_path, sim=False, config=config) as engine:
            lab = Lab(engine, bus, port)
            for number in ("6", "7"):
                lab.get(number, "output_on")
                begun = engine.tool(
                    "start_sweep",
                    instrument_id=f"u{number}",
                    command_name="set_voltage",
                    target_value=50,
                    sweep_rate=1,
                )
                assert not begun["is_error"], begun
            lab.get("8", "output_on")
            lab.soon(lambda: float(bus.units["7"].volts) > 0.1)
            engine.process.kill()
            engine.process.wait()
        assert bus.units["6"].is_on
        with engine_process(tmp_path, sim=False, config=config) as engine:
            lab = Lab(engine, bus, port)
            lab.soon(lambda: not bus.units["6"].is_on and not bus.units["7"].is_on)
            assert bus.units["8"].is_on
            listed = engine.tool("list_instruments")["result"]
            assert all(one["is_connected"] for one in listed)
        assert bus.misdirected == []


@pytest.mark.parametrize(
    ("entries", "told"),
    [
        ([{"bus_address": "6"}, {"bus_address": "06"}], "bus_address 06"),
        ([{"bus_address": "6"}, {}], "this entry has none"),
        ([{}], "bus_address"),
    ],
)
def test_entries_of_a_port_that_contradict_each_other_leave_the_rest_at_work(
    tmp_path: Path, entries: list[dict[str, str]], told: str
) -> None:
    with tagged_bus(*NUMBERS) as (bus, port), tagged_bus("1") as (_, other):
        config = config_for(tmp_path, other, ("1",))
        config["INSTRUMENTS"] += [
            {"address": port, "profile": "tagged", "name": f"x{place}", **entry}
            for place, entry in enumerate(entries)
        ]
        with contextlib.ExitStack() as stack:
            engine = stack.enter_context(running_engine(tmp_path, sim=False, config=config))
            assert Lab(engine, bus, port).get("1", "measure") == 0.0
            aside = engine.tool("get_status")["result"]["set_aside"]
            assert told in str(aside), aside
        assert bus.misdirected == []


@pytest.fixture
def link(tmp_path: Path) -> Callable[[str], str]:
    """Another path to a port."""

    def make(port: str) -> str:
        path = tmp_path / "by-id"
        path.symlink_to(port.removeprefix("ASRL").removesuffix("::INSTR"))
        return f"ASRL{path}::INSTR"

    return make


@promise("instruments.shared-port")
def test_units_of_one_port_may_be_given_by_different_paths_to_it(
    tmp_path: Path, link: Callable[[str], str]
) -> None:
    with tagged_bus(*NUMBERS) as (bus, port):
        config = config_for(tmp_path, port)
        config["INSTRUMENTS"][1]["address"] = link(port)
        with running_engine(tmp_path, sim=False, config=config) as engine:
            lab = Lab(engine, bus, port)
            for number in NUMBERS * 2:
                assert lab.get(number, "measure") == 0.0
        assert bus.misdirected == []


@promise("instruments.shared-port")
def test_two_paths_to_one_unit_are_noticed(tmp_path: Path, link: Callable[[str], str]) -> None:
    with tagged_bus(*NUMBERS) as (bus, port):
        config = config_for(tmp_path, port, ("6", "7"))
        again = {"address": link(port), "profile": "tagged", "name": "again", "bus_address": "06"}
        config["INSTRUMENTS"].append(again)
        with running_engine(tmp_path, sim=False, config=config) as engine:
            assert Lab(engine, bus, port).get("7", "measure") == 0.0
            assert "two different entries" in str(engine.tool("get_status")["result"]["set_aside"])
        assert bus.misdirected == []


@pytest.mark.parametrize("road", ["INSTRUMENTS", "SERIAL_PORTS", "later"])
def test_one_port_under_two_paths_is_one_line(
    tmp_path: Path, link: Callable[[str], str], road: str
) -> None:
    heard: list[str] = []

    def hear(line: str) -> bytes:
        heard.append(line)
        return b"ACME,PSU1,A001,1.0\n" if line == "*IDN?" else b""

    with on_a_pty(hear, takes=b"\n") as port:
        other = f"ASRL{tmp_path / 'by-id'}::INSTR" if road == "later" else link(port)
        entries = [{"address": other, "name": "a"}]
        config: dict[str, Any] = {"INSTRUMENTS": entries}
        if road == "SERIAL_PORTS":
            config |= {"DISCOVERY": ["serial"], "SERIAL_PORTS": [port]}
        else:
            entries.append({"address": port, "name": "b"})
        with running_engine(tmp_path, sim=False, config=config) as engine:
            if road == "later":
                link(port)
            found = engine.tool("scan_instruments")["result"]
            listed = engine.tool("list_instruments")["result"]
            assert [one["alternatives"] for one in listed] == [[]], (listed, found)

            def aside() -> str:
                return str(engine.tool("get_status")["result"]["set_aside"])

            if road == "SERIAL_PORTS":
                assert listed[0]["alias"] == "a"
                assert aside() == "[]"
            else:
                wait_for(lambda: "another path to" in aside())
        assert heard.count("*IDN?") <= 3, heard


@pytest.mark.parametrize(
    ("number", "ask", "identify"),
    [
        ("7", "IDN7?", "{ask: 'IDN{address}?', expect: '^ACME,BUS-[0-9]+,[0-9]+'}"),
        ("6", "IDN{address}?", "{ask: 'IDN{address}?', expect: '^ACME,BUS-[0-9]+,[0-9]+'}"),
    ],
)
def test_a_draft_of_a_unit_with_an_address_works_each_unit_of_the_port(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: str, ask: str, identify: str
) -> None:
    monkeypatch.chdir(tmp_path)
    own = ["--state-dir", str(tmp_path / "own")]
    keys = (
        '{before: ["ADR {address}"], acknowledge: "^OK$", read_termination: "\\r", '
        'write_termination: "\\r"}'
    )
    with tagged_bus(*NUMBERS) as (bus, port):
        words = ["--from", f"{port}@{number}", "--ask", ask, "--key", "tagged"]
        assert main(["profile", "new", *words, "--connection", keys, *own]) == 0
        text = (tmp_path / "tagged.yaml").read_text()
        assert f"identify: {identify}" in text
        for line in ('before: ["ADR {address}"]', "shared: true", "acknowledge: '^OK$'"):
            assert f"  {line}\n" in text
        config = config_for(tmp_path, port)
        (tmp_path / "tagged.yaml").write_text(text)
        with running_engine(tmp_path, sim=False, config=config) as engine:
            listed = engine.tool("list_instruments")["result"]
            assert [one["is_connected"] for one in listed] == [True] * 3, text
        assert bus.misdirected == []


def test_a_draft_of_a_unit_whose_lines_begin_with_its_letter_takes_no_readings_for_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    own = ["--state-dir", str(tmp_path / "own")]
    flows = Flows({"A": "+000.00", "B": "+000.00"})

    def hear(line: str) -> bytes:
        with contextlib.suppress(KeyError):
            return f"{flows[line]}\r".encode()
        return b""

    with on_a_pty(hear) as port:
        words = ["--from", f"{port}@A", "--ask", "A", "--key", "mfc"]
        assert main(["profile", "new", *words, *own]) == 0
    text = (tmp_path / "mfc.yaml").read_text()
    assert "identify: {ask: '{address}', expect: '^{address}(?![A-Za-z0-9])'}" in text
    assert "    scpi: '{address}'\n" in text
    assert "manufacturer: 'unknown'" in text
    assert main(["profile", "lint", str(tmp_path / "mfc.yaml")]) == 0


@pytest.mark.parametrize("address", ["{port}", "{port}@9", "{link}"])
@pytest.mark.parametrize("verb", [["probe"], ["profile", "new", "--from"]])
def test_no_other_program_speaks_on_a_port_that_an_engine_works(
    lab: Lab,
    capsys: pytest.CaptureFixture[str],
    link: Callable[[str], str],
    verb: list[str],
    address: str,
) -> None:
    said = len(lab.bus.lines)
    words = [
        *verb,
        address.format(port=lab.port, link=link(lab.port)),
        "--state-dir",
        str(lab.engine.state_dir),
    ]
    assert main(words) == 1
    assert "two programs on one line" in capsys.readouterr().err
    # The engine itself may still address its units.
    assert set(lab.bus.lines[said:]) <= {f"ADR {number}" for number in NUMBERS}
