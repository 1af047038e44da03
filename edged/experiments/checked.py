"""What a check looks at and what it finds: a bench, what is sent there, a plan that may start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final, Protocol

from edged.errors import EdgedError
from edged.experiments.model import Experiment
from edged.profiles.model import Command
from edged.record import record
from edged.yaml.tree import Scalar

MOST_SENT: Final = 10_000_000
LONGEST_H: Final = 12.0
"""Of a plan that does not say ``at_most_h``."""


@record
class RoleUnit:
    """What the check must know of a unit.

    Attributes:
        called: its alias or id, and its profile.
        spoken_s: what its commands took lately, by name.
    """

    id: str
    called: str
    commands: Mapping[str, Command]
    spoken_s: Mapping[str, float] = field(default_factory=dict)


class BenchView(Protocol):
    """The bench, as far as a check looks at it."""

    def unit(self, name: str) -> RoleUnit:
        """By alias, id or address; raises EdgedError where there is none, or no profile."""
        ...

    def judge(
        self,
        unit: RoleUnit,
        command: Command,
        values: Mapping[str, Scalar],
        *,
        is_step: bool,
        is_last: bool,
        ranged: frozenset[str],
        conflicts: list[EdgedError],
    ) -> tuple[str, ...]:
        """The lines that it would send; raises EdgedError where the command path would refuse it.

        Args:
            conflicts: takes what stands in its way just now, whatever its values.
            is_step: it is a step of a ramp.
            is_last: of ``finally``.
            ranged: parameters whose value is an end of a range.
        """
        ...

    def spend(self, one: Judgement, at_s: float, count: int, every_s: float) -> None:
        """Raises EdgedError where the owner lets it be sent less often.

        Args:
            at_s: seconds after the start, at the least.
            count: so often at the most, ``every_s`` apart at the least.
        """
        ...

    def fastest(self, unit: RoleUnit, command: Command) -> float | None:
        """The owner's highest rate of it, in units per second; ``None`` where there is none."""
        ...


@record
class DataColumn:
    """A column of the data: its loops are its dimensions."""

    name: str
    unit: str
    loops: tuple[str, ...]


@record(frozen=False)
class Asked:
    """A command with its distinct values, and how often it is sent: a part of the envelope.

    ``is_last``: ``finally`` sends it, too.
    """

    unit: str
    command: str
    parameters: dict[str, Any]
    rate: float | None = None
    count: float = 0
    is_last: bool = False


@record
class Span:
    """Seconds: at the least, likely, and at the most."""

    least: float = 0.0
    likely: float = 0.0
    most: float = 0.0

    def plus(self, other: Span) -> Span:
        """One after the other."""
        return Span(
            least=self.least + other.least,
            likely=self.likely + other.likely,
            most=self.most + other.most,
        )

    def times(self, least: float, most: float | None = None) -> Span:
        """So often."""
        high = least if most is None else most
        return Span(
            least=self.least * least, likely=self.likely * (least + high) / 2, most=self.most * high
        )


@record
class Checked:
    """A plan that may start.

    Attributes:
        units: role → the unit that stands for it.
        values: the parameters of the experiment.
        loops: name → (number of passes, its unit of measure, its values where they are known).
        points: rows at the least and at the most.
        bounded: (unit, command, parameter) → the ends of its ``bounds``.
        later: what is known only while it runs.
        left_on: commands that switch something on which ``finally`` does not switch off.
    """

    experiment: Experiment
    units: Mapping[str, RoleUnit]
    values: Mapping[str, Scalar]
    columns: tuple[DataColumn, ...]
    loops: Mapping[str, tuple[int, str, tuple[Scalar, ...] | None]]
    points: tuple[int, int]
    duration: Span
    envelope: tuple[Asked, ...]
    bounded: Mapping[tuple[str, str, str], tuple[float, float]]
    later: tuple[str, ...]
    left_on: tuple[str, ...]
    is_asking: bool


@record
class Judgement:
    """A command with its values, to be judged by the command path; ``is_last`` in ``finally``.

    Of what is ``ranged`` the values are the ends of a range.
    """

    path: str
    unit: RoleUnit
    command: Command
    values: Mapping[str, Scalar]
    is_step: bool
    is_last: bool
    ranged: frozenset[str]


@record
class Spending:
    """A step that sends something, and when.

    Attributes:
        at_s: seconds after the start, at the least.
        count: how often at the most; ``loop``: the innermost around it.
        rate: of a ramp, which is many steps; ``ramp_s``: what it takes, where that is known.
    """

    judged: Judgement
    at_s: float
    count: float
    loop: str
    rate: float | None = None
    ramp_s: float | None = None
