"""Waiting for a state of another process or thread, which has no event here.

The deadline is not a promise of edged: it is there so that a test fails instead of hanging. It is
long enough for a machine on which everything takes twenty times its usual time, and longer than
edged itself waits for a program that it started.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, TypeVar

HANGS_S: Final = 120.0
LOOK_EVERY_S: Final = 0.05
LOOK_AT_LEAST_EVERY_S: Final = 0.25
LATER: Final = 0.05
"""Of the time that was waited already: a look costs an engine some milliseconds of a processor."""
TICK_S: Final = 0.01

Found = TypeVar("Found")


def wait_for(what: Callable[[], object], within_s: float = HANGS_S) -> float:
    """Wait until ``what`` gives something true; how long that took, in seconds."""
    began = time.monotonic()
    while not what():
        waited_s = time.monotonic() - began
        assert waited_s < within_s, "it did not happen in time"
        pause_s = min(max(LOOK_EVERY_S, LATER * waited_s), LOOK_AT_LEAST_EVERY_S)
        time.sleep(pause_s)  # noqa: TID251 - another process has no event here
    return time.monotonic() - began


def first(look: Callable[[], Found]) -> Found:
    """What ``look`` gives as soon as that is true."""
    found: list[Found] = []

    def has_come() -> bool:
        found[:] = [look()]
        return bool(found[0])

    wait_for(has_come)
    return found[0]


class OwnTime:
    """The seconds that something takes, without those in which this process had no processor.

    A bound that edged promises is judged by these: the clock of a machine under load goes on while
    the test, and the engine in its process, stand still. A thread counts its own short sleeps; one
    that lasts longer than twice its time was no time of this process.
    """

    def __init__(self) -> None:
        self._counted_s = 0.0
        self._is_over = threading.Event()
        self._counting = threading.Thread(target=self._count, name="own-time", daemon=True)

    def __enter__(self) -> OwnTime:
        self._counting.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_over.set()
        self._counting.join()

    def seconds(self) -> float:
        """Since it was entered; behind the clock by one tick at most."""
        return self._counted_s

    def _count(self) -> None:
        before = time.monotonic()
        while not self._is_over.wait(TICK_S):
            now = time.monotonic()
            self._counted_s += min(now - before, 2 * TICK_S)
            before = now
