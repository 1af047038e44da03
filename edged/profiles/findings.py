"""What lint finds, as values with a place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from edged.profiles.model import Mark, Profile

__all__ = ["Finding", "Place", "Severity"]

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing to mend; ``error`` must not be shipped, ``warning`` wants a second look."""

    path: str
    line: int
    column: int
    severity: Severity
    message: str
    suggestion: str = ""

    @property
    def sentence(self) -> str:
        """All of it, as a compiler writes it."""
        text = f"{self.path}:{self.line}:{self.column}: {self.severity}: {self.message}"
        return f"{text} {self.suggestion}".strip()


@dataclass(frozen=True, slots=True)
class Place:
    """Makes findings of one profile, by dotted path."""

    profile: Profile

    def error(self, path: str, message: str, suggestion: str = "") -> Finding:
        """What must be mended; ``path`` is dotted, and the nearest place around it is taken."""
        return self._finding(path, "error", message, suggestion)

    def warning(self, path: str, message: str, suggestion: str = "") -> Finding:
        """What wants a second look."""
        return self._finding(path, "warning", message, suggestion)

    def _finding(self, path: str, severity: Severity, message: str, suggestion: str) -> Finding:
        while path and path not in self.profile.marks:
            path = path.rpartition(".")[0]
        start = Mark(path=self.profile.source_path, line=1, column=1)
        mark = self.profile.marks.get(path, start)
        return Finding(
            path=mark.path,
            line=mark.line,
            column=mark.column,
            severity=severity,
            message=message,
            suggestion=suggestion,
        )
