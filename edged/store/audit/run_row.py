"""The rows of the audit log that belong to one run, as they are told. Pure."""

from __future__ import annotations

from typing import NamedTuple

from edged.record import record


class RunRow(NamedTuple):
    """What is told of a row; ``hash`` in hexadecimal."""

    seq: int
    time_ms: int
    phase: str
    action_id: str
    tool: str
    command: str
    outcome: str
    hash: str


@record
class RunRows:
    """The rows of a run, in their order.

    Attributes:
        first, last: the first and the last of them; none is in both.
        total: how many there are.
        digest: SHA-256 over their hashes in hexadecimal, each with a line end, in their order.
        is_whole: every row that could belong to it was looked at.
        head_seq, head_hash: the newest row of the whole record, when they were looked at.
    """

    first: tuple[RunRow, ...] = ()
    last: tuple[RunRow, ...] = ()
    total: int = 0
    digest: str = ""
    is_whole: bool = True
    head_seq: int = 0
    head_hash: str = "00" * 32
