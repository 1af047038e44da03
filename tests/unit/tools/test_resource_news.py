from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

from edged.instruments.pool import Arrived
from edged.protocol.messages import News
from edged.runs.streams.registry import StreamNews
from edged.runs.sweeps.registry import SweepChanged
from edged.tools.resources import ResourceNews
from tests.bench.driven_clock import DrivenClock
from tests.bench.fake_instruments import FakeInstrument, toy_profile


class Room:
    """Something that tells of itself."""

    def __init__(self) -> None:
        self.listeners: list[Callable[..., None]] = []
        self.moving: list[dict[str, Any]] = []

    def subscribe(self, listener: Callable[..., None]) -> Callable[[], None]:
        self.listeners.append(listener)
        return lambda: self.listeners.remove(listener)

    def active(self) -> list[dict[str, Any]]:
        return self.moving

    def tell(self, *news: Any) -> None:
        for listener in tuple(self.listeners):
            listener(*news)


def newsroom(clock: DrivenClock) -> tuple[ResourceNews, SimpleNamespace, list[News]]:
    rooms: Any = {name: Room() for name in ("pool", "sweeps", "streams", "runs", "waveforms")}
    news = ResourceNews(cast("Any", SimpleNamespace(**rooms)), clock)
    heard: list[News] = []
    news.subscribe(heard.append)
    news.start()
    return news, SimpleNamespace(**rooms), heard


async def test_a_thousand_points_are_told_once_each_half_second(driven_clock: DrivenClock) -> None:
    news, rooms, heard = newsroom(driven_clock)
    for _ in range(1000):
        rooms.streams.tell(StreamNews(what="point", stream_id="mcp-1", data={}))
    await driven_clock.advance(0.6)
    assert heard == [News(is_list_changed=False, uris=("edged://streams/mcp-1",))]
    await driven_clock.advance(5.0)
    assert len(heard) == 1
    await news.stop()
    assert rooms.streams.listeners == []


async def test_what_comes_and_goes_changes_the_list(driven_clock: DrivenClock) -> None:
    news, rooms, heard = newsroom(driven_clock)
    told: tuple[tuple[Room, tuple[Any, ...], str], ...] = (
        (rooms.streams, (StreamNews(what="ended", stream_id="mcp-1", data={}),), "streams/mcp-1"),
        (rooms.sweeps, (SweepChanged(sweep_id="s1", told={}),), "sweeps/s1"),
        (rooms.runs, ("s1",), "runs/s1"),
        (rooms.waveforms, ("mcp-1", 0), ""),
        (
            rooms.pool,
            (Arrived(instrument=FakeInstrument(id="U1", profile=toy_profile())),),  # type: ignore[arg-type]
            "instruments/U1",
        ),
    )
    for room, event, uri in told:
        room.tell(*event)
        await driven_clock.advance(0.6)
        assert heard[-1].is_list_changed
        assert not uri or f"edged://{uri}" in heard[-1].uris
    assert len(heard) == len(told)
    await news.stop()


async def test_a_sweep_that_moves_is_told_as_it_goes(driven_clock: DrivenClock) -> None:
    news, rooms, heard = newsroom(driven_clock)
    rooms.sweeps.moving = [
        {"sweep_id": "s1", "status": "running"},
        {"sweep_id": "s2", "status": "holding"},
    ]
    rooms.sweeps.tell(SweepChanged(sweep_id="s1", told={}))
    await driven_clock.advance(2.2)
    assert len(heard) >= 3
    assert all("edged://sweeps/s2" not in one.uris for one in heard)
    rooms.sweeps.moving = []
    await driven_clock.advance(1.1)
    count = len(heard)
    await driven_clock.advance(3.0)
    assert len(heard) == count
    await news.stop()
