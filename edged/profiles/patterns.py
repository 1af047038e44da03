"""Regular expressions that come from files: compiled once, and none that can hang.

What can hang, ``slow_patterns.py`` knows. Texts are cut by who searches.
"""

from __future__ import annotations

import functools
import re
import warnings

from edged.profiles.complaints import complaint
from edged.profiles.fields import text_of
from edged.slow_patterns import MAX_PATTERN, why_slow
from edged.yaml.tree import Node

__all__ = ["compiled", "pattern_of"]


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
        remedy = "Write {0,16} in place of * where sixteen are enough."
        raise complaint(node.mark, f"{owner} can take very long: {slow}.", remedy)
    return text
