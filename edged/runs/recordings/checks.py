"""The checks of a run and their verdicts, as checks.csv holds them. Pure.

A check is a row. So is the beginning of a unit under test and its end: those rows have no name.
The verdict of a unit is the worst of its rows, and of each planned check that never ran, which is
*incomplete*. The verdict of a run is the worst of its units, each at its last try.

Source: EXPERIMENTS.md, "Verdict".
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from edged.csv_cells import unguarded
from edged.record import record
from edged.runs.recordings.table import cell_value
from edged.yaml.tree import Scalar


class UnitVerdict(enum.StrEnum):
    """The verdicts, from the best to the worst.

    ``NONE`` is that of a unit without any check. ``ERROR`` says that nothing is known, for example
    because a reading is missing; ``FAIL`` that a value is outside of its limits.
    """

    NONE = "none"
    PASS = "pass"  # noqa: S105 - no password
    MARGINAL = "marginal"
    INCOMPLETE = "incomplete"
    FAIL = "fail"
    ABORTED = "aborted"
    ERROR = "error"


ORDER: Final = tuple(UnitVerdict)
NEVER_RAN: Final = "This check never ran."


def worst(verdicts: Iterable[UnitVerdict]) -> UnitVerdict:
    """The worst of some verdicts; ``NONE`` if there are none."""
    return max(verdicts, key=ORDER.index, default=UnitVerdict.NONE)


@record
class Limits:
    """The limits of a check, in the unit of its value.

    Attributes:
        least, most: a value at the limit passes; ``None``: no limit on that side.
        near: a value that passes, but by less than this, is marginal; absolute, at least 0.
        unit: of the value and of these numbers.
    """

    least: float | None = None
    most: float | None = None
    near: float | None = None
    unit: str = ""

    @property
    def inner(self) -> tuple[float | None, float | None]:
        """The limits within which a value is not marginal."""
        near = self.near or 0.0
        return (
            None if self.least is None else self.least + near,
            None if self.most is None else self.most - near,
        )


def judge(value: Scalar | None, limits: Limits) -> UnitVerdict:
    """The verdict on a value.

    Args:
        value: a number; or true or false, which passes or fails by itself. Everything else, NaN
            included, is a missing reading.
    """
    if isinstance(value, bool):
        return UnitVerdict.PASS if value else UnitVerdict.FAIL
    if not isinstance(value, int | float) or math.isnan(value):
        return UnitVerdict.ERROR
    if not _is_within(value, limits.least, limits.most):
        return UnitVerdict.FAIL
    return UnitVerdict.PASS if _is_within(value, *limits.inner) else UnitVerdict.MARGINAL


def _is_within(value: float, least: float | None, most: float | None) -> bool:
    return (least is None or value >= least) and (most is None or value <= most)


@record
class Check:
    """A row of checks.csv.

    Attributes:
        unit: the unit under test; empty in a run without units, and for the run itself.
        try_number: from 1; a unit that is tested again has the next one.
        name: of the check; empty in the rows that stand for the unit itself: one with the verdict
            ``NONE`` at its beginning, and one at its end with what its checks do not say, such as
            ``ABORTED``.
        message: a sentence for the reader of a report.
    """

    verdict: UnitVerdict
    time_ms: int
    unit: str = ""
    try_number: int = 1
    name: str = ""
    value: Scalar | None = None
    limits: Limits = Limits()
    message: str = ""


COLUMNS: Final = (
    "unit", "try", "name", "value", "unit_of_measure", "min", "max", "near", "verdict", "time_ms",
    "message",
)  # fmt: skip


def cells_of(check: Check) -> tuple[Scalar | None, ...]:
    """A check as a row, in the order of ``COLUMNS``."""
    limits = check.limits
    return (
        check.unit, check.try_number, check.name, check.value, limits.unit, limits.least,
        limits.most, limits.near, check.verdict.value, check.time_ms, check.message,
    )  # fmt: skip


def check_of(cells: Mapping[str, str]) -> Check:
    """The check of a row that was read back.

    Args:
        cells: the texts of the file by the names of ``COLUMNS``. Only the value may be a number or
            a text: the unit "0012" is not the number 12.

    Raises:
        ValueError, KeyError: this row was not written from ``cells_of``.
    """
    return Check(
        verdict=UnitVerdict(cells["verdict"]),
        time_ms=int(cells["time_ms"]),
        unit=unguarded(cells["unit"]),
        try_number=int(cells["try"]),
        name=unguarded(cells["name"]),
        value=cell_value(cells["value"]),
        limits=Limits(
            least=_number(cells["min"]),
            most=_number(cells["max"]),
            near=_number(cells["near"]),
            unit=unguarded(cells["unit_of_measure"]),
        ),
        message=unguarded(cells["message"]),
    )


def _number(cell: str) -> float | None:
    return float(cell) if cell else None


def valid_checks(checks: Sequence[Check], repeated: Sequence[tuple[int, int]]) -> tuple[Check, ...]:
    """The checks that count, where passes were repeated after a crash.

    The checks of a repeated pass come again. But a unit under test that was interrupted keeps
    those that it has: it is tested again as its next try.

    Args:
        repeated: places in ``checks``: from the first of a repeated pass to behind its last.
    """
    begun = {(check.unit, check.try_number) for check in checks if not check.name}
    return tuple(
        check
        for at, check in enumerate(checks)
        if (check.unit, check.try_number) in begun
        or not any(first <= at < behind for first, behind in repeated)
    )


@record
class UnitResult:
    """A unit under test at one of its tries.

    Attributes:
        checks: in the order in which they ran; those that never ran stand at the end.
        messages: what the rows of the unit itself say.
        own: the worst verdict of these rows.
    """

    unit: str
    try_number: int
    checks: tuple[Check, ...]
    messages: tuple[str, ...]
    own: UnitVerdict
    began_ms: int
    ended_ms: int

    @property
    def verdict(self) -> UnitVerdict:
        """The worst of its checks, and of its own."""
        return worst((self.own, *(check.verdict for check in self.checks)))


def unit_results(checks: Iterable[Check], planned: Sequence[str]) -> tuple[UnitResult, ...]:
    """The units of a run, each try by itself, in the order in which they began.

    A run without units is one unit without a name. In a run with units that one is the run itself,
    and is in the result only if it says something: a check, or a verdict of its own.

    Args:
        checks: the rows of checks.csv.
        planned: the names of the checks that each unit has to have.
    """
    rows: dict[tuple[str, int], list[Check]] = {}
    for check in checks:
        rows.setdefault((check.unit, check.try_number), []).append(check)
    has_units = any(unit for unit, _ in rows)
    if not rows and planned:
        rows[("", 1)] = []
    found = []
    for (unit, try_number), of_unit in rows.items():
        is_the_run = has_units and not unit
        result = _result(unit, try_number, of_unit, () if is_the_run else planned)
        if not is_the_run or result.verdict is not UnitVerdict.NONE:
            found.append(result)
    return tuple(found)


def _result(
    unit: str, try_number: int, rows: Sequence[Check], planned: Sequence[str]
) -> UnitResult:
    times = [row.time_ms for row in rows] or [0]
    ran = {row.name for row in rows}
    missing = (
        Check(
            unit=unit,
            try_number=try_number,
            name=name,
            verdict=UnitVerdict.INCOMPLETE,
            time_ms=max(times),
            message=NEVER_RAN,
        )
        for name in dict.fromkeys(planned)
        if name not in ran
    )
    own = [row for row in rows if not row.name]
    return UnitResult(
        unit=unit,
        try_number=try_number,
        checks=(*(row for row in rows if row.name), *missing),
        messages=tuple(row.message for row in own if row.message),
        own=worst(row.verdict for row in own),
        began_ms=min(times),
        ended_ms=max(times),
    )
