"""A unit at two addresses is made safe by the second when the first does not take it in time."""

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest

from edged.clock import SystemClock
from edged.config.instruments import InstrumentEntry
from edged.errors import ErrorCode, Failed
from edged.instruments.conversation import Reply, abort_conversation
from edged.instruments.instrument import Instrument
from edged.instruments.mailbox import Priority
from edged.instruments.pool import Arrived, Changed
from edged.transports.link import Link
from edged.transports.visa import VisaLibrary
from tests.bench.lab import Lab
from tests.bench.loopback_instrument import IDN, LoopbackInstrument
from tests.bench.scripted_link import ScriptedLink
from tests.bench.waiting import HANGS_S
from tests.promises import promise

STUCK = "TCPIP::127.0.0.9::inst0::INSTR"


class Doubled:
    """One unit: at ``STUCK`` on a wire whose waits nothing can end, and on a loopback socket."""

    def __init__(self, second: LoopbackInstrument) -> None:
        self.second = second
        self.let_go = threading.Event()
        self.link = ScriptedLink({"*IDN?": IDN.encode() + b"\n", "SYST:ERR?": b'0,"No error"\n'})
        self.visa = VisaLibrary(clock=SystemClock())
        self.lab = Lab(self.visa, open_link=self._open)

    def _open(self, address: str) -> Link:
        return self.link if address == STUCK else self.visa.open_link(address)

    async def begin(self) -> Instrument:
        await self.lab.begin(InstrumentEntry(address=STUCK, name="psu"))
        instrument = await self.lab.saw(Arrived)
        self.lab.discovery.watch(
            InstrumentEntry(address=self.second.address, timeout_ms=2000, name="psu")
        )
        await self.lab.saw(Changed)
        assert instrument.alternatives == (self.second.address,)
        self.second.received.clear()
        return instrument

    async def hang(self, instrument: Instrument) -> asyncio.Task[str | None]:
        """A question on the first line that is never answered; returns when it is on the wire."""
        self.link.while_waiting = lambda: self.let_go.wait(20) and None
        asked = asyncio.create_task(self.lab.ask(instrument, "HANG?"))
        async with asyncio.timeout(HANGS_S):
            while "HANG?" not in self.link.written:
                await asyncio.sleep(0.005)
        return asked

    async def end(self) -> None:
        self.let_go.set()
        await self.lab.discovery.stop()
        await self.lab.pool.stop()
        self.visa.close()


@pytest.fixture
async def unit() -> AsyncIterator[Doubled]:
    async with LoopbackInstrument() as second:
        unit = Doubled(second)
        yield unit
        await unit.end()


async def make_safe(instrument: Instrument, *, is_repeatable: bool = True) -> Reply:
    return await instrument.converse(
        lambda: abort_conversation(("OUTP OFF",), instrument.connection),
        priority=Priority.SAFE,
        timeout_s=0.6,
        name="abort",
        is_repeatable=is_repeatable,
    )


@promise("line.second-for-aborts")
async def test_an_abort_goes_by_the_second_line_when_the_first_hangs_for_good(
    unit: Doubled,
) -> None:
    instrument = await unit.begin()
    asked = await unit.hang(instrument)
    async with asyncio.timeout(HANGS_S):
        reply = await make_safe(instrument)
    assert reply.sent == ("OUTP OFF",)
    assert unit.second.received == ["*IDN?", "OUTP OFF", "SYST:ERR?"]
    assert "OUTP OFF" not in unit.link.written
    # Some instruments take one connection at a time: the second line is not kept.
    async with asyncio.timeout(HANGS_S):
        while unit.second.open_connections:
            await asyncio.sleep(0.05)
    unit.let_go.set()
    with pytest.raises(Failed):
        await asked


async def test_only_what_makes_safe_is_said_twice(unit: Doubled) -> None:
    instrument = await unit.begin()
    asked = await unit.hang(instrument)
    with pytest.raises(Failed) as caught:
        async with asyncio.timeout(HANGS_S):
            await make_safe(instrument, is_repeatable=False)
    assert caught.value.code is ErrorCode.TIMEOUT
    assert unit.second.received == []
    unit.let_go.set()
    with pytest.raises(Failed):
        await asked


async def test_another_unit_at_the_second_address_is_asked_its_name_and_nothing_else(
    unit: Doubled,
) -> None:
    instrument = await unit.begin()
    asked = await unit.hang(instrument)
    unit.second.idn = "ACME,PSU1,OTHER,1.0"
    with pytest.raises(Failed) as caught:
        async with asyncio.timeout(HANGS_S):
            await make_safe(instrument)
    assert caught.value.code is ErrorCode.TIMEOUT
    assert set(unit.second.received) == {"*IDN?"}
    unit.let_go.set()
    with pytest.raises(Failed):
        await asked


async def test_the_first_line_alone_is_used_while_it_takes_what_is_said(unit: Doubled) -> None:
    instrument = await unit.begin()
    await make_safe(instrument)
    said = [line for line in unit.link.written if line != "*IDN?"]
    assert said[-2:] == ["OUTP OFF", "SYST:ERR?"]
    assert unit.second.received == []


async def test_the_instruments_own_complaint_is_told_and_not_tried_elsewhere(
    unit: Doubled,
) -> None:
    instrument = await unit.begin()
    unit.link.answers["SYST:ERR?"] = [b'-222,"Data out of range"\n', b'0,"No error"\n']
    with pytest.raises(Failed) as caught:
        await make_safe(instrument)
    assert caught.value.code is ErrorCode.INSTRUMENT_ERROR
    assert unit.second.received == []


async def test_a_unit_whose_first_address_refuses_is_made_safe_at_once() -> None:
    async with LoopbackInstrument() as first, LoopbackInstrument() as second:
        visa = VisaLibrary(clock=SystemClock())
        lab = Lab(visa)
        try:
            await lab.begin(InstrumentEntry(address=first.address, timeout_ms=2000, name="psu"))
            instrument = await lab.saw(Arrived)
            lab.discovery.watch(
                InstrumentEntry(address=second.address, timeout_ms=2000, name="psu")
            )
            await lab.saw(Changed)
            second.received.clear()
            await first.unplug()
            async with asyncio.timeout(HANGS_S):
                await make_safe(instrument)
            assert "OUTP OFF" in second.received
        finally:
            await lab.discovery.stop()
            await lab.pool.stop()
            visa.close()
