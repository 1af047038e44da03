"""The check of a plan against a bench, before anything is sent: every error at once. Pure.

Loops are judged by their distinct (command, values), not pass by pass: a map of 861 points is 62
judgements. A value that hangs on an answer, or is worked out again in a loop, is judged by the ends
of its ``bounds``; without them it is an error, with the line to add.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping
from typing import Any, Final

from edged.errors import EdgedError, Invalid
from edged.experiments.beside_steps import check_plots, check_report, check_resume, not_again
from edged.experiments.checked import (
    LONGEST_H,
    BenchView,
    Checked,
    DataColumn,
    Judgement,
    RoleUnit,
    Span,
)
from edged.experiments.contradictions import check_limits, check_question, check_window
from edged.experiments.model import (
    AskStep,
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
)
from edged.experiments.problem import Problem, Problems, close
from edged.experiments.scope import (
    UNCOUNTED,
    UNKNOWN,
    Known,
    Loops,
    Names,
    Scope,
    Times,
    can_leave,
    changing,
    leave_loop,
    why_unfit,
)
from edged.experiments.sending import Sending
from edged.experiments.targets import Targets, answer_members, answer_unit
from edged.profiles.expr import names_in
from edged.profiles.model import (
    Command,
    CommandStep,
    ForStep,
    PollStep,
    RowStep,
    Step,
    Target,
    WaitStep,
    walk,
)
from edged.profiles.step_values import MOST_VALUES, loop_values
from edged.yaml.tree import Scalar

OWN_COLUMNS: Final = frozenset({"attempt", "elapsed_s", "flags"})
OWN_TABLES: Final = frozenset({"data", "checks"})
CALL_S: Final = 0.02
"""What a command likely takes that nobody has timed yet."""
NO_TRIES: Final = OnMissing()


class PlanCheck:
    """One check: ``bind``, ``look_through``, ``judge`` for each of ``to_judge``, ``result``.

    Args:
        experiment: what is checked.
        bench: where it is to run.
        roles: role → unit, in place of those that the file names.
        parameters: name → value, in place of the defaults.
        unread: words of what of the plan could not be read.
    """

    def __init__(
        self,
        experiment: Experiment,
        bench: BenchView,
        roles: Mapping[str, str],
        parameters: Mapping[str, Any],
        unread: Collection[str] = (),
    ) -> None:
        self._plan = experiment
        self._bench = bench
        self._roles = roles
        self._given = parameters
        self._found = Problems(unread=set(unread))
        self._scope = Scope(found=self._found)
        self._sending = Sending(experiment, bench, self._found)
        self._targets = Targets(
            plan=experiment,
            bench=bench,
            found=self._found,
            scope=self._scope,
            sending=self._sending,
        )
        self._columns: dict[str, DataColumn] = {}
        self._loops: dict[str, tuple[int, str, tuple[Scalar, ...] | None]] = {}
        self._points = [0.0, 0.0]
        self._span = Span()
        self._values: dict[str, Scalar] = {}
        self._changing = changing(experiment)
        self._unit_loops: set[str] = set()

    @property
    def problems(self) -> tuple[Problem, ...]:
        """All that was found to be wrong."""
        return tuple(self._found.problems)

    @property
    def to_judge(self) -> tuple[Judgement, ...]:
        """What the bench has to be asked about, once all was looked through."""
        return tuple(self._sending.to_judge.values())

    def judge(self, one: Judgement) -> None:
        """Ask the bench; of each place one problem is enough."""
        self._sending.judge(one)

    def spend(self) -> None:
        """Hold all that is sent to what the owners allow; once everything was judged."""
        self._sending.spend()

    def bind(self) -> None:
        """Find the units of the roles. Asks the bench, so it belongs to the loop."""
        for role, written in self._plan.roles.items():
            if not (named := self._roles.get(role, written)):
                continue
            try:
                self._targets.units[role] = self._bench.unit(named)
            except EdgedError as error:
                self._found.refused(f"roles.{role}", error)

    def look_through(self) -> None:
        """Everything but the judgements, which are in ``to_judge`` then. May take a second."""
        values = self._values = self._parameters()
        self._check_roles()
        plan = self._plan
        names: Names = {
            name: UNKNOWN if name in self._changing else Known(value=value)
            for name, value in values.items()
        }
        certain = dict(names)
        span = self._steps(plan.steps, names, (), (1, 1))
        self._span = span.plus(self._last_steps(plan.finally_steps, dict(certain), (), (1, 1)))
        for steps in (plan.on_pause, plan.on_resume):
            # Nobody knows how often it is paused.
            counted, sent = list(self._points), len(self._sending.sent)
            self._steps(steps, dict(names), (), UNCOUNTED)
            self._points, self._sending.sent[sent:] = counted, []
        tables = set(OWN_TABLES)
        for name, log in plan.logs.items():
            # Some file systems know no capital letters.
            is_taken = name.lower() in tables
            tables.add(name.lower())
            if is_taken:
                self._found.add(
                    f"log.{name}",
                    "reserved",
                    f"the data have a file {name}.csv already.",
                    f"Call it {name}_.",
                )
            self._targets.reading(log.command, f"log.{name}", certain, UNCOUNTED)
        for at, watch in enumerate(plan.watches):
            path = f"watch[{at}]"
            self._targets.reading(watch.read, f"{path}.read", certain, UNCOUNTED)
            self._scope.condition(watch.must, f"{path}.must", {**certain, "value": UNKNOWN})
            self._scope.condition(watch.again, f"{path}.again", {**certain, "value": UNKNOWN})
        check_plots(plan, {*self._columns, *self._loops, *plan.logs, "elapsed_s"}, self._found)
        check_report(plan, self._found)
        check_resume(plan, self._found)
        self._check_duration()

    def result(self) -> Checked | None:
        """What may start; ``None`` where there are problems."""
        if self._found.problems:
            return None
        plan = self._plan
        return Checked(
            experiment=plan,
            units=self._targets.units,
            values=self._values,
            columns=tuple(self._columns.values()),
            loops=self._loops,
            points=(int(self._points[0]), int(self._points[1])),
            duration=self._span,
            envelope=tuple(self._sending.envelope.values()),
            bounded=self._bounded(),
            later=(*self._found.later, *not_again(plan)),
            left_on=tuple(self._sending.on),
            is_asking=any(isinstance(step, AskStep) for step in walk(plan.steps)),
        )

    def _bounded(self) -> dict[tuple[str, str, str], tuple[float, float]]:
        found = {}
        for name, ends in self._plan.bounds.items():
            role, command, parameter = name.split(".")
            found[self._targets.units[role].id, command, parameter] = ends
        return found

    def _check_roles(self) -> None:
        plan = self._plan
        for key, given in (
            ("roles", self._roles), ("with", plan.given), ("on_missing", plan.on_missing)
        ):  # fmt: skip
            for role in sorted(given.keys() - plan.roles.keys()):
                message, near = f"there is no role {role}.", close(role, plan.roles)
                is_free = bool(near) and near[0] not in given
                remedy = f"Call it {near[0]}." if is_free else f"Leave {role} out."
                self._found.add(f"{key}.{role}", "unknown_role", message, remedy, near)
        for role, arguments in self._plan.given.items():
            self._check_given(role, arguments)
        for name in self._plan.bounds:
            self._check_bound(name)

    def _check_given(self, role: str, arguments: Mapping[str, Value]) -> None:
        """Arguments of every command of a role: one has each, of the parameters alone."""
        names = {name: Known(value=value) for name, value in self._values.items()}
        unit = self._targets.units.get(role)
        known = {name for one in unit.commands.values() for name in one.parameters} if unit else ()
        for name, value in arguments.items():
            path = f"with.{role}.{name}"
            if unit is not None and name not in known:
                near = close(name, known)
                message = f"no command of {unit.called} has a parameter {name}."
                remedy = f"Write {near[0]}." if near else f"Leave {name} out."
                self._found.add(path, "unknown_parameter", message, remedy, near)
            self._scope.possible(value, path, names)

    def _check_bound(self, name: str) -> None:
        role, called, parameter = name.split(".")
        target = Target(role=role, command=called, member=parameter)
        found = self._targets.command(target, f"bounds.{name}")
        if found is not None and parameter not in found[1].parameters:
            near = close(parameter, found[1].parameters)
            remedy = f"Write {role}.{called}.{near[0]}." if near else ""
            message = f"{called} has no parameter {parameter}."
            self._found.add(f"bounds.{name}", "unknown_parameter", message, remedy, near)

    def _parameters(self) -> dict[str, Scalar]:
        found: dict[str, Scalar] = {}
        known = self._plan.parameters
        for name in self._given:
            if name not in known:
                near = close(name, known)
                self._found.add(
                    f"parameters.{name}",
                    "unknown_parameter",
                    f"the experiment has no parameter {name}.",
                    near=near,
                )
        for name, parameter in known.items():
            value = self._given.get(name, parameter.default)
            why = why_unfit(value, parameter)
            if why:
                self._found.add(f"parameters.{name}", "bad_parameter", why, about=(name,))
                # With its default, so that what uses it is no error as well.
                value = parameter.default
                self._found.unread.add(name)
            if value is not None:
                found[name] = value
        return found

    def _steps(
        self,
        steps: tuple[Step, ...],
        names: Names,
        loops: tuple[str, ...],
        times: Times,
    ) -> Span:
        """Judge steps in order; ``names`` learns what they give a value."""
        span, begins_s = Span(), self._sending.at_s
        for step in steps:
            span = span.plus(self._step(step, names, loops, times))
            self._sending.at_s = begins_s + span.least
        self._sending.at_s = begins_s
        return span

    def _last_steps(
        self, steps: tuple[Step, ...], names: Names, loops: Loops, times: Times
    ) -> Span:
        """Those of ``finally``."""
        before, self._sending.is_last = self._sending.is_last, True
        span = self._steps(steps, names, loops, times)
        self._sending.is_last = before
        return span

    def _step(self, step: Step, names: Names, loops: Loops, times: Times) -> Span:
        match step:
            case CommandStep():
                return self._command_step(step, names, times)
            case WaitStep(wait_ms=wait_ms):
                low, high = self._scope.range(wait_ms, f"{step.path}.wait_s", names, 0.0) or (0, 0)
                return Span(least=low / 1000, likely=high / 1000, most=high / 1000)
            case PollStep():
                self._check_ends(step, step.on_timeout, loops)
                self._targets.reading(step.target, f"{step.path}.poll", names, UNCOUNTED)
                self._scope.condition(step.until, f"{step.path}.until", {**names, "value": UNKNOWN})
                return Span(most=step.timeout_ms / 1000, likely=step.every_ms / 1000)
            case RowStep(columns=columns):
                for name, value in columns.items():
                    self._scope.possible(value, f"{step.path}.row.{name}", names)
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
                self._check_ends(step, step.on_timeout, loops)
                return self._settle_step(step, names)
            case IfStep():
                return self._if_step(step, names, loops, times)
            case LetStep(let=let):
                self._let_step(step, let, names, loops)
                return Span()
            case CheckStep():
                self._check_ends(step, step.on_fail, loops)
                check_limits(step, self._scope, names)
                return Span()
            case AskStep():
                self._check_ends(step, step.on_timeout, loops)
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

    def _loop(
        self,
        step: ForStep | RepeatStep,
        path: str,
        passes: tuple[int, str, tuple[Scalar, ...] | None],
    ) -> None:
        """A loop, of which the data have two columns; their names must be free."""
        others = self._loops.keys() - {step.name}
        taken = OWN_COLUMNS.union(self._columns, others, (f"n_{loop}" for loop in others))
        for name in (step.name, f"n_{step.name}"):
            if name in taken:
                self._found.add(
                    path,
                    "reserved",
                    f"the data have a column {name} already.",
                    f"Call it {step.name}_.",
                )
        self._loops[step.name] = passes

    def _column(self, name: str, unit: str, loops: Loops, path: str) -> None:
        """A column of the data; its name must be free."""
        if name in OWN_COLUMNS or name.removeprefix("n_") in self._loops or name in self._loops:
            self._found.add(
                path, "reserved", f"the data have a column {name} already.", f"Call it {name}_."
            )
        column = self._columns.setdefault(name, DataColumn(name=name, unit=unit, loops=loops))
        if column.unit != unit:
            units = f"{column.unit or 'no unit'} and {unit or 'no unit'}"
            self._found.add(
                path, "reserved", f"{name} would be a column in {units}.", f"Call it {name}_2."
            )

    def _count_rows(self, times: Times) -> None:
        self._points[0] += times[0]
        self._points[1] += times[1]

    def _command_step(self, step: CommandStep, names: Names, times: Times) -> Span:
        target = step.target
        found = self._targets.command(target, f"{step.path}.command")
        if step.save_as:
            names[step.save_as] = UNKNOWN
        if found is None:
            return Span()
        unit, command = found
        if step.save_as:
            for member, of in answer_members(command).items():
                names[f"{step.save_as}_{member}"] = Known(unit=of)
            if not command.is_query:
                self._found.add(f"{step.path}.as", "no_answer", f"{command.name} answers nothing.")
        given = self._targets.arguments(target, command, step.path, names, ())
        if given is not None:
            self._sending.add(step.path, target, unit, command, given, names, times)
        return self._spoken(unit, command)

    def _spoken(self, unit: RoleUnit, command: Command) -> Span:
        took = unit.spoken_s.get(command.name, CALL_S)
        return Span(likely=took, most=10 * took)

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
            tries = self._plan.on_missing.get(target.role, NO_TRIES).tries
            often = (times[0], times[1] * tries)
            unit, command = self._targets.reading(target, f"{step.path}.{key}.{name}", known, often)
            of = answer_unit(command, target.member) if command is not None else ""
            names[name] = Known(unit=of)
            if loops is not None:
                self._column(name, of, loops, f"{step.path}.{key}.{name}")
            if unit is not None and command is not None:
                here = spans.get(unit.id, Span())
                spans[unit.id] = here.plus(self._spoken(unit, command))
        return max(spans.values(), key=lambda span: span.likely, default=Span())

    def _ramp_step(self, step: RampStep, names: Names, times: Times) -> Span:
        path = f"{step.path}.ramp"
        self._scope.names(step.to, f"{step.path}.to", names)
        moved = self._targets.moved(step.ramp, path, names, step.rate)
        if moved is None:
            return Span()
        unit, command, parameter, given, speed = moved
        given = {**given, parameter.name: step.to}
        self._sending.add(path, step.ramp, unit, command, given, names, times, rate=speed or 1.0)
        reach = (parameter.max or 0) - (parameter.min or 0) if parameter.max is not None else 0.0
        return Span(most=reach / speed if speed else 0.0)

    def _settle_step(self, step: SettleStep, names: Names) -> Span:
        self._targets.reading(step.settle, f"{step.path}.settle", names, UNCOUNTED)
        check_window(step, self._scope, names)
        return Span(least=step.for_s, likely=2 * step.for_s, most=step.timeout_s)

    def _if_step(self, step: IfStep, names: Names, loops: Loops, times: Times) -> Span:
        self._scope.condition(step.condition, f"{step.path}.if", names)
        ways = []
        spans = []
        was_sure, self._scope.is_sure = self._scope.is_sure, False
        for part in (step.then, step.otherwise):
            way = dict(names)
            spans.append(self._steps(part, way, loops, (0, times[1])))
            ways.append(way)
        self._scope.is_sure = was_sure
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
            found = self._scope.possible(value, f"{step.path}.let.{name}", names)
            is_fixed = found is not None and name not in self._changing and not loops
            names[name] = Known(value=found[0]) if found and is_fixed else UNKNOWN

    def _ask_step(self, step: AskStep, names: Names) -> None:
        names[step.name] = UNKNOWN
        check_question(step, self._scope, names)

    def _for_step(self, step: ForStep, names: Names, loops: Loops, times: Times) -> Span:
        values = self._values_of(step, names)
        least, most = self._passes(step, values, names)
        is_certain = not can_leave(step)
        moved = None
        if step.set is not None:
            moved = self._targets.moved(step.set, f"{step.path}.set", names, step.rate)
        unit_of = moved[2].unit if moved is not None else ""
        self._loop(step, f"{step.path}.for", (most, unit_of, values))
        if step.unit is not None:
            if around := self._unit_loops.intersection(loops):
                message = f"it stands inside of the units of {next(iter(around))}."
                self._found.add(f"{step.path}.unit", "inside_unit", message, "Leave unit out.")
            self._unit_loops.add(step.name)
        here = dict(names)
        here[step.name] = Known(values=values, unit=unit_of)
        inside = (times[0] * least if is_certain else times[0], times[1] * most)
        if moved is not None and step.set is not None:
            unit, command, parameter, given, speed = moved
            given = {**given, parameter.name: f"{{{step.name}}}"}
            rate = speed if step.rate is not None else None
            way_s = _way(values, rate, is_snake=step.is_snake).most / max(1, len(values or ()))
            self._sending.add(f"{step.path}.set", step.set, unit, command, given, here, inside,
                            rate=rate, ramp_s=way_s if values else None)  # fmt: skip
        low, high = self._scope.range(step.wait_s, f"{step.path}.wait_s", here, 0.0) or (0, 0)
        if step.name in self._changing:
            here[step.name] = Known(unit=unit_of)
        span = self._pass(step, here, loops, inside, low)
        if step.unit is not None:
            self._scope.possible(step.unit, f"{step.path}.unit", here)
        ended = here if step.unit is not None else dict(names)
        often = times if step.unit is None else inside
        last = self._last_steps(step.finally_steps, dict(ended), loops, often)
        leave_loop(names, here, step.name, is_certain=is_certain)
        span = span.plus(Span(least=low, likely=high, most=high))
        span = span.times(least if is_certain else 0, most)
        return span.plus(_way(values, moved[4] if moved else None, is_snake=step.is_snake)).plus(
            last
        )

    def _pass(
        self, loop: ForStep | RepeatStep, names: Names, loops: Loops, times: Times, wait_s: float
    ) -> Span:
        """The steps of a loop, once; ``wait_s`` at the least before them."""
        around, self._sending.loop = self._sending.loop, loop.name
        was_sure, is_left = self._scope.is_sure, can_leave(loop)
        self._scope.is_sure = was_sure and not is_left
        self._sending.at_s += wait_s
        span = self._steps(loop.steps, names, (*loops, loop.name), times)
        self._sending.at_s -= wait_s
        self._scope.is_sure = was_sure
        self._sending.loop = around
        # A loop that is left early begins again sooner, in the next pass of the loop around it.
        self._sending.pass_s[loop.name] = 0.0 if is_left else span.least + wait_s
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
        found = self._scope.range(step.values[-1], f"{step.path}.in", names)
        return (max(1, int(found[1])),) * 2 if found is not None else (1, MOST_VALUES)

    def _values_of(self, step: ForStep, names: Names) -> tuple[Scalar, ...] | None:
        path = f"{step.path}.in"
        if not all(self._scope.names(value, path, names) for value in step.values):
            return None
        used = {one for value in step.values for one in names_in(value)}
        if not all(names[one].value is not None for one in used):
            self._found.later[f"{path}: the values of {step.name}"] = None
            return None
        try:
            return loop_values(step, {one: names[one].value for one in used})
        except Invalid as error:
            self._found.refused(path, error)
            self._found.unread.add(step.name)
            return None

    def _repeat_step(self, step: RepeatStep, names: Names, loops: Loops, times: Times) -> Span:
        here = dict(names)
        self._loop(step, f"{step.path}.repeat", (step.at_most, "", None))
        inside = (times[0], times[1] * step.at_most)
        here[step.name] = UNKNOWN
        span = self._pass(step, here, loops, inside, 0.0)
        self._scope.condition(step.until, f"{step.path}.until", here)
        leave_loop(names, here, step.name, is_certain=not can_leave(step))
        self._found.later[f"{step.path}: how often {step.name} is repeated"] = None
        return span.times(0 if can_leave(step) else 1, step.at_most)

    def _check_ends(self, step: Step, what: str | None, loops: Loops) -> None:
        """What a step may end is around it."""
        if what == "end" and not loops:
            message = "there is no loop around it to end."
        elif what == "end_unit" and not self._unit_loops.intersection(loops):
            message = "there is no unit around it to end."
        else:
            return
        key = "on_fail" if isinstance(step, CheckStep) else "on_timeout"
        self._found.add(f"{step.path}.{key}", "no_loop", message, "Write abort.")

    def _check_duration(self) -> None:
        """The shortest that it can take is not over the longest that it may take."""
        given, least_h = self._plan.at_most_h, self._span.least / 3600
        hours = LONGEST_H if given is None else given
        if least_h > hours:
            most = f"{math.ceil(1.1 * least_h * 100) / 100:g}"
            remedy = f"Set at_most_h to {most} or more."
            message = f"it takes {least_h:.3g} h at the least, and may take {hours:g} h."
            self._found.add("at_most_h", "impossible", message, remedy)


def _way(values: tuple[Scalar, ...] | None, speed: float | None, *, is_snake: bool) -> Span:
    """What moving from value to value takes at least, the way back included."""
    numbers = [v for v in values or () if isinstance(v, int | float) and not isinstance(v, bool)]
    if not speed or len(numbers) < 2:
        return Span()
    way = sum(abs(b - a) for a, b in itertools.pairwise(numbers)) / speed
    back = 0.0 if is_snake else abs(numbers[-1] - numbers[0]) / speed
    return Span(least=way, likely=way + back, most=way + back)
