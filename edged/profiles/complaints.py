"""What is said about a profile or bench file: its one error, and the nearest good word."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Final

from edged.errors import ErrorCode, Invalid
from edged.profiles.model import Mark
from edged.yaml.problem import quotable

__all__ = ["complaint", "nearest", "one_of"]

_MOST_LISTED: Final = 12


def complaint(mark: Mark, message: str, remedy: str = "") -> Invalid:
    """The one kind of error that profile and bench files make, to be raised.

    ``data`` has path, line, column, the bare message and the suggestion. What was quoted from the
    file is shortened and made printable: it ends in logs and on terminals.
    """
    shown = quotable(message)
    return Invalid(
        f"{mark.place}: {shown}",
        code=ErrorCode.BAD_PROFILE,
        data={
            "path": mark.path,
            "line": mark.line,
            "column": mark.column,
            "message": shown,
            "suggestion": remedy,
        },
        remedy=remedy,
    )


def nearest(word: str, known: Iterable[str]) -> str:
    """A sentence that offers the known word most like ``word``, or lists them when they are few."""
    words = sorted(known)
    # difflib is quadratic in the length of what it is given.
    close = difflib.get_close_matches(word[:64], words, n=1, cutoff=0.6)
    if close:
        return f'Did you mean "{close[0]}"?'
    if not words or len(words) > _MOST_LISTED:
        return ""
    return f"Known: {one_of(words)}."


def one_of(words: Iterable[str]) -> str:
    """The words as ``a, b or c``."""
    listed = list(words)
    return ", ".join(listed[:-1]) + (" or " if listed[:-1] else "") + listed[-1]
