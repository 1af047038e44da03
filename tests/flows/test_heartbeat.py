"""What a heartbeat does on a line: nothing that anybody notices, but where nobody answers."""

from __future__ import annotations

import asyncio
import re
import time
import urllib.request
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edged.clock import SystemClock
from edged.discovery.heartbeat import Heartbeat
from edged.instruments.instrument import Instrument
from edged.instruments.pool import Changed
from edged.instruments.unit_state import UnitState, unit_state
from edged.profiles.model import Probe
from edged.transports.visa import VisaLibrary
from tests.bench import command_line
from tests.bench.command_line import NO_PROFILES
from tests.bench.driven_clock import DrivenClock, settle
from tests.bench.engine import Engine, running_engine
from tests.bench.lab import PROFILE, Lab
from tests.bench.loopback_instrument import LoopbackInstrument
from tests.bench.mcp_client import McpClient
from tests.bench.waiting import HANGS_S
from tests.promises import promise

LATER_S = 3_600.0


def state_of(instrument: Instrument) -> UnitState:
    return unit_state(instrument, is_locked=False, is_aside=lambda _: False)


class Bench:
    """One instrument, met, and a heartbeat in whose time it was last heard long ago."""

    def __init__(self, lab: Lab, instrument: Instrument, wire: LoopbackInstrument) -> None:
        self.lab, self.instrument, self.wire = lab, instrument, wire
        self.heartbeat = Heartbeat(
            lab.pool,
            clock=DrivenClock(monotonic=time.monotonic() + LATER_S),
            every_s=60,
            is_used=lambda _: False,
        )

    async def beat(self) -> None:
        """One, to its end."""
        before = self.instrument.heard_at
        self.heartbeat.beat()
        async with asyncio.timeout(HANGS_S):
            while self.instrument.heard_at == before and not self.instrument.is_silent:
                await asyncio.sleep(0.005)  # the line tells nobody of a heartbeat
            await settle()


@pytest.fixture
async def bench(request: pytest.FixtureRequest) -> AsyncIterator[Bench]:
    library = VisaLibrary(library="@py", clock=SystemClock())
    profile = getattr(request, "param", PROFILE)
    async with LoopbackInstrument() as wire:
        lab = Lab(library, (profile,))
        try:
            await lab.begin(wire)
            (instrument,) = lab.pool.all()
            yield Bench(lab, instrument, wire)
        finally:
            await lab.discovery.stop()
            await lab.pool.stop()
            library.close()


@promise("health.heartbeat-unnoticed")
async def test_a_unit_that_answers_is_asked_once_and_its_trace_does_not_tell(bench: Bench) -> None:
    trace, said = bench.instrument.trace(), len(bench.wire.received)
    await bench.beat()
    assert bench.wire.received[said:] == ["*IDN?"]
    assert bench.instrument.trace() == trace
    assert state_of(bench.instrument) is UnitState.READY
    assert await bench.lab.ask(bench.instrument, "ECHO? next") == "next"


@pytest.mark.parametrize(
    "bench",
    [
        replace(
            PROFILE,
            connection=replace(
                PROFILE.connection, probe=Probe(query="ECHO? SCPI", expect="^SCPI$")
            ),
        )
    ],
    indirect=True,
)
async def test_a_profile_with_a_probe_has_that_asked(bench: Bench) -> None:
    said = len(bench.wire.received)
    await bench.beat()
    assert bench.wire.received[said:] == ["ECHO? SCPI"]


@promise("health.heartbeat")
async def test_a_unit_that_does_not_answer_is_silent_for_as_long_as_it_does_not(
    bench: Bench,
) -> None:
    bench.wire.is_silent = True
    await bench.beat()
    assert state_of(bench.instrument) is UnitState.SILENT
    await bench.lab.saw(Changed)
    # Reconnecting by now, away after a while: it is there, and does not answer.
    assert state_of(bench.instrument) is UnitState.SILENT
    assert "*IDN?" in [entry["text"].strip() for entry in bench.instrument.trace()[-6:]]
    bench.wire.is_silent = False
    async with asyncio.timeout(HANGS_S):
        while state_of(bench.instrument) is not UnitState.READY:
            await asyncio.sleep(0.05)


async def test_an_odd_answer_puts_the_line_out_of_step_and_stands_in_the_trace(
    bench: Bench,
) -> None:
    bench.wire.special["*IDN?"] = lambda: b"not me\n"
    await bench.beat()
    del bench.wire.special["*IDN?"]
    assert await bench.lab.ask(bench.instrument, "ECHO? right") == "right"
    texts = [str(entry["text"]).strip() for entry in bench.instrument.trace()]
    assert "not me" in texts


HEARTBEAT_S = 1
TIMEOUT_S = 5.0
"""The profile's ``timeout_ms``."""
SLOW_S = 10.0
"""For a machine that has other things to do."""
METER = "keysight_34461a"
METRIC = re.compile(r'^edged_instruments\{state="([a-z_]+)"\} (\S+)$', re.MULTILINE)


