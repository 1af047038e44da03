"""Whether the audit still is what was written: altered, removed, inserted or reordered rows.

The chain has no secret. Whoever can write the file and works out every hash anew, from the row they
changed to the end, head record included, is not found; keep the head's hash of a report somewhere
else, and compare, where that matters.

Verification of an audit whose engine does not run: by the file alone, read and never changed.
"""

from __future__ import annotations

import enum
import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from edged.clock import SystemClock
from edged.errors import ErrorCode, Failed
from edged.record import record
from edged.store.audit.chain import ChainLink
from edged.store.audit.queries import fetch
from edged.store.audit.row import (
    COLUMNS,
    GENESIS,
    RETENTION_TOOL,
    Phase,
    former_row_hash,
    row_hash,
)
from edged.store.file import CLIENTS_SINCE, MIGRATIONS, DatabaseFile, close, version_of
from edged.store.head_mark import head_mark_of
from edged.store.health import is_locked

PAGE_ROWS: Final = 500
MAX_PROBLEMS: Final = 100
"""Problems that are told one by one; one file in shreds needs no million sentences."""
SMALLEST: Final = -(2**63)
PHASE_AT: Final = COLUMNS.index("phase")
TOOL_AT: Final = COLUMNS.index("tool")
PARAMETERS_AT: Final = COLUMNS.index("parameters")


class ProblemKind(enum.StrEnum):
    """What was done to a row. ``CHECKPOINT`` is the place where retention has the chain begin."""

    ALTERED = "altered"
    REMOVED = "removed"
    INSERTED = "inserted"
    REORDERED = "reordered"
    CHECKPOINT = "checkpoint"


@record
class ChainProblem:
    """One thing that is wrong; ``seq`` is the number of the (first) row."""

    seq: int
    kind: ProblemKind
    message: str


@record
class VerifyReport:
    """What came of walking the chain.

    Attributes:
        rows: how many were looked at, from ``first_seq`` to ``last_seq``; 0 and 0 without any.
        head_hash: hash of the newest row in hexadecimal.
        problem_count: all problems; ``problems`` has the first 100.
    """

    rows: int
    first_seq: int
    last_seq: int
    head_hash: str
    problem_count: int
    problems: tuple[ChainProblem, ...]

    @property
    def is_intact(self) -> bool:
        """Nothing was found."""
        return self.problem_count == 0

    def to_json(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "is_intact": self.is_intact,
            "rows": self.rows,
            "first_seq": self.first_seq,
            "last_seq": self.last_seq,
            "head_hash": self.head_hash,
            "problem_count": self.problem_count,
            "problems": [
                {"seq": p.seq, "kind": p.kind.value, "message": p.message} for p in self.problems
            ],
        }


class Marks(NamedTuple):
    """What stands beside the rows, read in one transaction with the number of the newest row."""

    checkpoint: ChainLink | None
    head: ChainLink | None
    last_seq: int


def read_marks(connection: sqlite3.Connection) -> Marks:
    """The marks as they are now; rows that come later are not looked at."""
    connection.execute("BEGIN")
    try:
        checkpoint = connection.execute("SELECT seq, hash FROM audit_checkpoint").fetchone()
        head = connection.execute("SELECT seq, hash FROM audit_head").fetchone()
        last = connection.execute("SELECT seq FROM audit ORDER BY seq DESC LIMIT 1").fetchone()
    finally:
        connection.execute("ROLLBACK")
    return Marks(
        checkpoint=_link(checkpoint),
        head=_link(head),
        last_seq=SMALLEST if last is None else last[0],
    )


def _link(row: Sequence[Any] | None) -> ChainLink | None:
    """A mark; one that nobody can read is none, and is missed."""
    if row is None or not isinstance(row[0], int):
        return None
    return ChainLink(row[0], row[1] if isinstance(row[1], bytes) else b"")


