"""A HiSLIP 1.0 server for one instrument: synchronous and asynchronous channel, device clear."""

from __future__ import annotations

import asyncio
import struct
from dataclasses import dataclass
from typing import Final

from edged.sim.faults import FaultKind
from edged.sim.wires.stream import LOOPBACK, Host, TcpListener, Visit, reset

__all__ = ["HislipWire"]

HEADER: Final = struct.Struct("!2sBBIQ")
INITIALIZE, INITIALIZE_RESPONSE, FATAL_ERROR, ERROR = 0, 1, 2, 3
ASYNC_LOCK, ASYNC_LOCK_RESPONSE, DATA, DATA_END = 4, 5, 6, 7
CLEAR_COMPLETE, CLEAR_ACKNOWLEDGE, REMOTE, REMOTE_RESPONSE, TRIGGER = 8, 9, 10, 11, 12
MAX_SIZE, MAX_SIZE_RESPONSE, ASYNC_INITIALIZE, ASYNC_INITIALIZE_RESPONSE = 15, 16, 17, 18
ASYNC_CLEAR, STATUS_QUERY, STATUS_RESPONSE, ASYNC_CLEAR_ACKNOWLEDGE = 19, 21, 22, 23
LOCK_INFO, LOCK_INFO_RESPONSE = 24, 25
VERSION_1_0: Final = 0x0100
LONGEST_MESSAGE: Final = 1024 * 1024
"""What the server takes in one message, header included."""
TOO_MANY_CLIENTS, BAD_HEADER, BAD_SEQUENCE = 4, 1, 3


def message(kind: int, control: int = 0, parameter: int = 0, payload: bytes = b"") -> bytes:
    """One message with its header."""
    return HEADER.pack(b"HS", kind, control, parameter, len(payload)) + payload


@dataclass(frozen=True, slots=True)
class Received:
    """One message from the client."""

    kind: int
    control: int
    parameter: int
    payload: bytes


class HislipMouth:
    """Answers as Data and DataEnd, in pieces that the client takes."""

    is_stream = False

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self.client_takes = LONGEST_MESSAGE
        # The message whose answer went out and was not yet said to have been read: MAV.
        self.unread: int | None = None

    async def say(self, data: bytes, *, is_end: bool, tag: int) -> None:
        """See ``Mouth``; ``tag`` is the message id."""
        if self._writer.is_closing():
            return
        self.unread = tag
        size = self.client_takes - HEADER.size
        pieces = [data[start : start + size] for start in range(0, len(data), size)]
        for number, piece in enumerate(pieces, 1):
            kind = DATA_END if is_end and number == len(pieces) else DATA
            self._writer.write(message(kind, 0, tag, piece))
            await self._writer.drain()

    def end(self) -> None:
        """See ``Mouth``."""
        self._writer.close()

    def reset(self) -> None:
        """See ``Mouth``."""
        reset(self._writer)


@dataclass(slots=True, eq=False)
class HislipClient:
    """The two channels of one client; ``incoming`` is a message that is not whole yet."""

    visit: Visit
    mouth: HislipMouth
    incoming: bytearray
    is_clearing: bool = False


