"""Which regular expressions can take very long. Pure.

Python's engine backtracks, and what is searched comes from an instrument. So the forms that make it
slow are refused: a repetition inside a repeated group, alternatives inside a repeated group, and
more open-ended repetitions in a row than a bounded text can afford.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["MAX_PATTERN", "why_slow"]

MAX_PATTERN: Final = 300
"""Characters of a pattern that is taken from a file."""
_MOST_OPEN_REPEATS: Final = 2
"""``.*.*x`` over 512 characters takes 0.1 s; with a third ``.*`` it took 12 s (measured)."""
_REPEAT: Final = re.compile(r"[*+?]|\{(\d*)(,?)(\d*)\}")
_LONG_REPEAT: Final = 16


def why_slow(pattern: str) -> str:
    """What makes a pattern slow; empty when nothing does. Escapes and classes are stepped over."""
    has_choice = [False]
    """For each open group: whether it can match one text in more than one way."""
    open_repeats = 0
    position = 0
    while position < len(pattern):
        atom = pattern[position]
        position = _after_atom(pattern, position)
        is_choice_group = False
        match atom:
            case "(":
                has_choice.append(False)
                kind = _GROUP_KIND.match(pattern, position)
                position = position if kind is None else kind.end()
                continue
            case "|":
                has_choice[-1] = True
                continue
            case ")" if len(has_choice) > 1:
                is_choice_group = has_choice.pop()
                has_choice[-1] |= is_choice_group
            case _:
                pass
        repeat = _REPEAT.match(pattern, position)
        if repeat is None:
            continue
        position = repeat.end()
        has_choice[-1] = True
        if not _is_open(repeat):
            continue
        if is_choice_group:
            return "a repeated group holds a repetition or alternatives"
        open_repeats += 1
    if open_repeats > _MOST_OPEN_REPEATS:
        return f"it has {open_repeats} open-ended repetitions, over {_MOST_OPEN_REPEATS}"
    return ""


_GROUP_KIND: Final = re.compile(r"(?:\?(?:[:=!>]|<[=!]|P?<\w+>))?")


def _is_open(repeat: re.Match[str]) -> bool:
    if repeat.group() in ("*", "+"):
        return True
    if repeat.group() == "?":
        return False
    low, comma, high = repeat.groups()
    if comma and not high:
        return True
    return int(high or low or 0) > _LONG_REPEAT


def _after_atom(pattern: str, position: int) -> int:
    """Where the atom at ``position`` ends: one character, an escape, or a whole class."""
    if pattern[position] == "\\":
        return position + 2
    if pattern[position] != "[":
        return position + 1
    position += 1
    if pattern[position : position + 1] == "^":
        position += 1
    if pattern[position : position + 1] == "]":
        position += 1
    while position < len(pattern) and pattern[position] != "]":
        position += 2 if pattern[position] == "\\" else 1
    return position + 1
