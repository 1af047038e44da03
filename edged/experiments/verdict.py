"""What checks come to: a verdict, apart from the state of the run. Pure.

Source: EXPERIMENTS.md, "Verdict"; the order is that of OpenTAP's verdicts, with marginal and
incomplete added.
"""

from __future__ import annotations

import enum
import math
from typing import Final

from edged.record import record


class Verdict(enum.StrEnum):
    """From the best to the worst; the worst of a unit's checks is the unit's."""

    NONE = "none"
    PASS = "pass"  # noqa: S105 - not a password
    MARGINAL = "marginal"
    INCOMPLETE = "incomplete"
    FAIL = "fail"
    ABORTED = "aborted"
    ERROR = "error"


ORDER: Final = tuple(Verdict)


def worst(*verdicts: Verdict) -> Verdict:
    """The worst of several; NONE of none."""
    return max(verdicts, key=ORDER.index, default=Verdict.NONE)


@record
class Limits:
    """What passes: between ``min`` and ``max``, or equal; within ``near`` of a limit: marginal."""

    min: float | None = None
    max: float | None = None
    equals: float | str | bool | None = None
    near: float | None = None

    def judge(self, value: object) -> Verdict:
        """Of a value; a missing reading is an error and no failure."""
        if value is None or (isinstance(value, float) and math.isnan(value)):
            return Verdict.ERROR
        if self.equals is not None:
            return Verdict.PASS if value == self.equals else Verdict.FAIL
        if isinstance(value, bool) or not isinstance(value, int | float):
            return Verdict.ERROR
        low, high = self.min, self.max
        if (low is not None and value < low) or (high is not None and value > high):
            return Verdict.FAIL
        gaps = [
            *([value - low] if low is not None else []),
            *([high - value] if high is not None else []),
        ]
        if self.near is not None and gaps and min(gaps) < self.near:
            return Verdict.MARGINAL
        return Verdict.PASS
