"""The body of a running sweep: wait, write, settle, read, again.

Sends nothing by itself: every step and every reading is an action on the command path. It ends by
coming to an ``Ending`` or by being cancelled; what that means for the sweep is ``sweeps.py``'s.

Whether what a sweep left at a value still stands there: asked where its line was opened anew.

A unit that lost power has lost its set-point too. From there the next step would be a jump, and
what a parked sweep tells would not be so.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from edged.actions.action import Purpose, RunCommand
from edged.actions.outcome import Outcome
from edged.errors import EdgedError, ErrorCode, Failed
from edged.record import record
from edged.runs.bench import Bench
from edged.runs.journal import HEARTBEAT_S, RunJournal
from edged.runs.ports import Perform
from edged.runs.run import Ending
from edged.runs.states import RunEvent
from edged.runs.sweeps.ramp_plan import MOST_STALLS, STALL_S, gap_s, is_stall, next_step
from edged.runs.sweeps.request import Measure, MeasuredColumn
from edged.runs.sweeps.sweep import Cell, Sweep
from edged.runs.wording import TARGET_REACHED
from edged.yaml.tree import Scalar


async def ask_anew(perform: Perform, action_id: str, sweep: Sweep, value: float) -> Outcome:
    """Ask a unit that was connected anew what it holds.

    Args:
        value: may be held besides the last that was confirmed: whether a step that was pushed off
            the line had been taken is not known.

    Raises:
        Failed: INSTRUMENT_ERROR, it holds another value; BAD_ANSWER.
    """
    thing = sweep.thing
    asked = await perform(sweep.lines(action_id, (thing.setpoint_query,), Purpose.MEASURE))
    if asked.error is not None:
        return asked
    held = thing.held_in(str(asked.data["answer"] or ""))
    if all(abs(held - known) > 1.01 * sweep.tolerance for known in (sweep.confirmed, value)):
        raise thing.is_moved(held, sweep.confirmed)
    return asked


async def why_strayed(perform: Perform, action_id: str, sweep: Sweep) -> str:
    """Why a parked unit no longer stands where it was left; empty where nothing says so."""
    meeting = sweep.thing.instrument.meeting
    if meeting == sweep.meeting:
        return ""
    try:
        asked = await ask_anew(perform, action_id, sweep, sweep.confirmed)
    except Failed as error:
        # An answer that cannot be read says nothing yet; it is asked again.
        return str(error) if error.code is ErrorCode.INSTRUMENT_ERROR else ""
    if asked.error is None:
        sweep.meeting = meeting
    return ""


READBACK_EVERY_S: Final = 0.5


@record
class Ramp:
    """What the body of every sweep works with."""

    bench: Bench
    journal: RunJournal

    async def run(self, sweep: Sweep) -> Ending:
        """Go on from the last confirmed value until something ends it. Raises no ``EdgedError``."""
        has_points = sweep.request.points is not None
        try:
            if has_points and (ending := await self._look(sweep)) is not None:
                return ending
            for number in range(len(sweep.legs)):
                sweep.leg = number
                if (ending := await self._go(sweep, looks=not has_points)) is not None:
                    return ending
                if has_points and (ending := await self._look(sweep)) is not None:
                    return ending
            await self._read_at_rest(sweep)
        except EdgedError as error:
            return Ending(event=RunEvent.FAILURE, error=str(error))
        is_abort = sweep.request.is_abort_last
        event = RunEvent.STOP if is_abort else RunEvent.DONE
        return Ending(event=event, reason=TARGET_REACHED)

    async def _go(self, sweep: Sweep, *, looks: bool) -> Ending | None:
        """Ramp to the end of the present leg; an ending if one came on the way.

        Args:
            looks: each step is read.

        Raises:
            EdgedError: the instrument did not take a step, or was not read.
        """
        leg = sweep.legs[sweep.leg]
        while (value := next_step(plan := sweep.thing.now(leg), sweep.confirmed)) is not None:
            due = sweep.written_at + gap_s(plan, sweep.confirmed, value)
            await self._wait_until(sweep, due)
            if not await self._note(sweep, value):
                return Ending(event=RunEvent.PAUSE, error=sweep.error)
            await self._write(sweep, value)
            if sweep.parking is not None:
                return sweep.parking
            if looks and (ending := await self._look(sweep)) is not None:
                return ending
        return None

    async def look_back(self, sweep: Sweep) -> None:
        """Read what the instrument gives where it is parked; what fails there changes nothing."""
        with contextlib.suppress(EdgedError):
            await self._read_at_rest(sweep)

    def rest_s(self, sweep: Sweep) -> float:
        """How long the last step still needs before a readback tells of it; 0 without readback."""
        if sweep.thing.plan.readback is None:
            return 0.0
        settled = max(sweep.request.rest_s, sweep.thing.plan.interval_ms / 1000)
        return max(0.0, sweep.written_at + settled - self.bench.clock.monotonic())

    async def _read_at_rest(self, sweep: Sweep) -> None:
        """The last readback, once the output has had the time to follow.

        Raises:
            EdgedError: it failed.
        """
        await self._wait_until(sweep, self.bench.clock.monotonic() + self.rest_s(sweep))
        await self._read_back(sweep, is_last=True)

    async def _wait_until(self, sweep: Sweep, due: float) -> None:
        while (left := due - self.bench.clock.monotonic()) > 0:
            await self.bench.clock.sleep(min(left, HEARTBEAT_S))
            if left > HEARTBEAT_S:
                # One that cannot be written is met again before the next step, and holds it there.
                with contextlib.suppress(Failed):
                    await self.journal.note(sweep, sweep.at_step(sweep.confirmed), is_forced=True)

    async def _note(self, sweep: Sweep, value: float) -> bool:
        """Journal the step that comes; False when the journal would not have it."""
        try:
            await self.journal.note(sweep, sweep.at_step(value))
        except Failed as error:
            sweep.error = f"It holds because its journal cannot be written: {error}"
            return False
        return True

    async def _write(self, sweep: Sweep, value: float) -> None:
        """Bring one step to the instrument, however often others push it off the line.

        The same value is written again, never a further one: whether the first attempt was taken
        is not known, and to have it twice is no step at all.

        Raises:
            EdgedError: the instrument did not take it.
        """
        began = self.bench.clock.monotonic()
        while True:
            outcome = await self._step(sweep, value)
            if outcome.error is None:
                break
            sweep.stalls += 1
            if not is_stall(outcome.error) or sweep.stalls > MOST_STALLS:
                raise outcome.error
            await self.bench.clock.sleep(STALL_S)
        sweep.stalls = 0
        now = self.bench.clock.monotonic()
        gone = outcome.written_at or now
        sweep.confirmed = value
        sweep.quickest_s, sweep.written_at = sweep.thing.arrival(gone, now, sweep.quickest_s)
        sweep.steps += 1
        sweep.write_s += now - began

    async def _step(self, sweep: Sweep, value: float) -> Outcome:
        """Write once, to a unit that is known to stand where it was left."""
        meeting = sweep.thing.instrument.meeting
        if meeting != sweep.meeting:
            asked = await ask_anew(self.bench.perform, self.bench.new_id(), sweep, value)
            if asked.error is not None:
                return asked
            sweep.meeting = meeting
        sweep.is_writing = True
        try:
            return await self.bench.perform(self.step(sweep, value))
        finally:
            sweep.is_writing = False

    async def _look(self, sweep: Sweep) -> Ending | None:
        """Settle, read what there is to read, keep the row; an ending if ``stop_when`` is met."""
        if sweep.request.rest_s:
            await self._wait_until(sweep, self.bench.clock.monotonic() + sweep.request.rest_s)
        began = self.bench.clock.monotonic()
        taken_at = began - sweep.began
        cells, flags = await self._readings(sweep)
        row: tuple[Cell, ...] = (round(taken_at, 6), sweep.confirmed, *cells)
        sweep.rows.append(row)
        if sweep.sink is not None:
            sweep.sink.append(row)
        await self._read_back(sweep, is_last=False)
        sweep.read_s += self.bench.clock.monotonic() - began
        wish = sweep.request.stop_when
        told = dict(zip((name for name, _ in sweep.rows.columns), row, strict=True))
        why = wish.why_met(told, flags) if wish is not None else ""
        if wish is None or not why:
            return None
        event = RunEvent.PAUSE if wish.then == "hold" else RunEvent.STOP
        if not wish.can_judge(told, flags):
            return Ending(event=event, error=why)
        return Ending(event=event, reason=why)

    async def _readings(self, sweep: Sweep) -> tuple[list[Cell], dict[str, str]]:
        """Every measure at once: different instruments read in parallel, one line in turn.

        Returns:
            The cells of a row, and why those without a value have none, by column.

        Raises:
            EdgedError: one of them failed.
        """
        if len(sweep.measures) == 1:
            outcomes = [await self._measured(sweep, sweep.measures[0])]
        else:
            async with asyncio.TaskGroup() as together:
                asked = [together.create_task(self._measured(sweep, m)) for m in sweep.measures]
            outcomes = [task.result() for task in asked]
        cells: list[Cell] = []
        flags: dict[str, str] = {}
        for outcome, columns in zip(outcomes, sweep.readings, strict=True):
            if outcome.error is not None:
                raise outcome.error
            sweep.noted.add(outcome.data.get("notes", ()))
            cells += _cells(outcome.data.get("data"), columns)
            flags |= _flags(outcome.data.get("flag"), columns)
        return cells, flags

    async def _measured(self, sweep: Sweep, measure: Measure) -> Outcome:
        while True:
            outcome = await self.bench.perform(
                self._action(sweep, measure.instrument.id, measure.command.name, measure.parameters)
            )
            if outcome.error is None or not is_stall(outcome.error):
                return outcome
            sweep.stalls += 1
            if sweep.stalls > MOST_STALLS:
                return outcome
            await self.bench.clock.sleep(STALL_S)

    async def _read_back(self, sweep: Sweep, *, is_last: bool) -> None:
        """Ask what the instrument measures of what was set, now and then and at the end.

        Raises:
            EdgedError: it failed.
        """
        command = sweep.thing.plan.readback
        now = self.bench.clock.monotonic()
        if command is None or not (is_last or now - sweep.readback_at >= READBACK_EVERY_S):
            return
        sweep.readback_at = now
        known = sweep.thing.profile
        wanted = known.commands[command].parameters if known is not None else {}
        given = {name: value for name, value in sweep.thing.values.items() if name in wanted}
        outcome = await self.bench.perform(
            self._action(sweep, sweep.thing.instrument.id, command, given)
        )
        if outcome.error is not None:
            if is_stall(outcome.error):
                return
            raise outcome.error
        data = outcome.data.get("data")
        value = outcome.data.get("primary") if isinstance(data, Mapping) else data
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        # Beyond its range, or without a value: what it read before is not what is there now.
        sweep.readback = float(value) if is_number else None

    def step(self, sweep: Sweep, value: float) -> RunCommand:
        """The action that brings one value to the instrument."""
        thing, given = sweep.thing, sweep.thing.at(value)
        return replace(
            self._action(sweep, thing.instrument.id, thing.command.name, given, Purpose.SWEEP_STEP),
            meeting=sweep.meeting,
            rate=sweep.plan.rate_per_s,
        )

    def _action(
        self,
        sweep: Sweep,
        unit: str,
        command_name: str,
        parameters: Mapping[str, Scalar],
        purpose: Purpose = Purpose.MEASURE,
    ) -> RunCommand:
        named = {"command_name": command_name, "parameters": parameters}
        return sweep.act(RunCommand, self.bench.new_id(), unit, purpose, **named)


def _cells(data: Any, columns: tuple[MeasuredColumn, ...]) -> list[Cell]:
    """One cell a column: of a list as JSON; a waveform's metadata leave it empty."""
    cells: list[Cell] = []
    for column in columns:
        value = data.get(column.field) if isinstance(data, Mapping) and column.field else data
        if isinstance(value, list):
            value = json.dumps(value)
        cells.append(value if isinstance(value, int | float | str | bool) else None)
    return cells


def _flags(flag: Any, columns: tuple[MeasuredColumn, ...]) -> dict[str, str]:
    """Why columns have no value, by their names."""
    if flag is None:
        return {}
    found = {c.name: flag.get(c.field) if isinstance(flag, Mapping) else flag for c in columns}
    return {name: str(why) for name, why in found.items() if why is not None}
