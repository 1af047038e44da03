"""One thing that is wrong with a plan: where, whose rule it is, and what to write in its place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edged.errors import Invalid
from edged.record import record
from edged.yaml.tree import Mark


@record
class Problem:
    """One error of a plan.

    Attributes:
        path: ``steps[4].steps[1].set``; empty where it is the whole plan.
        line: in the YAML text, from 1; 0 where the plan came as JSON, or nobody knows.
        code: what kind of error it is, for programs: ``grammar``, ``unknown_command``, ….
        near: words that are known and resemble the wrong one.
    """

    path: str
    code: str
    message: str
    remedy: str = ""
    near: tuple[str, ...] = ()
    line: int = 0

    @property
    def text(self) -> str:
        """One line for people."""
        place = f"line {self.line}: " if self.line else ""
        return f"{place}{self.message} {self.remedy}".strip()

    def to_json(self) -> dict[str, Any]:
        """JSON-ready: {path, line, code, message, remedy, near}."""
        return {
            "path": self.path,
            "line": self.line or None,
            "code": self.code,
            "message": self.message,
            "remedy": self.remedy or None,
            "near": list(self.near),
        }


def problem_of(bad: Invalid, paths: Mapping[Mark, str]) -> Problem:
    """A complaint of the reader, with its path."""
    data = bad.data
    line, column = int(data.get("line") or 0), int(data.get("column") or 0)
    mark = Mark(path=str(data.get("path") or ""), line=line, column=column)
    message = str(data.get("message") or bad.message)
    is_json = all(known.column == 1 for known in paths) and bool(paths)
    return Problem(
        path=paths.get(mark, ""),
        line=0 if is_json else line,
        code="grammar",
        message=f"The plan{message}" if message[:1] in (" ", ":") else message,
        remedy=bad.remedy,
    )
