"""What a person answers to a question of a run, as the question wants it. Pure."""

from __future__ import annotations

from typing import Any

from edged.errors import Invalid
from edged.experiments.model import AskStep, AskType
from edged.yaml.tree import Scalar


def fitting(step: AskStep, value: Any) -> Scalar:
    """An answer as its question wants it.

    Raises:
        Invalid: it is none.
    """
    match step.type:
        case AskType.CONFIRM | AskType.PASS_FAIL:
            words = {"yes": True, "pass": True, "true": True, "no": False, "fail": False,
                     "false": False}  # fmt: skip
            known = words.get(str(value).strip().lower()) if not isinstance(value, bool) else value
            if known is None:
                word = "yes or no" if step.type is AskType.CONFIRM else "pass or fail"
                raise Invalid(f"{step.name} is answered by {word}, not {value!r}.")
            return known
        case AskType.NUMBER:
            return _fitting_number(step, value)
        case AskType.CHOICE:
            if str(value) not in step.options:
                raise Invalid(f"{step.name} is one of {', '.join(step.options)}, not {value!r}.")
            return str(value)
        case AskType.TEXT:
            return _fitting_text(step, str(value))


def _fitting_number(step: AskStep, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise Invalid(f"{step.name} is a number, not {value!r}.") from None
    low, high = step.min, step.max
    if (
        number != number
        or (low is not None and number < low)
        or (high is not None and number > high)
    ):
        raise Invalid(f"{step.name} goes from {low} to {high}; {number:g} does not.")
    return number


def _fitting_text(step: AskStep, value: str) -> str:
    from edged.patterns import compiled

    if len(value) > 500 or not value.isprintable():
        raise Invalid(f"{step.name}: an answer is at most 500 printable characters.")
    if step.pattern and compiled(step.pattern).search(value) is None:
        raise Invalid(f"{step.name}: {value!r} does not look like {step.pattern}.")
    return value
