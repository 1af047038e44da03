"""How long something takes, as a histogram of fixed size. Pure.

Buckets are a quarter of an octave wide, so a percentile is right within 9 %. Old measurements fade:
when a histogram is full, every count is halved.
"""

from __future__ import annotations

import bisect
import json
from typing import Final

__all__ = ["Latency"]

SMALLEST_MS: Final = 0.05
BUCKETS: Final = 100
"""From 50 µs to 25 minutes."""
BOUNDS_MS: Final = tuple(SMALLEST_MS * 2 ** (step / 4) for step in range(BUCKETS - 1))
FULL: Final = 2_000


class Latency:
    """Latencies of one command on one instrument, in milliseconds."""

    __slots__ = ("_counts", "_total")

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self._total = 0

    def note(self, duration_ms: float) -> None:
        """Take a measurement in."""
        bucket = bisect.bisect_left(BOUNDS_MS, duration_ms)
        self._counts[bucket] = self._counts.get(bucket, 0) + 1
        self._total += 1
        if self._total >= FULL:
            self._counts = {at: count // 2 for at, count in self._counts.items() if count > 1}
            self._total = sum(self._counts.values())

    def percentile(self, share: float) -> float | None:
        """The duration under which that share (0 to 1) stayed; None before the first one."""
        counts = dict(self._counts)
        rest = share * sum(counts.values())
        for bucket in sorted(counts):
            rest -= counts[bucket]
            if rest <= 0:
                # The geometric middle of the bucket; its upper bound is a factor 2^(1/8) above.
                return round(BOUNDS_MS[min(bucket, BUCKETS - 2)] / 2**0.125, 3)
        return None

    def dump(self) -> str:
        """As text, for ``parse``."""
        return json.dumps(sorted(self._counts.items()), separators=(",", ":"))

    @classmethod
    def parse(cls, text: str) -> Latency:
        """From ``dump``'s text; an empty one from anything else."""
        latency = cls()
        try:
            pairs = [(int(bucket), int(count)) for bucket, count in json.loads(text)]
        except (TypeError, ValueError):
            return latency
        latency._counts = {at: n for at, n in pairs if 0 <= at < BUCKETS and n > 0}
        latency._total = sum(latency._counts.values())
        return latency
