"""The check of a plan against a bench, before anything is sent: every error at once. Pure.

Loops are judged by their distinct (command, values), not pass by pass: a map of 861 points is 62
judgements. A value that hangs on an answer, or is worked out again in a loop, is judged by the ends
of its ``bounds``; without them it is an error, with the line to add.
"""

from __future__ import annotations

import itertools
import math
import string
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from typing import Any, Final, Protocol

from edged.errors import EdgedError, Invalid
from edged.experiments.model import (
    AskStep,
    AskType,
    CheckStep,
    Experiment,
    IfStep,
    LeaveStep,
    LetStep,
    MeasureStep,
    OnMissing,
    RampStep,
    ReadStep,
    RepeatStep,
    SettleStep,
    Value,
    before,
    way_to,
)
from edged.experiments.problem import Problem
from edged.profiles.abort import TRUTHS, tellings
from edged.profiles.expr import expression_text, names_in
from edged.profiles.model import (
    BitsAnswer,
    Command,
    CommandStep,
    FieldsAnswer,
    ForStep,
    ImageAnswer,
    ListAnswer,
    Parameter,
    ParameterType,
    PollStep,
    RowStep,
    ScalarAnswer,
    Step,
    Target,
    WaitStep,
    WaveformAnswer,
    walk,
)
from edged.profiles.step_values import MOST_VALUES, fill, loop_values, number
from edged.profiles.template import optional_names
from edged.record import record
from edged.scpi.words import works_switch
from edged.yaml.tree import Scalar

MOST_PROBLEMS: Final = 20
MOST_COMBINATIONS: Final = 2_000
"""Distinct values of one command; more are judged by their extremes."""
MOST_JUDGED: Final = 20_000
MOST_SENT: Final = 10_000_000
LONGEST_H: Final = 12.0
"""Of a plan that does not say ``at_most_h``."""
MOST_WORKED_OUT: Final = 100_000
"""Values of one expression over loops."""
MOST_SHOWN: Final = 1_000
"""Values of one argument that the envelope holds one by one."""
OWN_COLUMNS: Final = frozenset({"attempt", "elapsed_s", "flags"})
OWN_TABLES: Final = frozenset({"data", "checks"})
CLOSE: Final = 0.65
"""How much of two words must be alike, so that one may be meant by the other."""
CALL_S: Final = 0.02
"""What a command likely takes that nobody has timed yet."""


@record
class RoleUnit:
    """What the check must know of a unit.

    Attributes:
        called: its alias or id, and its profile.
        spoken_s: what its commands took lately, by name.
    """

    id: str
    called: str
    commands: Mapping[str, Command]
    spoken_s: Mapping[str, float] = field(default_factory=dict)


class BenchView(Protocol):
    """The bench, as far as a check looks at it."""

    def unit(self, name: str) -> RoleUnit:
        """By alias, id or address; raises EdgedError where there is none, or no profile."""
        ...

    def judge(
        self,
        unit: RoleUnit,
        command: Command,
        values: Mapping[str, Scalar],
        *,
        is_step: bool,
        is_last: bool,
        ranged: frozenset[str],
    ) -> tuple[str, ...]:
        """The lines that it would send; raises EdgedError where the command path would refuse it.

        Args:
            is_step: it is a step of a ramp.
            is_last: of ``finally``.
            ranged: parameters whose value is an end of a range.
        """
        ...

    def spend(self, one: Judgement, at_s: float, count: int, every_s: float) -> None:
        """Raises EdgedError where the owner lets it be sent less often.

        Args:
            at_s: seconds after the start, at the least.
            count: so often at the most, ``every_s`` apart at the least.
        """
        ...

    def fastest(self, unit: RoleUnit, command: Command) -> float | None:
        """The owner's highest rate of it, in units per second; ``None`` where there is none."""
        ...


@record
class DataColumn:
    """A column of the data: its loops are its dimensions."""

    name: str
    unit: str
    loops: tuple[str, ...]


@record(frozen=False)
class Asked:
    """A command with its distinct values, and how often it is sent: a part of the envelope.

    ``is_last``: ``finally`` sends it, too.
    """

    unit: str
    command: str
    parameters: dict[str, Any]
    rate: float | None = None
    count: float = 0
    is_last: bool = False


@record
class Span:
    """Seconds: at the least, likely, and at the most."""

    least: float = 0.0
    likely: float = 0.0
    most: float = 0.0

    def plus(self, other: Span) -> Span:
        """One after the other."""
        return Span(
            least=self.least + other.least,
            likely=self.likely + other.likely,
            most=self.most + other.most,
        )

    def times(self, least: float, most: float | None = None) -> Span:
        """So often."""
        high = least if most is None else most
        return Span(
            least=self.least * least, likely=self.likely * (least + high) / 2, most=self.most * high
        )


@record
class Checked:
    """A plan that may start.

    Attributes:
        units: role → the unit that stands for it.
        values: the parameters of the experiment.
        loops: name → (number of passes, its unit of measure, its values where they are known).
        points: rows at the least and at the most.
        bounded: (unit, command, parameter) → the ends of its ``bounds``.
        later: what is known only while it runs.
        left_on: commands that switch something on which ``finally`` does not switch off.
    """

    experiment: Experiment
    units: Mapping[str, RoleUnit]
    values: Mapping[str, Scalar]
    columns: tuple[DataColumn, ...]
    loops: Mapping[str, tuple[int, str, tuple[Scalar, ...] | None]]
    points: tuple[int, int]
    duration: Span
    envelope: tuple[Asked, ...]
    bounded: Mapping[tuple[str, str, str], tuple[float, float]]
    later: tuple[str, ...]
    left_on: tuple[str, ...]
    is_asking: bool


@record
class Known:
    """Where a name stands: in which loops, and what is known of it.

    Attributes:
        value: of a constant.
        values: of a loop with known values.
        is_certain: it has a value on every way to here.
    """

    value: Scalar | None = None
    values: tuple[Scalar, ...] | None = None
    unit: str = ""
    is_certain: bool = True

    @property
    def is_known(self) -> bool:
        """Whether all that it can be is known before the start."""
        return self.value is not None or self.values is not None


