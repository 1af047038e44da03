"""Streams and captures through the whole command path, over fake instruments."""

import asyncio
import base64
import itertools
import struct
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from edged.actions.action import NamedAction, Purpose, RunCommand, StartStream
from edged.actions.caller import Caller, Claims, Route
from edged.actions.outcome import Outcome, OutcomeStatus, Picture
from edged.commands.capture import LARGEST_INLINE_BYTES, Captures
from edged.commands.freshness import Acquisitions
from edged.commands.target import Catalog
from edged.errors import ErrorCode, Failed
from edged.instruments.mailbox import Priority
from edged.operations.resources import ResourceOperations
from edged.operations.streams import FetchWaveform, StopStream, StreamOperations
from edged.profiles.model import ImageAnswer
from edged.runs.registry import Late, Registry
from edged.runs.sequences.registry import Sequences
from edged.runs.streams.registry import Streams
from edged.runs.streams.waveforms import WaveformRegistry
from tests.bench.command_path import bench_operations, command_operations, command_path
from tests.bench.context import NoNotes, NoPlan, bench_of
from tests.bench.driven_clock import DrivenClock
from tests.bench.fake_artist import DRAWN, FakeArtist
from tests.bench.fake_instruments import FakeInstrument, FakePool, toy_profile
from tests.promises import promise
from tests.unit.work.test_streams import Sink

PROFILE = """
format: 1
profile_key: toy_scope
version: 1
manufacturer: Toy
model: T1
instrument_class: oscilloscope
source: made up
match: {idn: 'toy,t1'}
commands:
  measure:
    scpi: "MEAS? {channel}"
    is_query: true
    parameters: {channel: {type: int, min: 1, max: 2, default: 1}}
    returns: {type: float, unit: V}
  discharge:
    scpi: "DISC?"
    is_query: true
    is_dangerous: true
    returns: {type: float, unit: V}
  set_level: {scpi: "LEV {level}", parameters: {level: {type: float}}}
  ramp:
    scpi: "RAMP {level:.3f}"
    requires_sweep: true
    parameters: {level: {type: float, min: 0, max: 1}}
    sweep: {parameter: level, setpoint: "RAMP?"}
  capture:
    parameters:
      channel: {type: int, min: 1, max: 2, default: 1}
      first: {type: int, min: 1, default: 1}
      last: {type: int, min: 1, default: 12}
    returns:
      waveform:
        setup: ["SOUR {channel}", "STAR {first}", "STOP {last}"]
        preamble: {query: "PRE?", fields: [{name: step, type: float, index: 0}]}
        data: "DATA?"
        dtype: u1
        chunk_points: 5
        x_increment: step
        scale: "value * 2"
  picture: {returns: {image: {mime: image/png, data: "SHOT?"}}}
"""
DIRECT = Caller(route=Route.DIRECT)


