"""A Prologix adapter, or a look-alike, on a socket of its own; what it is like is laid out."""

from __future__ import annotations

import contextlib
import socket
import threading

from tests.bench.waiting import HANGS_S

VERSION = b"Prologix GPIB-ETHERNET Controller version 1.6.6.0\r\n"


class Adapter:
    """An adapter on loopback, with one instrument that answers each question by its own words.

    ``greeting`` is said to whoever connects. Unless ``knows_mark``, ``++eot_char`` is no order it
    knows. What is in ``kept`` is said before the first answer of the next connection. While
    ``is_stuck`` it hears nothing after a ``++read``, on that connection. Where it ``marks_ends``,
    it knows ``++eot_enable``. ``parts`` are what the next question is answered by, a read each; the
    last one ends by EOI, unless it is empty.
    """

    def __init__(
        self,
        *,
        greeting: bytes = b"",
        knows_mark: bool = True,
        kept: bytes = b"",
        marks_ends: bool = False,
    ) -> None:
        self.greeting, self.knows_mark, self.kept = greeting, knows_mark, kept
        self.marks_ends = marks_ends
        self.parts: list[bytes] = []
        self.heard: list[str] = []
        self.answers: dict[str, str] = {}
        self.news = threading.Condition()
        self.is_stuck = False
        self.babble: tuple[bytes, float] | None = None
        self.is_over = threading.Event()
        self._mark = b"0"
        self._said: list[bytes] = []
        self._has_eoi = False
        self._peers: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._threads = [threading.Thread(target=self._take)]
        self._threads[0].start()

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    @property
    def address(self) -> str:
        return f"TCPIP::127.0.0.1::{self.port}::SOCKET"

    def say(self, data: bytes) -> None:
        """To all that are connected, unasked."""
        for peer in self._peers:
            with contextlib.suppress(OSError):
                peer.sendall(data)

    def wait_for(self, line: str) -> None:
        with self.news:
            assert self.news.wait_for(lambda: line in self.heard, HANGS_S)

    def _take(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                peer, _ = self._listener.accept()
                self._peers.append(peer)
                self._threads.append(threading.Thread(target=self._serve, args=(peer,)))
                self._threads[-1].start()

    def _serve(self, peer: socket.socket) -> None:
        with peer, contextlib.suppress(OSError):
            peer.sendall(self.greeting + self.kept)
            self.kept = b""
            for line in peer.makefile("rb"):
                order = line.replace(b"\x1b", b"").strip().decode()
                is_stuck = self.is_stuck
                with self.news:
                    self.heard.append(order)
                    self.news.notify_all()
                if order.startswith("++read "):
                    while self.babble and not self.is_over.wait(self.babble[1]):
                        peer.sendall(self.babble[0])
                    if is_stuck:
                        self.is_over.wait(30)
                        return
                peer.sendall(self._answer(order))
                if order.startswith("++read ") and not self._has_eoi:
                    # The next order waits until its time of silence is over.
                    self.is_over.wait(0.1)

    def _answer(self, order: str) -> bytes:
        word, _, value = order.partition(" ")
        match word:
            case "++ver":
                return VERSION
            case "++eot_char" if not self.knows_mark:
                return b"Unrecognized command\r\n"
            case "++eot_char" if value:
                self._mark = value.encode()
            case "++eot_char":
                return self._mark + b"\r\n"
            case "++eot_enable" if self.marks_ends and not value:
                return b"1\r\n"
            case "++read":
                return self._read()
            case _ if not word.startswith("++") and "?" in word:
                self._said = self.parts or [self.answers.get(order, f"{order}!").encode() + b"\n"]
                self.parts = []
        return b""

    def _read(self) -> bytes:
        said = self._said.pop(0) if self._said else b""
        self._has_eoi = bool(said) and not self._said
        return said + bytes([int(self._mark)]) if self._has_eoi and self.marks_ends else said

    def close(self) -> None:
        self.is_over.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for peer in self._peers:
            with contextlib.suppress(OSError):
                peer.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10)
