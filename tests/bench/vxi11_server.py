"""A VXI-11 server whose calls end as a test lays out: by an error number, or refused by RPC."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

CREATE_LINK, WRITE, READ, READ_STATUS = 10, 11, 12, 13
LAST_FRAGMENT = 0x8000_0000
PARAMETER_ERROR = 5


@dataclass
class Vxi11Server:
    """``errors``: procedure → device error. ``statuses``: procedure → RPC's own accept status.

    ``keeps_back``: bytes at the end of an answer that never come. ``most``: how many bytes it says
    that it takes at once, and refuses more; ``takes``: how many it takes. ``overstates``: a reply
    announces so many bytes more than it has. What it was sent is its answer.
    """

    errors: dict[int, int] = field(default_factory=dict)
    statuses: dict[int, int] = field(default_factory=dict)
    status_byte: int = 0
    keeps_back: int = 0
    most: int = 1024
    takes: int = 1024
    overstates: int = 0
    called: list[int] = field(default_factory=list)
    port: int = 0
    _said: bytes = b""

    @property
    def address(self) -> str:
        return f"TCPIP::127.0.0.1,{self.port}::inst0::INSTR"

    def serve(self, peer: socket.socket) -> None:
        with peer, contextlib.suppress(OSError, EOFError):
            while True:
                (mark,) = struct.unpack(">I", _exactly(peer, 4))
                record = _exactly(peer, mark & ~LAST_FRAGMENT)
                call_id, procedure = (struct.unpack_from(">I", record, at)[0] for at in (0, 20))
                self.called.append(procedure)
                status = self.statuses.get(procedure, 0)
                body = struct.pack(">IIIIII", call_id, 1, 0, 0, 0, status)
                body += b"" if status else self._result(procedure, record[40:])
                record = struct.pack(">I", LAST_FRAGMENT | len(body)) + body
                kept = self.keeps_back if procedure == READ else 0
                peer.sendall(record[: len(record) - kept])

    def _result(self, procedure: int, arguments: bytes) -> bytes:
        error = self.errors.get(procedure, 0)
        match procedure:
            case _ if procedure == CREATE_LINK:
                return struct.pack(">IIII", error, 1, 0, self.most)
            case _ if procedure == WRITE:
                (size,) = struct.unpack_from(">I", arguments, 16)
                if size > (self.most or size):
                    return struct.pack(">II", PARAMETER_ERROR, 0)
                taken = min(size, self.takes)
                self._said += arguments[20 : 20 + taken]
                return struct.pack(">II", error, taken)
            case _ if procedure == READ:
                said, self._said = self._said, b""
                announced = len(said) + self.overstates
                return struct.pack(">III", error, 4, announced) + said + bytes(-len(said) % 4)
            case _ if procedure == READ_STATUS:
                return struct.pack(">II", error, self.status_byte)
        return struct.pack(">I", error)


def _exactly(peer: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        new = peer.recv(count - len(data))
        if not new:
            raise EOFError
        data += new
    return data


@contextlib.contextmanager
def vxi11_server(server: Vxi11Server) -> Iterator[Vxi11Server]:
    """``server`` on a port of loopback, one connection after the other."""
    listener = socket.create_server(("127.0.0.1", 0))
    server.port = listener.getsockname()[1]
    peers: list[socket.socket] = []

    def take() -> None:
        with contextlib.suppress(OSError):
            while True:
                peer, _ = listener.accept()
                peers.append(peer)
                server.serve(peer)

    taker = threading.Thread(target=take)
    taker.start()
    try:
        yield server
    finally:
        for ending in (listener, *peers):
            with contextlib.suppress(OSError):
                ending.shutdown(socket.SHUT_RDWR)
        listener.close()
        taker.join(5)
