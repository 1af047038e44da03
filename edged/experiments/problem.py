"""One thing that is wrong with a plan: where, whose rule it is, and what to write in its place."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import field
from typing import Any, Final

from edged.errors import EdgedError, Invalid
from edged.record import record
from edged.yaml.tree import Mark, YamlProblem

MOST_PROBLEMS: Final = 20
CLOSE: Final = 0.65
"""How much of two words must be alike, so that one may be meant by the other."""
_SUBJECT: Final = re.compile(r"\.?\w+(?:\.\w+|\[\d+\])*(?=[: ])")


@record
class Problem:
    """One error of a plan.

    Attributes:
        path: ``steps[4].steps[1].set``; empty where it is the whole plan.
        message: a clause or sentence about what stands at ``path``, which it does not name.
        line, column: in the YAML text, from 1; 0 where the plan came as JSON, or nobody knows.
        code: what kind of error it is, for programs: ``grammar``, ``unknown_command``, ….
        near: words that are known and resemble the wrong one.
    """

    path: str
    code: str
    message: str
    remedy: str = ""
    near: tuple[str, ...] = ()
    line: int = 0
    column: int = 0

    @property
    def text(self) -> str:
        """One line for people."""
        place = f"line {self.line}, column {self.column}: " if self.line else ""
        where = f"{self.path}: " if self.path else ""
        return f"{place}{where}{self.message} {self.remedy}".strip()

    def to_json(self) -> dict[str, Any]:
        """JSON-ready: {path, line, column, code, message, remedy, near}."""
        return {
            "path": self.path,
            "line": self.line or None,
            "column": self.column or None,
            "code": self.code,
            "message": self.message,
            "remedy": self.remedy or None,
            "near": list(self.near),
        }


@record
class Problems:
    """What a check has found so far.

    Attributes:
        problems: what is wrong, the first ``MOST_PROBLEMS``.
        later: what is known only while the plan runs, in order.
        unread: words of parts of the plan that could not be read, which is said elsewhere.
    """

    problems: list[Problem] = field(default_factory=list)
    later: dict[str, None] = field(default_factory=dict)
    unread: set[str] = field(default_factory=set)

    def add(
        self,
        path: str,
        code: str,
        message: str,
        remedy: str = "",
        near: Iterable[str] = (),
        about: Collection[str] = (),
    ) -> None:
        """Something is wrong.

        Args:
            about: words; where one is ``unread`` that may be all that is wrong.
        """
        if len(self.problems) < MOST_PROBLEMS and self.unread.isdisjoint(about):
            problem = Problem(
                path=path, code=code, message=message, remedy=remedy, near=tuple(near)
            )
            if problem not in self.problems:
                self.problems.append(problem)

    def refused(self, path: str, error: EdgedError) -> None:
        """Something was refused."""
        self.add(path, error.code.value, error.message, error.remedy)


def close(word: str, known: Iterable[str]) -> tuple[str, ...]:
    """At most three known words that resemble this one."""
    import difflib  # for those who mistyped

    return tuple(difflib.get_close_matches(word[:64], sorted(known), n=3, cutoff=CLOSE))


def problem_of(bad: Invalid, paths: Mapping[Mark, str]) -> Problem:
    """A complaint of the reader, with its path."""
    data = bad.data
    line, column = int(data.get("line") or 0), int(data.get("column") or 0)
    mark = Mark(path=str(data.get("path") or ""), line=line, column=column)
    path = paths.get(mark, "")
    said = bad.sentence if isinstance(bad, YamlProblem) else data.get("message") or bad.message
    is_json = all(known.column == 1 for known in paths) and bool(paths)
    return Problem(
        path=path,
        line=0 if is_json else line,
        column=0 if is_json else column,
        code="grammar",
        message=_sentence(path, str(said)),
        remedy=bad.remedy,
    )


def _sentence(path: str, message: str) -> str:
    """What a complaint says, without the place that its sentence begins with.

    That may be the path, what stands around that (``steps[2]: "rate" …``), what
    stands in it, or the last of its names (``.rate …``).
    """
    found = _SUBJECT.match(message)
    subject = found[0] if found is not None else ""
    is_last = subject.startswith(".") and path.endswith(subject)
    is_place = is_last or _is_in(path, subject) or _is_in(subject, path)
    rest = message[len(subject) :] if is_place else message
    if rest.startswith(":"):
        return rest[1:].lstrip()
    if not rest.startswith(" "):
        return rest
    if rest.startswith(" has the unknown key ") and not path.endswith("]"):
        return "this key is unknown."
    return f"it{rest}" if path else f"The plan{rest}"


def _is_in(path: str, outer: str) -> bool:
    """Whether a path is another, or leads into it."""
    return bool(outer) and (path == outer or path.startswith((f"{outer}.", f"{outer}[")))
