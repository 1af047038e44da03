"""Two commands that send one line and mean two things by it: volts, and amperes. Pure.

A source of voltage or current has one word for its level (Yokogawa GS200: ``:SOUR:LEV``); which it
is, the function that was chosen says. What the owner said of the amperes says nothing of the volts.
"""

from __future__ import annotations

from edged.profiles.model import Command
from edged.profiles.template import Hole, Part, Text, parse_template

__all__ = ["means_another_unit"]


def means_another_unit(command: Command, template: str, other: Command) -> bool:
    """Whether a template has another unit where a line of another command has its value.

    Only where the two templates are alike but for their placeholders; a unit that is not told is
    any unit.
    """
    parts = parse_template(template)
    for theirs in map(parse_template, other.scpi):
        if len(parts) != len(theirs) or not all(map(_is_alike, parts, theirs)):
            continue
        for mine, own in zip(parts, theirs, strict=True):
            if isinstance(mine, Hole) and isinstance(own, Hole):
                units = command.parameters[mine.name].unit, other.parameters[own.name].unit
                if all(units) and units[0] != units[1]:
                    return True
    return False


def _is_alike(one: Part, other: Part) -> bool:
    match one, other:
        case Text(text=a), Text(text=b):
            return a.casefold() == b.casefold()
        case Hole(), Hole():
            return True
        case _:
            return False
