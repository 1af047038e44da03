"""Bytes that were spoiled on a serial line never pass for text."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.clock import SystemClock
from edged.profiles.model import Connection
from edged.transports.link import LinkGarbled
from edged.transports.serial import SPOILED, SerialLink, Unmarker
from edged.transports.visa import VisaLibrary
from tests.promises import promise

NEEDS_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="no other kernel marks them")


def marked(data: bytes) -> bytes:
    """As the kernel gives bytes that came well."""
    return data.replace(b"\xff", b"\xff\xff")


@given(st.lists(st.binary(max_size=12)), st.integers(1, 5))
def test_what_came_well_is_what_came_however_it_is_cut(parts: list[bytes], size: int) -> None:
    data = b"".join(parts)
    stream = marked(data)
    unmarker = Unmarker()
    told = [unmarker.feed(stream[at : at + size]) for at in range(0, len(stream), size)]
    assert b"".join(piece for piece, _ in told) == data
    assert not any(is_spoiled for _, is_spoiled in told)


@given(st.binary(max_size=12), st.integers(0, 255), st.binary(max_size=12), st.integers(1, 5))
def test_a_spoiled_byte_is_told_and_stands_for_itself(
    before: bytes, byte: int, after: bytes, size: int
) -> None:
    stream = marked(before) + bytes((0xFF, 0, byte)) + marked(after)
    unmarker = Unmarker()
    told = [unmarker.feed(stream[at : at + size]) for at in range(0, len(stream), size)]
    assert b"".join(piece for piece, _ in told) == before + bytes((SPOILED,)) + after
    assert sum(is_spoiled for _, is_spoiled in told) == 1


class Port:
    """Pyserial's port over a pty; what is read is scripted, as no pty spoils a byte."""

    def __init__(self, descriptor: int, script: list[bytes]) -> None:
        self._descriptor = descriptor
        self._script = script
        self.baudrate = 9600
        self.timeout = self.write_timeout = 0.0
        self.written = b""
        self.settings = 0

    @property
    def in_waiting(self) -> int:
        return len(self._script[0]) if self._script else 0

    def fileno(self) -> int:
        return self._descriptor

    def read(self, count: int) -> bytes:
        if not self._script:
            return b""
        data, self._script[0] = self._script[0][:count], self._script[0][count:]
        if not self._script[0]:
            del self._script[0]
        return data

    def write(self, data: bytes) -> None:
        self.written += data


@pytest.fixture
def descriptor() -> Iterator[int]:
    ours, theirs = os.openpty()
    yield theirs
    os.close(ours)
    os.close(theirs)


def opened(port: Port) -> SerialLink:
    session = SimpleNamespace(interface=port)
    resource: Any = SimpleNamespace(
        session=1, visalib=SimpleNamespace(sessions={1: session}), close=lambda: None
    )
    link = SerialLink("ASRL9::INSTR", lambda _address, _seconds: resource, SystemClock())
    link.open(1.0)
    link.begin(1)
    return link


@promise("line.parity")
@NEEDS_LINUX
def test_an_answer_with_a_spoiled_byte_is_garbled_and_says_what_to_compare(descriptor: int) -> None:
    link = opened(Port(descriptor, [b"5.\xff\x00\x30", b"00\n"]))
    try:
        with pytest.raises(LinkGarbled, match="parity or framing error: compare baud rate"):
            link.read_message(b"\n", 1.0)
    finally:
        link.release()


@promise("line.parity")
@NEEDS_LINUX
def test_spoiled_noise_that_nobody_asked_for_is_something_that_came(descriptor: int) -> None:
    link = opened(Port(descriptor, [b"\xff\x00\x00"]))
    try:
        assert link.pending() == bytes((SPOILED,))
        assert link.pending() == b""
    finally:
        link.release()


@NEEDS_LINUX
def test_marking_stays_on_through_changes_of_settings_and_writes_and_bytes_stay_bytes() -> None:
    import termios
    import tty

    ours, theirs = os.openpty()
    tty.setraw(theirs)
    visa = VisaLibrary(clock=SystemClock())
    link = visa.open_link(f"ASRL{os.ttyname(theirs)}::INSTR")
    try:
        link.open(2.0)
        link.begin(1)
        for baud_rate in (9600, 300, 115_200):
            link.tune(Connection(baud_rate=baud_rate, parity="none"))
            link.write(b"*IDN?\n" * 40, 2.0)
            came = b""
            while len(came) < len(b"*IDN?\n" * 40):
                came += os.read(ours, 4096)
            assert came == b"*IDN?\n" * 40
            assert termios.tcgetattr(theirs)[0] & termios.PARMRK
            body = bytes(range(256)) * 3
            os.write(ours, body + b"\n")
            assert link.read_exactly(len(body), 2.0) == body
            assert link.read_message(b"\n", 2.0) == b""
    finally:
        link.release()
        visa.close()
        os.close(ours)
        os.close(theirs)
