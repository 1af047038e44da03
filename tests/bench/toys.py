"""Small instruments that answer bytes to lines: on a socket, a pty, or behind a Prologix adapter.

What they answer is written from public manuals and drivers by the test that uses them.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import threading
import tty
from collections.abc import Callable, Iterator, Mapping

Hear = Callable[[str], bytes]
"""What an instrument sends for a line; nothing where it is silent."""
VERSION = b"Prologix GPIB-ETHERNET Controller version 1.6.6.0\r\n"


class _Listener:
    """Serves each connection in a thread of its own, until it is closed."""

    def __init__(self, serve: Callable[[socket.socket], None]) -> None:
        self._serve = serve
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._peers: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                peer, _ = self._listener.accept()
                self._peers.append(peer)
                thread = threading.Thread(target=self._visit, args=(peer,))
                self._threads.append(thread)
                thread.start()

    def _visit(self, peer: socket.socket) -> None:
        with peer, contextlib.suppress(OSError):
            self._serve(peer)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for peer in self._peers:
            with contextlib.suppress(OSError):
                peer.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10)


@contextlib.contextmanager
def on_a_socket(hear: Hear, takes: bytes = b"\n") -> Iterator[str]:
    """An instrument on a raw socket; gives its address."""

    def serve(peer: socket.socket) -> None:
        begun = b""
        while data := peer.recv(4096):
            *lines, begun = (begun + data).split(takes)
            for line in lines:
                peer.sendall(hear(line.decode("latin-1").strip("\r\n")))

    listener = _Listener(serve)
    try:
        yield f"TCPIP::127.0.0.1::{listener.port}::SOCKET"
    finally:
        listener.close()


@contextlib.contextmanager
def on_a_pty(hear: Hear, takes: bytes = b"\r") -> Iterator[str]:
    """An instrument on a serial port; gives its address."""
    ours, theirs = os.openpty()
    tty.setraw(theirs)
    reader, writer = os.pipe()

    def serve() -> None:
        begun = b""
        while reader not in (ready := select.select([ours, reader], [], [])[0]):
            assert ours in ready
            *lines, begun = (begun + os.read(ours, 4096)).split(takes)
            for line in lines:
                if answer := hear(line.decode("latin-1").strip("\r\n")):
                    os.write(ours, answer)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"ASRL{os.ttyname(theirs)}::INSTR"
    finally:
        os.write(writer, b".")
        thread.join(5)
        for descriptor in (ours, theirs, reader, writer):
            os.close(descriptor)


@contextlib.contextmanager
def behind_prologix(instruments: Mapping[int, Hear]) -> Iterator[Callable[[int], str]]:
    """Instruments at GPIB addresses behind one adapter; gives what gives their addresses."""
    listener = _Listener(_Adapter(instruments).serve)
    try:
        yield lambda pad: f"PRLGX-TCPIP::127.0.0.1::{listener.port}::{pad}::INSTR"
    finally:
        listener.close()


class _Adapter:
    def __init__(self, instruments: Mapping[int, Hear]) -> None:
        self._instruments = instruments
        self._pad = 0
        self._mark = b"0"
        self._said: dict[int, bytes] = {}

    def serve(self, peer: socket.socket) -> None:
        begun = b""
        while data := peer.recv(65_536):
            begun += data
            while (end := _end_of_line(begun)) is not None:
                line, begun = begun[:end], begun[end + 1 :]
                peer.sendall(self._answer(line))

    def _answer(self, line: bytes) -> bytes:
        if not line.startswith(b"++"):
            plain = line.replace(b"\x1b", b"")
            hear = self._instruments.get(self._pad)
            if hear is not None:
                for each in plain.decode("latin-1").strip("\r\n").splitlines():
                    self._said[self._pad] = self._said.get(self._pad, b"") + hear(each)
            return b""
        word, *values = line.decode().split()
        match word:
            case "++ver":
                return VERSION
            case "++addr" if values:
                self._pad = int(values[0])
            case "++eot_char" if values:
                self._mark = values[0].encode()
            case "++eot_char":
                return self._mark + b"\r\n"
            case "++eot_enable" if not values:
                return b"1\r\n"
            case "++clr":
                self._said.pop(self._pad, None)
            case "++spoll":
                return b"%d\r\n" % (16 if self._said.get(self._pad) else 0)
            case "++read":
                said = self._said.pop(self._pad, b"")
                return said + bytes([int(self._mark)]) if said else b""
        return b""


def _end_of_line(data: bytes) -> int | None:
    """Where a line ends whose end is not escaped."""
    place = data.find(b"\n")
    while place > 0 and data[place - 1] == 0x1B:
        place = data.find(b"\n", place + 1)
    return None if place < 0 else place
