"""Tells the bench a moment later that an answer was read, where no next request has said it."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from typing import Protocol

from pyvisa_edged.forking import begins_anew

MOMENT_S = 0.002
"""A program that asks in a loop has asked again by then, and that says it."""


class Reader(Protocol):
    """Who has read an answer."""

    def tell_taken(self, before_s: float) -> bool:
        """Say so, if that was before a moment in monotonic seconds; whether nothing is left."""
        ...


class Later:
    """One thread, which sleeps while nobody reads.

    It is woken by a queue that is written in C: Ctrl+C in the middle of an ``Event`` leaves its
    lock taken, and the program would wait for that at its next question for ever.
    """

    def __init__(self) -> None:
        self._begin()
        begins_anew(self)

    def _begin(self) -> None:
        self._due: dict[Reader, None] = {}
        self._wakes: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._is_awake = self._is_over = False
        self._thread: threading.Thread | None = None

    def forked(self) -> None:
        """See ``Inherited``: its thread is not here, and what is due is the parent's to tell."""
        self._begin()

    def note(self, reader: Reader) -> None:
        """It has read an answer just now."""
        self._due[reader] = None
        if not self._is_awake:
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="edged", daemon=True)
                thread.start()
                self._thread = thread
            self._wakes.put(None)

    def close(self) -> None:
        """End it; what is due is of no use any more."""
        self._is_over = True
        self._wakes.put(None)

    def _run(self) -> None:
        while not self._is_over:
            self._wakes.get()
            self._is_awake = True
            while self._due and not self._is_over:
                with contextlib.suppress(queue.Empty):
                    self._wakes.get(timeout=MOMENT_S)
                before_s = time.monotonic() - MOMENT_S
                for reader in list(self._due):
                    if reader.tell_taken(before_s):
                        self._due.pop(reader, None)
            self._is_awake = False
            if self._due:
                # It was noted while this was still awake.
                self._wakes.put(None)
