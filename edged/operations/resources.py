"""What only resources ask for: profiles, streams, runs, large pictures.

What else a resource tells is what a tool tells, and is that tool's operation.
"""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Callable, Mapping
from typing import Final

from edged.actions.action import Action
from edged.actions.outcome import Done
from edged.commands.operation import Operation, bind
from edged.commands.target import Target
from edged.errors import ErrorCode, NotFound
from edged.profiles.authoring.markdown import profile_markdown
from edged.profiles.model import Profile
from edged.record import record
from edged.runs.recordings.reader import show_run
from edged.runs.recordings.registry import RunRegistry
from edged.runs.streams.registry import Streams
from edged.runs.streams.waveforms import WaveformRegistry


@record
class ReadProfile(Action):
    """Read a profile as a text for agents."""

    profile_key: str


@record
class ReadStream(Action):
    """Say how a stream stands, with its newest points."""

    stream_id: str


@record
class ReadPicture(Action):
    """Hand out a captured picture that was too large for a result; ``tool`` made it."""

    command_name: str
    picture_id: str


@record
class ReadApp(Action):
    """Hand out the page that a host of MCP Apps shows; ``app`` is its name."""

    app: str


@record
class ReadRun(Action):
    """Read what a recording is, and its last rows."""

    run_id: str


ROWS_OF_A_RUN: Final = 100
"""The last ones; the whole recording is the user's file, and an export gives it."""


@record
class ResourceOperations:
    """What they are run with.

    Attributes:
        profiles: gives the library as it is now.
        read_page: gives the file of an app by its name; from the disk.
    """

    profiles: Callable[[], Mapping[str, Profile]]
    read_page: Callable[[str], str]
    streams: Streams
    runs: RunRegistry
    waveforms: WaveformRegistry

    def table(self) -> dict[type[Action], Operation]:
        """Its rows, bound."""
        return bind(self, OPERATIONS)

    async def read_profile(self, action: ReadProfile, _target: Target, _began: float) -> Done:
        """One profile as a text for agents."""
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

    async def read_stream(self, action: ReadStream, _target: Target, _began: float) -> Done:
        """How a stream stands, with its newest points."""
        return Done(data=self.streams.show(action.stream_id))

    async def read_run(self, action: ReadRun, _target: Target, _began: float) -> Done:
        """What a recording is, and its last rows."""
        shown = await self.runs.read_run(action.caller, show_run, action.run_id, ROWS_OF_A_RUN)
        return Done(data=shown)

    async def read_app(self, action: ReadApp, _target: Target, _began: float) -> Done:
        """One of the pages."""
        return Done(data=await asyncio.to_thread(self.read_page, action.app))

    async def read_picture(self, action: ReadPicture, _target: Target, _began: float) -> Done:
        """A captured picture."""
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


OPERATIONS: Final = (
    Operation(
        action=ReadProfile,
        run=ResourceOperations.read_profile,
    ),
    Operation(
        action=ReadStream,
        run=ResourceOperations.read_stream,
    ),
    Operation(
        action=ReadRun,
        run=ResourceOperations.read_run,
    ),
    Operation(
        action=ReadApp,
        run=ResourceOperations.read_app,
    ),
    Operation(
        action=ReadPicture,
        run=ResourceOperations.read_picture,
    ),
)
