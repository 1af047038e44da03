"""A second line for safe commands and aborts, where the first does not take them in time.

A unit that answers at two addresses has two ways to be made safe. The first is always tried; when
it has not taken the job after ``HEDGE_S``, or has failed, the same is said at the next address,
after the unit has said its name there. Only what is safe is ever said twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from edged.errors import ErrorCode, Failed
from edged.instruments.actor import Actor
from edged.instruments.conversation import (
    Conversation,
)
from edged.instruments.failures import another_unit
from edged.instruments.in_step import Habits
from edged.instruments.introduction import (
    has_name_form,
    identify,
)
from edged.instruments.line import Tenant
from edged.profiles.model import Connection

__all__ = ["OtherLine", "first_to_take", "named_first"]

HEDGE_S: Final = 0.25
"""A stop has 0.5 s (SPEC.md, section 13); opening the other line and *IDN? take some of it."""
UNTAKEN: Final = frozenset({ErrorCode.TIMEOUT, ErrorCode.DISCONNECTED, ErrorCode.PREEMPTED})
"""What another line may mend. An instrument's own complaint has come from the instrument."""

T = TypeVar("T")
Road = Callable[[], Awaitable[T]]


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherLine:
    """A line to another address of a unit; nobody lives there while the unit is known elsewhere.

    Attributes:
        connection: as its transport and INSTRUMENTS want it at that address.
        idn: what the unit answers to ``*IDN?``.
        habits: how it has been seen to answer.
    """

    actor: Actor
    connection: Connection
    idn: str
    habits: Habits

    def prepare(self) -> None:
        """Have the line speak as that address wants it."""
        if self.actor.tenant.number == 0:
            tenant = Tenant(connection=self.connection, idn=self.idn, habits=self.habits)
            self.actor.settle(tenant)

    def leave(self) -> None:
        """Let go of the connection: the line is another's, or nobody's."""
        if self.actor.tenant.number == 0:
            self.actor.let_go()


def named_first(
    make: Callable[[], Conversation[T]], is_wanted: Callable[[str], bool], address: str
) -> Callable[[], Conversation[T]]:
    """A conversation that is held with the wanted unit only.

    Raises:
        Failed: DISCONNECTED, another one answers; nothing but the question was sent.
    """

    def talk() -> Conversation[T]:
        idn = yield from identify(lambda idn: is_wanted(idn) or has_name_form(idn))
        if not is_wanted(idn):
            raise another_unit("Another unit", address)
        return (yield from make())

    return talk


async def first_to_take(roads: Sequence[Road[T]]) -> T:
    """What comes of the first road that works; each is begun when those before are late or failed.

    Raises:
        Failed: what the first road failed with, when none works; or the instrument's own complaint.
    """
    running: list[asyncio.Task[T]] = []
    try:
        for road in roads:
            running.append(asyncio.ensure_future(_come(road)))
            await asyncio.wait(running, timeout=HEDGE_S, return_when=asyncio.FIRST_COMPLETED)
            done = _settled(running)
            if done is not None:
                return await done
        while waiting := [task for task in running if not task.done()]:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            done = _settled(running)
            if done is not None:
                return await done
        return await running[0]
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def _come(road: Road[T]) -> T:
    return await road()


def _settled(running: Sequence[asyncio.Task[T]]) -> asyncio.Task[T] | None:
    """A road that is at its end: it worked, or failed in a way that no other road mends."""
    for task in running:
        if not task.done():
            continue
        error = task.exception()
        if not isinstance(error, Failed) or error.code not in UNTAKEN:
            return task
    return None
