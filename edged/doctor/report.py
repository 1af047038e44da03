"""A line of the report, and the report of all lines. Pure."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Sequence
from typing import Any

from edged.record import record


class CheckVerdict(enum.StrEnum):
    """What a check came to. SKIP: there is nothing to look at, and that is as it was configured."""

    PASS = "PASS"  # noqa: S105 - the word for "well"
    WARN = "WARN"
    FAIL = "FAIL"
    SKIP = "SKIP"


@record(kw_only=False)
class CheckLine:
    """One line.

    Attributes:
        found: what is so, a sentence.
        remedy: what to do; empty when there is nothing to do.
    """

    verdict: CheckVerdict
    found: str
    remedy: str = ""


def passed(found: str) -> CheckLine:
    """All is well."""
    return CheckLine(CheckVerdict.PASS, found)


def warn(found: str, remedy: str) -> CheckLine:
    """It works, but."""
    return CheckLine(CheckVerdict.WARN, found, remedy)


def fail(found: str, remedy: str) -> CheckLine:
    """It does not work."""
    return CheckLine(CheckVerdict.FAIL, found, remedy)


def skip(found: str) -> CheckLine:
    """Nothing to look at."""
    return CheckLine(CheckVerdict.SKIP, found)


def report(lines: Sequence[tuple[str, CheckLine]]) -> dict[str, Any]:
    """{checks: [{check, verdict, found, remedy}], counts, is_ok}: JSON-ready."""
    counts = Counter(line.verdict.value for _, line in lines)
    return {
        "is_ok": not counts[CheckVerdict.FAIL],
        "counts": {verdict.value: counts[verdict.value] for verdict in CheckVerdict},
        "checks": [
            {
                "check": name,
                "verdict": line.verdict.value,
                "found": line.found,
                "remedy": line.remedy,
            }
            for name, line in lines
        ],
    }
