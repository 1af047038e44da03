"""A clock that stands still until a test moves it."""

from __future__ import annotations

import asyncio
import heapq
import itertools

# Turns of the loop that everything which can run gets before and after time moves.
SETTLE_TURNS = 20
# After so many turns without a ready callback there will be none.
IDLE_TURNS = 3
START_WALL_MS = 1_790_000_000_000


class DrivenClock:
    """Implements ``edged.clock.Clock``; time passes by ``advance`` alone.

    Reading is safe from any thread; ``sleep`` and ``advance`` belong to the loop's.
    """

    def __init__(self, *, monotonic: float = 1_000.0, wall_ms: int = START_WALL_MS) -> None:
        self._now = monotonic
        self._start = monotonic
        self._wall_start_ms = wall_ms
        # (deadline, tie breaker, future that the sleeper awaits)
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = itertools.count()

    def monotonic(self) -> float:
        return self._now

    def wall_ms(self) -> int:
        return self._wall_start_ms + round((self._now - self._start) * 1000)

    def wall_ns(self) -> int:
        return self.wall_ms() * 1_000_000

    def set_wall(self, wall_ms: int) -> None:
        """Have wall time jump."""
        self._wall_start_ms = wall_ms - round((self._now - self._start) * 1000)

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now + seconds, next(self._order), future))
        await future

    @property
    def sleepers(self) -> int:
        """How many are asleep now."""
        return sum(1 for _, _, future in self._sleepers if not future.done())

    def move(self, seconds: float) -> None:
        """Let time pass for what only reads it; nobody is woken."""
        self._now += seconds

    def wake_all(self) -> None:
        """Wake everybody who sleeps without any time passing, where waiting is not the matter."""
        for _, _, future in self._sleepers:
            if not future.done():
                future.set_result(None)
        self._sleepers.clear()

    async def advance(self, seconds: float) -> None:
        """Let time pass, stopping at each moment at which somebody wakes."""
        end = self._now + seconds
        await settle()
        while self._sleepers and self._sleepers[0][0] <= end:
            deadline, _, future = heapq.heappop(self._sleepers)
            if future.done():
                continue
            self._now = max(self._now, deadline)
            future.set_result(None)
            await settle()
        self._now = end
        await settle()


async def settle() -> None:
    """Let everything that can run without time passing run."""
    # asyncio has no public way to ask whether a callback is ready.
    ready = getattr(asyncio.get_running_loop(), "_ready", (None,))
    idle = 0
    for _ in range(SETTLE_TURNS):
        await asyncio.sleep(0)
        idle = 0 if ready else idle + 1
        if idle == IDLE_TURNS:
            return
