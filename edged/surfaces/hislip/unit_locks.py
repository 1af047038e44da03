"""A unit's HiSLIP locks in force: what the table grants is a lease for those whom it lets write.

One lease for all who hold locks of the unit. It is presented by those alone whom no exclusive lock
shuts out, so that the command path refuses the others' writes as it refuses anybody's.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

import structlog

from edged.clock import Clock
from edged.commands.leases import LeaseControl, LeaseStanding
from edged.errors import EdgedError
from edged.protocol.hislip import LockResult
from edged.surfaces.hislip.locks import LockBook
from edged.surfaces.visa.session import VisaSession

RENEW_EVERY_S: Final = 20.0
"""A lock's lease lasts a minute: two may fail."""

log = structlog.get_logger("edged.hislip")


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
