"""Opening a session whose handshake cannot be woken, without waiting for it longer than wanted.

pyvisa-py waits five seconds for a HiSLIP or VXI-11 port that accepts and stays silent, whatever
``open_timeout`` says. Each attempt therefore has a thread of its own, which is left to itself when
its time is over or a stop comes; what it opens after that it closes again.
"""

from __future__ import annotations

import contextlib
import threading
from typing import Any, Final

from edged.clock import Clock
from edged.instruments.link import LinkError, LinkLost, LinkTimeout, OpenResource, translated
from edged.instruments.wake import Wake

__all__ = ["Opener"]

MOST_ATTEMPTS: Final = 3
"""Attempts that may still hang behind one line; more would be one thread for each retry."""


class Opener:
    """Opens the sessions of one line, one after the other."""

    def __init__(self, address: str, open_resource: OpenResource, wake: Wake, clock: Clock) -> None:
        self._address = address
        self._open_resource = open_resource
        self._wake = wake
        self._clock = clock
        self._attempts: list[_Attempt] = []

    def open(self, timeout_s: float) -> Any:
        """An opened PyVISA resource.

        Raises:
            LinkTimeout: it was not opened in time, or several attempts hang already.
            LinkError: it cannot be opened; ``LinkPreempted``.
        """
        deadline = self._clock.monotonic() + timeout_s
        self._attempts = [attempt for attempt in self._attempts if not attempt.has_ended]
        while len(self._attempts) >= MOST_ATTEMPTS:
            self._wait(deadline)
            self._attempts = [attempt for attempt in self._attempts if not attempt.has_ended]
        attempt = _Attempt(self._address, self._open_resource, timeout_s, self._wake)
        self._attempts.append(attempt)
        attempt.start()
        try:
            while not attempt.has_ended:
                self._wait(deadline)
        except LinkError:
            attempt.abandon()
            raise
        return attempt.result()

    def _wait(self, deadline: float) -> None:
        left_s = deadline - self._clock.monotonic()
        if left_s <= 0:
            raise LinkTimeout(f"opening {self._address} took too long")
        self._wake.listen(left_s)


class _Attempt:
    """One try on its own thread. ``_lock`` guards who closes what was opened too late."""

    def __init__(
        self, address: str, open_resource: OpenResource, timeout_s: float, wake: Wake
    ) -> None:
        self._address = address
        self._open_resource = open_resource
        self._timeout_s = timeout_s
        self._wake = wake
        self._lock = threading.Lock()
        self._resource: Any = None
        self._error: LinkError | None = None
        self._is_abandoned = False
        self.has_ended = False

    def start(self) -> None:
        threading.Thread(
            target=self._run, name=f"edged-open-{self._address}"[:64], daemon=True
        ).start()

    def abandon(self) -> None:
        """Nobody waits any more."""
        with self._lock:
            self._is_abandoned = True
            resource, self._resource = self._resource, None
        _close(resource)

    def result(self) -> Any:
        if self._error is not None:
            raise self._error
        return self._resource

    def _run(self) -> None:
        resource, error = None, None
        try:
            resource = self._open_resource(self._address, self._timeout_s)
        except LinkError as failure:
            error = failure
        except Exception as failure:  # noqa: BLE001 - top of a thread
            error = LinkLost(f"opening {self._address} failed: {failure}")
        with self._lock:
            if not self._is_abandoned:
                self._resource, self._error = resource, error
                resource = None
            self.has_ended = True
        _close(resource)
        self._wake.stir()


def _close(resource: Any) -> None:
    if resource is not None:
        with contextlib.suppress(LinkError), translated("closing"):
            resource.close()
