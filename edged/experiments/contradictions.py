"""Keys of one step that contradict each other, so that it could never do what it is for."""

from __future__ import annotations

import math
import string

from edged.experiments.model import AskStep, CheckStep, SettleStep
from edged.experiments.scope import Names, Scope


def check_limits(step: CheckStep, scope: Scope, names: Names) -> None:
    """A value that can be judged, by limits between which one can pass."""
    values = scope.possible(step.value, f"{step.path}.value", names)
    low, high, near = (
        scope.range(getattr(step, key), f"{step.path}.{key}", names, least)
        for key, least in (("min", -math.inf), ("max", -math.inf), ("near", 0.0))
    )
    is_limited = step.min is not None or step.max is not None
    bad = [one for one in values or () if isinstance(one, str) or not (
        is_limited or isinstance(one, bool))]  # fmt: skip
    if bad:
        what = "a text" if isinstance(bad[0], str) else "a number, and there is no limit"
        message = f"{bad[0]!r} is {what}, which nobody can judge."
        scope.found.add(f"{step.path}.value", "no_condition", message)
    if low is None or high is None:
        return
    if low[0] > high[1]:
        message = f"{low[0]:g} is over max, {high[1]:g}: nothing would pass."
        remedy = f"Set min to {high[1]:g} or less."
        scope.found.add(f"{step.path}.min", "impossible", message, remedy)
    elif near is not None and near[0] > (half := (high[1] - low[0]) / 2):
        message = f"within {near[0]:g} of a limit is everything: nothing would pass."
        remedy = f"Set near to {half:g} or less."
        scope.found.add(f"{step.path}.near", "impossible", message, remedy)


def check_window(step: SettleStep, scope: Scope, names: Names) -> None:
    """A time in which it can stand still."""
    scope.range(step.target, f"{step.path}.target", names)
    for key in ("drift", "within"):
        scope.range(getattr(step, key), f"{step.path}.{key}", names, 0.0)
    if step.timeout_s < step.for_s:
        scope.found.add(
            f"{step.path}.timeout_s",
            "impossible",
            f"within {step.timeout_s:g} s it cannot stand still for {step.for_s:g} s.",
            f"Set timeout_s above {step.for_s:g}.",
        )
    elif step.for_s < 2 * step.every_s:
        scope.found.add(
            f"{step.path}.every_s",
            "impossible",
            f"for_s {step.for_s:g} has no three readings every {step.every_s:g} s.",
            f"Set every_s to {step.for_s / 2:g} or less.",
        )


def check_question(step: AskStep, scope: Scope, names: Names) -> None:
    """A text that can be filled in, and an answer that there is."""
    if step.min is not None and step.max is not None and step.min > step.max:
        scope.found.add(
            f"{step.path}.min",
            "impossible",
            f"no number is from {step.min:g} to {step.max:g}.",
            f"Set min to {step.max:g} or less.",
        )
    try:
        pieces = list(string.Formatter().parse(step.text))
    except ValueError as error:
        scope.found.add(f"{step.path}.text", "grammar", f"the text is no template: {error}.")
        return
    for _, expression, _, _ in pieces:
        if expression:
            scope.possible(f"{{{expression}}}", f"{step.path}.text", names)
