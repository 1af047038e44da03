"""One sweep: what was asked, where it stands, and how it is told.

Lives on the event loop; changed by ``ramp.py`` (values) and ``life.py`` (states) alone.

The rows of one sweep in memory: bounded, and handed out evenly.

Everything measured is on the disk (``recordings``); these are for looking at while it goes on. When
there are too many, every second one is dropped and from then on every second one is kept, so that
the whole sweep stays in view.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Final

from edged.actions.action import Purpose, SendLines, StartSweep
from edged.actions.cause import NOT_NEEDED, Cause
from edged.errors import ErrorCode, Failed
from edged.instruments.instrument import Instrument
from edged.profiles.abort import Proof, proofs_of
from edged.profiles.model import (
    AbortStep,
    Command,
    Parameter,
    ParameterType,
    Profile,
    SweepPlan,
)
from edged.profiles.owner_rules import UnitRules, clean_up_of
from edged.profiles.template import placeholders, render
from edged.record import record
from edged.runs.notes import Pace, PointNotes, why_slower
from edged.runs.run import Ending, Run
from edged.runs.states import SWEEP, RunState
from edged.runs.sweeps.ramp_plan import (
    NETWORK_USUAL_S,
    RampPlan,
    arrived_by,
    behind_s,
    grid_of,
    make_plan,
    setpoint_from,
    slower,
    steps_left,
)
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


@record(frozen=False)
class AbortReport:
    """What became of a sweep's abort.

    Attributes:
        proofs: what shows that the lines were obeyed.
        state: ``not_needed``, ``pending``, ``done`` or ``given_up``.
        at_ms: when the instrument had taken it, Unix epoch milliseconds; 0 until then.
        cause: the cause that an interrupted call reports.
        kept_under: what its owner said when the journal was given it.
    """

    lines: tuple[str, ...] = ()
    proofs: tuple[Proof, ...] = ()
    state: str = "not_needed"
    cause: Cause = NOT_NEEDED
    at_ms: int = 0
    tries: int = 0
    error: str = ""
    kept_under: UnitRules | None = None

    def to_json(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "state": self.state,
            "scpi": list(self.lines),
            "at_ms": self.at_ms or None,
            "tries": self.tries,
            "error": self.error or None,
        }


@record
class SweptThing:
    """The one parameter of one instrument that a sweep holds.

    Attributes:
        values: the command's parameters, validated; the swept one stands at the target.
        profile: the instrument's when the sweep was started; it holds to its end.
    """

    instrument: Instrument
    command: Command
    plan: SweepPlan
    values: Mapping[str, Scalar]
    profile: Profile | None

    @property
    def parameter(self) -> Parameter:
        """The swept parameter."""
        return self.command.parameters[self.plan.parameter]

    @property
    def setpoint_query(self) -> str:
        """The question what the instrument holds as set, rendered."""
        return render(self.plan.setpoint, self.command.parameters, self.values)

    @property
    def key(self) -> tuple[str, str]:
        """What no two sweeps may share: the instrument, and the place of the value in it."""
        return (self.instrument.id, self.setpoint_query)

    @property
    def fastest(self) -> float | None:
        """The owner's highest rate for it, under whichever command's name; ``None``: none."""
        rules = self.instrument.rules
        known = self.profile.commands.values() if self.profile and rules.max_rate else ()
        same = {other.name for other in known if self._is_swept_by(other)}
        rates = map(rules.max_rate_for, same | {self.command.name})
        return min((rate for rate in rates if rate is not None), default=None)

    def _is_swept_by(self, other: Command) -> bool:
        sweep = other.sweep
        if sweep is None or sweep.setpoint != self.plan.setpoint:
            return False
        return other.parameters[sweep.parameter].unit == self.parameter.unit

    @property
    def selectors(self) -> Mapping[str, Scalar]:
        """The parameters that say *which* value is swept: the channel."""
        names = {hole.name for hole in placeholders(self.plan.setpoint)}
        return {name: self.values[name] for name in names if name in self.values}

    def is_elsewhere(self, values: Mapping[str, object]) -> bool:
        """Whether a command with these values works another channel than the one swept."""
        return any(
            name in values and values[name] != chosen for name, chosen in self.selectors.items()
        )

    def at(self, value: float) -> dict[str, Scalar]:
        """The command's parameters with the swept one at ``value``."""
        is_whole = self.parameter.type is ParameterType.INT
        return {**self.values, self.plan.parameter: round(value) if is_whole else value}

    def held_in(self, answer: str) -> float:
        """The value that an answer to ``setpoint_query`` tells; raises Failed: BAD_ANSWER."""
        plan = self.plan
        return setpoint_from(
            answer, self.parameter.unit, self.setpoint_query, plan.pattern, plan.decimal
        )

    def is_moved(self, held: float, known: float) -> Failed:
        """It was connected anew, and holds another value than the last that was confirmed."""
        unit = self.parameter.unit
        return Failed(
            f"{self.instrument.called} was reconnected and holds {held:g} {unit}, where "
            f"{known:g} {unit} was set: it may have been switched off and on.",
            code=ErrorCode.INSTRUMENT_ERROR,
            sent=(self.setpoint_query,),
        )

    def arrival(self, gone: float, now: float, quickest_s: float) -> tuple[float, float]:
        """The quickest confirmation so far, and by when a step had reached the instrument.

        Args:
            gone: monotonic, when it had gone out; where nobody knows, when it was confirmed.
            now: when it was confirmed.
        """
        quickest_s = min(quickest_s, now - gone)
        # So much of a confirmation's usual time may not have been spent on the way there.
        held_back = math.inf if self.instrument.transport.is_cable else NETWORK_USUAL_S
        return quickest_s, arrived_by(gone, now, min(quickest_s, held_back))

    def ramp(self, start: float, target: float, rate_per_s: float) -> RampPlan:
        """A way of it, on the finest grid that holds for all of that."""
        return make_plan(
            start=start,
            target=target,
            rate_per_s=rate_per_s,
            interval_s=self.plan.interval_ms / 1000,
            resolution=grid_of(self.command, self.plan.parameter, start=start, target=target),
        )

    def now(self, plan: RampPlan) -> RampPlan:
        """A ramp as it was begun, or slower where the owner has set a lower rate since."""
        fastest = self.fastest
        if fastest is None:
            return plan
        return slower(plan, fastest, self.plan.interval_ms / 1000)

    def abort_steps(self) -> tuple[AbortStep, ...]:
        """The sweep's own abort for what it swept, else the profile's."""
        if self.plan.abort:
            return tuple(map(self._rendered, self.plan.abort))
        return self.profile.abort if self.profile else ()

    def abort_proofs(self) -> tuple[Proof, ...]:
        """What shows that this abort was obeyed."""
        return proofs_of(self.profile, self.abort_steps()) if self.profile else ()

    def _rendered(self, step: AbortStep) -> AbortStep:
        send, ask = (
            render(template, self.command.parameters, self.values) if template else ""
            for template in (step.send, step.ask)
        )
        return replace(step, send=send, ask=ask)


