"""After a time-out another unit may be at the address, while the way to it stayed as it was."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import pytest

from edged_sim.wires.prologix import SimulatedAdapter
from edged_sim.wires.stream import WireKind
from tests.bench.numbered import UNIT, Habits, Numbered, Station, value_of
from tests.bench.numbered_trial import Client, client_of, numbered_engine, trials_on
from tests.promises import promise

WAYS = (WireKind.PROLOGIX, WireKind.VXI11, WireKind.HISLIP)
GREETING = b"AR488 GPIB controller, ver. 0.53.03, 10/03/2025\r\n"
CALLS = 12
PATIENCE_MS = 3_000
"""Each question that is met with silence takes so long."""


class Story:
    """Two units on one transport, and somebody who calls them by their names."""

    def __init__(self, stations: list[Station], client: Client) -> None:
        self.stations = stations
        self._client = client

    async def command(self, station: Station, name: str, **parameters: float) -> Any:
        """What a command came to; ``success`` tells whether it was done."""
        arguments = {
            "instrument_id": station.name,
            "command_name": name,
            "parameters": parameters,
        }
        _, told = await self._client.call("execute_command", arguments)
        return {"success": False, **told}

    async def times_out(self, station: Station, times: int) -> None:
        """The unit is silent for so many questions."""
        station.instrument.is_silent = True
        for number in range(times):
            told = await self.command(station, "read", number=number)
            assert not told["success"], told

    async def serial_at(self, station: Station) -> str:
        _, listed = await self._client.call("list_instruments", {})
        entry = next((entry for entry in listed if entry["alias"] == station.name), None)
        return str(entry["serial"]) if entry and entry["is_connected"] else ""


@contextlib.asynccontextmanager
async def story(
    directory: Path, transport: WireKind, adapters: Iterable[SimulatedAdapter] = ()
) -> AsyncIterator[Story]:
    trials = trials_on(transport, faults=["nothing"], clients=(1,))[:2]
    async with numbered_engine(
        directory, trials, ("queue",), adapters=adapters, patience_ms=PATIENCE_MS
    ) as bench:
        client = await client_of(bench.engine, bench.words)
        try:
            yield Story(bench.stations, client)
        finally:
            await client.close()


@promise("line.identity-owed")
@pytest.mark.parametrize("time_outs", [1, 3])
@pytest.mark.parametrize("transport", WAYS)
async def test_another_unit_at_the_address_is_not_written_to_before_it_told_its_name(
    transport: WireKind, time_outs: int, tmp_path: Path
) -> None:
    async with story(tmp_path, transport) as bench:
        station, other = bench.stations
        assert (await bench.command(station, "set_level", level=1))["success"]
        await bench.times_out(station, time_outs)
        foreign = Numbered(9, Habits())
        station.instrument = foreign
        told = await bench.command(station, "set_level", level=5)
        assert not told["success"], told
        assert not [line for line in foreign.received if line.startswith("LEVEL")]
        async with asyncio.timeout(15):
            while not foreign.received:
                await bench.command(station, "set_level", level=5)
        assert foreign.received[0] == "*IDN?", foreign.received
        if foreign.level:
            assert await bench.serial_at(station) == foreign.serial
        assert (await bench.command(other, "read", number=7))["data"] == value_of(2, 7)


@promise("line.identity-owed")
@pytest.mark.parametrize("time_outs", [1, 3])
@pytest.mark.parametrize("transport", WAYS)
async def test_two_units_that_changed_places_never_answer_for_each_other(
    transport: WireKind, time_outs: int, tmp_path: Path
) -> None:
    async with story(tmp_path, transport) as bench:
        one, two = bench.stations
        await bench.times_out(one, time_outs)
        await bench.times_out(two, time_outs)
        one.instrument, two.instrument = two.instrument, one.instrument
        one.instrument.is_silent = two.instrument.is_silent = False
        for number in range(CALLS):
            for station in (one, two):
                told = await bench.command(station, "read", number=number)
                if told["success"]:
                    unit, asked = divmod(int(told["data"]), UNIT)
                    assert asked == number
                    assert f"N{unit}" == await bench.serial_at(station), told


@promise("line.identity-owed")
@pytest.mark.parametrize("transport", [*WAYS, WireKind.SOCKET, WireKind.SERIAL])
async def test_who_comes_back_after_a_time_out_is_greeted_before_it_is_written_to(
    transport: WireKind, tmp_path: Path
) -> None:
    async with story(tmp_path, transport) as bench:
        station = bench.stations[0]
        assert (await bench.command(station, "set_level", level=1))["success"]
        await bench.times_out(station, 1)
        instrument = station.instrument
        instrument.is_silent = False
        heard = len(instrument.received)
        async with asyncio.timeout(15):
            while not (await bench.command(station, "set_level", level=5))["success"]:
                pass
        since = instrument.received[heard:]
        assert since.index("*IDN?") < since.index("HELLO") < since.index("LEVEL 5.000"), since


class GreetingAdapter(SimulatedAdapter):
    """A look-alike that says what it is to whoever connects."""

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        writer.write(GREETING)
        await super()._serve(reader, writer)


@promise("line.in-step")
async def test_an_adapter_that_greets_answers_for_all_its_units_on_each_connection(
    tmp_path: Path,
) -> None:
    adapter = GreetingAdapter()
    async with story(tmp_path, WireKind.PROLOGIX, [adapter]) as bench:
        for _ in range(3):
            for number in range(CALLS):
                for unit, station in enumerate(bench.stations, 1):
                    told = await bench.command(station, "read", number=number)
                    assert told["data"] == value_of(unit, number), told
            adapter.writer.transport.abort()
            async with asyncio.timeout(15):
                for station in bench.stations:
                    while not (await bench.command(station, "read", number=1))["success"]:
                        pass
