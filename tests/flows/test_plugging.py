"""Devices that are plugged in and taken away: buses, hot-plug events, and what becomes of work."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace

import pytest

from edged.clock import SystemClock
from edged.config.instruments import InstrumentEntry
from edged.discovery.loop import Discovery
from edged.discovery.registering import Knowledge
from edged.errors import ErrorCode, Failed
from edged.instruments.conversation import raw_conversation
from edged.instruments.instrument import Instrument
from edged.instruments.pool import Arrived, Changed, Event, InstrumentPool, Left
from edged.profiles.bench_file import BenchFile
from edged.profiles.library import ProfileLibrary
from edged.profiles.model import Connection, Match, Probe, Profile
from edged.profiles.unit_rules import UnitRules
from edged.transports.visa import VisaLibrary
from tests.bench.fake_bus import FakeBus, FakeMonitor
from tests.bench.lab import PROFILE
from tests.bench.loopback_instrument import LoopbackInstrument
from tests.bench.waiting import HANGS_S
from tests.promises import promise


def profile(
    key: str = "acme_psu1", idn: str = r"acme,psu1\b", probe: Probe | None = None
) -> Profile:
    return Profile(
        key=key,
        version=1,
        manufacturer="ACME",
        model="PSU1",
        instrument_class="power_supply",
        source="test",
        match=Match(idn=idn, usb_ids=((0x1AB1, 0x0E11),)),
        commands={},
        connection=Connection(timeout_ms=2000, probe=probe),
    )


class Bench:
    """A pool, its discovery with fake buses, and what was published.

    Args:
        roads: an address that a bus tells → where its line leads in truth.
    """

    def __init__(
        self,
        library: VisaLibrary,
        buses: Sequence[FakeBus],
        *,
        monitor: FakeMonitor | None = None,
        entries: Sequence[InstrumentEntry] = (),
        profiles: Sequence[Profile] = (profile(),),
        rescan_interval_s: float = 3600,
        gone_after_s: float = 0.5,
        bench: BenchFile | None = None,
        roads: Mapping[str, str] | None = None,
    ) -> None:
        self.pool = InstrumentPool(clock=SystemClock())
        self.events: list[Event] = []
        self.news = asyncio.Event()
        self.pool.subscribe(self._hear)
        self.discovery = Discovery(
            self.pool,
            knowledge=Knowledge(
                library=ProfileLibrary(profiles={p.key: p for p in profiles}),
                bench=bench or BenchFile(),
            ),
            entries=entries,
            open_link=lambda address: library.open_link((roads or {}).get(address, address)),
            clock=SystemClock(),
            rescan_interval_s=rescan_interval_s,
            gone_after_s=gone_after_s,
            sources=buses,
            pick_monitor=monitor.pick if monitor else None,
        )

    async def begin(self) -> None:
        await self.discovery.start()
        await self.discovery.first_look(HANGS_S)

    async def saw(self, kind: type[Event], times: int = 1) -> Instrument:
        async with asyncio.timeout(HANGS_S):
            while len(found := [e for e in self.events if isinstance(e, kind)]) < times:
                self.news.clear()
                await self.news.wait()
        return found[times - 1].instrument

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Wait until it is so; not all that happens is news."""
        async with asyncio.timeout(HANGS_S):
            while not is_so():
                await asyncio.sleep(0.05)

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


MakeBench = Callable[..., Bench]


@pytest.fixture
async def make_bench() -> AsyncIterator[MakeBench]:
    library = VisaLibrary(clock=SystemClock())
    benches: list[Bench] = []

    def make(*buses: FakeBus, **more: object) -> Bench:
        benches.append(Bench(library, buses, **more))  # type: ignore[arg-type]
        return benches[-1]

    yield make
    for bench in benches:
        await bench.discovery.stop()
        await bench.pool.stop()
    library.close()


@pytest.fixture
async def psu() -> AsyncIterator[LoopbackInstrument]:
    async with LoopbackInstrument() as instrument:
        yield instrument


@promise("hotplug.within-two-seconds")
async def test_a_plug_in_is_told_at_once_and_open_devices_are_left_alone(
    make_bench: MakeBench, psu: LoopbackInstrument
) -> None:
    usb, monitor = FakeBus(), FakeMonitor()
    usb.plug(psu.address)
    bench = make_bench(usb, monitor=monitor)
    await bench.begin()
    await bench.saw(Arrived)
    asked = len(psu.received)
    async with LoopbackInstrument("ACME,PSU1,A002,1.0") as second:
        usb.plug(second.address)
        looks = usb.looks
        monitor.say()
        assert (await bench.saw(Arrived, 2)).identity.serial == "A002"
        # By the monitor's word: the next scan of this bench is far away.
        assert usb.looks > looks
    assert len(psu.received) == asked
    assert psu.connections == 1


