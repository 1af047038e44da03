"""Recorded data of sweeps, streams and tables: the user's own files under DATA_DIR/runs.

Rows are taken on the event loop and written by one thread, which appends and syncs once a second.
Nothing here ever deletes data. Over DATA_BUDGET_MB, and while the disk refuses, new recordings are
refused and the measurement goes on without: a recording that is refused says why and takes nothing.
One that has ended while the disk refuses keeps its place in line until its rows and its last
meta.json are on the disk, or says for good what was lost.

Source: docs/promises.md section 7.

One recording under way: takes rows and samples, and holds them until they are on the disk.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import functools
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import field
from errno import ENOENT
from pathlib import Path
from typing import Any, Final, TypeVar

import structlog

from edged.actions.caller import Caller
from edged.clock import Clock
from edged.errors import ErrorCode, Failed, NotFound
from edged.files import make_directory
from edged.record import part, record
from edged.runs.bench import Bench
from edged.runs.recordings.append import THE_DISK, Array, Disk
from edged.runs.recordings.checks import COLUMNS as CHECK_COLUMNS
from edged.runs.recordings.checks import Check, cells_of
from edged.runs.recordings.data_nc import CellFile, make_again, open_cells
from edged.runs.recordings.files import (
    CHECKS_FILE,
    EVENTS_FILE,
    ROWS_FILE,
    OnDisk,
    RunFiles,
    came_to_its_end,
    claim_marks,
    drop_mark,
    note_end,
    repair,
    repair_interrupted,
    set_mark,
    table_file,
    used_bytes,
    write_dimensions,
    write_meta,
)
from edged.runs.recordings.formats import ARRAYS_FILE
from edged.runs.recordings.lines import Lines, rows_in
from edged.runs.recordings.meta import asker, first_meta, iso, read_settings
from edged.runs.recordings.reader import check_own_run, find_run, read_meta
from edged.runs.recordings.table import stats_so_far
from edged.runs.run_head import ELAPSED, Column, RunHead, RunKind
from edged.runs.running_stats import TableStats
from edged.yaml.tree import Scalar

MAX_WAITING_ROWS: Final = 100_000
MAX_WAITING_BYTES: Final = 64 * 1024 * 1024
"""Rows and samples that wait for a disk that refuses; beyond, the newest are lost and counted."""

TOO_SLOW: Final = "The disk was too slow."


@part
class Recording:
    """One recording; implements ``ports.RowSink``. Its files are touched by the book alone."""

    head: RunHead
    meta: dict[str, Any]
    book: RunRegistry
    clock: Clock
    # Of what is on the disk; added to by the thread that writes.
    statistics: TableStats = field(init=False)
    _has_elapsed: bool = field(init=False)
    _begun_s: float = field(init=False)
    files: RunFiles | None = None
    # data.nc; only of an experiment, and only while the disk takes it.
    cells: CellFile | None = None
    # Why there is no recording at all; empty where there is one.
    refused: str = ""
    # Why the disk does not take what waits; empty when it does.
    refusal: str = ""
    # meta.json is to be written anew.
    is_meta_owed: bool = False
    # How its run has ended, though meta.json does not say so yet; empty while it has not.
    ends_as: str = ""
    # What has ended and waits to be written to its end.
    has_ended: bool = False
    # Its end was written, or the disk has refused it.
    closed: asyncio.Event = field(default_factory=asyncio.Event)
    noted: dict[str, Any] = field(default_factory=dict)
    # By the name of the file: rows, objects or arrays that wait for the disk.
    waiting: dict[str, list[Any]] = field(default_factory=dict)
    # Of samples that wait.
    waiting_bytes: int = 0
    settings: asyncio.Task[None] | None = None
    # Of an experiment: which attempt this is, and the rows of checks.csv.
    attempt: int = 1
    check_count: int = 0
    # By the name of the file: what has come, and what there was no room for.
    _counts: Counter[str] = field(default_factory=Counter)
    _lost: Counter[str] = field(default_factory=Counter)
    _why_lost: str = ""

    def __post_init__(self) -> None:
        self.statistics = TableStats([column.name for column in self.head.recorded])
        self._has_elapsed = self.head.has_elapsed
        self._begun_s = self.clock.monotonic()

    def append(self, row: Sequence[Scalar | None], places: Sequence[int | None] = ()) -> None:
        before = (*places, self.attempt) if self.head.kind is RunKind.EXPERIMENT else ()
        after = (self._elapsed_s(),) if self._has_elapsed else ()
        if self._take(ROWS_FILE, (*before, *row, *after)) and self._counts[ROWS_FILE] == 1:
            self.book.note_first_row(self)

    def append_to(self, table: str, row: Sequence[Scalar | None]) -> None:
        self._take(table_file(table), (*row, self._elapsed_s()))

    def check(self, check: Check) -> None:
        self.check_count += self._take(CHECKS_FILE, cells_of(check))

    def event(self, name: str, fields: Mapping[str, Any]) -> None:
        begins = {"time_ms": self.clock.wall_ms(), "elapsed_s": self._elapsed_s(), "event": name}
        self._take(EVENTS_FILE, {**begins, **fields})

    async def written(self) -> bool:
        await self.book.write(self)
        return not self.waiting and self.files is not None

    def _take(self, file: str, item: Any) -> bool:
        """Have a row or an array wait for the disk; whether there was room."""
        if self.files is None:
            return False
        waiting = self.waiting.setdefault(file, [])
        if file == ARRAYS_FILE:
            size = len(item.samples)
            is_full = bool(waiting) and self.waiting_bytes + size > MAX_WAITING_BYTES
        else:
            size, is_full = 0, len(waiting) >= MAX_WAITING_ROWS
        if is_full:
            self._lost[file] += 1
            self._why_lost = self._why_lost or self.refusal or TOO_SLOW
            return False
        waiting.append(item)
        self.waiting_bytes += size
        self._counts[file] += 1
        return True

    def _elapsed_s(self) -> float:
        return round(self.clock.monotonic() - self._begun_s, 6)

    def append_samples(self, name: str, type_code: str, samples: bytes | bytearray) -> None:
        self._take(ARRAYS_FILE, Array(name, type_code, samples))

    def told(self) -> dict[str, Any]:
        files = self.files
        return {
            "run_id": self.head.run_id,
            "path": str(files.directory) if files else "",
            "rows": self._on_disk(ROWS_FILE),
            "error": self._error(self.refusal),
        }

    def _on_disk(self, file: str) -> int:
        """What has come for a file, and was not taken away by another program."""
        return self._counts[file] - (self.files.lost[file] if self.files else 0)

    @property
    def has_lost(self) -> bool:
        """Something of it is not on the disk, and never will be."""
        harm = self.files.harm if self.files else ""
        return bool(self._lost.total() or harm)

    @property
    def waiting_rows(self) -> int:
        """Rows of all files that wait to be written."""
        return sum(len(items) for file, items in self.waiting.items() if file != ARRAYS_FILE)

    @property
    def is_owed(self) -> bool:
        """Something waits to be written."""
        return bool(self.waiting or self.is_meta_owed)

    def give_up(self, why: str) -> None:
        """What waits is lost, for good."""
        self._why_lost = why
        for file, items in self.take().items():
            self._lost[file] += len(items)
            self._counts[file] -= len(items)

    async def close(self, status: str, summary: Mapping[str, Any] | None = None) -> None:
        await self.book.close(self, status, summary or {})

    def take(self) -> dict[str, list[Any]]:
        """What waits to be written; it is waiting no longer."""
        taken = self.waiting
        self.waiting, self.waiting_bytes = {}, 0
        return taken

    def put_back(self, rest: Mapping[str, list[Any]]) -> None:
        """It could not be written; it goes before what has come since."""
        for file, items in rest.items():
            if items:
                self.waiting[file] = [*items, *self.waiting.get(file, ())]
        self.waiting_bytes += sum(len(array.samples) for array in rest.get(ARRAYS_FILE, ()))

    def go_on(
        self,
        meta: dict[str, Any],
        statistics: TableStats,
        counts: Mapping[str, int],
        elapsed_s: float,
    ) -> None:
        """Go on behind what an interrupted attempt has left."""
        self.meta = meta
        self.statistics = statistics
        self._counts = Counter(counts)
        self.attempt = len(meta["resumes"]) + 1
        self.check_count = counts[CHECKS_FILE]
        # The monotonic clock may be another one; and time never goes back in a table.
        by_wall_s = (self.clock.wall_ms() - meta["started_ms"]) / 1000
        self._begun_s = self.clock.monotonic() - max(by_wall_s, elapsed_s)

    def told_meta(self, *, is_whole: bool = False) -> dict[str, Any]:
        """meta.json as of now.

        Args:
            is_whole: nothing waits for the disk any more.
        """
        status = self.meta["status"]
        if came_to_its_end(status) and self.has_lost:
            status = "failed"
        return {
            **self.meta,
            "status": status,
            "rows": self._on_disk(ROWS_FILE),
            "arrays": self._on_disk(ARRAYS_FILE),
            "error": self._error(refusal="" if is_whole else self.refusal),
            "statistics": self.statistics.told(),
        }

    def _error(self, refusal: str) -> str:
        """What is wrong with it: for good first, then what may heal."""
        lost = ""
        if rows := self._lost.total():
            arrays = self._lost[ARRAYS_FILE]
            waveforms = f" and {arrays} waveforms" if arrays else ""
            lost = f"{rows - arrays} rows{waveforms} were lost: {self._why_lost}"
        harm = self.files.harm if self.files else ""
        refusal = "" if refusal in lost else refusal
        return " ".join(filter(None, (self.refused, harm, lost, refusal)))


SYNC_EVERY_S: Final = 1.0
WRITTEN_WITHIN_S: Final = 1.0
MENDED_WITHIN_S: Final = 60.0
MEASURE_EVERY_S: Final = 600.0
SETTINGS_WITHIN_S: Final = 1.0
"""How much longer what came to its end may take for the settings of its instruments."""
MAX_IN_LINE: Final = 100
"""Recordings that have ended and wait for the disk; beyond, none begins."""
COUNTED: Final = ("rows", "arrays", "statistics")
END_NOTED: Final = ("status", "ended_ms", "ended", "summary", "rows", "arrays", "error")
MEBIBYTE: Final = 1024 * 1024
RUN_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")

T = TypeVar("T")


class RunRegistry:
    """The recordings under way, and the door to those on disk. Implements ``ports.Recorder``.

    Args:
        bench: of its configuration, DATA_DIR and DATA_BUDGET_MB.
        disk: writes the recordings.
    """

    def __init__(self, bench: Bench, *, disk: Disk = THE_DISK) -> None:
        self.root = bench.config.data_dir / "runs"
        # Set once what a killed daemon left is whole again.
        self.mended = asyncio.Event()
        self._budget = bench.config.data_budget_mb * MEBIBYTE
        self._bench = bench
        self._disk = disk
        # Runs whose files are being made; set when they are there, or could not be made.
        self._beginning: dict[str, asyncio.Event] = {}
        self._open: dict[str, Recording] = {}
        # Have ended, and are not on the disk to their ends; the oldest first.
        self._line: dict[str, Recording] = {}
        self._used = 0
        # One at a time takes what waits and puts back what the disk refused: rows stay in order.
        self._turn = asyncio.Lock()
        self._kept: set[asyncio.Task[None]] = set()
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
        """Everything that has come is on disk when this returns, or the log says what is not."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, *self._kept, return_exceptions=True)
        for recording in tuple(self._line.values()):
            await self._try_to_end(recording)
        for recording in tuple(self._open.values()):
            await self.close(
                recording, "failed", {"error": "The daemon stopped before it had ended."}
            )
        for recording in self._line.values():
            self._log.error(
                "recording_lost",
                run_id=recording.head.run_id,
                path=recording.told()["path"],
                rows=recording.waiting_rows,
                waveforms=len(recording.waiting.get(ARRAYS_FILE, ())),
                reason=recording.refusal,
            )
        self._line.clear()
        self._writer.shutdown(wait=True)
        self._reader.shutdown(wait=False, cancel_futures=True)

    def status(self) -> dict[str, Any]:
        """{path, open, waiting, used_mb, budget_mb, is_full, error}: for get_status and doctor.

        ``waiting`` have ended and wait for the disk; ``error`` goes when the disk is well.
        """
        refusals = (r.refusal for r in (*self._line.values(), *self._open.values()) if r.refusal)
        return {
            "path": str(self.root),
            "open": len(self._open),
            "waiting": len(self._line),
            "used_mb": round(self._used / MEBIBYTE, 3),
            "budget_mb": self._budget // MEBIBYTE,
            "is_full": self._used >= self._budget,
            "error": next(refusals, ""),
        }

    async def open(self, head: RunHead) -> Recording:
        recording = Recording(
            head=head,
            meta=first_meta(head, self._bench.pool, self._bench.clock),
            book=self,
            clock=self._bench.clock,
        )
        if self._used >= self._budget:
            return self._refuse(
                recording,
                f"No new recordings: {self._used // MEBIBYTE} MiB are recorded and DATA_BUDGET_MB "
                f"is {self._budget // MEBIBYTE}. Move old runs away, or raise it.",
            )
        if len(self._line) >= MAX_IN_LINE:
            return self._refuse(
                recording,
                f"No new recordings: {len(self._line)} that have ended wait for the disk, which "
                f"refuses them. Make room where DATA_DIR is ({self.root}).",
            )
        if self._known(head.run_id) is not None:
            return self._refuse(recording, f"{head.run_id} is still being recorded.")
        date = recording.meta["started"][:10]
        self._beginning[head.run_id] = begun = asyncio.Event()
        try:
            if head.resumed_at is None:
                recording.files = await self._on_disk(
                    _make_files, self.root, date, recording, self._disk
                )
            else:
                # What mends a recording after a crash would end this one.
                async with asyncio.timeout(MENDED_WITHIN_S):
                    await self.mended.wait()
                recording.files = await self._on_disk(
                    _go_on, self.root, recording, self._bench.clock.wall_ms(), self._disk
                )
        except TimeoutError:
            return self._refuse(recording, "Recordings of before are still being made whole.")
        except (OSError, ValueError) as refused:
            return self._refuse(recording, f"The recording could not be begun: {refused}.")
        finally:
            del self._beginning[head.run_id]
            begun.set()
        self._open[head.run_id] = recording
        if not head.sets_up:
            self._ask_settings(recording)
        self._publish(head.run_id)
        return recording

    def note_first_row(self, recording: Recording) -> None:
        if recording.head.sets_up:
            self._ask_settings(recording)

    def _ask_settings(self, recording: Recording) -> None:
        if recording.head.is_measured:
            recording.settings = asyncio.create_task(
                self._read_settings(recording), name=f"settings-{recording.head.run_id}"
            )

    async def close(self, recording: Recording, status: str, summary: Mapping[str, Any]) -> None:
        """End a recording; see ``RowSink.close``."""
        if self._open.get(recording.head.run_id) is not recording:
            return
        del self._open[recording.head.run_id]
        recording.ends_as = status
        self._line[recording.head.run_id] = recording
        await self._to_its_end(self._end(recording, status, dict(summary)))

    async def _end(self, recording: Recording, status: str, summary: dict[str, Any]) -> None:
        if recording.settings is not None:
            # A short one that came to its end is complete all the same; a stop waits for none.
            within_s = SETTINGS_WITHIN_S if came_to_its_end(status) else 0
            await asyncio.wait({recording.settings}, timeout=within_s)
            recording.settings.cancel()
            await asyncio.gather(recording.settings, return_exceptions=True)
        ended_ms = self._bench.clock.wall_ms()
        recording.meta.update(
            status=status, ended_ms=ended_ms, ended=iso(ended_ms), summary=summary
        )
        recording.has_ended = True
        if not await self._try_to_end(recording) and self._is_too_much():
            recording.give_up(f"{recording.refusal} Too much waits for it already.")
            await self._try_to_end(recording)
        recording.closed.set()
        self._publish(recording.head.run_id)

    async def _try_to_end(self, recording: Recording) -> bool:
        """Write all of a recording that has ended; one that cannot be written stays in line."""
        files = recording.files
        if files is None:
            return True
        await self._sync_now([recording])
        if not recording.waiting:
            try:
                await self._on_disk(_end_files, self.root, recording, files, self._disk)
            except OSError as refused:
                self._note_refusal(recording, refused)
            else:
                recording.refusal = ""
                self._line.pop(recording.head.run_id, None)
                return True
        told = recording.told_meta()
        end = {name: told.get(name) for name in END_NOTED}
        if end != recording.noted:
            recording.noted = end
            run_id, place = recording.head.run_id, files.directory.relative_to(self.root).as_posix()
            await self._on_disk(note_end, self.root, run_id, place, end, self._disk)
        return False

    def _is_too_much(self) -> bool:
        """Whether what has ended and waits takes more memory than it may."""
        rows = sum(recording.waiting_rows for recording in self._line.values())
        samples = sum(recording.waiting_bytes for recording in self._line.values())
        return rows > MAX_WAITING_ROWS or samples > MAX_WAITING_BYTES

    async def write(self, recording: Recording) -> None:
        """Write what waits of one recording."""
        await self._to_its_end(self._sync_now([recording]))

    async def add_event(self, run_id: str, name: str, fields: Mapping[str, Any]) -> None:
        """Add a line to events.jsonl of an experiment, also long after its end: a note, a tag.

        Raises:
            NotFound: UNKNOWN_RUN.
            Failed: RECORDING_FAILED, it has no events, or the disk refuses.
        """
        await self.closed(run_id)
        # One that waits for the disk takes it, too.
        if (recording := self._known(run_id)) is not None:
            recording.event(name, fields)
            return
        event = {"time_ms": self._bench.clock.wall_ms(), "event": name, **fields}
        with _writing(f"The events of {run_id}"):
            await self._on_disk(_add_late, self.root, run_id, event, self._disk)

    async def put_file(self, run_id: str, name: str, data: str | bytes) -> None:
        """Write a further file into a recording, also after its end, whole or not at all.

        Args:
            name: may begin with a folder of the recording.

        Raises:
            NotFound: UNKNOWN_RUN.
            Failed: RECORDING_FAILED, the disk refuses.
        """
        with _writing(f"{name} of {run_id}"):
            await self._on_disk(_put_file, self.root, run_id, name, data, self._disk)

    async def conclude(self, run_id: str, status: str, summary: Mapping[str, Any]) -> None:
        """Say how a run has ended that was interrupted, and did not go on.

        Where the disk refuses, it stays interrupted.
        """
        with contextlib.suppress(TimeoutError, OSError, NotFound):
            async with asyncio.timeout(MENDED_WITHIN_S):
                await self.mended.wait()
            now_ms = self._bench.clock.wall_ms()
            await self._on_disk(_conclude, self.root, run_id, status, summary, now_ms, self._disk)
        self._publish(run_id)

    async def sync(self) -> None:
        """Write what waits, of what is under way and of what has ended; done each second."""
        await self._to_its_end(self._sync_all())

    async def written(self, run_id: str) -> Recording | None:
        """The recording of that id, if it is under way or waits for the disk, its rows written.

        A disk that does not take them within a moment has them later.
        """
        if (begun := self._beginning.get(run_id)) is not None:
            await _at_most(WRITTEN_WITHIN_S, begun.wait())
        if (recording := self._known(run_id)) is not None:
            await _at_most(WRITTEN_WITHIN_S, self.write(recording))
        return recording

    async def closed(self, run_id: str) -> None:
        """Wait for the end of a recording whose run has ended: its settings may still be read."""
        recording = self._line.get(run_id)
        if recording is not None:
            await _at_most(SETTINGS_WITHIN_S + WRITTEN_WITHIN_S, recording.closed.wait())

    def ends_as(self, run_id: str) -> str:
        """How a run has ended whose recording does not say so yet; empty for any other."""
        recording = self._line.get(run_id)
        return "" if recording is None else recording.ends_as

    def counted(self, run_id: str) -> dict[str, Any]:
        """{rows, arrays, statistics} of a run under way, or whose end waits for the disk.

        Its meta.json has them as they were when it was last written. Empty for any other.
        """
        if (recording := self._known(run_id)) is None:
            return {}
        told = recording.told_meta()
        return {name: told[name] for name in COUNTED}

    def _known(self, run_id: str) -> Recording | None:
        """The recording of that id, if it is under way or waits for the disk."""
        return self._open.get(run_id) or self._line.get(run_id)

    async def read(self, function: Callable[..., T], *arguments: Any) -> T:
        """Run something that reads recordings on a thread of its own.

        Raises:
            EdgedError: what the function raises.
        """
        call = functools.partial(function, self.root, *arguments)
        return await asyncio.get_running_loop().run_in_executor(self._reader, call)

    async def read_run(
        self, caller: Caller, function: Callable[..., T], run_id: str, *arguments: Any
    ) -> T:
        """As ``read``, of one recording, if that caller is shown it.

        Raises:
            NotFound: UNKNOWN_RUN; there is none, or it is not shown to this caller.
            EdgedError: what the function raises.
        """
        if caller.only_subject is not None:
            await self.read(check_own_run, run_id, caller.only_subject)
        return await self.read(function, run_id, *arguments)

    async def measure(self) -> None:
        """Count what is recorded, the user's own moving and deleting included."""
        self._used = await self.read(used_bytes)

    def _publish(self, run_id: str) -> None:
        for listener in tuple(self._listeners):
            listener(run_id)

    def _refuse(self, recording: Recording, why: str) -> Recording:
        recording.refused = why
        self._log.warning("recording_refused", run_id=recording.head.run_id, reason=why)
        return recording

    async def _mend_and_measure(self, claimed: asyncio.Future[None]) -> None:
        await asyncio.shield(claimed)
        while True:
            # What a full disk kept from being mended is tried again each time.
            await self.read(repair_interrupted, iso(self._bench.clock.wall_ms()), make_again)
            self.mended.set()
            await self.measure()
            await self._bench.clock.sleep(MEASURE_EVERY_S)

    async def _sync_forever(self) -> None:
        while True:
            await self._bench.clock.sleep(SYNC_EVERY_S)
            if self._line or any(recording.is_owed for recording in self._open.values()):
                await self.sync()

    async def _sync_all(self) -> None:
        await self._sync_now(tuple(self._open.values()))
        for recording in tuple(self._line.values()):
            if recording.has_ended and await self._try_to_end(recording):
                self._publish(recording.head.run_id)

    async def _to_its_end(self, work: Coroutine[Any, Any, None]) -> None:
        """Do it all, also where whoever waits for it goes: what was taken must not be lost."""
        task = asyncio.create_task(work)
        self._kept.add(task)
        task.add_done_callback(self._kept.discard)
        await asyncio.shield(task)

    async def _sync_now(self, recordings: Sequence[Recording]) -> None:
        """Write what waits; what cannot be written waits on."""
        async with self._turn:
            batch = [_Batch.of(r, r.files) for r in recordings if r.files and r.is_owed]
            if batch:
                await self._on_disk(_write_all, batch, self._disk)
            for entry in batch:
                self._take_note(entry)

    def _take_note(self, entry: _Batch) -> None:
        recording, written = entry.recording, entry.written
        recording.put_back(
            {file: items[written.counts.get(file, 0) :] for file, items in entry.items.items()}
        )
        self._used += written.size
        if written.error is not None:
            recording.is_meta_owed = recording.is_meta_owed or entry.is_meta_owed
            self._note_refusal(recording, written.error)
        elif not recording.has_ended:
            recording.refusal = ""

    def _note_refusal(self, recording: Recording, error: OSError) -> None:
        why = f"The disk refuses the recording: {error}."
        if recording.refusal != why:
            self._log.error("recording_failed", run_id=recording.head.run_id, reason=str(error))
        recording.refusal = why

    async def _read_settings(self, recording: Recording) -> None:
        settings = await read_settings(
            self._bench.pool,
            recording.head,
            asker(recording.head, self._bench.perform, self._bench.new_id),
        )
        for entry in recording.meta["instruments"]:
            entry["settings"] = settings.get(entry["id"])
        recording.is_meta_owed = True
        await self._to_its_end(self._sync_now([recording]))

    async def _on_disk(self, function: Callable[..., T], *arguments: Any) -> T:
        loop = asyncio.get_running_loop()
        work = loop.run_in_executor(self._writer, functools.partial(function, *arguments))
        # Whoever is cancelled while waiting must not leave the files half-way.
        return await asyncio.shield(work)


