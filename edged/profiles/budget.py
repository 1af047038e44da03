"""How often the owner lets a command be sent: ``budget`` of a unit's entry. Pure."""

from __future__ import annotations

from typing import Final

from edged.record import record

MOST_PER_HOUR: Final = 3600
MOST_INTERVAL_S: Final = 3600


@record
class Budget:
    """What the owner allows: so many within any hour, and so far apart; ``None``: not limited."""

    per_hour: int | None = None
    min_interval_s: float | None = None

    def __str__(self) -> str:
        """``60 an hour and 5 s apart``."""
        told = [f"{self.per_hour} an hour"] if self.per_hour is not None else []
        if self.min_interval_s is not None:
            told.append(f"{self.min_interval_s:g} s apart")
        return " and ".join(told)

    def stricter(self, other: Budget) -> Budget:
        """Both at once."""
        hours = (self.per_hour, other.per_hour)
        gaps = (self.min_interval_s, other.min_interval_s)
        return Budget(
            per_hour=min((one for one in hours if one is not None), default=None),
            min_interval_s=max((one for one in gaps if one is not None), default=None),
        )
