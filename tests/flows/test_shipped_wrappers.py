"""The two wrappers that ship, in a real engine.

A Korad on a pseudo-terminal, and WaveForms' library as a C compiler makes it from the same symbols
and types.
"""

from __future__ import annotations

import asyncio
import math
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.bench.engine import Engine, running_engine
from tests.bench.engine_process import REPOSITORY
from tests.bench.fake_dwf import compile_fake_dwf
from tests.bench.fake_korad import FakeKorad
from tests.bench.mcp_client import McpClient
from tests.bench.waiting import HANGS_S, wait_for
from tests.promises import promise

KORAD, DIGILENT = "korad_ka3005p", "digilent_analog_discovery"


@pytest.fixture(scope="module")
def korad() -> Iterator[FakeKorad]:
    with FakeKorad() as supply:
        yield supply


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory, korad: FakeKorad) -> Iterator[Engine]:
    directory = tmp_path_factory.mktemp("shipped")
    config = {
        "SDK_WRAPPER_DIRS": [str(REPOSITORY / "sdk_wrappers")],
        "SDK_LIBRARIES": {"dwf": str(compile_fake_dwf(directory))},
        "SDK_SETTINGS": {
            KORAD: {"port": korad.path, "max_volts": "12"},
            DIGILENT: {"settle_s": "0"},
        },
    }
    with running_engine(directory, sim=False, config=config) as running:
        yield running


def call(engine: Engine, tool: str, **arguments: Any) -> Any:
    answer = engine.tool(tool, **arguments)
    assert answer["is_error"] is False, answer
    return answer["result"]["data"]


def refusal(engine: Engine, tool: str, **arguments: Any) -> str:
    answer = engine.tool(tool, **arguments)
    assert answer["is_error"] is True, answer
    return str(answer["error"]["message"])


@promise("sdk.korad")
def test_a_korad_is_set_verified_measured_and_made_safe(engine: Engine, korad: FakeKorad) -> None:
    assert call(engine, f"{KORAD}__identify")["identity"] == "KORADKA3005PV2.0"
    assert call(engine, f"{KORAD}__set_voltage", volts=5) == 5.0
    assert call(engine, f"{KORAD}__set_current", amps=0.25) == 0.25, "a stale byte follows"
    assert call(engine, f"{KORAD}__output_on")["is_on"] is True
    measured = call(engine, f"{KORAD}__read_output")
    assert (measured["volts"], measured["amps"], measured["mode"]) == (2.5, 0.25, "CC")
    korad.is_deaf_to_off = 1
    stopped = engine.stop_all()
    assert korad.is_on is False
    assert {one["instrument_id"]: one["state"] for one in stopped["wrappers"]} == {
        f"sdk:{KORAD}": "confirmed",
        f"sdk:{DIGILENT}": "confirmed",
    }
    assert stopped["is_confirmed"]


def test_no_way_round_the_owners_limit_of_a_korad(engine: Engine, korad: FakeKorad) -> None:
    before = len(korad.log)
    assert "maximum 12" in refusal(engine, f"{KORAD}__set_voltage", volts=12.5)
    assert korad.log[before:] == []
    assert "over the limit 12 V" in refusal(engine, f"{KORAD}__recall", memory=5)
    assert "over the limit 12 V" in refusal(engine, f"{KORAD}__output_on")
    assert b"OUT1" not in korad.log[before:]
    assert korad.is_on is False


def test_a_korad_that_does_not_do_as_told_is_an_error(engine: Engine, korad: FakeKorad) -> None:
    korad.is_deaf_to_off, korad.is_on = 3, True
    assert "says that its output is on" in refusal(engine, f"{KORAD}__output_off")
    assert call(engine, f"{KORAD}__output_off") == {"is_on": False}


@promise("sdk.digilent")
def test_an_analog_discovery_generates_records_supplies_and_is_made_safe(
    engine: Engine,
) -> None:
    devices = call(engine, f"{DIGILENT}__list_devices")
    assert devices["library_version"] == "3.20.1"
    assert devices["devices"][0]["name"] == "Analog Discovery 2"
    made = call(engine, f"{DIGILENT}__generate", shape="sine", frequency=1000, amplitude=2)
    assert made == {"frequency": 1000.0, "amplitude": 2.0, "offset": 0.0, "is_running": True}
    seen = call(
        engine, f"{DIGILENT}__acquire", sample_rate=300_000, samples=3_003, trigger="rising"
    )
    # 100 MHz has no divider for 300 kHz: the device takes the next one.
    assert seen["x_increment"] == pytest.approx(334 / 100e6)
    assert len(seen["y"]) == 3_003
    assert seen["rms"] == pytest.approx(2 / math.sqrt(2), rel=0.01)
    assert seen["max"] == pytest.approx(2, rel=0.01)
    supplies = call(engine, f"{DIGILENT}__set_supplies", positive=3.3, negative=-1.5)
    assert supplies["is_on"] is True
    assert supplies["supplies"]["V+"] == {"enable": 1.0, "voltage": 3.3}
    assert supplies["supplies"]["V-"] == {"enable": 1.0, "voltage": -1.5}
    assert call(engine, f"{DIGILENT}__outputs_off") == {"is_on": False}
    assert call(engine, f"{DIGILENT}__read_supplies")["is_on"] is False
    assert call(engine, f"{DIGILENT}__read_voltage") == 0.0


