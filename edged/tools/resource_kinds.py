"""``KINDS``: what can be read by a URI, from the rows of operations (``commands/operation.py``).

The resources that there are now, and the names that complete their URIs.

Who may see them is not judged here (``resources.py``). Only recordings are on the disk; everything
else is in memory.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import quote, unquote

from edged.commands.operation import SCHEME, Resource, parts_of
from edged.errors import EdgedError, ErrorCode, NotFound
from edged.instruments.instrument import Instrument
from edged.instruments.pool import InstrumentPool
from edged.operations.table import OPERATIONS
from edged.profiles.model import Profile
from edged.protocol.messages import CompletionParams, ResourceEntry
from edged.record import record
from edged.runs.recordings.reader import list_runs
from edged.runs.recordings.registry import RunRegistry
from edged.runs.streams.registry import StreamRegistry
from edged.runs.streams.waveforms import WaveformRegistry
from edged.runs.sweeps.registry import SweepRegistry

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
    for part, text in zip(parts, given, strict=True):
        if part.startswith("{"):
            value = unquote(text)
            if not value:
                return None
            values[part[1:-1]] = value
        elif part != text:
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
    """

    pool: InstrumentPool
    profiles: Callable[[], Mapping[str, Profile]]
    sweeps: SweepRegistry
    streams: StreamRegistry
    runs: RunRegistry
    waveforms: WaveformRegistry


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
