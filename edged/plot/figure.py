"""What a picture shows, as values: panels above each other over one axis. Pure.

Made by whoever knows the data (``runs/recordings/figures.py``), read by the program that draws
(``draw.py``); between them it is JSON.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

__all__ = ["Curve", "Figure", "Panel", "read_figure"]

Numbers = Sequence[float | None]
"""``None`` where there is no number; the line has a gap there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One line.

    Attributes:
        x, low: its points; as many of each.
        high: where a point stands for many, the highest of them; ``low`` is the lowest then.
    """

    label: str
    x: Numbers
    low: Numbers
    high: Numbers | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """Lines that share a unit."""

    label: str
    unit: str
    lines: tuple[Curve, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One picture."""

    title: str
    x_label: str
    x_unit: str
    panels: tuple[Panel, ...]
    log_x: bool = False
    log_y: bool = False

    def encode(self) -> bytes:
        """As the drawing program reads it."""
        return json.dumps(asdict(self), allow_nan=False).encode()


def read_figure(data: bytes) -> Figure:
    """The reverse of ``encode``."""
    told = json.loads(data)
    panels = tuple(
        Panel(
            label=panel["label"],
            unit=panel["unit"],
            lines=tuple(Curve(**line) for line in panel["lines"]),
        )
        for panel in told["panels"]
    )
    return Figure(
        title=told["title"],
        x_label=told["x_label"],
        x_unit=told["x_unit"],
        panels=panels,
        log_x=told["log_x"],
        log_y=told["log_y"],
    )
