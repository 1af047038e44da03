"""What a report is asked as, what is made of it, and who is asked for the rows of the record."""

from __future__ import annotations

import enum
from collections.abc import Awaitable
from typing import Protocol

from edged.record import record
from edged.store.audit.run_rows import RunRows

__all__ = ["Form", "MadeReport", "RowsOfRun"]


class Form(enum.StrEnum):
    """What a report is written as."""

    HTML = "html"
    PDF = "pdf"


class RowsOfRun(Protocol):
    """Asks the record; see ``Audit.of_run``."""

    def __call__(self, run_id: str, *, since_ms: int, until_ms: int | None) -> Awaitable[RunRows]:
        """Raises ``Failed`` where the record cannot be read."""
        ...


@record
class MadeReport:
    """A report as bytes; ``by``: what printed it."""

    data: bytes
    mime: str
    by: str
