"""Rows of the audit go when they are old enough: the task that sees to it.

What it goes by is the clock of a machine that may have none of its own. One that is ahead makes
every row old, and what is removed is gone for good: so nothing is removed while the clock is not to
be believed, and at most a day's worth of rows at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import structlog

from edged.clock import RELEASED_MS, Clock
from edged.errors import Failed
from edged.store.audit import Audit

__all__ = ["Retention", "why_implausible"]

EVERY_S: Final = 3600.0
DAY_S: Final = 24 * 3600.0
DAY_MS: Final = 24 * 3600 * 1000


def why_implausible(
    *, now_ms: int, expected_ms: int | None, built_ms: int, is_synchronized: bool | None
) -> str:
    """Why a clock is not to be believed; empty where nothing speaks against it.

    Args:
        now_ms: what it says, Unix epoch milliseconds.
        expected_ms: the newest row of the record and the time that has passed since it was found;
            ``None`` where there is no row.
        built_ms: when this program was made.
        is_synchronized: whether a time service keeps it right; ``None`` where nobody tells.
    """
    if now_ms < built_ms:
        return "the clock says a time before this program was made"
    if is_synchronized is False:
        return "this machine's time service has not set the clock yet"
    if expected_ms is not None and now_ms > expected_ms + DAY_MS:
        days = (now_ms - expected_ms) / DAY_MS
        return f"the clock is {days:.1f} days ahead of the newest row"
    return ""


@dataclass(slots=True, kw_only=True)
class Retention:
    """Removes what is older than so many days.

    Attributes:
        audit: whose rows.
        clock: for the age and the hour.
        days: AUDIT_RETENTION_DAYS of the configuration.
        is_synchronized: see ``why_implausible``.
        waits: why nothing is removed now, or empty.
    """

    audit: Audit
    clock: Clock
    days: int
    is_synchronized: Callable[[], bool | None]
    waits: str = ""
    # What the clock has to agree with: a time, and the monotonic clock at that moment.
    _believed: tuple[int, float] | None = field(default=None, init=False)
    # The same, of what the clock has said since its last jump.
    _steady: tuple[int, float] | None = field(default=None, init=False)

    async def keep(self) -> None:
        """Remove a day's worth at once and every hour, until cancelled."""
        newest_ms = self.audit.newest_before_ms
        if newest_ms is not None:
            self._believed = (newest_ms, self.clock.monotonic())
        while True:
            await self._look()
            await self.clock.sleep(EVERY_S)

    async def _look(self) -> None:
        now_ms = self.clock.wall_ms()
        self._watch_steadiness(now_ms)
        before, self.waits = (
            self.waits,
            why_implausible(
                now_ms=now_ms,
                expected_ms=self._since(self._believed),
                built_ms=RELEASED_MS,
                is_synchronized=self.is_synchronized(),
            ),
        )
        log = structlog.get_logger("edged.store")
        if self.waits:
            if self.waits != before:
                log.warning("audit_retention_waits", reason=self.waits)
            return
        try:
            oldest_ms = await self.audit.oldest_ms(now_ms)
            if oldest_ms is None:
                return
            removed = await self.audit.retire(min(now_ms - self.days * DAY_MS, oldest_ms + DAY_MS))
        except Failed as failure:
            # The database says by itself how it is; the next hour comes.
            log.info("audit_not_retired", error=failure.message)
        else:
            if removed:
                log.info("audit_retired", rows=removed)

    def _watch_steadiness(self, now_ms: int) -> None:
        """Believe a clock after a gap in the record, once it has gone evenly for a day.

        A bench that was off for weeks has no newer row, and is right all the same.
        """
        expected_ms = self._since(self._steady)
        if self._steady is None or expected_ms is None or abs(now_ms - expected_ms) > DAY_MS:
            self._steady = (now_ms, self.clock.monotonic())
        elif self.clock.monotonic() - self._steady[1] >= DAY_S:
            self._believed = self._steady

    def _since(self, known: tuple[int, float] | None) -> int | None:
        """What the clock should say by a time that was known and what has passed since."""
        if known is None:
            return None
        known_ms, at_s = known
        return known_ms + round((self.clock.monotonic() - at_s) * 1000)