def check_page(connection: sqlite3.Connection, check: ChainCheck) -> None:
    """Feed the next rows; nothing more comes when there are none."""
    # A file whose engine was never started since an upgrade is as that one left it.
    has_client = version_of(connection) >= CLIENTS_SINCE
    columns = [name if has_client or name != "client" else "''" for name in COLUMNS]
    query = (
        f"SELECT {', '.join(columns)} FROM audit WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT ?"  # noqa: S608
    )
    rows = fetch(connection, query, [check.fed_seq, check.marks.last_seq, PAGE_ROWS])
    check.is_done = len(rows) < PAGE_ROWS
    if not check.is_done:
        # Somebody may have put a second row of that number into the other table: not to be parted.
        rows = [row for row in rows if row[0] != rows[-1][0]]
    check.feed(rows)


class ChainCheck:
    """Walks the chain, fed with rows in the order of their numbers.

    A chain may begin with rows of the former rule (``former_row_hash``). From its first row of the
    present rule on, only that one counts, so no row can be replaced by one of the former rule.
    """

    def __init__(self, marks: Marks) -> None:
        self.marks = marks
        self.is_done = False
        self.fed_seq = SMALLEST
        self._at = marks.checkpoint or ChainLink(0, GENESIS)
        self._rows = 0
        self._first_seq = 0
        self._problem_count = 0
        self._problems: list[ChainProblem] = []
        # Rows whose hash is not theirs, for a second look: they may have changed places.
        self._unsound: list[Sequence[Any]] = []
        self._is_at_sound = True
        self._is_former_over = False
        # What the newest retention row says was the last row removed.
        self._told: ChainLink | None = None

    def feed(self, rows: Sequence[Sequence[Any]]) -> None:
        """Look at the next rows: the values of ``COLUMNS``."""
        for row in rows:
            self.fed_seq = row[0]
            self._rows += 1
            self._first_seq = self._first_seq or row[0]
            self._look(row)

    def report(self) -> VerifyReport:
        """The verdict, once all rows have been fed."""
        for row in self._unsound[:MAX_PROBLEMS]:
            self._judge_unsound(row)
        self._problem_count += max(0, len(self._unsound) - MAX_PROBLEMS)
        self._judge_end()
        self._judge_checkpoint()
        return VerifyReport(
            rows=self._rows,
            first_seq=self._first_seq,
            last_seq=self._at.seq if self._rows else 0,
            head_hash=self._at.hash.hex(),
            problem_count=self._problem_count,
            problems=tuple(sorted(self._problems, key=lambda p: p.seq)[:MAX_PROBLEMS]),
        )

    def _look(self, row: Sequence[Any]) -> None:
        seq, prev, digest = row[0], row[-2], row[-1]
        if seq == self._at.seq and self._rows > 1:
            self._add(seq, ProblemKind.INSERTED, f"Row {seq} is there twice.")
            return
        if seq <= self._at.seq:
            self._add(seq, ProblemKind.INSERTED, f"Row {seq} stands before the chain's beginning.")
            return
        is_sound = self._is_sound(row)
        if seq > self._at.seq + 1:
            self._add(self._at.seq + 1, ProblemKind.REMOVED, _missing(self._at.seq + 1, seq - 1))
        elif is_sound and self._is_at_sound and prev != self._at.hash:
            self._judge_broken_link(seq)
        if is_sound:
            self._note_retention(row)
        else:
            self._unsound.append(row)
        self._at = ChainLink(seq, digest if isinstance(digest, bytes) else b"")
        self._is_at_sound = is_sound

    def _is_sound(self, row: Sequence[Any]) -> bool:
        prev, digest = row[-2], row[-1]
        if not isinstance(prev, bytes) or not isinstance(digest, bytes):
            return False
        if row_hash(prev, row[:-2]) == digest:
            self._is_former_over = True
            return True
        return not self._is_former_over and former_row_hash(prev, row[:-2]) == digest

    def _judge_broken_link(self, seq: int) -> None:
        """Both rows are sound by themselves, and yet the later one was chained to another."""
        before = self._at.seq
        if self._rows == 1:
            self._add(
                before,
                ProblemKind.CHECKPOINT,
                f"Row {seq}, the first one, was not chained to where the audit log says it begins.",
            )
            return
        self._add(
            before,
            ProblemKind.ALTERED,
            f"Row {before} was replaced: row {seq} was chained to another one.",
        )

    def _judge_unsound(self, row: Sequence[Any]) -> None:
        seq = row[0]
        for other in self._unsound[:MAX_PROBLEMS]:
            if other is not row and (
                _is_hash_of(row, row, other[0]) or _is_hash_of(row, other, other[0])
            ):
                text = f"Row {seq} holds what was written as row {other[0]}."
                self._add(seq, ProblemKind.REORDERED, text)
                return
        self._add(seq, ProblemKind.ALTERED, f"Row {seq} was altered: its hash is another row's.")

    def _judge_end(self) -> None:
        head = self.marks.head
        if head is None:
            if self._rows:
                text = "The record of the newest row is missing."
                self._add(self._at.seq, ProblemKind.ALTERED, text)
        elif head.seq > self._at.seq:
            text = _missing(self._at.seq + 1, head.seq)
            self._add(self._at.seq + 1, ProblemKind.REMOVED, text)
        elif head.seq < self._at.seq:
            text = f"Row {head.seq} was the newest; what follows was added by someone else."
            self._add(head.seq + 1, ProblemKind.INSERTED, text)
        elif head.hash != self._at.hash and self._is_at_sound:
            text = f"Row {head.seq} was replaced: the note of the newest row names another."
            self._add(head.seq, ProblemKind.ALTERED, text)

    def _judge_checkpoint(self) -> None:
        checkpoint = self.marks.checkpoint
        if self._told == checkpoint:
            return
        seq = checkpoint.seq if checkpoint else 0
        told = f"row {self._told.seq}" if self._told else "no row"
        text = (
            f"The chain begins behind row {seq}, but its own rows say that {told} was the last one "
            "removed for its age."
        )
        self._add(seq, ProblemKind.CHECKPOINT, text)

    def _note_retention(self, row: Sequence[Any]) -> None:
        if row[TOOL_AT] != RETENTION_TOOL or row[PHASE_AT] != Phase.EVENT.value:
            return
        try:
            told = json.loads(row[PARAMETERS_AT])
            self._told = ChainLink(told["last_seq"], bytes.fromhex(told["last_hash"]))
        except (KeyError, TypeError, ValueError, RecursionError):
            self._told = None

    def _add(self, seq: int, kind: ProblemKind, message: str) -> None:
        self._problem_count += 1
        if len(self._problems) < 2 * MAX_PROBLEMS:
            self._problems.append(ChainProblem(seq=seq, kind=kind, message=message))


