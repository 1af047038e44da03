"""What a plan sends: each command with all its values, for limits, budgets and the envelope."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping
from typing import Any, Final

from edged.errors import EdgedError, Invalid
from edged.experiments.checked import (
    MOST_SENT,
    Asked,
    BenchView,
    Judgement,
    RoleUnit,
    Spending,
)
from edged.experiments.model import Experiment, Value
from edged.experiments.problem import Problems
from edged.experiments.scope import MOST_COMBINATIONS, Names, Times, extremes
from edged.profiles.abort import TRUTHS, tellings
from edged.profiles.expr import names_in
from edged.profiles.model import Command, ParameterType, Target
from edged.profiles.step_values import fill
from edged.scpi.words import works_switch
from edged.yaml.tree import Scalar

MOST_JUDGED: Final = 20_000
MOST_WORKED_OUT: Final = 100_000
"""Values of one expression over loops."""
MOST_SHOWN: Final = 1_000
"""Values of one argument that the envelope holds one by one."""


class Sending:
    """All that a plan sends, gathered step by step; then judged, and held to the budgets.

    Args:
        experiment: the plan.
        bench: where it is to run.
        found: takes what is wrong.

    Attributes:
        is_last: what is looked through now is done at the end.
        at_s: seconds after the start at the least; ``pass_s`` what a pass of a loop takes so.
        loop: the innermost around it.
        on: what is on, so far.
    """

    def __init__(self, experiment: Experiment, bench: BenchView, found: Problems) -> None:
        self._plan = experiment
        self._bench = bench
        self._found = found
        self.envelope: dict[tuple[Any, ...], Asked] = {}
        self.to_judge: dict[tuple[Any, ...], Judgement] = {}
        self.sent: list[Spending] = []
        self.on: dict[str, None] = {}
        self.is_last = False
        self.at_s = 0.0
        self.loop = ""
        self.pass_s: dict[str, float] = {}
        self._judged: set[str] = set()
        self._held: set[tuple[str, str]] = set()

    def add(
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
            choices = {name: extremes(values) for name, values in choices.items()}
            ranged |= set(choices)
        judged: Judgement | None = None
        for values in itertools.product(*choices.values()):
            flags = (rate is not None, self.is_last)
            key = (unit.id, command.name, *flags, *zip(choices, values, strict=True), *ranged)
            found_before = self.to_judge.setdefault(
                key,
                Judgement(
                    path=path,
                    unit=unit,
                    command=command,
                    values=dict(zip(choices, values, strict=True)),
                    is_step=rate is not None,
                    is_last=self.is_last,
                    ranged=frozenset(ranged),
                ),
            )
            judged = judged or found_before
        if judged is not None and command.is_write and not self.is_last:
            sent = Spending(
                judged=judged,
                at_s=self.at_s,
                count=times[1],
                loop=self.loop,
                rate=rate,
                ramp_s=ramp_s,
            )
            self.sent.append(sent)
        if len(self.to_judge) > MOST_JUDGED:
            self._found.add(
                path,
                "too_large",
                f"the plan has more than {MOST_JUDGED:,} different values to judge.",
                "Use ranges ({lin: …}) for set-points.",
            )

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
            self._found.add(
                path,
                "needs_bounds",
                f"{key} hangs on {', '.join(unknown)}, which is known only while it runs.",
                f"Add to the plan: bounds: {{{key}: [lowest, highest]}}.",
                about=(key, *unknown),
            )
            return None
        ranges = [names[one].all_values for one in used]
        found: dict[Scalar, None] = {}
        try:
            if math.prod(map(len, ranges)) > MOST_WORKED_OUT:
                self._found.add(
                    path,
                    "too_large",
                    f"{value} has more than {MOST_WORKED_OUT:,} values.",
                    "Let it hang on fewer loops.",
                )
                return None
            for values in itertools.product(*ranges):
                worked = fill(value, dict(zip(used, values, strict=True)))
                if worked is not None:
                    found[worked] = None
        except Invalid as error:
            self._found.refused(path, error)
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
        asked = self.envelope.setdefault(
            key, Asked(unit=unit.id, command=command.name, parameters={})
        )
        asked.count += times
        asked.is_last = asked.is_last or self.is_last
        asked.rate = rate if asked.rate is None else max(asked.rate, rate or 0.0)
        for name, values in choices.items():
            known = asked.parameters.get(name, ())
            asked.parameters[name] = tuple(dict.fromkeys((*known, *_few(values))))

    def judge(self, one: Judgement) -> None:
        """Ask the bench; of each place one problem is enough."""
        if one.path in self._judged:
            return
        conflicts: list[EdgedError] = []
        try:
            lines = self._bench.judge(
                one.unit,
                one.command,
                one.values,
                is_step=one.is_step,
                is_last=one.is_last,
                ranged=one.ranged,
                conflicts=conflicts,
            )
        except EdgedError as error:
            self._judged.add(one.path)
            self._found.refused(one.path, error)
            return
        finally:
            self._in_the_way(one, conflicts)
        for said in (said for line in lines if works_switch(line) for said in tellings(line)):
            place, is_on = f"{one.unit.called}: {said.output}", TRUTHS.get(said.value.upper())
            if is_on is True and not one.is_last:
                self.on[place] = None
            elif is_on is False and one.is_last:
                self.on.pop(place, None)

    def _in_the_way(self, one: Judgement, conflicts: Iterable[EdgedError]) -> None:
        """What stands in the way of a unit is said at the first step that it holds back."""
        for held in conflicts:
            if (one.unit.id, held.message) not in self._held:
                self._held.add((one.unit.id, held.message))
                self._found.refused(one.path, held)

    def spend(self) -> None:
        """Hold all that is sent to what the owners allow; once everything was judged."""
        for sent in self.sent:
            one = sent.judged
            if one.path in self._judged:
                continue
            steps, every_s = self._steps_of_ramp(sent)
            again = int(min((sent.count - 1) * steps, MOST_SENT))
            pass_s = self.pass_s.get(sent.loop, 0.0)
            try:
                self._bench.spend(one, sent.at_s, steps, every_s)
                if again > 0:
                    self._bench.spend(one, sent.at_s + pass_s, again, pass_s / steps)
            except EdgedError as error:
                self._judged.add(one.path)
                self._found.refused(one.path, error)

    def _steps_of_ramp(self, sent: Spending) -> tuple[int, float]:
        """How many steps one ramp has at the most, and seconds between two; else 1.

        From where a unit stands before the first one is known only while it runs.
        """
        command, unit = sent.judged.command, sent.judged.unit
        if not sent.rate or command.sweep is None:
            return 1, 0.0
        ramp_s = sent.ramp_s
        if ramp_s is None:
            ramp_s = self._spread(unit, command, command.sweep.parameter) / sent.rate
        every_s = command.sweep.interval_ms / 1000
        return max(1, min(math.ceil(ramp_s / every_s), MOST_SENT)), every_s

    def _spread(self, unit: RoleUnit, command: Command, parameter: str) -> float:
        """How far apart the plan sets a set-point: a ramp begins where any command has set it.

        Channels, and what else the command is given, are set-points of their own.
        """
        ramped, found = set[Any](), dict[Any, list[float]]()
        for one in self.to_judge.values():
            value = one.values.get(parameter)
            if one.unit.id != unit.id or not isinstance(value, int | float):
                continue
            which = tuple(one.values.get(name) for name in command.parameters if name != parameter)
            found.setdefault(which, []).append(value)
            if one.is_step and one.command is command:
                ramped.add(which)
        return max((max(found[one]) - min(found[one]) for one in ramped), default=0.0)


def _few(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """All of them, or of many numbers the smallest and the largest."""
    return values if len(values) <= MOST_SHOWN else extremes(values)