@record(frozen=False)
class _Batch:
    """What of one recording is on its way to the disk, and how much of it came there."""

    recording: Recording
    files: RunFiles
    items: dict[str, list[Any]]
    is_meta_owed: bool
    written: OnDisk = field(default_factory=OnDisk)

    @classmethod
    def of(cls, recording: Recording, files: RunFiles) -> _Batch:
        # At its end meta.json is written when everything else is.
        is_owed = recording.is_meta_owed and not recording.has_ended
        recording.is_meta_owed = False
        items = recording.take()
        return cls(recording=recording, files=files, items=items, is_meta_owed=is_owed)

    def write(self, disk: Disk) -> None:
        self.written = self.files.write(self.items)
        rows = self.items.get(ROWS_FILE, [])[: self.written.counts.get(ROWS_FILE, 0)]
        for row in rows:
            self.recording.statistics.add(row)
        if self.recording.cells is not None:
            self.recording.cells.put(rows)
        if self.is_meta_owed and self.written.error is None:
            try:
                write_meta(self.files.directory, self.recording.told_meta(), disk)
            except OSError as refused:
                self.written.error = refused


def _make_files(root: Path, date: str, recording: Recording, disk: Disk) -> RunFiles:
    head, run_id = recording.head, recording.head.run_id
    if RUN_ID.fullmatch(run_id) is None:
        raise ValueError(f"{run_id!r} is not a name for a directory")
    files = RunFiles(root / date / run_id, _names(head.recorded), disk, further=_further(head))
    try:
        for name, data in head.files.items():
            disk.put(files.directory / name, data)
        if head.dimensions:
            write_dimensions(files.directory, head.dimensions, disk)
        write_meta(files.directory, recording.meta, disk)
        set_mark(root, run_id, f"{date}/{run_id}", disk)
    except OSError:
        files.discard()
        drop_mark(root, run_id)
        raise
    if head.kind is RunKind.EXPERIMENT:
        recording.cells = open_cells(files.directory, recording.meta, disk)
    return files


