"""What a value in a sequence means: a literal, a name in braces, or an expression.

- ``"{name}"`` is the named value with its kind kept; ``"{2 * voltage}"`` is an expression.
- Where only a number makes sense (the columns of ``row``, the ends of ``lin`` and ``log``), an
  expression may stand without braces: these are the *bare* places.
- Everything else is itself: ``"DC"`` is text, ``0.5`` a number, ``true`` a bool.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from edged.errors import ErrorCode, Invalid
from edged.profiles.expr import compile_expression
from edged.profiles.model import Scalar

__all__ = ["expression_text", "names_in", "value_of"]

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


def value_of(value: object, names: Mapping[str, object], *, is_bare: bool = False) -> object:
    """The value, with names filled in.

    Args:
        value: as the model holds it.
        names: the sequence's parameters and what its steps saved so far; a saved answer may be a
            dict of fields, which only ``"{name}"`` alone can hand on.
        is_bare: whether an expression may stand without braces here.

    Raises:
        Invalid: a name without a value, or an expression that cannot be worked out.
    """
    text = expression_text(value, is_bare=is_bare)
    if text is None:
        return value
    if text in names:
        return names[text]
    expression = compile_expression(text)
    known: dict[str, Scalar] = {}
    for name in sorted(expression.names):
        held = names.get(name)
        if held is None or not isinstance(held, int | float | str):
            why = "has no value" if held is None else "is more than one value"
            message = f'"{text}" needs {name}, which {why} here.'
            raise Invalid(message, code=ErrorCode.BAD_ARGUMENTS, data={"name": name})
        known[name] = held
    return expression.evaluate(known)
