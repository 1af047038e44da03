"""The set of instruments, and the lines that lead to them.

Lives on the event loop. It hears from its actors what becomes of their lines, keeps the
registration states by the table in ``registration.py``, and publishes Arrived, Left and Changed to
whoever has subscribed. Who is asked when is ``discovery/loop.py``'s business.

A unit keeps its id for the life of the daemon, whatever address it answers at; another unit at a
used address gets another id. So an id, or a tool made from it, never comes to mean another unit.

What a caller calls an instrument → the instrument; or a sentence on what there is instead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace
from types import MappingProxyType
from typing import Final

import structlog

from edged.actions.cause import ENGINE_STOPPED
from edged.changes import RULES
from edged.clock import Clock
from edged.errors import ErrorCode, Invalid, NotFound
from edged.instruments.actor import Actor, OtherLine
from edged.instruments.conversation import DEFAULT_MAX_BLOCK_MB
from edged.instruments.identity import (
    Seat,
    are_ports_of_one,
    is_one_unit,
    is_same_unit,
    known_as,
    tells_itself,
)
from edged.instruments.instrument import Found, Instrument
from edged.instruments.line import BoundInstrument, LineDown, LineReport, LineUp, UnitChanged
from edged.instruments.registration import RegistrationEvent, RegistrationState
from edged.instruments.trace import JobWatchOf
from edged.log import surviving
from edged.profiles.bench_file import plain, serial_forms
from edged.profiles.model import Connection
from edged.record import part, record
from edged.transports.address import parse_address
from edged.transports.link import Link

NAMES_IN_MESSAGE: Final = 20
NAMES_COMPARED: Final = 200
MOST_NAME_CHARS: Final = 1_024
"""More than any address has: what is longer is no name, and is not looked through."""
NOBODY: Final[Mapping[str, str]] = MappingProxyType({})
GONE: Final = frozenset({RegistrationState.AWAY, RegistrationState.ABSENT})


def search(
    name: str, instruments: Collection[Instrument], given: Mapping[str, str] = NOBODY
) -> Instrument:
    """The instrument at this address; else the one of this name; else of this serial number.

    A name that the owner gave is never a serial number: another unit that tells it as one does not
    answer, also while the named one is away or was never met.

    Args:
        instruments: every one that was met, in the order of arrival.
        given: plain name → whom the owner means by it (a clause), those never met included.

    Raises:
        NotFound: UNKNOWN_INSTRUMENT; see ``InstrumentPool.get``.
    """
    if len(name) > MOST_NAME_CHARS:
        raise _unknown(name, instruments)
    key = address_key(name)
    for instrument in instruments:
        if key and key == address_key(instrument.id):
            return instrument
    called = plain(name)
    if not called:
        raise _unknown(name, instruments)
    bearers = bearers_of(name, instruments, given)
    here = [instrument for instrument in bearers if instrument.registration not in GONE]
    # Of units that came one after the other a name stays with the first; twins are there together.
    if len(here) > 1 or any(instrument.twins for instrument in bearers if len(bearers) > 1):
        raise _ambiguous(name, bearers)
    if bearers:
        return bearers[0]
    if called in given:
        raise _away(name, given[called])
    raise _unknown(name, instruments)


def bearers_of(
    name: str, instruments: Iterable[Instrument], given: Mapping[str, str] = NOBODY
) -> tuple[Instrument, ...]:
    """All that are called so by their owner; where he calls none so, that tell it as their number.

    Arguments are as in ``search``.
    """
    called, met = plain(name), tuple(instruments)
    owned = tuple(i for i in met if called and called in {plain(i.alias), *map(plain, i.names)})
    if owned or called in given:
        return owned
    forms = serial_forms(name)
    return tuple(
        i
        for i in met
        if forms & (serial_forms(i.identity.serial_told) | serial_forms(i.identity.serial))
    )


def address_key(text: str) -> str:
    """Canonical form of an address; empty for what is none."""
    try:
        return parse_address(text).key
    except Invalid:
        return ""


def _unknown(name: str, instruments: Collection[Instrument]) -> NotFound:
    listed = [i for i in instruments if i.registration is not RegistrationState.ABSENT]
    known = [f"{i.alias} ({i.id})" if i.alias else i.id for i in listed]
    # difflib takes a while, and thousands of names would keep others waiting.
    called = [i.called for i in listed[:NAMES_COMPARED]]
    import difflib  # for those who mistyped

    close = difflib.get_close_matches(name[:64], called, n=1, cutoff=TYPO)
    meant = f'Did you mean "{close[0]}"? ' if close else ""
    shown = ", ".join(known[:NAMES_IN_MESSAGE]) or "none"
    more = len(known) - NAMES_IN_MESSAGE
    return NotFound(
        f"There is no instrument {name[:200]!r}. There are: {shown}"
        + (f" and {more} more." if more > 0 else "."),
        code=ErrorCode.UNKNOWN_INSTRUMENT,
        data={"instrument_id": name[:200]},
        remedy=f"{meant}list_instruments has every id; scan_instruments looks for new ones.",
    )


def _away(name: str, meant: str) -> NotFound:
    return NotFound(
        f"{name[:200]!r} is the name that the owner of this bench gave to {meant}, and no such "
        "instrument has answered since edged started.",
        code=ErrorCode.UNKNOWN_INSTRUMENT,
        data={"instrument_id": name[:200]},
        remedy="Switch it on, or call another instrument by its id; list_instruments has them.",
    )


def _ambiguous(name: str, named: Sequence[Instrument]) -> NotFound:
    ids = ", ".join(instrument.id for instrument in named[:NAMES_IN_MESSAGE])
    return NotFound(
        f"{name[:200]!r} is the name of {len(named)} instruments: {ids}.",
        code=ErrorCode.UNKNOWN_INSTRUMENT,
        data={"instrument_id": name[:200], "ids": [i.id for i in named[:NAMES_IN_MESSAGE]]},
        remedy="Give the id of the one you want. Its owner can give each a name of its own.",
    )


TYPO: Final = 0.7
"""From this likeness on a name is one that was meant; "nope" is no "scope1"."""
STOP_S: Final = 2.0
LINES_END: Final = f"it was ended {ENGINE_STOPPED.clause}"
"""How long lines have for their last words and to let go."""
NAMES_KEPT: Final = 2_048
"""Each of a few hundred instruments under a few names; what it is not called is not kept."""

log = structlog.get_logger(__name__)


@record
class Arrived:
    """An instrument is there: new, or back after its tools had gone."""

    instrument: Instrument


@record
class Left:
    """An instrument's tools go; it may stay listed, not connected."""

    instrument: Instrument


