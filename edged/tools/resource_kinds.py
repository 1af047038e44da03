"""``KINDS``: what can be read by a URI, each with the tool by whose permission it is read.

A resource is a tool's answer at an address: whoever may not use the tool may not read it here, and
the row in the audit is the tool's. Recordings have no tool; they are read by the permission
``resources/read:runs`` (docs/relay.md).

What stands where: the resources that there are now, and the names that complete their URIs.

Who may see them is not judged here (``resources.py``). Only recordings are on the disk; everything
else is in memory.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import quote, unquote

from edged.actions.action import Action
from edged.actions.caller import Caller
from edged.errors import EdgedError, ErrorCode, NotFound
from edged.instruments.instrument import Instrument
from edged.instruments.pool import InstrumentPool
from edged.operations.bench import GetCapabilities, GetStatus, ListInstruments, ListProfiles
from edged.operations.experiments import (
    ReadExperiment,
    ReadExperimentSchema,
    ReadGrammar,
    saved_files,
)
from edged.operations.resources import ReadApp, ReadPicture, ReadProfile, ReadRun, ReadStream
from edged.operations.streams import FetchWaveform
from edged.operations.sweeps import ReadSweep
from edged.profiles.model import Profile
from edged.protocol.apps import BENCH_APP, RUN_APP
from edged.protocol.apps import MIME_TYPE as APP_MIME
from edged.protocol.messages import CompletionParams, ResourceEntry
from edged.record import record
from edged.runs.recordings.reader import list_runs
from edged.runs.recordings.registry import RunRegistry
from edged.runs.streams.registry import Streams
from edged.runs.streams.waveforms import PICTURE_URI, WaveformRegistry
from edged.runs.sweeps.registry import Sweeps

SCHEME: Final = "edged://"
APP_SCHEME: Final = "ui://edged/"
READ_TOOL: Final = "resources/read"
"""The name under which a read is judged that no tool can do."""
JSON: Final = "application/json"
ROWS_OF_A_SWEEP: Final = 200


@record
class ResourceRead:
    """One read of a resource; ``values`` are the template's variables."""

    uri: str
    values: Mapping[str, str]
    caller: Caller
    action_id: str


@record
class ResourceKind:
    """One sort of resource.

    Attributes:
        template: its URI with variables in braces (RFC 6570, level 1).
        tool, scope: by what permission it is read.
        make: the action that a read of it means.
        is_by_maker: read by whoever may call what made it: its URI names that tool, and the
            command, which is the scope; ``tool`` then stands where no one of them is meant.
    """

    template: str
    name: str
    title: str
    description: str
    tool: str
    make: Callable[[ResourceRead, Mapping[str, Any]], Action]
    scope: str | None = None
    mime_type: str = JSON
    is_by_maker: bool = False

    def permission(self, values: Mapping[str, str]) -> tuple[str, str | None]:
        """The tool and scope by which one with these variables is read."""
        if self.is_by_maker and values:
            return values["tool"], values["command_name"]
        return self.tool, self.scope

    @property
    def variables(self) -> tuple[str, ...]:
        """The template's variables in their order."""
        return tuple(part[1:-1] for part in _parts(self.template) if part.startswith("{"))

    def action(self, asked: ResourceRead) -> Action:
        """What a read asks for, in the words of the tool; nothing is judged yet."""
        tool, scope = self.permission(asked.values)
        shared = {
            "tool": tool,
            "scope": scope,
            "caller": asked.caller,
            "action_id": asked.action_id,
        }
        return self.make(asked, shared)


def find_kind(uri: str) -> tuple[ResourceKind, dict[str, str]]:
    """What a URI names, and the values of its template's variables.

    Raises:
        NotFound: UNKNOWN_RESOURCE, no kind has such URIs.
    """
    if uri.startswith((SCHEME, APP_SCHEME)):
        given = _parts(uri.rstrip("/"))
        for kind in KINDS.values():
            values = _values(_parts(kind.template), given)
            if values is not None:
                return kind, values
    raise NotFound(
        f"There is no resource {uri[:200]!r}.",
        code=ErrorCode.UNKNOWN_RESOURCE,
        data={"uri": uri[:2048]},
        remedy="resources/list and resources/templates/list tell what there is.",
    )


@functools.lru_cache(maxsize=1024)
def uri_of(name: str, **values: str | int) -> str:
    """The URI of a resource of the kind of that name."""
    uri = KINDS[name].template
    for variable, value in values.items():
        uri = uri.replace(f"{{{variable}}}", quote(str(value), safe=":@-._~"))
    return uri


