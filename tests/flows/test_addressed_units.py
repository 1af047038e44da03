"""Several units behind one serial port: each with its limits, lease, lockout, alias and stop."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.bench.addressed_units import MFC, PROFILE, Bus, Flows, Supply, pair
from tests.bench.documented import documented_profiles
from tests.bench.engine import Engine, running_engine
from tests.bench.pty_unit import PtyUnit, on_a_pty
from tests.bench.sim_bench import running_bench
from tests.bench.waiting import HANGS_S, wait_for
from tests.promises import promise


@dataclass
class Pair:
    engine: Engine
    bus: Bus
    port: str

    def run(self, unit: str, command: str, **parameters: Any) -> Any:
        return self.engine.tool(
            "execute_command",
            instrument_id=f"supply{unit}",
            command_name=command,
            parameters=parameters,
        )


@pytest.fixture
def units(tmp_path: Path) -> Iterator[Pair]:
    (tmp_path / "tdk_genesys.yaml").write_text(PROFILE)
    (tmp_path / "bench.yaml").write_text(
        "format: 1\nsupply7:\n  limits: {set_voltage: {voltage: {max: 5}}}\n"
    )
    unit, bus = pair()
    with on_a_pty(unit):
        entries = [
            {
                "address": unit.address,
                "profile": "tdk_genesys",
                "name": f"supply{number}",
                "bus_address": number,
            }
            for number in (6, 7)
        ]
        config = {
            "INSTRUMENTS": entries,
            "PROFILE_DIRS": [str(tmp_path)],
            "BENCH_FILE": str(tmp_path / "bench.yaml"),
            "SERIAL_PORTS": [unit.path],
        }
        with running_engine(tmp_path, sim=False, config=config) as engine:
            yield Pair(engine, bus, unit.address)


@promise("instruments.shared-port")
def test_each_unit_is_addressed_before_it_is_spoken_to(units: Pair) -> None:
    listed = units.engine.tool("list_instruments")["result"]
    assert sorted(one["address"] for one in listed) == [f"{units.port}@6", f"{units.port}@7"]
    assert all(one["is_connected"] for one in listed)
    for number in ("6", "7", "6", "6"):
        answer = units.run(number, "set_voltage", voltage=float(number) / 2)
        assert answer["is_error"] is False, answer
    assert units.bus.supplies["6"].voltage == "3.000"
    assert units.bus.supplies["7"].voltage == "3.500"
    before = len(units.bus.addressings)
    for _ in range(3):
        assert units.run("6", "get_voltage")["result"]["data"] == 3.0
    assert len(units.bus.addressings) == before, "nobody else was spoken to meanwhile"
    assert units.run("7", "get_voltage")["result"]["data"] == 3.5
    assert units.bus.addressings[before:] == ["7"]
    assert units.bus.unaddressed == []
    assert "*IDN?" not in units.bus.supplies["6"].heard


@promise("instruments.shared-port")
def test_each_unit_has_limits_a_lockout_and_a_lease_of_its_own(units: Pair) -> None:
    refused = units.run("7", "set_voltage", voltage=6)
    assert refused["is_error"], refused
    assert units.run("6", "set_voltage", voltage=6)["is_error"] is False
    units.engine.rpc("lockout.set", instrument_id="supply6", reason="hands inside", by="anna")
    assert units.run("6", "set_voltage", voltage=1)["is_error"]
    assert units.run("7", "set_voltage", voltage=1)["is_error"] is False
    units.engine.rpc("lockout.clear", instrument_id="supply6")
    lease = units.engine.tool("bench__reserve", instruments=["supply7"])["result"]
    held = units.run("7", "set_voltage", voltage=2)
    assert held["is_error"] or held["result"]["success"], held
    assert units.run("6", "set_voltage", voltage=2)["is_error"] is False
    units.engine.tool("bench__release", lease_id=lease["lease_id"])
    assert units.bus.supplies["6"].voltage == "2.000"


@promise("instruments.shared-port")
def test_a_stop_of_one_unit_does_not_wait_for_a_question_of_the_other(units: Pair) -> None:
    for number in ("6", "7"):
        assert units.run(number, "output_on")["is_error"] is False
    answers: list[Any] = []
    asking = threading.Thread(target=lambda: answers.append(units.run("6", "get_slow")))
    asking.start()
    wait_for(lambda: "SLOW?" in units.bus.supplies["6"].heard)
    stopped = units.run("7", "output_off")
    assert stopped["is_error"] is False, stopped
    assert not units.bus.supplies["7"].is_on
    asking.join(HANGS_S)
    (ended,) = answers
    assert ended["is_error"]
    assert "another unit of its port goes first" in str(ended)
    assert units.bus.supplies["6"].is_on
    assert units.run("6", "get_voltage")["is_error"] is False


@promise("instruments.shared-port")
def test_a_stop_of_all_switches_off_both_and_proves_it(units: Pair) -> None:
    for number in ("6", "7"):
        assert units.run(number, "output_on")["is_error"] is False
    told = units.engine.stop_all()
    assert told["is_confirmed"] is True, told
    assert not any(supply.is_on for supply in units.bus.supplies.values())


def test_a_unit_that_is_switched_off_does_not_silence_the_other(units: Pair) -> None:
    units.bus.supplies["7"].is_off_the_bus = True
    assert units.run("7", "get_voltage")["is_error"]
    for _ in range(10):
        answer = units.run("6", "get_voltage")
        assert answer["is_error"] is False, answer
    assert units.run("6", "output_on")["is_error"] is False

    def states() -> dict[str, str]:
        told = units.engine.tool("bench__stop_all")["result"]
        return {one["alias"]: one["state"] for one in told["instruments"]}

    wait_for(lambda: states()["supply6"] == "confirmed")
    assert states()["supply7"] != "confirmed"
    assert not units.bus.supplies["6"].is_on
    units.bus.supplies["7"].is_off_the_bus = False
    # The stop that it has not confirmed goes on, and goes first.
    wait_for(lambda: units.run("7", "set_voltage", voltage=2)["is_error"] is False)


@promise("instruments.shared-port")
def test_a_raw_line_cannot_address_another_unit(units: Pair) -> None:
    voltage = units.bus.supplies["7"].voltage
    for line in ("ADR 7", "adr 7", "ADR 7;PV 60", "PV?;ADR 07"):
        told = units.engine.tool("send_scpi", instrument_id="supply6", scpi_command=line)
        assert "may be for another unit" in str(told), told
    assert not {"07", "7;PV 60"} & set(units.bus.addressings)
    own = units.engine.tool("send_scpi", instrument_id="supply6", scpi_command="ADR 6")
    assert own["is_error"] is False, own
    assert units.bus.supplies["7"].voltage == voltage
    assert units.run("6", "set_voltage", voltage=4)["is_error"] is False
    assert units.bus.supplies["6"].voltage == "4.000"


def test_units_whose_every_line_begins_with_their_address_share_a_port(tmp_path: Path) -> None:
    (tmp_path / "alicat_mc.yaml").write_text(MFC)
    flows = Flows({"A": "+000.00", "B": "+000.00"})
    unit = PtyUnit(answers=flows, takes=b"\r", ends="\r", baud_rate=19_200)
    with on_a_pty(unit):
        entries = [
            {
                "address": unit.address,
                "profile": "alicat_mc",
                "name": f"flow{letter}",
                "bus_address": letter,
            }
            for letter in "AB"
        ]
        config = {"INSTRUMENTS": entries, "PROFILE_DIRS": [str(tmp_path)]}
        with running_engine(tmp_path, sim=False, config=config) as engine:
            for letter, flow in (("A", 1.5), ("B", 2.5), ("A", 3.5)):
                answer = engine.tool(
                    "execute_command",
                    instrument_id=f"flow{letter}",
                    command_name="set_flow",
                    parameters={"flow": flow},
                )
                assert answer["is_error"] is False, answer
            told = engine.tool(
                "execute_command", instrument_id="flowA", command_name="read", parameters={}
            )
            assert told["result"]["data"]["setpoint"] == 3.5, told
            for line in ("BS9.00", "BS 9", "*@=B"):
                raw = engine.tool("send_scpi", instrument_id="flowA", scpi_command=line)
                assert raw["is_error"], raw
    assert flows.setpoints == {"A": "3.50", "B": "2.50"}
    assert "*IDN?" not in unit.heard


@pytest.mark.parametrize("before", ['["ADR 6"]', '["ADR {address}"]'])
def test_a_unit_that_is_alone_is_addressed_before_it_is_identified(
    tmp_path: Path, before: str
) -> None:
    is_shared = "address" in before
    text = PROFILE.replace('["ADR {address}"]', before)
    (tmp_path / "tdk_genesys.yaml").write_text(
        text if is_shared else text.replace("  shared: true\n", "")
    )
    bus = Bus(supplies={"6": Supply()})
    unit = PtyUnit(answers=bus, takes=b"\r", ends="\r", baud_rate=9600)
    with on_a_pty(unit):
        entry = {"address": unit.address, "profile": "tdk_genesys", "name": "psu"}
        if is_shared:
            entry["bus_address"] = "6"
        config = {"INSTRUMENTS": [entry], "PROFILE_DIRS": [str(tmp_path)]}
        with running_engine(tmp_path, sim=False, config=config) as engine:
            [listed] = engine.tool("list_instruments")["result"]
            assert listed["is_connected"], listed
            answer = engine.tool("execute_command", instrument_id="psu", command_name="get_voltage")
            assert answer["result"]["data"] == 0.0
            # It was switched off and on again, and has forgotten that it was addressed.
            bus.addressed = ""
            for _ in range(200):
                answer = engine.tool(
                    "execute_command", instrument_id="psu", command_name="get_voltage"
                )
                if not answer["is_error"]:
                    break
            assert answer["result"]["data"] == 0.0
    assert unit.heard[0] == "ADR 6"


@pytest.mark.parametrize(
    ("model", "key", "units", "command", "name"),
    [
        ("tdk_genesys_pair", "tdk_genesys", ("6", "7"), "set_voltage", "voltage"),
        ("alicat_mc_pair", "alicat_mc", ("A", "B"), "set_flow", "flow"),
    ],
)
def test_the_profiles_of_the_documentation_work_the_simulated_units(
    tmp_path: Path, model: str, key: str, units: tuple[str, str], command: str, name: str
) -> None:
    (tmp_path / f"{key}.yaml").write_text(documented_profiles()[key])
    with running_bench("--instruments", f"bus={model}", "--transport", "bus=serial") as bench:
        entries = [
            {"address": bench.address("bus"), "profile": key, "bus_address": unit, "name": unit}
            for unit in units
        ]
        config = {"INSTRUMENTS": entries, "PROFILE_DIRS": [str(tmp_path)]}
        with running_engine(tmp_path, sim=False, config=config) as engine:
            for unit, value in zip((*units, units[0]), (1.5, 2.5, 3.5), strict=True):
                answer = engine.tool(
                    "execute_command",
                    instrument_id=f"{bench.address('bus')}@{unit}",
                    command_name=command,
                    parameters={name: value},
                )
                assert answer["is_error"] is False, answer
            told = engine.stop_all()
            assert told["is_confirmed"] is True, told
        state = bench.state("bus")
    if key == "tdk_genesys":
        assert (state["ch6"]["volts_set"], state["ch7"]["volts_set"]) == (3.5, 2.5)
    else:
        assert state == {"A": 0.0, "B": 0.0}, "both were stopped"
