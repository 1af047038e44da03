"""What has changed among the resources, gathered and told twice a second at most.

A stream of twenty points a second changes its resource twenty times; whoever watches wants to know
that it changed. Listens to the rooms of long work and to the pool, all on the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from edged.clock import Clock
from edged.instruments.pool import Changed, Event, InstrumentPool
from edged.tools.resource_kinds import uri_of
from edged.work.runs import RunBook
from edged.work.streams import StreamBook, StreamNews
from edged.work.sweeps import SweepBook, SweepChanged
from edged.work.waveforms import WaveformBook

__all__ = ["News", "ResourceNews"]

TELL_EVERY_S: Final = 0.5
STATUS: Final = uri_of("status")
INSTRUMENTS: Final = uri_of("instruments")


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """What has changed since the last news: the list itself, and the contents at these URIs."""

    is_list_changed: bool
    uris: tuple[str, ...]


class ResourceNews:
    """Gathers changes and tells them.

    Args:
        clock: for how often.
    """

    def __init__(
        self,
        *,
        pool: InstrumentPool,
        sweeps: SweepBook,
        streams: StreamBook,
        runs: RunBook,
        waveforms: WaveformBook,
        clock: Clock,
    ) -> None:
        self._pool = pool
        self._sweeps = sweeps
        self._streams = streams
        self._runs = runs
        self._waveforms = waveforms
        self._clock = clock
        self._is_list_changed = False
        # In the order in which they changed.
        self._uris: dict[str, None] = {}
        self._dirty = asyncio.Event()
        self._listeners: list[Callable[[News], None]] = []
        self._ends: list[Callable[[], None]] = []
        self._task: asyncio.Task[None] | None = None

    def subscribe(self, callback: Callable[[News], None]) -> Callable[[], None]:
        """Call back on the loop with each news; returns how to end that."""
        self._listeners.append(callback)
        return lambda: self._listeners.remove(callback)

    def start(self) -> None:
        """Listen from now on."""
        self._ends = [
            self._pool.subscribe(self._hear_pool),
            self._sweeps.subscribe(self._hear_sweep),
            self._streams.subscribe(self._hear_stream),
            self._runs.subscribe(self._hear_run),
            self._waveforms.subscribe(self._hear_waveform),
        ]
        self._task = asyncio.create_task(self._tell_forever(), name="resource news")

    async def stop(self) -> None:
        """Listen no more."""
        for end in self._ends:
            end()
        self._ends = []
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _tell_forever(self) -> None:
        while True:
            moving = [s for s in self._sweeps.active() if s["status"] == "running"]
            if not moving:
                await self._dirty.wait()
            await self._clock.sleep(TELL_EVERY_S)
            for sweep in moving:
                # Its steps make no news of their own.
                self._uris[uri_of("sweep", sweep_id=str(sweep["sweep_id"]))] = None
            self._tell()

    def _tell(self) -> None:
        self._dirty.clear()
        if not self._uris and not self._is_list_changed:
            return
        news = News(is_list_changed=self._is_list_changed, uris=tuple(self._uris))
        self._is_list_changed = False
        self._uris.clear()
        for listener in tuple(self._listeners):
            listener(news)

    def _note(self, *uris: str, is_list_changed: bool = False) -> None:
        self._is_list_changed |= is_list_changed
        if self._listeners:
            self._uris.update(dict.fromkeys(uris))
        self._dirty.set()

    def _hear_pool(self, event: Event) -> None:
        uri = uri_of("instrument", instrument_id=event.instrument.id)
        # Whether it answers stands in its entry of the list, too.
        self._note(uri, INSTRUMENTS, STATUS, is_list_changed=True)
        if not isinstance(event, Changed) and event.instrument.profile is not None:
            self._note(uri_of("profiles"))

    def _hear_sweep(self, news: SweepChanged) -> None:
        self._note(uri_of("sweep", sweep_id=news.sweep_id), STATUS, is_list_changed=True)

    def _hear_stream(self, news: StreamNews) -> None:
        uri = uri_of("stream", stream_id=news.stream_id)
        if news.what == "point":
            self._note(uri)
        else:
            self._note(uri, STATUS, is_list_changed=True)

    def _hear_run(self, run_id: str) -> None:
        self._note(uri_of("run", run_id=run_id), is_list_changed=True)

    def _hear_waveform(self, _stream_id: str, _index: int) -> None:
        self._note(is_list_changed=True)