@promise("hotplug.unplug")
async def test_an_unplugged_instrument_goes_and_its_running_work_fails_with_the_reason(
    make_bench: MakeBench, psu: LoopbackInstrument
) -> None:
    usb, monitor = FakeBus(), FakeMonitor()
    usb.plug(psu.address)
    bench = make_bench(usb, monitor=monitor)
    await bench.begin()
    instrument = await bench.saw(Arrived)
    running = asyncio.create_task(bench.ask(instrument, "DELAY? 30"))
    waiting = asyncio.create_task(bench.ask(instrument, "ECHO? 1"))
    await psu.heard("DELAY? 30")
    usb.unplug(psu.address)
    monitor.say()
    assert await bench.saw(Left) is instrument
    for work in (running, waiting):
        with pytest.raises(Failed) as caught:
            await work
        assert caught.value.code in {ErrorCode.DISCONNECTED, ErrorCode.TIMEOUT}
    assert bench.pool.all() == ()
    assert not instrument.is_offered
    with pytest.raises(Failed, match="taken away"):
        await bench.ask(instrument, "ECHO? 1")


async def test_work_on_the_wire_names_the_unplugging(
    make_bench: MakeBench, psu: LoopbackInstrument
) -> None:
    usb = FakeBus()
    usb.plug(psu.address, timeout_ms=20_000)
    bench = make_bench(usb)
    await bench.begin()
    instrument = await bench.saw(Arrived)
    running = asyncio.create_task(bench.ask(instrument, "DELAY? 30"))
    await psu.heard("DELAY? 30")
    usb.unplug(psu.address)
    await bench.discovery.scan()
    with pytest.raises(Failed, match="was unplugged") as caught:
        await running
    assert caught.value.code is ErrorCode.DISCONNECTED
    assert caught.value.sent == ("DELAY? 30",)


@promise("instruments.never-another-unit")
async def test_what_is_plugged_in_again_is_the_same_instrument_and_another_unit_is_not(
    make_bench: MakeBench, psu: LoopbackInstrument
) -> None:
    usb = FakeBus()
    usb.plug(psu.address)
    bench = make_bench(usb)
    await bench.begin()
    first = await bench.saw(Arrived)
    usb.unplug(psu.address)
    await bench.discovery.scan()
    usb.plug(psu.address)
    await bench.discovery.scan()
    assert await bench.saw(Arrived, 2) is first
    assert await bench.ask(first, "ECHO? 1") == "1"
    usb.unplug(psu.address)
    await bench.discovery.scan()
    psu.idn = "ACME,PSU1,A999,1.0"
    usb.plug(psu.address)
    await bench.discovery.scan()
    other = await bench.saw(Arrived, 3)
    assert other is not first
    assert other.id != first.id
    with pytest.raises(Failed):
        await bench.ask(first, "ECHO? 1")


async def test_a_unit_on_usb_and_lan_fails_over_when_it_is_unplugged(
    make_bench: MakeBench, psu: LoopbackInstrument
) -> None:
    async with LoopbackInstrument() as on_lan:
        usb, lan = FakeBus(), FakeBus("lan", tells_departures=False)
        usb.plug(psu.address)
        bench = make_bench(usb, lan)
        await bench.begin()
        instrument = await bench.saw(Arrived)
        lan.plug(on_lan.address)
        assert await bench.discovery.scan() == []
        assert instrument.alternatives == (on_lan.address,)
        usb.unplug(psu.address)
        await bench.discovery.scan()
        await bench.until(lambda: instrument.address == on_lan.address)
        assert await bench.ask(instrument, "ECHO? 1") == "1"
        assert instrument.alternatives == ()
        assert Left not in [type(event) for event in bench.events]


async def test_the_owners_name_holds_whichever_address_answered_first(
    make_bench: MakeBench, psu: LoopbackInstrument
) -> None:
    async with LoopbackInstrument() as second:
        lan = FakeBus("lan", tells_departures=False)
        lan.plug(psu.address)
        bench = make_bench(lan)
        await bench.begin()
        instrument = await bench.saw(Arrived)
        bench.discovery.watch(InstrumentEntry(address=second.address, timeout_ms=2000, name="psu"))
        await bench.saw(Changed, 2)
        assert bench.pool.get("psu") is instrument
        assert instrument.address == psu.address
        assert instrument.is_offered


