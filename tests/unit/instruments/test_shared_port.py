"""Units that share a port: turns, what ends them, and what a lost port means to each."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from edged.clock import SystemClock
from edged.config.instruments import InstrumentEntry
from edged.instruments.conversation import raw_conversation
from edged.instruments.instrument import Instrument
from edged.instruments.mailbox import Priority
from edged.profiles.loading import parse_profile
from edged.transports.link import LinkLost, LinkTimeout, Since, Urgency
from edged.transports.shared import SharedLink, SharedPort
from edged.transports.visa import VisaLibrary
from tests.bench.addressed_units import PROFILE, Bus, Supply
from tests.bench.lab import Lab
from tests.bench.loopback_instrument import LoopbackInstrument
from tests.bench.scripted_link import ScriptedLink

GENESYS = parse_profile(PROFILE.replace('"\\r"', '"\\n"'), "tdk_genesys.yaml")


class Gateway(LoopbackInstrument):
    """A converter with supplies behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.bus = Bus(supplies={"6": Supply(), "7": Supply()})

    async def _answer_to(self, line: str) -> bytes:
        answer = self.bus.get(line)
        return b"" if answer is None else answer.encode() + b"\n"


@pytest.fixture(scope="module")
def library() -> Iterator[VisaLibrary]:
    opened = VisaLibrary(library="@py", clock=SystemClock())
    yield opened
    opened.close()


@asynccontextmanager
async def registered(
    library: VisaLibrary, gateway: Gateway
) -> AsyncIterator[tuple[Instrument, Instrument]]:
    lab = Lab(library, (GENESYS,))
    entries = [
        InstrumentEntry(
            address=f"{gateway.address}@{bus}",
            bus_address=bus,
            profile="tdk_genesys",
            name=f"supply{bus}",
            timeout_ms=300,
        )
        for bus in ("6", "7")
    ]
    try:
        await lab.begin(*entries)
        six, seven = sorted(lab.pool.all(), key=lambda one: one.id)
        yield six, seven
    finally:
        await lab.discovery.stop()
        await lab.pool.stop()


async def ask(unit: Instrument, line: str, priority: Priority = Priority.COMMAND) -> str:
    reply = await unit.converse(
        lambda: raw_conversation(lines=(line,), asks=True, connection=unit.connection),
        priority=priority,
        timeout_s=10,
        name=line,
    )
    return reply.answer or ""


async def test_units_share_one_connection_to_a_gateway(library: VisaLibrary) -> None:
    async with Gateway() as gateway, registered(library, gateway) as (six, seven):
        gateway.bus.supplies["7"].voltage = "7.000"
        answers = await asyncio.gather(
            *(ask(unit, "PV?") for _ in range(20) for unit in (six, seven))
        )
        assert answers == ["0.000", "7.000"] * 20
        assert gateway.connections == 1
        assert gateway.bus.unaddressed == []


async def test_a_port_that_is_lost_is_opened_again_for_all(library: VisaLibrary) -> None:
    async with Gateway() as gateway, registered(library, gateway) as (six, seven):
        await gateway.unplug()
        gateway.bus.addressed = ""
        await gateway.plug_in()
        async with asyncio.timeout(20):
            for unit in (six, seven):
                while not unit.is_connected or unit.line_state.value != "ready":
                    await asyncio.sleep(0.02)
        assert [await ask(unit, "PV?") for unit in (six, seven)] == ["0.000", "0.000"]
        assert gateway.connections == 2


async def test_a_port_on_which_nobody_is_heard_is_opened_again(library: VisaLibrary) -> None:
    async with Gateway() as gateway, registered(library, gateway) as (six, seven):
        gateway.is_silent = True
        for unit in (six, seven):
            with pytest.raises(Exception, match=r"did not answer|not connected"):
                await ask(unit, "PV?")
        async with asyncio.timeout(20):
            while gateway.connections == 1:
                await asyncio.sleep(0.05)
        gateway.is_silent = False
        async with asyncio.timeout(20):
            while six.line_state.value != "ready" or seven.line_state.value != "ready":
                await asyncio.sleep(0.02)
        assert await ask(seven, "PV?") == "0.000"


@pytest.fixture
def inner() -> ScriptedLink:
    return ScriptedLink({})


@pytest.fixture
def links(inner: ScriptedLink) -> Iterator[list[SharedLink]]:
    port = SharedPort(inner, SystemClock())
    shared = [SharedLink(port, SystemClock()) for _ in range(3)]
    for link in shared:
        link.begin(1)
    yield shared
    for link in shared:
        link.release()


