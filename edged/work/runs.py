"""Recorded data of sweeps, streams and tables: the user's own files under DATA_DIR/runs.

Rows are taken on the event loop and written by one thread, which appends and syncs once a second.
Nothing here ever deletes data. Over DATA_BUDGET_MB, and while the disk refuses, new recordings are
refused and the measurement goes on without: a recording that is refused says why and takes nothing.

Source: SPEC.md section 7.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import structlog

from edged.clock import Clock
from edged.instruments.pool import InstrumentPool
from edged.work.ports import NewId, Perform
from edged.work.recording import Recording
from edged.work.run_files import Array, Row, RunFiles, write_meta
from edged.work.run_head import RunHead
from edged.work.run_marks import claim_marks, drop_mark, repair_interrupted, set_mark, used_bytes
from edged.work.run_meta import asker, first_meta, iso, read_settings

__all__ = ["RunBook"]

SYNC_EVERY_S: Final = 1.0
MEASURE_EVERY_S: Final = 600.0
SETTINGS_WITHIN_S: Final = 1.0
"""How much longer what came to its end may take for the settings of its instruments."""
CAME_TO_ITS_END: Final = frozenset({"ended", "completed"})
MEBIBYTE: Final = 1024 * 1024
RUN_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")

T = TypeVar("T")


class RunBook:
    """The recordings under way, and the door to those on disk. Implements ``ports.Recorder``.

    Args:
        data_dir: DATA_DIR.
        budget_mb: DATA_BUDGET_MB.
        pool: tells who the instruments are.
        perform, new_id: the command path, by which settings are asked.
    """

    def __init__(
        self,
        *,
        data_dir: Path,
        budget_mb: int,
        pool: InstrumentPool,
        perform: Perform,
        new_id: NewId,
        clock: Clock,
    ) -> None:
        self.root = data_dir / "runs"
        # Set once what a killed daemon left is whole again.
        self.mended = asyncio.Event()
        self._budget = budget_mb * MEBIBYTE
        self._pool = pool
        self._perform = perform
        self._new_id = new_id
        self._clock = clock
        self._open: dict[str, Recording] = {}
        self._used = 0
        self._error = ""
        self._log = structlog.get_logger("edged.runs")
        self._writer = _one_thread("edged-runs")
        self._reader = _one_thread("edged-run-reads")
        self._tasks: list[asyncio.Task[None]] = []
        self._listeners: list[Callable[[str], None]] = []

    def subscribe(self, listener: Callable[[str], None]) -> Callable[[], None]:
        """Tell of each recording that has begun or ended, by its id; gives what ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def start(self) -> None:
        """Mend what a killed daemon left, measure what is there, and sync each second from now."""
        # First on the writer's thread: what is begun from now on is not to be mended.
        claimed = asyncio.get_running_loop().run_in_executor(self._writer, claim_marks, self.root)
        self._tasks = [
            asyncio.create_task(self._mend_and_measure(claimed), name="runs-measure"),
            asyncio.create_task(self._sync_forever(), name="runs-sync"),
        ]

    async def stop(self) -> None:
        """Everything that has come is on disk when this returns."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for recording in tuple(self._open.values()):
            await self.close(recording, "interrupted", {})
        self._writer.shutdown(wait=True)
        self._reader.shutdown(wait=False, cancel_futures=True)

    def status(self) -> dict[str, Any]:
        """{path, open, used_mb, budget_mb, is_full, error}: for get_status and doctor."""
        return {
            "path": str(self.root),
            "open": len(self._open),
            "used_mb": round(self._used / MEBIBYTE, 3),
            "budget_mb": self._budget // MEBIBYTE,
            "is_full": self._used >= self._budget,
            "error": self._error,
        }

    async def open(self, head: RunHead) -> Recording:
        """See ``Recorder``."""
        recording = Recording(head=head, meta=first_meta(head, self._pool, self._clock), book=self)
        if self._used >= self._budget:
            return self._refuse(
                recording,
                f"No new recordings: {self._used // MEBIBYTE} MiB are recorded and DATA_BUDGET_MB "
                f"is {self._budget // MEBIBYTE}. Move old runs away, or raise it.",
            )
        date = recording.meta["started"][:10]
        columns = [column.name for column in head.columns]
        try:
            recording.files = await self._on_disk(
                _make_files, self.root, date, columns, recording.meta
            )
        except (OSError, ValueError) as refused:
            return self._refuse(recording, f"The recording could not be begun: {refused}.")
        self._open[head.run_id] = recording
        recording.settings = asyncio.create_task(
            self._read_settings(recording), name=f"settings-{head.run_id}"
        )
        self._publish(head.run_id)
        return recording

    async def close(self, recording: Recording, status: str, summary: Mapping[str, Any]) -> None:
        """End a recording; see ``RowSink.close``."""
        if self._open.pop(recording.head.run_id, None) is None or recording.files is None:
            return
        if recording.settings is not None:
            # A short one that came to its end is complete all the same; a stop waits for none.
            within_s = SETTINGS_WITHIN_S if status in CAME_TO_ITS_END else 0
            await asyncio.wait({recording.settings}, timeout=within_s)
            recording.settings.cancel()
            await asyncio.gather(recording.settings, return_exceptions=True)
        await self._sync([recording])
        ended_ms = self._clock.wall_ms()
        recording.meta.update(
            status=status, ended_ms=ended_ms, ended=iso(ended_ms), summary=dict(summary)
        )
        try:
            await self._on_disk(_end_files, self.root, recording.files, recording.told_meta())
        except OSError as refused:
            self._note_error(recording, refused)
        self._publish(recording.head.run_id)

    async def read(self, function: Callable[..., T], *arguments: Any) -> T:
        """Run something that reads recordings on a thread of its own.

        Raises:
            EdgedError: what the function raises.
        """
        call = functools.partial(function, self.root, *arguments)
        return await asyncio.get_running_loop().run_in_executor(self._reader, call)

    async def measure(self) -> None:
        """Count what is recorded, the user's own moving and deleting included."""
        self._used = await self.read(used_bytes)

    def _publish(self, run_id: str) -> None:
        for listener in tuple(self._listeners):
            listener(run_id)

    def _refuse(self, recording: Recording, why: str) -> Recording:
        recording.error = why
        self._log.warning("recording_refused", run_id=recording.head.run_id, reason=why)
        return recording

    async def _mend_and_measure(self, claimed: asyncio.Future[None]) -> None:
        await asyncio.shield(claimed)
        await self.read(repair_interrupted, iso(self._clock.wall_ms()))
        self.mended.set()
        while True:
            await self.measure()
            await self._clock.sleep(MEASURE_EVERY_S)

    async def _sync_forever(self) -> None:
        while True:
            await self._clock.sleep(SYNC_EVERY_S)
            await self._sync([r for r in self._open.values() if r.rows or r.arrays])

    async def _sync(self, recordings: Sequence[Recording]) -> None:
        """Write what waits; what cannot be written waits on."""
        batch = [(r, r.files, *r.take()) for r in recordings if r.files is not None]
        if not batch:
            return
        results = await self._on_disk(_write_all, [entry[1:] for entry in batch])
        for (recording, _, rows, arrays), result in zip(batch, results, strict=True):
            if isinstance(result, OSError):
                recording.put_back(rows, arrays)
                self._note_error(recording, result)
            else:
                self._used += result
                if recording.error and rows:
                    recording.error = self._error = ""

    def _note_error(self, recording: Recording, error: OSError) -> None:
        why = f"The disk refuses the recording: {error}."
        if recording.error != why:
            self._log.error("recording_failed", run_id=recording.head.run_id, reason=str(error))
        recording.error = self._error = why

    async def _read_settings(self, recording: Recording) -> None:
        settings = await read_settings(
            self._pool, recording.head, asker(recording.head, self._perform, self._new_id)
        )
        for entry in recording.meta["instruments"]:
            entry["settings"] = settings.get(entry["id"])
        if recording.files is None:
            return
        try:
            await self._on_disk(write_meta, recording.files.directory, recording.told_meta())
        except OSError as refused:
            self._note_error(recording, refused)

    async def _on_disk(self, function: Callable[..., T], *arguments: Any) -> T:
        loop = asyncio.get_running_loop()
        work = loop.run_in_executor(self._writer, functools.partial(function, *arguments))
        # Whoever is cancelled while waiting must not leave the files half-way.
        return await asyncio.shield(work)


def _make_files(root: Path, date: str, columns: Sequence[str], meta: dict[str, Any]) -> RunFiles:
    run_id = meta["run_id"]
    if RUN_ID.fullmatch(run_id) is None:
        raise ValueError(f"{run_id!r} is no name for a directory")
    files = RunFiles(root / date / run_id, columns)
    write_meta(files.directory, meta)
    set_mark(root, run_id, f"{date}/{run_id}")
    return files


def _end_files(root: Path, files: RunFiles, meta: dict[str, Any]) -> None:
    files.close()
    write_meta(files.directory, meta)
    drop_mark(root, files.directory.name)


def _write_all(batch: Sequence[tuple[RunFiles, list[Row], list[Array]]]) -> list[int | OSError]:
    results: list[int | OSError] = []
    for files, rows, arrays in batch:
        try:
            results.append(files.write(rows, arrays))
        except OSError as refused:
            results.append(refused)
    return results


def _one_thread(name: str) -> concurrent.futures.ThreadPoolExecutor:
    return concurrent.futures.ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)
