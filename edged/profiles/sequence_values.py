"""What a value in a sequence means: a literal, a name in braces, or an expression.

- ``"{name}"`` is the named value with its kind kept; ``"{2 * voltage}"`` is an expression.
- Where only a number makes sense (the columns of ``row``, the ends of ``lin`` and ``log``), an
  expression may stand without braces: these are the *bare* places.
- Everything else is itself: ``"DC"`` is text, ``0.5`` a number, ``true`` a bool.

Filling in is ``work/sequences``'s business, where the values are.
"""

from __future__ import annotations

import re
from typing import Final

from edged.profiles.expr import compile_expression

__all__ = ["expression_text", "names_in"]

_NAME: Final = re.compile(r"[a-z][a-z0-9_]*")


def expression_text(value: object, *, is_bare: bool) -> str | None:
    """The expression that ``value`` holds, or ``None`` when it is a literal."""
    if not isinstance(value, str):
        return None
    if len(value) > 1 and value.startswith("{") and value.endswith("}"):
        return value[1:-1].strip()
    return value if is_bare else None


def names_in(value: object, *, is_bare: bool = False) -> frozenset[str]:
    """The names whose values are needed to know ``value``.

    Raises:
        Invalid: an expression that is none.
    """
    text = expression_text(value, is_bare=is_bare)
    if text is None:
        return frozenset()
    if _NAME.fullmatch(text):
        return frozenset({text})
    return compile_expression(text).names
