"""What a VXI-11 server refuses is told in words; one without a status byte is asked once."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from edged.clock import SystemClock
from edged.transports.link import Link, LinkGarbled, LinkLost, LinkTimeout
from edged.transports.visa import VisaLibrary
from tests.bench.bare_link import ask
from tests.bench.vxi11_server import (
    CREATE_LINK,
    READ,
    READ_STATUS,
    WRITE,
    Vxi11Server,
    vxi11_server,
)
from tests.promises import promise


@contextlib.contextmanager
def linked(server: Vxi11Server) -> Iterator[Link]:
    with vxi11_server(server):
        visa = VisaLibrary(clock=SystemClock(), is_on_loop=False)
        link = visa.open_link(server.address)
        try:
            link.open(5)
            link.begin(1)
            yield link
        finally:
            link.release()
            visa.close()


@promise("line.wire-errors")
@pytest.mark.parametrize(
    ("error", "words"),
    [
        (3, "check the device name in its address, such as inst0 or gpib0,5"),
        (9, "close other programs' links to it"),
        (21, "check the device name"),
    ],
)
def test_a_link_that_is_not_created_says_why_and_what_to_do(error: int, words: str) -> None:
    with (
        pytest.raises(LinkLost, match=rf"no link was created: .*{words}.*VXI-11 error {error}"),
        linked(Vxi11Server(errors={CREATE_LINK: error})),
    ):
        pass


@promise("line.wire-errors")
def test_a_device_that_another_has_locked_is_not_to_be_had() -> None:
    with (
        linked(Vxi11Server(errors={WRITE: 11})) as link,
        pytest.raises(LinkLost, match="end the program that holds the lock"),
    ):
        ask(link, "*IDN?")


@promise("line.wire-errors")
def test_errors_of_a_read_are_told_in_words_and_a_time_limit_is_one() -> None:
    server = Vxi11Server(errors={READ: 17})
    with linked(server) as link:
        with pytest.raises(LinkGarbled, match="look at the cable"):
            ask(link, "*IDN?")
        server.errors[READ] = 15
        with pytest.raises(LinkTimeout) as late:
            ask(link, "*IDN?")
        assert late.value.came == b"*IDN?\n"


@promise("answer.bytes-came")
def test_what_came_of_a_reply_that_is_not_whole_is_kept_for_the_error() -> None:
    with linked(Vxi11Server(keeps_back=3)) as link:
        with pytest.raises(LinkTimeout) as late:
            ask(link, "12345", 0.3)
        assert late.value.came == b"12345"


@promise("answer.bytes-came")
def test_what_came_before_an_error_is_kept_for_its_message() -> None:
    with linked(Vxi11Server(errors={READ: 17})) as link:
        with pytest.raises(LinkGarbled) as failed:
            ask(link, "12345")
        assert failed.value.came == b"12345\n"


@promise("answer.whole")
def test_a_reply_that_announces_more_than_it_has_is_no_answer() -> None:
    with linked(Vxi11Server(overstates=5)) as link:
        with pytest.raises(LinkGarbled, match="announces 11 bytes and brings") as failed:
            ask(link, "12345")
        assert failed.value.came.startswith(b"12345\n")


@pytest.mark.parametrize(
    ("most", "takes"), [(0, 1024), (1, 1024), (16, 1024), (63, 7), (1024, 1), (1024, 1024)]
)
def test_a_line_arrives_whole_however_little_is_taken_at_once(most: int, takes: int) -> None:
    line = "ECHO? " + "0123456789" * 20
    with linked(Vxi11Server(most=most, takes=takes)) as link:
        assert ask(link, line) == line


def test_a_device_that_takes_nothing_is_an_error() -> None:
    with linked(Vxi11Server(takes=0)) as link, pytest.raises(LinkGarbled, match="took 0 bytes"):
        ask(link, "*IDN?")


@promise("line.wire-errors")
@pytest.mark.parametrize(
    ("status", "words"), [(1, "offers no VXI-11 at this port"), (2, "another version"), (5, "own")]
)
def test_a_call_that_is_not_taken_says_why(status: int, words: str) -> None:
    with (
        pytest.raises(LinkGarbled, match=words),
        linked(Vxi11Server(statuses={CREATE_LINK: status})),
    ):
        pass


@pytest.mark.parametrize(
    "server",
    [Vxi11Server(errors={READ_STATUS: 8}), Vxi11Server(statuses={READ_STATUS: 3})],
    ids=["not supported", "no such procedure"],
)
def test_a_server_without_a_status_byte_is_asked_once_a_connection(server: Vxi11Server) -> None:
    with linked(server) as link:
        assert link.status_byte(1) is None
        assert link.status_byte(1) is None
        assert server.called.count(READ_STATUS) == 1
        assert ask(link, "*IDN?") == "*IDN?"
        link.open(5)
        assert link.status_byte(1) is None
        assert server.called.count(READ_STATUS) == 2


def test_the_status_byte_is_the_low_byte_of_what_is_told() -> None:
    with linked(Vxi11Server(status_byte=0x150)) as link:
        assert link.status_byte(1) == 0x50
