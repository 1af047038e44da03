"""Streams, and the waveforms that commands and streams have captured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from edged.actions.action import Action, Check, StartStream
from edged.actions.outcome import Done, Picture
from edged.actions.tool import ToolCall
from edged.commands.operation import Failure, Operation, bind
from edged.commands.resolve import Resolver
from edged.commands.static_tool import (
    CALM,
    INSTRUMENT_ID,
    MEASURE,
    PARAMETERS,
    READ,
    Schema,
    StaticTool,
    command_of,
    integer_of,
    parameters_of,
    result_of,
    text_of,
)
from edged.commands.target import Target
from edged.plot.artist import Artist
from edged.record import record
from edged.runs.points import DEFAULT_DECIMATED
from edged.runs.streams.registry import Streams
from edged.runs.streams.waveforms import WaveformRegistry


@record
class StopStream(Action):
    """End a stream."""

    stream_id: str


@record
class FetchWaveform(Action):
    """Hand out one captured waveform."""

    stream_id: str
    point_index: int


STREAM_ID: Final[Schema] = {"type": "string", "description": "As the result gave it."}


def start_stream(call: ToolCall, check: Check) -> Action:
    """Scope is the command's name."""
    return StartStream(**call.asked(check), **command_of(call.arguments))


def stop_stream(call: ToolCall, check: Check) -> Action:
    """The end of a stream."""
    return StopStream(**call.asked(check), stream_id=text_of(call.arguments, "stream_id"))


def fetch_waveform(call: ToolCall, check: Check) -> Action:
    """One captured waveform."""
    return FetchWaveform(
        **call.asked(check),
        stream_id=text_of(call.arguments, "stream_id"),
        point_index=integer_of(call.arguments, "point_index"),
    )


NO_STREAM: Final[Mapping[str, Any]] = {
    "stream_id": "",
    "count": 0,
    "last": None,
    "status": "failed",
}
RESULT: Final = (*NO_STREAM, "reason", "notes", "stats", "dropped", "recording")


@record
class StreamOperations:
    """What they are run with."""

    streams: Streams
    waveforms: WaveformRegistry
    artist: Artist

    def table(self) -> dict[type[Action], Operation]:
        """Its rows, bound."""
        return bind(self, OPERATIONS)

    async def start(self, action: StartStream, target: Target, _began: float) -> Done:
        """Measure at intervals."""
        instrument, command = target.aimed_command()
        return Done(data=await self.streams.start(action, instrument.id, command, target.values))

    async def stop(self, action: StopStream, _target: Target, _began: float) -> Done:
        """End a stream."""
        return Done(data=await self.streams.stop(action.stream_id, action.caller.who))

    async def fetch(self, action: FetchWaveform, _target: Target, _began: float) -> Done:
        """One captured waveform, in the form that was asked for."""
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


def failed_stream(failure: Failure) -> dict[str, Any]:
    """start_stream's result when it failed: what was measured until then, and the error."""
    known = {key: value for key, value in failure.error.data.items() if key in RESULT}
    return {**NO_STREAM, **known, "error": failure.told}


WAVEFORM: Final = (
    "stream_id", "point_index", "format", "y_dtype", "y_length", "x_unit", "y_unit", "x_increment",
    "x_first", "is_fresh", "notes", "preamble", "encoding", "byte_order", "first", "count",
    "y_data", "y_min", "y_max", "y_mean", "y_rms", "y_peak_to_peak", "frequency", "frequency_unit",
    "periods", "not_finite", "y_kind", "y_values", "x_step",
)  # fmt: skip
"""The members of fetch_waveform's result, in any of its formats."""


OPERATIONS: Final = (
    Operation(
        action=StartStream,
        run=StreamOperations.start,
        aim=Resolver.stream,
        failed=failed_stream,
        tool=StaticTool(
            name="start_stream",
            title="Measure at intervals",
            description=(
                "Measure one query command every interval_ms for duration_ms; each point is "
                "recorded, and is a progress notification if you sent a progressToken. Returns "
                "when the time is over or stop_stream is called; with detach at once, and "
                "bench__runs has its data."
            ),
            schema=parameters_of(
                ("instrument_id", "command_name"),
                instrument_id=INSTRUMENT_ID,
                command_name={"type": "string", "description": "A command with is_query."},
                interval_ms={
                    "type": "integer",
                    "minimum": 10,
                    "maximum": 3_600_000,
                    "default": 500,
                },
                duration_ms={
                    "type": "integer",
                    "minimum": 1,
                    "maximum": 86_400_000,
                    "default": 10_000,
                },
                parameters=PARAMETERS,
                detach={"type": "boolean", "description": "Return at once with stream_id."},
            ),
            output=result_of(*RESULT),
            annotations=MEASURE,
            make=start_stream,
            cancels_on_disconnect=True,
        ),
    ),
    Operation(
        action=StopStream,
        run=StreamOperations.stop,
        tool=StaticTool(
            name="stop_stream",
            description=("End a stream now, from any session; what it measured stays recorded."),
            schema=parameters_of(("stream_id",), stream_id=STREAM_ID),
            output=result_of("status", "reason"),
            annotations=CALM,
            make=stop_stream,
        ),
    ),
    Operation(
        action=FetchWaveform,
        run=StreamOperations.fetch,
        tool=StaticTool(
            name="fetch_waveform",
            description=(
                "A captured waveform by stream_id and point_index: summary (extremes, mean, "
                "RMS, frequency), decimated (an outline that keeps every spike), png, or "
                "base64: every sample (little-endian, see y_dtype), large."
            ),
            schema=parameters_of(
                ("stream_id", "point_index"),
                stream_id=STREAM_ID,
                point_index={
                    "type": "integer",
                    "minimum": 0,
                    "description": "From 0: progress n is point n - 1.",
                },
                format={
                    "type": "string",
                    "enum": ["base64", "summary", "decimated", "png"],
                    "default": "base64",
                },
                points={
                    "type": "integer",
                    "minimum": 2,
                    "maximum": 10_000,
                    "default": 1_000,
                    "description": "With decimated: the most numbers.",
                },
                first={
                    "type": "integer",
                    "minimum": 0,
                    "description": "With base64: the first sample, from 0.",
                },
                count={
                    "type": "integer",
                    "minimum": 1,
                    "description": "With base64: how many samples; 16 MiB at most.",
                },
            ),
            output=result_of(*WAVEFORM),
            annotations=READ,
            make=fetch_waveform,
        ),
    ),
)