def test_an_analog_discovery_refuses_what_it_cannot(engine: Engine) -> None:
    too_much = refusal(engine, f"{DIGILENT}__generate", shape="sine", amplitude=4, offset=2)
    assert "amplitude + offset <= 5" in too_much
    assert "at most 8192 samples" in refusal(engine, f"{DIGILENT}__acquire", samples=10_000)
    waited = refusal(engine, f"{DIGILENT}__acquire", trigger="falling", level=1, timeout=0.1)
    assert "no falling edge came" in waited
    assert "FDwfAnalogInChannelEnableSet failed with error 17" in refusal(
        engine, f"{DIGILENT}__read_voltage", channel=3
    )


@promise("sdk.absent")
@pytest.mark.parametrize("which", ["all", "connected"])
def test_tools_of_devices_that_nobody_has_are_listed_as_the_owner_says_and_answer_when_called(
    tmp_path: Path, which: str
) -> None:
    config = {"SDK_WRAPPER_DIRS": [str(REPOSITORY / "sdk_wrappers")]}
    if which != "all":
        config["SDK_TOOLS"] = which
    with running_engine(tmp_path, config=config) as engine:
        listed = [tool["name"] for tool in engine.rpc("tools/list")["tools"]]
        assert "rigol_dp832__set_voltage" in listed
        theirs = [name for name in listed if name.startswith((KORAD, DIGILENT))]
        assert (f"{KORAD}__identify" in theirs) is (which == "all")
        assert bool(theirs) is (which == "all")
        unlisted = engine.tool("get_status")["result"]["unlisted_tools"]
        assert (f"{KORAD}__identify" in unlisted) is (which == "connected")
        short = asyncio.run(_listed(engine, "?tools=essential"))
        assert [name for name in short if name.startswith((KORAD, DIGILENT))] == []
        assert "rigol_dp832__set_voltage" in short
        called = engine.tool(f"{KORAD}__identify")
        assert called["is_error"] is True
        assert "USB (0416:5011)" in called["error"]["message"]
        sdk = engine.tool("get_status")["result"]["sdk"]
        assert [one["is_seen"] for one in sdk["wrappers"]] == [False, False]


@promise("sdk.absent")
def test_an_owner_who_names_a_wrapper_or_has_one_of_his_own_has_its_tools_listed(
    tmp_path: Path,
) -> None:
    own = tmp_path / "own"
    own.mkdir()
    shutil.copy(REPOSITORY / "sdk_wrappers" / f"{DIGILENT}.py", own / "scope.py")
    config = {
        "SDK_WRAPPER_DIRS": [str(REPOSITORY / "sdk_wrappers"), str(own)],
        "SDK_SETTINGS": {KORAD: {}},
        "SDK_TOOLS": "connected",
    }
    with running_engine(tmp_path, sim=False, config=config) as engine:

        def listed() -> set[str]:
            return {tool["name"].partition("__")[0] for tool in engine.rpc("tools/list")["tools"]}

        wait_for(lambda: listed() >= {KORAD, "scope", "bench"})
        assert DIGILENT not in listed()


async def _listed(engine: Engine, query: str) -> list[str]:
    client = McpClient(engine.ports["mcp_port"])
    client.path = f"/mcp{query}"
    answer = await client.request("tools/list")
    return [tool["name"] for tool in answer.json()["result"]["tools"]]


def found(engine: Engine, wrapper: str) -> list[str]:
    """What bench__find_tools finds of a wrapper, asked for by its own words."""
    answer = engine.tool("bench__find_tools", query=wrapper.replace("_", " "), limit=50)
    names = [tool["name"] for tool in answer["result"]["tools"]]
    return [name for name in names if name.startswith(wrapper)]


@promise("sdk.absent")
async def test_clients_hear_of_a_device_that_came_and_the_search_finds_its_tools_from_then_on(
    tmp_path: Path,
) -> None:
    library = await asyncio.to_thread(compile_fake_dwf, tmp_path)
    config = {
        "SDK_WRAPPER_DIRS": [str(REPOSITORY / "sdk_wrappers")],
        "SDK_LIBRARIES": {"dwf": str(library)},
        "SDK_TOOLS": "connected",
    }
    with running_engine(tmp_path, config=config) as engine:
        client = McpClient(engine.ports["mcp_port"])
        await client.initialize()
        assert (found(engine, DIGILENT), found(engine, KORAD)) == ([], [])
        async with await client.open_stream() as stream:
            # A call that goes well shows that a device is there.
            await client.call(f"{DIGILENT}__list_devices")
            async with asyncio.timeout(HANGS_S):
                method = ""
                while method != "notifications/tools/list_changed":
                    event = await stream.next_event()
                    assert event is not None
                    method = event.json()["method"]
        listed = {tool["name"] for tool in engine.rpc("tools/list")["tools"]}
        assert f"{DIGILENT}__acquire" in listed
        assert found(engine, DIGILENT) != []
        assert found(engine, KORAD) == []
        assert not {name for name in listed if name.startswith(KORAD)}
