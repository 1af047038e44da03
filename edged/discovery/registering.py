"""Asking an address who is there: ``*IDN?``, the profile that fits, the greeting.

Each question runs as a job on the line's own thread, so that an address that hangs delays no other.
Nothing that an instrument is set to is changed, but for what its profile's ``on_connect`` says.

Greeting a unit that has said its name, and going on where it does not answer its error query.

An instrument that answers ``*IDN?`` and not the question for its errors is no dead one: it works,
with error checks off, and a warning says so. Off they stay until edged starts again: what was set
wrongly is then noticed by a command's ``verify`` alone, where it has one.

Instruments that do not know ``*IDN?``, whose owner says what they are.

An entry of INSTRUMENTS that names a profile is the owner's word. Where such an instrument is silent
or answers nonsense to ``*IDN?``, the profile's ``probe`` takes its place; without one the word
stands alone: a line that opens counts as the instrument. That is less than an answer, so a unit
that is switched off or exchanged is noticed only by what its commands come to.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

from edged.config.instruments import InstrumentEntry
from edged.errors import ErrorCode, Failed, Invalid
from edged.instruments.actor import Actor
from edged.instruments.conversation import (
    MAX_QUEUED_ERRORS,
    Conversation,
    greet,
    raw_conversation,
)
from edged.instruments.identify import hail, identify, identify_otherwise
from edged.instruments.instrument import Found, Instrument, connection_for
from edged.instruments.line import BoundInstrument
from edged.instruments.mailbox import Priority
from edged.profiles.addressed import names_address, with_address
from edged.profiles.bench_file import BenchFile
from edged.profiles.library import ProfileLibrary
from edged.profiles.match import (
    Identity,
    find_profile,
    has_name_form,
    is_odd_name,
    is_service,
    parse_idn,
)
from edged.profiles.model import Connection, ErrorCheck, Profile
from edged.profiles.owner_rules import tighten
from edged.profiles.unit_rules import UnitRules
from edged.record import record
from edged.scpi.answer_text import clean_text
from edged.scpi.errors import InstrumentError
from edged.scpi.kinds import ErrorKind
from edged.transports.address import parse_address

T = TypeVar("T")
ADDRESS_IT: Final = "Correct bus_address in INSTRUMENTS, or connection in the profile."
TRIES: Final = 2
"""An error query that is lost once, by a bad wire or a busy instrument, is asked again."""


@record
class Greeting:
    """How the unit is spoken to from now on, and what its owner should know about that."""

    connection: Connection
    warning: str = ""


async def greeted(actor: Actor, connection: Connection) -> Greeting:
    """Say what ``on_connect`` has, and read the old errors.

    Raises:
        Failed: it does not answer ``*IDN?`` any more either, or was lost.
    """
    check = connection.errors
    if check.kind is ErrorKind.NONE:
        await _greet(actor, connection)
        return Greeting(connection=connection)
    why = ""
    for _ in range(TRIES):
        try:
            errors = await _greet(actor, connection)
        except Failed:
            why = "does not answer"
            continue
        if not _are_none(check, errors):
            return Greeting(connection=connection)
        why = f'answers "{clean_text(errors[-1].text)}" to'
    without = replace(connection, errors=ErrorCheck())
    actor.settle(BoundInstrument(connection=without))
    # Whoever is silent to this too hangs altogether, and is set aside like any other.
    await _probe(actor, without, partial(hail, without), "who is there")
    await _greet(actor, without)
    warning = f'It {why} its error query "{check.query}": its errors are not checked.'
    return Greeting(connection=without, warning=warning)


def unchecked(profile: Profile, dead: str) -> Profile:
    """The profile without what commands of their own would ask that dead error query."""
    commands = {
        name: replace(command, errors=ErrorCheck())
        if command.errors is not None and command.errors.query == dead
        else command
        for name, command in profile.commands.items()
    }
    return replace(profile, commands=commands)


def patience_s(connection: Connection, questions: int) -> float:
    """Seconds for opening a line, and so many questions."""
    return (connection.open_timeout_ms + questions * connection.timeout_ms) / 1000 + 1.0


async def _greet(actor: Actor, connection: Connection) -> tuple[InstrumentError, ...]:
    questions = 4 + len(connection.on_connect)
    return await _probe(actor, connection, lambda: greet(connection), "greeting", questions)


async def _probe(
    actor: Actor,
    connection: Connection,
    make: Callable[[], Conversation[T]],
    name: str,
    questions: int = 1,
) -> T:
    """Talk to a unit that is not bound yet; it may take as long as so many questions do."""
    return await actor.converse(
        make,
        unit=0,
        priority=Priority.PROBE,
        timeout_s=patience_s(connection, questions),
        name=name,
    )


def _are_none(check: ErrorCheck, errors: tuple[InstrumentError, ...]) -> bool:
    """Whether what came is no error at all: nothing with a number, and without an end."""
    is_endless = check.kind is not ErrorKind.QUEUE or len(errors) >= MAX_QUEUED_ERRORS
    return bool(errors) and is_endless and all(error.is_odd for error in errors)


OWNERS_WORD: Final = "identified by INSTRUMENTS alone"
"""Stands for the answer to ``*IDN?`` where there is none."""


def vouched_identity(profile: Profile) -> Identity:
    """Who it is by its profile; without a serial number, so its address tells it apart."""
    return Identity(manufacturer=profile.manufacturer, model=profile.model)


QUESTIONS: Final = 4
"""``*IDN?`` is asked twice where the first answer is no name, and waited for longer."""
MOST_GUESSES: Final = 4
"""Ways of speaking that a silent port is tried with; each costs a time-out."""


class NoInstrument(Failed):
    """Something answers that cannot be an instrument."""

    default_code = ErrorCode.BAD_ANSWER


@record
class Knowledge:
    """What is known of instruments in general, and what the owner says of his."""

    library: ProfileLibrary
    bench: BenchFile


async def examine(
    actor: Actor,
    entry: InstrumentEntry,
    knowledge: Knowledge,
    usb_id: tuple[int, int] | None = None,
) -> Found:
    """Find out who is at the end of a line without a bound unit.

    Args:
        usb_id: vendor and product of what carries it, where that is known.

    Raises:
        Failed: DISCONNECTED, nobody is there; TIMEOUT, somebody is silent; BAD_ANSWER
            (``NoInstrument`` too), what answers is no instrument.
    """
    named, why = _addressed(knowledge.library.chosen(entry.profile or ""), entry)
    if why:
        raise Failed(why, code=ErrorCode.BAD_PROFILE, remedy=ADDRESS_IT)
    if named is None and (entry.never_ask_idn or parse_address(entry.address).bus):
        # A unit that is never asked its name, or has a bus address, is known by its profile alone.
        raise Failed(knowledge.library.missing(entry.profile or ""), code=ErrorCode.BAD_PROFILE)
    if named is not None and not connection_for(named.connection, entry).asks_idn:
        return _judged(await _named(actor, entry, named), entry, knowledge.bench)
    try:
        idn = await _identified(actor, entry, usb_id, knowledge.library)
    except Failed as error:
        if named is None and entry.profile is not None:
            missing = knowledge.library.missing(entry.profile)
            raise Failed(f"{error.message} {missing}", code=error.code) from error
        if named is None or error.code is ErrorCode.DISCONNECTED:
            raise
        return _judged(await _vouched(actor, entry, named, error), entry, knowledge.bench)
    chosen, remark, tied = _choose(idn, entry, usb_id, knowledge.library)
    connection = _connection_of(chosen, entry)
    actor.settle(BoundInstrument(connection=connection))
    if chosen is not None and not await _is_confirmed(actor, connection):
        remark = f"{chosen.key} matches the name, but its probe question got another answer."
        chosen, tied = None, ()
        connection = connection_for(Connection(), entry)
        actor.settle(BoundInstrument(connection=connection))
    profile, connection, warning = await _met(actor, chosen, connection)
    found = Found(
        idn=clean_text(idn),
        identity=parse_idn(clean_text(idn)),
        profile=profile,
        rules=UnitRules(),
        connection=connection,
        remark=clean_text(remark),
        warning=warning,
        tied=tied,
        greeted_at=actor.line.openings,
    )
    return _judged(found, entry, knowledge.bench)


def judge_again(
    instrument: Instrument,
    entry: InstrumentEntry,
    knowledge: Knowledge,
    usb_id: tuple[int, int] | None,
) -> Found | None:
    """What a unit that has answered is by this knowledge; ``None`` where that is no other thing.

    Nothing is asked: its name does not change with what is known of names.
    """
    chosen, remark, tied = _choose(instrument.idn, entry, usb_id, knowledge.library)
    connection = _connection_of(chosen, entry)
    profile = replace(chosen, connection=connection) if chosen else None
    if profile is not None and instrument.warning and connection.errors.query:
        # It was found not to answer its error query, and nobody asks again before a restart.
        dead, connection = connection.errors.query, replace(connection, errors=ErrorCheck())
        profile = unchecked(replace(profile, connection=connection), dead)
    found = _judged(
        Found(
            idn=instrument.idn,
            identity=instrument.identity,
            profile=profile,
            rules=UnitRules(),
            connection=connection,
            remark=clean_text(remark),
            warning=instrument.warning,
            tied=tied,
        ),
        entry,
        knowledge.bench,
        instrument.names,
    )
    now = (instrument.profile, instrument.rules, instrument.alias, instrument.tied)
    return None if (found.profile, found.rules, found.alias, found.tied) == now else found


def _guesses(
    entry: InstrumentEntry, usb_id: tuple[int, int] | None, library: ProfileLibrary
) -> tuple[Connection, ...]:
    """How the instrument may have to be spoken to before anybody knows which it is.

    As the owner's named profile says; else as the profiles that know its USB id say (a serial port
    must have the right speed before any question is understood); else the plain way.
    """
    named = library.chosen(entry.profile or "")
    if named is not None:
        return (connection_for(named.connection, entry),)
    by_wire = {
        _wire(own): own
        for key, head in sorted(library.heads.items())
        if usb_id is not None and usb_id in head.match.usb_ids
        for own in (connection_for(library.profiles[key].connection, entry),)
    }
    return tuple(by_wire.values())[:MOST_GUESSES] or (connection_for(Connection(), entry),)


def _wire(connection: Connection) -> tuple[object, ...]:
    """What decides whether a question is understood at all."""
    return (
        connection.baud_rate,
        connection.data_bits,
        connection.parity,
        connection.stop_bits,
        connection.read_termination,
        connection.write_termination,
    )


async def _identified(
    actor: Actor,
    entry: InstrumentEntry,
    usb_id: tuple[int, int] | None,
    library: ProfileLibrary,
) -> str:
    """The answer to ``*IDN?``, the first that one of the possible ways to speak gets."""

    def is_name(idn: str) -> bool:
        # A service that has greeted needs no second question, and may not survive one.
        return (
            has_name_form(idn)
            or is_service(idn)
            or find_profile(idn, usb_id, library.heads.values()).profile is not None
        )

    *others, last = _guesses(entry, usb_id, library)
    for connection in others:
        try:
            return await _ask_identity(actor, connection, is_name, entry)
        except Failed as error:
            if error.code is ErrorCode.DISCONNECTED:
                raise
    return await _ask_identity(actor, last, is_name, entry)


async def _ask_identity(
    actor: Actor,
    connection: Connection,
    is_name: Callable[[str], bool],
    entry: InstrumentEntry,
) -> str:
    actor.settle(BoundInstrument(connection=connection))
    idn = await _probe(actor, connection, lambda: identify(is_name), "*IDN?", QUESTIONS)
    if "\ufffd" in idn or not idn.strip() or is_service(idn):
        raise NoInstrument(f'What answers *IDN? with "{clean_text(idn)}" is not an instrument.')
    if not is_name(idn) and entry.profile is None and not is_odd_name(idn):
        raise NoInstrument(
            f'What answers *IDN? with "{clean_text(idn)}", twice, does not identify itself. If '
            "this is an instrument's SCPI port all the same, name its profile in INSTRUMENTS."
        )
    return idn


def _connection_of(profile: Profile | None, entry: InstrumentEntry) -> Connection:
    """How it is spoken to; who was found by ``*IDN?`` goes on saying its name by that."""
    connection = connection_for(profile.connection if profile else Connection(), entry)
    return connection if entry.profile is not None else replace(connection, identify=None)


async def _named(actor: Actor, entry: InstrumentEntry, profile: Profile) -> Found:
    """What the owner says it is, where ``*IDN?`` is never asked."""
    connection = connection_for(profile.connection, entry)
    idn = await _said_otherwise(actor, connection)
    if not idn.startswith(connection.unit_name):
        raise NoInstrument(
            f"{clean_text(idn)}, which is not what {profile.key} expects.",
            remedy="Correct the profile's identify (or probe), or what INSTRUMENTS says of it.",
        )
    remark = f"INSTRUMENTS says that it is a {profile.key}."
    return await _taken(actor, profile, connection, idn=idn, remark=remark)


async def _vouched(
    actor: Actor, entry: InstrumentEntry, profile: Profile, silence: Failed
) -> Found:
    """What the owner says it is, where ``*IDN?`` is not answered."""
    connection = connection_for(profile.connection, entry)
    vouched = replace(connection, unit_name=OWNERS_WORD)
    if await _said_otherwise(actor, vouched) != OWNERS_WORD:
        raise silence
    remark = f"It does not answer *IDN?; INSTRUMENTS says that it is a {profile.key}."
    found = await _taken(actor, profile, connection, idn=OWNERS_WORD, remark=remark)
    return replace(
        found,
        identity=vouched_identity(profile),
        proof=partial(identify_otherwise, vouched),
    )


async def _said_otherwise(actor: Actor, connection: Connection) -> str:
    """The answer to what stands in the place of ``*IDN?``."""
    actor.settle(BoundInstrument(connection=connection))
    return await _probe(actor, connection, partial(identify_otherwise, connection), "who is there")


async def _taken(
    actor: Actor, profile: Profile, connection: Connection, *, idn: str, remark: str
) -> Found:
    """Greeted, as the unit of that profile."""
    actor.settle(BoundInstrument(connection=connection))
    offered, connection, warning = await _met(actor, profile, connection)
    return Found(
        idn=idn,
        identity=parse_idn(idn),
        profile=offered,
        rules=UnitRules(),
        connection=connection,
        warning=warning,
        remark=remark,
        greeted_at=actor.line.openings,
    )


async def _met(
    actor: Actor, profile: Profile | None, connection: Connection
) -> tuple[Profile | None, Connection, str]:
    """Greet the unit; gives its profile and connection as they can be used, and a warning."""
    greeting = await greeted(actor, connection)
    if profile is None:
        return None, greeting.connection, greeting.warning
    offered = replace(profile, connection=greeting.connection)
    if greeting.warning:
        offered = unchecked(offered, connection.errors.query)
    return offered, greeting.connection, greeting.warning


def _choose(
    idn: str,
    entry: InstrumentEntry,
    usb_id: tuple[int, int] | None,
    library: ProfileLibrary,
) -> tuple[Profile | None, str, tuple[str, ...]]:
    """The profile that fits and why, or why none does; and those that fit as well."""
    if entry.profile is not None:
        profile = library.chosen(entry.profile)
        if profile is None:
            return None, library.missing(entry.profile), ()
        profile, why = _addressed(profile, entry)
        return profile, why or "INSTRUMENTS names this profile.", ()
    match = find_profile(idn, usb_id, library.heads.values())
    chosen = library.chosen(match.profile.key) if match.profile is not None else None
    profile, why = _addressed(chosen, entry)
    return profile, why or match.reason, () if why else match.tied


def _addressed(profile: Profile | None, entry: InstrumentEntry) -> tuple[Profile | None, str]:
    """The profile as it is for the unit of this entry; or none, and why it cannot be used."""
    address = parse_address(entry.address)
    if profile is None:
        return None, ""
    if not address.bus:
        needs_one = names_address(profile)
        why = f"{profile.key} addresses its unit, and its entry of INSTRUMENTS has no bus_address."
        return (None, why) if needs_one else (profile, "")
    if not profile.connection.on_wire(address.wire).shared:
        return None, f"{profile.key} does not say that its units can share a port (shared: true)."
    return with_address(profile, address.bus), ""


async def _is_confirmed(actor: Actor, connection: Connection) -> bool:
    """Whether the profile's own question, if it has one, is answered as it must be."""
    probe = connection.probe
    if probe is None:
        return True
    talk = partial(raw_conversation, lines=(probe.query,), asks=True, connection=connection)
    reply = await _probe(actor, connection, talk, probe.query)
    return re.search(probe.expect, (reply.answer or "")[:1000]) is not None


def _judged(
    found: Found, entry: InstrumentEntry, bench: BenchFile, names: Sequence[str] = ()
) -> Found:
    """With what the owner's bench file says about this unit, by its number and all its names.

    A profile that cannot be narrowed as the owner wants is not offered at all: his limits are not
    optional.
    """
    identity = found.identity
    called = tuple(dict.fromkeys(filter(None, (entry.name, *names))))
    rules = bench.rules_for(identity.serial, *called, told=identity.serial_told)
    profile, remark = found.profile, found.remark
    if profile is not None:
        try:
            profile = tighten(profile, rules)
        except Invalid as error:
            profile, remark = None, f"Not offered: {error}"
    return replace(
        found,
        profile=profile,
        rules=rules,
        remark=remark,
        alias=rules.alias or next(iter(called), ""),
        location=rules.location or "",
    )