@record(frozen=False, eq=False)
class Sweep(Run):
    """A sweep that was started.

    Attributes:
        confirmed: the value that the instrument last accepted; at first its own set-point.
        written_at: monotonic seconds by which ``confirmed`` had reached the instrument.
        meeting: the instrument's, when ``confirmed`` was known to be its set-point.
        legs: the ramp to each set-point at which a row is taken; one, where that is at each step.
        leg: which of them it is on.
        quickest_s: the shortest that a confirmation of this sweep took.
        write_s, read_s: what its steps took to be confirmed and its rows to be read, together.
        is_writing: a step is on its way to the instrument.
        noted: what was said of single readings.
        parking: hold so as soon as that step is confirmed.
        wishes: what others want of it; read by its task alone.
        parked: set once it holds or is over; ``ended`` is once it is over and its abort was tried.
    """

    words = SWEEP
    is_cut_at_close = True

    action: StartSweep
    thing: SweptThing
    request: SweepRequest
    plan: RampPlan
    legs: tuple[RampPlan, ...]
    measures: tuple[Measure, ...]
    readings: tuple[tuple[MeasuredColumn, ...], ...]
    rows: SweepRows
    confirmed: float
    written_at: float
    meeting: object = None
    quickest_s: float = float("inf")
    write_s: float = 0.0
    read_s: float = 0.0
    leg: int = 0
    readback: float | None = None
    readback_at: float = float("-inf")
    steps: int = 0
    stalls: int = 0
    ended_s: float | None = None
    is_writing: bool = False
    noted: PointNotes = field(default_factory=PointNotes)
    parking: Ending | None = None
    abort: AbortReport = field(default_factory=AbortReport)
    wishes: asyncio.Queue[Ending] = field(default_factory=asyncio.Queue)
    parked: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def units(self) -> Collection[str]:
        return (self.thing.instrument.id,)

    @property
    def row_count(self) -> int:
        return self.rows.count

    def end(self, ending: Ending) -> None:
        self.wishes.put_nowait(ending)

    def fade(self, newer: int) -> None:
        if newer >= FULL_ROWS_OF:
            self.rows.thin(THINNED_TO)

    @property
    def is_active(self) -> bool:
        """True while it may still write, an abort that is owed included."""
        return self.state in {RunState.RUNNING, RunState.PAUSED} or (self.owes_abort)

    @property
    def tolerance(self) -> float:
        """How far beside a step the instrument's own word for it may lie."""
        verify = self.thing.command.verify
        return max(self.plan.resolution, verify.tolerance if verify is not None else 0.0)

    @property
    def owes_abort(self) -> bool:
        return self.abort.state == "pending"

    @property
    def current_value(self) -> float:
        """The readback where the profile has one, else the set-point that was last accepted."""
        return self.confirmed if self.readback is None else self.readback

    def lines(self, action_id: str, lines: tuple[str, ...], purpose: Purpose) -> SendLines:
        """The action by which lines of the profile go to the instrument on the sweep's behalf."""
        return self.act(SendLines, action_id, self.thing.instrument.id, purpose, lines=lines)

    @property
    def _rested_s(self) -> float:
        """What it was asked to wait before its readings, so far."""
        return self.rows.count * self.request.rest_s

    def _steps_left(self) -> int:
        later = self.legs[self.leg + 1 :]
        left = steps_left(self.legs[self.leg], self.confirmed)
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
            "last_step": self.confirmed,
            "reach": self.plan.rate_per_s * WRITTEN_EVERY_S + self.plan.max_step,
            "tolerance": self.tolerance,
        }

    def at_step(self, value: float) -> dict[str, Any]:
        """What that row says while it goes: the step that is about to be written."""
        changed: dict[str, Any] = {"last_step": value, "status": self.status}
        if self.thing.instrument.rules is not self.abort.kept_under:
            changed |= self._clean_up()
        return changed

    def _clean_up(self) -> dict[str, Any]:
        """What the journal says of its abort, as its owner wants it now."""
        self.abort.kept_under = self.thing.instrument.rules
        return clean_up_of(self.thing.profile, self.abort.kept_under, self.thing.abort_steps())

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
            write_s=self.write_s / max(1, self.steps),
            read_s=self.read_s / max(1, self.rows.count),
            is_each_step=self.request.points is None,
        )
        return why_slower(pace)

    def _elapsed_s(self, now: float) -> float:
        return (now - self.began) if self.ended_s is None else self.ended_s

    def _behind_s(self, elapsed_s: float) -> float:
        return behind_s(self.plan, self.confirmed, elapsed_s - self._rested_s)

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
            "set_value": self.confirmed,
            "target_value": self.plan.target,
            "sweep_rate": self.plan.rate_per_s,
            "elapsed_s": round(elapsed, 3),
            "behind_s": round(self._behind_s(elapsed), 3),
            "why_late": self._why_late(elapsed) or None,
            "steps": self.steps,
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
