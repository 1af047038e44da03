"""bench__find_tools: what is found for what, and how much of it is told."""

from __future__ import annotations

import json
from typing import Any

import pytest

from edged.actions.action import MemoryAction
from edged.actions.caller import Caller, Route
from edged.commands.resolve import NOTHING
from edged.commands.target import Catalog
from edged.errors import NotFound
from edged.operations.table import bench_tools, static_tools
from edged.operations.tool_search import ToolSearch, ranked
from edged.tools.registry import ToolRegistry
from tests.bench.fake_instruments import FakeInstrument, FakePool
from tests.bench.shipped import shipped_library
from tests.promises import promise

LIBRARY = shipped_library().profiles
MODELS = ("rigol_dp832", "rigol_ds1054z", "keysight_34461a", "srs_sr830", "lakeshore_335")
POOL = FakePool(
    *(
        FakeInstrument(id=f"TCPIP::10.0.0.{n}::5025::SOCKET", profile=LIBRARY[key], alias=key[-5:])
        for n, key in enumerate(MODELS)
    )
)
REGISTRY = ToolRegistry(
    static=static_tools(),
    bench=bench_tools(),
    pool=POOL,  # type: ignore[arg-type]
    catalog=Catalog(),
)


def found(query: str, **arguments: Any) -> dict[str, Any]:
    search = ToolSearch(pool=POOL, tools=REGISTRY.tools)  # type: ignore[arg-type]
    asked = MemoryAction(
        operation="bench__find_tools",
        tool="bench__find_tools",
        caller=Caller(route=Route.DIRECT),
        action_id="1",
        arguments={"query": query, **arguments},
        check=lambda _: None,
    )
    done = search.find(asked, NOTHING, 0.0)
    data: dict[str, Any] = done.data
    return data


@promise("bench.find-tools")
@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("set voltage", "rigol_dp832__set_voltage"),
        ("set the output voltage of the DP832", "rigol_dp832__set_voltage"),
        ("capture a trace of the oscilloscope", "rigol_ds1054z__capture"),
        ("measure resistance", "keysight_34461a__measure_resistance"),
        ("lock-in phase", "srs_sr830__set_phase"),
        ("set temperature set-point", "lakeshore_335__set_setpoint"),
        ("average ten readings", "keysight_34461a__sequence__dc_voltage_series"),
        ("log a voltage every second", "start_stream"),
        ("read temperature", "lakeshore_335__measure_temperature"),
        ("stop everything", "bench__stop_all"),
        ("ramp a parameter slowly", "start_sweep"),
        ("raw scpi", "send_scpi"),
        ("outputs off", "rigol_dp832__all_outputs_off"),
        ("how warm is it", "lakeshore_335__measure_temperature"),
        ("how hot is the sample", "lakeshore_335__measure_temperature"),
        ("How cold is it in there?", "lakeshore_335__measure_temperature"),
        ("temp of the oven", "lakeshore_335__measure_temperature"),
        ("turn it on", "rigol_dp832__output_on"),
        ("switch the supply off", "rigol_dp832__output_off"),
        ("how many ohms", "keysight_34461a__measure_resistance"),
        ("measuring resistance", "keysight_34461a__measure_resistance"),
        ("how much current does it draw", "keysight_34461a__measure_dc_current"),
        ("take a photo of the screen", "rigol_ds1054z__screenshot"),
        ("show me a chart", "bench__plot"),
        ("who changed the voltage", "bench__history"),
        ("emergency stop", "bench__stop_all"),
        ("panic", "bench__stop_all"),
        ("set 5 volts", "rigol_dp832__set_voltage"),
        ("what is connected", "list_instruments"),
    ],
)
def test_what_is_meant_is_among_the_first(query: str, name: str) -> None:
    names = [tool["name"] for tool in found(query, limit=5)["tools"]]
    assert any(each.startswith(name) for each in names), names


