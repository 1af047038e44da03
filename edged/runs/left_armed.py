"""A unit whose dead-man a former life of the daemon left running, and the visit that feeds it.

It is fed at its address until it is registered, so that a restart switches nothing off. Where
another unit answers there by now, that one is told nothing.
"""

from __future__ import annotations

import asyncio
from typing import Final

from edged.clock import Clock
from edged.errors import EdgedError
from edged.instruments.dead_man import words_of
from edged.profiles.match import parse_idn
from edged.runs.left_work import Visit
from edged.runs.units import unit_of_identity
from edged.store.dead_man import ArmedUnit

VISIT_S: Final = 4.0
"""Opening, a name and a question."""
FEEDS: Final = 6
"""So often it is fed in its time while others are visited: after that the daemon is loaded."""


def address_of(armed: ArmedUnit) -> str:
    """Where it answered; empty where nobody knows."""
    address = armed.payload.get("address")
    return address if isinstance(address, str) else ""


async def feed_left(armed: ArmedUnit, visit: Visit) -> str:
    """Feed it; gives why that could not be done, or nothing. Never raises an ``EdgedError``."""
    words, address = words_of(armed.payload), address_of(armed)
    if words is None or not address:
        return "what was written down of it does not say how."
    try:
        async with asyncio.timeout(VISIT_S), visit(address, armed.payload) as visitor:
            idn = await visitor.identify()
            if unit_of_identity(parse_idn(idn), armed.instrument_id).key != armed.unit:
                return f"{idn.strip()[:120]!r} answers there now, which is another unit."
            await visitor.feed(words)
    except TimeoutError:
        return f"it did not answer within {VISIT_S:g} s."
    except EdgedError as error:
        return str(error)
    return ""


async def keep_fed(
    armed: ArmedUnit, visit: Visit, clock: Clock, first: asyncio.Future[None]
) -> None:
    """Once ``first`` has been there, feed it again and again, until this is cancelled.

    So one unit that hangs, for which all wait, has no other switch off.
    """
    words = words_of(armed.payload)
    await asyncio.wait([first])
    while words is not None:
        await clock.sleep(words.limit_s / FEEDS)
        await feed_left(armed, visit)
