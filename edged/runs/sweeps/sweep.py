"""One sweep: what was asked, where it stands, and how it is told.

Lives on the event loop; changed by ``ramp.py`` (values) and ``registry.py`` (states) alone.

The rows of one sweep in memory: bounded, and handed out evenly.

Everything measured is on the disk (``recordings``); these are for looking at while it goes on. When
there are too many, every second one is dropped and from then on every second one is kept, so that
the whole sweep stays in view.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import field
from typing import Any, Final

from edged.actions.action import Purpose, SendLines, StartSweep
from edged.profiles.owner_rules import clean_up_of
from edged.profiles.unit_rules import UnitRules
from edged.record import record
from edged.runs.notes import Pace, PointNotes, why_slower
from edged.runs.run import AbortReport, Ending, Run
from edged.runs.states import SWEEP, RunEvent, RunState
from edged.runs.sweeps.ramp_plan import Axis, RampPlan, SweptThing, behind_s, steps_left
from edged.runs.sweeps.request import Measure, MeasuredColumn, SweepRequest
from edged.runs.wording import TARGET_REACHED
from edged.yaml.tree import Scalar

Cell = Scalar | None

WRITTEN_EVERY_S: Final = 0.5
"""The journal writes a row so often at most (``store/journal.py``); steps run that far ahead."""
FULL_ROWS_OF: Final = 10
THINNED_TO: Final = 500
"""The newest so many keep all their rows in memory, older ones so many each."""
MAX_ROWS: Final = 10_000
"""Some 2 MB a sweep; more than any model or plot can use."""


class SweepRows:
    """Rows under fixed columns.

    Args:
        columns: (name, unit) of each, in order.
    """

    def __init__(self, columns: Sequence[tuple[str, str]]) -> None:
        self.columns = tuple(columns)
        self.count = 0
        self._kept: list[tuple[Cell, ...]] = []
        self._every = 1
        self._last: tuple[Cell, ...] | None = None

    def append(self, row: tuple[Cell, ...]) -> None:
        """One more row."""
        if self.count % self._every == 0:
            self._kept.append(row)
        self._last = row
        self.count += 1
        if len(self._kept) > MAX_ROWS:
            self.thin(MAX_ROWS // 2)

    def thin(self, most: int) -> None:
        """Keep at most so many, evenly."""
        while len(self._kept) > most:
            self._kept = self._kept[::2]
            self._every *= 2

    def evenly(self, most: int) -> list[dict[str, Any]]:
        """At most ``most`` rows over the whole sweep, oldest first, the newest among them."""
        if most <= 0 or self._last is None:
            return []
        rows = self._kept if self._kept[-1] is self._last else [*self._kept, self._last]
        names = [name for name, _ in self.columns]
        return [dict(zip(names, rows[i], strict=True)) for i in _picked(len(rows), most)]

    def units(self) -> list[dict[str, str]]:
        """{name, unit} of each column."""
        return [{"name": name, "unit": unit} for name, unit in self.columns]


def _picked(count: int, most: int) -> list[int]:
    if count <= most:
        return list(range(count))
    if most == 1:
        return [count - 1]
    return [round(i * (count - 1) / (most - 1)) for i in range(most)]


@record(frozen=False, eq=False)
class Sweep(Run):
    """A sweep that was started.

    Attributes:
        axis: where it stands; at first at the instrument's own set-point.
        legs: the ramp to each set-point at which a row is taken; one, where that is at each step.
        leg: which of them it is on.
        read_s: what its rows took to be read, together.
        noted: what was said of single readings.
        parking: hold so as soon as the step that is on its way is confirmed.
        parked: set once it holds or is over; ``ended`` is once it is over and its abort was tried.
    """

    words = SWEEP
    is_cut_at_close = True

    action: StartSweep
    axis: Axis
    request: SweepRequest
    plan: RampPlan
    legs: tuple[RampPlan, ...]
    measures: tuple[Measure, ...]
    readings: tuple[tuple[MeasuredColumn, ...], ...]
    rows: SweepRows
    read_s: float = 0.0
    leg: int = 0
    readback: float | None = None
    readback_at: float = float("-inf")
    ended_s: float | None = None
    noted: PointNotes = field(default_factory=PointNotes)
    parking: Ending | None = None
    # What its owner said when the journal was given its abort.
    kept_under: UnitRules | None = None
    parked: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def thing(self) -> SweptThing:
        """What it moves."""
        return self.axis.thing

    @property
    def units(self) -> Collection[str]:
        return (self.thing.instrument.id,)

    @property
    def row_count(self) -> int:
        return self.rows.count

    def end(self, ending: Ending) -> None:
        if ending.event is not RunEvent.PAUSE or not (
            self.axis.is_writing or self.state is RunState.PAUSED
        ):
            Run.end(self, ending)
        elif self.parking is None:
            self.parking = ending

    def fade(self, newer: int) -> None:
        if newer >= FULL_ROWS_OF:
            self.rows.thin(THINNED_TO)

    @property
    def is_active(self) -> bool:
        """True while it may still write, an abort that is owed included."""
        return self.state in {RunState.RUNNING, RunState.PAUSED} or (self.owes_abort)

    @property
    def abort(self) -> AbortReport:
        """What makes safe what it sweeps."""
        return self.aborts[self.thing.instrument.id]

    @property
    def current_value(self) -> float:
        """The readback where the profile has one, else the set-point that was last accepted."""
        return self.axis.confirmed if self.readback is None else self.readback

    def lines(self, action_id: str, lines: tuple[str, ...], purpose: Purpose) -> SendLines:
        """The action by which lines of the profile go to the instrument on the sweep's behalf."""
        return self.act(SendLines, action_id, self.thing.instrument.id, purpose, lines=lines)

    @property
    def _rested_s(self) -> float:
        """What it was asked to wait before its readings, so far."""
        return self.rows.count * self.request.rest_s

    def _steps_left(self) -> int:
        later = self.legs[self.leg + 1 :]
        left = steps_left(self.legs[self.leg], self.axis.confirmed)
        return left + sum(steps_left(leg, leg.start) for leg in later)

    def to_journal(self) -> dict[str, Any]:
        """What its row in the journal says at its beginning."""
        thing = self.thing
        return {
            "command": thing.command.name,
            "parameter": thing.plan.parameter,
            "unit": thing.parameter.unit,
            "target": self.plan.target,
            "rate": self.plan.rate_per_s,
            "setpoint": thing.setpoint_query,
            **self._clean_up(),
            "last_step": self.axis.confirmed,
            "reach": self.plan.rate_per_s * WRITTEN_EVERY_S + self.plan.max_step,
            "tolerance": self.axis.tolerance,
        }

    def at_step(self, value: float) -> dict[str, Any]:
        """What that row says while it goes: the step that is about to be written."""
        changed: dict[str, Any] = {"last_step": value, "status": self.status}
        if self.thing.instrument.rules is not self.kept_under:
            changed |= self._clean_up()
        return changed

    def _clean_up(self) -> dict[str, Any]:
        """What the journal says of its abort, as its owner wants it now."""
        self.kept_under = self.thing.instrument.rules
        return clean_up_of(self.thing.profile, self.kept_under, self.thing.abort_steps())

    def notes(self, now: float, /) -> list[str]:
        wish = self.request.stop_when
        missed: list[str] = []
        if wish is not None and self.reason == TARGET_REACHED:
            missed.append(f"stop_when {wish.column} was never met")
        late = filter(None, [self._why_late(self._elapsed_s(now))])
        return [*missed, *late, *self.noted.told(self.rows.count)]

    def _why_late(self, elapsed_s: float) -> str:
        pace = Pace(
            took_s=elapsed_s,
            behind_s=self._behind_s(elapsed_s),
            asked_s=self.plan.interval_s,
            write_s=self.axis.write_s / max(1, self.axis.steps),
            read_s=self.read_s / max(1, self.rows.count),
            is_each_step=self.request.points is None,
        )
        return why_slower(pace)

    def _elapsed_s(self, now: float) -> float:
        return (now - self.began) if self.ended_s is None else self.ended_s

    def _behind_s(self, elapsed_s: float) -> float:
        return behind_s(self.plan, self.axis.confirmed, elapsed_s - self._rested_s)

    def told(self, now: float, points: int = 0) -> dict[str, Any]:
        """get_sweep_status's result.

        Args:
            now: monotonic seconds.
            points: how many rows at most.
        """
        elapsed = self._elapsed_s(now)
        told: dict[str, Any] = {
            "sweep_id": self.run_id,
            "status": self.status,
            "instrument_id": self.thing.instrument.id,
            "alias": self.thing.instrument.alias,
            "command_name": self.thing.command.name,
            "parameter": self.thing.plan.parameter,
            "unit": self.thing.parameter.unit,
            "parameters": {
                name: value
                for name, value in self.thing.values.items()
                if name != self.thing.plan.parameter
            },
            "start_value": self.plan.start,
            "current_value": self.current_value,
            "set_value": self.axis.confirmed,
            "target_value": self.plan.target,
            "sweep_rate": self.plan.rate_per_s,
            "elapsed_s": round(elapsed, 3),
            "behind_s": round(self._behind_s(elapsed), 3),
            "why_late": self._why_late(elapsed) or None,
            "steps": self.axis.steps,
            "steps_left": self._steps_left(),
            "rows": self.rows.count,
            "reason": self.reason or None,
            "error": self.error or None,
            "notes": self.notes(now),
            "needs_attention": self.needs_attention,
            "abort": self.abort.to_json(),
            "started_ms": self.started_ms,
            "who": self.caller.who,
        }
        if self.sink is not None:
            told["recording"] = self.sink.told()
        if points > 0:
            told["columns"] = self.rows.units()
            told["points"] = self.rows.evenly(points)
        return told
