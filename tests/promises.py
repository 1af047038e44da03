"""The promises of docs/promises.md, and the mark by which a test says which of them it holds.

``tests/test_promises.py`` fails on a promise without a test and on a test that names none that is
there. ``pytest -m promise -v`` prints the list as a report.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

import pytest

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "promises.md"
_ROW: Final = re.compile(r"^\| `([a-z0-9.-]+)` \| (.+) \|$", re.MULTILINE)

PROMISES: Final[Mapping[str, str]] = MappingProxyType(
    dict(_ROW.findall(PAGE.read_text(encoding="utf-8")))
)
"""Sentences by id."""


def promise(promise_id: str) -> pytest.MarkDecorator:
    """Mark a test as one that holds that promise."""
    if promise_id not in PROMISES:
        message = f"{promise_id} is no promise of docs/promises.md"
        raise KeyError(message)
    return pytest.mark.promise(promise_id)