class House:
    def __init__(self, clock: DrivenClock) -> None:
        self.clock = clock
        self.scope = FakeInstrument(id="S::1", profile=toy_profile(PROFILE), alias="scope")
        self.scope.answers = {"MEAS? 1": "1.5", "MEAS? 2": "2.5", "PRE?": "0.25", "DISC?": "9"}
        self.sinks: list[Sink] = []
        self.ids = itertools.count()
        self.waveforms = WaveformRegistry(8)
        self.artist = FakeArtist()
        pool, catalog = FakePool(self.scope), Catalog()
        context = bench_of(
            clock,
            pool=pool,
            new_id=self.new_id,
            perform=lambda action: self.path.perform(action),
            precheck=lambda action: self.path.precheck(action),
        )
        runs = Registry(context, recorder=self, notes=NoNotes())
        self.streams = Streams(runs, waveforms=self.waveforms)
        commands = command_operations(
            clock,
            sequences=Late.of(runs, Sequences(runs, new_plan=NoPlan)),
            captures=Captures(self.waveforms, Acquisitions()),
        )
        bench = bench_operations(pool, catalog)
        streams = StreamOperations(
            streams=self.streams,
            waveforms=self.waveforms,
            artist=self.artist,  # type: ignore[arg-type]
        )
        resources = ResourceOperations(
            profiles=dict,
            read_page=str,
            streams=self.streams,
            runs=self,  # type: ignore[arg-type]
            waveforms=self.waveforms,
        )
        self.path = command_path(
            pool,
            catalog,
            {
                **bench.table(),
                **commands.table(),
                **streams.table(),
                **resources.table(),
            },
            clock,
        )

    def new_id(self) -> str:
        return f"n{next(self.ids)}"

    async def open(self, head: Any) -> Sink:
        self.sinks.append(Sink(head))
        return self.sinks[-1]

    async def stream(self, command: str, *, caller: Caller = DIRECT, **more: Any) -> Outcome:
        parameters = more.pop("parameters", {})
        action = StartStream(
            tool="start_stream",
            scope=command,
            caller=caller,
            action_id=self.new_id(),
            arguments={"interval_ms": 100, "duration_ms": 200, **more},
            instrument_id="scope",
            command_name=command,
            parameters=parameters,
        )
        running = asyncio.create_task(self.path.perform(action))
        await self.clock.advance(1.0)
        return await running

    async def command(self, name: str, **given: Any) -> Outcome:
        return await self.path.perform(
            RunCommand(
                tool="execute_command",
                scope=name,
                caller=DIRECT,
                action_id=self.new_id(),
                instrument_id="scope",
                command_name=name,
                parameters=given,
                purpose=Purpose.CALL,
            )
        )

    async def read_picture(
        self, picture_id: str, caller: Caller = DIRECT, *, of: str = "picture"
    ) -> Outcome:
        return await self.path.perform(
            NamedAction(
                operation="read_picture",
                tool="execute_command",
                scope=of,
                caller=caller,
                action_id=self.new_id(),
                values={"command_name": of, "picture_id": picture_id},
            )
        )

    async def fetch(self, stream_id: str, index: int, **wishes: Any) -> Outcome:
        return await self.path.perform(
            FetchWaveform(
                tool="fetch_waveform",
                caller=DIRECT,
                action_id=self.new_id(),
                arguments=wishes,
                stream_id=stream_id,
                point_index=index,
            )
        )


@pytest.fixture
def house(driven_clock: DrivenClock) -> Iterator[House]:
    house = House(driven_clock)
    yield house
    house.waveforms.stop()


def relay(*tools: str, danger: bool) -> Caller:
    claims = Claims(
        iss="i",
        aud="edge:e",
        sub="user:u",
        exp=1,
        iat=0,
        edge_id="e",
        tools_allow=frozenset(tools),
        danger_allow=danger,
    )
    return Caller(route=Route.RELAY, claims=claims)


async def test_a_stream_measures_at_the_priority_of_measurements(house: House) -> None:
    outcome = await house.stream("measure", parameters={"channel": 2})
    assert outcome.status is OutcomeStatus.OK
    assert outcome.data["last"]["value"] == 2.5
    assert house.scope.sent == ["MEAS? 2", "MEAS? 2"]
    assert set(house.scope.priorities) == {Priority.MEASURE}


@pytest.mark.parametrize("command", ["set_level", "ramp", "picture"])
@promise("stream.queries-only")
async def test_what_is_no_measurement_is_a_bad_argument(house: House, command: str) -> None:
    outcome = await house.stream(command)
    assert outcome.error is not None
    assert outcome.error.code is ErrorCode.BAD_ARGUMENTS
    assert house.scope.sent == []
    assert house.sinks == []


async def test_parameters_are_checked_before_the_first_point(house: House) -> None:
    outcome = await house.stream("measure", parameters={"channel": 3})
    assert outcome.error is not None
    assert outcome.error.code is ErrorCode.BAD_ARGUMENTS
    assert "channel" in outcome.error.message
    assert house.sinks == []


