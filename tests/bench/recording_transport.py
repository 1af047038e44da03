"""A transport that keeps what is written to it."""

from __future__ import annotations

import asyncio


class RecordingTransport(asyncio.WriteTransport):
    """Attributes: ``written``; ``unread_bytes``, which a test sets; ``is_aborted``."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.unread_bytes = 0
        self.is_aborted = False

    def write(self, data: bytes) -> None:  # type: ignore[override]
        self.written += data

    def get_write_buffer_size(self) -> int:
        return self.unread_bytes

    def abort(self) -> None:
        self.is_aborted = True