async def test_what_the_owner_says_under_a_name_holds_at_the_units_other_addresses(
    make_bench: MakeBench, psu: LoopbackInstrument
) -> None:
    async with LoopbackInstrument() as second:
        lan = FakeBus("lan", tells_departures=False)
        lan.plug(psu.address)
        rules = {
            "A001": UnitRules(key="A001", alias="main"),
            "psu": UnitRules(key="psu", deny=frozenset({"set"})),
        }
        bench = make_bench(lan, bench=BenchFile(units=rules), profiles=[PROFILE])
        await bench.begin()
        instrument = await bench.saw(Arrived)
        assert instrument.rules.deny == frozenset()
        bench.discovery.watch(InstrumentEntry(address=second.address, timeout_ms=2000, name="PSU"))
        await bench.until(lambda: instrument.rules.deny == {"set"})
        assert instrument.alias == "main"
        assert bench.pool.get("psu") is instrument


async def test_two_units_that_tell_one_serial_number_are_two_instruments(
    make_bench: MakeBench, psu: LoopbackInstrument
) -> None:
    async with LoopbackInstrument(psu.idn) as clone:
        ports = {"ASRL1::INSTR": psu.address, "ASRL2::INSTR": clone.address}
        usb = FakeBus()
        usb.plug("ASRL1::INSTR")
        bench = make_bench(usb, roads=ports)
        await bench.begin()
        first = await bench.saw(Arrived)
        usb.plug("ASRL2::INSTR")
        (second,) = await bench.discovery.scan()
        assert second is not first
        assert first.alternatives == ()
        assert first.twins == ("ASRL2::INSTR",)
        assert second.twins == ("ASRL1::INSTR",)
        usb.unplug("ASRL1::INSTR")
        await bench.discovery.scan()
        usb.plug("ASRL1::INSTR")
        await bench.discovery.scan()
        assert first.address == "ASRL1::INSTR"
        assert second.address == "ASRL2::INSTR"


@promise("units.twins")
async def test_a_unit_on_usb_and_lan_keeps_its_own_line_only_when_a_twin_comes(
    make_bench: MakeBench, psu: LoopbackInstrument
) -> None:
    """Whose the address on the network is nobody can say then, so it stands for itself."""
    async with LoopbackInstrument() as on_lan, LoopbackInstrument(host="127.0.0.2") as twin:
        usb, lan = FakeBus(), FakeBus("lan", tells_departures=False)
        usb.plug("ASRL1::INSTR")
        bench = make_bench(usb, lan, roads={"ASRL1::INSTR": psu.address})
        await bench.begin()
        instrument = await bench.saw(Arrived)
        lan.plug(on_lan.address)
        await bench.discovery.scan()
        assert instrument.alternatives == (on_lan.address,)
        lan.plug(twin.address)
        await bench.discovery.scan()
        await bench.until(lambda: len(bench.pool.all()) == 3)
        assert all(unit.alternatives == () for unit in bench.pool.all())
        on_lan.received.clear()
        twin.received.clear()
        usb.unplug("ASRL1::INSTR")
        await bench.discovery.scan()
        with pytest.raises(Failed):
            await bench.ask(instrument, "ECHO? 1")
        assert "ECHO? 1" not in [*on_lan.received, *twin.received]


@promise("discovery.bad-bus")
async def test_a_bus_that_hangs_or_fails_delays_neither_the_others_nor_the_loop(
    make_bench: MakeBench, psu: LoopbackInstrument
) -> None:
    bad, broken, good = FakeBus("bad"), FakeBus("broken"), FakeBus("good")
    bad.may_answer.clear()
    # Only the first is to be given up on, however slow the machine is.
    broken.limit_s = good.limit_s = 30
    broken.failing = ValueError("no\nbackend")
    good.plug(psu.address)
    bench = make_bench(bad, broken, good)
    await bench.begin()
    await bench.saw(Arrived)
    assert await bench.discovery.scan() == []
    assert bad.is_hanging
    remarks = {bus["name"]: bus["remark"] for bus in bench.discovery.report()["buses"]}
    assert "hangs" in remarks["bad"] or "no list" in remarks["bad"]
    assert "no backend" in remarks["broken"]
    assert remarks["good"] == ""
    bad.may_answer.set()


