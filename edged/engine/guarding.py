"""What holds when nobody looks, as parts of one engine: interlocks, dead-men.

Each is a chapter's own (``commands``); here they get the engine's other parts, and one another.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence

import structlog

from edged.commands.dead_man import DeadManControl
from edged.commands.interlocks import InterlockControl
from edged.commands.lockout import LockoutControl
from edged.commands.memory import Memory
from edged.engine.long_work import LongWork
from edged.instruments.instrument import Instrument
from edged.profiles.interlocks import Interlock, Trip
from edged.runs.bench import Bench
from edged.runs.units import unit_of_instrument

log = structlog.get_logger("edged.guards")


class Guards:
    """The guards that act by themselves.

    Args:
        work: what runs, and makes units safe.
        lockout: what a trip locks out by.
        memory: what outputs were last told and heard to be.
        is_first_look_over: see ``InterlockControl``.
        is_supervised: another engine is begun when this one dies.
    """

    def __init__(
        self,
        bench: Bench,
        *,
        work: LongWork,
        lockout: LockoutControl,
        memory: Memory,
        is_first_look_over: Callable[[], bool],
        is_supervised: bool,
    ) -> None:
        self._told_on = bench.store.told_on
        self._work = work
        self._lockout = lockout
        self.interlocks = InterlockControl(
            bench,
            is_off=memory.is_off,
            trip=self._trip,
            is_first_look_over=is_first_look_over,
        )
        self.dead_man = DeadManControl(
            bench=bench,
            visit=work.visit,
            fail_on=(work.fail_on,),
            is_supervised=is_supervised,
        )

    def start(self, parts: contextlib.AsyncExitStack) -> None:
        """Begin to look after what is on; ``parts`` gets what ends that."""
        self.interlocks.start()
        parts.push_async_callback(self.interlocks.stop)
        self.dead_man.start()
        parts.push_async_callback(self.dead_man.stop)

    def note_told(
        self, unit: str, instrument_id: str, outputs: frozenset[str], why: str = ""
    ) -> None:
        """Something is about to be told to put something out."""
        self._told_on.note(unit, instrument_id, outputs, why)
        self.interlocks.wake()

    def hear_on(self, instrument: Instrument, output: str) -> None:
        """Something answers that it is on: whoever has switched it on, it is looked after."""
        unit = unit_of_instrument(instrument).key
        if output not in self._told_on.of(unit):
            self.note_told(unit, instrument.id, frozenset({output}))
            self.dead_man.wake()

    async def _trip(self, rule: Interlock, units: Sequence[Instrument], reason: str) -> None:
        """An interlock has tripped: the abort goes out before anything is written down.

        All at once: a unit whose line hangs delays no other's.
        """
        by, is_locking = f"the interlock {rule.name}", rule.trip is Trip.LOCKOUT
        for done in await asyncio.gather(
            self._work.trip(rule, units),
            *(
                self._lockout.set(unit.id, reason=reason, by=by, joins=True)
                for unit in units
                if is_locking
            ),
            return_exceptions=True,
        ):
            if isinstance(done, BaseException):
                log.error("interlock_trip_failed", name=rule.name, reason=str(done))
