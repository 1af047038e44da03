"""The HiSLIP port: who comes, what they open, and how long they may take to say so.

Until both connections of a session are there nothing was asked for, and nobody is believed: such
connections are few, their time is short, and what they say is a message of initialisation or the
end. The supervisor, which carries connections from the network, says first whose each is.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
from collections.abc import Callable
from dataclasses import field
from typing import Any, Final

import structlog

from edged.actions.caller import Caller, Route
from edged.actions.cause import ENGINE_STOPPED
from edged.clock import Clock
from edged.commands.leases import LeaseControl
from edged.errors import Conflict, EdgedError, ErrorCode
from edged.host import LOOPBACK, program_at
from edged.http.accepting import accept_all, connection_limit, listening_socket, raise_limit
from edged.log import surviving
from edged.protocol.hislip import (
    FIRST_VENDOR_TYPE,
    VERSION_1_0,
    FatalCode,
    HislipFatal,
    HislipMessage,
    MessageType,
    TooLarge,
    message,
)
from edged.record import part, record
from edged.surfaces.hislip.connection import HislipConnection
from edged.surfaces.hislip.names import HislipNames
from edged.surfaces.hislip.program import HislipProgram
from edged.surfaces.hislip.unit_locks import UnitLocks
from edged.surfaces.visa.desk import VisaDesk
from edged.surfaces.visa.session import VisaSession

VENDOR: Final = int.from_bytes(b"ED", "big")
MAX_CONNECTIONS: Final = 512
MAX_PROGRAMS: Final = 64
"""Sessions at one time; each may hold a message of megabytes that is not whole yet."""
MAX_UNOPENED: Final = 64
"""Connections that do not belong to a session yet."""
OPEN_WITHIN_S: Final = 5.0
LOOK_EVERY_S: Final = 1.0
MAX_NAME: Final = 256
FIND_PROGRAM_S: Final = 2.0

log = structlog.get_logger("edged.hislip")


def _nobody(_received: HislipMessage) -> str:
    """There is no supervisor."""
    return ""


@record
class HislipSettings:
    """What the owner configures.

    Attributes:
        is_port_shared: the supervisor listens on the same port elsewhere.
        peer_in: whose a connection is that the supervisor carries, by a message of its own in
            front of the client's; empty: nobody's.
    """

    port: int
    is_port_shared: bool = False
    peer_in: Callable[[HislipMessage], str] = _nobody


@record(frozen=False, kw_only=False, eq=False)
class _Unopened:
    """A connection that is no session's yet; with ``session``, one whose second is awaited.

    Attributes:
        since_s: since when the client has to do something.
    """

    connection: HislipConnection
    since_s: float
    session: VisaSession | None = None
    number: int = 0
    # The initialisation has come, and is being answered.
    opening: asyncio.Task[None] | None = field(default=None)


@part
class HislipServer:
    """The port and its programs; lives on the event loop.

    Attributes:
        desk: opens sessions.
        names: finds units.
        leases: says whether somebody else has a unit.
        program_of: names the program behind a port of loopback; may block.
        port: the bound one; 0 before.
    """

    settings: HislipSettings
    desk: VisaDesk
    names: HislipNames
    leases: LeaseControl
    clock: Clock
    program_of: Callable[[int], str] = program_at
    _max_connections: int = MAX_CONNECTIONS
    _listening: socket.socket | None = None
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)
    _connections: set[HislipConnection] = field(default_factory=set)
    _unopened: dict[HislipConnection, _Unopened] = field(default_factory=dict)
    _programs: set[HislipProgram] = field(default_factory=set)
    _closing: set[asyncio.Task[None]] = field(default_factory=set)
    _locks: dict[str, UnitLocks] = field(default_factory=dict)
    _numbers: set[int] = field(default_factory=set)
    port: int = 0

    @property
    def programs(self) -> list[dict[str, str]]:
        """Who is here, and at which unit."""
        return [
            {"instrument_id": one.session.instrument.id, "who": one.session.caller.who}
            for one in self._programs
        ]

    async def start(self) -> None:
        """Bind and accept.

        Raises:
            Failed: BIND_FAILED, with the reason.
        """
        raise_limit()
        self._max_connections = connection_limit(MAX_CONNECTIONS)
        self._listening = listening_socket(
            LOOPBACK,
            self.settings.port,
            name="hislip",
            is_port_shared=self.settings.is_port_shared,
        )
        self.port = self._listening.getsockname()[1]
        accepting = accept_all(self._listening, self._welcome, name="hislip", clock=self.clock)
        self._tasks = [
            asyncio.create_task(accepting, name="hislip accept"),
            asyncio.create_task(self._cut_slow(), name="hislip openings"),
        ]

    def close_door(self) -> None:
        """Accept no more; open sessions stay."""
        for task in self._tasks:
            task.cancel()
        if self._listening is not None:
            self._listening.close()
            self._listening = None

    async def stop(self) -> None:
        """Close the door and every session."""
        self.close_door()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        for program in tuple(self._programs):
            program.end(FatalCode.UNIDENTIFIED, "edged ends.", ENGINE_STOPPED)
        for waiting in tuple(self._unopened.values()):
            self._give_up(waiting)
        await asyncio.gather(*self._closing, return_exceptions=True)
        for locks in tuple(self._locks.values()):
            await locks.stop()
        for connection in tuple(self._connections):
            connection.abort()
        # Aborted transports close in the loop's next turn.
        await asyncio.sleep(0)
        self.names.close()

    # see ``Ears``: of connections that are no session's yet

    def heard(self, connection: HislipConnection, received: HislipMessage | TooLarge) -> None:
        waiting = self._unopened[connection]
        if isinstance(received, TooLarge) or len(received.payload) > MAX_NAME:
            raise HislipFatal(FatalCode.BAD_INITIALIZATION, "the first message is too long")
        if waiting.opening is not None:
            raise HislipFatal(
                FatalCode.CHANNEL_MISSING, "the asynchronous channel is not there yet"
            )
        match received.kind:
            case kind if kind >= FIRST_VENDOR_TYPE:
                self._learn_peer(connection, received)
            case MessageType.INITIALIZE:
                opening = self._open(waiting, received)
                waiting.opening = asyncio.create_task(opening, name="hislip open")
            case MessageType.ASYNC_INITIALIZE:
                self._join(waiting, received.parameter)
            case _:
                raise HislipFatal(
                    FatalCode.BAD_INITIALIZATION, "a session begins with its initialisation"
                )

    def lost(self, connection: HislipConnection) -> None:
        waiting = self._unopened.get(connection)
        if waiting is not None:
            self._give_up(waiting)

    # Opening

    async def _welcome(self, accepted: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        connection = _Counted(self)
        try:
            await loop.connect_accepted_socket(lambda: connection, accepted)
        except OSError:
            accepted.close()

    def opened(self, connection: HislipConnection) -> None:
        """A connection has been made; called by it."""
        self._connections.add(connection)
        self._unopened[connection] = _Unopened(connection, self.clock.monotonic())
        if len(self._unopened) > MAX_UNOPENED or len(self._connections) > self._max_connections:
            del self._unopened[connection]
            connection.end(FatalCode.TOO_MANY_CLIENTS, "Too many programs are connected.")

    def closed(self, connection: HislipConnection) -> None:
        """It is gone; called by it."""
        self._connections.discard(connection)

    def _learn_peer(self, connection: HislipConnection, received: HislipMessage) -> None:
        address = "" if connection.is_carried else self.settings.peer_in(received)
        if not address:
            raise HislipFatal(FatalCode.BAD_INITIALIZATION, "this message is unknown")
        connection.is_carried = True
        connection.remote = address

    async def _open(self, waiting: _Unopened, received: HislipMessage) -> None:
        """Find the unit, open a session, and tell the client its number."""
        connection = waiting.connection
        try:
            program = await self._describe(connection, received.parameter & 0xFFFF)
            # Without a session's key: a lock that several share is theirs by its lease's id alone.
            caller = Caller(route=Route.DIRECT, remote=connection.remote, client=program)
            # First: a refusal of a name lists those that there are.
            self.desk.authorize(caller)
            instrument = self.names.find(received.payload.decode("latin-1").rstrip("\0"))
            self._check_room()
            number = self._free_number()
            waiting.session = self.desk.open(instrument.id, program=program, caller=caller)
        except Conflict as busy:
            self._refuse(waiting, FatalCode.TOO_MANY_CLIENTS, str(busy))
        except EdgedError as refused:
            self._refuse(waiting, FatalCode.BAD_INITIALIZATION, str(refused))
        else:
            waiting.number = number
            waiting.since_s = self.clock.monotonic()
            self._numbers.add(number)
            connection.say(message(MessageType.INITIALIZE_RESPONSE, 0, VERSION_1_0 << 16 | number))

    def _check_room(self) -> None:
        if len(self._numbers) >= MAX_PROGRAMS:
            raise Conflict(
                f"{MAX_PROGRAMS} programs are connected already.",
                code=ErrorCode.BUSY,
                remedy="Close those that are not needed.",
            )

    async def _describe(self, connection: HislipConnection, vendor: int) -> str:
        """The program as the record shall call it: its maker's letters, its process where local."""
        letters = vendor.to_bytes(2, "big").decode("latin-1")
        shown = letters if letters.isalnum() else f"0x{vendor:04x}"
        where = ""
        if not connection.is_carried:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(FIND_PROGRAM_S):
                    where = await asyncio.to_thread(self.program_of, connection.peer_port)
        return f"HiSLIP {shown}, {where}" if where else f"HiSLIP {shown}"

    def _join(self, waiting: _Unopened, number: int) -> None:
        """The second connection of a session."""
        first = next(
            (one for one in self._unopened.values() if one.number == number and number), None
        )
        if (
            first is None
            or first.session is None
            or first.connection.remote != waiting.connection.remote
        ):
            raise HislipFatal(FatalCode.BAD_INITIALIZATION, f"there is no session {number} to join")
        synchronous, asynchronous = first.connection, waiting.connection
        del self._unopened[synchronous], self._unopened[asynchronous]
        session = first.session
        program = HislipProgram(
            session,
            synchronous,
            asynchronous,
            locks=self._locks_of(session),
            on_end=lambda ended: self._ended(ended, number),
        )
        self._programs.add(program)
        synchronous.ears = asynchronous.ears = program
        asynchronous.say(message(MessageType.ASYNC_INITIALIZE_RESPONSE, 0, VENDOR))

    def _locks_of(self, session: VisaSession) -> UnitLocks:
        unit = session.instrument.id
        if unit not in self._locks:
            self._locks[unit] = UnitLocks(self.leases, self.clock)
        return self._locks[unit]

    def _ended(self, program: HislipProgram, number: int) -> None:
        self._programs.discard(program)
        self._numbers.discard(number)
        self._close_later(program.close())

    def _give_up(self, waiting: _Unopened) -> None:
        """A connection whose session never came to be."""
        self._unopened.pop(waiting.connection, None)
        self._numbers.discard(waiting.number)
        if waiting.opening is not None:
            waiting.opening.cancel()
        if waiting.session is not None:
            self._close_later(waiting.session.close())
        waiting.connection.close()

    def _refuse(self, waiting: _Unopened, code: FatalCode, text: str) -> None:
        self._unopened.pop(waiting.connection, None)
        log.info("hislip_refused", remote=waiting.connection.remote, reason=text)
        waiting.connection.end(code, text)

    def _close_later(self, closing: Any) -> None:
        task: asyncio.Task[None] = asyncio.ensure_future(closing)
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def _free_number(self) -> int:
        while True:
            number = secrets.randbelow(0xFFFF) + 1
            if number not in self._numbers:
                return number

    async def _cut_slow(self) -> None:
        """Close connections of clients that have not done their part of an opening in time."""
        while True:
            await self.clock.sleep(LOOK_EVERY_S)
            before_s = self.clock.monotonic() - OPEN_WITHIN_S
            for waiting in tuple(self._unopened.values()):
                is_ours = waiting.opening is not None and not waiting.opening.done()
                if waiting.since_s <= before_s and not is_ours:
                    with surviving(log, "hislip_cut_failed"):
                        waiting.connection.end(
                            FatalCode.CHANNEL_MISSING, "The session was not opened in time."
                        )
                        self._give_up(waiting)


class _Counted(HislipConnection):
    """A connection that its server counts."""

    def __init__(self, server: HislipServer) -> None:
        super().__init__(server)
        self._server = server

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        super().connection_made(transport)
        self._server.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the loop."""
        super().connection_lost(exc)
        self._server.closed(self)
