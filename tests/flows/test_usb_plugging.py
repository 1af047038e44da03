"""USB instruments from the bus to the pool: pyusb, pyvisa-py and ours are real, the bus is not."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from edged.clock import SystemClock
from edged.discovery.loop import Discovery
from edged.discovery.registering import Knowledge
from edged.discovery.usb import UsbSource
from edged.errors import ErrorCode, Failed
from edged.instruments.conversation import raw_conversation
from edged.instruments.instrument import Instrument
from edged.instruments.pool import Arrived, Event, InstrumentPool, Left
from edged.profiles.bench_file import BenchFile
from edged.profiles.library import ProfileLibrary
from edged.profiles.model import Connection, Match, Profile
from edged.transports.visa import VisaLibrary
from tests.bench.fake_bus import FakeMonitor
from tests.bench.usb_backend import UsbBus, UsbInstrument, usb_bus
from tests.bench.waiting import HANGS_S
from tests.promises import promise

PROFILE = Profile(
    key="acme_usb1",
    version=1,
    manufacturer="ACME",
    model="USB1",
    instrument_class="power_supply",
    source="test",
    match=Match(idn=r"acme,usb1\b"),
    commands={},
    connection=Connection(timeout_ms=500),
)


class UsbBench:
    def __init__(self, bus: UsbBus) -> None:
        self.bus = bus
        self.monitor = FakeMonitor()
        self.library = VisaLibrary(clock=SystemClock())
        self.pool = InstrumentPool(clock=SystemClock())
        self.events: asyncio.Queue[Event] = asyncio.Queue()
        self.pool.subscribe(self.events.put_nowait)
        self.discovery = Discovery(
            self.pool,
            knowledge=Knowledge(
                library=ProfileLibrary(profiles={PROFILE.key: PROFILE}), bench=BenchFile()
            ),
            entries=(),
            open_link=self.library.open_link,
            clock=SystemClock(),
            rescan_interval_s=3600,
            gone_after_s=30,
            sources=(UsbSource(),),
            pick_monitor=self.monitor.pick,
        )

    async def next(self, kind: type[Event]) -> Instrument:
        async with asyncio.timeout(HANGS_S):
            while not isinstance(event := await self.events.get(), kind):
                pass
        return event.instrument

    async def ask(self, instrument: Instrument, question: str) -> str | None:
        reply = await instrument.converse(
            lambda: raw_conversation(
                lines=(question,), asks=True, connection=instrument.connection
            ),
            timeout_s=5,
            name="ask",
        )
        return reply.answer


@pytest.fixture
async def bench() -> AsyncIterator[UsbBench]:
    with usb_bus() as bus:
        bench = UsbBench(bus)
        await bench.discovery.start()
        await bench.discovery.first_look(5)
        yield bench
        await bench.discovery.stop()
        await bench.pool.stop()
        bench.library.close()


@promise("hotplug.usb")
async def test_a_usb_instrument_is_plugged_in_works_is_taken_away_and_comes_back(
    bench: UsbBench,
) -> None:
    device = bench.bus.plug(UsbInstrument("U001"))
    bench.monitor.say()
    instrument = await bench.next(Arrived)
    assert instrument.id == "USB0::0x1AB1::0x0E11::U001::INSTR"
    assert instrument.is_offered
    assert await bench.ask(instrument, "*IDN?") == device.idn
    assert (device.clears, device.resets) == (0, 0)
    bench.bus.unplug(device)
    bench.monitor.say()
    assert await bench.next(Left) is instrument
    assert bench.pool.all() == ()
    with pytest.raises(Failed) as caught:
        await bench.ask(instrument, "*IDN?")
    assert caught.value.code is ErrorCode.DISCONNECTED
    bench.bus.plug(device)
    bench.monitor.say()
    assert await bench.next(Arrived) is instrument
    assert await bench.ask(instrument, "*IDN?") == device.idn


async def test_open_devices_are_not_asked_when_another_is_plugged_in(bench: UsbBench) -> None:
    first = bench.bus.plug(UsbInstrument("U001"))
    bench.monitor.say()
    await bench.next(Arrived)
    heard = list(first.received)
    bench.bus.plug(UsbInstrument("U002"))
    bench.monitor.say()
    assert (await bench.next(Arrived)).identity.serial == "U002"
    assert first.received == heard


async def test_a_serial_number_with_nul_bytes_is_clean_in_the_id_and_the_device_works(
    bench: UsbBench,
) -> None:
    device = bench.bus.plug(UsbInstrument("U0\x0003\x00", idn="ACME,USB1,U003,1.0"))
    bench.monitor.say()
    instrument = await bench.next(Arrived)
    assert instrument.id == "USB0::0x1AB1::0x0E11::U003::INSTR"
    assert await bench.ask(instrument, "*IDN?") == device.idn
