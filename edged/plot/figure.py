"""What a picture shows, as values: panels above each other over one axis. Pure.

Made by whoever knows the data (``runs/recordings/figures.py``), read by the program that draws
(``draw.py``); between them it is JSON.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from edged.record import record

COLOURS: Final = ("#1f5fa8", "#c8501e", "#2d8a4e", "#8a3a9a", "#a07d12", "#4b5563")
MARKED_POINTS: Final = 60
"""Up to so many points each gets a mark."""
PLAIN_UNITS: Final = frozenset({"%", "dB", "dBm", "dBV", "deg", "°", "°C", "°F", "h"})
"""Units that nobody puts a prefix to."""
LINEAR_UNITS: Final = frozenset({"dB", "dBm", "dBV", "deg", "°", "rad"})
"""Units of which a logarithm makes no sense: the phase beside a magnitude stays linear."""


def has_prefixes(unit: str) -> bool:
    """Whether numbers of that unit are written with prefixes: mV, kHz."""
    return bool(unit) and unit not in PLAIN_UNITS


Numbers = Sequence[float | None]
"""``None`` where there is no number; the line has a gap there."""


@record
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


@record
class Panel:
    """Lines that share a unit."""

    label: str
    unit: str
    lines: tuple[Curve, ...]


@record
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
    return figure_of(json.loads(data))


def figure_of(told: dict[str, Any]) -> Figure:
    """A figure from its JSON."""
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