def _go_on(root: Path, recording: Recording, now_ms: int, disk: Disk) -> RunFiles:
    """Open the files of an experiment that was interrupted.

    Raises:
        OSError, ValueError: there is no such recording, or it cannot be gone on with.
    """
    head = recording.head
    try:
        directory = find_run(root, head.run_id)
    except NotFound as missing:
        raise ValueError(missing.message) from missing
    meta = read_meta(directory)
    if [column["name"] for column in meta.get("columns", ())] != _names(head.recorded):
        raise ValueError(f"{head.run_id} has other columns")
    rows, arrays = repair(directory)
    statistics, elapsed_s = stats_so_far(directory / ROWS_FILE)
    checks = rows_in(directory / CHECKS_FILE)
    meta.setdefault("resumes", []).append(
        {
            "attempt": len(meta["resumes"]) + 2,
            "at": head.resumed_at,
            "checks": [min(head.resumed_checks, checks) if head.resumed_at else checks, checks],
            "time_ms": now_ms,
        }
    )
    meta.update(status="running", ended=None, ended_ms=None, error="", summary={})
    further = _further(head)
    files = RunFiles(directory, _names(head.recorded), disk, further=further, goes_on=True)
    try:
        write_meta(directory, meta, disk)
        set_mark(root, head.run_id, directory.relative_to(root).as_posix(), disk)
    except OSError:
        files.leave()
        raise
    recording.cells = open_cells(directory, meta, disk)
    counts = {ROWS_FILE: rows, ARRAYS_FILE: arrays, CHECKS_FILE: checks}
    recording.go_on(meta, statistics, counts, elapsed_s)
    return files


