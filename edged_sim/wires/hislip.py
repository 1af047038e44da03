"""A HiSLIP 1.0 server for one instrument: synchronous and asynchronous channel, device clear."""

from __future__ import annotations

import asyncio

from edged.protocol.hislip import (
    HEADER,
    LARGEST_MESSAGE,
    SIZE,
    VERSION_1_0,
    FatalCode,
    HislipFatal,
    HislipMessage,
    MessageType,
    ProblemCode,
    message,
    read_header,
)
from edged.record import record
from edged_sim.faults import FaultKind
from edged_sim.wires.stream import LOOPBACK, Host, TcpListener, Visit, reset


class HislipMouth:
    """Answers as Data and DataEnd, in pieces that the client takes."""

    is_stream = False

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self.client_takes = LARGEST_MESSAGE
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
            kind = MessageType.DATA_END if is_end and number == len(pieces) else MessageType.DATA
            self._writer.write(message(kind, 0, tag, piece))
            await self._writer.drain()

    def end(self) -> None:
        self._writer.close()

    def reset(self) -> None:
        reset(self._writer)


@record(frozen=False, kw_only=False, eq=False)
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
        return f"TCPIP::{self._at}::hislip0,{self.port}::INSTR"

    @property
    def port(self) -> int:
        return self._listener.port

    @property
    def is_listening(self) -> bool:
        return self._listener.is_listening

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = await _receive(reader)
        if first is not None and first.kind == MessageType.INITIALIZE:
            await self._serve_sync(reader, writer)
        elif first is not None and first.kind == MessageType.ASYNC_INITIALIZE:
            await self._serve_async(reader, writer, first.parameter)
        else:
            writer.write(message(MessageType.FATAL_ERROR, FatalCode.BAD_INITIALIZATION))

    async def _serve_sync(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        mouth = HislipMouth(writer)
        visit = self._host.join(mouth)
        if visit is None:
            writer.write(message(MessageType.FATAL_ERROR, FatalCode.TOO_MANY_CLIENTS))
            return
        self._made = self._made % 0xFFFF + 1
        number = self._made
        session = HislipClient(visit, mouth, bytearray())
        self._sessions[number] = session
        preference = int(self.is_overlapped)
        writer.write(
            message(MessageType.INITIALIZE_RESPONSE, preference, VERSION_1_0 << 16 | number)
        )
        try:
            try:
                while (received := await _receive(reader)) is not None:
                    await self._hear(session, received, writer)
                writer.write(message(MessageType.FATAL_ERROR, FatalCode.BAD_HEADER))
            except (OSError, EOFError):
                pass  # the client is gone, in order or not
            await visit.finish()
        finally:
            del self._sessions[number]
            await visit.stop()

    async def _hear(
        self, session: HislipClient, received: HislipMessage, writer: asyncio.StreamWriter
    ) -> None:
        match received.kind:
            case MessageType.DATA | MessageType.DATA_END:
                if session.is_clearing:
                    return
                session.mouth.unread = None
                session.visit.arrived(received.payload)
                session.incoming += received.payload
                if received.kind == MessageType.DATA_END:
                    whole = bytes(session.incoming)
                    session.incoming.clear()
                    is_same = session.visit.is_under(FaultKind.SAME_ID)
                    tag = 0 if is_same else received.parameter
                    for line in whole.splitlines():
                        if line.strip():
                            await session.visit.hear(line, tag)
            case MessageType.DEVICE_CLEAR_COMPLETE:
                session.is_clearing = False
                session.incoming.clear()
                self.is_overlapped = bool(received.control & 1)
                writer.write(message(MessageType.DEVICE_CLEAR_ACKNOWLEDGE, received.control & 1))
            case MessageType.TRIGGER:
                pass
            case _:
                writer.write(message(MessageType.ERROR, ProblemCode.UNKNOWN_TYPE))

    async def _serve_async(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int
    ) -> None:
        session = self._sessions.get(number)
        if session is None:
            writer.write(message(MessageType.FATAL_ERROR, FatalCode.BAD_INITIALIZATION))
            return
        writer.write(message(MessageType.ASYNC_INITIALIZE_RESPONSE))
        try:
            while (received := await _receive(reader)) is not None:
                writer.write(await self._answer_async(session, received))
                await writer.drain()
        finally:
            # One channel without the other is no session.
            session.mouth.end()

    @staticmethod
    async def _answer_async(session: HislipClient, received: HislipMessage) -> bytes:
        match received.kind:
            case MessageType.ASYNC_MAXIMUM_MESSAGE_SIZE if len(received.payload) == 8:
                (takes,) = SIZE.unpack(received.payload)
                session.mouth.client_takes = max(64, min(takes, LARGEST_MESSAGE))
                return message(
                    MessageType.ASYNC_MAXIMUM_MESSAGE_SIZE_RESPONSE,
                    payload=SIZE.pack(LARGEST_MESSAGE),
                )
            case MessageType.ASYNC_DEVICE_CLEAR:
                session.is_clearing = True
                await session.visit.forget()
                session.mouth.unread = None
                return message(MessageType.ASYNC_DEVICE_CLEAR_ACKNOWLEDGE)
            case MessageType.ASYNC_STATUS_QUERY:
                if received.control & 1:
                    session.mouth.unread = None
                is_unread = session.mouth.unread in {received.parameter, 0}
                return message(
                    MessageType.ASYNC_STATUS_RESPONSE,
                    session.visit.status_byte(is_unread=is_unread),
                )
            case MessageType.ASYNC_LOCK:
                return message(MessageType.ASYNC_LOCK_RESPONSE, 1)
            case MessageType.ASYNC_LOCK_INFO:
                return message(MessageType.ASYNC_LOCK_INFO_RESPONSE)
            case MessageType.ASYNC_REMOTE_LOCAL_CONTROL:
                return message(MessageType.ASYNC_REMOTE_LOCAL_RESPONSE)
            case _:
                return message(MessageType.ERROR, ProblemCode.UNKNOWN_TYPE)


async def _receive(reader: asyncio.StreamReader) -> HislipMessage | None:
    """The next message; None where it is no HiSLIP or too long; EOFError at the end."""
    try:
        header = read_header(await reader.readexactly(HEADER.size))
    except HislipFatal:
        return None
    if header.length > LARGEST_MESSAGE:
        return None
    return HislipMessage(*header[:3], await reader.readexactly(header.length))
