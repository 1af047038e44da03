"""The status byte beside the messages, on every transport that has one: MAV, refusals, silence."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator

import pytest

from edged.clock import SystemClock
from edged.transports.link import Link, LinkPreempted, LinkTimeout
from edged.transports.message import MESSAGE_AVAILABLE, StatusQuery
from edged.transports.visa import VisaLibrary
from edged_sim.wires.stream import WireKind
from tests.bench.bare_link import talked
from tests.bench.usb_backend import UsbInstrument, usb_bus
from tests.bench.wired import wired

TELLING = (WireKind.VXI11, WireKind.HISLIP, WireKind.PROLOGIX)


@pytest.fixture
def library() -> Iterator[VisaLibrary]:
    visa = VisaLibrary(clock=SystemClock())
    yield visa
    visa.close()


def has_mav(link: Link, *, within_s: float = 3.0, wanted: bool = True) -> bool:
    """Whether MAV comes to be as ``wanted``; what was asked takes its time to be answered."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        status = link.status_byte(2)
        assert status is not None
        if bool(status & MESSAGE_AVAILABLE) is wanted:
            return True
    return False


@pytest.mark.parametrize("kind", TELLING)
async def test_mav_is_told_while_an_answer_waits_and_not_after_it_was_read(
    kind: WireKind,
) -> None:
    def talk(link: Link) -> None:
        assert link.status_byte(2) == 0
        link.write(b"*IDN?\n", 2)
        assert has_mav(link)
        assert link.read_message(b"\n", 2)
        assert has_mav(link, wanted=False)
        link.write(b"NO:SUCH\n", 2)
        link.write(b"*IDN?\n", 2)
        assert has_mav(link)
        assert link.read_message(b"\n", 2)
        # An error waits in its queue: the byte is the instrument's own, not a flag of the wire.
        assert link.status_byte(2) == 0x04

    async with wired(kind) as unit:
        await talked(unit.address, talk)


@pytest.mark.parametrize("kind", [WireKind.SOCKET, WireKind.SERIAL])
async def test_a_wire_without_a_way_to_ask_says_none(kind: WireKind) -> None:
    def talk(link: Link) -> int | None:
        link.write(b"*IDN?\n", 2)
        assert link.read_message(b"\n", 2)
        return link.status_byte(1)

    async with wired(kind) as unit:
        assert await talked(unit.address, talk) is None
        assert "*STB?" not in unit.received()


@pytest.mark.parametrize("has_interrupt", [False, True])
def test_usbtmc_tells_it_by_the_control_answer_or_by_the_interrupt_endpoint(
    library: VisaLibrary, has_interrupt: bool
) -> None:
    with usb_bus() as bus:
        device = bus.plug(UsbInstrument(has_interrupt=has_interrupt))
        link = library.open_link(device.address)
        try:
            link.open(5)
            link.begin(1)
            # More than there are tags, a service request and an old notice before its own.
            for _ in range(130):
                assert link.status_byte(1) == 0
            device.notices.extend((b"\x81\x40", b"\x82\x10"))
            link.write(b"*IDN?\n", 1)
            told = link.status_byte(1)
            assert told == MESSAGE_AVAILABLE
            assert link.read_message(b"\n", 1) == device.idn.encode()
            device.notices.clear()
            assert link.status_byte(1) == 0
        finally:
            link.release()


def test_a_usb_instrument_that_stalls_at_the_question_has_none(library: VisaLibrary) -> None:
    with usb_bus() as bus:
        device = bus.plug(UsbInstrument(has_status=False))
        link = library.open_link(device.address)
        try:
            link.open(5)
            link.begin(1)
            assert link.status_byte(1) is None
            device.has_status = True
            assert link.status_byte(1) is None
            link.write(b"*IDN?\n", 1)
            assert link.read_message(b"\n", 1) == device.idn.encode()
            link.close()
            link.open(5)
            assert link.status_byte(1) == 0
        finally:
            link.release()


async def test_a_stop_ends_the_wait_for_it() -> None:
    async with wired(WireKind.VXI11) as unit:
        assert unit.proxy is not None
        proxy = unit.proxy
        loop = asyncio.get_running_loop()

        def talk(link: Link) -> float:
            loop.call_soon_threadsafe(proxy.hang)
            threading.Timer(0.1, link.preempt, [1]).start()
            began = time.monotonic()
            with pytest.raises(LinkPreempted):
                link.status_byte(20)
            return time.monotonic() - began

        assert await talked(unit.address, talk) < 5


def test_who_was_silent_is_spared_the_question_on_the_next_connection_only() -> None:
    query = StatusQuery()

    def silence() -> int:
        raise LinkTimeout("nothing came")

    query.opened()
    with pytest.raises(LinkTimeout):
        query.ask(silence)
    assert query.ask(lambda: 1) is None
    query.opened()
    assert query.ask(lambda: 1) is None
    query.opened()
    assert query.ask(lambda: 1) == 1
    assert query.ask(lambda: None) is None
    query.opened()
    assert query.ask(lambda: 3) == 3