@promise("bench.find-everyday")
@pytest.mark.parametrize(
    ("query", "name"),
    [
        # Who asks wants no output switched and no value set.
        ("is the output on", "rigol_dp832__get_output"),
        ("what voltage is on channel 1", "rigol_dp832__measure_voltage"),
        ("what's the current", "rigol_dp832__measure_current"),
        ("how do I set the voltage", "rigol_dp832__set_voltage"),
        ("trigger level", "rigol_ds1054z__get_trigger_level"),
        ("what is the set voltage", "rigol_dp832__measure_voltage"),
        ("what commands does it have", "get_capabilities"),
        ("target temperature", "lakeshore_335__get_setpoint"),
        ("get a picture of the display", "rigol_ds1054z__screenshot"),
        ("AC voltage", "keysight_34461a__measure_ac_voltage"),
        ("peak to peak voltage", "rigol_ds1054z__measure_vpp"),
        ("is everything ok", "bench__check"),
        ("who used the supply yesterday", "bench__history"),
        # Who gives an order wants this one, and not its opposite.
        ("set voltage", "rigol_dp832__set_voltage"),
        ("switch on channel 2", "rigol_dp832__output_on"),
        ("switch channel 3 off", "rigol_dp832__output_off"),
        ("disable the output", "rigol_dp832__output_off"),
        ("can you turn the output off", "rigol_dp832__output_off"),
        ("turn off the heater", "lakeshore_335__heater_off"),
        ("kill the power", "rigol_dp832__output_off"),
        ("shut everything down", "bench__stop_all"),
        ("make it safe", "bench__stop_all"),
        ("limit the current to half an amp", "rigol_dp832__set_current"),
        ("sweep the voltage from 0 to 5 V", "start_sweep"),
        ("stop the sweep", "stop_sweep"),
        ("watch the current for an hour", "start_stream"),
        ("free the scope", "bench__release"),
        ("reserve the scope", "bench__reserve"),
        ("what instruments are there", "list_instruments"),
    ],
)
def test_what_is_meant_is_the_first(query: str, name: str) -> None:
    first = found(query, limit=1)["tools"][0]["name"]
    assert first.startswith(name)


@promise("bench.find-everyday")
def test_a_tool_is_found_by_words_that_its_shortened_name_has_lost() -> None:
    units = [
        FakeInstrument(id=f"TCPIP::10.0.0.{n}::SOCKET", profile=LIBRARY["keysight_34461a"])
        for n in (11, 12)
    ]
    pool = FakePool(*units)
    registry = ToolRegistry(
        static=static_tools(),
        bench=bench_tools(),
        pool=pool,  # type: ignore[arg-type]
        catalog=Catalog(),
    )
    whole = "keysight_34461a__11SOCKET__configure_four_wire_resistance"
    wanted = registry.find(whole)
    assert "resistance" not in wanted.name
    assert ranked("configure four wire resistance", registry.tools())[0] is wanted


@promise("bench.find-tools")
def test_an_answer_is_small_and_says_how_many_more_there_are() -> None:
    told = found("voltage", limit=50)
    assert len(json.dumps(told).encode()) <= 8 * 1024
    assert told["more"] + len(told["tools"]) == len(ranked("voltage", REGISTRY.tools()))
    first = told["tools"][0]
    assert set(first) == {"name", "description", "inputSchema", "instrument_id"}
    assert len(found("voltage", limit=2)["tools"]) == 2


def test_one_instruments_tools_are_searched_alone() -> None:
    told = found("voltage", instrument_id="dp832")
    assert {tool["instrument_id"] for tool in told["tools"]} == {"TCPIP::10.0.0.0::5025::SOCKET"}
    with pytest.raises(NotFound):
        found("voltage", instrument_id="nobody")


@promise("bench.find-everyday")
@pytest.mark.parametrize(
    "query",
    [
        "zzyzx", "make coffee", "order pizza", "bench press workout", "play music", "hello",
        "book a flight to Paris", "what is the weather", "send an email", "tell me a joke",
        "translate this text to French", "set alarm", "sing a song", "the", "how is it", "open it",
        "a scandal", "an offer", "turn the lights on", "what's the weather like", "stop the music",
        "stop smoking", "list files in the directory", "draw a cat", "turn off the radio",
        "reset the instrument", "how old are you",
    ],
)  # fmt: skip
def test_what_no_tool_is_about_finds_nothing(query: str) -> None:
    assert found(query) == {"tools": [], "more": 0}


@promise("bench.find-everyday")
def test_what_a_unit_is_called_finds_its_tools_first() -> None:
    units = [
        FakeInstrument(id=f"TCPIP::10.0.0.{n}::5025::SOCKET", profile=LIBRARY[key], alias=alias)
        for n, (key, alias) in enumerate(
            [("rigol_dp832", "heater"), ("rigol_dl3021", "laser"), ("keysight_34461a", "meter")]
        )
    ]
    pool = FakePool(*units)
    registry = ToolRegistry(
        static=static_tools(),
        bench=bench_tools(),
        pool=pool,  # type: ignore[arg-type]
        catalog=Catalog(),
    )
    words = ToolSearch(pool=pool, tools=registry.tools)._words_of_units()  # type: ignore[arg-type]
    first, *_ = ranked("measure laser power", registry.tools(), words)
    assert first.name == "rigol_dl3021__measure_power"
    assert ranked("how warm is it", registry.tools(), words) == []


