"""The heartbeat: an idle line is asked its probe now and then, so that a silent unit is known.

A socket that stands and a serial port that is open tell nothing of the instrument behind it: one
that hangs is "ready" until somebody asks. Where nothing has answered for HEARTBEAT_SEC, and nothing
is under way, the unit is asked what is known by heart. What comes of it is the line's business: one
that does not answer is told by the line, which tries to get it back as after any other time-out.

It is a question like any other for the line, and for nobody else: no row of the record, and in the
trace only what was not as it should be.
"""

from __future__ import annotations

import asyncio
import functools
import re
from collections.abc import Callable
from typing import Any, Final

import structlog

from edged.clock import Clock
from edged.errors import EdgedError
from edged.instruments.identify import beat
from edged.instruments.instrument import Instrument
from edged.instruments.mailbox import Priority
from edged.instruments.pool import InstrumentPool
from edged.log import surviving
from edged.record import part

SHORTEST_S: Final = 0.25
"""Between two looks, while a line that is due has other things to do."""
GRACE_S: Final = 2.0
"""What bringing the line back in step may take on top of the question."""

_BUS: Final = re.compile(r"::(?:gpib|hpib)", re.IGNORECASE)
"""An instrument on the bus of a LAN gateway: being addressed there is what makes it remote."""

log = structlog.get_logger(__name__)


@part
class Heartbeat:
    """Asks who has not been heard for a while.

    Attributes:
        every_s: HEARTBEAT_SEC; 0: never.
        is_used: whether a sweep, a stream or a sequence has to do with the instrument, though
            nothing is on its line at the moment.
    """

    pool: InstrumentPool
    clock: Clock
    every_s: float
    is_used: Callable[[Instrument], bool]
    _task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin."""
        if self.every_s:
            self._task = asyncio.create_task(self._run(), name="edged-heartbeat")

    async def stop(self) -> None:
        """End; a question that is on a line ends with that."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            wait_s = self.every_s
            with surviving(log, "heartbeat_failed"):
                wait_s = self.beat()
            await self.clock.sleep(wait_s)

    def beat(self) -> float:
        """Ask whoever is due and idle; gives the seconds until the next may be due.

        Nobody that arrives meanwhile is due sooner: it has answered when it arrived.
        """
        now = self.clock.monotonic()
        wait_s = self.every_s
        for instrument in self.pool.all():
            if not _may_be_asked(instrument):
                continue
            left_s = instrument.heard_at + self.every_s - now
            if left_s <= 0:
                left_s = SHORTEST_S
                if instrument.is_idle and not self.is_used(instrument):
                    _ask(instrument)
            wait_s = min(wait_s, left_s)
        return max(wait_s, SHORTEST_S)


def _may_be_asked(instrument: Instrument) -> bool:
    return (
        instrument.is_connected
        and instrument.profile is not None
        and instrument.connection.heartbeat
        and instrument.probe is not None
        and instrument.transport.has_heartbeat
        and not _BUS.search(instrument.address)
    )


def _ask(instrument: Instrument) -> None:
    known = instrument.probe
    if known is None:
        return
    try:
        instrument.submit(
            functools.partial(beat, known.question, known.is_answer),
            _Nobody(instrument.id),
            priority=Priority.PROBE,
            timeout_s=instrument.connection.timeout_ms / 1000 + GRACE_S,
            name="heartbeat",
        )
    except EdgedError as error:
        # The line has just been closed.
        log.debug("heartbeat_not_sent", id=instrument.id, reason=str(error))


class _Nobody:
    """Waits for a heartbeat; the line tells what came of it."""

    def __init__(self, instrument_id: str) -> None:
        self._instrument_id = instrument_id

    def done(self) -> bool:
        return False

    def set_result(self, result: Any, /) -> None:
        """See ``Waiter``."""

    def set_exception(self, error: EdgedError, /) -> None:
        log.info("heartbeat_missed", id=self._instrument_id, reason=str(error))
