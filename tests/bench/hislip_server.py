"""A HiSLIP server that answers as a test lays out: which messages, with which ids, after which."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from edged.protocol.hislip import HEADER, SIZE, HislipMessage, MessageType, message, read_header


@dataclass(frozen=True)
class Said:
    """One message to the client."""

    payload: bytes
    message_id: int
    kind: int = MessageType.DATA_END
    control: int = 0


@dataclass
class HislipServer:
    """``answer`` gets the message id and the line, and gives what is said then."""

    answer: Callable[[int, str], list[Said]]
    refusal: Said | None = None
    stays_overlapped: bool = False
    heard: list[tuple[int, str]] = field(default_factory=list)
    clears: int = 0
    sessions: int = 0
    status_byte: int = 0
    port: int = 0

    @property
    def address(self) -> str:
        return f"TCPIP::127.0.0.1::hislip0,{self.port}::INSTR"

    def serve(self, peer: socket.socket) -> None:
        with peer, contextlib.suppress(OSError, EOFError):
            while True:
                for said in self._replies(_received(peer)):
                    framed = message(said.kind, said.control, said.message_id, said.payload)
                    peer.sendall(framed)

    def _replies(self, received: HislipMessage) -> list[Said]:
        match received.kind:
            case MessageType.INITIALIZE:
                self.sessions += 1
                overlap = int(self.stays_overlapped)
                greeting = Said(b"", 0x0100 << 16 | self.sessions, kind=1, control=overlap)
                return [self.refusal or greeting]
            case MessageType.ASYNC_INITIALIZE:
                return [Said(b"", 0, kind=18)]
            case MessageType.ASYNC_MAXIMUM_MESSAGE_SIZE:
                return [Said(SIZE.pack(1 << 20), 0, kind=16)]
            case MessageType.ASYNC_DEVICE_CLEAR:
                self.clears += 1
                return [Said(b"", 0, kind=23)]
            case MessageType.ASYNC_STATUS_QUERY:
                return [Said(b"", 0, kind=22, control=self.status_byte)]
            case MessageType.DEVICE_CLEAR_COMPLETE:
                return [Said(b"", 0, kind=9, control=int(self.stays_overlapped))]
            case MessageType.DATA_END:
                line = received.payload.decode().strip()
                self.heard.append((received.parameter, line))
                return self.answer(received.parameter, line)
        return [Said(b"", 0, kind=MessageType.ERROR, control=1)]


def _received(peer: socket.socket) -> HislipMessage:
    header = read_header(_exactly(peer, HEADER.size))
    return HislipMessage(*header[:3], _exactly(peer, header.length))


def _exactly(peer: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        new = peer.recv(count - len(data))
        if not new:
            raise EOFError
        data += new
    return data


@contextlib.contextmanager
def hislip_server(server: HislipServer) -> Iterator[HislipServer]:
    """``server`` on a port of loopback, each connection on a thread of its own."""
    listener = socket.create_server(("127.0.0.1", 0))
    server.port = listener.getsockname()[1]
    threads: list[threading.Thread] = []
    peers: list[socket.socket] = []

    def take() -> None:
        with contextlib.suppress(OSError):
            while True:
                peer, _ = listener.accept()
                peers.append(peer)
                threads.append(threading.Thread(target=server.serve, args=(peer,)))
                threads[-1].start()

    taker = threading.Thread(target=take)
    taker.start()
    try:
        yield server
    finally:
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        taker.join(5)
        for peer in peers:
            with contextlib.suppress(OSError):
                peer.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join(5)
