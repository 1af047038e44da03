"""What is printed, as values: headings, lines of text and figures, one below the other. Pure.

Made by whoever knows what to tell (``runs/report/plain.py``), read by the program that draws.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any, Final

from edged.plot.figure import Figure, figure_of
from edged.record import record

__all__ = ["LINE_CHARS", "PAPER", "Block", "Heading", "Lines", "Paper", "PaperFigure", "read_paper"]

PAPER: Final = "--paper"
"""How the program that draws is told that it gets one of these."""
LINE_CHARS: Final = 118
"""So many characters of a line fit between the margins."""


@record(kw_only=False)
class Heading:
    """What follows is about that."""

    text: str


@record(kw_only=False)
class Lines:
    """Text in letters of one width; none is longer than ``LINE_CHARS``."""

    lines: tuple[str, ...]


@record(kw_only=False)
class PaperFigure:
    """A figure."""

    figure: Figure


Block = Heading | Lines | PaperFigure


@record
class Paper:
    """One document; its title stands on each page."""

    title: str
    blocks: tuple[Block, ...]

    def encode(self) -> bytes:
        """As the drawing program reads it."""
        return json.dumps(asdict(self), allow_nan=False).encode()


def read_paper(data: bytes) -> Paper:
    """The reverse of ``encode``."""
    told = json.loads(data)
    return Paper(title=told["title"], blocks=tuple(map(_block, told["blocks"])))


def _block(told: dict[str, Any]) -> Block:
    if "figure" in told:
        return PaperFigure(figure_of(told["figure"]))
    return Lines(tuple(told["lines"])) if "lines" in told else Heading(told["text"])
