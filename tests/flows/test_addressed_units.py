"""Several units behind one serial port: each with its limits, lease, lockout, alias and stop."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.bench.addressed_units import PROFILE, Bus, pair
from tests.bench.engine import Engine, running_engine
from tests.bench.pty_unit import on_a_pty


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


def test_each_unit_is_addressed_before_it_is_spoken_to(units: Pair) -> None:
    listed = units.engine.tool("list_instruments")["result"]
    assert [one["address"] for one in listed] == [f"{units.port}@6", f"{units.port}@7"]
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