class HislipWire:
    """See ``Wire``; both channels come to one port."""

    def __init__(self, host: Host, at: str = LOOPBACK) -> None:
        self._host = host
        self._at = at
        self._listener = TcpListener(self._serve, at)
        self.open = self._listener.open
        self.power_on = self._listener.power_on
        self.power_off = self._listener.power_off
        self.close = self._listener.close
        self._sessions: dict[int, HislipClient] = {}
        self._made = 0
        # As some instruments come: a client that wants one answer a question has to say so.
        self.is_overlapped = False

    @property
    def address(self) -> str:
        """See ``Wire``."""
        return f"TCPIP::{self._at}::hislip0,{self.port}::INSTR"

    @property
    def port(self) -> int:
        """See ``Wire``."""
        return self._listener.port

    @property
    def is_listening(self) -> bool:
        """See ``Wire``."""
        return self._listener.is_listening

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = await _receive(reader)
        if first is not None and first.kind == INITIALIZE:
            await self._serve_sync(reader, writer)
        elif first is not None and first.kind == ASYNC_INITIALIZE:
            await self._serve_async(reader, writer, first.parameter)
        else:
            writer.write(message(FATAL_ERROR, BAD_SEQUENCE))

    async def _serve_sync(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        mouth = HislipMouth(writer)
        visit = self._host.join(mouth)
        if visit is None:
            writer.write(message(FATAL_ERROR, TOO_MANY_CLIENTS))
            return
        self._made = self._made % 0xFFFF + 1
        number = self._made
        session = HislipClient(visit, mouth, bytearray())
        self._sessions[number] = session
        preference = int(self.is_overlapped)
        writer.write(message(INITIALIZE_RESPONSE, preference, VERSION_1_0 << 16 | number))
        try:
            try:
                while (received := await _receive(reader)) is not None:
                    await self._hear(session, received, writer)
                writer.write(message(FATAL_ERROR, BAD_HEADER))
            except (OSError, EOFError):
                pass  # the client is gone, in order or not
            await visit.finish()
        finally:
            del self._sessions[number]
            await visit.stop()

    async def _hear(
        self, session: HislipClient, received: Received, writer: asyncio.StreamWriter
    ) -> None:
        match received.kind:
            case kind if kind in (DATA, DATA_END):
                if session.is_clearing:
                    return
                session.mouth.unread = None
                session.visit.arrived(received.payload)
                session.incoming += received.payload
                if kind == DATA_END:
                    whole = bytes(session.incoming)
                    session.incoming.clear()
                    is_same = session.visit.is_under(FaultKind.SAME_ID)
                    tag = 0 if is_same else received.parameter
                    for line in whole.splitlines():
                        if line.strip():
                            await session.visit.hear(line, tag)
            case kind if kind == CLEAR_COMPLETE:
                session.is_clearing = False
                session.incoming.clear()
                self.is_overlapped = bool(received.control & 1)
                writer.write(message(CLEAR_ACKNOWLEDGE, received.control & 1))
            case kind if kind == TRIGGER:
                pass
            case _:
                writer.write(message(ERROR, 1))

    async def _serve_async(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int
    ) -> None:
        session = self._sessions.get(number)
        if session is None:
            writer.write(message(FATAL_ERROR, BAD_SEQUENCE))
            return
        writer.write(message(ASYNC_INITIALIZE_RESPONSE))
        try:
            while (received := await _receive(reader)) is not None:
                writer.write(await self._answer_async(session, received))
                await writer.drain()
        finally:
            # One channel without the other is no session.
            session.mouth.end()

    @staticmethod
    async def _answer_async(session: HislipClient, received: Received) -> bytes:
        match received.kind:
            case kind if kind == MAX_SIZE and len(received.payload) == 8:
                (takes,) = struct.unpack("!Q", received.payload)
                session.mouth.client_takes = max(64, min(takes, LONGEST_MESSAGE))
                return message(MAX_SIZE_RESPONSE, payload=struct.pack("!Q", LONGEST_MESSAGE))
            case kind if kind == ASYNC_CLEAR:
                session.is_clearing = True
                await session.visit.forget()
                session.mouth.unread = None
                return message(ASYNC_CLEAR_ACKNOWLEDGE)
            case kind if kind == STATUS_QUERY:
                if received.control & 1:
                    session.mouth.unread = None
                is_unread = session.mouth.unread in {received.parameter, 0}
                return message(STATUS_RESPONSE, session.visit.status_byte(is_unread=is_unread))
            case kind if kind == ASYNC_LOCK:
                return message(ASYNC_LOCK_RESPONSE, 1)
            case kind if kind == LOCK_INFO:
                return message(LOCK_INFO_RESPONSE)
            case kind if kind == REMOTE:
                return message(REMOTE_RESPONSE)
            case _:
                return message(ERROR, 1)


async def _receive(reader: asyncio.StreamReader) -> Received | None:
    """The next message; None where it is no HiSLIP or too long; EOFError at the end."""
    prologue, kind, control, parameter, length = HEADER.unpack(
        await reader.readexactly(HEADER.size)
    )
    if prologue != b"HS" or length > LONGEST_MESSAGE:
        return None
    return Received(kind, control, parameter, await reader.readexactly(length))
