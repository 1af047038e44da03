"""The timer in a supply that switches its outputs off when it gets no messages. Pure.

Which words feed it, when it begins to count and how it is cleared is the model's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from edged_sim.physics import SupplyOutput


@dataclass(slots=True, kw_only=True)
class OutputWatchdog:
    """One timer for these outputs.

    Attributes:
        runs_out: the moment at which it switches off, or ``None`` while it does not count.
        is_tripped: it has switched off, and nobody has cleared that.
    """

    outputs: tuple[SupplyOutput, ...]
    delay_s: float
    is_enabled: bool = False
    runs_out: float | None = None
    is_tripped: bool = False

    def look(self, now: float) -> None:
        """Let the time until now pass; what hangs on the outputs sees it by itself."""
        if self.runs_out is not None and now >= self.runs_out:
            self.runs_out, self.is_tripped = None, True

    def feed(self, now: float) -> None:
        """Count anew, where it is enabled and has not switched off."""
        self.look(now)
        if self.is_enabled and not self.is_tripped:
            self._count_to(now + self.delay_s)

    def enable(self) -> None:
        """Enabled, but not counting yet."""
        self.is_enabled = True

    def hold(self) -> None:
        """Count only when it is fed again."""
        self._count_to(None)

    def disable(self) -> None:
        """It does not count; that it has switched off stays so."""
        self.is_enabled = False
        self._count_to(None)

    def left_s(self, now: float) -> float | None:
        """What is left until it switches off."""
        return None if self.runs_out is None else max(0.0, self.runs_out - now)

    def describe(self, now: float) -> dict[str, Any]:
        """For the control port, which does not feed it."""
        self.look(now)
        return {
            "is_enabled": self.is_enabled,
            "delay_s": self.delay_s,
            "is_tripped": self.is_tripped,
            "left_s": self.left_s(now),
        }

    def _count_to(self, moment: float | None) -> None:
        self.runs_out = moment
        for output in self.outputs:
            output.off_at = moment
