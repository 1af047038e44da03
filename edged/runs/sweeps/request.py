"""What a caller asks of a sweep, read from the arguments of start_sweep. Pure.

The tool's own schema has passed by the time anything here is read; what is checked here is what a
schema cannot say.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, Final

from edged.errors import Invalid
from edged.instruments.instrument import Instrument
from edged.profiles.model import (
    BitsAnswer,
    Command,
    FieldsAnswer,
    ImageAnswer,
    ListAnswer,
    ScalarAnswer,
    WaveformAnswer,
)
from edged.record import record
from edged.scpi.kinds import AnswerType
from edged.yaml.tree import Scalar

NOTHING: Final[Mapping[str, Any]] = {}
POINT_DIGITS: Final = 12
"""Of a set-point between start and target: enough for any instrument, and no noise of floats."""
BEYOND: Final = {"over_range": math.inf, "under_range": -math.inf}
COMPARISONS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@record
class MeasureAsked:
    """One entry of ``measure`` as it was written; names are not looked up yet."""

    instrument_id: str
    command_name: str
    parameters: Mapping[str, Any]


@record
class Measure:
    """One entry of ``measure`` with what it means; ``parameters`` are validated."""

    instrument: Instrument
    command: Command
    parameters: Mapping[str, Scalar] = field(default_factory=dict)


@record
class MeasuredColumn:
    """One column that a measure gives; ``field`` names a part of a structured answer."""

    name: str
    unit: str
    field: str = ""
    is_number: bool = True


@record
class StopWhen:
    """``stop_when``: ends a sweep on what was measured, without a model in the loop."""

    column: str
    op: str
    value: float
    then: str

    def can_judge(self, row: Mapping[str, object], flags: Mapping[str, str]) -> bool:
        """Whether this row says anything of it; see ``why_met``."""
        return isinstance(row.get(self.column), int | float) or flags.get(self.column) in BEYOND

    def why_met(self, row: Mapping[str, object], flags: Mapping[str, str]) -> str:
        """Why the sweep ends with this row; empty where it goes on.

        A reading beyond the meter's range lies beyond every bound. One without a number ends the
        sweep: what was to watch it sees nothing any more.

        Args:
            flags: why columns without a number have none, where that is known.
        """
        found = row.get(self.column)
        if not isinstance(found, int | float):
            flag = flags.get(self.column, "")
            if flag not in BEYOND:
                told = f" ({flag})" if flag else ""
                return f"stop_when cannot be judged: {self.column} came without a number{told}."
            found = BEYOND[flag]
        if not COMPARISONS[self.op](float(found), self.value):
            return ""
        return f"stop_when: {self.column} {self.op} {self.value:g}."


@record
class Points:
    """``points``: so many set-points, at which alone rows are taken; the first is the start."""

    count: int
    is_log: bool

    def between(self, start: float, target: float) -> tuple[float, ...]:
        """The set-points, from ``start`` to ``target``.

        Raises:
            Invalid: log spacing from, to or across zero.
        """
        if self.is_log and not start * target > 0:
            raise Invalid(
                f"Set-points from {start:g} to {target:g} cannot be spaced logarithmically.",
                data={"parameter": "points.spacing", "start": start, "target": target},
                remedy="Set a start value of the target's sign first, or take linear spacing.",
            )
        last = self.count - 1
        inner = (
            start * (target / start) ** (place / last)
            if self.is_log
            else start + (target - start) * place / last
            for place in range(1, last)
        )
        return (start, *(float(f"{value:.{POINT_DIGITS}g}") for value in inner), target)


@record
class SweepRequest:
    """The wishes of one start_sweep beside the command and its parameters.

    Attributes:
        dwell_s: how long it stays at a set-point before that is read, if ``settle_s`` is shorter.
        points: where rows are taken; ``None``: at each step.
        is_abort_last: at the target the abort is run.
    """

    target_value: float
    rate_per_s: float
    settle_s: float
    stop_when: StopWhen | None
    dwell_s: float = 0.0
    points: Points | None = None
    is_abort_last: bool = False

    @classmethod
    def read(cls, arguments: Mapping[str, Any]) -> SweepRequest:
        """From arguments that fit the tool's schema.

        Raises:
            Invalid: a number that is not finite, or a rate that is not above 0.
        """
        rate = _finite(arguments, "sweep_rate")
        if rate <= 0:
            raise Invalid(
                f"sweep_rate {rate:g} is not above 0.",
                data={"parameter": "sweep_rate", "value": rate, "bound": 0},
                remedy="It is a speed in units per second; the direction follows from the target.",
            )
        wish = arguments.get("stop_when")
        return cls(
            target_value=_finite(arguments, "target_value"),
            rate_per_s=rate,
            settle_s=float(arguments.get("settle_ms", 0)) / 1000,
            stop_when=_stop_when(wish) if isinstance(wish, Mapping) else None,
            dwell_s=float(arguments.get("dwell_ms", 0)) / 1000,
            points=_points(arguments.get("points")),
            is_abort_last=arguments.get("then") == "abort",
        )

    @property
    def rest_s(self) -> float:
        """How long a set-point is left to itself before it is read."""
        return max(self.settle_s, self.dwell_s)

    @staticmethod
    def measures_asked(arguments: Mapping[str, Any]) -> tuple[MeasureAsked, ...]:
        """The entries of ``measure``; none where nothing was asked."""
        entries = arguments.get("measure") or ()
        return tuple(
            MeasureAsked(
                instrument_id=str(entry.get("instrument_id", "")),
                command_name=str(entry.get("command_name", "")),
                parameters=entry.get("parameters") or NOTHING,
            )
            for entry in entries
        )


def readings_of(measures: Sequence[Measure]) -> tuple[tuple[MeasuredColumn, ...], ...]:
    """The columns of each measure, named as shortly as is unmistakable.

    The command's name alone where no other measure has it; else with the instrument's alias or id
    before it; else with the parameters behind it. Fields of a structured answer follow after a dot.
    """
    short = [m.command.name for m in measures]
    longer = [f"{m.instrument.alias or m.instrument.id}.{m.command.name}" for m in measures]
    names = []
    for place, measure in enumerate(measures):
        name = short[place]
        if short.count(name) > 1:
            name = longer[place]
        if longer.count(longer[place]) > 1:
            told = ",".join(f"{key}={value}" for key, value in measure.parameters.items())
            name = f"{longer[place]}({told})" if told else name
        names.append(name)
    for place, name in enumerate(names):
        if names.index(name) != place:
            names[place] = f"{name}#{place + 1}"
    return tuple(
        _columns(name, measure.command) for name, measure in zip(names, measures, strict=True)
    )


def _columns(name: str, command: Command) -> tuple[MeasuredColumn, ...]:
    match command.returns:
        case FieldsAnswer(fields=fields):
            return tuple(
                MeasuredColumn(
                    name=f"{name}.{f.name}",
                    unit=f.unit,
                    field=f.name,
                    is_number=f.type is not AnswerType.STRING,
                )
                for f in fields
            )
        case BitsAnswer(fields=bits):
            return tuple(
                MeasuredColumn(name=f"{name}.{f.name}", unit="", field=f.name) for f in bits
            )
        case ListAnswer(unit=unit):
            return (MeasuredColumn(name=name, unit=unit, is_number=False),)
        case ScalarAnswer(unit=unit, type=kind):
            return (MeasuredColumn(name=name, unit=unit, is_number=kind is not AnswerType.STRING),)
        case WaveformAnswer() | ImageAnswer() | None:
            return (MeasuredColumn(name=name, unit="", is_number=False),)


def _points(wish: object) -> Points | None:
    if not isinstance(wish, Mapping):
        return None
    return Points(count=int(wish["count"]), is_log=wish.get("spacing") == "log")


def _stop_when(wish: Mapping[str, Any]) -> StopWhen:
    return StopWhen(
        column=str(wish["column"]),
        op=str(wish["op"]),
        value=_finite(wish, "value"),
        then=str(wish["then"]),
    )


def _finite(arguments: Mapping[str, Any], name: str) -> float:
    value = arguments.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise Invalid(
            f"{name} {value!r} is not a finite number.",
            data={"parameter": name, "value": repr(value)},
        )
    return float(value)
