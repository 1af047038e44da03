"""A unit's HiSLIP locks in force: what the table grants is a lease for those whom it lets write.

One lease for all who hold locks of the unit. It is presented by those alone whom no exclusive lock
shuts out, so that the command path refuses the others' writes as it refuses anybody's.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Hashable
from typing import Final

import structlog

from edged.clock import Clock
from edged.commands.leases import LeaseControl, LeaseStanding
from edged.errors import EdgedError
from edged.protocol.hislip import LockResult
from edged.surfaces.visa.session import VisaSession

RENEW_EVERY_S: Final = 20.0
"""A lock's lease lasts a minute: two may fail."""

log = structlog.get_logger("edged.hislip")


class LockBook:
    """Who of the server's clients holds which lock of one unit: the standard's table, pure.

    An exclusive lock and one shared by all who know its string exist side by side: whoever holds
    the shared one may have the exclusive one besides.

    Source: IVI-6.1, HiSLIP 1.0, 6.5 (AsyncLock) and its table of lock states.

    Attributes:
        key: the shared lock's string while somebody holds it; else empty.
    """

    def __init__(self) -> None:
        self.key = ""
        self._exclusive: Hashable | None = None
        self._shared: set[Hashable] = set()

    def request(self, client: Hashable, key: str) -> LockResult:
        """Grant a lock if it is free now; a failure may be asked again when something changed.

        Args:
            client: who asks.
            key: the shared lock's string; empty for the exclusive lock.
        """
        if not key:
            return self._request_exclusive(client)
        if client in self._shared or self._exclusive == client:
            return LockResult.ERROR
        if self._shared:
            # Whoever knows the string may share, though one of them holds the exclusive lock.
            if key != self.key:
                return LockResult.FAILURE
        elif self._exclusive is not None:
            return LockResult.FAILURE
        self.key = key
        self._shared.add(client)
        return LockResult.SUCCESS

    def _request_exclusive(self, client: Hashable) -> LockResult:
        if self._exclusive == client:
            return LockResult.ERROR
        if self._exclusive is not None or (self._shared and client not in self._shared):
            return LockResult.FAILURE
        self._exclusive = client
        return LockResult.SUCCESS

    def release(self, client: Hashable) -> LockResult:
        """Give one lock back; of two the exclusive one first."""
        if self._exclusive == client:
            self._exclusive = None
            return LockResult.SUCCESS
        if client in self._shared:
            self._shared.discard(client)
            if not self._shared:
                self.key = ""
            return LockResult.SHARED_RELEASED
        return LockResult.ERROR

    def leave(self, client: Hashable) -> bool:
        """The client is gone, and its locks with it; whether it had any."""
        had = False
        while self.release(client) is not LockResult.ERROR:
            had = True
        return had

    def holds(self, client: Hashable) -> bool:
        """Whether this client has any lock."""
        return self._exclusive == client or client in self._shared

    def is_shut_out(self, client: Hashable) -> bool:
        """Whether another client's lock keeps this one from writing."""
        if self._exclusive is not None:
            return self._exclusive != client
        return bool(self._shared) and client not in self._shared

    @property
    def is_exclusive(self) -> bool:
        """Whether somebody holds the exclusive lock."""
        return self._exclusive is not None

    @property
    def holder_count(self) -> int:
        """Clients that hold locks; who holds both counts once."""
        others = 0 if self._exclusive is None or self._exclusive in self._shared else 1
        return len(self._shared) + others


class UnitLocks:
    """The locks of one unit.

    Args:
        leases: knows whose the unit is.
        clock: for deadlines.
    """

    def __init__(self, leases: LeaseControl, clock: Clock) -> None:
        self._leases = leases
        self._clock = clock
        self._book = LockBook()
        self._members: set[VisaSession] = set()
        # The lease that the locks are; empty while there is none.
        self._lease_id = ""
        self._renewing: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        # Leases are asked for and given back one after the other.
        self._turn = asyncio.Lock()

    def told_to(self, session: VisaSession) -> tuple[bool, int]:
        """Whether somebody has the exclusive lock, and how many have any; a lease is one, too."""
        self.look()
        if not self._book.holder_count:
            is_held = self._standing(session) is LeaseStanding.ANOTHERS
            return is_held, int(is_held)
        return self._book.is_exclusive, self._book.holder_count

    def look(self) -> None:
        """Forget the locks if their lease has ended, by its time or by its owner's word."""
        presenting = next((m for m in self._members if m.has_lock), None)
        if (
            self._lease_id
            and presenting is not None
            and self._standing(presenting) is not LeaseStanding.OWN
        ):
            self._lose()

    async def acquire(self, session: VisaSession, key: str, timeout_s: float) -> LockResult:
        """Grant a lock, or wait for it."""
        self.look()
        until_s = self._clock.monotonic() + timeout_s
        while (result := self._book.request(session, key)) is LockResult.FAILURE:
            left_s = until_s - self._clock.monotonic()
            if left_s <= 0:
                return result
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await self._changed.wait()
        if result is LockResult.SUCCESS:
            self._members.add(session)
            if not await self._lease(session, max(0.0, until_s - self._clock.monotonic())):
                return LockResult.FAILURE
        return result

    async def release(self, session: VisaSession) -> LockResult:
        """Give a lock back."""
        result = self._book.release(session)
        if result is not LockResult.ERROR:
            await self._settle(session)
        return result

    async def leave(self, session: VisaSession) -> None:
        """The client is gone."""
        if self._book.leave(session):
            await self._settle(session)

    async def stop(self) -> None:
        """End what is under way."""
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.gather(self._renewing, return_exceptions=True)
            self._renewing = None

    async def _lease(self, session: VisaSession, timeout_s: float) -> bool:
        """Have the lease that stands behind the locks; whether there is one."""
        try:
            async with self._turn:
                if not self._lease_id:
                    self._lease_id = await session.lock(timeout_s)
                    self._renewing = asyncio.create_task(self._renew(), name="hislip lock")
        except (EdgedError, asyncio.CancelledError) as refused:
            self._book.release(session)
            await self._settle(session)
            if isinstance(refused, asyncio.CancelledError):
                raise
            return False
        self._present()
        return True

    async def _settle(self, session: VisaSession) -> None:
        """Somebody has given a lock back: the last one gives back the lease, too."""
        if not self._book.holds(session):
            self._members.discard(session)
        async with self._turn:
            if self._lease_id and not self._book.holder_count:
                await self.stop()
                session.hold_lock(self._lease_id)
                self._lease_id = ""
                await session.unlock()
            else:
                session.hold_lock("")
        self._present()
        self._changed.set()

    def _present(self) -> None:
        for one in self._members:
            one.hold_lock("" if self._book.is_shut_out(one) else self._lease_id)

    async def _renew(self) -> None:
        """Keep the lease; one that its owner has broken takes the locks with it."""
        while True:
            await self._clock.sleep(RENEW_EVERY_S)
            holder = next((m for m in self._members if not self._book.is_shut_out(m)), None)
            try:
                if holder is not None:
                    await holder.renew_lock()
            except EdgedError as ended:
                log.info("hislip_lock_lost", reason=ended.message)
                self._lose()
                return

    def _standing(self, session: VisaSession) -> LeaseStanding:
        return self._leases.standing(session.caller, session.instrument)

    def _lose(self) -> None:
        if self._renewing is not None and self._renewing is not asyncio.current_task():
            self._renewing.cancel()
        self._renewing = None
        self._lease_id = ""
        for one in tuple(self._members):
            self._book.leave(one)
            one.hold_lock("")
        self._members.clear()
        self._changed.set()
