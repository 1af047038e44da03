"""The loop that finds instruments: looks at the buses, and asks each address where nobody is known.

An address that refuses is tried again soon, and shows nothing until it has answered once; one that
hangs or is no instrument is set aside with a reason and asked at every tenth scan, by ``scan``, and
when it was plugged in anew. Lines with a known unit look after themselves (``line.py``); here they
are only looked at, so that an idle one whose peer has left is noticed, and are let go of when they
have been silent for too long. What a bus that tells departures no longer lists has gone at once.

Addresses that discovery knows of: who told of each, and what came of asking it.

Only the bookkeeping: who is asked when, ``loop.py`` decides.

Every unit judged anew, because profiles or the owner's bench file were changed.

Units keep their lines and their ids; what a new profile wants asked (``probe``) or sent at
connection is done now where the unit answers, and at its next connection where it does not.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field, replace
from typing import Any, Final

import structlog

from edged.changes import TOLD
from edged.clock import Clock
from edged.config.instruments import InstrumentEntry
from edged.discovery.buses import BusSource, Candidate, Listing
from edged.discovery.hotplug import Picked, start_monitor
from edged.discovery.hotplug_windows import ListThings
from edged.discovery.registering import Knowledge, examine, judge_again
from edged.discovery.schedule import SCANS_ASIDE, ScanSchedule
from edged.errors import EdgedError, ErrorCode, Failed, Invalid
from edged.instruments.actor import Actor
from edged.instruments.conversation import Conversation, greet, raw_conversation
from edged.instruments.hosts import Hosts, LookUp, look_up
from edged.instruments.identity import Seat
from edged.instruments.instrument import Found, Instrument
from edged.instruments.line import MIN_ATTEMPT_GAP_S
from edged.instruments.line_state import LineState, retry_delay_s
from edged.instruments.mailbox import Priority
from edged.instruments.pool import InstrumentPool
from edged.log import surviving
from edged.profiles.bench_file import plain
from edged.profiles.model import Connection
from edged.record import record
from edged.transports.address import parse_address
from edged.transports.link import Link


@record(frozen=False, eq=False)
class KnownAddress:
    """One address, and what came of asking it.

    Attributes:
        actor: its line; ``None`` when the address cannot be opened at all.
        is_configured: the owner gave it; it stays whatever the buses tell.
        sources: names of the buses that list it now.
        plug: changes when what is there was plugged in anew.
        open_as: what VISA is given.
        due_at: monotonic seconds; when it is asked next, if nobody is known there.
        refusals: how often in a row nobody was there.
        reason: why no instrument is known here; empty while somebody is.
        why: the same in a few words.
        remedy: what to do about that.
        is_aside: something is there that hangs, is no instrument or cannot be opened.
        asking: the task that asks now.
    """

    entry: InstrumentEntry
    actor: Actor | None = None
    is_configured: bool = False
    sources: set[str] = field(default_factory=set)
    usb_id: tuple[int, int] | None = None
    plug: str = ""
    open_as: str = ""
    due_at: float = 0.0
    refusals: int = 0
    reason: str = ""
    why: str = ""
    remedy: str = ""
    is_aside: bool = False
    since_ms: int = 0
    asking: asyncio.Task[None] | None = None

    def told(self) -> dict[str, Any]:
        """Its entry in get_status's ``set_aside`` and the doctor's report."""
        return {
            "address": self.entry.address,
            "name": self.entry.name or "",
            "reason": self.reason,
            "why": self.why or self.reason,
            "remedy": self.remedy,
            "is_configured": self.is_configured,
            "is_set_aside": self.is_aside,
            "since_ms": self.since_ms,
        }

    def forgive(self) -> None:
        """What is there was plugged in anew: it is asked as if nothing had been."""
        self.due_at, self.refusals, self.is_aside = 0.0, 0, False
        TOLD.note()


def place_key(address: str) -> str:
    """What tells places apart: the canonical address, or the text where it is none."""
    try:
        return parse_address(address).key
    except EdgedError:
        return address


def _device(address: str) -> str:
    try:
        return parse_address(address).device
    except EdgedError:
        return address


NoteUsb = Callable[[frozenset[tuple[int, int]]], None]
EntryOf = Callable[[Instrument], tuple[InstrumentEntry, tuple[int, int] | None]]
PATIENCE_S: Final = 3.0
MORE_THAN_ONE: Final = 2

log = structlog.get_logger(__name__)


class Reprofile:
    """Judges units that are known already.

    Args:
        pool: where they are.
        entry_of: what the owner wrote of a unit's address, and its USB id.
    """

    def __init__(self, pool: InstrumentPool, *, entry_of: EntryOf) -> None:
        self._pool = pool
        self._entry_of = entry_of

    async def take(self, knowledge: Knowledge, before: Callable[[], None]) -> list[str]:
        """See ``Discovery.learn``; whatever is asked is asked before anything changes."""
        judged = []
        for instrument in self._pool.known():
            entry, usb_id = self._entry_of(instrument)
            found = judge_again(instrument, entry, knowledge, usb_id)
            if found is not None:
                judged.append((instrument, await self._confirmed(instrument, found)))
        greeted = [
            (instrument, found.connection)
            for instrument, found in judged
            if found.connection.on_connect != instrument.connection.on_connect
        ]
        before()
        self._pool.relearn(judged)
        for instrument, connection in greeted:
            await _greet(instrument, connection)
        return [instrument.id for instrument, _ in judged]

    def at_joined(self, instrument: Instrument, knowledge: Knowledge) -> None:
        """What the owner says under each name of a unit's addresses holds for it at all of them.

        Its profile and how it is spoken to stay as they were found.
        """
        if len(instrument.seats) < MORE_THAN_ONE:
            return
        entry, usb_id = self._entry_of(instrument)
        found = judge_again(instrument, entry, knowledge, usb_id)
        if found is None:
            return
        own = instrument.connection
        profile = replace(found.profile, connection=own) if found.profile else None
        if instrument.profile is None:
            profile = None
        found = replace(found, connection=own, profile=profile)
        had = (instrument.profile, instrument.rules, instrument.alias)
        if had != (found.profile, found.rules, found.alias):
            self._pool.relearn([(instrument, found)])

    async def _confirmed(self, instrument: Instrument, found: Found) -> Found:
        """With its new profile, if the profile's own question is answered as it must be."""
        profile, had = found.profile, instrument.profile
        probe = found.connection.probe
        is_known = had is not None and profile is not None and had.key == profile.key
        if profile is None or probe is None or is_known or not instrument.is_connected:
            return found
        try:
            reply = await instrument.converse(
                lambda: raw_conversation(
                    lines=(probe.query,), asks=True, connection=found.connection
                ),
                priority=Priority.PROBE,
                timeout_s=PATIENCE_S + found.connection.timeout_ms / 1000,
                name=probe.query,
            )
            is_confirmed = re.search(probe.expect, (reply.answer or "")[:1000]) is not None
        except EdgedError:
            is_confirmed = False
        if is_confirmed:
            return found
        remark = f"{profile.key} matches the name, but its probe question got another answer."
        return replace(
            found, profile=None, tied=(), remark=remark, connection=instrument.connection
        )


