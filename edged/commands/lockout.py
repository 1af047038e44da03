"""Lockout: hands are in the fixture, so nothing may change what this instrument puts out.

A lockout is in force from the moment it is asked for; then what runs on the instrument is stopped,
and it is written down. What refuses writes meanwhile is ``holds.locked_out``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from edged.errors import EdgedError, ErrorCode, Failed, Invalid, NotFound
from edged.instruments.address import parse_address
from edged.instruments.pool import InstrumentPool
from edged.store.lockouts import Lockouts
from edged.work.units import unit_of_instrument

__all__ = ["LockoutDesk", "StopOn"]

Names = list[str]
StopOn = Callable[[str], Awaitable[Sequence[str]]]
"""Ends what runs on the instrument with that id; returns the ids of what it ended."""


class LockoutDesk:
    """Sets and lifts lockouts.

    Args:
        pool: the instruments.
        lockouts: where they are kept.
        stop_on: what ends work on an instrument; all are asked at once.
        is_wrapper: whether a name is the id of an SDK wrapper, which is locked out like one.
    """

    def __init__(
        self,
        *,
        pool: InstrumentPool,
        lockouts: Lockouts,
        stop_on: Sequence[StopOn],
        is_wrapper: Callable[[str], bool] = lambda _name: False,
    ) -> None:
        self._pool = pool
        self._lockouts = lockouts
        self._stop_on = tuple(stop_on)
        self._is_wrapper = is_wrapper

    async def set(self, name: str, *, reason: str, by: str) -> dict[str, Any]:
        """Lock an instrument out, and stop what runs there.

        Args:
            name: id, alias or serial number; of an instrument that is not here, its address.
            reason: why; shown to everybody who is refused.
            by: who says so.

        Returns:
            The lockout, with ``is_present``, ``stopped`` (ids of what was ended), ``failures`` of
            that, and ``is_persisted``: written down, so that it outlives the daemon.

        Raises:
            NotFound: UNKNOWN_INSTRUMENT.
        """
        instrument_id, unit = self._identify(name)
        saving = asyncio.create_task(
            self._lockouts.lock(instrument_id, unit=unit, reason=reason, by=by)
        )
        # One turn of the loop: from here on it is in force, before anything is stopped.
        await asyncio.sleep(0)
        stopped, failures = await self._stop(instrument_id)
        remark = ""
        try:
            await saving
        except Failed as unsaved:
            remark = str(unsaved)
        lockout = self._lockouts.find(instrument_id, unit)
        return {
            **(lockout.to_json() if lockout else {}),
            "is_present": bool(unit) or self._is_wrapper(instrument_id),
            "is_persisted": not remark,
            "remark": remark,
            "stopped": stopped,
            "failures": failures,
        }

    async def clear(self, name: str) -> dict[str, Any]:
        """Lift a lockout.

        Raises:
            NotFound: UNKNOWN_INSTRUMENT, there is no such lockout.
            Failed: STORE_FAILED; it stays locked out.
        """
        return (await self._lockouts.clear(self._locked_id(name))).to_json()

    async def _stop(self, instrument_id: str) -> tuple[Names, Names]:
        """End what runs there; ids of what was ended, and what went wrong."""
        stopped: Names = []
        failures: Names = []
        for ended in await asyncio.gather(
            *(stop(instrument_id) for stop in self._stop_on), return_exceptions=True
        ):
            if isinstance(ended, BaseException):
                failures.append(_told(ended))
            else:
                stopped.extend(ended)
        return stopped, failures

    def list(self) -> list[dict[str, Any]]:
        """All lockouts, oldest first."""
        return [lockout.to_json() for lockout in self._lockouts.all()]

    def _identify(self, name: str) -> tuple[str, str]:
        """Id and unit; of an instrument that is not here its address must do."""
        if self._is_wrapper(name):
            return name, ""
        try:
            instrument = self._pool.get(name)
        except NotFound:
            try:
                return parse_address(name).text, ""
            except Invalid:
                pass
            raise
        return instrument.id, unit_of_instrument(instrument).key

    def _locked_id(self, name: str) -> str:
        """The id under which it was locked out: itself, or that of the unit it names now."""
        if self._lockouts.find(name):
            return name
        instrument_id, unit = self._identify(name)
        found = self._lockouts.find(instrument_id, unit)
        if found is None:
            raise NotFound(
                f"{instrument_id} is not locked out.",
                code=ErrorCode.UNKNOWN_INSTRUMENT,
                data={"locked_out": [lock.instrument_id for lock in self._lockouts.all()]},
                remedy="`edged lockout` lists what is.",
            )
        return found.instrument_id


def _told(error: BaseException) -> str:
    return str(error) if isinstance(error, EdgedError) else type(error).__name__
