"""Tells the bench a moment later that an answer was read, where no next request has said it."""

from __future__ import annotations

import threading
import time
from typing import Protocol

from pyvisa_edged.forking import begins_anew

__all__ = ["Later", "Reader"]

MOMENT_S = 0.002
"""A program that asks in a loop has asked again by then, and that says it."""


class Reader(Protocol):
    """Who has read an answer."""

    def tell_taken(self, before_s: float) -> bool:
        """Say so, if that was before a moment in monotonic seconds; whether nothing is left."""
        ...


class Later:
    """One thread, which sleeps while nobody reads."""

    def __init__(self) -> None:
        self._begin()
        begins_anew(self)

    def _begin(self) -> None:
        self._due: dict[Reader, None] = {}
        self._wake = threading.Event()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def forked(self) -> None:
        """See ``Inherited``: its thread is not here, and what is due is the parent's to tell."""
        self._begin()

    def note(self, reader: Reader) -> None:
        """It has read an answer just now."""
        self._due[reader] = None
        if not self._wake.is_set():
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="edged", daemon=True)
                self._thread.start()
            self._wake.set()

    def close(self) -> None:
        """End it; what is due is of no use any more."""
        self._over.set()
        self._wake.set()

    def _run(self) -> None:
        while not self._over.is_set():
            self._wake.wait()
            while self._due and not self._over.wait(MOMENT_S):
                before_s = time.monotonic() - MOMENT_S
                for reader in list(self._due):
                    if reader.tell_taken(before_s):
                        self._due.pop(reader, None)
            self._wake.clear()
            if self._due:
                self._wake.set()
