"""How the actions of streams and waveforms are run: the tools' arguments in, their results out.

How the reads are run that only resources ask for: profiles, streams, runs, large pictures.

What else a resource tells is what a tool tells, and is run by that tool's executor.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from edged.actions.action import (
    Action,
    FetchWaveform,
    ReadPicture,
    ReadProfile,
    ReadRun,
    ReadStream,
    StartStream,
    StopStream,
)
from edged.actions.outcome import Picture
from edged.commands.path import Done, Executor
from edged.commands.target import Target
from edged.errors import EdgedError, ErrorCode, NotFound
from edged.plot.artist import Artist
from edged.profiles.markdown import profile_markdown
from edged.profiles.model import Profile
from edged.runs.points import DEFAULT_DECIMATED
from edged.runs.recordings.book import RunBook
from edged.runs.recordings.reader import show_run
from edged.runs.streams.book import StreamBook
from edged.runs.streams.waveforms import WaveformBook

__all__ = ["ResourceExecutors", "StreamExecutors", "failed_stream"]

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
        """Their part of ``Executors.table()``."""
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


ROWS_OF_A_RUN: Final = 100
"""The last ones; the whole recording is the user's file, and an export gives it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceExecutors:
    """The executors, bound to their rooms.

    Attributes:
        profiles: gives the library as it is now.
    """

    profiles: Callable[[], Mapping[str, Profile]]
    streams: StreamBook
    runs: RunBook
    waveforms: WaveformBook

    def table(self) -> dict[type[Action], Executor]:
        """Their part of ``Executors.table()``."""
        return {
            ReadProfile: self._profile,
            ReadStream: self._stream,
            ReadRun: self._run,
            ReadPicture: self._picture,
        }

    async def _profile(self, action: ReadProfile, _target: Target, _began: float) -> Done:
        profiles = self.profiles()
        profile = profiles.get(action.profile_key)
        if profile is None:
            near = difflib.get_close_matches(action.profile_key[:100], profiles, n=1)
            raise NotFound(
                f"There is no profile {action.profile_key[:100]!r}.",
                code=ErrorCode.UNKNOWN_RESOURCE,
                data={"profile_key": action.profile_key[:100]},
                remedy=f"Did you mean {near[0]}?" if near else "list_profiles names all.",
            )
        return Done(data=profile_markdown(profile))

    async def _stream(self, action: ReadStream, _target: Target, _began: float) -> Done:
        return Done(data=self.streams.show(action.stream_id))

    async def _run(self, action: ReadRun, _target: Target, _began: float) -> Done:
        return Done(data=await self.runs.read(show_run, action.run_id, ROWS_OF_A_RUN))

    async def _picture(self, action: ReadPicture, _target: Target, _began: float) -> Done:
        picture = self.waveforms.picture(action.picture_id)
        if (picture.tool, picture.command_name) != (action.tool, action.command_name):
            # The URI says by what permission it is read, so a wrong one must lead nowhere.
            raise NotFound(
                f"There is no picture {action.picture_id[:100]!r} of that tool and command.",
                code=ErrorCode.UNKNOWN_RESOURCE,
                data={"picture_id": action.picture_id[:100]},
                remedy="Take its URI from the result that told of it.",
            )
        return Done(data=await self.waveforms.read_picture(picture))