@promise("stream.danger")
async def test_a_stream_is_as_dangerous_as_its_command(house: House) -> None:
    meek = relay("start_stream", danger=False)
    refused = await house.stream("discharge", caller=meek)
    assert refused.error is not None
    assert refused.error.code is ErrorCode.DANGEROUS
    assert house.scope.sent == []
    assert (await house.stream("measure", caller=meek)).status is OutcomeStatus.OK


async def test_the_scope_of_a_stream_is_its_command_and_covers_its_points(house: House) -> None:
    narrow = relay("start_stream:measure", danger=False)
    assert (await house.stream("measure", caller=narrow)).data["count"] == 2
    refused = await house.stream("capture", caller=narrow)
    assert refused.error is not None
    assert refused.error.code is ErrorCode.NOT_ALLOWED


async def test_a_failed_stream_has_its_own_shape_and_what_was_sent(house: House) -> None:
    house.scope.failing = Failed("silence", code=ErrorCode.TIMEOUT, sent=("MEAS? 1",))
    outcome = await house.stream("measure")
    assert outcome.status is OutcomeStatus.FAILED
    assert (outcome.data["status"], outcome.data["count"]) == ("failed", 0)
    assert outcome.data["error"]["sent"] == ["MEAS? 1"]
    assert set(outcome.data) >= {"stream_id", "count", "last", "status", "stats", "recording"}


async def test_stopping_an_unknown_stream_is_told(house: House) -> None:
    outcome = await house.path.perform(
        StopStream(tool="stop_stream", caller=DIRECT, action_id="a", stream_id="mcp-none")
    )
    assert outcome.error is not None
    assert outcome.error.code is ErrorCode.UNKNOWN_STREAM


async def test_a_capture_is_one_conversation_of_as_many_reads_as_it_takes(house: House) -> None:
    outcome = await house.command("capture", channel=2)
    told = outcome.data["data"]
    assert (told["y_length"], told["x_increment"], told["point_index"]) == (15, 0.25, 0)
    assert house.scope.sent == [
        *("SOUR 2", "STAR 1", "STOP 5", "PRE?", "DATA?"),
        *("SOUR 2", "STAR 6", "STOP 10", "DATA?"),
        *("SOUR 2", "STAR 11", "STOP 12", "DATA?"),
    ]
    assert len(house.scope.priorities) == 1
    fetched = (await house.fetch(told["stream_id"], 0)).data
    samples = base64.b64decode(fetched["y_data"])
    assert struct.unpack("<5f", samples[:20]) == tuple(2.0 * byte for byte in b"hello")


async def test_a_picture_comes_as_text_with_its_type(house: House) -> None:
    outcome = await house.command("picture")
    assert outcome.data["data"] == {
        "mime": "image/png",
        "length": 5,
        "encoding": "base64",
        "image": base64.b64encode(b"hello").decode(),
    }
    assert outcome.pictures == (Picture(mime="image/png", data=b"hello"),)


async def test_a_picture_of_a_kind_that_no_client_shows_is_told_only(house: House) -> None:
    profile = house.scope.profile
    assert profile is not None
    command = profile.commands["picture"]
    bitmap = replace(command, returns=ImageAnswer(mime="image/bmp", data="PICT?"))
    house.scope.profile = replace(profile, commands={**profile.commands, "picture": bitmap})
    outcome = await house.command("picture")
    assert outcome.data["data"]["mime"] == "image/bmp"
    assert outcome.pictures == ()


