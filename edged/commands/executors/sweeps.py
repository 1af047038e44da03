"""How the actions of sweeps are run: the tools' arguments in, their results out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from edged.actions.action import (
    Action,
    DrawSweep,
    Purpose,
    ReadSweep,
    SendLines,
    StartSweep,
    StopAll,
    StopSweep,
)
from edged.actions.outcome import Picture
from edged.commands.path import Done, Executor
from edged.commands.run import PRIORITY
from edged.commands.target import Target
from edged.errors import ErrorCode, Fault, NotFound
from edged.instruments.conversation import abort_conversation, raw_conversation
from edged.instruments.mailbox import Priority
from edged.plot.artist import Artist
from edged.plot.figure import Figure
from edged.runs.recordings.figures import table_figure
from edged.runs.stop_all import BenchStop
from edged.runs.sweeps.book import SweepBook
from edged.runs.sweeps.request import Measure, SweepRequest
from edged.runs.sweeps.sweep import SweptThing

__all__ = ["SweepExecutors", "failed_sweep"]

MOST_DRAWN: Final = 10_000
"""Rows of a sweep; as many as are kept of one in memory."""
ABORT_S: Final = 4.0
"""What an abort may take, opening the line anew included; stopping the daemon waits 5 s in all."""
GRACE_S: Final = 30.0
"""A set-point is asked behind what waits on the line already."""


def _nobody_minds(_instrument_id: str) -> None:
    return


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepExecutors:
    """The executors, bound to their rooms.

    Attributes:
        note_stopped: told of each instrument whose abort is on its way.
    """

    sweeps: SweepBook
    bench_stop: BenchStop
    artist: Artist
    note_stopped: Callable[[str], None] = _nobody_minds

    def table(self) -> dict[type[Action], Executor]:
        """Their part of ``Executors.table()``."""
        return {
            StartSweep: self._start,
            ReadSweep: self._read,
            DrawSweep: self._draw,
            StopSweep: self._stop,
            StopAll: self._stop_all,
            SendLines: self._send_lines,
        }

    async def _start(self, action: StartSweep, target: Target, _began: float) -> Done:
        instrument, command = target.aimed_command()
        if command.sweep is None:
            raise Fault("A command that cannot be swept reached the sweeps.")
        thing = SweptThing(
            instrument=instrument,
            command=command,
            plan=command.sweep,
            values=target.values,
            profile=instrument.profile,
        )
        measures = tuple(map(_measure, target.inner))
        request = SweepRequest.read(action.arguments)
        return Done(data=await self.sweeps.start(action, thing, request, measures))

    async def _read(self, action: ReadSweep, _target: Target, _began: float) -> Done:
        return Done(data=self.sweeps.read(action.sweep_id, action.points))

    async def _draw(self, action: DrawSweep, _target: Target, _began: float) -> Done:
        rows = self.sweeps.read(action.sweep_id, MOST_DRAWN)
        if not rows["columns"]:
            raise NotFound(
                f"{action.sweep_id} was found after a crash; its rows are in its recording.",
                code=ErrorCode.UNKNOWN_POINT,
                remedy=f"edged runs show {action.sweep_id} --png FILE draws them.",
            )
        figure = await asyncio.to_thread(_figure, rows)
        picture = await self.artist.draw(figure)
        data = self.sweeps.read(action.sweep_id, action.points)
        return Done(data=data, pictures=(Picture(mime="image/png", data=picture),))

    async def _stop(self, action: StopSweep, _target: Target, _began: float) -> Done:
        return Done(data=await self.sweeps.stop(action.sweep_id, hold=action.hold))

    async def _send_lines(self, action: SendLines, target: Target, _began: float) -> Done:
        if action.purpose is Purpose.ABORT:
            self.note_stopped(target.instrument_id)
        return await _send_lines(action, target)

    async def _stop_all(self, action: StopAll, _target: Target, _began: float) -> Done:
        return Done(data=await self.bench_stop.stop_all(action))


async def _send_lines(action: SendLines, target: Target) -> Done:
    """An abort goes before everything; anything else asks, in its turn."""
    instrument = target.aimed_instrument()
    connection = instrument.connection
    if action.purpose is Purpose.ABORT:
        obeyed = await instrument.converse(
            lambda: abort_conversation(target.lines, connection, action.asks, action.note_taken),
            priority=Priority.SAFE,
            timeout_s=ABORT_S,
            name=action.purpose.value,
            is_repeatable=True,
        )
        return Done(data={"answer": None, "answers": dict(obeyed.answers)}, scpi=obeyed.sent)
    reply = await instrument.converse(
        lambda: raw_conversation(lines=target.lines, asks=True, connection=connection),
        priority=PRIORITY[action.purpose],
        timeout_s=connection.timeout_ms / 1000 + GRACE_S,
        name=target.lines[-1],
    )
    return Done(data={"answer": reply.answer}, scpi=reply.sent)


def _figure(told: Mapping[str, Any]) -> Figure:
    columns = [(str(column["name"]), str(column["unit"])) for column in told["columns"]]
    title = f"{told['sweep_id']}: {told['command_name']} of {told['instrument_id']}"
    return table_figure(title, columns, (tuple(row.values()) for row in told["points"]))


def failed_sweep(told: Mapping[str, Any]) -> dict[str, Any]:
    """start_sweep's result when nothing was started."""
    return {"sweep_id": "", "status": "failed", "error": told}


def _measure(target: Target) -> Measure:
    instrument, command = target.aimed_command()
    return Measure(instrument=instrument, command=command, parameters=target.values)
