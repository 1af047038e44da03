"""Greeting a unit that has said its name, and going on where it does not answer its error query.

An instrument that answers ``*IDN?`` and not the question for its errors is no dead one: it works,
with error checks off, and a warning says so. Off they stay until edged starts again: what was set
wrongly is then noticed by a command's ``verify`` alone, where it has one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from edged.errors import Failed
from edged.instruments.actor import Actor
from edged.instruments.conversation import (
    MAX_QUEUED_ERRORS,
    greet,
)
from edged.instruments.introduction import (
    identify,
)
from edged.instruments.line import Tenant
from edged.instruments.mailbox import Priority
from edged.profiles.answers import clean_text
from edged.profiles.instrument_errors import InstrumentError
from edged.profiles.model import Connection, ErrorCheck, ErrorKind, Profile

__all__ = ["Greeting", "greeted", "patience_s", "unchecked"]

TRIES: Final = 2
"""An error query that is lost once, by a bad wire or a busy instrument, is asked again."""


@dataclass(frozen=True, slots=True, kw_only=True)
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
    actor.settle(Tenant(connection=without))
    # Whoever is silent to this too hangs altogether, and is set aside like any other.
    await actor.converse(
        identify,
        unit=0,
        priority=Priority.PROBE,
        timeout_s=patience_s(without, 1),
        name="*IDN?",
    )
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
    return await actor.converse(
        lambda: greet(connection),
        unit=0,
        priority=Priority.PROBE,
        timeout_s=patience_s(connection, 4 + len(connection.on_connect)),
        name="greeting",
    )


def _are_none(check: ErrorCheck, errors: tuple[InstrumentError, ...]) -> bool:
    """Whether what came is no error at all: nothing with a number, and without an end."""
    is_endless = check.kind is not ErrorKind.QUEUE or len(errors) >= MAX_QUEUED_ERRORS
    return bool(errors) and is_endless and all(error.code is None for error in errors)
