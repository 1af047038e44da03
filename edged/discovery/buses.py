"""The seam to a bus that can tell what is on it, and the thread in which it is asked.

A ``BusSource`` lists; it decides nothing. Listing may block for seconds (libusb, multicast answers)
or for ever (a driver that hangs), so each source is asked in a thread of its own, one look at a
time, and is given up on after its limit: one bad bus stops neither the others nor the event loop.
"""

from __future__ import annotations

import asyncio
import re
import threading
from typing import Final, Protocol

import structlog

from edged.config.instruments import InstrumentEntry
from edged.record import record
from edged.transports.link import LinkError, translated

MOST_CANDIDATES: Final = 512
"""Of one source; what is beyond is not asked, so that no bus makes edged grow without bound."""
_STRANGE: Final = re.compile(r"[^A-Za-z0-9_.+-]")

log = structlog.get_logger(__name__)


@record
class Candidate:
    """Something on a bus that may be an instrument.

    Attributes:
        entry: its address, and what is known of it.
        usb_id: vendor and product, where it hangs on USB.
        plug: another text after it was plugged in anew, as far as the bus tells.
        problem: why it cannot be asked; empty when it can.
        open_as: what VISA is given where that differs from the address.
    """

    entry: InstrumentEntry
    usb_id: tuple[int, int] | None = None
    plug: str = ""
    problem: str = ""
    open_as: str = ""


@record
class Listing:
    """What a source sees now.

    Attributes:
        remark: what its owner should know of the look; empty when all is well.
        is_complete: False for a look that failed: what is missing need not have gone.
        usb_ids: vendor and product of all that hangs there, instruments or not.
    """

    candidates: tuple[Candidate, ...] = ()
    remark: str = ""
    is_complete: bool = True
    usb_ids: frozenset[tuple[int, int]] = frozenset()


class BusSource(Protocol):
    """A bus, or something like one, that lists what is on it."""

    @property
    def name(self) -> str:
        """One word, for people."""
        ...

    @property
    def is_slow(self) -> bool:
        """True where looking takes seconds and traffic: done at every tenth scan only."""
        ...

    @property
    def tells_departures(self) -> bool:
        """True where what is no longer listed has been taken away (USB; not LAN)."""
        ...

    @property
    def limit_s(self) -> float:
        """How long one look may take."""
        ...

    def list_now(self) -> Listing:
        """Look. Runs in a thread, may block; any exception is a failed look."""
        ...


class BusScanner:
    """A source with the thread that asks it; lives on the event loop."""

    def __init__(self, source: BusSource) -> None:
        self.source = source
        self.remark = "not looked at yet"
        self.found = 0
        # A look that was given up on has not come back yet.
        self._is_hanging = False
        self._turn = asyncio.Lock()

    async def look(self) -> Listing:
        """What is there now; never raises, never takes much longer than the source's limit."""
        async with self._turn:
            listing = await self._look()
        if listing.remark != self.remark:
            log.info("bus_looked_at", bus=self.source.name, remark=listing.remark)
        self.remark = listing.remark
        if listing.is_complete:
            self.found = len(listing.candidates)
        return listing

    async def _look(self) -> Listing:
        if self._is_hanging:
            return _failed(f"{self.source.name}: the search before this one still hangs.")
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Listing] = loop.create_future()

        def run() -> None:
            listing = _listed(self.source)
            try:
                loop.call_soon_threadsafe(self._deliver, answer, listing)
            except RuntimeError:
                # The loop has been closed: nobody is left to hear it.
                return

        # A daemon: a driver that hangs must not keep the process from ending.
        name = f"edged-scan-{self.source.name}"
        self._is_hanging = True
        threading.Thread(target=run, name=name, daemon=True).start()
        try:
            async with asyncio.timeout(self.source.limit_s):
                return await answer
        except TimeoutError:
            return _failed(
                f"{self.source.name}: no list within {self.source.limit_s:g} s; what is known stays"
            )

    def _deliver(self, answer: asyncio.Future[Listing], listing: Listing) -> None:
        self._is_hanging = False
        if not answer.done():
            answer.set_result(listing)


def printable(text: str) -> str:
    """The part of an address that came from a device, without what addresses cannot hold."""
    return _STRANGE.sub("", text)[:128]


def _listed(source: BusSource) -> Listing:
    try:
        with translated("looking"):
            listing = source.list_now()
    except LinkError as error:
        log.warning("bus_look_failed", bus=source.name, exc_info=error)
        return _failed(f"{source.name}: {error}")
    if len(listing.candidates) <= MOST_CANDIDATES:
        return listing
    return Listing(
        candidates=listing.candidates[:MOST_CANDIDATES],
        remark=f"{source.name}: of {len(listing.candidates)} only {MOST_CANDIDATES} are taken.",
        is_complete=False,
    )


def _failed(remark: str) -> Listing:
    return Listing(remark=remark, is_complete=False)
