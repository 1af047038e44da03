"""The bench as a whole: what is on it, what it can do, how the daemon stands, and stop all.

The result of list_instruments is built again only after a change of what it shows. So is each
entry, as JSON too: with hundreds of instruments the loop hears none while it lists them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from edged.actions.action import MemoryAction, NamedAction, StopAll
from edged.actions.caller import Caller
from edged.actions.outcome import Done
from edged.changes import TOLD
from edged.commands.capabilities import capabilities_of
from edged.commands.operation import Operation, Resource, ResourceRead, Rows, as_json, bind
from edged.commands.resolve import Resolver
from edged.commands.static_tool import (
    CALM,
    INSTRUMENT_ID,
    LIST,
    NO_ARGUMENTS,
    READ,
    StaticTool,
    parameters_of,
    result_of,
    rows_of,
)
from edged.commands.target import Catalog, Target
from edged.discovery.loop import Discovery
from edged.errors import ErrorCode, NotFound
from edged.instruments.instrument import USED_FOR_MS, Instrument
from edged.instruments.unit_state import heard_ms
from edged.profiles.model import ProfileHead
from edged.protocol.jsonrpc import encode_text, quote
from edged.protocol.messages import Content
from edged.protocol.results import ToldList
from edged.record import record
from edged.runs.bench import Bench


class InstrumentList:
    """Makes the entries, and keeps all of them.

    Args:
        lease: gives who has reserved it, if anybody has.
    """

    def __init__(
        self, bench: Bench, lease: Callable[[Instrument], Mapping[str, Any] | None]
    ) -> None:
        self._bench = bench
        self._lease = lease
        # By number: what all of an entry but its times depends on; its JSON up to these, as it is
        # and as it stands in a JSON string.
        self._kept: dict[int, tuple[tuple[object, ...], str, str]] = {}
        # The latest list, the mark that it was made under, and the end of its life (Unix ms).
        self._list = ToldList("[]")
        self._mark = ""
        self._until_ms: int | None = None

    def entry(self, instrument: Instrument) -> dict[str, Any]:
        """What is told of one; cached values only."""
        clock = self._bench.clock
        now_s, now_ms = clock.monotonic(), clock.wall_ms()
        user, used_ms = instrument.last_use(now_ms)
        entry: dict[str, Any] = json.loads(
            self._entry(instrument, user, used_ms, heard_ms(instrument, now_s, now_ms))[0]
        )
        return entry

    def _entry(
        self, instrument: Instrument, user: Caller | None, used_ms: int | None, heard: int | None
    ) -> tuple[str, str]:
        """Its JSON, and that as it stands in a JSON string.

        An answer of the instrument changes no more of it than the times at the end.
        """
        depends_on = self._depends_on(instrument, user)
        kept = self._kept.get(instrument.number)
        if kept is None or kept[0] != depends_on:
            mark = TOLD.mark()
            rest = {**instrument.summary(), **self._of_others(instrument)}
            del rest["used_by_ms"]
            text = encode_text(rest)[:-1]
            kept = depends_on, text, quote(text)[1:-1]
            # Not where another thread has changed something meanwhile.
            if mark == TOLD.mark() and depends_on == self._depends_on(instrument, user):
                self._kept[instrument.number] = kept
        # As JSON has it.
        used, told = ("null" if used_ms is None else used_ms, "null" if heard is None else heard)
        return (
            f'{kept[1]},"used_by_ms":{used},"heard_ms":{told}}}',
            f'{kept[2]},\\"used_by_ms\\":{used},\\"heard_ms\\":{told}}}',
        )

    def _depends_on(self, instrument: Instrument, user: Caller | None) -> tuple[object, ...]:
        """Equal as long as no more of an entry than its times has changed."""
        bench, actor = self._bench, instrument.actor
        return (
            instrument.version,
            user,
            bench.store.lockout_of(instrument),
            self._lease(instrument),
            instrument.habits.warning,
            # What else its state depends on; where no line leads, also on what discovery found.
            (actor.line.state, actor.line.is_silent) if actor else bench.state_of(instrument),
        )

    def _of_others(self, instrument: Instrument) -> dict[str, Any]:
        lockout = self._bench.store.lockout_of(instrument)
        return {
            "state": self._bench.state_of(instrument).value,
            "lockout": lockout.to_json() if lockout else None,
            "lease": self._lease(instrument),
        }

    def all(self) -> ToldList:
        """What is told of each."""
        if self._mark != TOLD.mark() or (
            self._until_ms is not None and self._bench.clock.wall_ms() >= self._until_ms
        ):
            # Before it is made: what changes meanwhile makes it old.
            self._mark = TOLD.mark()
            now_s, now_ms = self._bench.clock.monotonic(), self._bench.clock.wall_ms()
            texts, quoted, ends = [], [], []
            for instrument in self._bench.pool.all():
                user, used_ms = instrument.last_use(now_ms)
                heard = heard_ms(instrument, now_s, now_ms)
                text, in_string = self._entry(instrument, user, used_ms, heard)
                texts.append(text)
                quoted.append(in_string)
                # A lease is renewed by each call, and a use forgotten.
                if used_ms is not None:
                    ends.append(used_ms + USED_FOR_MS)
                if self._lease(instrument):
                    ends.append(0)
            self._list = ToldList(f"[{','.join(texts)}]", f'"[{",".join(quoted)}]"')
            self._until_ms = min(ends, default=None)
        return self._list


@record
class BenchOperations:
    """What they are run with.

    Attributes:
        profiles: gives the heads of the library as it is now.
        status: gives get_status's result; the composition root knows all that it tells of.
        listing: the entries of list_instruments.
        make_safe: everything, at once.
        verified_on: gives the units on which a profile was tried, by its key.
        wrappers: gives what get_capabilities tells of SDK wrappers.
    """

    bench: Bench
    discovery: Discovery
    catalog: Catalog
    profiles: Callable[[], Mapping[str, ProfileHead]]
    status: Callable[[], dict[str, Any]]
    listing: InstrumentList
    make_safe: Callable[[StopAll], Awaitable[dict[str, Any]]]
    verified_on: Callable[[str], Sequence[Mapping[str, Any]]]
    wrappers: Callable[[], list[dict[str, Any]]]

    def table(self) -> Rows:
        """Its rows, bound."""
        return bind(self, OPERATIONS)

    def list_instruments(self, action: NamedAction, _target: Target, _began: float) -> Done:
        """Entries in which some field holds the text, whatever its case."""
        entries, text = self.listing.all(), str(action.arguments.get("filter", "")).casefold()
        return Done(data=[e for e in entries.items() if _holds(e, text)] if text else entries)

    def get_capabilities(self, action: NamedAction, _target: Target, _began: float) -> Done:
        """What each instrument and SDK wrapper can do."""
        arguments = action.arguments
        wanted_id, wanted_class = arguments.get("instrument_id"), arguments.get("instrument_class")
        wrappers = self.wrappers()
        if wanted_id:
            named = [one for one in wrappers if one["instrument_id"] == wanted_id]
            if named:
                return Done(data=named)
            wrappers = []
        instruments = [self.bench.pool.get(wanted_id)] if wanted_id else self.bench.pool.all()
        entries = [
            capabilities_of(instrument, self.catalog, self.bench.store.experience_of(instrument))
            for instrument in instruments
            if not wanted_class or instrument.instrument_class == wanted_class
        ]
        more = [
            one for one in wrappers if not wanted_class or one["instrument_class"] == wanted_class
        ]
        return Done(data=entries + more)

    async def scan(self, _action: NamedAction, _target: Target, _began: float) -> Done:
        """Look at the buses now."""
        return Done(data=[self.listing.entry(found) for found in await self.discovery.scan()])

    def list_profiles(self, _action: NamedAction, _target: Target, _began: float) -> Done:
        """The library, with how many instruments each profile has here."""
        counts = Counter(i.profile.key for i in self.bench.pool.all() if i.profile is not None)
        rows = [
            {
                "key": profile.key,
                "count": counts[profile.key],
                "manufacturer": profile.manufacturer,
                "model": profile.model,
                "instrument_class": profile.instrument_class,
                "version": profile.version,
                "status": profile.status.value,
                "commands": profile.command_count,
                "sequences": profile.sequence_count,
                "verified_on": list(self.verified_on(profile.key)),
            }
            for profile in self.profiles().values()
        ]
        return Done(data=rows)

    def get_status(self, _action: NamedAction, _target: Target, _began: float) -> Done:
        """The daemon itself."""
        return Done(data=self.status())

    async def stop_all(self, action: StopAll, _target: Target, _began: float) -> Done:
        """Make everything safe."""
        return Done(data=await self.make_safe(action))


def _holds(value: Any, text: str) -> bool:
    if isinstance(value, Mapping):
        return any(_holds(inner, text) for inner in value.values())
    if isinstance(value, list | tuple):
        return any(_holds(inner, text) for inner in value)
    return text in str(value).casefold()


def at_the_bench(_resolver: Resolver, _action: StopAll) -> Target:
    """All of it, to make it safe: nothing holds that back."""
    return Target(is_safe=True, is_write=True)


def _as_instrument(resource: Resource, asked: ResourceRead, data: Any) -> Content:
    return as_json(resource, asked, data[0])


def _as_command(resource: Resource, asked: ResourceRead, data: Any) -> Content:
    capabilities, name = data[0], asked.values["command_name"]
    for command in capabilities["commands"]:
        if command["name"] == name:
            one = {"instrument_id": capabilities["instrument_id"], **command}
            return as_json(resource, asked, one)
    raise NotFound(
        f"{capabilities['instrument_id']} has no command {name[:100]!r}.",
        code=ErrorCode.UNKNOWN_COMMAND,
        data={"uri": asked.uri},
        remedy="Its resource without /commands lists them.",
    )


SUMMARY: Final = (
    "id", "manufacturer", "model", "serial", "firmware", "alias", "location", "address",
    "alternatives", "transport", "profile_name", "instrument_class", "is_connected", "line_state",
    "used_by", "used_by_ms", "state", "heard_ms", "remark", "warning", "lockout", "lease",
)  # fmt: skip
"""The members of an entry of list_instruments."""

STATUS: Final = (
    "edge_id", "edge_name", "version", "instrument_count", "instruments_by_state",
    "troubled_lines", "waiting_calls", "uptime_s", "platform", "mcp", "sweeps", "streams",
    "sequences", "experiments", "rpc", "relay", "visa", "profiles", "recordings", "waveforms",
    "stopping",
    "needs_attention", "set_aside", "discovery", "loop", "store", "sdk", "lockouts", "leases",
    "approvals", "interlocks", "budgets", "dead_man", "told_on", "telemetry", "raw_scpi",
    "unlisted_tools",
)  # fmt: skip
"""The members of get_status: of ``engine.status``, and of ``engine.engine`` (``more``)."""


OPERATIONS: Final = (
    Operation(
        action=MemoryAction,
        run=BenchOperations.list_instruments,
        short_name="instruments",
        tool=StaticTool(
            name="list_instruments",
            description=(
                "The instruments on this bench, from memory. Start here: other tools take an "
                "`id` (or alias) from it. is_connected false: it cannot be used now; empty "
                "profile_name: only by send_scpi."
            ),
            schema=parameters_of(filter={"type": "string", "description": "Part of any field."}),
            output=rows_of("instruments", *SUMMARY),
            annotations=READ,
            wrap_key="instruments",
        ),
        resources=(
            Resource(
                template="edged://instruments",
                name="instruments",
                title="Instruments on this bench",
                description="Every instrument with id, alias, model and whether it answers.",
            ),
        ),
    ),
    Operation(
        action=MemoryAction,
        run=BenchOperations.get_capabilities,
        tool=StaticTool(
            name="get_capabilities",
            title="What instruments can do",
            description=(
                "What an instrument can do: its commands with JSON Schema, unit and danger, its "
                "sequences and settings; from memory. Read it, for one instrument, before "
                "execute_command, execute_sequence or start_sweep."
            ),
            schema=parameters_of(
                instrument_id=INSTRUMENT_ID,
                instrument_class={"type": "string", "description": "Such as power_supply."},
            ),
            output=result_of(capabilities=LIST),
            annotations=READ,
            wrap_key="capabilities",
        ),
        resources=(
            Resource(
                template="edged://instruments/{instrument_id}",
                name="instrument",
                title="One instrument",
                description="What one instrument can do: commands with arguments, units and "
                "limits, sequences, settings.",
                arguments=("instrument_id",),
                show=_as_instrument,
            ),
            Resource(
                template="edged://instruments/{instrument_id}/commands/{command_name}",
                name="command",
                title="One command of an instrument",
                description="One command with the JSON Schema of its arguments, its unit and how "
                "it has fared on this instrument.",
                arguments=("instrument_id",),
                show=_as_command,
            ),
        ),
    ),
    Operation(
        run=BenchOperations.scan,
        short_name="scan",
        tool=StaticTool(
            name="scan_instruments",
            title="Scan for instruments",
            description=(
                "Look for instruments now on every configured bus and address; returns those "
                "that are new or came back. Needed only right after something was plugged in: "
                "edged also looks by itself."
            ),
            schema=NO_ARGUMENTS,
            output=result_of(instruments=LIST),
            annotations=CALM,
            wrap_key="instruments",
        ),
    ),
    Operation(
        action=MemoryAction,
        run=BenchOperations.list_profiles,
        tool=StaticTool(
            name="list_profiles",
            description=(
                "List every instrument profile, with how many instruments it matches here: whether "
                "a model is supported."
            ),
            schema=NO_ARGUMENTS,
            output=result_of(profiles=LIST),
            annotations=READ,
            wrap_key="profiles",
        ),
        resources=(
            Resource(
                template="edged://profiles",
                name="profiles",
                title="Profiles",
                description="Every instrument profile that this daemon knows.",
            ),
        ),
    ),
    Operation(
        action=MemoryAction,
        run=BenchOperations.get_status,
        short_name="status",
        tool=StaticTool(
            name="get_status",
            title="Status of the daemon",
            description=(
                "The daemon: version, uptime, what runs, is reserved or locked out, and needs "
                "attention; from memory."
            ),
            schema=NO_ARGUMENTS,
            output=result_of(*STATUS),
            annotations=READ,
        ),
        resources=(
            Resource(
                template="edged://status",
                name="status",
                title="Status of the daemon",
                description="Identity, version, what runs, what needs attention.",
            ),
        ),
    ),
    Operation(
        action=StopAll,
        run=BenchOperations.stop_all,
        short_name="stop",
        aim=at_the_bench,
        tool=StaticTool(
            name="bench__stop_all",
            title="Make the whole bench safe",
            description=(
                "Stop everything at once, never refused: ends every sweep, stream and sequence "
                "and aborts each instrument and SDK wrapper (outputs off). is_confirmed is true "
                "only if all that was switched on answered that it is off. It replaces no "
                "emergency switch."
            ),
            schema=NO_ARGUMENTS,
            annotations=CALM,
            needs_instruments=True,
        ),
    ),
)
