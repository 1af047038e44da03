"""Text in CSV files: a spreadsheet takes some for a formula, and strangers send it. Pure.

The one guard of everything that edged writes as CSV: the record's export, and recordings.
"""

from __future__ import annotations

import re
from typing import Final

FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\r")
NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def guarded(text: str) -> str:
    """The text with an apostrophe before it if a spreadsheet would take it for a formula.

    A text that is a number stays as it is. One that begins like a guarded text gets another
    apostrophe, so that ``unguarded`` gives every text back.
    """
    return f"'{text}" if _is_formula(text) and NUMBER.fullmatch(text) is None else text


def unguarded(cell: str) -> str:
    """The text that ``guarded`` was given."""
    return cell[1:] if cell.startswith("'") and _is_formula(cell) else cell


def _is_formula(text: str) -> bool:
    return text.lstrip("'").startswith(FORMULA_STARTS)