UNKNOWN: Final = Known()
Names = dict[str, Known]
Loops = tuple[str, ...]
Times = tuple[float, float]
"""How often something is done: at the least and at the most."""
UNCOUNTED: Final[Times] = (0, MOST_SENT)
ONCE: Final = OnMissing()


def set_parameter(target: Target, command: Command, given: Mapping[str, Any]) -> Parameter | None:
    """Which parameter a ``set`` or ``ramp`` sets: the one named, the swept one, or the only one."""
    if target.member:
        return command.parameters.get(target.member)
    if command.sweep is not None:
        return command.parameters[command.sweep.parameter]
    free = [one for name, one in command.parameters.items() if name not in given]
    return free[0] if len(free) == 1 else None


def arguments_of(
    experiment: Experiment, target: Target, command: Command | None
) -> dict[str, Value]:
    """What a target's command is given: its own arguments, and its role's where it has them."""
    given = experiment.given.get(target.role, {}) if command is not None else {}
    known = {n: value for n, value in given.items() if command and n in command.parameters}
    return {**known, **target.parameters}


def answer_members(command: Command) -> dict[str, str]:
    """Field → unit of an answer with parts; empty where it is one value."""
    match command.returns:
        case FieldsAnswer(fields=fields):
            return {one.name: one.unit for one in fields}
        case BitsAnswer(fields=bits):
            return {bit.name: "" for bit in bits}
        case _:
            return {}


@record
class Judgement:
    """A command with its values, to be judged by the command path; ``is_last`` in ``finally``.

    Of what is ``ranged`` the values are the ends of a range.
    """

    path: str
    unit: RoleUnit
    command: Command
    values: Mapping[str, Scalar]
    is_step: bool
    is_last: bool
    ranged: frozenset[str]


@record
class Spending:
    """A step that sends something, and when.

    Attributes:
        at_s: seconds after the start, at the least.
        count: how often at the most; ``loop``: the innermost around it.
        rate: of a ramp, which is many steps; ``ramp_s``: what it takes, where that is known.
    """

    judged: Judgement
    at_s: float
    count: float
    loop: str
    rate: float | None = None
    ramp_s: float | None = None


