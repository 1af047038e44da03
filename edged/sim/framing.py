"""Bytes as they arrive → whole messages. Pure."""

from __future__ import annotations

from typing import Final

__all__ = ["Framer"]

LONGEST_MESSAGE_BYTES: Final = 1024 * 1024
"""What an input buffer holds; instruments hold less, and this only bounds memory."""


class Framer:
    """Cuts one connection's bytes at line ends; a carriage return before one is dropped."""

    def __init__(self) -> None:
        self._rest = b""
        self._is_skipping = False
        self.overruns = 0  # messages thrown away because they were too long

    def feed(self, data: bytes) -> list[bytes]:
        """The messages that ``data`` completes, without their line ends; empty ones left out."""
        *whole, self._rest = (self._rest + data).split(b"\n")
        if whole and self._is_skipping:
            del whole[0]
            self._is_skipping = False
        if len(self._rest) > LONGEST_MESSAGE_BYTES:
            self._rest = b""
            if not self._is_skipping:
                self.overruns += 1
            self._is_skipping = True
        return [message.rstrip(b"\r") for message in whole if message.strip()]
