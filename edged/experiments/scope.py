"""Names and values of a plan that is checked: which have one where, and what they can be."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from typing import Any, Final

from edged.errors import Invalid
from edged.experiments.checked import MOST_SENT
from edged.experiments.model import (
    AskStep,
    Experiment,
    LeaveStep,
    LetStep,
    MeasureStep,
    ReadStep,
    RepeatStep,
    Value,
)
from edged.experiments.problem import Problems, close
from edged.profiles.expr import expression_text, names_in
from edged.profiles.model import CommandStep, ForStep, Parameter, ParameterType, walk
from edged.profiles.step_values import fill, number
from edged.record import record
from edged.yaml.tree import Scalar


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

    @property
    def all_values(self) -> tuple[Scalar, ...]:
        """All that it can be; empty where that is not known."""
        if self.values is not None:
            return self.values
        return () if self.value is None else (self.value,)


MOST_COMBINATIONS: Final = 2_000
"""Values of one expression, or of one command; more are judged by their extremes."""
UNKNOWN: Final = Known()
Names = dict[str, Known]
Loops = tuple[str, ...]
Times = tuple[float, float]
"""How often something is done: at the least and at the most."""
UNCOUNTED: Final[Times] = (0, MOST_SENT)


@record(frozen=False)
class Scope:
    """Says of values whether their names have one where they stand, and what they can be.

    Attributes:
        is_sure: what is looked at is done with every value that its names can have; else an ``if``
            or ``leave`` may keep some of them away.
    """

    found: Problems
    is_sure: bool = True

    def names(self, value: Value | None, path: str, names: Names) -> bool:
        """Whether every name of a value has one here; a problem where it has not."""
        if value is None:
            return True
        if (
            isinstance(value, str)
            and "{" in value
            and expression_text(value, is_bare=False) is None
        ):
            self.found.add(
                path,
                "grammar",
                f"{value!r} is a text as it stands, and no expression.",
                'Write an expression as the whole value: "{…}".',
            )
            return False
        is_good = True
        for name in sorted(names_in(value)):
            found = names.get(name)
            if found is not None and found.is_certain:
                continue
            is_good = False
            if found is not None:
                self.found.add(
                    path,
                    "no_value",
                    f"{name} has no value on every way to here.",
                    f"Give it one before: - let: {{{name}: 0}}.",
                    about=(name,),
                )
            else:
                near = close(name, names)
                remedy = f"Write {near[0]}." if near else ""
                message = f"{name} has no value here."
                self.found.add(path, "no_value", message, remedy, near, about=(name,))
        return is_good

    def possible(self, value: Value, path: str, names: Names) -> tuple[Scalar, ...] | None:
        """All that a value can be here, worked out.

        Returns:
            ``None`` where that is known only while it runs, or cannot be worked out: a problem.
        """
        if not self.names(value, path, names):
            return None
        used = names_in(value)
        if not all(names[one].is_known for one in used):
            return None
        ranges = [names[one].all_values for one in used]
        if math.prod(map(len, ranges)) > MOST_COMBINATIONS:
            ranges = [extremes(values) for values in ranges]
        found: dict[Scalar, None] = {}
        wrong: Invalid | None = None
        for values in itertools.product(*ranges):
            try:
                worked = fill(value, dict(zip(used, values, strict=True)))
            except Invalid as error:
                wrong = wrong or error
                continue
            if worked is not None:
                found[worked] = None
        if wrong is not None and (self.is_sure or not found):
            self.found.refused(path, wrong)
            return None
        return tuple(found)

    def condition(self, text: str, path: str, names: Names) -> None:
        """What must be true or false, where it is known."""
        found = self.possible(f"{{{text}}}", path, names) if text else None
        if found and not all(isinstance(one, bool) for one in found):
            message = f"{text} is no condition: it is neither true nor false."
            self.found.add(path, "no_condition", message, f"Compare it, as in {text} > 0.")

    def range(
        self, value: Value | None, path: str, names: Names, least: float = -math.inf
    ) -> tuple[float, float] | None:
        """The least and the greatest that a number can be.

        Args:
            least: what is less is a problem.

        Returns:
            ``None`` where that is known only while it runs, or is a problem.
        """
        found = None if value is None else self.possible(value, path, names)
        if not found:
            if value is not None and all(one in names for one in names_in(value)):
                self.found.later[f"{path}: {value}"] = None
            return None
        try:
            numbers = [number(one, {}, "the value") for one in found]
        except Invalid as error:
            self.found.refused(path, error)
            return None
        low, high = min(numbers), max(numbers)
        if low < least and (self.is_sure or high < least):
            message = f"it can be {low:g}, which is under {least:g}."
            self.found.add(path, "out_of_range", message, f"Set it to {least:g} or more.")
        return low, high


def extremes(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Of numbers the smallest and the largest; of all else every one."""
    if len(values) < 3 or any(isinstance(value, bool | str) for value in values):
        return values
    return min(values), max(values)


def changing(experiment: Experiment) -> frozenset[str]:
    """Names that are given a value more than once, so that nobody can say which they have."""
    count = dict.fromkeys(experiment.parameters, 1)
    plan = experiment
    saved: list[str] = []
    for step in walk((*plan.steps, *plan.finally_steps, *plan.on_pause, *plan.on_resume)):
        match step:
            case LetStep(let=names) | ReadStep(read=names) | MeasureStep(measure=names):
                given: Iterable[str] = names
            case AskStep(name=name) | ForStep(name=name):
                given = (name,)
            case CommandStep(save_as=name) if name:
                given = (name,)
                saved.append(f"{name}_")
            case _:
                continue
        for name in given:
            count[name] = count.get(name, 0) + 1
    # The fields of an answer are names, too.
    for name in count:
        count[name] += sum(map(name.startswith, saved))
    return frozenset(name for name, times in count.items() if times > 1)


def can_leave(loop: ForStep | RepeatStep) -> bool:
    """Whether a pass may end before its last step."""
    if isinstance(loop, ForStep) and (loop.on_error != "abort" or loop.unit is not None):
        return True
    return any(
        isinstance(step, LeaveStep)
        or getattr(step, "on_timeout", None) == "end"
        or getattr(step, "on_timeout", None) == "end_unit"
        for step in walk(loop.steps)
    )


def leave_loop(names: Names, here: Names, loop: str, *, is_certain: bool) -> None:
    """What is known behind a loop of what was given a value in it."""
    for name, found in here.items():
        if name == loop:
            continue
        if name not in names:
            names[name] = Known(unit=found.unit, is_certain=is_certain and found.is_certain)
        elif names[name] != found:
            known = names[name]
            names[name] = Known(unit=found.unit, is_certain=known.is_certain)


def why_unfit(value: Any, parameter: Parameter) -> str:
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
