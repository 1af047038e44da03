"""What a wrapper's function gives back → what JSON can hold; runs in the worker.

Vendor packages hand out their own numbers and arrays; those that have ``tolist`` (NumPy's, and
``array.array``) are turned into Python's. A number that is not finite is no value: null.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from typing import Any, Final

__all__ = ["json_ready"]

MAX_DEPTH: Final = 16


def json_ready(value: object, depth: int = 0) -> Any:
    """The same value in plain types.

    Raises:
        TypeError: something that has no plain form, or too deep; the text says where.
    """
    match value:
        case enum.Enum():
            return json_ready(value.value, depth)
        case None | bool() | str():
            return value
        case int():
            return int(value)
        case float():
            return float(value) if math.isfinite(value) else None
        case _ if depth >= MAX_DEPTH:
            raise TypeError(f"it is nested deeper than {MAX_DEPTH} levels")
        case Mapping():
            return {str(key): json_ready(item, depth + 1) for key, item in value.items()}
        case list() | tuple() | set() | frozenset():
            return [json_ready(item, depth + 1) for item in value]
    plain = getattr(value, "tolist", None)
    if callable(plain):
        return json_ready(plain(), depth + 1)
    raise TypeError(f"a {type(value).__name__} cannot be written as JSON")
