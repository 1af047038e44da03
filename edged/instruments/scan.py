"""Asking an address who is there: ``*IDN?``, the profile that fits, the greeting.

Each question runs as a job on the line's own thread, so that an address that hangs delays no other.
Nothing that an instrument is set to is changed, but for what its profile's ``on_connect`` says.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

from edged.config_instruments import InstrumentEntry
from edged.errors import ErrorCode, Failed, Invalid
from edged.instruments.actor import Actor
from edged.instruments.conversation import greet, identify, raw_conversation
from edged.instruments.instrument import Found
from edged.instruments.line import Tenant
from edged.instruments.mailbox import Priority
from edged.profiles.answers import clean_text
from edged.profiles.bench import BenchFile, UnitRules, tighten
from edged.profiles.loader import ProfileLibrary
from edged.profiles.match import find_profile, parse_idn
from edged.profiles.model import Connection, Profile

__all__ = ["Knowledge", "NoInstrument", "examine"]

NOT_SCPI: Final = re.compile(r"\s*(HTTP/|SSH-|220[ -]|<\?xml|<html|\{|\[)", re.IGNORECASE)
"""How services greet that are no instruments: a web server, ssh, FTP, XML, JSON."""


class NoInstrument(Failed):
    """Something answers that cannot be an instrument."""

    default_code = ErrorCode.BAD_ANSWER


@dataclass(frozen=True, slots=True, kw_only=True)
class Knowledge:
    """What is known of instruments in general, and what the owner says of his."""

    library: ProfileLibrary
    bench: BenchFile


async def examine(actor: Actor, entry: InstrumentEntry, knowledge: Knowledge) -> Found:
    """Find out who is at the end of a line without a tenant.

    Raises:
        Failed: DISCONNECTED, nobody is there; TIMEOUT, somebody is silent; BAD_ANSWER
            (``NoInstrument`` too), what answers is no instrument.
    """
    plain = connection_for(Connection(), entry)
    actor.settle(Tenant(connection=plain))
    idn = await actor.converse(
        identify, unit=0, priority=Priority.PROBE, timeout_s=_patience_s(plain, 1), name="*IDN?"
    )
    if "\ufffd" in idn or not idn.strip() or NOT_SCPI.match(idn):
        raise NoInstrument(f'What answers *IDN? with "{clean_text(idn)}" is no instrument.')
    chosen, remark = _choose(idn, entry, knowledge.library)
    connection = connection_for(chosen.connection if chosen else Connection(), entry)
    actor.settle(Tenant(connection=connection))
    if chosen is not None and not await _is_confirmed(actor, connection):
        remark = f"{chosen.key} fits the name, but its probe question was answered otherwise."
        chosen, connection = None, plain
        actor.settle(Tenant(connection=connection))
    await actor.converse(
        lambda: greet(connection),
        unit=0,
        priority=Priority.PROBE,
        timeout_s=_patience_s(connection, 4 + len(connection.on_connect)),
        name="greeting",
    )
    return _judged(
        Found(
            idn=clean_text(idn),
            identity=parse_idn(clean_text(idn)),
            profile=replace(chosen, connection=connection) if chosen else None,
            rules=UnitRules(),
            connection=connection,
            remark=clean_text(remark),
            greeted_at=actor.openings,
        ),
        entry,
        knowledge.bench,
    )


def connection_for(connection: Connection, entry: InstrumentEntry) -> Connection:
    """The connection as this entry of the owner's configuration has it."""
    own = connection
    if entry.read_termination is not None:
        own = replace(own, read_termination=entry.read_termination)
    if entry.write_termination is not None:
        own = replace(own, write_termination=entry.write_termination)
    if entry.timeout_ms is not None:
        own = replace(own, timeout_ms=entry.timeout_ms)
    if entry.open_timeout_ms is not None:
        own = replace(own, open_timeout_ms=entry.open_timeout_ms)
    if entry.baud_rate is not None:
        own = replace(own, baud_rate=entry.baud_rate)
    return own


def _choose(
    idn: str, entry: InstrumentEntry, library: ProfileLibrary
) -> tuple[Profile | None, str]:
    """The profile that fits and why, or why none does."""
    if entry.profile is not None:
        profile = library.profiles.get(entry.profile)
        if profile is None:
            return None, f"INSTRUMENTS names the profile {entry.profile}, which does not exist."
        return profile, "INSTRUMENTS names this profile."
    match = find_profile(idn, None, library.profiles.values())
    return match.profile, match.reason


async def _is_confirmed(actor: Actor, connection: Connection) -> bool:
    """Whether the profile's own question, if it has one, is answered as it must be."""
    probe = connection.probe
    if probe is None:
        return True
    reply = await actor.converse(
        lambda: raw_conversation(lines=(probe.query,), asks=True, connection=connection),
        unit=0,
        priority=Priority.PROBE,
        timeout_s=_patience_s(connection, 1),
        name=probe.query,
    )
    return re.search(probe.expect, (reply.answer or "")[:1000]) is not None


def _judged(found: Found, entry: InstrumentEntry, bench: BenchFile) -> Found:
    """With what the owner's bench file says about this unit.

    A profile that cannot be narrowed as the owner wants is not offered at all: his limits are not
    optional.
    """
    rules = bench.rules_for(found.identity.serial, entry.name or "")
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
        alias=rules.alias or entry.name or "",
        location=rules.location or "",
    )


def _patience_s(connection: Connection, questions: int) -> float:
    """Opening, and so many questions."""
    return (connection.open_timeout_ms + questions * connection.timeout_ms) / 1000 + 1.0
