"""The chain on a database in memory: whatever is done to it by hand is found, and named."""

from __future__ import annotations

import contextlib
import random
import sqlite3
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edged.store.audit_chain import Chain
from edged.store.audit_row import COLUMNS, RETENTION_TOOL, Phase, render
from edged.store.audit_verify import (
    ChainCheck,
    ProblemKind,
    VerifyReport,
    check_page,
    read_marks,
)
from edged.store.migrations import MIGRATIONS, migrate
from tests.bench.store_bench import entry
from tests.promises import promise

ROWS = 12


@contextlib.contextmanager
def chain_of(rows: int = ROWS) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    migrate(connection, MIGRATIONS)
    _append(connection, rows)
    yield connection
    connection.close()


def verify(connection: sqlite3.Connection) -> VerifyReport:
    check = ChainCheck(read_marks(connection))
    while not check.is_done:
        check_page(connection, check)
    return check.report()


def problems(connection: sqlite3.Connection) -> list[tuple[int, ProblemKind]]:
    return [(problem.seq, problem.kind) for problem in verify(connection).problems]


def _append(connection: sqlite3.Connection, rows: int, *, time_ms: int = 1_000_000) -> None:
    chain = Chain()
    chain.load(connection)
    stored = [
        render(entry(f"a{number}", Phase.END, time_ms=time_ms + number)) for number in range(rows)
    ]
    chain.append(connection, stored)


def test_an_untouched_chain_is_intact() -> None:
    with chain_of(700) as connection:
        report = verify(connection)
    assert report.is_intact
    assert (report.rows, report.first_seq, report.last_seq) == (700, 1, 700)


def test_an_empty_audit_is_intact() -> None:
    with chain_of(0) as connection:
        assert verify(connection).is_intact


@promise("audit.chained")
@settings(max_examples=60, deadline=None)
@given(
    seq=st.integers(1, ROWS),
    column=st.sampled_from(COLUMNS[1:]),
    value=st.text(max_size=8) | st.integers(0, 9) | st.binary(max_size=8) | st.floats(0, 9),
)
def test_any_changed_cell_is_found(seq: int, column: str, value: object) -> None:
    with chain_of() as connection:
        before = connection.execute("SELECT * FROM audit").fetchall()
        connection.execute(f"UPDATE audit SET {column} = ? WHERE seq = ?", (value, seq))
        is_changed = connection.execute("SELECT * FROM audit").fetchall() != before
        report = verify(connection)
        assert report.is_intact is not is_changed
        if is_changed:
            assert seq in [problem.seq for problem in report.problems]


@settings(max_examples=60, deadline=None)
@given(gone=st.sets(st.integers(1, ROWS), min_size=1))
def test_any_removed_row_is_found(gone: set[int]) -> None:
    with chain_of() as connection:
        connection.executemany("DELETE FROM audit WHERE seq = ?", [(seq,) for seq in gone])
        report = verify(connection)
        assert not report.is_intact
        assert {problem.kind for problem in report.problems} == {ProblemKind.REMOVED}
        assert min(gone) == report.problems[0].seq


@settings(max_examples=60, deadline=None)
@given(order=st.permutations(range(1, ROWS + 1)))
def test_any_change_of_order_is_found(order: list[int]) -> None:
    with chain_of() as connection:
        connection.execute("UPDATE audit SET seq = seq + 1000")
        connection.executemany(
            "UPDATE audit SET seq = ? WHERE seq = ?",
            [(new, old + 1000) for old, new in enumerate(order, start=1)],
        )
        moved = [new for old, new in enumerate(order, start=1) if old != new]
        assert problems(connection) == [(seq, ProblemKind.REORDERED) for seq in sorted(moved)]


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), at=st.integers(-3, ROWS + 5))
def test_any_inserted_row_is_found(seed: int, at: int) -> None:
    with chain_of() as connection:
        source = random.Random(seed).randint(1, ROWS)
        row = connection.execute("SELECT * FROM audit WHERE seq = ?", (source,)).fetchone()
        connection.execute("UPDATE audit SET seq = seq + 1000 WHERE seq >= ?", (at,))
        connection.execute("UPDATE audit SET seq = seq - 999 WHERE seq >= 1000")
        marks = ", ".join("?" * len(COLUMNS))
        connection.execute(f"INSERT INTO audit VALUES ({marks})", (at, *row[1:]))
        assert not verify(connection).is_intact


