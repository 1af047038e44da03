"""An instrument behind an adapter that talks on and on: nobody waits for it for ever."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from edged.clock import SystemClock
from edged.instruments import prologix_link
from edged.instruments.link import LinkLost, LinkPreempted
from edged.instruments.prologix_link import PrologixAdapter, PrologixLink
from edged.instruments.visa_link import VisaLibrary

VERSION = b"Prologix GPIB-ETHERNET Controller version 1.6.6.0\r\n"


class Babbler:
    """An adapter whose instrument, once asked, never stops."""

    def __init__(self, piece: bytes, pause_s: float) -> None:
        self._piece, self._pause_s = piece, pause_s
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def _serve(self) -> None:
        peer, _ = self._listener.accept()
        with peer, contextlib.suppress(OSError):
            heard = b""
            while b"++read eoi" not in heard:
                new = peer.recv(4096)
                heard += new
                if b"++ver" in new and b"++read eoi" not in heard:
                    peer.sendall(VERSION)
            while not self._is_over.wait(self._pause_s):
                peer.sendall(self._piece)

    def close(self) -> None:
        self._is_over.set()
        self._thread.join(10)
        self._listener.close()


@contextlib.contextmanager
def babbling(piece: bytes, pause_s: float) -> Iterator[PrologixLink]:
    """A link that has asked such an instrument."""
    babbler = Babbler(piece, pause_s)
    library = VisaLibrary(clock=SystemClock())
    adapter = PrologixAdapter(
        f"TCPIP::127.0.0.1::{babbler.port}::SOCKET", library.open_resource, SystemClock()
    )
    link = PrologixLink(adapter, "5", SystemClock())
    try:
        link.open(5)
        link.begin(1)
        link.write(b"*IDN?\n", 5)
        yield link
    finally:
        link.release()
        adapter.drop()
        adapter.deaf.release()
        babbler.close()
        library.close()


def test_who_talks_slowly_for_ever_is_given_up_at_the_time_limit() -> None:
    with babbling(b"x", 0.02) as link:
        began = time.monotonic()
        with pytest.raises(LinkLost, match="time limit"):
            link.read_message(b"\n", 0.2)
        assert time.monotonic() - began < 10


def test_a_stop_gets_through_to_who_talks_for_ever() -> None:
    with babbling(b"x", 0.02) as link:
        stop = threading.Timer(0.2, link.preempt, [1])
        stop.start()
        with pytest.raises(LinkPreempted):
            link.read_message(b"\n", 60)
        stop.join()


def test_who_fills_the_memory_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prologix_link, "MOST_BYTES", 1024 * 1024)
    with (
        babbling(b"x" * 65_536, 0.0) as link,
        pytest.raises(LinkLost, match="bytes came without an end"),
    ):
        link.read_message(b"\n", 60)
