"""One recording under way: takes rows and samples, and holds them until they are on the disk."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from edged.profiles.model import Scalar
from edged.work.run_files import Array, Row, RunFiles
from edged.work.run_head import RunHead

__all__ = ["Closer", "Recording"]

MAX_WAITING_ROWS: Final = 100_000
MAX_WAITING_BYTES: Final = 64 * 1024 * 1024
"""Rows and samples that wait for a disk that refuses; beyond, the newest are lost and counted."""


class Closer(Protocol):
    """What ends a recording: the book that began it."""

    async def close(self, recording: Recording, status: str, summary: Mapping[str, Any]) -> None:
        """Everything is on disk when this returns."""
        ...


class Recording:
    """One recording; implements ``ports.RowSink``. Its files are touched by the book alone."""

    def __init__(self, *, head: RunHead, meta: dict[str, Any], book: Closer) -> None:
        self.head = head
        self.meta = meta
        self.files: RunFiles | None = None
        # Why rows are missing; empty when none are.
        self.error = ""
        self.rows: list[Row] = []
        self.arrays: list[Array] = []
        self.settings: asyncio.Task[None] | None = None
        self._book = book
        self._row_count = 0
        self._array_count = 0
        self._lost = 0
        self._waiting_bytes = 0

    def append(self, row: Sequence[Scalar | None]) -> None:
        """See ``RowSink``."""
        if self.files is None:
            return
        if len(self.rows) >= MAX_WAITING_ROWS:
            self._lost += 1
            return
        self.rows.append(tuple(row))
        self._row_count += 1

    def append_samples(self, name: str, type_code: str, samples: bytes) -> None:
        """See ``RowSink``."""
        if self.files is None:
            return
        if self._waiting_bytes + len(samples) > MAX_WAITING_BYTES and self.arrays:
            self._lost += 1
            return
        self.arrays.append(Array(name, type_code, samples))
        self._waiting_bytes += len(samples)
        self._array_count += 1

    def told(self) -> dict[str, Any]:
        """See ``RowSink``."""
        error = self.error
        if self._lost:
            error = f"{self._lost} rows were lost: {error or 'the disk was too slow.'}"
        return {
            "run_id": self.head.run_id,
            "path": str(self.files.directory) if self.files else "",
            "rows": self._row_count,
            "error": error,
        }

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

    def told_meta(self) -> dict[str, Any]:
        """meta.json as of now."""
        told = self.told()
        return {
            **self.meta,
            "rows": self._row_count,
            "arrays": self._array_count,
            "error": told["error"],
        }
