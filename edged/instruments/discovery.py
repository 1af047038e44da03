"""The loop that finds instruments: asks each address that nobody is known at, when it is due.

An address that refuses is tried again soon, and shows nothing until it has answered once; one that
hangs or is no instrument is set aside with a reason and asked at every tenth scan. Lines with a
known unit look after themselves (``line.py``); here they are only looked at, so that an idle one
whose peer has left is noticed, and are let go of when they have been silent for too long.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import structlog

from edged.clock import Clock
from edged.config_instruments import InstrumentEntry
from edged.errors import EdgedError, ErrorCode, Failed
from edged.instruments.actor import Actor
from edged.instruments.address import parse_address
from edged.instruments.instrument import Instrument
from edged.instruments.link import Link
from edged.instruments.pool import InstrumentPool
from edged.instruments.recovery import LineState, retry_delay_s
from edged.instruments.scan import Knowledge, examine

__all__ = ["Discovery"]

TICK_S: Final = 0.25
LOOK_EVERY_S: Final = 2.0
"""How soon an idle connection that the peer has closed is noticed; sends nothing."""
SCANS_ASIDE: Final = 10
"""What was set aside is asked again at every tenth scan."""
SCAN_LIMIT_S: Final = 15.0
"""How long one scan_instruments may take, whatever hangs."""

log = structlog.get_logger(__name__)


@dataclass(eq=False, slots=True, kw_only=True)
class Place:
    """One address, and what came of asking it.

    Attributes:
        actor: its line; ``None`` when the address cannot be opened at all.
        due_at: monotonic seconds; when it is asked next, if nobody is known there.
        refusals: how often in a row nobody was there.
        reason: why nobody is known here; empty while somebody is.
        is_aside: something is there that hangs or is no instrument.
        asking: the task that asks now.
    """

    entry: InstrumentEntry
    actor: Actor | None
    due_at: float = 0.0
    refusals: int = 0
    reason: str = ""
    is_aside: bool = False
    since_ms: int = 0
    asking: asyncio.Task[None] | None = None


class Discovery:
    """Asks addresses and tells the pool who answered."""

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
    ) -> None:
        """Take note of the addresses; nothing is asked before ``start``."""
        self._pool = pool
        self._knowledge = knowledge
        self._entries = tuple(entries)
        self._open_link = open_link
        self._clock = clock
        self._rescan_interval_s = rescan_interval_s
        self._gone_after_s = gone_after_s
        # By canonical address, in the order of configuration.
        self._places: dict[str, Place] = {}
        self._looked_at = float("-inf")
        self._loop_task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin; returns at once. ``first_look`` waits for what there is to find."""
        for entry in self._entries:
            self.watch(entry)
        self._tick()
        self._loop_task = asyncio.create_task(self._run(), name="edged-discovery")

    async def first_look(self, timeout_s: float) -> None:
        """Wait until each address has answered or not, but not longer than that."""
        await self._wait_for([place for place in self._places.values() if place.asking], timeout_s)

    def watch(self, entry: InstrumentEntry) -> None:
        """Add an address. One that is there already, however spelled, is left as it is."""
        try:
            key = parse_address(entry.address).key
        except EdgedError as error:
            key = entry.address
            self._places[key] = self._unusable(entry, error)
            return
        if key in self._places:
            return
        try:
            link = self._open_link(entry.address)
        except EdgedError as error:
            self._places[key] = self._unusable(entry, error)
            return
        self._places[key] = Place(entry=entry, actor=self._pool.open_line(entry.address, link))

    async def scan(self) -> list[Instrument]:
        """Ask every address at which nobody is known, now; gives the instruments that are new."""
        before = {i.id for i in self._pool.all() if i.is_connected}
        places = [place for place in self._places.values() if self._is_vacant(place)]
        for place in places:
            self._ask_soon(place)
        for place in self._places.values():
            if place.actor is not None and place.actor.tenant.number:
                place.actor.look()
        await self._wait_for(places, SCAN_LIMIT_S)
        return [i for i in self._pool.all() if i.is_connected and i.id not in before]

    async def stop(self) -> None:
        """End the loop and every question; lines are the pool's to close."""
        tasks = [place.asking for place in self._places.values() if place.asking is not None]
        if self._loop_task is not None:
            tasks.append(self._loop_task)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def set_aside(self) -> list[dict[str, Any]]:
        """Addresses at which nobody is known, with the reason; for doctor and get_status."""
        return [
            {
                "address": place.entry.address,
                "name": place.entry.name or "",
                "reason": place.reason,
                "is_set_aside": place.is_aside,
                "since_ms": place.since_ms,
            }
            for place in self._places.values()
            if place.reason
        ]

    async def _run(self) -> None:
        while True:
            await self._clock.sleep(TICK_S)
            try:
                self._tick()
            except Exception:
                log.exception("discovery_tick_failed")

    def _tick(self) -> None:
        now = self._clock.monotonic()
        for place in self._places.values():
            if now >= place.due_at and self._is_vacant(place):
                self._ask_soon(place)
        self._pool.let_go(self._gone_after_s)
        if now - self._looked_at >= LOOK_EVERY_S:
            self._looked_at = now
            for place in self._places.values():
                if place.actor is not None and place.actor.state is LineState.READY:
                    place.actor.look()

    def _is_vacant(self, place: Place) -> bool:
        """Nobody is known here, and nobody known elsewhere lives here besides."""
        actor = place.actor
        return (
            actor is not None and actor.tenant.number == 0 and not self._pool.is_alternative(actor)
        )

    def _ask_soon(self, place: Place) -> None:
        if place.asking is None and place.actor is not None:
            place.asking = asyncio.create_task(self._ask(place, place.actor), name="edged-ask")

    async def _ask(self, place: Place, actor: Actor) -> None:
        try:
            found = await examine(actor, place.entry, self._knowledge)
            self._pool.arrive(actor, found)
        except Failed as error:
            self._note_failure(place, error)
        except Exception as error:
            log.exception("discovery_ask_failed", address=place.entry.address)
            self._put_aside(place, f"Asking it failed inside edged: {error}")
        else:
            place.reason, place.is_aside, place.refusals = "", False, 0
            place.due_at = self._clock.monotonic()
        finally:
            place.asking = None

    def _note_failure(self, place: Place, error: Failed) -> None:
        if error.code is not ErrorCode.DISCONNECTED:
            self._put_aside(place, str(error))
            return
        place.refusals += 1
        place.due_at = self._clock.monotonic() + retry_delay_s(place.refusals)
        self._explain(place, str(error), is_aside=False)

    def _put_aside(self, place: Place, reason: str) -> None:
        place.due_at = self._clock.monotonic() + SCANS_ASIDE * self._rescan_interval_s
        if place.actor is not None:
            place.actor.vacate()
        self._explain(place, reason, is_aside=True)

    def _explain(self, place: Place, reason: str, *, is_aside: bool) -> None:
        if not place.reason or place.is_aside is not is_aside:
            place.since_ms = self._clock.wall_ms()
            log.warning("address_unknown", address=place.entry.address, reason=reason)
        place.reason, place.is_aside = reason, is_aside

    def _unusable(self, entry: InstrumentEntry, error: EdgedError) -> Place:
        place = Place(entry=entry, actor=None)
        self._explain(place, str(error), is_aside=True)
        return place

    @staticmethod
    async def _wait_for(places: Sequence[Place], timeout_s: float) -> None:
        tasks = [place.asking for place in places if place.asking is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=timeout_s)
