"""Regular expressions that come from files: compiled once, and none that can hang.

Python's engine backtracks, and what is searched comes from an instrument. So the forms that make it
slow are refused: a repetition inside a repeated group, alternatives inside a repeated group, and
more open-ended repetitions in a row than a bounded text can afford. Texts are cut by who searches.
"""

from __future__ import annotations

import functools
import re
import warnings
from typing import Final

from edged.profiles.complaints import complaint
from edged.profiles.fields import text_of
from edged.profiles.yaml_source import Node

__all__ = ["compiled", "pattern_of"]

_MAX_PATTERN: Final = 300
_MOST_OPEN_REPEATS: Final = 2
"""``.*.*x`` over 512 characters takes 0.1 s; with a third ``.*`` it took 12 s (measured)."""
_REPEAT: Final = re.compile(r"[*+?]|\{(\d*)(,?)(\d*)\}")
_LONG_REPEAT: Final = 16


@functools.lru_cache(maxsize=1024)
def compiled(pattern: str) -> re.Pattern[str]:
    """The pattern, case-insensitive; raises ``re.error`` for what ``pattern_of`` refuses."""
    return re.compile(pattern, re.IGNORECASE)


def pattern_of(node: Node, owner: str, *, groups: int | None = None) -> str:
    """A regular expression that is safe to search.

    Args:
        node: where it stands.
        owner: begins the complaint's sentence.
        groups: how many groups it must have; ``None`` for any number.

    Raises:
        Invalid: not a regular expression, or one that can take very long.
    """
    text = text_of(node, owner, most=_MAX_PATTERN)
    if not text:
        raise complaint(node.mark, f"{owner} is empty.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = compiled(text)
    except (re.error, OverflowError, RecursionError, Warning) as error:
        raise complaint(node.mark, f"{owner} is no regular expression: {error}.") from None
    if groups is not None and found.groups != groups:
        message = f"{owner} has {found.groups} groups; it needs {groups}."
        raise complaint(node.mark, message, "A group that only groups is written (?:…).")
    slow = _why_slow(text)
    if slow:
        remedy = "Write {0,16} in place of * where sixteen are enough."
        raise complaint(node.mark, f"{owner} can take very long: {slow}.", remedy)
    return text


def _why_slow(pattern: str) -> str:
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