async def test_a_failed_look_takes_nothing_away(
    make_bench: MakeBench, psu: LoopbackInstrument
) -> None:
    usb = FakeBus()
    usb.plug(psu.address)
    bench = make_bench(usb)
    await bench.begin()
    instrument = await bench.saw(Arrived)
    usb.failing = OSError("bus gone mad")
    await bench.discovery.scan()
    assert bench.pool.all() == (instrument,)
    assert await bench.ask(instrument, "ECHO? 1") == "1"


async def test_slow_buses_are_looked_at_first_and_at_every_tenth_scan_only(
    make_bench: MakeBench,
) -> None:
    quick, slow = FakeBus("usb"), FakeBus("lan", tells_departures=False, is_slow=True)
    bench = make_bench(quick, slow, rescan_interval_s=0.0)
    for _ in range(11):
        bench.discovery._tick()
        await asyncio.gather(*bench.discovery._scan_schedule.flying())
    assert quick.looks == 11
    assert slow.looks == 2


async def test_a_device_that_cannot_be_opened_is_set_aside_and_looked_at_again_soon(
    make_bench: MakeBench, psu: LoopbackInstrument
) -> None:
    usb, monitor = FakeBus(), FakeMonitor()
    bench = make_bench(usb, monitor=monitor)
    await bench.begin()
    usb.plug(psu.address, problem="edged may not open it")
    looks = usb.looks
    monitor.say()
    async with asyncio.timeout(HANGS_S):
        while usb.looks == looks:
            await asyncio.sleep(0.05)
        while not bench.discovery.set_aside():
            await asyncio.sleep(0.05)
    (aside,) = bench.discovery.set_aside()
    assert aside["reason"] == "edged may not open it"
    # udev has given access meanwhile; no further event tells of it.
    usb.plug(psu.address)
    await bench.saw(Arrived)
    assert bench.discovery.set_aside() == []


@promise("instruments.set-aside-again")
async def test_what_was_set_aside_is_asked_again_when_it_was_plugged_in_anew(
    make_bench: MakeBench, psu: LoopbackInstrument
) -> None:
    usb, monitor = FakeBus(), FakeMonitor()
    psu.is_silent = True
    usb.plug(psu.address, plug="1-4")
    bench = make_bench(usb, monitor=monitor)
    await bench.begin()
    assert bench.discovery.set_aside()[0]["is_set_aside"]
    psu.is_silent = False
    usb.plug(psu.address, plug="1-5")
    monitor.say()
    await bench.saw(Arrived)
    assert bench.discovery.set_aside() == []


async def test_what_was_set_aside_is_asked_at_every_tenth_scan(
    make_bench: MakeBench, psu: LoopbackInstrument
) -> None:
    usb = FakeBus()
    psu.is_silent = True
    usb.plug(psu.address)
    bench = make_bench(usb, rescan_interval_s=0.05)
    await bench.begin()
    await psu.heard("*IDN?", times=2)
    psu.is_silent = False
    await bench.saw(Arrived)


async def test_a_configured_instrument_that_is_unplugged_stays_listed_and_comes_back(
    make_bench: MakeBench, psu: LoopbackInstrument
) -> None:
    usb = FakeBus()
    usb.plug(psu.address)
    bench = make_bench(usb, entries=[InstrumentEntry(address=psu.address, timeout_ms=2000)])
    await bench.begin()
    instrument = await bench.saw(Arrived)
    usb.unplug(psu.address)
    await psu.unplug()
    await bench.discovery.scan()
    assert await bench.saw(Left) is instrument
    assert bench.pool.all() == (instrument,)
    assert not instrument.is_connected
    await psu.plug_in()
    usb.plug(psu.address)
    await bench.discovery.scan()
    assert await bench.saw(Arrived, 2) is instrument


async def test_an_address_that_is_announced_no_more_and_never_answered_is_forgotten(
    make_bench: MakeBench, free_port: Callable[[], int]
) -> None:
    lan = FakeBus("lan", tells_departures=False)
    address = f"TCPIP::127.0.0.1::{free_port()}::SOCKET"
    lan.plug(address)
    bench = make_bench(lan)
    await bench.begin()
    assert len(bench.discovery.set_aside()) == 1
    lan.unplug(address)
    await bench.discovery.scan()
    assert bench.discovery.set_aside() == []


async def test_an_instrument_that_answered_stays_though_it_is_announced_no_more(
    make_bench: MakeBench, psu: LoopbackInstrument
) -> None:
    lan = FakeBus("lan", tells_departures=False)
    lan.plug(psu.address)
    bench = make_bench(lan)
    await bench.begin()
    instrument = await bench.saw(Arrived)
    lan.unplug(psu.address)
    await bench.discovery.scan()
    assert await bench.ask(instrument, "ECHO? 1") == "1"


