"""What is true of a result and yet misleads whoever reads it alone. Pure.

Source: docs/promises.md section 15, "What is true and misleading is said".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

__all__ = ["notes_of_sequence"]

LIMITED: Final = "limited"
"""The column of a source's curve, or value of a result: whether its limit was reached."""


def notes_of_sequence(result: Mapping[str, Any]) -> list[str]:
    """What is to be said of a sequence: of its table, or of its values where it has none."""
    rows = result.get("rows")
    if not rows:
        return ["the current limit was reached"] if result.get(LIMITED) is True else []
    count = sum(row.get(LIMITED) is True for row in rows)
    return [f"the current limit was reached at {count} of {len(rows)} points"] if count else []