def test_only_who_comes_after_another_unit_is_to_be_addressed_again(
    links: list[SharedLink],
) -> None:
    one, other, _ = links
    told = []
    for link, says in ((one, 1), (one, 1), (other, 0), (one, 1), (other, 1), (other, 1), (one, 1)):
        told.append(Since.ANOTHER in link.take_turn(1, Urgency.WORK))
        link.open(1)
        if says:
            link.write(b"A\n", 1)
        link.end_turn(is_clean=True)
    assert told == [True, False, True, False, True, False, True]


def test_a_turn_that_is_not_to_be_had_in_time_sends_nothing(
    inner: ScriptedLink, links: list[SharedLink]
) -> None:
    one, other, _ = links
    one.take_turn(1, Urgency.WORK)
    with pytest.raises(LinkTimeout, match="other units"):
        other.take_turn(0, Urgency.WORK)
    one.end_turn(is_clean=True)
    other.take_turn(0, Urgency.WORK)
    assert inner.written == []


@pytest.mark.parametrize(
    ("holds", "wants", "is_ended"),
    [
        (Urgency.IDLE, Urgency.WORK, True),
        (Urgency.IDLE, Urgency.SAFE, True),
        (Urgency.WORK, Urgency.SAFE, True),
        (Urgency.WORK, Urgency.WORK, False),
        (Urgency.SAFE, Urgency.SAFE, False),
        (Urgency.WORK, Urgency.IDLE, False),
    ],
)
def test_what_is_more_urgent_ends_the_turn_of_another_unit(
    inner: ScriptedLink, links: list[SharedLink], holds: Urgency, wants: Urgency, is_ended: bool
) -> None:
    one, other, _ = links
    one.take_turn(1, holds)
    with pytest.raises(LinkTimeout):
        other.take_turn(0.05, wants)
    assert (inner.preempted >= inner.ticket) is is_ended


@pytest.mark.parametrize(("wants", "is_ended"), [(Urgency.WORK, False), (Urgency.SAFE, True)])
def test_a_stop_of_a_unit_that_answers_ends_that_of_a_silent_one(
    inner: ScriptedLink, links: list[SharedLink], wants: Urgency, is_ended: bool
) -> None:
    silent, other, _ = links
    silent.take_turn(1, wants)
    silent.end_turn(is_clean=False)
    assert Since.UNANSWERED in other.take_turn(1, Urgency.WORK)
    other.end_turn(is_clean=True)
    silent.take_turn(1, wants)
    with pytest.raises(LinkTimeout):
        other.take_turn(0.05, wants)
    assert (inner.preempted >= inner.ticket) is is_ended
    # What was written alone proves nothing.
    silent.end_turn(is_clean=True)
    assert Since.UNANSWERED in other.take_turn(1, Urgency.WORK)
    other.end_turn(is_clean=True)
    silent.take_turn(1, wants)
    inner.preempted = 0
    silent.open(1)
    inner.arrived = b"1\n"
    assert silent.read_message(b"\n", 1) == b"1"
    silent.end_turn(is_clean=True)
    assert Since.UNANSWERED not in other.take_turn(1, Urgency.WORK)


def test_the_most_urgent_of_those_who_wait_is_next(links: list[SharedLink]) -> None:
    holder, work, safe = links
    holder.take_turn(1, Urgency.SAFE)
    order: list[str] = []

    def wait(name: str, link: SharedLink, urgency: Urgency) -> None:
        link.take_turn(5, urgency)
        order.append(name)
        link.end_turn(is_clean=True)

    threads = [
        threading.Thread(target=wait, args=("work", work, Urgency.WORK)),
        threading.Thread(target=wait, args=("safe", safe, Urgency.SAFE)),
    ]
    for thread in threads:
        thread.start()
    port = holder._port
    while len(port.waiting) < 2:
        threading.Event().wait(0.001)
    holder.end_turn(is_clean=True)
    for thread in threads:
        thread.join(5)
    assert order == ["safe", "work"]


def test_a_lost_port_is_lost_to_each_of_its_units(links: list[SharedLink]) -> None:
    one, other, _ = links
    for link in (one, other):
        link.take_turn(1, Urgency.WORK)
        link.open(1)
        link.end_turn(is_clean=True)
    one._port.drop()
    for link in (one, other):
        with pytest.raises(LinkLost):
            link.pending()
