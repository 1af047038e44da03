"""Where a run stands at the beginning of a pass: what it goes on from after a crash."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, field
from typing import Any, Final

from edged.record import record
from edged.runs.experiments.run import ExperimentRun
from edged.yaml.tree import Scalar


@record
class Position:
    """One place of a run, before anything of a pass is sent and after all before it is on the disk.

    Attributes:
        loops: those that are open, the outermost first: name → place of the pass in its values.
        given: loop → the names that its values are worked out from, as they were when it began.
        passes: how often each loop has begun, so that a snake turns.
        setpoints: (unit, query, value) of each that the run had moved.
        rows, checks, questions: so many there were.
        elapsed_s: without pauses.
    """

    loops: Mapping[str, int] = field(default_factory=dict)
    given: Mapping[str, Mapping[str, Scalar]] = field(default_factory=dict)
    passes: Mapping[str, int] = field(default_factory=dict)
    names: Mapping[str, Scalar | None] = field(default_factory=dict)
    setpoints: Sequence[Sequence[Any]] = ()
    rows: int = 0
    checks: int = 0
    questions: int = 0
    elapsed_s: float = 0.0
    notes: Sequence[str] = ()
    tags: Sequence[str] = ()

    @classmethod
    def of(cls, run: ExperimentRun, *, checks: int, now_s: float) -> Position:
        """Where a run stands now."""
        return cls(
            loops={loop.name: loop.number for loop in run.loops},
            given={loop.name: dict(loop.given) for loop in run.loops if loop.given},
            passes=dict(run.passes),
            names=dict(run.names),
            setpoints=[(*key, axis.confirmed) for key, axis in run.axes.items()],
            rows=run.rows,
            checks=checks,
            questions=run.questions,
            elapsed_s=run.elapsed_s(now_s),
            notes=list(run.said),
            tags=list(run.tags),
        )

    def to_json(self) -> dict[str, Any]:
        """For ``from_json``."""
        return asdict(self)

    @classmethod
    def from_json(cls, told: object) -> Position:
        """``NOWHERE``, where there is none or it cannot be read."""
        try:
            return cls(**told) if isinstance(told, Mapping) else NOWHERE
        except TypeError:
            return NOWHERE

    def take(self, run: ExperimentRun, now_s: float) -> None:
        """Have a run stand here that goes on, and is as its plan begins."""
        if self == NOWHERE:
            return
        run.passes = dict(self.passes)
        run.names = dict(self.names)
        run.rows = self.rows
        run.questions = self.questions
        run.said = list(self.notes)
        run.tags = list(self.tags)
        run.began = now_s - self.elapsed_s


NOWHERE: Final = Position()
"""Of a run that begins."""
