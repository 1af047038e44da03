"""The resources of this bench: what there is now, reading one, and completing names.

Implements the MCP surface's ``ResourceSource``. A read goes through the command path as the action
that its kind says; the list tells a caller only what that caller may read. Nothing here touches an
instrument.

What has changed among the resources, gathered and told twice a second at most.

A stream of twenty points a second changes its resource twenty times; whoever watches wants to know
that it changed. Listens to the rooms of long work and to the pool, all on the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from edged.actions.caller import Caller
from edged.auth.permissions import Permissions
from edged.clock import Clock
from edged.commands.operation import READ_TOOL, Resource, ResourceRead
from edged.commands.path import CommandPath
from edged.errors import Conflict, ErrorCode, Invalid, NotFound
from edged.instruments.pool import Changed, Event
from edged.protocol.messages import CompletionParams, Content, News, ResourceEntry, TemplateEntry
from edged.runs.recordings.reader import check_own_run, list_runs
from edged.runs.streams.registry import StreamNews
from edged.runs.sweeps.registry import SweepChanged
from edged.tools.resource_kinds import (
    KINDS,
    MOST_RUNS,
    ResourceSources,
    find_kind,
    present,
    run_entry,
    uri_of,
    values_of,
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


class Resources:
    """What can be read by URI.

    Args:
        sources: where things stand.
        path: the command path, by which they are read.
        permissions: who may.
        news: tells what has changed.
        clock: for how often names are completed.
    """

    def __init__(
        self,
        *,
        sources: ResourceSources,
        path: CommandPath,
        permissions: Permissions,
        news: ResourceNews,
        clock: Clock,
    ) -> None:
        self._sources = sources
        self._path = path
        self._permissions = permissions
        self._news = news
        self._clock = clock
        self._completions_left = float(COMPLETIONS_AT_ONCE)
        self._counted_s = clock.monotonic()

    def subscribe(self, callback: Callable[[News], None]) -> Callable[[], None]:
        """Tell of what has changed; returns how to end that."""
        return self._news.subscribe(callback)

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
        told = [entry for entry in present(self._sources) if self.may_read(entry.uri, caller)]
        if self._may(caller, KINDS["run"], {}):
            subject = caller.only_subject
            found = await self._sources.runs.read(list_runs, MOST_RUNS, "", "", subject)
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
            self._path.record.refuse(caller, READ_TOOL, unknown)
            raise
        asked = ResourceRead(uri=uri, values=values, caller=caller, action_id=action_id)
        outcome = await self._path.perform(kind.action(asked))
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
            await self._sources.runs.written(run_id)
            await self._sources.runs.read(check_own_run, run_id, caller.only_subject)
        instrument_id = values.get("instrument_id")
        if instrument_id is not None:
            values["instrument_id"] = self._sources.pool.get(instrument_id).id
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
        values = values_of(self._sources, asked, caller.only_subject)
        known = dict.fromkeys([value async for value in values])
        found = [value for value in known if typed in value.casefold()]
        return sorted(found, key=lambda value: not value.casefold().startswith(typed))

    def _judge(self, caller: Caller, kind: Resource, values: Mapping[str, str]) -> None:
        self._path.authorize(caller, *kind.permission(values))

    def _may(self, caller: Caller, kind: Resource, values: Mapping[str, str]) -> bool:
        return self._permissions.allows_tool(caller, *kind.permission(values))

    def _spend_a_completion(self) -> None:
        now_s = self._clock.monotonic()
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