@promise("health.heartbeat")
@promise("health.one-state")
@promise("record.not-by-time")
async def test_a_silent_meter_is_told_so_everywhere_within_two_heartbeats(tmp_path: Path) -> None:
    with running_engine(tmp_path, config={"HEARTBEAT_SEC": HEARTBEAT_S}) as engine:
        client = McpClient(port=engine.ports["mcp_port"])
        await client.initialize("2025-06-18")
        meter = next(i for i in await listed(client) if i["profile_name"] == METER)
        await asyncio.sleep(HEARTBEAT_S)  # what was done so far is in the record by then
        rows, said = rows_of(engine), said_to_meter(engine)
        await asyncio.sleep(3 * HEARTBEAT_S)  # heartbeats of a real process
        assert rows_of(engine) == rows
        assert said_to_meter(engine) > said
        engine.sim("fault", instrument="dmm1", kind="hang")
        async with asyncio.timeout(2 * HEARTBEAT_S + TIMEOUT_S + SLOW_S):
            while state_in(await listed(client), meter["id"]) != "silent":
                await asyncio.sleep(0.1)
        await assert_told_alike(client, engine, meter["id"], "silent")


@promise("health.one-state")
async def test_a_unit_that_was_taken_away_and_hangs_since_it_is_back_is_set_aside_everywhere(
    tmp_path: Path, free_port: Callable[[], int]
) -> None:
    port = free_port()
    address = f"TCPIP::127.0.0.1::{port}::SOCKET"
    bench_meter = {"name": "odd", "model": METER, "port": port, "serial": "MY42"}
    entries = [{"name": "odd", "address": address, "timeout_ms": 500}]
    config = {"INSTRUMENTS": entries, "RESCAN_INTERVAL_SEC": 3600}
    with running_engine(tmp_path, "--instruments", "psu1", config=config) as engine:
        client = McpClient(port=engine.ports["mcp_port"])
        await client.initialize("2025-06-18")

        async def becomes(state: str) -> None:
            async with asyncio.timeout(SLOW_S):
                while {i["id"]: i["state"] for i in await listed(client)}.get(address) != state:
                    await client.call("scan_instruments")

        engine.sim("add", **bench_meter)
        await becomes("ready")
        engine.sim("remove", name="odd")
        await becomes("away")
        engine.sim("add", **bench_meter)
        engine.sim("fault", instrument="odd", kind="hang")
        await becomes("set_aside")
        await assert_told_alike(client, engine, address, "set_aside")
        checked = (await client.call("bench__check"))["structuredContent"]["instruments"]
        assert {unit["alias"]: unit["state"] for unit in checked}["odd"] == "set_aside"
        engine.sim("clear", instrument="odd")
        await becomes("ready")


async def assert_told_alike(
    client: McpClient, engine: Engine, instrument_id: str, state: str
) -> None:
    """list_instruments, get_status, metrics, doctor and the command line say the same of it."""
    counted = unasked(Counter(i["state"] for i in await listed(client)))
    status = (await client.call("get_status"))["structuredContent"]
    assert unasked(status["instruments_by_state"]) == counted
    troubled = {line["instrument_id"]: line["state"] for line in status["troubled_lines"]}
    assert troubled == {instrument_id: state}
    page = await asyncio.to_thread(read, f"http://127.0.0.1:{engine.ports['rpc_port']}/metrics")
    assert unasked({name: int(float(n)) for name, n in METRIC.findall(page)}) == counted
    said = await asyncio.to_thread(edged, engine, "doctor")
    assert re.search(rf"{re.escape(instrument_id)}.* is {state}", said)
    assert state in await asyncio.to_thread(edged, engine, "instruments")
    assert f"1 {state}" in await asyncio.to_thread(edged, engine, "status")


def unasked(counted: Mapping[str, int]) -> Counter[str]:
    """How many units are in each state; one that is ready is busy while a heartbeat asks it."""
    found: Counter[str] = Counter()
    for state, count in counted.items():
        found["ready" if state == "busy" else state] += count
    return +found


def rows_of(engine: Engine) -> int:
    """Of the record, but for those of this very question."""
    rows = engine.rpc("audit.list", limit=1_000)["rows"]
    return sum(row["tool"] != "audit.list" for row in rows)


def said_to_meter(engine: Engine) -> int:
    log = engine.sim("log", instrument="dmm1")
    return len(log["entries"])


async def listed(client: McpClient) -> list[dict[str, Any]]:
    answer = await client.call("list_instruments")
    found: list[dict[str, Any]] = answer["structuredContent"]["instruments"]
    return found


def state_in(instruments: list[dict[str, Any]], instrument_id: str) -> str:
    return next(str(i["state"]) for i in instruments if i["id"] == instrument_id)


def read(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as page:
        text: str = page.read().decode()
    return text


def edged(engine: Engine, verb: str) -> str:
    done = command_line.edged(verb, "--state-dir", str(engine.state_dir), environ=NO_PROFILES)
    return done.stdout + done.stderr
