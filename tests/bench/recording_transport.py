"""A transport that keeps what is written to it."""

from __future__ import annotations

import asyncio


class RecordingTransport(asyncio.Transport):
    """Attributes: ``written``; ``unread_bytes``, which a test sets; ``is_aborted``."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.unread_bytes = 0
        self.is_aborted = False
        self._is_closing = False

    def write(self, data: bytes) -> None:  # type: ignore[override]
        self.written += data

    def get_write_buffer_size(self) -> int:
        return self.unread_bytes

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        self._is_closing = True

    def abort(self) -> None:
        self.is_aborted = self._is_closing = True
