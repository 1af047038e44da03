"""Where a program that knows VISA comes first: what it may open, by which names, its sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from edged.actions.caller import Caller, client_text
from edged.actions.cause import CALLER_GONE, ENGINE_STOPPED, Cause
from edged.errors import Conflict, EdgedError, ErrorCode, NotFound
from edged.instruments.instrument import Instrument
from edged.instruments.pool import InstrumentPool
from edged.record import record
from edged.surfaces.visa.session import PERMISSION, VisaSession, VisaWork
from edged.transports.address import parse_address

MAX_SESSIONS: Final = 256
"""Sessions that may be open at once, of all programs together."""


@record
class VisaUnit:
    """A unit that can be opened.

    Attributes:
        name: how the bench calls it: its alias, else its id.
        addresses: its VISA names, the one that it is worked by first.
    """

    name: str
    instrument_id: str
    alias: str
    serial: str
    model: str
    addresses: tuple[str, ...]


class VisaDesk:
    """Opens sessions; lives on the event loop.

    Args:
        pool: the units.
        authorize: raises ``Refused`` where a caller may not use the tool of that name.
        work: what sessions work with.
    """

    def __init__(
        self, pool: InstrumentPool, authorize: Callable[[Caller, str], None], work: VisaWork
    ) -> None:
        self._pool = pool
        self._authorize = authorize
        self._work = work
        # The longest open first.
        self._sessions: dict[VisaSession, None] = {}
        self._closing: set[asyncio.Task[None]] = set()

    @property
    def session_count(self) -> int:
        """Sessions that are open."""
        return len(self._sessions)

    def authorize(self, caller: Caller) -> None:
        """Judge who may open anything; asked before a name is looked up, too.

        Raises:
            Refused: NOT_ALLOWED, the caller may not use send_scpi.
        """
        self._authorize(caller, PERMISSION)

    def units(self) -> list[VisaUnit]:
        """What can be opened, in the order of the bench."""
        return [
            VisaUnit(
                name=one.called,
                instrument_id=one.id,
                alias=one.alias,
                serial=one.identity.serial,
                model=one.identity.model,
                addresses=(one.address, *one.alternatives),
            )
            for one in self._pool.all()
        ]

    def open(
        self, name: str, *, program: str, caller: Caller, timeout_s: float | None = None
    ) -> VisaSession:
        """A session of a program on a unit.

        Args:
            name: a VISA name, alias, id or serial number.
            program: what the record calls it.
            caller: who it is; known again by its session or its lease.
            timeout_s: see ``VisaSession``.

        Raises:
            Refused: NOT_ALLOWED, it may not use send_scpi.
            NotFound: UNKNOWN_INSTRUMENT, naming those there are.
            Conflict: BUSY, too many sessions are open.
        """
        self.authorize(caller)
        instrument = self.find(name)
        if len(self._sessions) >= MAX_SESSIONS and not self._make_room():
            raise Conflict(
                f"{MAX_SESSIONS} VISA sessions are open already.",
                code=ErrorCode.BUSY,
                remedy="Close those that are not needed.",
            )
        session = VisaSession(
            self._work,
            instrument,
            replace(caller, client=client_text(program) or caller.client),
            timeout_s=timeout_s,
            on_close=self._forget,
        )
        self._sessions[session] = None
        return session

    def _make_room(self) -> bool:
        """Let one go whose program was killed, as far as anybody can tell; whether there is one.

        Its session of MCP would keep it until that has been idle for long.
        """
        left = next((one for one in self._sessions if one.is_left), None)
        if left is None:
            return False
        self._forget(left)
        self.leave([left])
        return True

    def _forget(self, session: VisaSession) -> None:
        self._sessions.pop(session, None)

    def find(self, name: str) -> Instrument:
        """The unit of that name, in whatever case or spelling VISA has for it.

        Raises:
            NotFound: UNKNOWN_INSTRUMENT, naming those there are.
        """
        try:
            return self._pool.get(name)
        except NotFound as unknown:
            found = self._find_loosely(name)
            if found is None:
                raise unknown from None
            return found

    def leave(self, sessions: Iterable[VisaSession], cause: Cause = CALLER_GONE) -> None:
        """These are over: their client is gone, or the engine stops."""
        for session in sessions:
            task = asyncio.create_task(session.close(cause), name="visa session closes")
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def stop(self) -> None:
        """Every one is over: the daemon stops."""
        self.leave(tuple(self._sessions), ENGINE_STOPPED)
        await asyncio.gather(*self._closing, return_exceptions=True)

    def _find_loosely(self, name: str) -> Instrument | None:
        """By a VISA name that is spelled otherwise, or a name in another case."""
        key = _key(name)
        for one in self._pool.all():
            if key and key in map(_key, (one.address, *one.alternatives)):
                return one
        alike = [
            one
            for one in self._pool.all()
            if name.casefold() in {one.alias.casefold(), one.id.casefold()}
        ]
        return alike[0] if len(alike) == 1 else None


def _key(name: str) -> str:
    try:
        return parse_address(name).key
    except EdgedError:
        return ""
