"""The hub of events: topics, who listens to them, and what a slow listener has missed.

A source is followed only while somebody listens to its topic, so that nothing is made for nobody.
"""

from __future__ import annotations

import asyncio
import collections
import json
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from edged.clock import Clock
from edged.errors import Conflict, Invalid

MAX_WAITING: Final = 1_000
"""Events that wait for one reader; what comes beyond is counted."""
MAX_SUBSCRIPTIONS: Final = 64
NO_BOUNDS: Final[Mapping[str, int]] = {}

Publish = Callable[[str, Any], None]
"""Takes the name of an event and its JSON-ready data."""
Source = Callable[[Publish], Callable[[], None]]
"""Begins to publish; the result ends that."""


class Event:
    """Something that happened, the same for all who hear of it.

    Attributes:
        told: {topic, event, time_ms, data}.
    """

    __slots__ = ("_text", "told")

    def __init__(self, told: Mapping[str, Any]) -> None:
        self.told = told
        self._text = ""

    @property
    def text(self) -> str:
        """It as JSON; made once, however many read it."""
        if not self._text:
            self._text = _encoded(self.told)
        return self._text


def _encoded(told: Mapping[str, Any]) -> str:
    try:
        return json.dumps(told, default=str, allow_nan=False)
    except ValueError:
        # JSON has no such number, and a browser takes no message that has one.
        return json.dumps(_finite(told), default=str)


def _finite(value: Any) -> Any:
    match value:
        case float():
            return value if math.isfinite(value) else None
        case Mapping():
            return {name: _finite(one) for name, one in value.items()}
        case list() | tuple():
            return [_finite(one) for one in value]
    return value


Shows = Callable[[str, Any], bool]
"""Topic and data of an event → whether a reader is shown it."""


def show_all(_topic: str, _data: Any) -> bool:
    """For the owner's readers."""
    return True


class EventSubscription:
    """One reader of some topics.

    Args:
        shows: which events it is shown.
        most: topic → how many of its events wait at once, where that is fewer than of all.

    Attributes:
        topics: what it wants to hear.
    """

    def __init__(self, shows: Shows, most: Mapping[str, int]) -> None:
        self.topics: set[str] = set()
        self._most = most
        self._shows = shows
        self._waiting: collections.deque[Event] = collections.deque()
        self._waiting_of: collections.Counter[str] = collections.Counter()
        self._missed: collections.Counter[str] = collections.Counter()
        self._news = asyncio.Event()

    def put(self, topic: str, event: Event) -> None:
        """Have it read, or counted as missed; one that the reader is not shown is neither."""
        if not self._shows(topic, event.told["data"]):
            return
        if (
            len(self._waiting) >= MAX_WAITING
            or self._waiting_of[topic] >= self._most.get(topic, MAX_WAITING)
        ):  # fmt: skip
            self._missed[topic] += 1
        else:
            self._waiting.append(event)
            self._waiting_of[topic] += 1
        self._news.set()

    async def take(self) -> tuple[list[Event], Mapping[str, int]]:
        """What waits, and how many events of which topic were missed after that."""
        while not self._waiting and not self._missed:
            self._news.clear()
            await self._news.wait()
        events, missed = list(self._waiting), dict(self._missed)
        self._waiting.clear()
        self._waiting_of.clear()
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

    def subscribe(self, shows: Shows, most: Mapping[str, int] = NO_BOUNDS) -> EventSubscription:
        """A new reader, of no topic yet.

        Args:
            shows, most: see ``EventSubscription``.

        Raises:
            Conflict: BUSY, too many listen already.
        """
        if len(self._subscriptions) >= MAX_SUBSCRIPTIONS:
            raise Conflict(f"{MAX_SUBSCRIPTIONS} readers of events are connected already.")
        subscription = EventSubscription(shows, most)
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
            event = Event(
                {
                    "topic": topic,
                    "event": name,
                    "time_ms": self._clock.wall_ms(),
                    "data": data,
                }
            )
            for subscription in self._subscriptions:
                if topic in subscription.topics:
                    subscription.put(topic, event)

        return publish