def _parts(template: str) -> list[str]:
    return template.removeprefix(SCHEME).split("/")


def _values(parts: list[str], given: list[str]) -> dict[str, str] | None:
    if len(parts) != len(given):
        return None
    values = {}
    for part, text in zip(parts, given, strict=True):
        if part.startswith("{"):
            value = unquote(text)
            if not value:
                return None
            values[part[1:-1]] = value
        elif part != text:
            return None
    return values


def _memory(kind: type[Action]) -> Callable[[ResourceRead, Mapping[str, Any]], Action]:
    def make(asked: ResourceRead, shared: Mapping[str, Any]) -> Action:
        return kind(**shared, arguments={"uri": asked.uri})

    return make


def _capabilities(asked: ResourceRead, shared: Mapping[str, Any]) -> Action:
    arguments = {"instrument_id": asked.values["instrument_id"], "uri": asked.uri}
    return GetCapabilities(**shared, arguments=arguments)


def _profile(asked: ResourceRead, shared: Mapping[str, Any]) -> Action:
    return ReadProfile(
        **shared, profile_key=asked.values["profile_key"], arguments={"uri": asked.uri}
    )


def _sweep(asked: ResourceRead, shared: Mapping[str, Any]) -> Action:
    sweep_id = asked.values["sweep_id"]
    return ReadSweep(
        **shared,
        sweep_id=sweep_id,
        points=ROWS_OF_A_SWEEP,
        arguments={"sweep_id": sweep_id, "uri": asked.uri},
    )


def _stream(asked: ResourceRead, shared: Mapping[str, Any]) -> Action:
    return ReadStream(**shared, stream_id=asked.values["stream_id"], arguments={"uri": asked.uri})


def _run(asked: ResourceRead, shared: Mapping[str, Any]) -> Action:
    return ReadRun(**shared, run_id=asked.values["run_id"], arguments={"uri": asked.uri})


def _waveform(asked: ResourceRead, shared: Mapping[str, Any]) -> Action:
    index = asked.values["point_index"]
    is_number = index.isascii() and index.isdigit() and len(index) < 16
    return FetchWaveform(
        **shared,
        stream_id=asked.values["stream_id"],
        point_index=int(index) if is_number else -1,
        arguments={"stream_id": asked.values["stream_id"], "uri": asked.uri},
    )


def _app(asked: ResourceRead, shared: Mapping[str, Any]) -> Action:
    return ReadApp(**shared, app=asked.uri.rpartition("/")[2], arguments={"uri": asked.uri})


def _experiment(asked: ResourceRead, shared: Mapping[str, Any]) -> Action:
    return ReadExperiment(
        **shared, name=asked.values["experiment_name"], arguments={"uri": asked.uri}
    )


def _picture(asked: ResourceRead, shared: Mapping[str, Any]) -> Action:
    return ReadPicture(
        **shared,
        command_name=asked.values["command_name"],
        picture_id=asked.values["picture_id"],
        arguments={"uri": asked.uri},
    )


