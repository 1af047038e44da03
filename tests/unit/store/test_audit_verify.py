"""The chain on a database in memory: whatever is done to it by hand is found, and named."""

from __future__ import annotations

import contextlib
import random
import sqlite3
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.store.audit.chain import REPEATED, Chain, Shelf
from edged.store.audit.row import (
    COLUMNS,
    GENESIS,
    RETENTION_TOOL,
    TEXT_COLUMNS,
    Phase,
    former_row_hash,
)
from edged.store.audit.verify import (
    ChainCheck,
    ProblemKind,
    VerifyReport,
    check_page,
    read_marks,
)
from edged.store.file import MIGRATIONS, migrate
from tests.bench.store_bench import entry
from tests.promises import promise

ROWS = 12
AHEAD_MS = 10**12


@contextlib.contextmanager
def chain_of(rows: int = ROWS, *, is_weighty: bool = True) -> Iterator[sqlite3.Connection]:
    """Rows that stand by themselves; not weighty, all but the first of them share their texts."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    migrate(connection, MIGRATIONS)
    _append(connection, rows, is_weighty=is_weighty)
    yield connection
    connection.close()


def verify(connection: sqlite3.Connection) -> VerifyReport:
    check = ChainCheck(read_marks(connection))
    while not check.is_done:
        check_page(connection, check)
    return check.report()


def problems(connection: sqlite3.Connection) -> list[tuple[int, ProblemKind]]:
    return [(problem.seq, problem.kind) for problem in verify(connection).problems]


def _append(
    connection: sqlite3.Connection, rows: int, *, time_ms: int = 1_000_000, is_weighty: bool = True
) -> None:
    chain, shelf = Chain(), Shelf()
    chain.load(connection)
    entries = [
        entry(
            f"a{number}",
            Phase.END,
            time_ms=time_ms + number,
            is_weighty=is_weighty,
            client="a program 1.0",
        )
        for number in range(rows)
    ]
    chain.append(connection, [shelf.row(one) for one in entries])


def test_an_untouched_chain_is_intact() -> None:
    with chain_of(700) as connection:
        report = verify(connection)
    assert report.is_intact
    assert (report.rows, report.first_seq, report.last_seq) == (700, 1, 700)


def test_an_empty_audit_is_intact() -> None:
    with chain_of(0) as connection:
        assert verify(connection).is_intact


@promise("audit.chained")
@given(
    seq=st.integers(1, ROWS),
    column=st.sampled_from(COLUMNS[1:]),
    value=st.text(max_size=8) | st.integers(0, 9) | st.binary(max_size=8) | st.floats(0, 9),
)
def test_any_changed_cell_is_found(seq: int, column: str, value: object) -> None:
    with chain_of() as connection:
        before = connection.execute("SELECT * FROM audit_full").fetchall()
        connection.execute(f"UPDATE audit_full SET {column} = ? WHERE seq = ?", (value, seq))
        is_changed = connection.execute("SELECT * FROM audit_full").fetchall() != before
        report = verify(connection)
        assert report.is_intact is not is_changed
        if is_changed:
            assert seq in [problem.seq for problem in report.problems]


def _rehashed_by_the_former_rule(connection: sqlite3.Connection, until: int) -> None:
    """Give the rows up to that number the hashes that schema version 7 gave them."""
    prev = GENESIS
    select = f"SELECT {', '.join(COLUMNS)} FROM audit_full ORDER BY seq LIMIT ?"
    for row in connection.execute(select, (until,)).fetchall():
        digest = former_row_hash(prev, row[:-2])
        assert digest is not None
        connection.execute(
            "UPDATE audit_full SET prev = ?, hash = ? WHERE seq = ?", (prev, digest, row[0])
        )
        prev = digest
    connection.execute("UPDATE audit_head SET seq = ?, hash = ?", (until, prev))


def _move_texts(connection: sqlite3.Connection, seq: int) -> None:
    """Shift every text behind ``client`` by one column; the joined text stays the same."""
    names = TEXT_COLUMNS[TEXT_COLUMNS.index("client") :]
    (*texts,) = connection.execute(
        f"SELECT {', '.join(names)} FROM audit_full WHERE seq = ?", (seq,)
    ).fetchone()
    moved = ["", *texts[:-2], "\x1f".join(texts[-2:])]
    sets = ", ".join(f"{name} = ?" for name in names)
    connection.execute(f"UPDATE audit_full SET {sets} WHERE seq = ?", (*moved, seq))


@contextlib.contextmanager
def chain_of_both_rules(former: int) -> Iterator[sqlite3.Connection]:
    """A chain that version 7 has begun and this version has continued."""
    with chain_of(former) as connection:
        _rehashed_by_the_former_rule(connection, former)
        _append(connection, ROWS - former, time_ms=2_000_000)
        yield connection


@promise("audit.fields-apart")
@pytest.mark.parametrize("former", [0, 6, ROWS])
@pytest.mark.parametrize("seq", [3, 9])
def test_text_moved_between_columns_is_found(former: int, seq: int) -> None:
    with chain_of_both_rules(former) as connection:
        assert verify(connection).is_intact
        _move_texts(connection, seq)
        assert problems(connection) == [(seq, ProblemKind.ALTERED)]


@promise("audit.fields-apart")
def test_a_row_of_the_former_rule_behind_one_of_the_present_is_found() -> None:
    with chain_of_both_rules(3) as connection:
        last = connection.execute("SELECT * FROM audit ORDER BY seq DESC LIMIT 1").fetchone()
        values = dict(
            zip(
                [c[0] for c in connection.execute("SELECT * FROM audit").description],
                last,
                strict=True,
            )
        )
        values["tool"] = "another"
        digest = former_row_hash(values["prev"], [values[name] for name in COLUMNS[:-2]])
        connection.execute(
            "UPDATE audit_full SET tool = ?, hash = ? WHERE seq = ?", ("another", digest, ROWS)
        )
        connection.execute("UPDATE audit_head SET hash = ?", (digest,))
        assert problems(connection) == [(ROWS, ProblemKind.ALTERED)]


def test_rows_of_the_same_texts_name_them_and_read_as_if_they_held_them() -> None:
    with chain_of(700, is_weighty=False) as shared, chain_of(700) as whole:
        assert _count(shared, "audit_repeat") == 699
        assert _count(shared, "audit_text") == 1
        assert _count(whole, "audit_repeat") == 0
        rows = "SELECT * FROM audit ORDER BY seq"
        assert shared.execute(rows).fetchall() == whole.execute(rows).fetchall()
        assert verify(shared) == verify(whole)
        assert verify(shared).is_intact


@promise("audit.chained")
@given(
    seq=st.integers(2, ROWS),
    column=st.sampled_from(REPEATED[1:]),
    value=st.text(max_size=8) | st.integers(0, 9) | st.binary(max_size=8) | st.floats(0, 9),
)
def test_any_changed_cell_of_a_row_that_names_its_texts_is_found(
    seq: int, column: str, value: object
) -> None:
    with chain_of(is_weighty=False) as connection:
        before = connection.execute("SELECT * FROM audit_repeat").fetchall()
        connection.execute(f"UPDATE audit_repeat SET {column} = ? WHERE seq = ?", (value, seq))
        is_changed = connection.execute("SELECT * FROM audit_repeat").fetchall() != before
        report = verify(connection)
        assert report.is_intact is not is_changed
        if is_changed:
            assert seq in [problem.seq for problem in report.problems]


@given(column=st.sampled_from(TEXT_COLUMNS), value=st.text(max_size=8) | st.binary(max_size=8))
def test_a_changed_text_is_found_in_every_row_that_names_it(column: str, value: object) -> None:
    with chain_of(is_weighty=False) as connection:
        before = connection.execute("SELECT * FROM audit_text").fetchall()
        connection.execute(f"UPDATE audit_text SET {column} = ?", (value,))
        is_changed = connection.execute("SELECT * FROM audit_text").fetchall() != before
        found = [(seq, ProblemKind.ALTERED) for seq in range(2, ROWS + 1)]
        assert problems(connection) == (found if is_changed else [])


def test_a_removed_text_is_found_in_every_row_that_names_it() -> None:
    with chain_of(is_weighty=False) as connection:
        connection.execute("DELETE FROM audit_text")
        found = [(seq, ProblemKind.ALTERED) for seq in range(2, ROWS + 1)]
        assert problems(connection) == found


@pytest.mark.parametrize("seq", [7, 500, 501, 1000])
def test_a_row_put_into_the_other_table_besides_is_found_wherever_a_page_ends(seq: int) -> None:
    with chain_of(1200, is_weighty=False) as connection:
        names = ", ".join(COLUMNS)
        connection.execute(
            f"INSERT INTO audit_full ({names}) SELECT {names} FROM audit WHERE seq = ?", (seq,)
        )
        assert [p.message for p in verify(connection).problems] == [f"Row {seq} is there twice."]


def test_a_shared_text_is_begun_anew_before_retention_may_remove_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("edged.store.audit.chain.TEXT_SPAN", 5)
    with chain_of(23, is_weighty=False) as connection:
        assert verify(connection).is_intact
        assert [row[0] for row in connection.execute("SELECT id FROM audit_text")] == [
            2,
            7,
            12,
            17,
            22,
        ]
        for before_ms in (1_000_004, 1_000_007, 1_000_011, 1_000_022):
            _retire(connection, before_ms)
            assert verify(connection).is_intact
        assert [row[0] for row in connection.execute("SELECT id FROM audit_text")] == [22]


@pytest.mark.parametrize("duration_ms", [0, 1, 1.0, 0.0, -0.0, 0.0015, 1e-9, 2.5e17, 10**15])
def test_a_duration_reads_as_it_was_hashed(duration_ms: float) -> None:
    with chain_of(0) as connection:
        chain, shelf = Chain(), Shelf()
        chain.load(connection)
        row = shelf.row(entry("a", duration_ms=duration_ms))
        chain.append(connection, [row, row, row])
        assert verify(connection).is_intact


def test_texts_of_a_group_that_failed_are_named_by_nobody() -> None:
    with chain_of(0) as connection:
        chain, shelf = Chain(), Shelf()
        chain.load(connection)
        rows = [shelf.row(entry(f"a{number}")) for number in range(4)]
        connection.execute("BEGIN")
        chain.append(connection, rows)
        connection.execute("ROLLBACK")
        chain.settle(is_committed=False)
        chain.append(connection, rows)
        assert verify(connection).is_intact


def test_a_text_left_behind_by_who_cut_the_chain_is_in_nobodys_way() -> None:
    with chain_of(is_weighty=False) as connection:
        for table in ("audit_full", "audit_repeat", "audit_head"):
            connection.execute(f"DELETE FROM {table}")
        connection.execute("INSERT INTO audit_text SELECT 3, " + ", ".join(["'x'"] * 17))
        _append(connection, 5, is_weighty=False)
        assert verify(connection).is_intact


@given(gone=st.sets(st.integers(1, ROWS), min_size=1))
def test_any_removed_row_is_found(gone: set[int]) -> None:
    with chain_of() as connection:
        connection.executemany("DELETE FROM audit_full WHERE seq = ?", [(seq,) for seq in gone])
        report = verify(connection)
        assert not report.is_intact
        assert {problem.kind for problem in report.problems} == {ProblemKind.REMOVED}
        assert min(gone) == report.problems[0].seq


@given(order=st.permutations(range(1, ROWS + 1)))
def test_any_change_of_order_is_found(order: list[int]) -> None:
    with chain_of() as connection:
        connection.execute("UPDATE audit_full SET seq = seq + 1000")
        connection.executemany(
            "UPDATE audit_full SET seq = ? WHERE seq = ?",
            [(new, old + 1000) for old, new in enumerate(order, start=1)],
        )
        moved = [new for old, new in enumerate(order, start=1) if old != new]
        assert problems(connection) == [(seq, ProblemKind.REORDERED) for seq in sorted(moved)]


@given(seed=st.integers(0, 10_000), at=st.integers(-3, ROWS + 5))
def test_any_inserted_row_is_found(seed: int, at: int) -> None:
    with chain_of() as connection:
        source = random.Random(seed).randint(1, ROWS)
        row = connection.execute("SELECT * FROM audit_full WHERE seq = ?", (source,)).fetchone()
        connection.execute("UPDATE audit_full SET seq = seq + 1000 WHERE seq >= ?", (at,))
        connection.execute("UPDATE audit_full SET seq = seq - 999 WHERE seq >= 1000")
        marks = ", ".join("?" * len(COLUMNS))
        connection.execute(f"INSERT INTO audit_full VALUES ({marks})", (at, *row[1:]))
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
            connection.execute(f"UPDATE audit_full SET {marks} WHERE seq = ?", (*rows[other], seq))
        report = verify(connection)
    assert [problem.message for problem in report.problems] == [
        "Row 4 holds what was written as row 9.",
        "Row 9 holds what was written as row 4.",
    ]


def test_rows_cut_off_at_the_end_are_named() -> None:
    with chain_of() as connection:
        connection.execute("DELETE FROM audit_full WHERE seq > 9")
        assert [p.message for p in verify(connection).problems] == ["Rows 10 to 12 are missing."]


def test_a_cut_off_end_is_still_found_when_the_chain_has_gone_on() -> None:
    with chain_of() as connection:
        connection.execute("DELETE FROM audit_full WHERE seq > 9")
        _append(connection, 3)
        assert [p.message for p in verify(connection).problems] == ["Rows 10 to 12 are missing."]


def test_a_row_replaced_together_with_its_hash_is_found() -> None:
    with chain_of() as connection, chain_of() as forged:
        # A row that is sound by itself, and not the one that the next was chained to.
        forged.execute("DELETE FROM audit_full WHERE seq >= 7")
        forged.execute("DELETE FROM audit_head")
        _append(forged, 1, time_ms=5)
        row = forged.execute("SELECT * FROM audit_full WHERE seq = 7").fetchone()
        connection.execute("DELETE FROM audit_full WHERE seq = 7")
        connection.execute(f"INSERT INTO audit_full VALUES ({', '.join('?' * len(row))})", row)
        assert problems(connection) == [(7, ProblemKind.ALTERED)]


def test_the_newest_row_replaced_together_with_its_hash_is_found() -> None:
    with chain_of() as connection:
        head = connection.execute("SELECT seq, hash FROM audit_head").fetchone()
        connection.execute("DELETE FROM audit_full WHERE seq = ?", (ROWS,))
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


@pytest.mark.parametrize(
    ("times", "kept"),
    [
        # A clock that was years ahead for a while, and then put right.
        ((1, 2, AHEAD_MS, AHEAD_MS, 3, 4, 50, 51), [7, 8]),
        ((AHEAD_MS, AHEAD_MS, AHEAD_MS, 3, 50), [5]),
        # Nothing behind them is old, so neither are they.
        ((1, AHEAD_MS, AHEAD_MS, 50, 51), [2, 3, 4, 5]),
        ((AHEAD_MS, AHEAD_MS, 50, 2), [1, 2, 3, 4]),
        # A clock that fell back: what stands behind a young row is not known to be old.
        ((1, 50, 2, 51), [2, 3, 4]),
        ((AHEAD_MS, AHEAD_MS), [1, 2]),
    ],
)
def test_retention_is_not_held_up_by_rows_from_the_future(
    times: tuple[int, ...], kept: list[int]
) -> None:
    with chain_of(0) as connection:
        chain, shelf = Chain(), Shelf()
        chain.load(connection)
        chain.append(connection, [shelf.row(entry("a", time_ms=one)) for one in times])
        chain.remove_before(connection, before_ms=10, most=100, now_ms=100)
        rows = connection.execute("SELECT seq FROM audit ORDER BY seq").fetchall()
        assert [row[0] for row in rows] == kept
        assert [problem.kind for problem in verify(connection).problems] in (
            [],
            # Nobody has put the row into the chain that tells of it.
            [ProblemKind.CHECKPOINT],
        )


def test_retention_goes_on_where_one_turn_of_it_sees_nothing_but_the_future() -> None:
    with chain_of(0) as connection:
        chain, shelf = Chain(), Shelf()
        chain.load(connection)
        times = (AHEAD_MS, AHEAD_MS, AHEAD_MS, AHEAD_MS, AHEAD_MS, 1, 50)
        chain.append(connection, [shelf.row(entry("a", time_ms=one)) for one in times])
        turns = [
            chain.remove_before(connection, before_ms=10, most=4, now_ms=100)[1] for _ in range(3)
        ]
        assert turns == [4, 2, 0]


@pytest.mark.parametrize("table", ["audit_head", "audit_checkpoint"])
@pytest.mark.parametrize("seq", ["x", 1.5, -(2**63), 2**63 - 1])
def test_a_mark_that_says_nonsense_is_a_finding_and_no_crash(table: str, seq: object) -> None:
    with chain_of() as connection:
        _retire(connection, 1_000_003)
        connection.execute(f"UPDATE {table} SET seq = ?", (seq,))
        assert not verify(connection).is_intact


def test_rows_removed_by_hand_do_not_pass_for_retention() -> None:
    with chain_of() as connection:
        _retire(connection, 1_000_003)
        seq, digest = connection.execute("SELECT seq, hash FROM audit WHERE seq = 6").fetchone()
        connection.execute("DELETE FROM audit_full WHERE seq <= 6")
        connection.execute("UPDATE audit_checkpoint SET seq = ?, hash = ?", (seq, digest))
        assert problems(connection) == [(6, ProblemKind.CHECKPOINT)]


def test_a_file_in_shreds_is_told_in_a_hundred_sentences() -> None:
    with chain_of(300) as connection:
        connection.execute("UPDATE audit_full SET tool = 'x'")
        report = verify(connection)
    assert len(report.problems) == 100
    assert report.problem_count == 300


def test_bytes_that_are_no_text_are_a_change_like_any_other() -> None:
    with chain_of() as connection:
        connection.execute("UPDATE audit_full SET tool = CAST(x'ff00fe' AS TEXT) WHERE seq = 3")
        assert problems(connection) == [(3, ProblemKind.ALTERED)]


def _count(connection: sqlite3.Connection, table: str) -> int:
    return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


def _retire(connection: sqlite3.Connection, before_ms: int) -> int:
    chain = Chain()
    chain.load(connection)
    last, removed = chain.remove_before(connection, before_ms=before_ms, most=100, now_ms=7)
    arguments = {"last_seq": last.seq, "last_hash": last.hash.hex()}
    told = entry(
        "",
        Phase.EVENT,
        tool=RETENTION_TOOL,
        arguments=arguments,
        time_ms=2_000_000,
        is_weighty=True,
    )
    chain.append(connection, [Shelf().row(told)])
    return removed
