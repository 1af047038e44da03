"""A pool of instruments and the discovery that fills it, on loopback sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from edged.clock import SystemClock
from edged.config.instruments import InstrumentEntry
from edged.discovery.loop import Discovery
from edged.discovery.registering import Knowledge
from edged.instruments.conversation import raw_conversation
from edged.instruments.instrument import Instrument
from edged.instruments.pool import Event, InstrumentPool
from edged.profiles.bench_file import BenchFile
from edged.profiles.library import ProfileLibrary
from edged.profiles.model import Command, Connection, ErrorCheck, Match, Profile
from edged.scpi.kinds import ErrorKind
from edged.transports.link import Link
from edged.transports.visa import VisaLibrary
from tests.bench.fake_bus import FakeBus
from tests.bench.loopback_instrument import LoopbackInstrument
from tests.bench.waiting import HANGS_S

# An instrument that answers is waited for as long as a busy machine may take.
PROFILE = Profile(
    key="acme_psu1",
    version=1,
    manufacturer="ACME",
    model="PSU1",
    instrument_class="power_supply",
    source="test",
    match=Match(idn=r"acme,psu1\b"),
    commands={"set": Command(name="set", scpi=("VOLT 1",))},
    connection=Connection(
        timeout_ms=2000,
        errors=ErrorCheck(kind=ErrorKind.QUEUE, query="SYST:ERR?"),
        on_connect=("HEAD OFF",),
    ),
)


class Lab:
    """A pool and its discovery, and what was published."""

    def __init__(
        self,
        library: VisaLibrary,
        profiles: tuple[Profile, ...] = (PROFILE,),
        *,
        open_link: Callable[[str], Link] | None = None,
    ) -> None:
        self.pool = InstrumentPool(clock=SystemClock())
        # What it tells is found, not configured.
        self.bus = FakeBus("lan", tells_departures=False)
        self.events: list[Event] = []
        self.news = asyncio.Event()
        self.pool.subscribe(self._hear)
        self.discovery = Discovery(
            self.pool,
            knowledge=Knowledge(
                library=ProfileLibrary(profiles={p.key: p for p in profiles}), bench=BenchFile()
            ),
            entries=(),
            open_link=open_link or library.open_link,
            clock=SystemClock(),
            rescan_interval_s=60,
            gone_after_s=0.5,
            sources=(self.bus,),
        )

    async def begin(self, *entries: InstrumentEntry | LoopbackInstrument) -> None:
        for entry in entries:
            if isinstance(entry, LoopbackInstrument):
                entry = InstrumentEntry(address=entry.address, timeout_ms=2000)
            self.discovery.watch(entry)
        await self.discovery.start()
        await self.discovery.first_look(HANGS_S)

    async def saw(self, kind: type[Event], times: int = 1) -> Instrument:
        """Wait for the nth event of a kind; gives its instrument."""
        async with asyncio.timeout(HANGS_S):
            while len(found := [e for e in self.events if isinstance(e, kind)]) < times:
                self.news.clear()
                await self.news.wait()
        return found[times - 1].instrument

    async def ask(self, instrument: Instrument, question: str) -> str | None:
        reply = await instrument.converse(
            lambda: raw_conversation(
                lines=(question,), asks=True, connection=instrument.connection
            ),
            timeout_s=5,
            name="ask",
        )
        return reply.answer

    def _hear(self, event: Event) -> None:
        self.events.append(event)
        self.news.set()
