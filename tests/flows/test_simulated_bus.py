"""Instruments that are put on the running simulated bench, and taken off it."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bench.engine import Engine, running_engine
from tests.bench.waiting import wait_for
from tests.promises import promise


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with running_engine(
        tmp_path_factory.mktemp("state"), "--instruments", "psu1",
        config={"RESCAN_INTERVAL_SEC": 3600},
    ) as running:  # fmt: skip
        yield running


def names(engine: Engine) -> set[str]:
    return {i["alias"] for i in engine.tool("list_instruments")["result"]}


def tools(engine: Engine) -> set[str]:
    return {tool["name"] for tool in engine.rpc("tools/list")["tools"]}


@promise("discovery.simulated-bench")
def test_an_added_instrument_is_found_by_scan_instruments_and_goes_when_it_is_removed(
    engine: Engine,
) -> None:
    engine.sim("add", name="dmm7", model="keysight_34461a")
    found = engine.tool("scan_instruments")["result"]
    assert [i["alias"] for i in found] == ["dmm7"]
    assert "dmm7" in names(engine)
    assert any(tool.startswith("keysight_34461a__") for tool in tools(engine))
    engine.sim("remove", name="dmm7")
    engine.tool("scan_instruments")
    assert "dmm7" not in names(engine)
    assert not any(tool.startswith("keysight_34461a__") for tool in tools(engine))


@promise("discovery.rescan")
def test_the_rescan_finds_what_was_added_and_lets_go_of_what_was_removed(tmp_path: Path) -> None:
    with running_engine(
        tmp_path, "--instruments", "psu1", config={"RESCAN_INTERVAL_SEC": 1}
    ) as engine:
        engine.sim("add", name="scope7", model="rigol_ds1054z")
        wait_for(lambda: "scope7" in names(engine))
        engine.sim("remove", name="scope7")
        wait_for(lambda: "scope7" not in names(engine))
        assert names(engine) == {"psu1"}


def test_a_second_instance_on_the_bench_renames_the_first_one_s_tools(
    engine: Engine,
) -> None:
    assert "rigol_dp832__set_voltage" in tools(engine)
    engine.sim("add", name="psu2", model="rigol_dp832")
    engine.tool("scan_instruments")
    now = {name for name in tools(engine) if name.endswith("__set_voltage")}
    assert len(now) == 2
    assert "rigol_dp832__set_voltage" not in now
    engine.sim("remove", name="psu2")


def test_the_discovery_method_tells_of_the_buses_and_of_what_was_set_aside(
    engine: Engine,
) -> None:
    engine.sim("add", name="mute", model="generic_scpi")
    engine.sim("fault", instrument="mute", kind="hang")
    engine.tool("scan_instruments")
    report = engine.rpc("discovery")
    assert [bus["name"] for bus in report["buses"]] == ["simulated"]
    assert report["hotplug"]["monitor"] == "none"
    (aside,) = report["set_aside"]
    assert aside["name"] == "mute"
    assert aside["is_set_aside"]
    assert engine.tool("get_status")["result"]["set_aside"][0]["name"] == "mute"
    engine.sim("clear", instrument="mute")
    engine.tool("scan_instruments")
    assert "mute" in names(engine)
    engine.sim("remove", name="mute")


def test_a_removed_instrument_is_not_driven_and_the_error_says_what_to_do(
    engine: Engine,
) -> None:
    engine.sim("add", name="gone", model="generic_scpi")
    (entry,) = engine.tool("scan_instruments")["result"]
    engine.sim("remove", name="gone")
    engine.tool("scan_instruments")
    reply = engine.tool("send_scpi", instrument_id=entry["id"], scpi_command="*IDN?")
    error = reply["result"]["error"] if reply["result"] else reply["error"]
    assert "taken away" in str(error)
    assert "list_instruments" in str(error)


@pytest.mark.skipif(sys.platform == "win32", reason="a simulated serial port is a pty")
def test_a_simulated_serial_instrument_comes_and_goes_like_any_other(
    engine: Engine,
) -> None:
    engine.sim("add", name="ser", model="keysight_34461a", transport="serial")
    (found,) = engine.tool("scan_instruments")["result"]
    assert found["transport"] == "serial"
    reply = engine.tool("send_scpi", instrument_id=found["id"], scpi_command="*IDN?")
    assert "34461A" in reply["result"]["response"]
    engine.sim("remove", name="ser")
    engine.tool("scan_instruments")
    assert "ser" not in names(engine)
