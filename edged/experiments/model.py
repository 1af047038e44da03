"""What an experiment file says, once it is read: roles, parameters, steps. Pure values.

Every step has its ``path`` in the file (``steps[4].steps[1]``), by which errors and the status of a
run name it. A value is a number, a text, a truth value, or ``"{expression}"``; see
``edged.profiles.expr``.

Source: docs/experiments.md.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import field

from edged.profiles.model import ForStep, OnTimeout, Parameter, Step, Target
from edged.record import record

Value = object
"""As written: a literal, or ``"{expression}"``."""


class OnNoAnswer(enum.StrEnum):
    """What follows when a person does not answer in time, or says no."""

    END_UNIT = "end_unit"
    END = "end"
    ABORT = "abort"


class OnFail(enum.StrEnum):
    """What follows a check that fails, besides its verdict."""

    NOTE = "note"
    END_UNIT = "end_unit"
    ABORT = "abort"


class OnAtMost(enum.StrEnum):
    """What follows a ``repeat`` whose condition did not become true."""

    NOTE = "note"
    FAIL = "fail"


class WatchElse(enum.StrEnum):
    """What a watch does when its condition does not hold."""

    ABORT = "abort"
    PAUSE = "pause"
    NOTE = "note"


class MissingThen(enum.StrEnum):
    """What a reading is that did not come after all its tries."""

    NAN = "nan"
    FAIL = "fail"


class AskType(enum.StrEnum):
    """What a person can answer."""

    TEXT = "text"
    NUMBER = "number"
    CONFIRM = "confirm"
    PASS_FAIL = "pass_fail"  # noqa: S105
    CHOICE = "choice"


@record
class ReadStep(Step):
    """Reads values into names; equal questions are asked once, different units at once."""

    read: Mapping[str, Target]


@record
class MeasureStep(Step):
    """Reads values into names, and adds a row of them."""

    measure: Mapping[str, Target]


@record
class RampStep(Step):
    """Moves a set-point at a rate, in units per second."""

    ramp: Target
    to: Value
    rate: Value


@record
class SettleStep(Step):
    """Reads until the readings stand still (``drift``), or near a target (``within``)."""

    settle: Target
    for_s: float = 1.0
    every_s: float = 0.2
    timeout_s: float = 60.0
    drift: Value | None = None
    target: Value | None = None
    within: Value | None = None
    on_timeout: OnTimeout = OnTimeout.FAIL


@record
class IfStep(Step):
    """Does one of two lists of steps."""

    condition: str
    then: tuple[Step, ...]
    otherwise: tuple[Step, ...] = ()

    @property
    def inner(self) -> tuple[tuple[Step, ...], ...]:
        return self.then, self.otherwise


@record
class LetStep(Step):
    """Works values out, in the order written."""

    let: Mapping[str, Value]


@record
class CheckStep(Step):
    """Judges a number by limits, or a truth value: a verdict."""

    name: str
    value: Value
    min: Value | None = None
    max: Value | None = None
    near: Value | None = None
    unit: str = ""
    on_fail: OnFail = OnFail.NOTE


@record
class AskStep(Step):
    """Asks a person."""

    name: str
    text: str
    type: AskType
    pattern: str = ""
    options: tuple[str, ...] = ()
    min: float | None = None
    max: float | None = None
    timeout_s: float = 600.0
    on_timeout: OnNoAnswer | None = None


@record
class LeaveStep(Step):
    """Ends a loop that it stands in."""

    loop: str


@record
class FirstStep(Step):
    """Steps that run again after a resume."""

    steps: tuple[Step, ...]

    @property
    def inner(self) -> tuple[tuple[Step, ...], ...]:
        return (self.steps,)


@record
class RepeatStep(Step):
    """Repeats steps until a condition is true, judged after each pass; at most so often."""

    name: str
    at_most: int
    until: str
    steps: tuple[Step, ...]
    on_at_most: OnAtMost = OnAtMost.NOTE

    @property
    def inner(self) -> tuple[tuple[Step, ...], ...]:
        return (self.steps,)


Loop = ForStep | RepeatStep


@record
class Log:
    """A value that is read beside the steps, into a table of its own."""

    command: Target
    every_s: float


@record
class Watch:
    """A condition on a reading that must hold while the steps run.

    Attributes:
        again: a condition by which a paused run goes on by itself.
        for_s: how long that must have held.
    """

    read: Target
    must: str
    every_s: float
    otherwise: WatchElse
    again: str = ""
    for_s: float = 0.0


@record
class OnMissing:
    """What a role's reading does that does not come: so many tries, and then."""

    tries: int = 1
    then: MissingThen = MissingThen.FAIL


@record
class Resume:
    """Where an interrupted run goes on: at the pass of this loop."""

    at: str
    within_h: float = 24.0
    is_asked: bool = True


@record
class Plot:
    """A picture that people want to see while it runs: ``map`` or ``line`` of a column."""

    map: str = ""
    line: str = ""
    x: str = ""
    y: str = ""
    is_log: bool = False

    def told(self) -> dict[str, str | bool]:
        """As the file has it, without what is empty."""
        told: dict[str, str | bool] = {
            "map": self.map,
            "line": self.line,
            "x": self.x,
            "y": self.y,
            "log": self.is_log,
        }
        return {key: value for key, value in told.items() if value}


@record
class Report:
    """Which reports are written at the end; ``per`` unit or run."""

    per: str = "run"
    formats: tuple[str, ...] = ("html",)


@record
class Experiment:
    """One experiment file.

    Attributes:
        roles: role → the unit it stands for, unless the start says another.
        given: role → parameter → value: ``with``, arguments of every command that has them.
        bounds: ``role.command.parameter`` → (low, high) of what is worked out from answers.
        part: what is tested: {number, revision, …}.
    """

    name: str
    roles: Mapping[str, str]
    steps: tuple[Step, ...]
    description: str = ""
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    given: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)
    bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    at_most_h: float | None = None
    pause_at_most_s: float = 3_600.0
    logs: Mapping[str, Log] = field(default_factory=dict)
    watches: tuple[Watch, ...] = ()
    finally_steps: tuple[Step, ...] = ()
    finally_timeout_ms: int = 3_600_000
    on_pause: tuple[Step, ...] = ()
    on_resume: tuple[Step, ...] = ()
    on_missing: Mapping[str, OnMissing] = field(default_factory=dict)
    resume: Resume | None = None
    plots: tuple[Plot, ...] = ()
    part: Mapping[str, str] = field(default_factory=dict)
    report: Report | None = None


def way_to(steps: tuple[Step, ...], loop: str) -> tuple[Loop, ...]:
    """The loops to the one of that name, it among them, the outermost first.

    Empty where it stands in no step that is done before the end.
    """
    for step in steps:
        parts = (step.steps,) if isinstance(step, ForStep) else step.inner
        here = (step,) if isinstance(step, ForStep | RepeatStep) else ()
        if here and here[0].name == loop:
            return here
        for part in parts:
            if way := way_to(part, loop):
                return (*here, *way)
    return ()


def before(steps: tuple[Step, ...], loop: str) -> Iterator[Step]:
    """The steps before that loop that are not done again on the way back to it: no ``first``."""
    for step in steps:
        if way_to((step,), loop):
            if not (isinstance(step, ForStep | RepeatStep) and step.name == loop):
                part = next(part for part in step.inner if way_to(part, loop))
                yield from before(part, loop)
            return
        if not isinstance(step, FirstStep):
            yield step