@record
class Changed:
    """Something in an instrument's summary is different."""

    instrument: Instrument


Event = Arrived | Left | Changed


@part
class InstrumentPool:
    """All instruments by id.

    Attributes:
        max_block_mb: MAX_BLOCK_MB.
        watch_of: who wants to be told of jobs on its lines, if anybody does.
    """

    clock: Clock
    max_block_mb: int = DEFAULT_MAX_BLOCK_MB
    watch_of: JobWatchOf | None = None
    # In the order of arrival; nothing is ever taken out.
    _instruments: dict[str, Instrument] = field(default_factory=dict)
    _by_number: dict[int, Instrument] = field(default_factory=dict)
    # What ``all`` gives, until something changes.
    _listed: tuple[Instrument, ...] | None = ()
    changes: int = 0
    # Names that ``get`` has found, until something changes: looking costs every instrument.
    _named: dict[str, Instrument] = field(default_factory=dict)
    # Plain name → whom the owner means by it, whether it was ever met or not.
    _given: dict[str, str] = field(default_factory=dict)
    # Every line that was opened, with or without an instrument at its end.
    _actors: list[Actor] = field(default_factory=list)
    # Lines that are being closed while the daemon goes on.
    _closing: set[asyncio.Task[bool]] = field(default_factory=set)
    _listeners: list[Callable[[Event], None]] = field(default_factory=list)

    def get(self, name: str) -> Instrument:
        """The instrument with this id or address; failing that this alias; then serial number.

        Raises:
            NotFound: UNKNOWN_INSTRUMENT, naming what there is; or a name that several units have
                which are here: it must not be a matter of luck which of them is worked. Of units
                that came one after the other, a name stays with the first.
        """
        exact = self._instruments.get(name)
        if exact is not None:
            return exact
        named = self._named.get(name)
        if named is None:
            named = search(name, self._instruments.values(), self._given)
            if len(self._named) >= NAMES_KEPT:
                self._named.clear()
            self._named[name] = named
        return named

    def bearers(self, name: str) -> tuple[Instrument, ...]:
        """All that this id, alias or serial number means, also where ``get`` refuses to choose."""
        try:
            return (self.get(name),)
        except NotFound:
            return bearers_of(name, self._instruments.values(), self._given)

    def alike(self, instrument: Instrument) -> tuple[Instrument, ...]:
        """Every unit met that tells the same serial number as this one, itself too."""
        if not instrument.identity.serial:
            return (instrument,)
        return tuple(
            other
            for other in self._instruments.values()
            if other is instrument or is_one_unit(other.identity, instrument.identity)
        )

    def reserve(self, given: Mapping[str, str]) -> None:
        """Names that the owner gave, also to units never met: nobody else answers to them.

        Args:
            given: plain name → whom it means, a clause for messages.
        """
        self._given = dict(given)
        self._forget()

    def _forget(self) -> None:
        """An instrument has come, gone, or told something new of itself."""
        self._listed = None
        self.changes += 1
        self._named.clear()
        RULES.note()

    def trace(self, name: str) -> list[dict[str, object]]:
        """The last exchanges with an instrument, or at an address where nobody is known yet.

        Raises:
            NotFound: UNKNOWN_INSTRUMENT, no line leads there.
        """
        try:
            return self.get(name).trace()
        except NotFound:
            key = address_key(name)
            for actor in self._actors:
                if key and actor.address.key == key:
                    return [entry.as_json() for entry in actor.exchanges()]
            raise

    def all(self) -> tuple[Instrument, ...]:
        """Every instrument that is to be listed, in the order of arrival.

        The same tuple until one comes, goes, or tells something new of itself.
        """
        if self._listed is None:
            self._listed = tuple(
                i
                for i in self._instruments.values()
                if i.registration is not RegistrationState.ABSENT
            )
        return self._listed

    def known(self) -> tuple[Instrument, ...]:
        """Every unit met in this life of the daemon, also those that are not listed any more."""
        return tuple(self._instruments.values())

    def subscribe(self, callback: Callable[[Event], None]) -> Callable[[], None]:
        """Call ``callback`` on the loop for each event; returns how to end that."""
        self._listeners.append(callback)
        return lambda: self._listeners.remove(callback)

    async def stop(self) -> None:
        """Say the last words on every line at once, and end their threads."""
        actors, self._actors = self._actors, []
        await asyncio.gather(*(actor.stop(STOP_S, LINES_END) for actor in actors), *self._closing)

    def has_line(self, address: str) -> bool:
        """Whether there is a line to this address, whoever is at its end."""
        key = address_key(address)
        return any(actor.address.key == key for actor in self._actors)

    # For discovery

    def open_line(self, address: str, link: Link) -> Actor:
        """A line with nobody known at its end; its thread runs, nothing is connected yet."""
        actor = Actor(
            address=parse_address(address),
            link=link,
            clock=self.clock,
            is_same_unit=is_same_unit,
            report=self._hear,
            max_block_mb=self.max_block_mb,
            watch_of=self.watch_of,
        )
        self._actors.append(actor)
        actor.start()
        return actor

    def arrive(self, actor: Actor, found: Found, seat: Seat) -> Instrument:
        """A unit has answered at the end of a line that had no bound.

        A unit known already (``identity.known_as``) is the same instrument: back, moved to this
        address, or reachable here besides. Any other is a new one.
        """
        known = known_as(found.identity, seat, self._instruments.values())
        if known is None:
            known = self._register(actor, found, seat)
        elif known.is_connected and known.actor is not actor:
            self._note_alternative(known, actor, found, seat)
        else:
            self._move_in(known, actor, found, seat)
        self._part_twins(known)
        return known

    def relearn(self, judged: Sequence[tuple[Instrument, Found]]) -> None:
        """Profiles or the owner's file were changed: all of these are known otherwise from now on.

        All at once, and told afterwards, so that whoever recomputes sees one change.
        """
        for instrument, found in judged:
            instrument.relearn(found)
            if instrument.is_connected:
                instrument.meet(_answered(instrument))
            actor = instrument.actor
            if actor is not None and actor.line.bound.number == instrument.number:
                actor.settle(replace(actor.line.bound, connection=found.connection))
        self._forget()
        for instrument, _ in judged:
            log.info(
                "instrument_relearnt",
                id=instrument.id,
                profile=instrument.profile.key if instrument.profile else "",
            )
            self._publish(Changed(instrument=instrument))

    def depart(self, actor: Actor, *, is_kept: bool) -> None:
        """The bus tells that what was at the end of this line has been taken away.

        A unit that answered elsewhere too fails over to there. The line is of no use any more.

        Args:
            is_kept: its address is configured, so it stays listed.
        """
        for instrument in self._instruments.values():
            if actor.address.text in instrument.others:
                instrument.forget_other(actor.address.text)
                self._publish(Changed(instrument=instrument))
            if instrument.actor is actor:
                instrument.heard_before = instrument.heard_at
                instrument.actor = None
                instrument.silent_since = self.clock.monotonic()
                if instrument.others:
                    self._meet(instrument, RegistrationEvent.NO_ANSWER)
                else:
                    gone = RegistrationEvent.GONE_PLACED if is_kept else _gone(instrument)
                    self._meet(instrument, gone)

    def close_line(self, actor: Actor, reason: str) -> None:
        """End a line while the daemon goes on; what runs on it fails for this reason (a clause)."""
        if actor not in self._actors:
            return
        self._actors.remove(actor)
        task = asyncio.create_task(actor.stop(STOP_S, reason), name="edged-close-line")
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def let_go(self, gone_after_s: float) -> None:
        """Take away what has been silent or unreachable for so long."""
        now = self.clock.monotonic()
        for instrument in self._instruments.values():
            is_late = now - instrument.silent_since >= gone_after_s
            if instrument.registration is RegistrationState.RECONNECTING and is_late:
                # Silent, but nobody says that it was taken away: it stays listed.
                is_there = instrument.actor is not None
                gone = RegistrationEvent.GONE_PLACED if is_there else _gone(instrument)
                self._meet(instrument, gone)

    def alternatives(self) -> frozenset[str]:
        """Addresses of units that are connected by another one: left in peace."""
        return frozenset(
            address
            for instrument in self._instruments.values()
            if instrument.is_connected
            for address in instrument.others
        )

    # What becomes of lines

    def _hear(self, actor: Actor, report: LineReport) -> None:
        instrument = self._by_number.get(report.unit)
        if instrument is None or instrument.actor is not actor:
            return
        match report:
            case LineDown():
                if instrument.registration is not RegistrationState.RECONNECTING:
                    instrument.silent_since = self.clock.monotonic()
                log.warning("instrument_silent", id=instrument.id, reason=report.reason)
                self._meet(instrument, RegistrationEvent.NO_ANSWER)
            case LineUp():
                log.info("instrument_back", id=instrument.id)
                self._meet(instrument, _answered(instrument))
            case UnitChanged():
                actor.vacate()
                instrument.actor = None
                self._meet(instrument, _gone(instrument))

    def _part_twins(self, newest: Instrument) -> None:
        """Units that tell the same of themselves: each is told of the others.

        As soon as there are several, nobody can say whose an address on another bus is: each keeps
        those only that are certain, and what is let go of is asked anew and stands for itself.
        """
        if not tells_itself(newest.identity):
            return
        alike = self.alike(newest)
        for instrument in alike:
            parted = self._part(instrument) if len(alike) > 1 else False
            twins = tuple(other.address for other in alike if other is not instrument)
            if parted or twins != instrument.twins:
                instrument.twins = twins
                self._forget()
                self._publish(Changed(instrument=instrument))

    @staticmethod
    def _part(instrument: Instrument) -> bool:
        """Let go of addresses that may be a twin's; whether there were any."""
        own = instrument.seats[address_key(instrument.address)]
        doubtful = {
            key for key, seat in instrument.seats.items() if not are_ports_of_one(own, seat)
        }
        for key in doubtful:
            del instrument.seats[key]
        for address in tuple(instrument.others):
            if address_key(address) in doubtful:
                log.warning("instrument_alternative_parted", id=instrument.id, address=address)
                instrument.forget_other(address)
        return bool(doubtful)

    def _register(self, actor: Actor, found: Found, seat: Seat) -> Instrument:
        instrument = Instrument(
            instrument_id=self._free_id(actor, found),
            number=len(self._by_number) + 1,
            actor=actor,
            found=found,
            clock=self.clock,
        )
        instrument.seats[seat.key] = seat
        self._instruments[instrument.id] = instrument
        self._forget()
        self._by_number[instrument.number] = instrument
        self._settle(instrument, actor, found)
        log.info(
            "instrument_registered",
            id=instrument.id,
            idn=instrument.idn,
            profile=instrument.profile.key if instrument.profile else "",
        )
        self._meet(instrument, _answered(instrument))
        return instrument

    def _move_in(self, instrument: Instrument, actor: Actor, found: Found, seat: Seat) -> None:
        instrument.seats[seat.key] = seat
        old = instrument.actor
        if old is not None and old is not actor:
            old.vacate()
            other = _other_line(old, instrument, instrument.connection)
            instrument.note_other(old.address.text, other)
        instrument.forget_other(actor.address.text)
        instrument.actor = actor
        instrument.address = actor.address.text
        instrument.transport = actor.address.transport
        instrument.learn_again(found)
        self._forget()
        self._settle(instrument, actor, found)
        log.info("instrument_back", id=instrument.id, address=instrument.address)
        if instrument.registration is RegistrationState.ABSENT:
            instrument.meet(RegistrationEvent.SEEN)
            self._forget()
        self._meet(instrument, _answered(instrument))

    def _note_alternative(
        self, instrument: Instrument, actor: Actor, found: Found, seat: Seat
    ) -> None:
        instrument.seats[seat.key] = seat
        actor.vacate()
        address = actor.address.text
        is_new = address not in instrument.others
        instrument.note_other(address, _other_line(actor, instrument, found.connection))
        if is_new:
            log.info("instrument_alternative", id=instrument.id, address=address)
            self._publish(Changed(instrument=instrument))

    @staticmethod
    def _settle(instrument: Instrument, actor: Actor, found: Found) -> None:
        actor.settle(
            BoundInstrument(
                number=instrument.number,
                idn=found.idn,
                connection=instrument.connection,
                greeted_at=found.greeted_at,
                proof=found.proof,
                habits=instrument.habits,
            )
        )

    def _free_id(self, actor: Actor, found: Found) -> str:
        """The address, unless another unit was met there before: then with something of its own."""
        text = actor.address.text
        if text not in self._instruments:
            return text
        number = len(self._by_number) + 1
        with_serial = f"{text}#{found.identity.serial or number}"
        return with_serial if with_serial not in self._instruments else f"{text}#{number}"

    def _meet(self, instrument: Instrument, event: RegistrationEvent) -> None:
        """Change the state by the table, and publish what that is to others."""
        before = instrument.registration
        instrument.meet(event)
        self._forget()
        after = instrument.registration
        if after is before:
            return
        if before is RegistrationState.PROBING or before is RegistrationState.AWAY:
            self._publish(Arrived(instrument=instrument))
        elif after is RegistrationState.AWAY or after is RegistrationState.ABSENT:
            log.info("instrument_gone", id=instrument.id)
            self._publish(Left(instrument=instrument))
        else:
            self._publish(Changed(instrument=instrument))

    def _publish(self, event: Event) -> None:
        for listener in tuple(self._listeners):
            with surviving(log, "pool_listener_failed", event_kind=type(event).__name__):
                listener(event)


def _answered(instrument: Instrument) -> RegistrationEvent:
    if instrument.profile is None:
        return RegistrationEvent.ANSWERED_WITHOUT_PROFILE
    return RegistrationEvent.ANSWERED_WITH_PROFILE


def _gone(instrument: Instrument) -> RegistrationEvent:
    if instrument.is_plugged:
        return RegistrationEvent.GONE_PLUGGED
    return RegistrationEvent.GONE_PLACED


def _other_line(actor: Actor, instrument: Instrument, connection: Connection) -> OtherLine:
    return OtherLine(
        actor=actor, connection=connection, idn=instrument.idn, habits=instrument.habits
    )
