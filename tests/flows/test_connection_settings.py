"""Connection settings as a real wire meets them: on a pty, on a USB bus, on a socket."""

import asyncio
import os
import time
from collections.abc import AsyncIterator
from types import SimpleNamespace

import pytest

from edged.clock import SystemClock
from edged.config.instruments import InstrumentEntry
from edged.errors import ErrorCode, Failed
from edged.instruments.conversation import command_conversation
from edged.instruments.instrument import connection_for
from edged.profiles.model import Command, Completion, CompletionKind, Connection, ErrorCheck
from edged.scpi.kinds import ErrorKind
from edged.transports.link import LinkPreempted, LinkTimeout
from edged.transports.serial import SerialLink
from edged.transports.visa import VisaLibrary
from edged_sim.wires.stream import WireKind
from tests.bench.usb_backend import UsbInstrument, usb_bus
from tests.bench.waiting import HANGS_S
from tests.bench.wired import Line, Lines, wired


class Port:
    """A pty whose other end the test holds, and a ``SerialLink`` on it."""

    def __init__(self) -> None:
        import tty

        self.ours, self.theirs = os.openpty()
        tty.setraw(self.theirs)
        self.visa = VisaLibrary(clock=SystemClock())
        link = self.visa.open_link(f"ASRL{os.ttyname(self.theirs)}::INSTR")
        assert isinstance(link, SerialLink)
        self.link = link

    def close(self) -> None:
        self.link.release()
        self.visa.close()
        os.close(self.ours)
        os.close(self.theirs)


@pytest.fixture
def port() -> AsyncIterator[Port]:
    port = Port()
    yield port  # type: ignore[misc]
    port.close()


def test_a_serial_port_is_set_as_told_at_opening_and_while_open(port: Port) -> None:
    port.link.tune(Connection(baud_rate=19_200, data_bits=8, parity="none", stop_bits=2))
    port.link.open(2.0)
    opened = port.link._port
    assert (opened.baudrate, opened.bytesize, opened.parity, opened.stopbits) == (19200, 8, "N", 2)
    port.link.tune(Connection(baud_rate=115_200, stop_bits=1, flow="xon_xoff"))
    assert (opened.baudrate, opened.stopbits) == (115_200, 1)
    assert (opened.xonxoff, opened.rtscts) == (True, False)


def test_parity_and_data_bits_reach_the_port() -> None:
    # A pty refuses them: it has no wire. So the port is one that only takes note.
    taken = SimpleNamespace(
        baudrate=9600, bytesize=8, parity="N", stopbits=1, xonxoff=False, rtscts=False, dsrdtr=False
    )
    session = SimpleNamespace(interface=taken)
    resource = SimpleNamespace(
        session=1, visalib=SimpleNamespace(sessions={1: session}), close=lambda: None
    )
    link = SerialLink("ASRL1::INSTR", lambda _address, _seconds: resource, SystemClock())
    link.tune(Connection(data_bits=7, parity="even", stop_bits=1.5, flow="rts_cts"))
    link.open(2.0)
    assert (taken.bytesize, taken.parity, taken.stopbits) == (7, "E", 1.5)
    assert (taken.baudrate, taken.rtscts, taken.xonxoff) == (9600, True, False)
    link.release()


def test_what_is_not_told_is_left_as_the_port_has_it(port: Port) -> None:
    port.link.open(2.0)
    before = port.link._port.get_settings()
    port.link.tune(Connection(timeout_ms=100))
    after = port.link._port.get_settings()
    for name in ("baudrate", "bytesize", "parity", "stopbits", "xonxoff", "rtscts", "dsrdtr"):
        assert after[name] == before[name]


def test_any_terminator_ends_a_message(port: Port) -> None:
    port.link.open(2.0)
    os.write(port.ours, b"one\rtwo\r\nthree;")
    assert port.link.read_message(b"\r", 1.0) == b"one"
    assert port.link.read_message(b"\r\n", 1.0) == b"two"
    assert port.link.read_message(b";", 1.0) == b"three"
    with pytest.raises(LinkTimeout):
        port.link.read_message(b"\n", 0.06)


def test_a_wait_on_a_serial_port_is_pre_empted(port: Port) -> None:
    port.link.open(2.0)
    port.link.begin(1)
    port.link.preempt(1)
    with pytest.raises(LinkPreempted):
        port.link.read_message(b"\n", 3_000.0)