def _conclude(
    root: Path, run_id: str, status: str, summary: Mapping[str, Any], now_ms: int, disk: Disk
) -> None:
    directory = find_run(root, run_id)
    meta = read_meta(directory)
    meta.update(status=status, ended_ms=now_ms, ended=iso(now_ms), summary=dict(summary))
    write_meta(directory, meta, disk)


def _names(columns: Sequence[Column]) -> list[str]:
    return [column.name for column in columns]


def _add_late(root: Path, run_id: str, event: Mapping[str, Any], disk: Disk) -> None:
    path = find_run(root, run_id) / EVENTS_FILE
    if not path.exists():
        raise FileNotFoundError(ENOENT, "it has none", str(path))
    events = Lines(path, None, disk, goes_on=True)
    try:
        _, _, refused = events.add([event])
        if refused is not None:
            raise refused
    finally:
        events.close()


def _put_file(root: Path, run_id: str, name: str, data: str | bytes, disk: Disk) -> None:
    path = find_run(root, run_id) / name
    make_directory(path.parent)
    disk.put(path, data)


def _further(head: RunHead) -> dict[str, Sequence[str] | None]:
    """The files of an experiment beside data.csv; its events come last, after what they tell of.

    Raises:
        ValueError: a table has no name for a file.
    """
    if head.kind is not RunKind.EXPERIMENT:
        return {}
    tables = {
        table_file(name): [*_names(columns), ELAPSED.name] for name, columns in head.tables.items()
    }
    odd = [name for name in (*head.tables, *head.files) if RUN_ID.fullmatch(name) is None]
    if odd or {ROWS_FILE, CHECKS_FILE} & set(tables):
        raise ValueError(f"{(odd or list(tables))[0]!r} is not a name for a file")
    return {**tables, CHECKS_FILE: CHECK_COLUMNS, EVENTS_FILE: None}


def _end_files(root: Path, recording: Recording, files: RunFiles, disk: Disk) -> None:
    files.close()
    if recording.cells is not None:
        recording.cells.close()
    write_meta(files.directory, recording.told_meta(is_whole=True), disk)
    drop_mark(root, files.directory.name)


def _write_all(batch: Sequence[_Batch], disk: Disk) -> None:
    for entry in batch:
        entry.write(disk)


@contextlib.contextmanager
def _writing(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as refused:
        raise Failed(
            f"{what} cannot be written: {refused}.", code=ErrorCode.RECORDING_FAILED
        ) from refused


async def _at_most(seconds: float, work: Awaitable[object]) -> None:
    """Wait for it no longer than so."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await work


def _one_thread(name: str) -> concurrent.futures.ThreadPoolExecutor:
    return concurrent.futures.ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)
