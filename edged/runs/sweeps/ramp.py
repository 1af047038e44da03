"""The body of a running sweep: a step of the ramp, settle, read, again.

Sends nothing by itself: every step and every reading is an action on the command path. It ends by
coming to an ``Ending`` or by being cancelled; what that means for the sweep is ``registry.py``'s.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Mapping
from typing import Any, Final

from edged.actions.action import Purpose, RunCommand
from edged.actions.outcome import Outcome
from edged.errors import EdgedError, ErrorCode, Failed
from edged.record import record
from edged.runs.bench import Bench
from edged.runs.journal import HEARTBEAT_S, RunJournal
from edged.runs.moving import Mover, patiently
from edged.runs.run import Ended, Ending
from edged.runs.states import RunEvent
from edged.runs.sweeps.ramp_plan import is_stall
from edged.runs.sweeps.request import Measure, MeasuredColumn
from edged.runs.sweeps.sweep import Cell, Sweep
from edged.runs.wording import TARGET_REACHED
from edged.yaml.tree import Scalar

READBACK_EVERY_S: Final = 0.5


@record
class Ramp:
    """What the body of every sweep works with."""

    bench: Bench
    journal: RunJournal

    async def run(self, sweep: Sweep) -> Ending:
        """Go on from the last confirmed value, and take the rows, until something ends it.

        Raises:
            Ended: something wanted its end on the way.
            EdgedError: the instrument did not take a step, or was not read.
        """
        mover, has_points = self.mover(sweep), sweep.request.points is not None
        if has_points:
            await self._look(sweep)
        for number, leg in enumerate(sweep.legs):
            sweep.leg = number
            while await mover.go_on(sweep.axis, leg):
                if sweep.parking is not None:
                    raise Ended(sweep.parking)
                if not has_points:
                    await self._look(sweep)
            if has_points:
                await self._look(sweep)
        await self._read_at_rest(sweep)
        event = RunEvent.STOP if sweep.request.is_abort_last else RunEvent.DONE
        return Ending(event=event, reason=TARGET_REACHED)

    def mover(self, sweep: Sweep) -> Mover:
        """What moves it; each step is journalled before it is written."""

        async def rest(due: float, value: float) -> None:
            await self._wait_until(sweep, due)
            await self._note(sweep, value)

        return Mover(
            bench=self.bench,
            step=lambda unit, name, values: self._action(sweep, unit, name, values),
            ask=lambda _unit, lines: sweep.lines(self.bench.new_id(), lines, Purpose.MEASURE),
            rest=rest,
            stands=lambda _thing, _held: None,
        )

    async def why_strayed(self, sweep: Sweep) -> str:
        """Why a parked unit no longer stands where it was left; empty where nothing says so."""
        if not sweep.axis.is_lost:
            return ""
        try:
            await self.mover(sweep).look(sweep.axis)
        except Failed as error:
            # An answer that cannot be read says nothing yet; it is asked again.
            return str(error) if error.code is ErrorCode.INSTRUMENT_ERROR else ""
        return ""

    async def look_back(self, sweep: Sweep) -> None:
        """Read what the instrument gives where it is parked; what fails there changes nothing."""
        with contextlib.suppress(EdgedError):
            await self._read_at_rest(sweep)

    def rest_s(self, sweep: Sweep) -> float:
        """How long the last step still needs before a readback tells of it; 0 without readback."""
        if sweep.thing.plan.readback is None:
            return 0.0
        settled = max(sweep.request.rest_s, sweep.thing.plan.interval_ms / 1000)
        return max(0.0, sweep.axis.written_at + settled - self.bench.clock.monotonic())

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
                await self.beat(sweep)

    async def beat(self, sweep: Sweep) -> None:
        """The journal hears that it lives."""
        # One that cannot be written is met again before the next step, and holds it there.
        with contextlib.suppress(Failed):
            await self.journal.note(sweep, sweep.at_step(sweep.axis.confirmed), is_forced=True)

    async def _note(self, sweep: Sweep, value: float) -> None:
        """Journal the step that comes; raises Ended when the journal would not have it."""
        try:
            await self.journal.note(sweep, sweep.at_step(value))
        except Failed as error:
            why = f"It holds because its journal cannot be written: {error}"
            raise Ended(Ending(event=RunEvent.PAUSE, error=why)) from error

    async def _look(self, sweep: Sweep) -> None:
        """Settle, read, keep the row; raises Ended if ``stop_when`` is met."""
        if sweep.request.rest_s:
            await self._wait_until(sweep, self.bench.clock.monotonic() + sweep.request.rest_s)
        began = self.bench.clock.monotonic()
        taken_at = began - sweep.began
        cells, flags = await self._readings(sweep)
        row: tuple[Cell, ...] = (round(taken_at, 6), sweep.axis.confirmed, *cells)
        sweep.rows.append(row)
        if sweep.sink is not None:
            sweep.sink.append(row)
        await self._read_back(sweep, is_last=False)
        sweep.read_s += self.bench.clock.monotonic() - began
        wish = sweep.request.stop_when
        told = dict(zip((name for name, _ in sweep.rows.columns), row, strict=True))
        why = wish.why_met(told, flags) if wish is not None else ""
        if wish is not None and why:
            event = RunEvent.PAUSE if wish.then == "hold" else RunEvent.STOP
            can_judge = wish.can_judge(told, flags)
            raise Ended(
                Ending(event=event, reason=why if can_judge else "", error="" if can_judge else why)
            )

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
        read = (measure.instrument.id, measure.command.name, measure.parameters)
        return await patiently(
            self.bench.clock, lambda: self.bench.perform(self._action(sweep, *read))
        )

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

    def _action(
        self,
        sweep: Sweep,
        unit: str,
        command_name: str,
        parameters: Mapping[str, Scalar],
    ) -> RunCommand:
        named = {"command_name": command_name, "parameters": parameters}
        return sweep.act(RunCommand, self.bench.new_id(), unit, Purpose.MEASURE, **named)


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
