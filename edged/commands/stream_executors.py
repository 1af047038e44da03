"""How the actions of streams and waveforms are run: the tools' arguments in, their results out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from edged.actions.action import Action, FetchWaveform, StartStream, StopStream
from edged.actions.outcome import Picture
from edged.commands.path import Done, Executor
from edged.commands.target import Target
from edged.errors import EdgedError
from edged.plot.artist import Artist
from edged.work.points import DEFAULT_DECIMATED
from edged.work.streams import StreamBook
from edged.work.waveforms import WaveformBook

__all__ = ["StreamExecutors", "failed_stream"]

NO_STREAM: Final[Mapping[str, Any]] = {
    "stream_id": "",
    "count": 0,
    "last": None,
    "status": "failed",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamExecutors:
    """The executors, bound to their rooms."""

    streams: StreamBook
    waveforms: WaveformBook
    artist: Artist

    def table(self) -> dict[type[Action], Executor]:
        """Their part of ``EXECUTORS``."""
        return {
            StartStream: self._start,
            StopStream: self._stop,
            FetchWaveform: self._fetch,
        }

    async def _start(self, action: StartStream, target: Target, _began: float) -> Done:
        instrument, command = target.aimed_command()
        return Done(data=await self.streams.start(action, instrument.id, command))

    async def _stop(self, action: StopStream, _target: Target, _began: float) -> Done:
        return Done(data=await self.streams.stop(action.stream_id))

    async def _fetch(self, action: FetchWaveform, _target: Target, _began: float) -> Done:
        wishes = action.arguments
        form = str(wishes.get("format", "base64"))
        points = int(wishes.get("points", DEFAULT_DECIMATED))
        where = (action.stream_id, action.point_index)
        if form != "png":
            first, count = int(wishes.get("first") or 0), wishes.get("count")
            fetched = self.waveforms.fetch(*where, form, points, first, count)
            return Done(data=await fetched)
        picture = await self.artist.draw(await self.waveforms.figure(*where))
        data = await self.waveforms.fetch(*where, form)
        return Done(data=data, pictures=(Picture(mime="image/png", data=picture),))


def failed_stream(error: EdgedError, told: Mapping[str, Any]) -> dict[str, Any]:
    """start_stream's result when it failed: what was measured until then, and the error."""
    return {**NO_STREAM, **{k: v for k, v in error.data.items() if k in RESULT}, "error": told}


RESULT: Final = frozenset({*NO_STREAM, "stats", "dropped", "recording"})
