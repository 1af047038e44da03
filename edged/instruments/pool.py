"""The set of instruments, and the lines that lead to them.

Lives on the event loop. It hears from its actors what becomes of their lines, keeps the
registration states by the table in ``registration.py``, and publishes Arrived, Left and Changed to
whoever has subscribed. Who is asked when is ``discovery.py``'s business.

A unit keeps its id for the life of the daemon, whatever address it answers at; another unit at a
used address gets another id. So an id, or a tool made from it, never comes to mean another unit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import structlog

from edged.clock import Clock
from edged.errors import NotFound
from edged.instruments.actor import Actor
from edged.instruments.address import parse_address
from edged.instruments.identity import is_one_unit, is_same_unit
from edged.instruments.instrument import Found, Instrument
from edged.instruments.line import LineDown, LineReport, LineUp, Tenant, UnitChanged
from edged.instruments.link import Link
from edged.instruments.names import address_key, search
from edged.instruments.registration import RegistrationEvent, RegistrationState
from edged.instruments.second_line import OtherLine

__all__ = ["Arrived", "Changed", "Event", "InstrumentPool", "Left"]

STOP_S: Final = 2.0
"""How long lines have for their last words and to let go."""
NAMES_KEPT: Final = 2_048
"""Each of a few hundred instruments under a few names; what it is not called is not kept."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived:
    """An instrument is there: new, or back after its tools had gone."""

    instrument: Instrument


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """An instrument's tools go; it may stay listed, not connected."""

    instrument: Instrument


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """Something in an instrument's summary is different."""

    instrument: Instrument


Event = Arrived | Left | Changed


