"""Reports of runs: made one at a time, each with a bound of time and size."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from edged.errors import Conflict, ErrorCode, Failed
from edged.runs.bench import Bench
from edged.runs.recordings.registry import RunRegistry

MAX_REPORT_BYTES: Final = 16 * 1024 * 1024
MOST_WAITING: Final = 4
"""The one that is being made among them."""
LONGEST_S: Final = 300.0
"""Of which nearly all is for hashing what is long; a gigabyte takes some seconds."""


class Reports:
    """The door to them."""

    def __init__(self, bench: Bench, runs: RunRegistry) -> None:
        self._bench = bench
        self._runs = runs
        self._turn = asyncio.Lock()
        self._waiting = 0

    async def make(self, run_id: str) -> bytes:
        """The report of a run, under way or over: one HTML file, served under ``document.POLICY``.

        Raises:
            NotFound: UNKNOWN_RUN.
            Conflict: BUSY, too many wait for theirs.
            Failed: RECORDING_FAILED, or it took too long.
        """
        if self._waiting >= MOST_WAITING:
            raise Conflict(
                f"{MOST_WAITING} reports wait to be made already.", remedy="Ask again in a moment."
            )
        self._waiting += 1
        try:
            async with asyncio.timeout(LONGEST_S), self._turn:
                make = await self._runs.read(_load)
                made = await make(self._bench, self._runs, run_id)
        except TimeoutError:
            raise Failed(
                f"The report was not made within {LONGEST_S:g} s.",
                code=ErrorCode.RECORDING_FAILED,
                remedy="Ask again when less is read and written.",
            ) from None
        finally:
            self._waiting -= 1
        if len(made) > MAX_REPORT_BYTES:
            raise Failed(
                f"The report has {len(made) // 1024 // 1024} MiB, over "
                f"{MAX_REPORT_BYTES // 1024 // 1024}.",
                code=ErrorCode.RECORDING_FAILED,
                remedy="`edged runs export` gives the data.",
            )
        return made


def _load(_root: Path) -> Callable[[Bench, RunRegistry, str], Awaitable[bytes]]:
    # Most lives of the daemon never see a report, and need not wait for what makes them.
    from edged.runs.report.making import make_report

    return make_report
