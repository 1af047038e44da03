"""What only resources ask for: profiles, streams, runs, large pictures.

What else a resource tells is what a tool tells, and is that tool's operation.
"""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Callable, Mapping
from typing import Any, Final

from edged.actions.action import Action, NamedAction
from edged.actions.outcome import Done
from edged.commands.operation import (
    READ_TOOL,
    Operation,
    Resource,
    ResourceRead,
    Rows,
    as_text,
    bind,
)
from edged.commands.target import Target
from edged.errors import ErrorCode, NotFound
from edged.operations.streams import FetchWaveform
from edged.operations.sweeps import ReadSweep
from edged.profiles.authoring.markdown import profile_markdown
from edged.profiles.model import Profile
from edged.protocol.apps import BENCH_APP, RUN_APP
from edged.protocol.apps import MIME_TYPE as APP_MIME
from edged.protocol.messages import Content
from edged.record import record
from edged.runs.recordings.reader import show_run
from edged.runs.recordings.registry import RunRegistry
from edged.runs.streams.registry import Streams
from edged.runs.streams.waveforms import PICTURE_URI, WaveformRegistry

ROWS_OF_A_RUN: Final = 100
"""The last ones; the whole recording is the user's file, and an export gives it."""
ROWS_OF_A_SWEEP: Final = 200


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

    def table(self) -> Rows:
        """Its rows, bound."""
        return bind(self, OPERATIONS)

    async def read_profile(self, action: NamedAction, _target: Target, _began: float) -> Done:
        """One profile as a text for agents."""
        profiles, profile_key = self.profiles(), action.values["profile_key"]
        profile = profiles.get(profile_key)
        if profile is None:
            near = difflib.get_close_matches(profile_key[:100], profiles, n=1)
            raise NotFound(
                f"There is no profile {profile_key[:100]!r}.",
                code=ErrorCode.UNKNOWN_RESOURCE,
                data={"profile_key": profile_key[:100]},
                remedy=f"Did you mean {near[0]}?" if near else "list_profiles names all.",
            )
        return Done(data=profile_markdown(profile))

    async def read_stream(self, action: NamedAction, _target: Target, _began: float) -> Done:
        """How a stream stands, with its newest points."""
        return Done(data=self.streams.show(action.values["stream_id"]))

    async def read_run(self, action: NamedAction, _target: Target, _began: float) -> Done:
        """What a recording is, and its last rows."""
        run_id = action.values["run_id"]
        return Done(data=await self.runs.read_run(action.caller, show_run, run_id, ROWS_OF_A_RUN))

    async def read_app(self, action: NamedAction, _target: Target, _began: float) -> Done:
        """One of the pages."""
        name = action.arguments["uri"].rpartition("/")[2]
        return Done(data=await asyncio.to_thread(self.read_page, name))

    async def read_picture(self, action: NamedAction, _target: Target, _began: float) -> Done:
        """A captured picture."""
        picture_id = action.values["picture_id"]
        picture = self.waveforms.picture(picture_id)
        if (picture.tool, picture.command_name) != (action.tool, action.values["command_name"]):
            # The URI says by what permission it is read, so a wrong one must lead nowhere.
            raise NotFound(
                f"There is no picture {picture_id[:100]!r} of that tool and command.",
                code=ErrorCode.UNKNOWN_RESOURCE,
                data={"picture_id": picture_id[:100]},
                remedy="Take its URI from the result that told of it.",
            )
        return Done(data=await self.waveforms.read_picture(picture))


def _sweep(*, values: Mapping[str, str], **asked: Any) -> Action:
    return ReadSweep(**asked, sweep_id=values["sweep_id"], points=ROWS_OF_A_SWEEP)


def _waveform(*, values: Mapping[str, str], **asked: Any) -> Action:
    index = values["point_index"]
    is_number = index.isascii() and index.isdigit() and len(index) < 16
    return FetchWaveform(
        **asked, stream_id=values["stream_id"], point_index=int(index) if is_number else -1
    )


def _as_samples(resource: Resource, asked: ResourceRead, data: Any) -> Content:
    about = {k: v for k, v in data.items() if k not in ("y_data", "encoding", "format")}
    return Content(uri=asked.uri, mime_type=resource.mime_type, blob=data["y_data"], meta=about)


def _as_picture(_resource: Resource, asked: ResourceRead, data: Any) -> Content:
    return Content(uri=asked.uri, mime_type=str(data["mime"]), blob=data["image"])


OPERATIONS: Final = (
    Operation(
        name="read_profile",
        run=ResourceOperations.read_profile,
        resources=(
            Resource(
                template="edged://profiles/{profile_key}",
                name="profile",
                title="One profile, to read",
                description="What a model can do, in Markdown: commands, arguments, limits, "
                "sequences.",
                tool="get_capabilities",
                mime_type="text/markdown",
                show=as_text,
            ),
            # Of the operation of its own tool, and listed with the others here.
            Resource(
                template="edged://sweeps/{sweep_id}",
                name="sweep",
                title="One sweep",
                description="State of a sweep, with up to 200 of its rows and their units.",
                tool="get_sweep_status",
                arguments=("sweep_id",),
                ask=_sweep,
            ),
        ),
    ),
    Operation(
        name="read_stream",
        run=ResourceOperations.read_stream,
        resources=(
            Resource(
                template="edged://streams/{stream_id}",
                name="stream",
                title="One stream",
                description="State of a stream, with its newest points and statistics.",
                tool="get_status",
            ),
        ),
    ),
    Operation(
        name="read_run",
        run=ResourceOperations.read_run,
        resources=(
            Resource(
                template="edged://runs/{run_id}",
                name="run",
                title="One recording",
                description="What a recorded sweep, stream or table is, and its last 100 rows.",
                tool=READ_TOOL,
                scope="runs",
            ),
            # As that of sweeps.
            Resource(
                template="edged://waveforms/{stream_id}/{point_index}",
                name="waveform",
                title="One waveform",
                description="The samples as little-endian floats; _meta says which, and the units.",
                tool="fetch_waveform",
                mime_type="application/octet-stream",
                show=_as_samples,
                arguments=("stream_id",),
                ask=_waveform,
            ),
        ),
    ),
    Operation(
        name="read_app",
        run=ResourceOperations.read_app,
        resources=(
            Resource(
                template=BENCH_APP,
                name="bench_app",
                title="The bench, in the chat",
                description="For hosts of MCP Apps: instruments, what runs, and STOP.",
                tool="get_status",
                mime_type=APP_MIME,
                show=as_text,
            ),
            Resource(
                template=RUN_APP,
                name="run_app",
                title="A run, in the chat",
                description="For hosts of MCP Apps: the plot of a sweep, stream or recording.",
                tool="get_status",
                mime_type=APP_MIME,
                show=as_text,
            ),
        ),
    ),
    Operation(
        name="read_picture",
        run=ResourceOperations.read_picture,
        resources=(
            Resource(
                template=PICTURE_URI,
                name="picture",
                title="One large picture",
                description="A captured picture that was too large for a tool's result.",
                tool="execute_command",
                mime_type="",
                show=_as_picture,
                is_by_maker=True,
            ),
        ),
    ),
)