class InstrumentPool:
    """All instruments by id."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        # In the order of arrival; nothing is ever taken out.
        self._instruments: dict[str, Instrument] = {}
        self._by_number: dict[int, Instrument] = {}
        # What ``all`` gives, until something changes.
        self._listed: tuple[Instrument, ...] | None = ()
        # Names that ``get`` has found, until something changes: looking costs every instrument.
        self._named: dict[str, Instrument] = {}
        # Every line that was opened, with or without an instrument at its end.
        self._actors: list[Actor] = []
        # Lines that are being closed while the daemon goes on.
        self._closing: set[asyncio.Task[bool]] = set()
        self._listeners: list[Callable[[Event], None]] = []

    def get(self, name: str) -> Instrument:
        """The instrument with this id; failing that this alias, serial number or address.

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
            named = search(name, self._instruments.values())
            if len(self._named) >= NAMES_KEPT:
                self._named.clear()
            self._named[name] = named
        return named

    def _forget(self) -> None:
        """An instrument has come, gone, or told something new of itself."""
        self._listed = None
        self._named.clear()

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
                i for i in self._instruments.values() if i.state is not RegistrationState.ABSENT
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
        await asyncio.gather(*(actor.stop(STOP_S) for actor in actors), *self._closing)

    # For discovery

    def open_line(self, address: str, link: Link) -> Actor:
        """A line with nobody known at its end; its thread runs, nothing is connected yet."""
        actor = Actor(
            address=parse_address(address),
            link=link,
            clock=self._clock,
            is_same_unit=is_same_unit,
            report=self._hear,
        )
        self._actors.append(actor)
        actor.start()
        return actor

    def arrive(self, actor: Actor, found: Found) -> Instrument:
        """A unit has answered at the end of a line that had no tenant.

        A unit known already is the same instrument: back, moved to this address, or reachable here
        besides. Any other is a new one.
        """
        known = self._known(actor, found)
        if known is None:
            return self._register(actor, found)
        if known.is_connected and known.actor is not actor:
            self._note_alternative(known, actor, found)
            return known
        self._move_in(known, actor, found)
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
            if actor is not None and actor.tenant.number == instrument.number:
                actor.settle(replace(actor.tenant, connection=found.connection))
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
            if instrument.others.pop(actor.address.text, None) is not None:
                self._publish(Changed(instrument=instrument))
            if instrument.actor is actor:
                instrument.actor = None
                instrument.silent_since = self._clock.monotonic()
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
        now = self._clock.monotonic()
        for instrument in self._instruments.values():
            is_late = now - instrument.silent_since >= gone_after_s
            if instrument.state is RegistrationState.RECONNECTING and is_late:
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
                if instrument.state is not RegistrationState.RECONNECTING:
                    instrument.silent_since = self._clock.monotonic()
                log.warning("instrument_silent", id=instrument.id, reason=report.reason)
                self._meet(instrument, RegistrationEvent.NO_ANSWER)
            case LineUp():
                log.info("instrument_back", id=instrument.id)
                self._meet(instrument, _answered(instrument))
            case UnitChanged():
                actor.vacate()
                instrument.actor = None
                self._meet(instrument, _gone(instrument))

    def _known(self, actor: Actor, found: Found) -> Instrument | None:
        """The instrument that this unit is, if it has been met before.

        Units without a serial number are told apart by their address alone. So are those that tell
        the same number: one unit hangs on USB, or on a serial port, only once, and what the owner
        calls by two names is two units.
        """
        alike = [
            instrument
            for instrument in self._instruments.values()
            if is_one_unit(instrument.identity, found.identity)
        ]
        for instrument in alike:
            if address_key(instrument.address) == actor.address.key:
                return instrument
        alike = [instrument for instrument in alike if not _is_named_apart(instrument, found)]
        if not found.identity.serial or len(alike) != 1:
            return None
        (only,) = alike
        is_twin = only.is_connected and only.transport is actor.address.transport
        return None if is_twin and only.transport.is_plugged else only

    def _register(self, actor: Actor, found: Found) -> Instrument:
        instrument = Instrument(
            instrument_id=self._free_id(actor, found),
            number=len(self._by_number) + 1,
            actor=actor,
            found=found,
        )
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

    def _move_in(self, instrument: Instrument, actor: Actor, found: Found) -> None:
        old = instrument.actor
        if old is not None and old is not actor:
            old.vacate()
            other = OtherLine(actor=old, connection=instrument.connection)
            instrument.others[old.address.text] = other
        instrument.others.pop(actor.address.text, None)
        instrument.actor = actor
        instrument.address = actor.address.text
        instrument.transport = actor.address.transport
        instrument.learn_again(found)
        self._forget()
        self._settle(instrument, actor, found)
        log.info("instrument_back", id=instrument.id, address=instrument.address)
        if instrument.state is RegistrationState.ABSENT:
            instrument.meet(RegistrationEvent.SEEN)
            self._forget()
        self._meet(instrument, _answered(instrument))

    def _note_alternative(self, instrument: Instrument, actor: Actor, found: Found) -> None:
        actor.vacate()
        address = actor.address.text
        is_new = address not in instrument.others
        instrument.others[address] = OtherLine(actor=actor, connection=found.connection)
        if is_new:
            log.info("instrument_alternative", id=instrument.id, address=address)
            self._publish(Changed(instrument=instrument))
        if found.alias and not instrument.alias:
            # The owner named the unit at this address, and what he forbids goes by that name.
            own = instrument.connection
            profile = replace(found.profile, connection=own) if found.profile else None
            self.relearn([(instrument, replace(found, connection=own, profile=profile))])

    @staticmethod
    def _settle(instrument: Instrument, actor: Actor, found: Found) -> None:
        actor.settle(
            Tenant(
                number=instrument.number,
                idn=found.idn,
                connection=instrument.connection,
                greeted_at=found.greeted_at,
                proof=found.proof,
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
        before = instrument.state
        instrument.meet(event)
        self._forget()
        after = instrument.state
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
            try:
                listener(event)
            except Exception:
                log.exception("pool_listener_failed", event_kind=type(event).__name__)


def _is_named_apart(instrument: Instrument, found: Found) -> bool:
    """Whether the owner has another name for what answers here."""
    names = {instrument.alias.casefold(), found.alias.casefold()}
    return "" not in names and len(names) > 1


def _answered(instrument: Instrument) -> RegistrationEvent:
    if instrument.profile is None:
        return RegistrationEvent.ANSWERED_WITHOUT_PROFILE
    return RegistrationEvent.ANSWERED_WITH_PROFILE


def _gone(instrument: Instrument) -> RegistrationEvent:
    if instrument.is_plugged:
        return RegistrationEvent.GONE_PLUGGED
    return RegistrationEvent.GONE_PLACED
