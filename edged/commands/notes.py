"""What is true of a result and yet misleads whoever reads it alone. Pure.

Source: docs/promises.md section 15, "What is true and misleading is said".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

__all__ = ["notes_of_rows"]

LIMITED: Final = "limited"
"""The column of a source's curve that says whether its limit was reached."""


def notes_of_rows(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """What is to be said of the table of a sequence."""
    count = sum(row.get(LIMITED) is True for row in rows)
    return [f"the current limit was reached at {count} of {len(rows)} points"] if count else []