class PlanCheck:
    """One check: ``bind``, ``look_through``, ``judge`` for each of ``to_judge``, ``result``.

    Args:
        experiment: what is checked.
        bench: where it is to run.
        roles: role → unit, in place of those that the file names.
        parameters: name → value, in place of the defaults.
    """

    def __init__(
        self,
        experiment: Experiment,
        bench: BenchView,
        roles: Mapping[str, str],
        parameters: Mapping[str, Any],
    ) -> None:
        self._plan = experiment
        self._bench = bench
        self._roles = roles
        self._given = parameters
        self.problems: list[Problem] = []
        self._units: dict[str, RoleUnit] = {}
        self._columns: dict[str, DataColumn] = {}
        self._loops: dict[str, tuple[int, str, tuple[Scalar, ...] | None]] = {}
        self._envelope: dict[tuple[Any, ...], Asked] = {}
        self._later: dict[str, None] = {}
        self._points = [0.0, 0.0]
        self._span = Span()
        self._values: dict[str, Scalar] = {}
        self._judged: set[str] = set()
        # What is looked through now is done at the end; and what is on, so far.
        self._is_last = False
        self._on: dict[str, None] = {}
        self.to_judge: dict[tuple[Any, ...], Judgement] = {}
        # What is sent, seconds after the start at the least, and what a pass of a loop takes so.
        self._sent: list[Spending] = []
        self._at_s = 0.0
        self._loop = ""
        self._pass_s: dict[str, float] = {}
        self._assigned: set[str] = set()
        self._changing = _changing(experiment)

    def bind(self) -> None:
        """Find the units of the roles. Asks the bench, so it belongs to the loop."""
        for role, named in self._plan.roles.items():
            try:
                self._units[role] = self._bench.unit(self._roles.get(role, named))
            except EdgedError as error:
                self._refused(f"roles.{role}", error)

    def look_through(self) -> None:
        """Everything but the judgements, which are in ``to_judge`` then. May take a second."""
        values = self._values = self._parameters()
        self._check_roles()
        plan = self._plan
        names: Names = {name: Known(value=value) for name, value in values.items()}
        certain = dict(names)
        span = self._steps(plan.steps, names, (), (1, 1))
        self._span = span.plus(self._last_steps(plan.finally_steps, dict(certain), (), (1, 1)))
        for steps in (plan.on_pause, plan.on_resume):
            # Nobody knows how often it is paused.
            counted, sent = list(self._points), len(self._sent)
            self._steps(steps, dict(names), (), UNCOUNTED)
            self._points, self._sent[sent:] = counted, []
        for name, log in plan.logs.items():
            if name in OWN_TABLES:
                self._add(f"log.{name}", "reserved", f"the data have a file {name}.csv already.",
                          f"Call it {name}_.")  # fmt: skip
            self._reading(log.command, f"log.{name}", certain, UNCOUNTED)
        for at, watch in enumerate(plan.watches):
            path = f"watch[{at}]"
            self._reading(watch.read, f"{path}.read", certain, UNCOUNTED)
            self._condition(watch.must, f"{path}.must", {**certain, "value": UNKNOWN})
            self._condition(watch.again, f"{path}.again", {**certain, "value": UNKNOWN})
        self._check_plots()
        self._check_report()
        self._check_resume()
        self._check_duration()

    def judge(self, one: Judgement) -> None:
        """Ask the bench; of each place one problem is enough."""
        if one.path in self._judged:
            return
        try:
            lines = self._bench.judge(
                one.unit,
                one.command,
                one.values,
                is_step=one.is_step,
                is_last=one.is_last,
                ranged=one.ranged,
            )
        except EdgedError as error:
            self._judged.add(one.path)
            self._refused(one.path, error)
            return
        for said in (said for line in lines if works_switch(line) for said in tellings(line)):
            place, is_on = f"{one.unit.called}: {said.output}", TRUTHS.get(said.value.upper())
            if is_on is True and not one.is_last:
                self._on[place] = None
            elif is_on is False and one.is_last:
                self._on.pop(place, None)

    def spend(self) -> None:
        """Hold all that is sent to what the owners allow; once everything was judged."""
        for sent in self._sent:
            one = sent.judged
            if one.path in self._judged:
                continue
            steps, every_s = self._steps_of_ramp(sent)
            again = int(min((sent.count - 1) * steps, MOST_SENT))
            pass_s = self._pass_s.get(sent.loop, 0.0)
            try:
                self._bench.spend(one, sent.at_s, steps, every_s)
                if again > 0:
                    self._bench.spend(one, sent.at_s + pass_s, again, pass_s / steps)
            except EdgedError as error:
                self._judged.add(one.path)
                self._refused(one.path, error)

    def _steps_of_ramp(self, sent: Spending) -> tuple[int, float]:
        """How many steps one ramp has at the most, and seconds between two; else 1.

        From where a unit stands before the first one is known only while it runs.
        """
        command, unit = sent.judged.command, sent.judged.unit
        if not sent.rate or command.sweep is None:
            return 1, 0.0
        ramp_s = sent.ramp_s
        if ramp_s is None:
            # A set-point that another command has set begins there.
            set_anywhere = (
                asked.parameters.get(command.sweep.parameter, ())
                for asked in self._envelope.values()
                if asked.unit == unit.id
            )
            numbers = [one for values in set_anywhere for one in values if not isinstance(one, str)]
            ramp_s = (max(numbers) - min(numbers)) / sent.rate if numbers else 0.0
        every_s = command.sweep.interval_ms / 1000
        return max(1, min(math.ceil(ramp_s / every_s), MOST_SENT)), every_s

    def result(self) -> Checked | None:
        """What may start; ``None`` where there are problems."""
        if self.problems:
            return None
        plan = self._plan
        return Checked(
            experiment=plan,
            units=self._units,
            values=self._values,
            columns=tuple(self._columns.values()),
            loops=self._loops,
            points=(int(self._points[0]), int(self._points[1])),
            duration=self._span,
            envelope=tuple(self._envelope.values()),
            bounded=self._bounded(),
            later=(*self._later, *_not_again(plan)),
            left_on=tuple(self._on),
            is_asking=any(isinstance(step, AskStep) for step in walk(plan.steps)),
        )

    def _bounded(self) -> dict[tuple[str, str, str], tuple[float, float]]:
        found = {}
        for name, ends in self._plan.bounds.items():
            role, command, parameter = name.split(".")
            found[self._units[role].id, command, parameter] = ends
        return found

    # Problems

    def _add(
        self, path: str, code: str, message: str, remedy: str = "", near: Iterable[str] = ()
    ) -> None:
        if len(self.problems) < MOST_PROBLEMS:
            problem = Problem(
                path=path, code=code, message=message, remedy=remedy, near=tuple(near)
            )
            if problem not in self.problems:
                self.problems.append(problem)

    def _refused(self, path: str, error: EdgedError) -> None:
        self._add(path, error.code.value, error.message, error.remedy)

    # Roles and parameters

    def _check_roles(self) -> None:
        for role in self._roles:
            if role not in self._plan.roles:
                self._add(f"roles.{role}", "unknown_role", f"there is no role {role}.",
                          near=close(role, self._plan.roles))  # fmt: skip
        for key in ("with", "on_missing"):
            given = self._plan.given if key == "with" else self._plan.on_missing
            for role in given:
                if role not in self._plan.roles:
                    near = close(role, self._plan.roles)
                    self._add(f"{key}.{role}", "unknown_role", f"there is no role {role}.",
                              near=near)  # fmt: skip
        for name in self._plan.bounds:
            self._check_bound(name)

    def _check_bound(self, name: str) -> None:
        role, called, parameter = name.split(".")
        target = Target(role=role, command=called, member=parameter)
        found = self._command(target, f"bounds.{name}")
        if found is not None and parameter not in found[1].parameters:
            near = close(parameter, found[1].parameters)
            remedy = f"Write {role}.{called}.{near[0]}." if near else ""
            message = f"{called} has no parameter {parameter}."
            self._add(f"bounds.{name}", "unknown_parameter", message, remedy, near)

    def _parameters(self) -> dict[str, Scalar]:
        found: dict[str, Scalar] = {}
        known = self._plan.parameters
        for name in self._given:
            if name not in known:
                near = close(name, known)
                self._add(f"parameters.{name}", "unknown_parameter",
                          f"the experiment has no parameter {name}.", near=near)  # fmt: skip
        for name, parameter in known.items():
            value = self._given.get(name, parameter.default)
            why = _why_unfit(value, parameter)
            if why:
                self._add(f"parameters.{name}", "bad_parameter", why)
                # With its default, so that what uses it is no error as well.
                value = parameter.default
            if value is not None:
                found[name] = value
        return found

    def _command(self, target: Target, path: str) -> tuple[RoleUnit, Command] | None:
        if target.role not in self._plan.roles:
            near = close(target.role, self._plan.roles)
            remedy = f"Write {near[0]}.{target.command}." if near else "Add it to roles."
            self._add(path, "unknown_role", f"{target.text}: there is no role {target.role}.",
                      remedy, near)  # fmt: skip
            return None
        unit = self._units.get(target.role)
        if unit is None:
            return None
        command = unit.commands.get(target.command)
        if command is None:
            near = close(target.command, unit.commands)
            remedy = f"Write {target.role}.{near[0]}." if near else ""
            message = f"{target.text}: {unit.called} has no such command."
            self._add(path, "unknown_command", message, remedy, near)
            return None
        return unit, command

    # Steps

    def _steps(
        self,
        steps: tuple[Step, ...],
        names: Names,
        loops: tuple[str, ...],
        times: Times,
    ) -> Span:
        """Judge steps in order; ``names`` learns what they give a value."""
        span, begins_s = Span(), self._at_s
        for step in steps:
            span = span.plus(self._step(step, names, loops, times))
            self._at_s = begins_s + span.least
        self._at_s = begins_s
        return span

    def _last_steps(
        self, steps: tuple[Step, ...], names: Names, loops: Loops, times: Times
    ) -> Span:
        """Those of ``finally``."""
        before, self._is_last = self._is_last, True
        span = self._steps(steps, names, loops, times)
        self._is_last = before
        return span

    def _step(self, step: Step, names: Names, loops: Loops, times: Times) -> Span:
        match step:
            case CommandStep():
                return self._command_step(step, names, times)
            case WaitStep(wait_ms=wait_ms):
                low, high = self._range(wait_ms, f"{step.path}.wait_s", names)
                return Span(least=low / 1000, likely=high / 1000, most=high / 1000)
            case PollStep():
                self._reading(step.target, f"{step.path}.poll", names, UNCOUNTED)
                self._condition(step.until, f"{step.path}.until", {**names, "value": UNKNOWN})
                return Span(most=step.timeout_ms / 1000, likely=step.every_ms / 1000)
            case RowStep(columns=columns):
                for name, value in columns.items():
                    self._names(value, f"{step.path}.row.{name}", names)
                    self._column(name, "", loops, f"{step.path}.row.{name}")
                self._count_rows(times)
                return Span()
            case ReadStep(read=read):
                return self._readings(step, "read", read, names, None, times)
            case MeasureStep(measure=measure):
                self._count_rows(times)
                return self._readings(step, "measure", measure, names, loops, times)
            case RampStep():
                return self._ramp_step(step, names, times)
            case SettleStep():
                return self._settle_step(step, names)
            case IfStep():
                return self._if_step(step, names, loops, times)
            case LetStep(let=let):
                self._let_step(step, let, names, loops)
                return Span()
            case CheckStep():
                self._names(step.value, f"{step.path}.value", names)
                self._numbers(step, ("min", "max", "near"), names)
                return Span()
            case AskStep():
                self._ask_step(step, names)
                return Span(most=step.timeout_s, likely=5.0)
            case ForStep():
                return self._for_step(step, names, loops, times)
            case RepeatStep():
                return self._repeat_step(step, names, loops, times)
            case LeaveStep():
                return Span()
            case _:
                span = Span()
                for part in step.inner:
                    span = span.plus(self._steps(part, names, loops, times))
                return span

    def _column(self, name: str, unit: str, loops: Loops, path: str) -> None:
        """A column of the data; its name must be free."""
        if name in OWN_COLUMNS or name.removeprefix("n_") in self._loops or name in self._loops:
            self._add(path, "reserved", f"the data have a column {name} already.",
                      f"Call it {name}_.")  # fmt: skip
        self._columns.setdefault(name, DataColumn(name=name, unit=unit, loops=loops))

    def _count_rows(self, times: Times) -> None:
        self._points[0] += times[0]
        self._points[1] += times[1]

    def _command_step(self, step: CommandStep, names: Names, times: Times) -> Span:
        target = step.target
        found = self._command(target, f"{step.path}.command")
        if step.save_as:
            names[step.save_as] = UNKNOWN
        if found is None:
            return Span()
        unit, command = found
        if step.save_as:
            for member, of in answer_members(command).items():
                names[f"{step.save_as}_{member}"] = Known(unit=of)
            if not command.is_query:
                self._add(f"{step.path}.as", "no_answer", f"{command.name} answers nothing.")
        given = self._arguments(target, command, step.path, names, ())
        if given is not None:
            self._judge_all(step.path, target, unit, command, given, names, times)
        return self._spoken(unit, command)

    def _arguments(
        self, target: Target, command: Command, path: str, names: Names, also: tuple[str, ...]
    ) -> dict[str, Value] | None:
        """All that the command is given, its names known; ``None`` where something is wrong."""
        before = len(self.problems)
        given = arguments_of(self._plan, target, command)
        for name, value in target.parameters.items():
            where = f"{path}.parameters.{name}"
            if name not in command.parameters:
                near = close(name, command.parameters)
                remedy = f"Write {near[0]}." if near else ""
                message = f"{command.name} has no parameter {name}."
                self._add(where, "unknown_parameter", message, remedy, near)
            self._names(value, where, names)
        optional = optional_names(command.scpi)
        for name, parameter in command.parameters.items():
            is_given = name in given or name in also
            if not is_given and parameter.default is None and name not in optional:
                remedy = f"Add it to parameters, or add with: {{{target.role}: {{{name}: …}}}}."
                self._add(path, "missing_parameter", f"{command.name} needs {name}.", remedy)
        return given if len(self.problems) == before else None

    def _judge_all(
        self,
        path: str,
        target: Target,
        unit: RoleUnit,
        command: Command,
        given: Mapping[str, Value],
        names: Names,
        times: Times,
        *,
        rate: float | None = None,
        ramp_s: float | None = None,
    ) -> None:
        """Judge a command with every value that its arguments can have."""
        choices: dict[str, tuple[Scalar, ...]] = {}
        ranged = set()
        for name, value in given.items():
            found = self._possible(path, target, command, name, value, names)
            if found is None:
                return
            choices[name] = found
            is_known = all(names[one].is_known for one in names_in(value) if one in names)
            is_ramped = rate is not None and command.sweep and command.sweep.parameter == name
            if is_ramped or not is_known:
                ranged.add(name)
        self._note(unit, command, choices, rate, times[1])
        combinations = math.prod(map(len, choices.values()))
        if combinations > MOST_COMBINATIONS:
            choices = {name: _extremes(values) for name, values in choices.items()}
            ranged |= set(choices)
        judged: Judgement | None = None
        for values in itertools.product(*choices.values()):
            flags = (rate is not None, self._is_last)
            key = (unit.id, command.name, *flags, *zip(choices, values, strict=True), *ranged)
            found_before = self.to_judge.setdefault(
                key,
                Judgement(
                    path=path,
                    unit=unit,
                    command=command,
                    values=dict(zip(choices, values, strict=True)),
                    is_step=rate is not None,
                    is_last=self._is_last,
                    ranged=frozenset(ranged),
                ),
            )
            judged = judged or found_before
        if judged is not None and command.is_write and not self._is_last:
            sent = Spending(
                judged=judged,
                at_s=self._at_s,
                count=times[1],
                loop=self._loop,
                rate=rate,
                ramp_s=ramp_s,
            )
            self._sent.append(sent)
        if len(self.to_judge) > MOST_JUDGED:
            self._add(path, "too_large", f"the plan has more than {MOST_JUDGED:,} different values "
                      "to judge.", "Use ranges ({lin: …}) for set-points.")  # fmt: skip

    def _possible(
        self, path: str, target: Target, command: Command, name: str, value: Value, names: Names
    ) -> tuple[Scalar, ...] | None:
        """All values that an argument can have; ``None`` where that is not bounded."""
        used = [one for one in names_in(value) if one in names]
        unknown = [one for one in used if not names[one].is_known]
        key = f"{target.role}.{target.command}.{name}"
        if unknown:
            bound = self._plan.bounds.get(key)
            if bound is not None:
                return bound if bound[0] != bound[1] else bound[:1]
            parameter = command.parameters[name]
            if parameter.type in {ParameterType.ENUM, ParameterType.BOOL}:
                return parameter.options or (True, False)
            self._add(
                path,
                "needs_bounds",
                f"{key} hangs on {', '.join(unknown)}, which is known only while it runs.",
                f"Add to the plan: bounds: {{{key}: [lowest, highest]}}.",
            )
            return None
        ranges = [names[one].values or (names[one].value,) for one in used]
        found: dict[Scalar, None] = {}
        try:
            if math.prod(map(len, ranges)) > MOST_WORKED_OUT:
                self._add(path, "too_large", f"{value} has more than {MOST_WORKED_OUT:,} values.",
                          "Let it hang on fewer loops.")  # fmt: skip
                return None
            for values in itertools.product(*ranges):
                here = {n: v for n, v in zip(used, values, strict=True) if v is not None}
                worked = fill(value, dict(here))
                if worked is not None:
                    found[worked] = None
        except Invalid as error:
            self._refused(path, error)
            return None
        return tuple(found)

    def _note(
        self,
        unit: RoleUnit,
        command: Command,
        choices: Mapping[str, tuple[Scalar, ...]],
        rate: float | None,
        times: float,
    ) -> None:
        """A part of the envelope."""
        if not command.is_write:
            return
        key = (unit.id, command.name, rate is not None)
        asked = self._envelope.setdefault(
            key, Asked(unit=unit.id, command=command.name, parameters={})
        )
        asked.count += times
        asked.is_last = asked.is_last or self._is_last
        asked.rate = rate if asked.rate is None else max(asked.rate, rate or 0.0)
        for name, values in choices.items():
            known = asked.parameters.get(name, ())
            asked.parameters[name] = tuple(dict.fromkeys((*known, *_few(values))))

    def _spoken(self, unit: RoleUnit, command: Command) -> Span:
        took = unit.spoken_s.get(command.name, CALL_S)
        return Span(likely=took, most=10 * took)

    def _reading(
        self, target: Target, path: str, names: Names, times: Times = (1, 1)
    ) -> tuple[RoleUnit, Command] | tuple[None, None]:
        """A query whose answer is used as one value."""
        found = self._command(target, path)
        if found is None:
            return None, None
        unit, command = found
        if not command.is_query:
            self._add(path, "no_answer", f"{target.text}: {command.name} answers nothing.")
            return None, None
        members = answer_members(command)
        if members and target.member not in members:
            near = close(target.member, members)
            remedy = f"Write {target.role}.{target.command}.{(near or list(members))[0]}."
            what = f"no field {target.member}" if target.member else "several fields"
            self._add(path, "unknown_field", f"the answer of {command.name} has {what}: "
                      f"{', '.join(list(members)[:12])}.", remedy, near)  # fmt: skip
        elif target.member and not members:
            self._add(path, "unknown_field", f"the answer of {command.name} is one value.",
                      f"Write {target.role}.{target.command}.")  # fmt: skip
        if isinstance(command.returns, WaveformAnswer | ImageAnswer | ListAnswer):
            self._add(path, "no_value", f"the answer of {command.name} is not one value.")
        given = self._arguments(target, command, path, names, ())
        if given is not None:
            self._judge_all(path, target, unit, command, given, names, times)
        return unit, command

    def _readings(
        self,
        step: Step,
        key: str,
        read: Mapping[str, Target],
        names: Names,
        loops: Loops | None,
        times: Times,
    ) -> Span:
        spans: dict[str, Span] = {}
        known = dict(names)
        for name, target in read.items():
            tries = self._plan.on_missing.get(target.role, ONCE).tries
            often = (times[0], times[1] * tries)
            unit, command = self._reading(target, f"{step.path}.{key}.{name}", known, often)
            of = answer_unit(command, target.member) if command is not None else ""
            names[name] = Known(unit=of)
            if loops is not None:
                self._column(name, of, loops, f"{step.path}.{key}.{name}")
            if unit is not None and command is not None:
                here = spans.get(unit.id, Span())
                spans[unit.id] = here.plus(self._spoken(unit, command))
        return max(spans.values(), key=lambda span: span.likely, default=Span())

    def _moved(
        self, target: Target, path: str, names: Names, rate: Value | None
    ) -> tuple[RoleUnit, Command, Parameter, dict[str, Value], float | None] | None:
        """A set-point and what else its command is given; ``None`` where something is wrong."""
        found = self._command(target, path)
        if found is None:
            return None
        unit, command = found
        parameter = set_parameter(target, command, arguments_of(self._plan, target, command))
        if parameter is None:
            near = list(command.parameters)
            remedy = f"Write {target.role}.{target.command}.{near[0]}." if near else ""
            message = f"{target.text}: which parameter is set cannot be known."
            self._add(path, "unknown_parameter", message, remedy, near)
            return None
        plain = Target(role=target.role, command=target.command, parameters=target.parameters)
        given = self._arguments(plain, command, path, names, (parameter.name,))
        speed = None if rate is None else self._range(rate, f"{path}.rate", names)[1]
        fastest = self._bench.fastest(unit, command)
        if rate is None and (command.requires_sweep or fastest is not None):
            bound = f" of at most {fastest:g}" if fastest is not None else ""
            self._add(path, "needs_rate", f"{target.text} may only be ramped.",
                      f"Add rate: to it, a rate{bound}.")  # fmt: skip
            return None
        if rate is not None and (
            command.sweep is None or command.sweep.parameter != parameter.name
        ):
            self._add(path, "no_sweep", f"{target.text} cannot be ramped: its profile says no "
                      "set-point query.", "Leave rate out.")  # fmt: skip
            return None
        if speed is not None and (speed <= 0 or (fastest is not None and speed > fastest)):
            why = f"over the owner's {fastest:g}" if fastest and speed > fastest else "not above 0"
            self._add(f"{path}.rate", "out_of_range", f"the rate {speed:g} is {why}.")
            return None
        return None if given is None else (unit, command, parameter, given, speed)

    def _ramp_step(self, step: RampStep, names: Names, times: Times) -> Span:
        path = f"{step.path}.ramp"
        self._names(step.to, f"{step.path}.to", names)
        moved = self._moved(step.ramp, path, names, step.rate)
        if moved is None:
            return Span()
        unit, command, parameter, given, speed = moved
        given = {**given, parameter.name: step.to}
        self._judge_all(path, step.ramp, unit, command, given, names, times, rate=speed or 1.0)
        reach = (parameter.max or 0) - (parameter.min or 0) if parameter.max is not None else 0.0
        return Span(most=reach / speed if speed else 0.0)

    def _settle_step(self, step: SettleStep, names: Names) -> Span:
        self._reading(step.settle, f"{step.path}.settle", names, UNCOUNTED)
        self._numbers(step, ("drift", "target", "within"), names)
        if step.timeout_s < step.for_s:
            self._add(f"{step.path}.timeout_s", "impossible",
                      f"within {step.timeout_s:g} s it cannot stand still for {step.for_s:g} s.",
                      f"Set timeout_s above {step.for_s:g}.")  # fmt: skip
        elif step.for_s < 2 * step.every_s:
            self._add(f"{step.path}.every_s", "impossible",
                      f"for_s {step.for_s:g} has no three readings every {step.every_s:g} s.",
                      f"Set every_s to {step.for_s / 2:g} or less.")  # fmt: skip
        return Span(least=step.for_s, likely=2 * step.for_s, most=step.timeout_s)

    def _if_step(self, step: IfStep, names: Names, loops: Loops, times: Times) -> Span:
        self._condition(step.condition, f"{step.path}.if", names)
        ways = []
        spans = []
        for part in (step.then, step.otherwise):
            way = dict(names)
            spans.append(self._steps(part, way, loops, (0, times[1])))
            ways.append(way)
        for name in {**ways[0], **ways[1]}:
            found = [way.get(name) for way in ways]
            if None in found:
                names[name] = Known(is_certain=False)
            elif found[0] != found[1]:
                is_certain = all(one is not None and one.is_certain for one in found)
                names[name] = Known(is_certain=is_certain)
            else:
                names[name] = found[0] or UNKNOWN
        return Span(
            least=min(span.least for span in spans),
            likely=max(span.likely for span in spans) / 2,
            most=max(span.most for span in spans),
        )

    def _let_step(
        self, step: LetStep, let: Mapping[str, Value], names: Names, loops: tuple[str, ...]
    ) -> None:
        for name, value in let.items():
            self._names(value, f"{step.path}.let.{name}", names)
            names[name] = UNKNOWN
            used = names_in(value)
            if name in self._changing or loops or not all(
                one in names and names[one].value is not None for one in used
            ):  # fmt: skip
                continue
            try:
                here = {one: known for one in used if (known := names[one].value) is not None}
                names[name] = Known(value=fill(value, dict(here)))
            except Invalid as error:
                self._refused(f"{step.path}.let.{name}", error)

    def _ask_step(self, step: AskStep, names: Names) -> None:
        names[step.name] = UNKNOWN
        try:
            pieces = list(string.Formatter().parse(step.text))
        except ValueError as error:
            self._add(f"{step.path}.text", "grammar", f"the text is no template: {error}.")
            return
        for _, expression, _, _ in pieces:
            if expression:
                self._names(f"{{{expression}}}", f"{step.path}.text", names)

    def _for_step(self, step: ForStep, names: Names, loops: Loops, times: Times) -> Span:
        values = self._values_of(step, names)
        least, most = self._passes(step, values, names)
        is_certain = not _can_leave(step)
        moved = None
        if step.set is not None:
            moved = self._moved(step.set, f"{step.path}.set", names, step.rate)
        unit_of = moved[2].unit if moved is not None else ""
        self._loops[step.name] = (most, unit_of, values)
        here = dict(names)
        here[step.name] = Known(values=values, unit=unit_of)
        inside = (times[0] * least if is_certain else times[0], times[1] * most)
        if moved is not None and step.set is not None:
            unit, command, parameter, given, speed = moved
            given = {**given, parameter.name: f"{{{step.name}}}"}
            rate = speed if step.rate is not None else None
            way_s = _way(values, rate, is_snake=step.is_snake).most / max(1, len(values or ()))
            self._judge_all(f"{step.path}.set", step.set, unit, command, given, here, inside,
                            rate=rate, ramp_s=way_s if values else None)  # fmt: skip
        low, high = self._range(step.wait_s, f"{step.path}.wait_s", here)
        span = self._pass(step, here, loops, inside, low)
        if step.unit is not None:
            self._names(step.unit, f"{step.path}.unit", here)
        ended = here if step.unit is not None else dict(names)
        often = times if step.unit is None else inside
        last = self._last_steps(step.finally_steps, dict(ended), loops, often)
        _leave_loop(names, here, step.name, is_certain=is_certain)
        span = span.plus(Span(least=low, likely=high, most=high)).times(least, most)
        return span.plus(_way(values, moved[4] if moved else None, is_snake=step.is_snake)).plus(
            last
        )

    def _pass(
        self, loop: ForStep | RepeatStep, names: Names, loops: Loops, times: Times, wait_s: float
    ) -> Span:
        """The steps of a loop, once; ``wait_s`` at the least before them."""
        around, self._loop = self._loop, loop.name
        self._at_s += wait_s
        span = self._steps(loop.steps, names, (*loops, loop.name), times)
        self._at_s -= wait_s
        self._loop = around
        # A loop that is left early begins again sooner, in the next pass of the loop around it.
        self._pass_s[loop.name] = 0.0 if _can_leave(loop) else span.least + wait_s
        return span

    def _passes(
        self, step: ForStep, values: tuple[Scalar, ...] | None, names: Names
    ) -> tuple[int, int]:
        """How often a loop passes, at the least and at the most."""
        if values is not None or step.kind == "list":
            count = len(step.values if values is None else values)
            return count, count
        known = [names[one].value for one in names_in(step.values[-1]) if one in names]
        if None in known:
            return 1, MOST_VALUES
        count = int(self._range(step.values[-1], f"{step.path}.in", names)[1])
        return max(1, count), max(1, count)

    def _values_of(self, step: ForStep, names: Names) -> tuple[Scalar, ...] | None:
        path = f"{step.path}.in"
        if not all(self._names(value, path, names) for value in step.values):
            return None
        used = {one for value in step.values for one in names_in(value)}
        if not all(names[one].value is not None for one in used):
            self._later[f"{path}: the values of {step.name}"] = None
            return None
        try:
            return loop_values(step, {one: names[one].value for one in used})
        except Invalid as error:
            self._refused(path, error)
            return None

    def _repeat_step(self, step: RepeatStep, names: Names, loops: Loops, times: Times) -> Span:
        here = dict(names)
        self._loops[step.name] = (step.at_most, "", None)
        inside = (times[0], times[1] * step.at_most)
        here[step.name] = UNKNOWN
        span = self._pass(step, here, loops, inside, 0.0)
        self._condition(step.until, f"{step.path}.until", here)
        _leave_loop(names, here, step.name, is_certain=not _can_leave(step))
        self._later[f"{step.path}: how often {step.name} is repeated"] = None
        return span.times(1, step.at_most)

    # Names

    def _names(self, value: Value | None, path: str, names: Names) -> bool:
        """Whether every name of a value has one here; a problem where it has not."""
        if value is None:
            return True
        if (
            isinstance(value, str)
            and "{" in value
            and expression_text(value, is_bare=False) is None
        ):
            self._add(path, "grammar", f"{value!r} is a text as it stands, and no expression.",
                      "Write an expression as the whole value: \"{…}\".")  # fmt: skip
            return False
        is_good = True
        for name in sorted(names_in(value)):
            found = names.get(name)
            if found is not None and found.is_certain:
                continue
            is_good = False
            if found is not None:
                self._add(path, "no_value", f"{name} has no value on every way to here.",
                          f"Give it one before: - let: {{{name}: 0}}.")  # fmt: skip
            else:
                near = close(name, names)
                remedy = f"Write {near[0]}." if near else ""
                self._add(path, "no_value", f"{name} has no value here.", remedy, near)
        return is_good

    def _condition(self, text: str, path: str, names: Names) -> None:
        if text:
            self._names(f"{{{text}}}", path, names)

    def _numbers(self, step: Step, keys: tuple[str, ...], names: Names) -> None:
        """What of a step must be a number, where it is known."""
        for key in keys:
            if (value := getattr(step, key)) is not None:
                self._range(value, f"{step.path}.{key}", names)

    def _range(self, value: Value, path: str, names: Names) -> tuple[float, float]:
        """The least and the greatest that a number can be; 0 where that is not known."""
        if not self._names(value, path, names):
            return 0.0, 0.0
        used = list(names_in(value))
        if any(not names[one].is_known for one in used):
            self._later[f"{path}: {value}"] = None
            return 0.0, 0.0
        ranges = [_extremes(names[one].values or (names[one].value or 0,)) for one in used]
        try:
            found = [
                number(worked, {}, "the value")
                for values in itertools.product(*ranges)
                if (worked := fill(value, dict(zip(used, values, strict=True)))) is not None
            ]
        except Invalid as error:
            self._refused(path, error)
            return 0.0, 0.0
        return (min(found), max(found)) if found else (0.0, 0.0)

    def _check_plots(self) -> None:
        known = {*self._columns, *self._loops, *self._plan.logs, "elapsed_s"}
        for at, plot in enumerate(self._plan.plots):
            for key in ("map", "line", "x", "y"):
                name = getattr(plot, key)
                if name and name not in known:
                    near = close(name, known)
                    self._add(f"plots[{at}].{key}", "unknown_column", f"there is no column {name}.",
                              f"Write {near[0]}." if near else "", near)  # fmt: skip

    def _check_duration(self) -> None:
        """The shortest that it can take is not over the longest that it may take."""
        given, least_h = self._plan.at_most_h, self._span.least / 3600
        hours = LONGEST_H if given is None else given
        if least_h > hours:
            most = f"{math.ceil(1.1 * least_h * 100) / 100:g}"
            remedy = f"Set at_most_h to {most} or more."
            message = f"it takes {least_h:.3g} h at the least, and may take {hours:g} h."
            self._add("at_most_h", "impossible", message, remedy)

    def _check_report(self) -> None:
        """Files of verdicts need something that is judged."""
        report, steps = self._plan.report, tuple(walk(self._plan.steps))
        if report is None or any(
            isinstance(step, CheckStep)
            or (isinstance(step, AskStep) and step.type is AskType.PASS_FAIL)
            for step in steps
        ):
            return
        for form in report.formats:
            if form != "html":
                message = f"{form} is of checks, and the plan has none."
                remedy = f"Leave {form} out, or add a step check."
                self._add("report.formats", "no_checks", message, remedy)

    def _check_resume(self) -> None:
        resume = self._plan.resume
        if resume is None:
            return
        way = way_to(self._plan.steps, resume.at)
        of_units = (one for one in way[:-1] if isinstance(one, ForStep) and one.unit is not None)
        if not way:
            self._add("resume.at", "unknown_loop",
                      f"{resume.at} stands in finally, which is not repeated.",
                      "Write a loop of steps.")  # fmt: skip
        for loop in of_units:
            self._add("resume.at", "inside_unit",
                      f"{resume.at} stands inside of the units of {loop.name}, and a unit that was "
                      "interrupted is tested again as a whole.",
                      f"Write {loop.name}.", (loop.name,))  # fmt: skip


