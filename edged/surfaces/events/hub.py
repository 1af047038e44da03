"""The hub of events: topics, who listens to them, and what a slow listener has missed.

A source is followed only while somebody listens to its topic, so that nothing is made for nobody.
"""

from __future__ import annotations

import asyncio
import collections
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from edged.clock import Clock
from edged.errors import Conflict, Invalid

__all__ = ["EventHub", "EventSubscription", "Publish", "Source"]

MAX_WAITING: Final = 1_000
"""Events that wait for one reader; what comes beyond is counted."""
MAX_SUBSCRIPTIONS: Final = 64

Publish = Callable[[str, Any], None]
"""Takes the name of an event and its JSON-ready data."""
Source = Callable[[Publish], Callable[[], None]]
"""Begins to publish; the result ends that."""


class EventSubscription:
    """One reader of some topics.

    Attributes:
        topics: what it wants to hear.
    """

    def __init__(self) -> None:
        self.topics: set[str] = set()
        self._waiting: collections.deque[dict[str, Any]] = collections.deque()
        self._missed: collections.Counter[str] = collections.Counter()
        self._news = asyncio.Event()

    def put(self, topic: str, event: dict[str, Any]) -> None:
        """Have it read, or counted as missed."""
        if len(self._waiting) >= MAX_WAITING:
            self._missed[topic] += 1
        else:
            self._waiting.append(event)
        self._news.set()

    async def take(self) -> tuple[list[dict[str, Any]], Mapping[str, int]]:
        """What waits, and how many events of which topic were missed after that."""
        while not self._waiting and not self._missed:
            self._news.clear()
            await self._news.wait()
        events, missed = list(self._waiting), dict(self._missed)
        self._waiting.clear()
        self._missed.clear()
        return events, missed


class EventHub:
    """Hands events to those who listen.

    Args:
        sources: topic → its source.
        clock: for the time of an event.
    """

    def __init__(self, *, sources: Mapping[str, Source], clock: Clock) -> None:
        self._sources = dict(sources)
        self._clock = clock
        self._subscriptions: set[EventSubscription] = set()
        self._followed: dict[str, Callable[[], None]] = {}

    @property
    def topics(self) -> tuple[str, ...]:
        """The names of all topics."""
        return tuple(self._sources)

    @property
    def reader_count(self) -> int:
        """How many listen."""
        return len(self._subscriptions)

    def subscribe(self) -> EventSubscription:
        """A new reader, of no topic yet.

        Raises:
            Conflict: BUSY, too many listen already.
        """
        if len(self._subscriptions) >= MAX_SUBSCRIPTIONS:
            raise Conflict(f"{MAX_SUBSCRIPTIONS} readers of events are connected already.")
        subscription = EventSubscription()
        self._subscriptions.add(subscription)
        return subscription

    def choose(self, subscription: EventSubscription, topics: Iterable[str]) -> list[str]:
        """Listen to these and to nothing else.

        Raises:
            Invalid: a topic that does not exist.
        """
        wanted = set(topics)
        unknown = sorted(wanted - set(self._sources))
        if unknown:
            raise Invalid(
                f"There is no topic {unknown[0][:64]!r}.",
                data={"parameter": "topics", "topics": list(self._sources)},
                remedy=f"Topics: {', '.join(self._sources)}.",
            )
        subscription.topics = wanted
        self._follow_what_is_wanted()
        return sorted(wanted)

    def leave(self, subscription: EventSubscription) -> None:
        """End a reader."""
        self._subscriptions.discard(subscription)
        self._follow_what_is_wanted()

    def _follow_what_is_wanted(self) -> None:
        wanted = {topic for reader in self._subscriptions for topic in reader.topics}
        for topic in wanted - self._followed.keys():
            self._followed[topic] = self._sources[topic](self._publisher(topic))
        for topic in self._followed.keys() - wanted:
            self._followed.pop(topic)()

    def _publisher(self, topic: str) -> Publish:
        def publish(name: str, data: Any) -> None:
            event = {
                "topic": topic,
                "event": name,
                "time_ms": self._clock.wall_ms(),
                "data": data,
            }
            for subscription in self._subscriptions:
                if topic in subscription.topics:
                    subscription.put(topic, event)

        return publish
