"""Regular expressions that come from files: compiled once, and none that can take long.

Which can, ``edged.patterns`` knows. What they search is cut here, for all alike.
"""

from __future__ import annotations

import functools
import re
import warnings
from typing import Final

from edged.patterns import MAX_PATTERN, MAX_SEARCHED, why_slow, without_restarts
from edged.profiles.format.fields import complaint, text_of
from edged.yaml.tree import Node

__all__ = ["compiled", "found_in", "pattern_of"]


REMEDY: Final = (
    "Begin it with ^, bound what repeats ({0,16} in place of *), and let no two repetitions in a "
    "row take the same characters ([^,]* in place of .*)."
)


@functools.lru_cache(maxsize=1024)
def compiled(pattern: str, *, any_case: bool = True) -> re.Pattern[str]:
    """The pattern; raises ``re.error`` for what ``pattern_of`` refuses."""
    return re.compile(without_restarts(pattern), re.IGNORECASE if any_case else 0)


def found_in(text: str, pattern: str, *, any_case: bool = True) -> re.Match[str] | None:
    """Where a pattern of a file first matches in the beginning of a text, which is all it sees."""
    return compiled(pattern, any_case=any_case).search(text, 0, MAX_SEARCHED)


def pattern_of(node: Node, owner: str, *, groups: int | None = None) -> str:
    """A regular expression that is safe to search.

    Args:
        node: where it stands.
        owner: begins the complaint's sentence.
        groups: how many groups it must have; ``None`` for any number.

    Raises:
        Invalid: not a regular expression, or one that can take very long.
    """
    text = text_of(node, owner, most=MAX_PATTERN)
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
    slow = why_slow(text)
    if slow:
        raise complaint(node.mark, f"{owner} can take very long: {slow}.", REMEDY)
    return text