KINDS: Final[Mapping[str, ResourceKind]] = MappingProxyType(
    {
        kind.name: kind
        for kind in (
            ResourceKind(
                template="edged://status",
                name="status",
                title="Status of the daemon",
                description="Identity, version, what runs, what needs attention.",
                tool="get_status",
                make=_memory(GetStatus),
            ),
            ResourceKind(
                template="edged://instruments",
                name="instruments",
                title="Instruments on this bench",
                description="Every instrument with id, alias, model and whether it answers.",
                tool="list_instruments",
                make=_memory(ListInstruments),
            ),
            ResourceKind(
                template="edged://instruments/{instrument_id}",
                name="instrument",
                title="One instrument",
                description="What one instrument can do: commands with arguments, units and "
                "limits, sequences, settings.",
                tool="get_capabilities",
                make=_capabilities,
            ),
            ResourceKind(
                template="edged://instruments/{instrument_id}/commands/{command_name}",
                name="command",
                title="One command of an instrument",
                description="One command with the JSON Schema of its arguments, its unit and how "
                "it has fared on this instrument.",
                tool="get_capabilities",
                make=_capabilities,
            ),
            ResourceKind(
                template="edged://profiles",
                name="profiles",
                title="Profiles",
                description="Every instrument profile that this daemon knows.",
                tool="list_profiles",
                make=_memory(ListProfiles),
            ),
            ResourceKind(
                template="edged://profiles/{profile_key}",
                name="profile",
                title="One profile, to read",
                description="What a model can do, in Markdown: commands, arguments, limits, "
                "sequences.",
                tool="get_capabilities",
                make=_profile,
                mime_type="text/markdown",
            ),
            ResourceKind(
                template="edged://sweeps/{sweep_id}",
                name="sweep",
                title="One sweep",
                description="State of a sweep, with up to 200 of its rows and their units.",
                tool="get_sweep_status",
                make=_sweep,
            ),
            ResourceKind(
                template="edged://streams/{stream_id}",
                name="stream",
                title="One stream",
                description="State of a stream, with its newest points and statistics.",
                tool="get_status",
                make=_stream,
            ),
            ResourceKind(
                template="edged://runs/{run_id}",
                name="run",
                title="One recording",
                description="What a recorded sweep, stream or table is, and its last 100 rows.",
                tool=READ_TOOL,
                scope="runs",
                make=_run,
            ),
            ResourceKind(
                template="edged://waveforms/{stream_id}/{point_index}",
                name="waveform",
                title="One waveform",
                description="The samples as little-endian floats; _meta says which, and the units.",
                tool="fetch_waveform",
                make=_waveform,
                mime_type="application/octet-stream",
            ),
            ResourceKind(
                template="edged://experiments/grammar",
                name="experiment_grammar",
                title="How to write an experiment",
                description="Steps, keys and values of an experiment plan, and an example.",
                tool="bench__check_experiment",
                make=_memory(ReadGrammar),
                mime_type="text/markdown",
            ),
            ResourceKind(
                template="edged://experiments/schema",
                name="experiment_schema",
                title="JSON Schema of experiments",
                description="For editors and programs that write experiment plans.",
                tool="bench__check_experiment",
                make=_memory(ReadExperimentSchema),
                mime_type="application/schema+json",
            ),
            ResourceKind(
                template="edged://experiments/saved/{experiment_name}",
                name="experiment",
                title="One saved experiment",
                description="The YAML text of an experiment file of this bench.",
                tool="bench__check_experiment",
                make=_experiment,
                mime_type="application/yaml",
            ),
            ResourceKind(
                template=BENCH_APP,
                name="bench_app",
                title="The bench, in the chat",
                description="For hosts of MCP Apps: instruments, what runs, and STOP.",
                tool="get_status",
                make=_app,
                mime_type=APP_MIME,
            ),
            ResourceKind(
                template=RUN_APP,
                name="run_app",
                title="A run, in the chat",
                description="For hosts of MCP Apps: the plot of a sweep, stream or recording.",
                tool="get_status",
                make=_app,
                mime_type=APP_MIME,
            ),
            ResourceKind(
                template=PICTURE_URI,
                name="picture",
                title="One large picture",
                description="A captured picture that was too large for a tool's result.",
                tool="execute_command",
                make=_picture,
                mime_type="",
                is_by_maker=True,
            ),
        )
    }
)


MOST_RUNS: Final = 50
MOST_WAVEFORMS: Final = 100
"""The newest so many are listed; older ones are read all the same."""


@record
class ResourceSources:
    """The rooms that resources tell of.

    Attributes:
        profiles: gives the library as it is now.
        experiment_dirs: where experiment files are.
    """

    pool: InstrumentPool
    profiles: Callable[[], Mapping[str, Profile]]
    sweeps: Sweeps
    streams: Streams
    runs: RunRegistry
    waveforms: WaveformRegistry
    experiment_dirs: Sequence[Path] = ()


def present(sources: ResourceSources) -> Iterator[ResourceEntry]:
    """What there is, but for recordings, which are on the disk."""
    for name in ("status", "instruments", "profiles", "experiment_grammar", "experiment_schema"):
        yield _entry(name)
    instruments = sources.pool.all()
    for instrument in instruments:
        yield _instrument_entry(instrument)
    profiles = {i.profile.key: i.profile for i in instruments if i.profile is not None}
    for key, profile in sorted(profiles.items()):
        title = f"{profile.manufacturer} {profile.model}: profile to read"
        yield _entry("profile", title=title, profile_key=key)
    for sweep in sources.sweeps.active():
        yield _work_entry("sweep", sweep)
    for stream in sources.streams.running():
        yield _work_entry("stream", stream)
    for stream_id, index, waveform in sources.waveforms.newest(MOST_WAVEFORMS):
        yield _entry(
            "waveform",
            title=f"Waveform {index} of {stream_id}: {waveform.length} samples",
            size=len(waveform.samples),
            stream_id=stream_id,
            point_index=index,
        )
    for picture_id, picture in sources.waveforms.newest_pictures(MOST_WAVEFORMS):
        yield _entry(
            "picture",
            title=f"Picture of {picture.command_name}: {len(picture.samples)} bytes",
            size=len(picture.samples),
            mime_type=picture.mime,
            tool=picture.tool,
            command_name=picture.command_name,
            picture_id=picture_id,
        )


