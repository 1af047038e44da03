"""An engine whose simulated instruments are reached over every transport."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.bench.engine import Engine, running_engine
from tests.bench.waiting import wait_for
from tests.promises import promise

WIRES = {
    "sock": "socket",
    "vxi": "vxi11",
    "his": "hislip",
    "ser": "serial",
    "one": "prologix",
    "two": "prologix",
}
READY_S = 10.0


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    flags = [word for name, kind in WIRES.items() for word in ("--transport", f"{name}={kind}")]
    orders = ",".join(f"{name}=rigol_dp832" for name in WIRES)
    with running_engine(
        tmp_path_factory.mktemp("transports"), "--instruments", orders, *flags
    ) as running:
        wait_for(
            lambda: {row["alias"] for row in running.tool("list_instruments")["result"]} == {*WIRES}
        )
        yield running


@promise("instruments.every-transport")
def test_each_instrument_is_registered_by_its_transport_and_does_what_it_is_told(
    engine: Engine,
) -> None:
    listed = {row["alias"]: row for row in engine.tool("list_instruments")["result"]}
    assert {name: listed[name]["transport"] for name in WIRES} == WIRES
    assert {row["line_state"] for row in listed.values()} == {"ready"}
    for number, name in enumerate(WIRES, 1):
        answer = engine.tool(
            "execute_command",
            instrument_id=name,
            command_name="set_voltage",
            parameters={"channel": 1, "voltage": float(number)},
        )
        assert not answer["is_error"], answer
    assert {name: engine.sim("state")["instruments"][name]["state"] for name in WIRES}
    for number, name in enumerate(WIRES, 1):
        answer = engine.tool("send_scpi", instrument_id=name, scpi_command=":SOUR1:VOLT?")
        assert float(answer["result"]["response"]) == number


def test_a_failure_carries_the_last_exchanges_and_the_status_counts_the_lines(
    engine: Engine,
) -> None:
    for name in WIRES:
        # The daemon asks who is there where it must know; it is to be the command's own answer.
        for _ in range(5):
            engine.sim("fault", instrument=name, kind="garbage", count=1)
            answer = engine.tool(
                "execute_command",
                instrument_id=name,
                command_name="measure_voltage",
                parameters={"channel": 1},
            )
            if answer["is_error"]:
                break
        assert answer["is_error"], name
        assert answer["error"]["data"]["trace"], name
        again = engine.tool(
            "execute_command",
            instrument_id=name,
            command_name="measure_voltage",
            parameters={"channel": 1},
        )
        assert not again["is_error"], again
    assert engine.tool("get_status")["result"]["instruments_by_state"]["ready"] >= 1