def close(word: str, known: Iterable[str]) -> tuple[str, ...]:
    """At most three known words that resemble this one."""
    import difflib  # for those who mistyped

    return tuple(difflib.get_close_matches(word[:64], sorted(known), n=3, cutoff=CLOSE))


def answer_unit(command: Command | None, member: str) -> str:
    """The unit of measure of a value that is read."""
    if command is None:
        return ""
    members = answer_members(command)
    if members:
        return members.get(member, "")
    return command.returns.unit if isinstance(command.returns, ScalarAnswer) else ""


def _extremes(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Of numbers the smallest and the largest; of all else every one."""
    if len(values) < 3 or any(isinstance(value, bool | str) for value in values):
        return values
    return min(values), max(values)


def _few(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """All of them, or of many numbers the smallest and the largest."""
    return values if len(values) <= MOST_SHOWN else _extremes(values)


def _not_again(plan: Experiment) -> Iterator[str]:
    """What a resume does not do again, and may have to."""
    if plan.resume is not None:
        skipped = [
            step.path
            for step in before(plan.steps, plan.resume.at)
            if any(isinstance(one, CommandStep | RampStep) for one in walk((step,)))
        ]
        if skipped:
            yield f"resume: {', '.join(skipped)} would not be done again; only first steps are"


def _changing(experiment: Experiment) -> frozenset[str]:
    """Names that are given a value more than once, so that nobody can say which they have."""
    count: dict[str, int] = {}
    for step in walk((*experiment.steps, *experiment.finally_steps)):
        match step:
            case LetStep(let=names) | ReadStep(read=names) | MeasureStep(measure=names):
                given: Iterable[str] = names
            case AskStep(name=name) | ForStep(name=name):
                given = (name,)
            case CommandStep(save_as=name) if name:
                given = (name,)
            case _:
                continue
        for name in given:
            count[name] = count.get(name, 0) + 1
    return frozenset(name for name, times in count.items() if times > 1)


def _can_leave(loop: ForStep | RepeatStep) -> bool:
    """Whether a pass may end before its last step."""
    if isinstance(loop, ForStep) and (loop.on_error != "abort" or loop.unit is not None):
        return True
    return any(
        isinstance(step, LeaveStep)
        or getattr(step, "on_timeout", None) == "end"
        or getattr(step, "on_timeout", None) == "end_unit"
        for step in walk(loop.steps)
    )


def _leave_loop(names: Names, here: Names, loop: str, *, is_certain: bool) -> None:
    """What is known behind a loop of what was given a value in it."""
    for name, found in here.items():
        if name == loop:
            continue
        if name not in names:
            names[name] = Known(unit=found.unit, is_certain=is_certain and found.is_certain)
        elif names[name] != found:
            known = names[name]
            names[name] = Known(unit=found.unit, is_certain=known.is_certain)


def _way(values: tuple[Scalar, ...] | None, speed: float | None, *, is_snake: bool) -> Span:
    """What moving from value to value takes at least, the way back included."""
    numbers = [v for v in values or () if isinstance(v, int | float) and not isinstance(v, bool)]
    if not speed or len(numbers) < 2:
        return Span()
    way = sum(abs(b - a) for a, b in itertools.pairwise(numbers)) / speed
    back = 0.0 if is_snake else abs(numbers[-1] - numbers[0]) / speed
    return Span(least=way, likely=way + back, most=way + back)


def _why_unfit(value: Any, parameter: Parameter) -> str:
    """Why a parameter of the experiment cannot be this; empty where it can."""
    name = parameter.name
    if value is None:
        return f"{name} has no default, so the start must give it."
    if parameter.type in {ParameterType.FLOAT, ParameterType.INT}:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not math.isfinite(value):
            return f"{name} is {value!r}, which is not a number."
        if parameter.type is ParameterType.INT and value != int(value):
            return f"{name} is {value:g}, which is not a whole number."
        low, high = parameter.min, parameter.max
        if (low is not None and value < low) or (high is not None and value > high):
            return f"{name} is {value:g}; it goes from {low} to {high}."
        return ""
    if parameter.type is ParameterType.BOOL:
        return "" if isinstance(value, bool) else f"{name} is {value!r}, neither true nor false."
    if not isinstance(value, str):
        return f"{name} is {value!r}, which is not a text."
    if parameter.options and value not in parameter.options:
        return f"{name} is {value!r}; it is one of {', '.join(parameter.options)}."
    return ""
