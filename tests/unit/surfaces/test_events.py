"""The hub of /events: who hears what, and what a slow reader is told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from edged.clock import SystemClock
from edged.errors import Conflict, Invalid
from edged.surfaces.events.hub import MAX_SUBSCRIPTIONS, MAX_WAITING, EventHub, Publish, show_all
from tests.promises import promise


class Feeds:
    def __init__(self) -> None:
        self.publish: dict[str, Publish] = {}
        self.hub = EventHub(
            sources={topic: self._source(topic) for topic in ("audit", "sweep")},
            clock=SystemClock(),
        )

    def _source(self, topic: str) -> Callable[[Publish], Callable[[], None]]:
        def follow(publish: Publish) -> Callable[[], None]:
            self.publish[topic] = publish
            return lambda: self.publish.pop(topic) and None

        return follow


async def test_a_reader_hears_its_topics_and_no_other() -> None:
    feeds = Feeds()
    reader, other = feeds.hub.subscribe(show_all), feeds.hub.subscribe(show_all)
    feeds.hub.choose(reader, ["audit"])
    feeds.hub.choose(other, ["sweep"])
    feeds.publish["audit"]("row", {"seq": 1})
    events, missed = await reader.take()
    assert [(e.told["topic"], e.told["event"], e.told["data"]) for e in events] == [
        ("audit", "row", {"seq": 1})
    ]
    assert not missed
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await other.take()


async def test_a_reader_is_shown_what_it_may_see_and_misses_nothing_else() -> None:
    feeds = Feeds()
    reader = feeds.hub.subscribe(lambda topic, data: topic == "sweep" or data["mine"], {"audit": 1})
    feeds.hub.choose(reader, ["audit", "sweep"])
    for is_own in (False, True, False):
        feeds.publish["audit"]("row", {"mine": is_own})
    feeds.publish["sweep"]("changed", {})
    events, missed = await reader.take()
    assert [event.told["data"] for event in events] == [{"mine": True}, {}]
    assert not missed


async def test_a_source_is_followed_only_while_somebody_listens() -> None:
    feeds = Feeds()
    first, second = feeds.hub.subscribe(show_all), feeds.hub.subscribe(show_all)
    assert not feeds.publish
    feeds.hub.choose(first, ["audit"])
    feeds.hub.choose(second, ["audit", "sweep"])
    feeds.hub.leave(second)
    assert set(feeds.publish) == {"audit"}
    feeds.hub.choose(first, [])
    assert not feeds.publish


@promise("rpc.events")
async def test_a_slow_reader_is_told_how_many_events_it_missed() -> None:
    feeds = Feeds()
    reader = feeds.hub.subscribe(show_all)
    feeds.hub.choose(reader, ["audit", "sweep"])
    for number in range(MAX_WAITING):
        feeds.publish["audit"]("row", number)
    for _ in range(7):
        feeds.publish["sweep"]("changed", {})
    events, missed = await reader.take()
    assert [event.told["data"] for event in events] == list(range(MAX_WAITING))
    assert missed == {"sweep": 7}
    feeds.publish["audit"]("row", "again")
    events, missed = await reader.take()
    assert [event.told["data"] for event in events] == ["again"]
    assert not missed


async def test_an_unknown_topic_is_refused_with_those_there_are() -> None:
    feeds = Feeds()
    reader = feeds.hub.subscribe(show_all)
    with pytest.raises(Invalid, match="audit, sweep"):
        feeds.hub.choose(reader, ["nope"])
    assert reader.topics == set()


async def test_there_is_room_for_a_bounded_number_of_readers() -> None:
    hub = Feeds().hub
    for _ in range(MAX_SUBSCRIPTIONS):
        hub.subscribe(show_all)
    with pytest.raises(Conflict):
        hub.subscribe(show_all)
