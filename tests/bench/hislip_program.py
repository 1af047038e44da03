"""A program that speaks HiSLIP on bare sockets: says exactly what a test wants said, hides nothing.

It keeps the standard's rules by default (message ids, RMT-delivered, the maximum message size), so
that what a test breaks is what it wants broken.
"""

from __future__ import annotations

import contextlib
import socket
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from edged.protocol.hislip import (
    FIRST_MESSAGE_ID,
    HEADER,
    SIZE,
    HislipMessage,
    LockResult,
    MessageType,
    message,
    next_message_id,
    read_header,
)
from tests.bench.waiting import HANGS_S

VERSION_AND_VENDOR = 0x0100 << 16 | int.from_bytes(b"zz", "big")


class HislipEnded(Exception):
    """A FatalError, or the end of the connection."""


@dataclass(slots=True)
class Line:
    """One connection."""

    socket: socket.socket

    @classmethod
    def to(cls, port: int, host: str = "127.0.0.1") -> Line:
        line = socket.create_connection((host, port), HANGS_S)
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return cls(line)

    def send(self, kind: int, control: int = 0, parameter: int = 0, payload: bytes = b"") -> None:
        self.socket.sendall(message(kind, control, parameter, payload))

    def receive(self, within_s: float = HANGS_S) -> HislipMessage:
        """The next message, whatever it is; TimeoutError, or HislipEnded at the end."""
        self.socket.settimeout(within_s)
        header = read_header(self._exactly(HEADER.size))
        return HislipMessage(*header[:3], self._exactly(header.length))

    def next(self, within_s: float = HANGS_S) -> HislipMessage:
        """The next message; a FatalError raises with its code and words."""
        received = self.receive(within_s)
        if received.kind == MessageType.FATAL_ERROR:
            raise HislipEnded(f"{received.control}: {received.payload.decode('ascii', 'replace')}")
        return received

    def is_ended(self, within_s: float = HANGS_S) -> bool:
        """Whether the server closes it, whatever it says before."""
        self.socket.settimeout(within_s)
        try:
            while self.socket.recv(65_536):
                pass
        except TimeoutError:
            return False
        except OSError:
            pass
        return True

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            new = self.socket.recv(count - len(data))
            if not new:
                raise HislipEnded("the connection ended")
            data += new
        return data

    def close(self) -> None:
        self.socket.close()

    def reset(self) -> None:
        """Gone without a word of goodbye: what a killed computer's gateway sends."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        self.socket.close()


@dataclass(slots=True)
class HislipProgram:
    """A session with both connections.

    Attributes:
        heard: errors and interruptions that came on the synchronous channel.
    """

    sync: Line
    asynchronous: Line
    next_id: int = FIRST_MESSAGE_ID
    last_id: int = FIRST_MESSAGE_ID - 2
    is_overlapped: bool = False
    heard: list[HislipMessage] = field(default_factory=list)
    _has_read: bool = False

    @classmethod
    def open(cls, port: int, name: str = "hislip0", host: str = "127.0.0.1") -> HislipProgram:
        sync = Line.to(port, host)
        asynchronous: Line | None = None
        try:
            sync.send(MessageType.INITIALIZE, 0, VERSION_AND_VENDOR, name.encode())
            opened = sync.next()
            assert opened.kind == MessageType.INITIALIZE_RESPONSE
            assert opened.parameter >> 16 == 0x0100
            asynchronous = Line.to(port, host)
            asynchronous.send(MessageType.ASYNC_INITIALIZE, 0, opened.parameter & 0xFFFF)
            assert asynchronous.next().kind == MessageType.ASYNC_INITIALIZE_RESPONSE
        except BaseException:
            sync.close()
            if asynchronous is not None:
                asynchronous.close()
            raise
        program = cls(sync, asynchronous)
        program.agree_on_size(1 << 20)
        return program

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self.sync.close()
        self.asynchronous.close()

    def agree_on_size(self, takes: int) -> int:
        payload = SIZE.pack(takes)
        answer = self.ask_async(MessageType.ASYNC_MAXIMUM_MESSAGE_SIZE, payload=payload)
        (server_takes,) = SIZE.unpack(answer.payload)
        return int(server_takes)

    def write(self, text: str | bytes, *, pieces: int = 1) -> int:
        """One program message; returns its id."""
        data = text.encode() if isinstance(text, str) else text
        step = max(1, -(-len(data) // pieces))
        cut = [data[at : at + step] for at in range(0, len(data), step)] or [b""]
        for number, piece in enumerate(cut, 1):
            kind = MessageType.DATA_END if number == len(cut) else MessageType.DATA
            self.sync.send(kind, self._read_flag(), self.next_id, piece)
            self._sent()
        return self.last_id

    def set(self, text: str) -> None:
        """A write that has been carried out when this returns."""
        self.write(text)
        assert self.query("*OPC?").strip() == "1"

    def trigger(self) -> None:
        self.sync.send(MessageType.TRIGGER, self._read_flag(), self.next_id)
        self._sent()

    def read(self, within_s: float = HANGS_S) -> bytes:
        """The answer to the last message; older ones are dropped, as the standard wants it."""
        data = b""
        while True:
            received = self.sync.next(within_s)
            if received.kind not in {MessageType.DATA, MessageType.DATA_END}:
                self.heard.append(received)
                continue
            if not self.is_overlapped and received.parameter != self.last_id:
                continue
            data += received.payload
            if received.kind == MessageType.DATA_END:
                self._has_read = True
                return data

    def query(self, text: str, within_s: float = HANGS_S) -> str:
        self.write(text)
        return self.read(within_s).decode().rstrip("\r\n")

    def refusal(self, text: str, within_s: float = HANGS_S) -> str:
        """What is said to a message that is refused."""
        self.write(text)
        received = self.sync.next(within_s)
        assert received.kind == MessageType.ERROR, received
        return received.payload.decode()

    def is_silent(self, for_s: float = 0.3) -> bool:
        """Whether nothing is said on the synchronous channel."""
        with contextlib.suppress(TimeoutError):
            self.heard.append(self.sync.next(for_s))
            return False
        return True

    def status(self) -> int:
        flag = self._read_flag()
        return self.ask_async(MessageType.ASYNC_STATUS_QUERY, flag, self.last_id).control

    def clear(self, *, overlapped: bool = False) -> None:
        self.ask_async(MessageType.ASYNC_DEVICE_CLEAR)
        self.sync.send(MessageType.DEVICE_CLEAR_COMPLETE, int(overlapped))
        while (received := self.sync.next()).kind != MessageType.DEVICE_CLEAR_ACKNOWLEDGE:
            pass
        assert received.control == int(overlapped)
        self.is_overlapped = overlapped
        self.next_id, self.last_id = FIRST_MESSAGE_ID, FIRST_MESSAGE_ID - 2
        self._has_read = False

    def lock(self, key: str = "", timeout_s: float = 0.0) -> LockResult:
        answer = self.ask_async(
            MessageType.ASYNC_LOCK, 1, round(timeout_s * 1000), key.encode(), HANGS_S + timeout_s
        )
        return LockResult(answer.control)

    def unlock(self) -> LockResult:
        return LockResult(self.ask_async(MessageType.ASYNC_LOCK, 0, self.last_id).control)

    def lock_info(self) -> tuple[bool, int]:
        """Whether somebody has the exclusive lock, and how many have any."""
        answer = self.ask_async(MessageType.ASYNC_LOCK_INFO)
        return bool(answer.control), answer.parameter

    def ask_async(
        self,
        kind: int,
        control: int = 0,
        parameter: int = 0,
        payload: bytes = b"",
        within_s: float = HANGS_S,
    ) -> HislipMessage:
        self.asynchronous.send(kind, control, parameter, payload)
        while (answer := self.asynchronous.next(within_s)).kind == MessageType.ASYNC_INTERRUPTED:
            pass
        return answer

    def _read_flag(self) -> int:
        has_read, self._has_read = self._has_read, False
        return int(has_read)

    def _sent(self) -> None:
        self.last_id = self.next_id
        self.next_id = next_message_id(self.next_id)
