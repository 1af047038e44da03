"""The reports that a plan asks for, written when a unit under test, or the run, is over.

They lie in the folder ``reports`` of the recording: ``run.html``, and of the verdicts a file for
each unit at each try, or one for the run. One that cannot be written is a note of the run, and
changes nothing else.

Source: docs/experiments.md, "Reports".
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path
from typing import Final

from edged.errors import EdgedError, ErrorCode, Failed
from edged.experiments.model import Report
from edged.runs.recordings.reader import verdicts_of_run
from edged.runs.recordings.registry import RunRegistry

FOLDER: Final = "reports"
MOST_OF_A_NAME: Final = 80
_ODD: Final = re.compile(r"[^A-Za-z0-9_.-]+")


class RunReports:
    """Writes those of one run. On the event loop.

    Args:
        wanted: what the plan asks for; ``None``: nothing.
        make_html: makes the report of a run that people read.
        note: told why something could not be written.

    Attributes:
        files: the names of those that are there.
    """

    def __init__(
        self,
        runs: RunRegistry,
        run_id: str,
        wanted: Report | None,
        *,
        make_html: Callable[[str], Awaitable[bytes]],
        note: Callable[[str], None],
    ) -> None:
        self._runs = runs
        self._run_id = run_id
        self._wanted = wanted
        self._make_html = make_html
        self._note = note
        # Unit and try.
        self._over: set[tuple[str, int]] = set()
        self._turn = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []
        self.files: list[str] = []

    def unit_over(self, unit: str, try_number: int) -> None:
        """A unit under test is over: its verdict is written while the run goes on."""
        if self._wanted is None or self._wanted.per != "unit":
            return
        self._over.add((unit, try_number))
        writing = self._write_verdicts(self._wanted, self._over)
        self._tasks.append(asyncio.create_task(writing, name=f"{self._run_id}-report"))

    async def finish(self) -> None:
        """The run is over, and its recording closed: write all that is missing."""
        if self._wanted is None:
            return
        await asyncio.gather(*self._tasks)
        await self._write_verdicts(self._wanted, None)
        if "html" in self._wanted.formats:
            await self._noting("run.html", self._write_html())

    async def _write_verdicts(
        self, wanted: Report, over: Collection[tuple[str, int]] | None
    ) -> None:
        """Write those of the units that are over; ``None``: all are, and the run is."""
        forms = [form for form in wanted.formats if form != "html" or wanted.per == "unit"]
        if forms:
            async with self._turn:
                await self._noting(" and ".join(forms), self._write_files(wanted, over))

    async def _write_files(self, wanted: Report, over: Collection[tuple[str, int]] | None) -> None:
        await self._runs.written(self._run_id)
        known = frozenset(self.files)
        made = await self._runs.read(verdict_files, self._run_id, wanted, over, known)
        for name, text in made.items():
            await self._put(name, text)

    async def _write_html(self) -> None:
        await self._put("run.html", await self._make_html(self._run_id))

    async def _put(self, name: str, data: str | bytes) -> None:
        await self._runs.put_file(self._run_id, f"{FOLDER}/{name}", data)
        self.files.append(name)

    async def _noting(self, what: str, writing: Awaitable[None]) -> None:
        try:
            await writing
        except EdgedError as error:
            self._note(f"{FOLDER}: {what} could not be written: {error.message}")


def verdict_files(
    root: Path,
    run_id: str,
    wanted: Report,
    over: Collection[tuple[str, int]] | None,
    known: Collection[str],
) -> dict[str, str]:
    """Name → text of the files of verdicts that are to be written now. Reads the recording.

    Args:
        over: units and tries that are over; ``None``: the run is.
        known: names of those that are there.

    Raises:
        NotFound: UNKNOWN_RUN.
        Failed: RECORDING_FAILED, it cannot be read, or has no checks.
    """
    from edged.runs.recordings.unit_reports import junit, openhtf, unit_name  # with xml
    from edged.runs.report.unit_page import unit_page

    meta, results = verdicts_of_run(root, run_id)
    judges = any(form != "html" for form in wanted.formats)
    if over is None and judges and not any(result.checks for result in results):
        raise Failed("no check ran.", code=ErrorCode.RECORDING_FAILED)
    found: dict[str, str] = {}
    for number, result in enumerate(results, 1):
        stem = f"{number}-{_ODD.sub('_', unit_name(meta, result))[:MOST_OF_A_NAME]}"
        if over is not None and (result.unit, result.try_number) not in over:
            continue
        if "junit" in wanted.formats and wanted.per == "unit" and f"{stem}.xml" not in known:
            found[f"{stem}.xml"] = junit(meta, [result])
        is_page = "html" in wanted.formats and wanted.per == "unit" and bool(result.unit)
        if is_page and f"{stem}.html" not in known:
            found[f"{stem}.html"] = unit_page(meta, result)
        if "openhtf" in wanted.formats and f"{stem}.json" not in known:
            found[f"{stem}.json"] = f"{json.dumps(openhtf(meta, result))}\n"
    if "junit" in wanted.formats and wanted.per == "run" and over is None:
        found["run.xml"] = junit(meta, results)
    return found
