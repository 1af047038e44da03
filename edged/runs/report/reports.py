"""Reports of runs: made one at a time, each with a bound of time and size."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from edged.errors import Conflict, ErrorCode, Failed
from edged.runs.recordings.registry import RunRegistry

MAX_REPORT_BYTES: Final = 16 * 1024 * 1024
MOST_WAITING: Final = 4
"""The one that is being made among them."""
LONGEST_S: Final = 300.0
"""Of which nearly all is for hashing what is long; a gigabyte takes some seconds."""


class Maker(Protocol):
    """Makes one; see ``making.ReportMaker``."""

    async def make(self, run_id: str) -> bytes: ...


class Reports:
    """The door to them.

    Args:
        new_maker: loads what makes them; called once, on the thread that reads recordings, when
            the first one is asked for.
    """

    def __init__(self, *, runs: RunRegistry, new_maker: Callable[[], Maker]) -> None:
        self._runs = runs
        self._new_maker = new_maker
        self._maker: Maker | None = None
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
                made = await self._make(run_id)
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

    async def _make(self, run_id: str) -> bytes:
        maker = self._maker
        if maker is None:
            maker = self._maker = await self._runs.read(lambda _root: self._new_maker())
        return await maker.make(run_id)