def _is_hash_of(content: Sequence[Any], chained: Sequence[Any], seq: int) -> bool:
    """True if ``content``, numbered ``seq``, has the hash that ``chained`` carries."""
    prev, digest = chained[-2], chained[-1]
    if not isinstance(prev, bytes) or not isinstance(digest, bytes):
        return False
    values = (seq, *content[1:-2])
    return digest in (row_hash(prev, values), former_row_hash(prev, values))


def _missing(first: int, last: int) -> str:
    return f"Row {first} is missing." if first == last else f"Rows {first} to {last} are missing."


def verify_file(path: Path) -> VerifyReport:
    """Walk the whole chain of a database file.

    Raises:
        Failed: STORE_FAILED, it cannot be read.
    """
    if not path.is_file():
        raise Failed(f"There is no database {path}.", code=ErrorCode.STORE_FAILED)
    file = DatabaseFile(path=path, clock=SystemClock(), migrations=MIGRATIONS)
    try:
        connection = file.open_as_far_as_possible()
        try:
            check = ChainCheck(_with_mark(path, read_marks(connection)))
            while not check.is_done:
                check_page(connection, check)
            return check.report()
        finally:
            close(connection)
    except sqlite3.Error as error:
        if is_locked(error):
            raise Failed(
                f"{path} is in use by a running engine.",
                code=ErrorCode.STORE_FAILED,
                remedy="Ask that one: `edged audit verify` without --file.",
            ) from error
        raise Failed(
            f"{path} cannot be read: {error}.",
            code=ErrorCode.STORE_FAILED,
            remedy="Name edged.db of a state directory that this user may read.",
        ) from error


def _with_mark(path: Path, marks: Marks) -> Marks:
    """The marks, with the row that the record had come to if the file does not know of it."""
    told = head_mark_of(path).read()
    if told is None or told[0] <= (marks.head.seq if marks.head else 0):
        return marks
    return marks._replace(head=ChainLink(*told))
