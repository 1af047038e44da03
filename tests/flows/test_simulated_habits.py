"""What simulated instruments can be like: output queues that stay, clears that stop nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from edged.clock import SystemClock
from edged.transports.link import Link, LinkTimeout
from edged.transports.visa import VisaLibrary
from edged_sim.faults import FaultKind
from edged_sim.wires.stream import WireKind
from tests.bench.bare_link import ask, talked
from tests.bench.usb_backend import UsbInstrument, usb_bus
from tests.bench.wired import wired

ASKED = (WireKind.VXI11, WireKind.PROLOGIX)

ECHO = 'DIAG:ECHO? "{}"'


@pytest.mark.parametrize("kind", ASKED)
@pytest.mark.parametrize("keeps", [False, True])
async def test_an_unread_answer_is_interrupted_or_stays_in_front(
    kind: WireKind, keeps: bool
) -> None:
    def talk(link: Link) -> list[str]:
        link.write(b'DIAG:ECHO? "old"\n', 2)
        while not link.status_byte(2):
            pass
        told = [ask(link, ECHO.format("new"))]
        if keeps:
            told.append(link.read_message(b"\n", 2).decode())
        return told

    async with wired(kind) as unit:
        if keeps:
            unit.fault(FaultKind.KEEP_OUTPUT)
        assert await talked(unit.address, talk) == (["old", "new"] if keeps else ["new"])


@pytest.mark.parametrize("kind", ASKED)
@pytest.mark.parametrize("is_deaf", [False, True])
async def test_a_clear_stops_what_runs_or_only_says_so(kind: WireKind, is_deaf: bool) -> None:
    def talk(link: Link) -> str:
        link.write(b'DIAG:DELAY? 0.3,"old"\n', 2)
        assert link.clear(1)
        try:
            return link.read_message(b"\n", 0.8).decode()
        except LinkTimeout:
            return ""

    async with wired(kind) as unit:
        if is_deaf:
            unit.fault(FaultKind.DEAF_CLEAR)
        assert await talked(unit.address, talk) == ("old" if is_deaf else "")


@pytest.mark.parametrize("kind", [WireKind.VXI11, WireKind.PROLOGIX])
async def test_an_extra_message_is_a_message_of_its_own(kind: WireKind) -> None:
    def talk(link: Link) -> tuple[str, str]:
        return ask(link, ECHO.format(1)), link.read_message(b"\n", 2).decode()

    async with wired(kind) as unit:
        unit.fault(FaultKind.EXTRA)
        assert await talked(unit.address, talk) == ("1", "8.888")


async def test_a_hislip_server_may_mark_all_its_answers_alike() -> None:
    async with wired(WireKind.HISLIP) as unit:
        unit.fault(FaultKind.SAME_ID)

        def talk(link: Link) -> bool:
            assert link.marks_answers()
            assert ask(link, ECHO.format(1)) == "1"
            return link.marks_answers()

        assert not await talked(unit.address, talk)


@pytest.mark.parametrize("kind", [WireKind.SOCKET, WireKind.VXI11, WireKind.HISLIP])
async def test_an_instrument_may_acknowledge_its_writes(kind: WireKind) -> None:
    async with wired(kind) as unit:
        unit.fault(FaultKind.ACKNOWLEDGE)
        assert await talked(unit.address, lambda link: ask(link, "LEV 2.5")) == "OK"
        assert float(await talked(unit.address, lambda link: ask(link, "LEV?"))) == 2.5


@contextlib.contextmanager
def usb_link() -> Iterator[tuple[UsbInstrument, Link]]:
    with usb_bus() as bus:
        device = bus.plug(UsbInstrument())
        visa = VisaLibrary(clock=SystemClock(), is_on_loop=False)
        link = visa.open_link(device.address)
        try:
            link.open(5)
            link.begin(1)
            yield device, link
        finally:
            link.release()
            visa.close()


def test_a_usb_instrument_may_keep_its_output_or_say_more_than_asked() -> None:
    with usb_link() as (device, link):
        device.keeps_output = True
        link.write(b"ECHO? old\n", 2)
        assert ask(link, "ECHO? new") == "old"
        assert link.read_message(b"\n", 2) == b"new"
        device.faults.append("extra")
        assert ask(link, "ECHO? 1") == "1"
        assert link.read_message(b"\n", 2) == b"8.888"


def test_what_was_listened_for_in_vain_over_usb_is_no_answer_to_the_next_question() -> None:
    with usb_link() as (device, link):
        assert ask(link, "ECHO? 1") == "1"
        with pytest.raises(LinkTimeout):
            link.read_message(b"\n", 0.05)
        assert ask(link, "ECHO? 2") == "2"
        assert device.aborts == 1