@promise("profiles.tie-is-told")
async def test_a_tie_between_profiles_is_told_and_the_more_specific_one_wins_without_a_tie(
    make_bench: MakeBench, psu: LoopbackInstrument
) -> None:
    twins = (profile("acme_a"), profile("acme_b"))
    usb = FakeBus()
    usb.plug(psu.address)
    bench = make_bench(usb, profiles=twins)
    await bench.begin()
    await bench.saw(Arrived)
    (tie,) = bench.discovery.report()["ties"]
    assert tie["profiles"] == ["acme_a", "acme_b"]
    specific = make_bench(usb, profiles=(*twins, profile("acme_c", r"acme,psu1,a\d+")))
    await specific.begin()
    found = await specific.saw(Arrived)
    assert found.profile is not None
    assert found.profile.key == "acme_c"
    assert specific.discovery.report()["ties"] == []


@promise("instruments.owners-word")
async def test_an_instrument_whose_profile_the_owner_names_is_usable_without_idn(
    make_bench: MakeBench, psu: LoopbackInstrument
) -> None:
    psu.special["*IDN?"] = lambda: b""
    entry = InstrumentEntry(address=psu.address, profile="acme_psu1", name="old one")
    bench = make_bench(entries=[entry])
    await bench.begin()
    instrument = await bench.saw(Arrived)
    assert instrument.is_offered
    assert instrument.identity.serial == ""
    assert "does not answer *IDN?" in instrument.remark
    assert await bench.ask(instrument, "ECHO? 1") == "1"
    await psu.unplug()
    await psu.plug_in()
    assert await bench.ask(instrument, "ECHO? 2") == "2"


async def test_a_probe_takes_the_place_of_idn_and_must_be_answered(
    make_bench: MakeBench, psu: LoopbackInstrument
) -> None:
    psu.special["*IDN?"] = lambda: b""
    probing = profile(probe=Probe(query="ECHO? MODEL 7", expect="^MODEL 7$"))
    entry = InstrumentEntry(address=psu.address, profile="acme_psu1")
    bench = make_bench(entries=[entry], profiles=(probing,))
    await bench.begin()
    instrument = await bench.saw(Arrived)
    await psu.unplug()
    await bench.saw(Changed)
    psu.special["ECHO? MODEL 7"] = lambda: b"MODEL 8\n"
    await psu.plug_in()
    await bench.until(lambda: instrument.actor is None)
    with pytest.raises(Failed, match="another"):
        await bench.ask(instrument, "ECHO? 1")
    other = make_bench(entries=[entry], profiles=(probing,))
    await other.begin()
    assert other.pool.all() == ()
    assert other.discovery.set_aside()[0]["is_set_aside"]


async def test_a_monitor_that_cannot_be_had_is_replaced_by_comparing_lists_and_said_so(
    make_bench: MakeBench, psu: LoopbackInstrument
) -> None:
    usb = FakeBus()
    bench = make_bench(usb, monitor=FakeMonitor(OSError("no netlink here")))
    await bench.begin()
    told = bench.discovery.report()["hotplug"]
    assert told["monitor"] == "lists"
    assert "no netlink here" in told["why"]
    usb.plug(psu.address)
    await bench.saw(Arrived)


@pytest.mark.parametrize("is_named", [True, False])
async def test_a_device_is_spoken_to_as_its_profile_says_from_the_first_byte(
    make_bench: MakeBench, psu: LoopbackInstrument, is_named: bool
) -> None:
    """By the profile that the owner names, or by those that know its USB id, in turn."""
    psu.special["*IDN?"] = lambda: b"ACME,PSU1,A001,1.0\r"
    connection = Connection(timeout_ms=2000, read_termination="\r")
    odd = replace(profile("zz_odd"), connection=connection)
    usb, entries = FakeBus(), []
    if is_named:
        entries = [InstrumentEntry(address=psu.address, profile="zz_odd")]
    else:
        usb.plug(psu.address, usb_id=(0x1AB1, 0x0E11))
    bench = make_bench(usb, entries=entries, profiles=(profile(idn="other"), odd))
    await bench.begin()
    instrument = await bench.saw(Arrived)
    assert instrument.profile is not None
    assert instrument.profile.key == "zz_odd"
    assert instrument.identity.serial == "A001"
