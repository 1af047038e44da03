"""What stands where: the resources that there are now, and the names that complete their URIs.

Who may see them is not judged here (``resources.py``). Only recordings are on the disk; everything
else is in memory.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from edged.errors import EdgedError
from edged.instruments.instrument import Instrument
from edged.instruments.pool import InstrumentPool
from edged.profiles.model import Profile
from edged.protocol.resources import CompletionParams, ResourceEntry
from edged.tools.resource_kinds import KINDS, uri_of
from edged.work.run_reader import list_runs
from edged.work.runs import RunBook
from edged.work.streams import StreamBook
from edged.work.sweeps import SweepBook
from edged.work.waveforms import WaveformBook

__all__ = ["MOST_RUNS", "Shelves", "present", "run_entry", "values_of"]

MOST_RUNS: Final = 50
MOST_WAVEFORMS: Final = 100
"""The newest so many are listed; older ones are read all the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shelves:
    """The rooms that resources tell of.

    Attributes:
        profiles: gives the library as it is now.
    """

    pool: InstrumentPool
    profiles: Callable[[], Mapping[str, Profile]]
    sweeps: SweepBook
    streams: StreamBook
    runs: RunBook
    waveforms: WaveformBook


def present(shelves: Shelves) -> Iterator[ResourceEntry]:
    """What there is, but for recordings, which are on the disk."""
    for name in ("status", "instruments", "profiles"):
        yield _entry(name)
    instruments = shelves.pool.all()
    for instrument in instruments:
        yield _instrument_entry(instrument)
    profiles = {i.profile.key: i.profile for i in instruments if i.profile is not None}
    for key, profile in sorted(profiles.items()):
        title = f"{profile.manufacturer} {profile.model}: profile to read"
        yield _entry("profile", title=title, profile_key=key)
    for sweep in shelves.sweeps.active():
        yield _work_entry("sweep", sweep)
    for stream in shelves.streams.running():
        yield _work_entry("stream", stream)
    for stream_id, index, waveform in shelves.waveforms.newest(MOST_WAVEFORMS):
        yield _entry(
            "waveform",
            title=f"Waveform {index} of {stream_id}: {waveform.length} samples",
            size=len(waveform.samples),
            stream_id=stream_id,
            point_index=index,
        )
    for picture_id, picture in shelves.waveforms.newest_pictures(MOST_WAVEFORMS):
        yield _entry(
            "picture",
            title=f"Picture of {picture.command_name}: {len(picture.samples)} bytes",
            size=len(picture.samples),
            mime_type=picture.mime,
            tool=picture.tool,
            command_name=picture.command_name,
            picture_id=picture_id,
        )


async def values_of(shelves: Shelves, asked: CompletionParams) -> AsyncIterator[str]:
    """Everything that the variable could be."""
    match asked.argument:
        case "tool" | "command_name" | "picture_id" if "pictures" in asked.ref:
            for picture_id, picture in shelves.waveforms.newest_pictures(MOST_WAVEFORMS):
                yield {
                    "tool": picture.tool,
                    "command_name": picture.command_name,
                    "picture_id": picture_id,
                }[asked.argument]
        case "instrument_id":
            for instrument in shelves.pool.all():
                for name in filter(None, (instrument.alias, instrument.id)):
                    yield name
        case "command_name":
            for name in _commands(shelves, asked.known.get("instrument_id", "")):
                yield name
        case "profile_key":
            for key in sorted(shelves.profiles()):
                yield key
        case "sweep_id":
            for sweep in reversed(shelves.sweeps.listed()):
                yield str(sweep["sweep_id"])
        case "run_id":
            for run in await shelves.runs.read(list_runs, MOST_RUNS):
                yield str(run["run_id"])
        case "stream_id" if "waveforms" in asked.ref:
            for stream_id, _, _ in shelves.waveforms.newest(MOST_WAVEFORMS):
                yield stream_id
        case "stream_id":
            for stream in shelves.streams.running():
                yield stream["stream_id"]
        case "point_index":
            wanted = asked.known.get("stream_id", "")
            for stream_id, index, _ in shelves.waveforms.newest(MOST_WAVEFORMS):
                if wanted in ("", stream_id):
                    yield str(index)


def _commands(shelves: Shelves, instrument_id: str) -> list[str]:
    """Of the instrument that was chosen already, else of all."""
    try:
        pool = shelves.pool
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
