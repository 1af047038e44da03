"""How a network transport connects: in time, with words for what is wrong, and without PyVISA."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from edged.clock import SystemClock
from edged.transports.link import Link, LinkError, LinkLost, LinkPreempted, Wake
from edged.transports.raw_socket import RawSocketLink
from edged.transports.tcp import KEEPALIVE, TCP_OPTIONS, TcpChannel
from edged.transports.visa import VisaLibrary
from tests.bench.waiting import HANGS_S
from tests.promises import promise


@contextlib.contextmanager
def link_to(host: str, port: int) -> Iterator[Link]:
    visa = VisaLibrary(clock=SystemClock(), is_on_loop=False)
    link = visa.open_link(f"TCPIP::{host}::{port}::SOCKET")
    try:
        link.begin(1)
        yield link
    finally:
        link.release()
        visa.close()


@contextlib.contextmanager
def deaf_port() -> Iterator[int]:
    """One that takes no connection and refuses none: its queue is full."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        place = listener.getsockname()
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(place)
        yield place[1]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


def failure(host: str, port: int, timeout_s: float = HANGS_S) -> LinkError:
    with link_to(host, port) as link, pytest.raises(LinkError) as failed:
        link.open(timeout_s)
    return failed.value


@promise("line.wire-errors")
def test_a_port_at_which_nothing_listens_is_refused_at_once() -> None:
    port = free_port()
    refused = failure("127.0.0.1", port)
    assert str(refused) == (
        f"connecting to TCPIP::127.0.0.1::{port}::SOCKET failed: nothing listens there "
        "(connection refused)"
    )


@promise("line.wire-errors")
@pytest.mark.parametrize("host", ["nobody.invalid", "no host"])
def test_a_host_that_nobody_knows_is_named(host: str) -> None:
    unknown = failure(host, 5025)
    assert str(unknown) == f"opening TCPIP::{host}::5025::SOCKET failed: its host name is not known"


@promise("line.wire-errors")
@pytest.mark.skipif(sys.platform == "win32", reason="a full queue refuses there")
def test_a_host_that_does_not_answer_is_given_up_when_the_time_is_over() -> None:
    with deaf_port() as port:
        began = time.monotonic()
        silent = failure("127.0.0.1", port, timeout_s=0.3)
        took_s = time.monotonic() - began
    assert isinstance(silent, LinkLost)
    assert str(silent) == f"TCPIP::127.0.0.1::{port}::SOCKET cannot be reached"
    assert silent.why == "nothing answers there (connecting took too long)"
    assert 0.3 <= took_s < HANGS_S


@pytest.mark.skipif(sys.platform == "win32", reason="a full queue refuses there")
def test_a_stop_ends_the_wait_for_a_host_that_does_not_answer() -> None:
    with deaf_port() as port, link_to("127.0.0.1", port) as link:
        timer = threading.Timer(0.1, link.preempt, [1])
        timer.start()
        began = time.monotonic()
        with pytest.raises(LinkPreempted):
            link.open(60)
        assert time.monotonic() - began < HANGS_S
        timer.join()


def test_a_host_may_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostbyname", {"psu": "127.0.0.1"}.__getitem__)
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        link_to("psu", server.getsockname()[1]) as link,
    ):
        link.open(HANGS_S)
        peer, _ = server.accept()
        with peer:
            link.write(b"*IDN?\n", HANGS_S)
            assert peer.recv(100) == b"*IDN?\n"


def test_an_instrument_on_the_network_needs_no_pyvisa() -> None:
    program = """
import socket, sys
from edged.clock import SystemClock
from edged.transports.visa import VisaLibrary
with socket.create_server(("127.0.0.1", 0)) as server:
    visa = VisaLibrary(clock=SystemClock(), is_on_loop=False)
    link = visa.open_link(f"TCPIP::127.0.0.1::{server.getsockname()[1]}::SOCKET")
    link.open(5)
    link.release()
    visa.close()
print([name for name in sys.modules if name.startswith("pyvisa")])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout.split() == [b"[]"]


def test_only_what_connects_by_tcp_sets_options_of_tcp(tmp_path: Path) -> None:
    """A channel over another kind of socket says its place and its socket, and nothing more."""

    class UnixChannel(TcpChannel):
        def place_of(self, address: str, wake: Wake) -> str:
            return address.split("::")[1]

        def make_socket(self) -> socket.socket:
            return socket.socket(socket.AF_UNIX)

    class UnixLink(RawSocketLink):
        channel_class = UnixChannel

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "x.sock"))
        listener.listen()
        link = UnixLink(f"UNIX::{tmp_path}/x.sock::SOCKET", SystemClock())
        link.open(HANGS_S)
        try:
            link.write(b"*IDN?\n", HANGS_S)
            peer, _ = listener.accept()
            with peer:
                assert peer.recv(100) == b"*IDN?\n"
                peer.sendall(b"ACME\n")
                assert link.read_message(b"\n", HANGS_S) == b"ACME"
        finally:
            link.release()


def test_a_dead_peer_is_noticed_by_keepalive(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[int, int, int]] = []

    class Noting(socket.socket):
        def connect_ex(self, place: object) -> int:
            options = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE)]
            options += [(socket.IPPROTO_TCP, TCP_OPTIONS[name]) for name, _ in KEEPALIVE]
            options += [(socket.IPPROTO_TCP, socket.TCP_NODELAY)]
            made.extend((*option, self.getsockopt(*option)) for option in options)
            return super().connect_ex(place)  # type: ignore[arg-type]

    monkeypatch.setattr(socket, "socket", Noting)
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        link_to("127.0.0.1", listener.getsockname()[1]) as link,
    ):
        link.open(HANGS_S)
    assert [value for *_, value in made] == [1, *(value for _, value in KEEPALIVE), 1]
