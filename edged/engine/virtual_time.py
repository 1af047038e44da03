"""Virtual time: an event loop that never waits, and the clock that reads it.

While a callback is ready, time stands still. When none is, the loop jumps to its next timer. That
is sound only if nothing outside of the loop is under way, so this loop has no outside: what is
handed to an executor is done at once on the loop itself, and whoever uses the loop starts no
threads and waits for no descriptor (wires are in memory). Equal inputs then give equal runs.

Source: docs/decisions/0037-rehearsal-in-virtual-time.md.
"""

from __future__ import annotations

import asyncio
import math
import selectors
import time
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, Final, TypeVar

from edged.engine.rehearsals import SHORTER
from edged.errors import ErrorCode, Failed, Fault

T = TypeVar("T")

BEGINS_AT_S: Final = 1_000.0
"""Of the monotonic scale, whose zero means nothing; no deadline lies before its zero."""
LONGEST_S: Final = 45 * 86_400.0
"""Much later a float cannot tell moments apart as asyncio does, by a nanosecond: timers would
never come due."""

LOOKS_EVERY: Final = 100
"""Leaps between two looks at the processor time."""


class VirtualClock:
    """Implements ``edged.clock.Clock``; time passes by ``leap`` alone.

    Args:
        wall_ns: Unix epoch nanoseconds at the beginning.
        processor_s: what this process may still compute; a busy computer does not shorten that.
    """

    def __init__(self, wall_ns: int, processor_s: float = math.inf) -> None:
        self._now = BEGINS_AT_S
        self._leaps = 0
        self._processor_s = processor_s
        self._processor_ends = time.process_time() + processor_s
        self._wall_begins_ns = wall_ns

    def monotonic(self) -> float:
        return self._now

    def wall_ns(self) -> int:
        return self._wall_begins_ns + round((self._now - BEGINS_AT_S) * 1e9)

    def wall_ms(self) -> int:
        return self.wall_ns() // 1_000_000

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds))

    @property
    def passed_s(self) -> float:
        """Seconds since the beginning."""
        return self._now - BEGINS_AT_S

    def leap(self, seconds: float) -> None:
        """Let time pass.

        Raises:
            Failed: TIMEOUT, over LONGEST_S have passed by then, or the processor time is over.
        """
        self._now += seconds
        self._leaps += 1
        # Asking the kernel costs more than a leap.
        if self._leaps % LOOKS_EVERY == 0 and time.process_time() > self._processor_ends:
            raise Failed(
                f"The rehearsal was not done within {self._processor_s:g} s of processor time and "
                f"was ended after {self.passed_s:,.0f} s of its own.",
                code=ErrorCode.TIMEOUT,
                remedy=SHORTER,
            )
        if self._now > LONGEST_S:
            raise Failed(
                f"What is rehearsed takes more than {LONGEST_S / 86_400:.0f} days.",
                code=ErrorCode.TIMEOUT,
                remedy=SHORTER,
            )


class _Leaping(selectors.SelectSelector):
    """Looks at its descriptors without waiting; what the loop would wait, its clock leaps."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout <= 0:
            # Something is ready. What a descriptor has is seen before time may leap.
            return []
        found = super().select(0)
        if not found:
            if timeout is None:
                raise Fault("In this virtual time nothing happens any more: a wait has no end.")
            self._clock.leap(timeout)
        return found


class VirtualLoop(asyncio.SelectorEventLoop):
    """The loop whose time is that of ``clock``; it never waits.

    Raises:
        Fault: by ``run_…``: everything waits, and for nothing that has a time.
    """

    def __init__(self, clock: VirtualClock) -> None:
        # What its method returns, without a method: it is asked several times a callback.
        self.time = clock.monotonic  # type: ignore[method-assign]
        super().__init__(_Leaping(clock))

    def run_in_executor(  # type: ignore[override]  # typeshed has another form of ``args``
        self,
        executor: Executor | None,  # noqa: ARG002 - the base's
        func: Callable[..., T],
        *args: Any,
    ) -> asyncio.Future[T]:
        """Do it now: a thread would be outrun by the next leap."""
        done: asyncio.Future[T] = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - raised where it is awaited, as by an executor
            done.set_exception(error)
        return done
