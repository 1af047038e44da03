"""When the engine was heard last: what the watchdog and the roads to the engine tell each other.

A hung program still takes connections and bytes: its kernel does. So what was passed on to it since
it was last heard is in doubt when it stays unanswered, and a look of the watchdog settles that at
once; what was passed on before may take as long as it takes, because the engine has lived since.
Costs a request two looks at the clock. Lives on the event loop.

Source: docs/promises.md section 9.
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

from edged.clock import Clock

DOUBT_AFTER_S: Final = 0.15
"""Most answers come sooner; what is slower costs the engine one look."""


class Road(Protocol):
    """A way on which requests reach the engine."""

    def waits_since(self, heard_s: float) -> bool:
        """Whether a request that was passed on after that moment has no answer yet."""
        ...

    def refuse_since(self, heard_s: float) -> None:
        """Answer those with 503: the engine is silent."""
        ...


class Pulse:
    """The engine's.

    Args:
        clock: what moments are told by.

    Attributes:
        heard_s: when it was last heard, or shown to have lived.
        is_silent: it did not answer a look; nothing is to be passed on.
        doubted: set when a look is wanted now; whoever looks clears it.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._roads: list[Road] = []
        self._timer: asyncio.TimerHandle | None = None
        self.heard_s = clock.monotonic()
        self.is_silent = False
        self.doubted = asyncio.Event()

    def join(self, road: Road) -> None:
        """Ask this road, too, who waits, and tell it when the engine is silent."""
        self._roads.append(road)

    def asked(self) -> float:
        """A request is passed on; returns when."""
        if self._timer is None:
            self._arm()
        return self._clock.monotonic()

    def heard(self) -> None:
        """It has sent something."""
        self.heard_s = self._clock.monotonic()
        self.is_silent = False

    def lived(self, at_s: float) -> None:
        """It answered what was asked at that moment."""
        self.heard_s = max(self.heard_s, at_s)
        self.is_silent = False

    def fall_silent(self) -> None:
        """It has not answered a look: so far nobody knows whether it will."""
        self.is_silent = True
        for road in self._roads:
            road.refuse_since(self.heard_s)

    def stop(self) -> None:
        """Doubt no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(DOUBT_AFTER_S, self._consider)

    def _consider(self) -> None:
        """Doubt it if it has been quiet and somebody waits; come again while that may be so."""
        self._timer = None
        if self._clock.monotonic() - self.heard_s < DOUBT_AFTER_S:
            self._arm()
        elif any(road.waits_since(self.heard_s) for road in self._roads):
            self.doubted.set()
            self._arm()