def _nothing() -> Conversation[None]:
    """Says nothing: the line has to be ready for it, and that is all."""
    yield from ()


async def _greet(instrument: Instrument, connection: Connection) -> None:
    """Say what the new profile wants said at connection; a unit that is away hears it later."""
    if not instrument.is_connected:
        return
    try:
        await instrument.converse(
            lambda: greet(connection),
            priority=Priority.PROBE,
            timeout_s=PATIENCE_S + connection.timeout_ms * len(connection.on_connect) / 1000,
            name="greeting",
        )
    except EdgedError as error:
        log.warning("greeting_failed", id=instrument.id, reason=str(error))


TICK_S: Final = 0.25
LOOK_EVERY_S: Final = 2.0
"""How soon an idle connection that the peer has closed is noticed; sends nothing."""
SCAN_LIMIT_S: Final = 15.0
"""How long one scan_instruments may take, whatever hangs."""
TRIES_AT_SCAN: Final = 2
"""To reach a unit that is away: an attempt right after a failure is refused, so there are two."""
PickMonitor = Callable[[ListThings, Clock], Picked]


SWITCH_IT: Final = "Switch it on, or off and on again, then scan (scan_instruments)."
NAME_IT: Final = (
    "It answers, but does not identify itself: correct its terminations or baud rate in "
    "INSTRUMENTS, or name its profile there, then start edged again."
)
CORRECT_IT: Final = "Correct INSTRUMENTS, then start edged again."
OPEN_IT: Final = "Correct that, then scan (scan_instruments)."
REPORT_IT: Final = "Report this as a bug, with the engine's log."


