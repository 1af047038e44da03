"""One unit under test at one try, for people: its verdict, and each of its checks. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from edged.runs.recordings.checks import Check, UnitResult
from edged.runs.recordings.unit_reports import unit_name
from edged.runs.report.document import document_of
from edged.runs.report.parts import FactList, FactTable, Note, Part, ReportDocument, Section


def unit_page(meta: Mapping[str, Any], result: UnitResult) -> str:
    """The page as HTML; ``run.html`` has what the units of a run have in common.

    Args:
        meta: meta.json of the run.
    """
    rows = tuple(map(_row, result.checks))
    table = FactTable(columns=COLUMNS, rows=rows, numbers=frozenset({2, 3, 4}))
    sections = (
        Section(heading="Unit", parts=tuple(_unit(meta, result))),
        Section(heading="Checks", parts=(table,) if rows else (Note(text="No check ran."),)),
    )
    return document_of(
        ReportDocument(
            title=f"{unit_name(meta, result)}: {result.verdict.value}",
            subtitle=f"{meta.get('command_name')}, run {meta.get('run_id')}",
            sections=sections,
            foot="run.html beside this page has the instruments, the data and their hashes.",
        )
    ).decode()


COLUMNS = ("Check", "Verdict", "Value", "At least", "At most", "Unit", "At (UTC)")


def _unit(meta: Mapping[str, Any], result: UnitResult) -> Iterator[Part]:
    part = (meta.get("details") or {}).get("part") or {}
    yield FactList(
        rows=(
            ("Unit", result.unit),
            ("Try", str(result.try_number)),
            ("Verdict", result.verdict.value),
            *((str(name).capitalize(), str(value)) for name, value in part.items()),
            ("Began", f"{_at(result.began_ms)} UTC"),
            ("Ended", f"{_at(result.ended_ms)} UTC"),
        )
    )
    for message in result.messages:
        yield Note(text=message, is_warning=True)


def _row(check: Check) -> tuple[str, ...]:
    limits = check.limits
    numbers = map(_number, (check.value, limits.least, limits.most))
    return (check.name, check.verdict.value, *numbers, limits.unit, _at(check.time_ms))


def _number(value: object) -> str:
    return "" if value is None else f"{value:.9g}" if isinstance(value, float) else str(value)


def _at(wall_ms: int) -> str:
    return datetime.fromtimestamp(wall_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
