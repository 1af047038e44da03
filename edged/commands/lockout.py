"""Lockout: hands are in the fixture, so nothing may change what this instrument puts out.

A lockout is in force from the moment it is asked for; then what runs on the instrument is stopped,
and it is written down. What refuses writes meanwhile is ``holds.locked_out``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from edged.errors import EdgedError, ErrorCode, Invalid, NotFound
from edged.runs.bench import Bench
from edged.runs.units import unit_of_instrument
from edged.transports.address import parse_address

Names = list[str]
Meant = list[tuple[str, str]]
"""Ids of instruments, each with the key of its unit; empty where that is not known."""
StopOn = Callable[[str], Awaitable[Sequence[str]]]
"""Ends what runs on the instrument with that id; returns the ids of what it ended."""


class LockoutControl:
    """Sets and lifts lockouts.

    Args:
        stop_on: what ends work on an instrument; all are asked at once.
        is_wrapper: whether a name is the id of an SDK wrapper, which is locked out like one.
    """

    def __init__(
        self, bench: Bench, *, stop_on: Sequence[StopOn], is_wrapper: Callable[[str], bool]
    ) -> None:
        self._bench = bench
        self._stop_on = tuple(stop_on)
        self._is_wrapper = is_wrapper

    async def set(self, name: str, *, reason: str, by: str, joins: bool = False) -> dict[str, Any]:
        """Lock an instrument out, and stop what runs there.

        A name or serial number that several have locks all of them out, and so does the id of one
        that tells another's serial number: which of them it is nobody could say after a restart.

        Args:
            name: id, alias or serial number; of an instrument that is not here, its address.
            reason: why; shown to everybody who is refused.
            by: who says so.
            joins: what somebody else said before stands, and is told with this: who lifts it sees
                both. Else it is replaced.

        Returns:
            The lockout, with ``instrument_ids`` (all that it holds for), ``is_present``,
            ``stopped`` (ids of what was ended), ``failures`` of that, and ``is_persisted``: written
            down, so that it outlives the daemon.

        Raises:
            NotFound: UNKNOWN_INSTRUMENT.
        """
        meant = self._meant(name)
        # Units that tell one serial number share a lockout.
        first = {
            unit or instrument_id: (instrument_id, unit) for instrument_id, unit in meant[::-1]
        }
        saving = [
            asyncio.create_task(self._lock(key, unit, reason, by, joins=joins))
            for key, unit in first.values()
        ]
        # One turn of the loop: from here on it is in force, before anything is stopped.
        await asyncio.sleep(0)
        stopped, failures = await self._stop([instrument_id for instrument_id, _ in meant])
        saved = await asyncio.gather(*saving, return_exceptions=True)
        remarks = [_told(error) for error in saved if isinstance(error, BaseException)]
        (instrument_id, unit), *_ = meant
        lockout = self._bench.store.lockouts.find(instrument_id, unit)
        return {
            **(lockout.to_json() if lockout else {}),
            "instrument_ids": [key for key, _ in meant],
            "is_present": bool(unit) or self._is_wrapper(instrument_id),
            "is_persisted": not remarks,
            "remark": " ".join(remarks),
            "stopped": stopped,
            "failures": failures,
        }

    async def clear(self, name: str) -> dict[str, Any]:
        """Lift a lockout; by a name that several have, that of each.

        Returns:
            The first that was lifted, with ``still_locked``: those that hold all the same, because
            another unit that tells the same serial number was locked out by itself.

        Raises:
            NotFound: UNKNOWN_INSTRUMENT, there is no such lockout.
            Failed: STORE_FAILED; it stays locked out.
        """
        lifted = [await self._bench.store.lockouts.clear(key) for key in self._locked_ids(name)]
        held = (self._bench.store.lockouts.find(lock.instrument_id, lock.unit) for lock in lifted)
        still = {lock.instrument_id: lock.to_json() for lock in held if lock is not None}
        return {**lifted[0].to_json(), "still_locked": list(still.values())}

    async def _lock(self, key: str, unit: str, reason: str, by: str, *, joins: bool) -> None:
        stands = self._bench.store.lockouts.find(key, unit) if joins else None
        if stands is not None:
            is_told = by == stands.by or f"; {by}: " in stands.reason
            more = "" if is_told else f"; {by}: {reason}"
            reason, by = f"{stands.reason.rstrip('.')}{more}", stands.by
        await self._bench.store.lockouts.lock(key, unit=unit, reason=reason, by=by)

    async def _stop(self, instrument_ids: Names) -> tuple[Names, Names]:
        """End what runs on these; ids of what was ended, and what went wrong."""
        stopped: Names = []
        failures: Names = []
        for ended in await asyncio.gather(
            *(stop(key) for key in instrument_ids for stop in self._stop_on),
            return_exceptions=True,
        ):
            if isinstance(ended, BaseException):
                failures.append(_told(ended))
            else:
                stopped.extend(ended)
        return stopped, failures

    def list(self) -> list[dict[str, Any]]:
        """All lockouts, oldest first."""
        return [lockout.to_json() for lockout in self._bench.store.lockouts.all()]

    def _meant(self, name: str) -> Meant:
        """Id and unit of all that it holds for; of what is not here its address must do."""
        if self._is_wrapper(name):
            return [(name, "")]
        bearers = self._bench.pool.bearers(name)
        if bearers:
            alike = [other for bearer in bearers for other in self._bench.pool.alike(bearer)]
            units = {i.id: unit_of_instrument(i).key for i in (*bearers, *alike)}
            return list(units.items())
        try:
            return [(parse_address(name).text, "")]
        except Invalid:
            self._bench.pool.get(name)
            raise

    def _locked_ids(self, name: str) -> Names:
        """The ids under which it was locked out: itself, or those of the units it names now."""
        if self._bench.store.lockouts.find(name):
            return [name]
        meant = self._meant(name)
        found = [self._bench.store.lockouts.find(key, unit) for key, unit in meant]
        ids = list(dict.fromkeys(lock.instrument_id for lock in found if lock is not None))
        if not ids:
            raise NotFound(
                f"{meant[0][0]} is not locked out.",
                code=ErrorCode.UNKNOWN_INSTRUMENT,
                data={
                    "locked_out": [lock.instrument_id for lock in self._bench.store.lockouts.all()]
                },
                remedy="`edged lockout` lists what is locked out.",
            )
        return ids


def _told(error: BaseException) -> str:
    return str(error) if isinstance(error, EdgedError) else type(error).__name__