def picture_of(size: int) -> bytes:
    return f"#8{size:08}".encode() + bytes(range(256)) * (size // 256) + b"x" * (size % 256)


@promise("pictures.large")
@pytest.mark.parametrize("more", [0, 1])
async def test_a_picture_of_four_mebibytes_is_inline_and_one_byte_more_is_a_resource(
    house: House, more: int
) -> None:
    size = 4 * 1024 * 1024 + more
    house.scope.block = picture_of(size)
    outcome = await house.command("picture")
    told = outcome.data["data"]
    assert (told["mime"], told["length"]) == ("image/png", size)
    if not more:
        assert base64.b64decode(told["image"]) == house.scope.block[10:]
        assert outcome.links == ()
        assert house.waveforms.status()["count"] == 0
        return
    assert set(told) == {"mime", "length", "uri", "picture_id"}
    assert told["uri"] == f"edged://pictures/execute_command/picture/{told['picture_id']}"
    assert [(link.uri, link.mime, link.size) for link in outcome.links] == [
        (told["uri"], "image/png", size)
    ]
    assert told["uri"] in outcome.data["notes"][-1]
    read = await house.read_picture(told["picture_id"])
    assert base64.b64decode(read.data["image"]) == house.scope.block[10:]
    fetched = await house.fetch(told["picture_id"], 0)
    assert fetched.error is not None
    assert fetched.error.code is ErrorCode.UNKNOWN_STREAM


@promise("pictures.large")
async def test_a_large_picture_is_read_by_who_may_take_it_and_by_nobody_else(house: House) -> None:
    house.scope.block = picture_of(LARGEST_INLINE_BYTES + 1)
    picture_id = (await house.command("picture")).data["data"]["picture_id"]
    mine = relay("execute_command:picture", danger=False)
    assert (await house.read_picture(picture_id, mine)).status is OutcomeStatus.OK
    others = relay("execute_command:measure", "fetch_waveform", danger=False)
    refused = await house.read_picture(picture_id, others)
    assert refused.error is not None
    assert refused.error.code is ErrorCode.NOT_ALLOWED
    # A URI that names what the caller may do leads nowhere.
    astray = await house.read_picture(picture_id, others, of="measure")
    assert astray.error is not None
    assert astray.error.code is ErrorCode.UNKNOWN_RESOURCE


@promise("pictures.large")
async def test_large_pictures_share_the_memory_of_waveforms_and_the_oldest_goes(
    house: House,
) -> None:
    trace = (await house.command("capture", channel=2)).data["data"]["stream_id"]
    house.scope.block = picture_of(LARGEST_INLINE_BYTES + 1)
    first = (await house.command("picture")).data["data"]["picture_id"]
    second = (await house.command("picture")).data["data"]["picture_id"]
    assert house.waveforms.status()["used_mb"] <= 8
    gone = await house.read_picture(first)
    assert gone.error is not None
    assert "evicted" in gone.error.message
    assert "WAVEFORM_MEMORY_MB" in gone.error.message
    assert (await house.read_picture(second)).status is OutcomeStatus.OK
    assert [picture_id for picture_id, _ in house.waveforms.newest_pictures(9)] == [second]
    fetched = await house.fetch(trace, 0)
    assert fetched.error is not None
    assert fetched.error.code is ErrorCode.UNKNOWN_POINT


async def test_a_waveform_as_png_comes_beside_its_metadata(house: House) -> None:
    told = (await house.command("capture", channel=2)).data["data"]
    outcome = await house.fetch(told["stream_id"], 0, format="png")
    assert [(picture.mime, picture.data) for picture in outcome.pictures] == [("image/png", DRAWN)]
    assert (outcome.data["format"], outcome.data["y_length"]) == ("png", 15)
    assert not {"y_data", "y_values"} & set(outcome.data)
    (figure,) = house.artist.figures
    assert len(figure.panels[0].lines[0].low) == 15


async def test_an_outline_has_at_most_as_many_numbers_as_were_asked_for(house: House) -> None:
    told = (await house.command("capture", channel=2)).data["data"]
    data = (await house.fetch(told["stream_id"], 0, format="decimated", points=6)).data
    assert len(data["y_values"]) == 6
    assert (data["y_kind"], data["x_step"]) == ("min_max_pairs", 0.25 * 5 / 2)
    whole = (await house.fetch(told["stream_id"], 0, format="decimated")).data
    assert (whole["y_kind"], len(whole["y_values"])) == ("samples", 15)
    outcome = await house.fetch(told["stream_id"], 7, format="png")
    assert outcome.error is not None
    assert outcome.error.code is ErrorCode.UNKNOWN_POINT