async def speak(line: Line, command: Command, connection: Connection) -> object:
    return await line.actor.converse(
        lambda: command_conversation(lines=command.scpi, command=command, connection=connection),
        unit=1,
        priority=1,  # type: ignore[arg-type]
        timeout_s=8.0,
        name=command.name,
    )


SETTER = Command(name="set", scpi=("LEV 5",))


@pytest.mark.parametrize("kind", [WireKind.SOCKET, WireKind.HISLIP, WireKind.VXI11])
@pytest.mark.parametrize(
    ("check", "text"),
    [
        (ErrorCheck(kind=ErrorKind.QUEUE, query="SYST:ERR?"), "-222"),
        (ErrorCheck(kind=ErrorKind.ESR, query="*ESR?"), "execution error"),
        (ErrorCheck(kind=ErrorKind.CODE, query="SYST:ERR?"), "-222"),
    ],
)
async def test_every_kind_of_error_check_finds_the_instruments_error(
    kind: WireKind, check: ErrorCheck, text: str
) -> None:
    async with wired(kind) as unit:
        lines = Lines()
        try:
            connection = Connection(errors=check)
            line = lines.open(unit.address, unit.idn, connection)
            await speak(line, SETTER, connection)
            with pytest.raises(Failed) as caught:
                await speak(line, Command(name="wrong", scpi=("LEV 5000",)), connection)
            assert caught.value.code is ErrorCode.INSTRUMENT_ERROR
            assert text in caught.value.message
            assert caught.value.data["trace"]
            await speak(line, SETTER, connection)
        finally:
            await lines.close()


async def test_a_command_is_complete_when_the_instrument_says_so() -> None:
    async with wired(WireKind.SOCKET) as unit:
        lines = Lines()
        try:
            line = lines.open(unit.address, unit.idn)
            opc = Command(name="o", scpi=("LEV 1",), complete=Completion(kind=CompletionKind.OPC))
            await speak(line, opc, Connection())
            poll = Completion(kind=CompletionKind.POLL, query="LEV?", until="value > 1.5")
            await speak(line, Command(name="p", scpi=("LEV 2",), complete=poll), Connection())
            said = [text for text in unit.received() if text != "*IDN?"]
            assert said[-4:] == ["LEV 1", "*OPC?", "LEV 2", "LEV?"]
        finally:
            await lines.close()


async def test_gaps_are_kept_on_the_wire_and_last_words_are_said() -> None:
    async with wired(WireKind.SERIAL) as unit:
        lines = Lines()
        connection = Connection(min_gap_ms=40, on_connect=("LEV 1",), on_release=("LEV 0",))
        try:
            began = time.monotonic()
            line = lines.open(unit.address, unit.idn, connection)
            for number in range(4):
                assert await line.echo(number) == str(number)
            took_s = time.monotonic() - began
            # By our own clock: a unit that reads late would see two gaps as one long and one short.
            asked = [e for e in unit.log.entries(instrument="unit") if e.direction == "in"]
            assert len(asked) >= 6
            assert took_s >= 0.040 * (len(asked) - 1)
        finally:
            await lines.close()
        assert unit.received()[:2] == ["*IDN?", "LEV 1"]
        async with asyncio.timeout(HANGS_S):
            # What is in the port's buffer the unit reads when it gets to it.
            while unit.received()[-1] != "LEV 0":
                await asyncio.sleep(0.05)


async def test_a_usb_instrument_is_asked_for_as_much_as_its_profile_says() -> None:
    with usb_bus() as bus:
        unit = bus.plug(UsbInstrument())
        unit.special["WAV?"] = lambda: b"#41199" + bytes(1199) + b"\n"
        lines = Lines()
        try:
            line = lines.open(unit.address, unit.idn, Connection(chunk_bytes=100))
            assert await line.fetch("WAV?") == b"#41199" + bytes(1199)
            assert await line.ask("ECHO? 1") == "1"
        finally:
            await lines.close()


def test_what_the_owner_says_of_an_instrument_comes_before_its_profile() -> None:
    profile = Connection(timeout_ms=100, baud_rate=9600, parity="odd", on_connect=("HEAD OFF",))
    entry = InstrumentEntry(
        address="ASRL1::INSTR", baud_rate=19_200, stop_bits=2.0, min_gap_ms=5, write_termination=""
    )
    own = connection_for(profile, entry)
    assert (own.baud_rate, own.stop_bits, own.min_gap_ms, own.write_termination) == (
        19_200,
        2.0,
        5,
        "",
    )
    assert (own.timeout_ms, own.parity, own.on_connect) == (100, "odd", ("HEAD OFF",))
