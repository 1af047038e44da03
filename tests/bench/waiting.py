"""Waiting for a state of another process or thread, which has no event here.

The deadline is not a promise of edged: it is there so that a test fails instead of hanging. It is
long enough for a machine on which everything takes twenty times its usual time, and longer than
edged itself waits for a program that it started.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

HANGS_S: Final = 120.0
LOOK_EVERY_S: Final = 0.05

Found = TypeVar("Found")


def wait_for(what: Callable[[], object], within_s: float = HANGS_S) -> float:
    """Wait until ``what`` gives something true; how long that took, in seconds."""
    began = time.monotonic()
    while not what():
        assert time.monotonic() - began < within_s, "it did not happen in time"
        time.sleep(LOOK_EVERY_S)  # noqa: TID251 - another process has no event here
    return time.monotonic() - began


def first(look: Callable[[], Found]) -> Found:
    """What ``look`` gives as soon as that is true."""
    found: list[Found] = []

    def has_come() -> bool:
        found[:] = [look()]
        return bool(found[0])

    wait_for(has_come)
    return found[0]
