"""A short visit to an address at which nobody is registered: who is there, and a few lines.

For the one thing that cannot wait for discovery: cleaning up after a crash. The line is opened,
talked to and let go of before anything else looks at that address.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from edged.clock import Clock
from edged.instruments.actor import Actor
from edged.instruments.conversation import (
    abort_conversation,
    raw_conversation,
)
from edged.instruments.dead_man import Words
from edged.instruments.identify import hail
from edged.instruments.identity import is_same_unit
from edged.instruments.line import BoundInstrument
from edged.instruments.mailbox import Priority
from edged.profiles.model import Connection
from edged.record import record
from edged.scpi.answer_text import clean_text
from edged.transports.address import parse_address
from edged.transports.link import Link

STEP_S: Final = 4.0
LEAVE_S: Final = 1.0


@record
class Guest:
    """Talks to whoever answers."""

    actor: Actor
    connection: Connection

    async def identify(self) -> str:
        """The answer to ``*IDN?``, or to what stands in its place, cleaned.

        Raises:
            Failed: nobody is there, or somebody is silent.
        """
        idn = await self.actor.converse(
            partial(hail, self.connection),
            unit=0,
            priority=Priority.SAFE,
            timeout_s=STEP_S,
            name="who is there",
        )
        self.actor.settle(BoundInstrument(connection=self.connection, idn=idn))
        return clean_text(idn)

    async def ask(self, query: str) -> str:
        """The answer to a query.

        Raises:
            Failed: as ``identify``.
        """
        reply = await self.actor.converse(
            lambda: raw_conversation(lines=(query,), asks=True, connection=self.connection),
            unit=0,
            priority=Priority.SAFE,
            timeout_s=STEP_S,
            name=query,
        )
        return reply.answer or ""

    async def feed(self, words: Words) -> None:
        """Feed the unit's dead-man, where its name alone has not.

        Whether it has switched off is not asked: some say so once, and it must be kept.

        Raises:
            Failed: as ``identify``.
        """
        if words.watchdog.feeds:
            await self.actor.converse(
                partial(words.feed, self.connection),
                unit=0,
                priority=Priority.SAFE,
                timeout_s=STEP_S,
                name="dead-man",
            )

    async def abort(
        self, lines: tuple[str, ...], asks: Sequence[Sequence[str]] = ()
    ) -> Sequence[str]:
        """Send lines, hear whether they were taken, and ask what shows that they were obeyed.

        Raises:
            Failed: as ``identify``; or the instrument's own error.
        """
        reply = await self.actor.converse(
            lambda: abort_conversation(lines, self.connection, asks),
            unit=0,
            priority=Priority.SAFE,
            timeout_s=STEP_S,
            name="abort",
        )
        return reply.answers


@asynccontextmanager
async def visiting(
    address: str, *, open_link: Callable[[str], Link], connection: Connection, clock: Clock
) -> AsyncIterator[Guest]:
    """A visit; the line is closed when it ends.

    Raises:
        EdgedError: the address cannot be used.
    """
    actor = Actor(
        address=parse_address(address),
        link=open_link(address),
        clock=clock,
        is_same_unit=is_same_unit,
        report=lambda _actor, _report: None,
    )
    actor.settle(BoundInstrument(connection=connection))
    actor.start()
    try:
        yield Guest(actor=actor, connection=connection)
    finally:
        await actor.stop(LEAVE_S)
