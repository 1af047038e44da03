"""The life of one sweep: its ramp, its rest, its end, and the abort that it may owe.

What is wished comes through the sweep's queue and is done here, by the sweep's own task: there is
one place where a sweep's state changes. Which state follows is the table's to say (``states.py``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import structlog

from edged.actions.action import Purpose
from edged.clock import Clock
from edged.errors import Failed
from edged.work.journalling import HEARTBEAT_S
from edged.work.obey import obey
from edged.work.ports import NewId, Perform
from edged.work.states import SweepEvent, next_sweep_state
from edged.work.sweep import Ending, Sweep
from edged.work.sweep_journal import SweepJournal
from edged.work.sweep_ramp import Ramp
from edged.work.sweep_standing import why_strayed

__all__ = ["SweepLife"]

LOOK_S: Final = 1.0
"""What a last look at the instrument may delay the word that a sweep holds."""
LONGEST_REST_S: Final = 10.0
"""What the output's time to follow may delay that word besides; nothing is written meanwhile."""
LOOK_EVERY_S: Final = 2.0
"""How soon a parked sweep notices that its instrument was switched off and on."""
FIRST_RETRY_S: Final = 0.25
LONGEST_RETRY_S: Final = 2.0

log = structlog.get_logger("edged.sweeps")


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepLife:
    """What every sweep's task works with.

    Attributes:
        publish: tells that a sweep is in another state.
        abort_within_s: how long an abort that an instrument did not take is tried again.
    """

    ramp: Ramp
    journal: SweepJournal
    perform: Perform
    new_id: NewId
    clock: Clock
    publish: Callable[[Sweep], None]
    abort_within_s: float

    async def live(self, sweep: Sweep) -> None:
        """From the first step to the last word. The top of the sweep's task."""
        try:
            ending = await self._until(sweep)
            if ending.event is SweepEvent.STOP_HOLD:
                self._move(sweep, ending)
                ending = await self._park(sweep)
            await self._end(sweep, ending)
        finally:
            sweep.parked.set()
            sweep.ended.set()

    async def _until(self, sweep: Sweep) -> Ending:
        """Let the ramp run until it ends or somebody wishes it to."""
        body = asyncio.create_task(self.ramp.run(sweep), name=f"{sweep.sweep_id}-ramp")
        wish = asyncio.create_task(sweep.wishes.get(), name=f"{sweep.sweep_id}-wish")
        try:
            while True:
                await asyncio.wait({body, wish}, return_when=asyncio.FIRST_COMPLETED)
                if not wish.done():
                    return self._came_of(sweep, body)
                if wish.result().event is not SweepEvent.STOP_HOLD or not sweep.is_writing:
                    # Whoever stops is obeyed, also when the ramp has ended in the same moment.
                    return wish.result()
                sweep.must_park = True
                wish = asyncio.create_task(sweep.wishes.get(), name=f"{sweep.sweep_id}-wish")
        finally:
            wish.cancel()
            body.cancel()
            # A step that waits for its turn is withdrawn before the abort takes the line.
            await asyncio.gather(body, wish, return_exceptions=True)

    def _came_of(self, sweep: Sweep, body: asyncio.Task[Ending]) -> Ending:
        bug = body.exception()
        if bug is None:
            return body.result()
        log.error("sweep_fault", sweep_id=sweep.sweep_id, exc_info=bug)
        return Ending(
            event=SweepEvent.FAILURE,
            reason=f"edged made a mistake; its log has it under {sweep.sweep_id}.",
        )

    async def _park(self, sweep: Sweep) -> Ending:
        """Stay where it is until somebody wishes otherwise; the journal hears that it lives."""
        wish = asyncio.create_task(sweep.wishes.get(), name=f"{sweep.sweep_id}-wish")
        look = asyncio.create_task(self.ramp.look_back(sweep), name=f"{sweep.sweep_id}-look")
        within_s = min(self.ramp.rest_s(sweep), LONGEST_REST_S) + LOOK_S
        await asyncio.wait({wish, look}, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
        sweep.parked.set()
        beat = asyncio.create_task(self._beat(sweep), name=f"{sweep.sweep_id}-beat")
        try:
            while True:
                await asyncio.wait({wish})
                if wish.result().event is not SweepEvent.STOP_HOLD:
                    return wish.result()
                wish = asyncio.create_task(sweep.wishes.get(), name=f"{sweep.sweep_id}-wish")
        finally:
            parts = (beat, wish, look)
            for part in parts:
                part.cancel()
            await asyncio.gather(*parts, return_exceptions=True)

    async def _beat(self, sweep: Sweep) -> None:
        """Look whether it still stands where it was parked, and tell the journal that it lives."""
        told_at = float("-inf")
        while True:
            now = self.clock.monotonic()
            if now - told_at >= HEARTBEAT_S:
                told_at = now
                try:
                    await self.journal.note(sweep, sweep.confirmed, is_heartbeat=True)
                except Failed as error:
                    log.warning("sweep_not_journalled", sweep_id=sweep.sweep_id, error=str(error))
            if reason := await why_strayed(self.perform, self.new_id(), sweep):
                sweep.wishes.put_nowait(Ending(event=SweepEvent.FAILURE, reason=reason))
                return
            await self.clock.sleep(LOOK_EVERY_S)

    async def _end(self, sweep: Sweep, ending: Ending) -> None:
        """Abort where the table wants it, and stay with an abort that the line did not take."""
        needs_abort = ending.event is not SweepEvent.TARGET_REACHED
        if not needs_abort or not sweep.abort.lines:
            self._move(sweep, ending)
            await self._settle(sweep)
            return
        sweep.abort.state = "pending"
        if ending.event is SweepEvent.FAILURE:
            # It has failed whatever comes of the abort; nobody has to wait for that to know.
            self._move(sweep, ending)
        error = await self._abort(sweep)
        if ending.event is not SweepEvent.FAILURE:
            self._move(sweep, ending, abort_error=error)
        elif error:
            sweep.error = f"{sweep.error} Its abort failed too: {error}"
        sweep.ended.set()
        if error:
            await self.journal.owe(sweep)
            await self._abort_later(sweep)
        await self._settle(sweep)

    async def _abort(self, sweep: Sweep) -> str:
        """Send the abort now, and see that it was obeyed; returns why that failed, or nothing."""
        report = sweep.abort
        report.tries += 1
        action = sweep.lines(self.new_id(), report.lines, Purpose.ABORT)
        report.error = (await obey(self.perform, action, report.proofs)).error
        if not report.error:
            report.state, report.at_ms = "done", self.clock.wall_ms()
        log.warning(
            "sweep_abort",
            sweep_id=sweep.sweep_id,
            instrument_id=sweep.thing.instrument.id,
            scpi=report.lines,
            error=report.error,
        )
        return report.error

    async def _abort_later(self, sweep: Sweep) -> None:
        """Try again until the line takes it, or until it is too late to do so unasked."""
        give_up = self.clock.monotonic() + self.abort_within_s
        delay_s = FIRST_RETRY_S
        while self.clock.monotonic() < give_up:
            await self.clock.sleep(delay_s)
            delay_s = min(2 * delay_s, LONGEST_RETRY_S)
            if not await self._abort(sweep):
                self.publish(sweep)
                return
        sweep.abort.state = "given_up"
        sweep.needs_attention = True
        self.publish(sweep)

    async def _settle(self, sweep: Sweep) -> None:
        """Its last words: journal and recording."""
        sweep.parked.set()
        sweep.ended.set()
        if sweep.abort.state in {"done", "not_needed"}:
            await self.journal.finish(sweep)
        if sweep.sink is not None:
            told = sweep.told(self.clock.monotonic())
            summary = {name: told[name] for name in ("current_value", "error", "behind_s")}
            await sweep.sink.close(sweep.state.value, summary)

    def _move(self, sweep: Sweep, ending: Ending, abort_error: str = "") -> None:
        """To the state that the table says, and tell of it."""
        sweep.state = next_sweep_state(sweep.state, ending.event, abort_failed=bool(abort_error))
        if ending.event is SweepEvent.TARGET_REACHED:
            sweep.error = ""
        elif ending.reason:
            sweep.error = ending.reason
        if abort_error:
            sweep.error = f"{sweep.error} Its abort failed: {abort_error}".strip()
        if sweep.ended_s is None:
            sweep.ended_s = self.clock.monotonic() - sweep.began
        log.info("sweep_state", sweep_id=sweep.sweep_id, state=sweep.state.value, error=sweep.error)
        self.publish(sweep)