async def values_of(
    sources: ResourceSources, asked: CompletionParams, only_subject: str | None
) -> AsyncIterator[str]:
    """Everything that the variable could be; of recordings those of that subject (``Caller``)."""
    match asked.argument:
        case "tool" | "command_name" | "picture_id" if "pictures" in asked.ref:
            for picture_id, picture in sources.waveforms.newest_pictures(MOST_WAVEFORMS):
                yield {
                    "tool": picture.tool,
                    "command_name": picture.command_name,
                    "picture_id": picture_id,
                }[asked.argument]
        case "instrument_id":
            for instrument in sources.pool.all():
                for name in filter(None, (instrument.alias, instrument.id)):
                    yield name
        case "command_name":
            for name in _commands(sources, asked.known.get("instrument_id", "")):
                yield name
        case "profile_key":
            for key in sorted(sources.profiles()):
                yield key
        case "experiment_name":
            for name in sorted(await asyncio.to_thread(saved_files, sources.experiment_dirs)):
                yield name
        case "sweep_id":
            for sweep in reversed(sources.sweeps.listed()):
                yield str(sweep["sweep_id"])
        case "run_id":
            for run in await sources.runs.read(list_runs, MOST_RUNS, "", "", only_subject):
                yield str(run["run_id"])
        case "stream_id" if "waveforms" in asked.ref:
            for stream_id, _, _ in sources.waveforms.newest(MOST_WAVEFORMS):
                yield stream_id
        case "stream_id":
            for stream in sources.streams.running():
                yield stream["stream_id"]
        case "point_index":
            wanted = asked.known.get("stream_id", "")
            for stream_id, index, _ in sources.waveforms.newest(MOST_WAVEFORMS):
                if wanted in ("", stream_id):
                    yield str(index)


def _commands(sources: ResourceSources, instrument_id: str) -> list[str]:
    """Of the instrument that was chosen already, else of all."""
    try:
        pool = sources.pool
        instruments = [pool.get(instrument_id)] if instrument_id else pool.all()
    except EdgedError:
        return []
    return [
        name
        for instrument in instruments
        if instrument.profile is not None
        for name in instrument.profile.commands
        if name not in instrument.rules.deny
    ]


def _entry(
    kind_name: str,
    *,
    title: str = "",
    description: str = "",
    size: int | None = None,
    modified: str = "",
    mime_type: str = "",
    **values: str | int,
) -> ResourceEntry:
    kind = KINDS[kind_name]
    return ResourceEntry(
        uri=uri_of(kind_name, **values),
        name=" ".join([kind_name, *map(str, values.values())]),
        title=title or kind.title,
        description=description or kind.description,
        mime_type=mime_type or kind.mime_type,
        size=size,
        modified=modified,
    )


def _instrument_entry(instrument: Instrument) -> ResourceEntry:
    who = f"{instrument.identity.manufacturer} {instrument.identity.model}".strip()
    state = "" if instrument.is_connected else " (does not answer now)"
    return _entry(
        "instrument",
        title=f"{instrument.alias or instrument.id}: {who or 'unknown instrument'}{state}",
        instrument_id=instrument.id,
    )


def _work_entry(kind_name: str, told: Mapping[str, Any]) -> ResourceEntry:
    values: dict[str, Any] = {f"{kind_name}_id": told[f"{kind_name}_id"]}
    what = f"{told.get('command_name', '')} on {told.get('instrument_id', '')}"
    title = f"{kind_name.title()} of {what}: {told.get('status', '')}"
    return _entry(kind_name, title=title, **values)


def run_entry(run: Mapping[str, Any]) -> ResourceEntry:
    """The entry of a recording, from what ``list_runs`` tells of it."""
    what = f"{run.get('command_name') or ''} on {run.get('instrument_id') or ''}"
    when = str(run.get("started") or "")
    return _entry(
        "run",
        title=f"Recorded {run.get('kind') or 'run'} of {what}, {when[:19]}",
        modified=str(run.get("ended") or when),
        run_id=str(run["run_id"]),
    )