HOMONYMS = {
    ("rigol_dl3021", "siglent_sdg2042x", "rigol_dsa815"): {
        "switch the load on": "rigol_dl3021__input_on",
        "switch off the load": "rigol_dl3021__input_off",
        "set the load to 50 ohm": "siglent_sdg2042x__set_load",
        "set the load current": "rigol_dl3021__set_current",
        "what is the current mode": "rigol_dl3021__get_mode",
        "current mode": "rigol_dl3021__get_mode",
        "what is the current frequency": "siglent_sdg2042x__get_frequency",
        "start the sweep of the analyzer": "rigol_dsa815__single_sweep",
        "turn the generator off": "siglent_sdg2042x__output_off",
        "what power does the load draw": "rigol_dl3021__measure_power",
        "read the trace": "rigol_dsa815__capture_trace",
        "reference level": "rigol_dsa815__get_reference_level",
        "phase of channel 2": "siglent_sdg2042x__set_phase",
    },
    ("keithley_2450", "srs_sr830", "lakeshore_335"): {
        "switch the source off": "keithley_2450__output_off",
        "source a voltage": "keithley_2450__source_voltage",
        "set the compliance": "keithley_2450__set_current_limit",
        "read X and Y": "srs_sr830__measure_x",
        "what is Y": "srs_sr830__measure_y",
        "what is the current temperature": "lakeshore_335__measure_temperature",
        "how cold is the sample": "lakeshore_335__measure_temperature",
        "set the temperature to 4 K": "lakeshore_335__set_setpoint",
        "set the reference frequency": "srs_sr830__set_frequency",
        "is the heater on": "lakeshore_335__get_heater_status",
        "turn the heater off": "lakeshore_335__heater_off",
        "what is the current limit": "keithley_2450__get_current_limit",
        "measure the current": "keithley_2450__measure_current",
    },
    ("keithley_7001", "rigol_dp832", "keysight_34972a"): {
        "close relay 5": "keithley_7001__close_channel",
        "open channel 2": "keithley_7001__open_channel",
        "open all switches": "keithley_7001__open_all",
        "which relays are closed": "keithley_7001__get_closed",
        "route channel 3 to the meter": "keithley_7001__connect_channel",
        "switch on the supply": "rigol_dp832__output_on",
        "switch off channel 2": "rigol_dp832__output_off",
        "switch channel 101": "keithley_7001__close_channel",
        "scan for instruments": "scan_instruments",
        "read the scan list": "keysight_34972a__get_scan_list",
        "set current limit to 1 A": "rigol_dp832__set_current",
        "what is the current voltage": "rigol_dp832__measure_voltage",
        "put out 3.3 V on channel 1": "rigol_dp832__set_voltage",
        "give me 5V": "rigol_dp832__set_voltage",
        "no more than 500 mA": "rigol_dp832__set_current",
        "what is the voltage set to": "rigol_dp832__measure_voltage",
        "how do I set the voltage": "rigol_dp832__set_voltage",
    },
}
"""A word with two meanings in the question, or at the bench: the best tool is among the first
three."""


@promise("bench.find-everyday")
@pytest.mark.parametrize(
    ("models", "query", "name"),
    [(models, *one) for models, asked in HOMONYMS.items() for one in asked.items()],
)
def test_a_word_with_two_meanings_is_taken_for_the_one_that_is_meant(
    models: tuple[str, ...], query: str, name: str
) -> None:
    pool = FakePool(
        *(
            FakeInstrument(id=f"TCPIP::10.0.0.{n}::5025::SOCKET", profile=LIBRARY[key])
            for n, key in enumerate(models)
        )
    )
    registry = ToolRegistry(
        static=static_tools(),
        bench=bench_tools(),
        pool=pool,  # type: ignore[arg-type]
        catalog=Catalog(),
    )
    units = {
        unit.id: f"{unit.alias} {unit.instrument_class} {unit.profile.key}"
        for unit in pool.all()
        if unit.profile is not None
    }
    names = [tool.plain_name or tool.name for tool in ranked(query, registry.tools(), units)[:3]]
    assert any(each.startswith(name) for each in names), names
