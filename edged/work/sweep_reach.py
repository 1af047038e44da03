"""What a sweep's command can be told: its grid over a range, and where the instrument stands.

Pure, but for the question that is asked through the command path.
"""

from __future__ import annotations

import math

from edged.errors import ErrorCode, Failed
from edged.profiles.answer_pieces import picked
from edged.profiles.model import DEFAULT_SENTINELS, Command
from edged.profiles.render import placeholders, resolution
from edged.profiles.suffixes import number_with_suffix

__all__ = ["grid_of", "setpoint_from"]


def grid_of(command: Command, parameter: str, *, start: float, target: float) -> float | None:
    """The resolution that holds all the way from ``start`` to ``target``.

    Formats with so many significant digits (``e``, ``g``) are coarsest where the value is largest;
    their grid there is on the grid everywhere else.
    """
    fixed = resolution(command, parameter)
    largest = max(abs(start), abs(target))
    grids = [] if fixed is None else [fixed]
    for template in command.scpi:
        for hole in placeholders(template):
            digits = _digits(hole.format)
            if hole.name == parameter and digits is not None and largest > 0:
                grids.append(10.0 ** (math.floor(math.log10(largest)) - digits))
    return max(grids, default=None)


def setpoint_from(answer: str, unit: str, query: str, pattern: str = "") -> float:
    """The set-point that the instrument reports, where ``pattern`` finds it.

    Raises:
        Failed: BAD_ANSWER; a ramp from an unknown value would be a jump.
    """
    value = number_with_suffix(picked(answer, pattern), unit)
    if value is None or value in DEFAULT_SENTINELS:
        raise Failed(
            f"The present set-point cannot be known: {query} answered {answer.strip()[:80]!r}.",
            code=ErrorCode.BAD_ANSWER,
            data={"query": query, "answer": answer.strip()[:80]},
            remedy="A sweep starts from what the instrument holds; set it once, then try again.",
            sent=(query,),
        )
    return value


def _digits(form: str) -> int | None:
    """Digits behind the leading one that an ``e`` or ``g`` format writes."""
    if not form or form[-1] not in "eg":
        return None
    _, dot, digits = form[:-1].partition(".")
    precision = int(digits) if dot else 6
    return precision if form[-1] == "e" else max(1, precision) - 1
