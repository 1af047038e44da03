"""Rows of the audit go when they are old enough: the task that sees to it."""

from __future__ import annotations

from typing import Final

import structlog

from edged.clock import Clock
from edged.errors import Failed
from edged.store.audit import Audit

__all__ = ["keep_retiring"]

EVERY_S: Final = 3600.0
DAY_MS: Final = 24 * 3600 * 1000


async def keep_retiring(audit: Audit, *, clock: Clock, retention_days: int) -> None:
    """Remove what is older than that, at once and every hour, until cancelled.

    Args:
        audit: whose rows.
        clock: for the age and the hour.
        retention_days: AUDIT_RETENTION_DAYS of the configuration.
    """
    log = structlog.get_logger("edged.store")
    while True:
        try:
            removed = await audit.retire(clock.wall_ms() - retention_days * DAY_MS)
        except Failed as failure:
            # The database says by itself how it is; the next hour comes.
            log.info("audit_not_retired", error=failure.message)
        else:
            if removed:
                log.info("audit_retired", rows=removed)
        await clock.sleep(EVERY_S)
