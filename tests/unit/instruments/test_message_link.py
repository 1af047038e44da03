"""A link over nothing but PyVISA's own calls, as under a vendor's VISA or a GPIB driver."""

from collections import deque
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from edged.clock import SystemClock
from edged.profiles.model import Connection
from edged.transports import message as message_module
from edged.transports.link import (
    LinkGarbled,
    LinkLost,
    LinkOverlong,
    LinkPreempted,
    LinkTimeout,
)
from edged.transports.message import MORE_TO_COME, MessageLink
from tests.promises import promise

DONE = 0


class Resource:
    """What PyVISA gives, as far as the link uses it: each read plays the next part."""

    def __init__(self, *parts: tuple[bytes, int] | Exception) -> None:
        self.parts = deque(parts)
        self.session = 1
        self.timeout = 0
        self.timeouts: list[int] = []
        self.written: list[bytes] = []
        self.cleared = 0
        self.is_closed = False
        self.visalib = SimpleNamespace(read=self._read, write=self._write)

    def clear(self) -> None:
        self.cleared += 1

    def close(self) -> None:
        self.is_closed = True

    def _write(self, _session: int, data: bytes) -> None:
        self.written.append(data)

    def _read(self, _session: int, _count: int) -> tuple[bytes, int]:
        self.timeouts.append(self.timeout)
        if not self.parts:
            raise TimeoutError
        part = self.parts.popleft()
        if isinstance(part, Exception):
            raise part
        return part


@pytest.fixture
def links() -> Iterator[list[MessageLink]]:
    made: list[MessageLink] = []
    yield made
    for link in made:
        link.release()


def opened(links: list[MessageLink], resource: Any) -> MessageLink:
    link = MessageLink("GPIB0::5::INSTR", lambda _address, _seconds: resource, SystemClock())
    links.append(link)
    link.open(1.0)
    return link


def test_a_message_may_come_in_parts_and_ends_with_its_end(links: list[MessageLink]) -> None:
    link = opened(links, Resource((b"1.5", MORE_TO_COME), (b"00\n", DONE)))
    link.write(b"MEAS?\n", 1.0)
    assert link.read_message(b"\n", 1.0) == b"1.500"
    assert link.pending() == b""


def test_of_a_message_longer_than_any_text_nothing_is_lost(
    links: list[MessageLink], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(message_module, "MAX_MESSAGE_BYTES", 8)
    link = opened(links, Resource((b"#19abcd", MORE_TO_COME), (b"efghi\n", DONE)))
    with pytest.raises(LinkOverlong, match="13 bytes came without an end"):
        link.read_message(b"\n", 1.0)
    assert link.read_exactly(12, 1.0) == b"#19abcdefghi"
    assert link.read_message(b"\n", 1.0) == b""


def test_waits_are_sliced_and_end_at_their_limit(links: list[MessageLink]) -> None:
    resource = Resource()
    link = opened(links, resource)
    with pytest.raises(LinkTimeout):
        link.read_message(b"\n", 0.001)
    assert all(timeout <= 250 for timeout in resource.timeouts)


def test_a_pre_emption_is_heard_between_two_slices(links: list[MessageLink]) -> None:
    link = opened(links, Resource(TimeoutError(), (b"late\n", DONE)))
    link.begin(3)
    link.preempt(3)
    with pytest.raises(LinkPreempted):
        link.read_message(b"\n", 30.0)
    link.begin(4)
    assert link.read_message(b"\n", 1.0) == b"late"


def test_a_block_that_ends_early_is_garbled_and_a_whole_one_is_exact(
    links: list[MessageLink],
) -> None:
    link = opened(links, Resource((b"#15", MORE_TO_COME), (b"\n\r;##\n", DONE), (b"#1", DONE)))
    assert link.read_exactly(8, 1.0) == b"#15\n\r;##"
    assert link.pending() == b"\n"
    link.write(b"WAV?\n", 1.0)
    with pytest.raises(LinkGarbled):
        link.read_exactly(8, 1.0)


def test_what_a_library_raises_is_a_lost_line_and_clear_says_whether_it_worked(
    links: list[MessageLink],
) -> None:
    resource = Resource(OSError(19, "No such device"))
    link = opened(links, resource)
    with pytest.raises(LinkLost):
        link.read_message(b"\n", 1.0)
    assert link.clear(0.5)
    assert resource.cleared == 1
    link.close()
    assert resource.is_closed
    assert not link.clear(0.5)


def test_serial_settings_go_by_visas_attributes(links: list[MessageLink]) -> None:
    class Port(Resource):
        baud_rate = 9600
        data_bits = 8

    resource = Port()
    link = opened(links, resource)
    link.tune(Connection(baud_rate=19_200, data_bits=7))
    assert (resource.baud_rate, resource.data_bits) == (19_200, 7)


class StatusResource(Resource):
    def __init__(self, *told: int | Exception) -> None:
        super().__init__()
        self.told = deque(told)
        self.asked = 0

    def read_stb(self) -> int:
        self.asked += 1
        told = self.told.popleft() if self.told else TimeoutError()
        if isinstance(told, Exception):
            raise told
        return told


def test_the_status_byte_is_visas_own(links: list[MessageLink]) -> None:
    resource = StatusResource(TimeoutError(), 0x50)
    assert opened(links, resource).status_byte(5.0) == 0x50
    assert max(resource.asked, resource.timeout) <= 250


def test_a_resource_without_a_status_byte_is_asked_once(links: list[MessageLink]) -> None:
    resource = StatusResource(OSError("VI_ERROR_NSUP_OPER (-1073807257): not supported"), 0x10)
    link = opened(links, resource)
    assert link.status_byte(1.0) is None
    assert link.status_byte(1.0) is None
    assert resource.asked == 1
    link.open(1.0)
    assert link.status_byte(1.0) == 0x10


def test_a_status_byte_that_never_comes_ends_at_its_time_limit(links: list[MessageLink]) -> None:
    link = opened(links, StatusResource())
    with pytest.raises(LinkTimeout):
        link.status_byte(0.01)


@promise("line.parity")
def test_a_byte_with_a_parity_error_makes_a_bad_answer(links: list[MessageLink]) -> None:
    link = opened(links, Resource(OSError("VI_ERROR_ASRL_PARITY (-1073807254): A parity error")))
    with pytest.raises(LinkGarbled, match="parity"):
        link.read_message(b"\n", 1.0)
