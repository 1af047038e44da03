"""What a report is made of, whatever it is written as: fields, tables, notes, plots. Pure."""

from __future__ import annotations

from edged.plot.figure import Figure
from edged.record import record


@record
class FactList:
    """(name, value) each."""

    rows: tuple[tuple[str, str], ...]


@record
class FactTable:
    """Rows of cells below the names of columns.

    Attributes:
        numbers: the columns, from 0, whose cells are numbers and stand to the right.
        codes: those whose cells are for machines: hashes, ids.
        gap: the number of the row before which rows are left out; -1: none are.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str = ""
    numbers: frozenset[int] = frozenset()
    codes: frozenset[int] = frozenset()
    gap: int = -1


@record
class Note:
    """A sentence; ``is_warning``: nobody must overlook it."""

    text: str
    is_warning: bool = False


@record
class PlottedFigure:
    """A figure, with what stands below it."""

    figure: Figure
    caption: str


Part = FactList | FactTable | Note | PlottedFigure


@record
class Section:
    """What stands under one heading."""

    heading: str
    parts: tuple[Part, ...]


@record
class ReportDocument:
    """One report.

    Attributes:
        subtitle: one line of what was done.
        foot: who made it, and when.
    """

    title: str
    subtitle: str
    sections: tuple[Section, ...]
    foot: str