class Discovery:
    """Looks at buses, asks addresses, and tells the pool who answered and who has left.

    Args:
        entries: addresses that the owner configured.
        sources: buses that tell what is on them.
        look_up: what resolves the names of hosts, in a thread.
        pick_monitor: gives this machine's hot-plug monitor; none: only scans find what is new.
        note_usb: told of what hangs on USB, instrument or not, after each look.
    """

    def __init__(
        self,
        pool: InstrumentPool,
        *,
        knowledge: Knowledge,
        entries: Sequence[InstrumentEntry],
        open_link: Callable[[str], Link],
        clock: Clock,
        rescan_interval_s: float,
        gone_after_s: float,
        sources: Sequence[BusSource] = (),
        pick_monitor: PickMonitor | None = None,
        note_usb: NoteUsb | None = None,
        look_up: LookUp = look_up,
    ) -> None:
        """Take note of the addresses; nothing is asked before ``start``."""
        self._pool = pool
        self._knowledge = knowledge
        self._entries = tuple(entries)
        self._open_link = open_link
        self._clock = clock
        self._rescan_interval_s = rescan_interval_s
        self._gone_after_s = gone_after_s
        self._scan_schedule = ScanSchedule(
            sources,
            clock=clock,
            rescan_interval_s=rescan_interval_s,
            take=self._take,
            has_trouble=self._has_trouble,
        )
        self._pick_monitor = pick_monitor
        self._note_usb = note_usb
        self._picked: Picked | None = None
        # By canonical address, in the order in which they became known.
        self._places: dict[str, KnownAddress] = {}
        self._reprofile = Reprofile(pool, entry_of=self._entry_of)
        self._hosts = Hosts(look_up)
        self._looked_at = float("-inf")
        self._reserve_names()
        self._loop_task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin; returns at once. ``first_look`` waits for what there is to find."""
        for entry in self._entries:
            self._add(entry)
        if self._pick_monitor is not None:
            looks = self._scan_schedule
            picked = self._pick_monitor(looks.list_things, self._clock)
            self._picked = start_monitor(picked, looks.note_plug, looks.list_things, self._clock)
        self._tick()
        self._loop_task = asyncio.create_task(self._run(), name="edged-discovery")

    async def first_look(self, timeout_s: float) -> None:
        """Wait until the quick buses are listed and each address has answered or not.

        Not longer than that, and not for slow buses.
        """
        deadline = self._clock.monotonic() + timeout_s
        await self._wait_for(self._scan_schedule.flying(is_quick=True), deadline)
        await self._wait_for(_asking(self._places.values()), deadline)

    def watch(self, entry: InstrumentEntry) -> None:
        """Add a configured address. One that is there already, however spelled, stays as it is."""
        self._add(entry)
        self._reserve_names()

    def _add(self, entry: InstrumentEntry) -> None:
        key = place_key(entry.address)
        if key not in self._places:
            place = KnownAddress(entry=entry, is_configured=True, open_as=entry.address)
            self._places[key] = place
            if entry.problem:
                self._explain(place, entry.problem, is_aside=True, remedy=CORRECT_IT)
            else:
                self._open(place)

    async def scan(self) -> list[Instrument]:
        """Look at every bus and ask every address at which nobody is known or who is known is away.

        Gives the instruments that are new or came back.
        """
        before = {i.id for i in self._pool.all() if i.is_connected}
        deadline = self._clock.monotonic() + SCAN_LIMIT_S
        await self._wait_for(self._scan_schedule.look_at_all(), deadline)
        others = self._pool.alternatives()
        places = [place for place in self._places.values() if self._is_vacant(place, others)]
        for place in places:
            self._ask_soon(place)
        # A line that was opened again is ready, too, while the unit is asked who it is.
        absent = {i.actor for i in self._pool.all() if not i.is_connected}
        away = []
        for actor in (place.actor for place in self._places.values()):
            if actor is not None and actor.line.bound.number:
                if actor.line.state is LineState.READY and actor not in absent:
                    actor.look()
                else:
                    away.append(asyncio.create_task(self._try(actor), name="edged-scan"))
        try:
            await self._wait_for([*_asking(places), *away], deadline)
        finally:
            for attempt in away:
                attempt.cancel()
            await asyncio.gather(*away, return_exceptions=True)
        return [i for i in self._pool.all() if i.is_connected and i.id not in before]

    async def _try(self, actor: Actor) -> None:
        """Have a line whose unit is away brought back, if the unit is there again."""
        for attempt in range(TRIES_AT_SCAN):
            if attempt:
                await self._clock.sleep(MIN_ATTEMPT_GAP_S)
            try:
                await actor.converse(
                    _nothing,
                    unit=actor.line.bound.number,
                    priority=Priority.PROBE,
                    timeout_s=PATIENCE_S + actor.line.bound.connection.timeout_ms / 1000,
                    name="scan",
                )
            except EdgedError:
                continue
            return

    async def stop(self) -> None:
        """End the loop, the monitor and every question; lines are the pool's to close."""
        if self._picked is not None:
            await self._picked.monitor.stop()
        tasks = [*_asking(self._places.values()), *self._scan_schedule.flying()]
        if self._loop_task is not None:
            tasks.append(self._loop_task)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def learn(self, knowledge: Knowledge, before: Callable[[], None]) -> list[str]:
        """Profiles or the owner's file were changed: judge every unit anew, and all later ones so.

        Args:
            knowledge: what is known from now on.
            before: called at the moment in which the units change, while they are as they were.

        Returns:
            The ids of the units that are known otherwise now.
        """
        self._knowledge = knowledge
        self._reserve_names()
        return await self._reprofile.take(knowledge, before)

    def _reserve_names(self) -> None:
        """Nobody but the unit that is meant answers to a name that the owner gave."""
        entries = [*self._entries, *(p.entry for p in self._places.values() if p.is_configured)]
        by_file = self._knowledge.bench.units.values()
        self._pool.reserve(
            {plain(e.name): f"what answers at {e.address}" for e in entries if e.name}
            | {plain(r.alias): f"the unit {r.key} in the bench file" for r in by_file if r.alias}
        )

    def _entry_of(self, instrument: Instrument) -> tuple[InstrumentEntry, tuple[int, int] | None]:
        place = self._places.get(place_key(instrument.address))
        if place is None:
            return InstrumentEntry(address=instrument.address), None
        return place.entry, place.usb_id

    def set_aside(self) -> list[dict[str, Any]]:
        """Addresses at which nobody is known, with the reason; for doctor and get_status."""
        return [place.told() for place in self._places.values() if place.reason]

    def is_aside(self, address: str) -> bool:
        """Whether what is at an address hangs, is no instrument or cannot be opened."""
        place = self._places.get(place_key(address))
        return place is not None and place.is_aside

    def report(self) -> dict[str, Any]:
        """What discovery does and has met; for the RPC method ``discovery``."""
        return {**self.summary(), "set_aside": self.set_aside(), "seen": self.seen()}

    def seen(self) -> list[dict[str, Any]]:
        """The units met in this life of the daemon, by what the bench file may call them."""
        return [
            {
                "instrument_id": i.id,
                "serial": i.identity.serial,
                "serial_told": i.identity.serial_told,
                "names": list(i.names),
                "profile_name": i.profile.key if i.profile is not None else "",
            }
            for i in self._pool.known()
        ]

    def summary(self) -> dict[str, Any]:
        """How it looks at what, and what of it the owner should know; for get_status and doctor."""
        picked = self._picked
        return {
            "buses": self._scan_schedule.report(),
            "hotplug": {
                "monitor": picked.name if picked else "none",
                "why": picked.why if picked else "No bus that is searched supports hot-plugging.",
            },
            "scans": self._scan_schedule.scans,
            "rescan_interval_s": self._rescan_interval_s,
            "ties": [
                {
                    "instrument_id": i.id,
                    "alias": i.alias,
                    "profiles": list(i.tied),
                    "remark": i.remark,
                }
                for i in self._pool.all()
                if i.tied
            ],
            "twins": [
                {
                    "instrument_id": i.id,
                    "alias": i.alias,
                    "serial": i.identity.serial,
                    "addresses": list(i.twins),
                }
                for i in self._pool.all()
                if i.twins
            ],
            "warnings": [
                {"instrument_id": i.id, "alias": i.alias, "warning": i.warning}
                for i in self._pool.all()
                if i.warning
            ],
        }

    async def _run(self) -> None:
        while True:
            await self._clock.sleep(TICK_S)
            with surviving(log, "discovery_tick_failed"):
                self._tick()

    def _tick(self) -> None:
        now = self._clock.monotonic()
        self._scan_schedule.tick(now)
        others = self._pool.alternatives()
        for place in self._places.values():
            if now >= place.due_at and self._is_vacant(place, others):
                self._ask_soon(place)
        self._pool.let_go(self._gone_after_s)
        if now - self._looked_at >= LOOK_EVERY_S:
            self._looked_at = now
            for place in self._places.values():
                if place.actor is not None and place.actor.line.state is LineState.READY:
                    place.actor.look()

    # Buses

    def _take(self, source: BusSource, listing: Listing) -> None:
        """What a bus lists now, against what it listed before."""
        if listing.usb_ids and self._note_usb is not None:
            self._note_usb(listing.usb_ids)
        devices = {parse_address(e.address).device: e for e in self._entries}
        seen = {}
        for candidate in listing.candidates:
            address = candidate.entry.address
            entry = devices.get(_device(address), candidate.entry)
            if entry.bus_address is not None:
                # A port that units share is theirs: nobody else is asked there.
                continue
            key = place_key(entry.address)
            if key != place_key(address):
                # The owner's path to a port stands for each other path to it.
                candidate = replace(candidate, entry=entry)
            seen[key] = candidate
        if listing.is_complete:
            for key, place in tuple(self._places.items()):
                if source.name in place.sources and key not in seen:
                    self._drop(key, place, source)
        for key, candidate in seen.items():
            self._note(key, candidate, source)
        others = self._pool.alternatives()
        for key in seen:
            place = self._places[key]
            if self._clock.monotonic() >= place.due_at and self._is_vacant(place, others):
                self._ask_soon(place)

    def _note(self, key: str, candidate: Candidate, source: BusSource) -> None:
        place = self._places.get(key)
        if place is None:
            place = self._places[key] = KnownAddress(entry=candidate.entry)
        if source.name not in place.sources or candidate.plug != place.plug:
            place.forgive()
        place.sources.add(source.name)
        place.usb_id, place.plug = candidate.usb_id or place.usb_id, candidate.plug
        place.open_as = candidate.open_as or candidate.entry.address
        if place.actor is None and candidate.problem:
            self._explain(place, candidate.problem, is_aside=True, remedy=OPEN_IT)
        elif place.actor is None:
            self._open(place)

    def _drop(self, key: str, place: KnownAddress, source: BusSource) -> None:
        """A bus no longer lists this address."""
        place.sources.discard(source.name)
        if source.tells_departures:
            log.info("unplugged", address=place.entry.address, bus=source.name)
            self._end_line(place, f"{place.entry.address} was unplugged")
        elif place.sources or place.is_configured or _has_tenant(place):
            return
        if place.is_configured:
            self._open(place)
        elif not place.sources:
            self._end_line(place, "its address is not announced any more")
            del self._places[key]

    def _end_line(self, place: KnownAddress, reason: str) -> None:
        if place.asking is not None:
            place.asking.cancel()
        actor, place.actor = place.actor, None
        if actor is not None:
            self._pool.depart(actor, is_kept=place.is_configured)
            self._pool.close_line(actor, reason)

    def _open(self, place: KnownAddress) -> None:
        try:
            link = self._open_link(place.open_as)
        except EdgedError as error:
            self._explain(place, str(error), is_aside=True, remedy=error.remedy or OPEN_IT)
            return
        place.actor = self._pool.open_line(place.entry.address, link)

    def _has_trouble(self) -> bool:
        return any(place.sources and place.reason for place in self._places.values())

    # Addresses

    def _is_vacant(self, place: KnownAddress, others: frozenset[str]) -> bool:
        """Nobody is known here, and nobody known elsewhere lives here besides."""
        actor = place.actor
        return (
            actor is not None and actor.line.bound.number == 0 and actor.address.text not in others
        )

    def _ask_soon(self, place: KnownAddress) -> None:
        if place.asking is None and place.actor is not None:
            place.asking = asyncio.create_task(self._ask(place, place.actor), name="edged-ask")

    async def _ask(self, place: KnownAddress, actor: Actor) -> None:
        try:
            found, seat = await self._examined(place, actor)
            if place.actor is actor:
                instrument = self._pool.arrive(actor, found, seat)
                self._reprofile.at_joined(instrument, self._knowledge)
        except Failed as error:
            self._note_failure(place, error)
        except Invalid as error:
            # What the profile or INSTRUMENTS says of it cannot be sent.
            self._put_aside(place, str(error), error.remedy or NAME_IT)
        except Exception as error:
            log.exception("discovery_ask_failed", address=place.entry.address)
            self._put_aside(place, f"Asking it failed inside edged: {error}", REPORT_IT)
        else:
            place.reason, place.is_aside, place.refusals = "", False, 0
            TOLD.note()
            place.due_at = self._clock.monotonic()
        finally:
            place.asking = None

    async def _examined(self, place: KnownAddress, actor: Actor) -> tuple[Found, Seat]:
        """Who is there, by what is known when that is known, and where that is.

        What the owner writes meanwhile holds for every unit that is registered, and this one is
        not yet: it is asked again.
        """
        while True:
            knowledge = self._knowledge
            found = await examine(actor, place.entry, knowledge, place.usb_id)
            # Not before it has answered: its host's name is of no use else.
            hosts = await self._hosts.of(actor.address)
            if knowledge is self._knowledge:
                break
        seat = Seat(
            key=actor.address.key,
            transport=actor.address.transport,
            hosts=hosts,
            is_configured=place.is_configured,
            name=place.entry.name or "",
        )
        return replace(found, is_plugged=self._is_plugged(place)), seat

    def _is_plugged(self, place: KnownAddress) -> bool:
        """Whether it is gone for good when its bus says so."""
        return not place.is_configured and self._scan_schedule.tells_departure(place.sources)

    def _note_failure(self, place: KnownAddress, error: Failed) -> None:
        if error.code is not ErrorCode.DISCONNECTED:
            is_odd = error.code is ErrorCode.BAD_ANSWER
            self._put_aside(place, str(error), error.remedy or (NAME_IT if is_odd else SWITCH_IT))
            place.why = error.why
            return
        place.refusals += 1
        place.due_at = self._clock.monotonic() + retry_delay_s(place.refusals)
        self._explain(place, str(error), is_aside=False, remedy=error.remedy or SWITCH_IT)
        place.why = error.why

    def _put_aside(self, place: KnownAddress, reason: str, remedy: str) -> None:
        place.due_at = self._clock.monotonic() + SCANS_ASIDE * self._rescan_interval_s
        if place.actor is not None:
            place.actor.vacate()
        self._explain(place, reason, is_aside=True, remedy=remedy)

    def _explain(self, place: KnownAddress, reason: str, *, is_aside: bool, remedy: str) -> None:
        if not place.reason or place.is_aside is not is_aside:
            place.since_ms = self._clock.wall_ms()
            log.warning("address_unknown", address=place.entry.address, reason=reason)
        place.reason, place.is_aside, place.remedy, place.why = reason, is_aside, remedy, ""
        TOLD.note()

    async def _wait_for(self, tasks: Sequence[asyncio.Task[None]], deadline: float) -> None:
        left_s = deadline - self._clock.monotonic()
        if tasks and left_s > 0:
            await asyncio.wait(tasks, timeout=left_s)


def _asking(places: Iterable[KnownAddress]) -> list[asyncio.Task[None]]:
    return [place.asking for place in places if place.asking is not None]


def _has_tenant(place: KnownAddress) -> bool:
    return place.actor is not None and place.actor.line.bound.number != 0
