"""One recording under way: takes rows and samples, and holds them until they are on the disk."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from edged.clock import Clock
from edged.profiles.model import Scalar
from edged.work.run_files import Array, Row, RunFiles
from edged.work.run_head import RunHead
from edged.work.run_marks import came_to_its_end

__all__ = ["Closer", "Recording"]

MAX_WAITING_ROWS: Final = 100_000
MAX_WAITING_BYTES: Final = 64 * 1024 * 1024
"""Rows and samples that wait for a disk that refuses; beyond, the newest are lost and counted."""

TOO_SLOW: Final = "The disk was too slow."


class Closer(Protocol):
    """What ends a recording: the book that began it."""

    async def close(self, recording: Recording, status: str, summary: Mapping[str, Any]) -> None:
        """Everything is on disk when this returns."""
        ...


class Recording:
    """One recording; implements ``ports.RowSink``. Its files are touched by the book alone."""

    def __init__(self, *, head: RunHead, meta: dict[str, Any], book: Closer, clock: Clock) -> None:
        self.head = head
        self.meta = meta
        self.files: RunFiles | None = None
        # Why there is no recording at all; empty where there is one.
        self.refused = ""
        # Why the disk does not take what waits; empty when it does.
        self.refusal = ""
        # meta.json is to be written anew.
        self.is_meta_owed = False
        # What has ended and waits to be written to its end.
        self.has_ended = False
        self.noted: dict[str, Any] = {}
        self.harm_told = ""
        self.rows: list[Row] = []
        self.arrays: list[Array] = []
        self.settings: asyncio.Task[None] | None = None
        self._book = book
        self._clock = clock
        self._has_elapsed = head.has_elapsed
        self._begun_s = clock.monotonic()
        self._row_count = 0
        self._array_count = 0
        self._rows_lost = 0
        self._arrays_lost = 0
        self._why_lost = ""
        self._waiting_bytes = 0

    def append(self, row: Sequence[Scalar | None]) -> None:
        """See ``RowSink``."""
        if self.files is None:
            return
        if len(self.rows) >= MAX_WAITING_ROWS:
            self._rows_lost += 1
            self._why_lost = self._why_lost or self.refusal or TOO_SLOW
            return
        if self._has_elapsed:
            self.rows.append((*row, round(self._clock.monotonic() - self._begun_s, 6)))
        else:
            self.rows.append(tuple(row))
        self._row_count += 1

    def append_samples(self, name: str, type_code: str, samples: bytes | bytearray) -> None:
        """See ``RowSink``."""
        if self.files is None:
            return
        if self._waiting_bytes + len(samples) > MAX_WAITING_BYTES and self.arrays:
            self._arrays_lost += 1
            self._why_lost = self._why_lost or self.refusal or TOO_SLOW
            return
        self.arrays.append(Array(name, type_code, samples))
        self._waiting_bytes += len(samples)
        self._array_count += 1

    def told(self) -> dict[str, Any]:
        """See ``RowSink``."""
        files = self.files
        return {
            "run_id": self.head.run_id,
            "path": str(files.directory) if files else "",
            "rows": self._row_count - (files.rows_lost if files else 0),
            "error": self._error(self.refusal),
        }

    @property
    def has_lost(self) -> bool:
        """Something of it is not on the disk, and never will be."""
        harm = self.files.harm if self.files else ""
        return bool(self._rows_lost or self._arrays_lost or harm)

    @property
    def waiting_bytes(self) -> int:
        """Of samples that wait to be written."""
        return self._waiting_bytes

    @property
    def is_owed(self) -> bool:
        """Something waits to be written."""
        return bool(self.rows or self.arrays or self.is_meta_owed)

    def give_up(self, why: str) -> None:
        """What waits is lost, for good."""
        self._why_lost = why
        rows, arrays = self.take()
        self._rows_lost += len(rows)
        self._row_count -= len(rows)
        self._arrays_lost += len(arrays)
        self._array_count -= len(arrays)

    async def close(self, status: str, summary: Mapping[str, Any] | None = None) -> None:
        """See ``RowSink``."""
        await self._book.close(self, status, summary or {})

    def take(self) -> tuple[list[Row], list[Array]]:
        """What waits to be written; it is waiting no longer."""
        taken = self.rows, self.arrays
        self.rows, self.arrays, self._waiting_bytes = [], [], 0
        return taken

    def put_back(self, rows: list[Row], arrays: list[Array]) -> None:
        """It could not be written; it goes before what has come since."""
        self.rows[:0] = rows
        self.arrays[:0] = arrays
        self._waiting_bytes += sum(len(array.samples) for array in arrays)

    def told_meta(self, *, is_whole: bool = False) -> dict[str, Any]:
        """meta.json as of now.

        Args:
            is_whole: nothing waits for the disk any more.
        """
        status = self.meta["status"]
        if came_to_its_end(status) and self.has_lost:
            status = "failed"
        told = self.told()
        error = self._error(refusal="" if is_whole else self.refusal)
        return {
            **self.meta,
            "status": status,
            "rows": told["rows"],
            "arrays": self._array_count - (self.files.arrays_lost if self.files else 0),
            "error": error,
        }

    def _error(self, refusal: str) -> str:
        """What is wrong with it: for good first, then what may heal."""
        lost = ""
        if self._rows_lost or self._arrays_lost:
            waveforms = f" and {self._arrays_lost} waveforms" if self._arrays_lost else ""
            lost = f"{self._rows_lost} rows{waveforms} were lost: {self._why_lost}"
        harm = self.files.harm if self.files else ""
        refusal = "" if refusal in lost else refusal
        return " ".join(filter(None, (self.refused, harm, lost, refusal)))