@pytest.mark.parametrize("columns", [COLUMNS[1:], COLUMNS[1:-2]])
def test_rows_that_changed_places_are_named(columns: tuple[str, ...]) -> None:
    with chain_of() as connection:
        names = ", ".join(columns)
        rows = {
            seq: connection.execute(f"SELECT {names} FROM audit WHERE seq = ?", (seq,)).fetchone()
            for seq in (4, 9)
        }
        marks = ", ".join(f"{name} = ?" for name in columns)
        for seq, other in ((4, 9), (9, 4)):
            connection.execute(f"UPDATE audit SET {marks} WHERE seq = ?", (*rows[other], seq))
        report = verify(connection)
    assert [problem.message for problem in report.problems] == [
        "Row 4 holds what was written as row 9.",
        "Row 9 holds what was written as row 4.",
    ]


def test_rows_cut_off_at_the_end_are_named() -> None:
    with chain_of() as connection:
        connection.execute("DELETE FROM audit WHERE seq > 9")
        assert [p.message for p in verify(connection).problems] == ["Rows 10 to 12 are missing."]


def test_a_cut_off_end_is_still_found_when_the_chain_has_gone_on() -> None:
    with chain_of() as connection:
        connection.execute("DELETE FROM audit WHERE seq > 9")
        _append(connection, 3)
        assert [p.message for p in verify(connection).problems] == ["Rows 10 to 12 are missing."]


def test_a_row_replaced_together_with_its_hash_is_found() -> None:
    with chain_of() as connection, chain_of() as forged:
        # A row that is sound by itself, and not the one that the next was chained to.
        forged.execute("DELETE FROM audit WHERE seq >= 7")
        forged.execute("DELETE FROM audit_head")
        _append(forged, 1, time_ms=5)
        row = forged.execute("SELECT * FROM audit WHERE seq = 7").fetchone()
        connection.execute("DELETE FROM audit WHERE seq = 7")
        connection.execute(f"INSERT INTO audit VALUES ({', '.join('?' * len(row))})", row)
        assert problems(connection) == [(7, ProblemKind.ALTERED)]


def test_the_newest_row_replaced_together_with_its_hash_is_found() -> None:
    with chain_of() as connection:
        head = connection.execute("SELECT seq, hash FROM audit_head").fetchone()
        connection.execute("DELETE FROM audit WHERE seq = ?", (ROWS,))
        connection.execute("DELETE FROM audit_head")
        _append(connection, 1, time_ms=5)
        connection.execute("UPDATE audit_head SET seq = ?, hash = ?", head)
        assert problems(connection) == [(ROWS, ProblemKind.ALTERED)]


def test_rows_added_behind_the_newest_are_found() -> None:
    with chain_of() as connection:
        head = connection.execute("SELECT seq, hash FROM audit_head").fetchone()
        _append(connection, 2)
        connection.execute("UPDATE audit_head SET seq = ?, hash = ?", head)
        assert problems(connection) == [(ROWS + 1, ProblemKind.INSERTED)]


def test_the_chain_is_intact_behind_rows_that_retention_removed() -> None:
    with chain_of() as connection:
        assert _retire(connection, 1_000_005) == 5
        report = verify(connection)
    assert report.is_intact
    assert report.first_seq == 6


def test_rows_removed_by_hand_do_not_pass_for_retention() -> None:
    with chain_of() as connection:
        _retire(connection, 1_000_003)
        seq, digest = connection.execute("SELECT seq, hash FROM audit WHERE seq = 6").fetchone()
        connection.execute("DELETE FROM audit WHERE seq <= 6")
        connection.execute("UPDATE audit_checkpoint SET seq = ?, hash = ?", (seq, digest))
        assert problems(connection) == [(6, ProblemKind.CHECKPOINT)]


def test_a_file_in_shreds_is_told_in_a_hundred_sentences() -> None:
    with chain_of(300) as connection:
        connection.execute("UPDATE audit SET tool = 'x'")
        report = verify(connection)
    assert len(report.problems) == 100
    assert report.problem_count == 300


def test_bytes_that_are_no_text_are_a_change_like_any_other() -> None:
    with chain_of() as connection:
        connection.execute("UPDATE audit SET tool = CAST(x'ff00fe' AS TEXT) WHERE seq = 3")
        assert problems(connection) == [(3, ProblemKind.ALTERED)]


def _retire(connection: sqlite3.Connection, before_ms: int) -> int:
    chain = Chain()
    chain.load(connection)
    last, removed = chain.remove_before(connection, before_ms=before_ms, most=100, now_ms=7)
    arguments = {"last_seq": last.seq, "last_hash": last.hash.hex()}
    told = entry("", Phase.EVENT, tool=RETENTION_TOOL, arguments=arguments, time_ms=2_000_000)
    chain.append(connection, [render(told)])
    return removed
