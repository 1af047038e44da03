"""What ``/metrics`` tells besides calls: one figure each."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from edged.record import record

Read = Callable[[], float | Mapping[str, float]]


@record
class MetricFigure:
    """One figure besides those of calls.

    Attributes:
        name: without the prefix ``edged_``.
        label: under which label a mapping's keys stand; empty for a single number.
        is_total: it only ever grows.
    """

    name: str
    help: str
    read: Read
    label: str = ""
    is_total: bool = False
