"""Makes one report: everything that costs time is done on the thread that reads recordings.

Loaded when the first one is asked for, which most lives of the daemon never see.
"""

from __future__ import annotations

import contextlib
from datetime import date

from edged import __version__
from edged.errors import EdgedError, NotFound
from edged.runs.bench import Bench
from edged.runs.recordings.registry import RunRegistry
from edged.runs.report.document import document_of
from edged.runs.report.facts import (
    Material,
    RecordRow,
    RecordRows,
    Standing,
    report_of,
    span_of,
    unit_ids,
)
from edged.runs.report.gather import FileHash, RecordedRun, look_at, take_piece
from edged.runs.report.parts import Report
from edged.store.audit.run_rows import RunRow


class ReportMaker:
    """Implements ``Maker``."""

    def __init__(self, bench: Bench, runs: RunRegistry) -> None:
        self._bench = bench
        self._runs = runs

    async def make(self, run_id: str) -> bytes:
        report = await self._report(run_id)
        return await self._runs.read(lambda _root: document_of(report))

    async def _report(self, run_id: str) -> Report:
        await self._runs.closed(run_id)
        is_open = await self._runs.written(run_id) is not None
        found = await self._runs.read(look_at, run_id)
        for file in found.files:
            while await self._runs.read(take_piece, file):
                pass
        material = Material(
            run_id=run_id,
            meta=found.meta,
            path=str(found.directory),
            figures=found.figures,
            undrawn=found.undrawn,
            extract=found.extract,
            files=tuple(map(FileHash.told, found.files)),
            record=await self._record(run_id, found),
        )
        standing = Standing(
            now_ms=self._bench.clock.wall_ms(),
            version=__version__,
            dues=self._dues(found),
            is_open=is_open and found.meta.get("status") == "running",
        )
        return await self._runs.read(lambda _root: report_of(material, standing))

    async def _record(self, run_id: str, found: RecordedRun) -> RecordRows:
        begun, ended = span_of(found.meta)
        try:
            rows = await self._bench.store.audit.of_run(run_id, since_ms=begun, until_ms=ended)
        except EdgedError as error:
            return RecordRows(trouble=error.message)
        return RecordRows(
            first=tuple(map(_told, rows.first)),
            last=tuple(map(_told, rows.last)),
            total=rows.total,
            digest=rows.digest,
            is_whole=rows.is_whole,
            head_seq=rows.head_seq,
            head_hash=rows.head_hash,
        )

    def _dues(self, found: RecordedRun) -> dict[str, date]:
        dues: dict[str, date] = {}
        for name in unit_ids(found.meta):
            with contextlib.suppress(NotFound):
                due = self._bench.pool.get(name).rules.calibration_due
                if due is not None:
                    dues[name] = due
        return dues


def _told(row: RunRow) -> RecordRow:
    what = " ".join(filter(None, (row.tool, row.command if row.command != row.tool else "")))
    is_begin = row.phase == "intent"
    return RecordRow(
        seq=row.seq,
        time_ms=row.time_ms,
        what=f"{what} (intent)" if is_begin else what,
        outcome=row.outcome,
        hash=row.hash,
    )
