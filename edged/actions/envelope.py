"""What a run may send, known before it begins: its *envelope*. Pure, but for what was sent of it.

The check of a plan builds one, a person reads it in at most ``MOST_LINES`` lines and says yes, and
the command path holds each step of the run to it: which command of which unit, with which values,
how fast, how often, and for how long. Safe commands and aborts are held back by nothing.

Source: docs/sharing.md, "Approval".
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field, replace
from typing import Any, Final, TypeGuard

from edged.record import record
from edged.yaml.tree import Scalar

MOST_LINES: Final = 30
MOST_SHOWN: Final = 8
"""Numbers that are shown one by one; of more their smallest and largest are."""
MOST_OF_A_LINE: Final = 1_000


@record
class Allowed:
    """What one parameter may be: one of ``values``, or a number in ``between``, ends included."""

    values: tuple[Scalar, ...] = ()
    between: tuple[float, float] | None = None
    unit: str = ""
    # Of the values: the numbers in order, and the others. A loop may have 100,000.
    _numbers: tuple[float, ...] = field(init=False, repr=False, compare=False)
    _others: frozenset[tuple[type, Scalar]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        others = frozenset((type(one), one) for one in self.values if not _is_number(one))
        object.__setattr__(self, "_numbers", tuple(sorted(filter(_is_number, self.values))))
        object.__setattr__(self, "_others", others)

    def holds(self, value: object) -> bool:
        """Whether a value is one of these."""
        if not _is_number(value):
            return (type(value), value) in self._others
        ends = self.between or ()
        if ends and ends[0] <= value <= ends[1]:
            return True
        at = bisect_left(self._numbers, value)
        nearest = (*ends, *self._numbers[max(0, at - 1) : at + 1])
        return any(math.isclose(value, one, abs_tol=1e-12) for one in nearest)

    def with_number(self, value: float) -> Allowed:
        """The same, its range reaching to this number."""
        ends = (value, *(self.between or ()), *filter(_is_number, self.values))
        return replace(self, between=(min(ends), max(ends)))

    @property
    def text(self) -> str:
        """For people: "0 … 5 V", "1, 2"; never less than is allowed."""
        numbers = [value for value in self.values if _is_number(value)]
        told = [] if self.between is None else [_range(*self.between)]
        if len(numbers) > MOST_SHOWN:
            told.append(_range(min(numbers), max(numbers)))
            told += [_shown(value) for value in self.values if not _is_number(value)]
        else:
            told += map(_shown, self.values)
        return f"{', '.join(told)} {self.unit}".rstrip()

    def to_json(self) -> dict[str, Any]:
        """For ``from_json``."""
        return {"values": list(self.values), "between": self.between, "unit": self.unit}

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Allowed:
        """Raises KeyError, TypeError, ValueError: it is none."""
        low_high = told["between"]
        return cls(
            values=tuple(told["values"]),
            between=None if low_high is None else (float(low_high[0]), float(low_high[1])),
            unit=str(told["unit"]),
        )


@record
class EnvelopeRow:
    """One command of one unit, as far as a run may send it.

    Attributes:
        unit: key of the physical unit (``runs.units``).
        called: what the unit is called to people.
        parameters: what each may be, defaults too.
        rate: set in steps of a ramp, at most so fast, per second; ``None``: set at once, too.
        most: how often it may be sent, each step of a ramp counted; 0: not counted.
        is_last: ``finally`` of the plan, or of a loop, sends it.
    """

    unit: str
    called: str
    command: str
    parameters: Mapping[str, Allowed] = field(default_factory=dict)
    rate: float | None = None
    most: int = 0
    is_last: bool = False

    def misfits(self, values: Mapping[str, Scalar], rate: float) -> list[str]:
        """What of a step is outside of this, each as a clause; empty: nothing."""
        found = [
            f"{name} {_shown(value)} is not in {allowed.text}"
            if (allowed := self.parameters.get(name)) is not None
            else f"{name} is not a parameter that it gives"
            for name, value in values.items()
            if name not in self.parameters or not self.parameters[name].holds(value)
        ]
        if self.rate is not None and not 0 < rate <= self.rate * (1 + 1e-9):
            how = f"ramped at {_shown(rate)}/s" if rate > 0 else "set at once"
            found.append(f"it is {how}, and may be ramped at most at {_shown(self.rate)}/s")
        return found

    @property
    def text(self) -> str:
        """One line for people."""
        given = ", ".join(f"{name} {allowed.text}" for name, allowed in self.parameters.items())
        fast = "" if self.rate is None else f", ramped at most at {_shown(self.rate)}/s"
        often = "" if not self.most else ", once" if self.most == 1 else f", {self.most:,} times"
        return f"{self.title}{f' ({given})' if given else ''}{fast}{often}"

    @property
    def title(self) -> str:
        """Unit and command, for people."""
        return f"{self.called}: {self.command}"

    def to_json(self) -> dict[str, Any]:
        """For ``from_json``."""
        return {
            "unit": self.unit,
            "called": self.called,
            "command": self.command,
            "parameters": {name: one.to_json() for name, one in self.parameters.items()},
            "rate": self.rate,
            "most": self.most,
            "is_last": self.is_last,
        }

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> EnvelopeRow:
        """Raises KeyError, TypeError, ValueError: it is none."""
        rate = told["rate"]
        return cls(
            unit=str(told["unit"]),
            called=str(told["called"]),
            command=str(told["command"]),
            parameters={
                str(name): Allowed.from_json(one) for name, one in told["parameters"].items()
            },
            rate=None if rate is None else float(rate),
            most=int(told["most"]),
            is_last=told["is_last"] is True,
        )


@record
class Envelope:
    """All that a run may send, and for how long.

    Attributes:
        plan_id: of the plan that it is of.
        rows: a step must lie in one of them as a whole.
        most_s: how long the run may take.
    """

    plan_id: str
    rows: tuple[EnvelopeRow, ...]
    most_s: float

    def why_outside(
        self, unit: str, command: str, values: Mapping[str, Scalar], rate: float = 0.0
    ) -> str:
        """Why a step lies in none of the rows, as a clause; empty: it lies in one.

        Args:
            values: after validation, defaults too.
            rate: of the ramp that it is a step of, per second; 0: it is set at once.
        """
        rows = self.rows_of(unit, command)
        if not rows:
            return f"the plan does not send {command or 'a line that is no command'} there"
        fewest: list[str] = min((row.misfits(values, rate) for row in rows), key=len)
        return " and ".join(fewest)

    def rows_of(self, unit: str, command: str) -> list[EnvelopeRow]:
        """Those of one command of one unit."""
        return [row for row in self.rows if (row.unit, row.command) == (unit, command)]

    def text(self) -> tuple[str, ...]:
        """At most ``MOST_LINES`` lines for a person, who reads no less than is allowed.

        What does not fit is drawn together: one line for each command of a unit.
        """
        last = ", ".join(dict.fromkeys(row.title for row in self.rows if row.is_last))
        end = [f"finally, however it ends: {last}"] if last else []
        end.append(f"for {_duration(self.most_s)} at most")
        lines = [row.text for row in self.rows]
        if len(lines) + len(end) > MOST_LINES:
            lines = list(_together(self.rows))
        return (*lines, *end)

    def why_unreadable(self) -> str:
        """Why a person could not be shown all of it; empty: all of it is in ``text``."""
        lines = self.text()
        if len(lines) > MOST_LINES:
            return f"it takes {len(lines)} lines, over the maximum {MOST_LINES}"
        if any(len(line) > MOST_OF_A_LINE for line in lines):
            return f"one line is longer than {MOST_OF_A_LINE} characters"
        return ""

    def to_json(self) -> dict[str, Any]:
        """For ``from_json``."""
        rows = [row.to_json() for row in self.rows]
        return {"plan_id": self.plan_id, "rows": rows, "most_s": self.most_s}

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Envelope:
        """Raises KeyError, TypeError, ValueError: it is none."""
        rows = tuple(EnvelopeRow.from_json(row) for row in told["rows"])
        return cls(plan_id=str(told["plan_id"]), rows=rows, most_s=float(told["most_s"]))


class OpenEnvelope:
    """The envelope of one run, and what has been sent of it. On the event loop.

    Args:
        monotonic: the clock's.

    Attributes:
        envelope: what the run may send.
    """

    def __init__(self, envelope: Envelope, monotonic: Callable[[], float]) -> None:
        self.envelope = envelope
        self._monotonic = monotonic
        self._until_s = monotonic() + envelope.most_s
        self._sent = [0] * len(envelope.rows)

    def why_outside(
        self,
        unit: str,
        command: str,
        values: Mapping[str, Scalar],
        rate: float = 0.0,
        *,
        is_finally: bool = False,
    ) -> str:
        """``Envelope.why_outside``, and whether it is still open; empty: it may be sent.

        Args:
            is_finally: it cleans up, which may be late and come again; its values are bound alike.
        """
        why = self.envelope.why_outside(unit, command, values, rate)
        if why or is_finally:
            return why
        if self._monotonic() >= self._until_s:
            return f"the run has ended, or has taken longer than {_duration(self.envelope.most_s)}"
        if self._row_with_room(unit, command, values, rate) is None:
            return "it was sent as often as the plan says"
        return ""

    def take(
        self, unit: str, command: str, values: Mapping[str, Scalar], rate: float = 0.0
    ) -> int | None:
        """It is about to be sent; ``why_outside`` was asked in the same breath.

        Returns:
            For ``give_back``: the row that it was taken of.
        """
        place = self._row_with_room(unit, command, values, rate)
        if place is not None:
            self._sent[place] += 1
        return place

    def give_back(self, place: int) -> None:
        """What was taken was not sent."""
        self._sent[place] -= 1

    def widen(self, unit: str, command: str, parameter: str, value: float) -> None:
        """A set-point stands here before it is ramped: the way from it to the plan's range is open.

        Only for rows that are ramped; what is set at once stays within the plan's range.
        """
        rows = tuple(
            replace(row, parameters={**row.parameters, parameter: allowed.with_number(value)})
            if (row.unit, row.command) == (unit, command)
            and row.rate is not None
            and (allowed := row.parameters.get(parameter)) is not None
            else row
            for row in self.envelope.rows
        )
        self.envelope = replace(self.envelope, rows=rows)

    def end(self) -> None:
        """The run is over: nothing more is in it."""
        self._until_s = -math.inf

    def _row_with_room(
        self, unit: str, command: str, values: Mapping[str, Scalar], rate: float
    ) -> int | None:
        for place, row in enumerate(self.envelope.rows):
            has_room = not row.most or self._sent[place] < row.most
            is_its = (row.unit, row.command) == (unit, command)
            if is_its and has_room and not row.misfits(values, rate):
                return place
        return None

    def to_json(self, wall_ms: int) -> dict[str, Any]:
        """For ``from_json``, of a later life."""
        left_s = max(0.0, self._until_s - self._monotonic())
        return {
            "envelope": self.envelope.to_json(),
            "sent": list(self._sent),
            "left_s": left_s,
            "until_ms": wall_ms + round(left_s * 1000),
        }

    @classmethod
    def from_json(
        cls, told: object, monotonic: Callable[[], float], wall_ms: int
    ) -> OpenEnvelope | None:
        """What a former life left of it; ``None``: that cannot be read, so nothing is allowed."""
        if not isinstance(told, Mapping):
            return None
        try:
            found = cls(Envelope.from_json(told["envelope"]), monotonic)
            found._sent = [int(count) for count in told["sent"]]
            left_s = min(float(told["left_s"]), (told["until_ms"] - wall_ms) / 1000)
            found._until_s = monotonic() + left_s
        except (AttributeError, LookupError, TypeError, ValueError, OverflowError):
            return None
        return found if len(found._sent) == len(found.envelope.rows) else None


def _together(rows: tuple[EnvelopeRow, ...]) -> Iterator[str]:
    by_command: dict[tuple[str, str], list[EnvelopeRow]] = {}
    for row in rows:
        by_command.setdefault((row.unit, row.command), []).append(row)
    for alike in by_command.values():
        names = dict.fromkeys(name for row in alike for name in row.parameters)
        parameters = {
            name: _union([row.parameters[name] for row in alike if name in row.parameters])
            for name in names
        }
        rates = [row.rate for row in alike]
        yield EnvelopeRow(
            unit=alike[0].unit,
            called=alike[0].called,
            command=alike[0].command,
            parameters=parameters,
            rate=None if None in rates else max(rate for rate in rates if rate is not None),
            most=0 if any(not row.most for row in alike) else sum(row.most for row in alike),
        ).text


def _union(parts: list[Allowed]) -> Allowed:
    values = tuple(dict.fromkeys(value for part in parts for value in part.values))
    ends = [end for part in parts if part.between is not None for end in part.between]
    between = (min(ends), max(ends)) if ends else None
    return Allowed(values=values, between=between, unit=parts[0].unit)


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _range(low: float, high: float) -> str:
    return _shown(low) if low == high else f"{_shown(low)} … {_shown(high)}"


def _shown(value: Scalar) -> str:
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def _duration(seconds: float) -> str:
    for unit, length_s in (("h", 3_600), ("min", 60)):
        if seconds >= length_s:
            return f"{seconds / length_s:.3g} {unit}"
    return f"{seconds:.3g} s"
