"""The resources of this bench: what there is now, reading one, and completing names.

``KINDS``, what can be read by a URI, is collected from the rows of operations
(``commands/operation.py``). Only recordings are on the disk; everything else is in memory.

Implements the MCP surface's ``ResourceSource``. A read goes through the command path as the action
that its kind says; the list tells a caller only what that caller may read. Nothing here touches an
instrument.

What has changed among the resources, gathered and told twice a second at most.

A stream of twenty points a second changes its resource twenty times; whoever watches wants to know
that it changed. Listens to the rooms of long work and to the pool, all on the event loop.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import quote, unquote

from edged.actions.caller import Caller
from edged.auth.permissions import Permissions
from edged.clock import Clock
from edged.commands.operation import READ_TOOL, SCHEME, Resource, ResourceRead, parts_of
from edged.commands.path import CommandPath
from edged.errors import Conflict, EdgedError, ErrorCode, Invalid, NotFound
from edged.instruments.instrument import Instrument
from edged.instruments.pool import Changed, Event, InstrumentPool
from edged.operations.experiment_rows import saved_files
from edged.operations.table import OPERATIONS
from edged.profiles.model import Profile
from edged.protocol.messages import CompletionParams, Content, News, ResourceEntry, TemplateEntry
from edged.record import part, record
from edged.runs.recordings.reader import check_own_run, list_runs
from edged.runs.recordings.registry import RunRegistry
from edged.runs.streams.registry import StreamNews, Streams
from edged.runs.streams.waveforms import WaveformRegistry
from edged.runs.sweeps.registry import SweepChanged, Sweeps

APP_SCHEME: Final = "ui://edged/"

KINDS: Final[Mapping[str, Resource]] = MappingProxyType(
    {kind.name: kind for row in OPERATIONS for kind in row.readable()}
)


def find_kind(uri: str) -> tuple[Resource, dict[str, str]]:
    """What a URI names, and the values of its template's variables.

    Raises:
        NotFound: UNKNOWN_RESOURCE, no kind has such URIs.
    """
    if uri.startswith((SCHEME, APP_SCHEME)):
        given = parts_of(uri.rstrip("/"))
        for kind in KINDS.values():
            values = _values(parts_of(kind.template), given)
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


def _values(parts: list[str], given: list[str]) -> dict[str, str] | None:
    if len(parts) != len(given):
        return None
    values = {}
    for word, text in zip(parts, given, strict=True):
        if word.startswith("{"):
            value = unquote(text)
            if not value:
                return None
            values[word[1:-1]] = value
        elif word != text:
            return None
    return values


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
    plain = [kind.name for kind in KINDS.values() if kind.is_listed]
    for name in sorted(plain, key=lambda name: name != "status"):
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


TELL_EVERY_S: Final = 0.5
STATUS: Final = uri_of("status")
INSTRUMENTS: Final = uri_of("instruments")


class ResourceNews:
    """Gathers changes and tells them.

    Args:
        clock: for how often.
    """

    def __init__(self, sources: ResourceSources, clock: Clock) -> None:
        self._sources = sources
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
            self._sources.pool.subscribe(self._hear_pool),
            self._sources.sweeps.subscribe(self._hear_sweep),
            self._sources.streams.subscribe(self._hear_stream),
            self._sources.runs.subscribe(self._hear_run),
            self._sources.waveforms.subscribe(self._hear_waveform),
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
            moving = [s for s in self._sources.sweeps.active() if s["status"] == "running"]
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


COMPLETIONS_AT_ONCE: Final = 100
COMPLETIONS_A_SECOND: Final = 20.0


@part
class Resources:
    """What can be read by URI.

    Attributes:
        sources: where things stand.
        path: the command path, by which they are read.
        permissions: who may.
        news: tells what has changed.
        clock: for how often names are completed.
    """

    sources: ResourceSources
    path: CommandPath
    permissions: Permissions
    news: ResourceNews
    clock: Clock
    _completions_left: float = field(init=False)
    _counted_s: float = field(init=False)

    def __post_init__(self) -> None:
        self._completions_left = float(COMPLETIONS_AT_ONCE)
        self._counted_s = self.clock.monotonic()

    def subscribe(self, callback: Callable[[News], None]) -> Callable[[], None]:
        """Tell of what has changed; returns how to end that."""
        return self.news.subscribe(callback)

    def templates(self) -> Sequence[TemplateEntry]:
        """The kinds that have variables; they tell nothing of this bench."""
        return [
            TemplateEntry(
                uri_template=kind.template,
                name=kind.name,
                title=kind.title,
                description=kind.description,
                mime_type=kind.mime_type,
            )
            for kind in KINDS.values()
            if kind.variables
        ]

    async def entries(self, caller: Caller) -> Sequence[ResourceEntry]:
        """What there is now and the caller may read, in a fixed order."""
        told = [entry for entry in present(self.sources) if self.may_read(entry.uri, caller)]
        if self._may(caller, KINDS["run"], {}):
            subject = caller.only_subject
            found = await self.sources.runs.read(list_runs, MOST_RUNS, "", "", subject)
            told += [run_entry(run) for run in found]
        return told

    async def read(self, uri: str, caller: Caller, action_id: str) -> Sequence[Content]:
        """Read one resource.

        Raises:
            NotFound: there is none at this URI.
            EdgedError: it may not be read, or could not be.
        """
        try:
            kind, values = find_kind(uri)
        except NotFound as unknown:
            self.path.record.refuse(caller, READ_TOOL, unknown)
            raise
        asked = ResourceRead(uri=uri, values=values, caller=caller, action_id=action_id)
        outcome = await self.path.perform(kind.action(asked))
        if outcome.error is not None:
            raise outcome.error
        return [kind.show(kind, asked, outcome.data)]

    async def watch_key(self, uri: str, caller: Caller) -> str:
        """What names this resource in the news, however the caller spells it.

        Raises:
            NotFound: no resource has such a URI, or it is a run that the caller is not shown.
            Refused: NOT_ALLOWED; it is in the audit.
        """
        kind, values = find_kind(uri)
        self._judge(caller, kind, values)
        run_id = values.get("run_id")
        if run_id is not None and caller.only_subject is not None:
            await self.sources.runs.written(run_id)
            await self.sources.runs.read(check_own_run, run_id, caller.only_subject)
        instrument_id = values.get("instrument_id")
        if instrument_id is not None:
            values["instrument_id"] = self.sources.pool.get(instrument_id).id
        return uri_of(kind.name, **values)

    def may_read(self, uri: str, caller: Caller) -> bool:
        """Whether this caller has the permission that a resource needs."""
        return self._may(caller, *find_kind(uri))

    async def complete(self, asked: CompletionParams, caller: Caller) -> Sequence[str]:
        """Values that may go on from what was typed, best first.

        Raises:
            Invalid: no template, or no variable of it, is meant.
            Refused: NOT_ALLOWED; it is in the audit.
            Conflict: BUSY, names are completed too often.
        """
        kind = next((k for k in KINDS.values() if k.template == asked.ref and k.variables), None)
        if kind is None or asked.kind != "ref/resource":
            raise Invalid(
                f"There is no template {asked.ref[:200]!r}; resources/templates/list tells all.",
                data={"parameter": "ref"},
            )
        if asked.argument not in kind.variables:
            raise Invalid(
                f"{kind.template} has no variable {asked.argument[:100]!r}.",
                data={"parameter": "argument.name", "variables": list(kind.variables)},
            )
        self._judge(caller, kind, {})
        self._spend_a_completion()
        typed = asked.value.casefold()
        values = values_of(self.sources, asked, caller.only_subject)
        known = dict.fromkeys([value async for value in values])
        found = [value for value in known if typed in value.casefold()]
        return sorted(found, key=lambda value: not value.casefold().startswith(typed))

    def _judge(self, caller: Caller, kind: Resource, values: Mapping[str, str]) -> None:
        self.path.authorize(caller, *kind.permission(values))

    def _may(self, caller: Caller, kind: Resource, values: Mapping[str, str]) -> bool:
        return self.permissions.allows_tool(caller, *kind.permission(values))

    def _spend_a_completion(self) -> None:
        now_s = self.clock.monotonic()
        gained = (now_s - self._counted_s) * COMPLETIONS_A_SECOND
        self._completions_left = min(COMPLETIONS_AT_ONCE, self._completions_left + gained)
        self._counted_s = now_s
        if self._completions_left < 1:
            raise Conflict(
                f"Names are completed {COMPLETIONS_A_SECOND:g} times a second at most.",
                code=ErrorCode.BUSY,
                remedy="Wait for the person to stop typing.",
            )
        self._completions_left -= 1
