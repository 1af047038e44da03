"""What is said of runs beside their rows: what is true of them, and misleads."""

from __future__ import annotations

from edged.runs.notes import (
    MOST_NOTES,
    PointNotes,
    is_limited,
    notes_of_fewer,
    notes_of_limit,
    notes_of_slower,
)


def test_what_was_said_of_points_is_counted() -> None:
    notes = PointNotes()
    for said in (["CH1 is off"], [], ["CH1 is off", "another"]):
        notes.add(said)
    assert notes.told(3) == [
        "CH1 is off (known of 2 of 3 points)",
        "another (known of 1 of 3 points)",
    ]


def test_no_run_keeps_more_sentences_than_a_reader_wants() -> None:
    notes = PointNotes()
    notes.add(f"note {number}" for number in range(10 * MOST_NOTES))
    assert len(notes.told(1)) == MOST_NOTES


def test_fewer_points_than_asked_for_are_told_with_why() -> None:
    assert notes_of_fewer(250, 0, 0.01, 9.0) == []
    assert notes_of_fewer(6, 244, 0.01, 2.4) == [
        "250 points were asked for, 6 came: one reading takes 0.4 s"
    ]
    # Others had the line, so nothing is said of how long a reading takes.
    assert notes_of_fewer(6, 4, 1.0, 0.6) == ["10 points were asked for, 6 came"]
    assert notes_of_fewer(0, 4, 1.0, 0.0) == ["4 points were asked for, 0 came"]


def test_a_limit_that_was_reached_is_told_of_a_table_and_of_a_result() -> None:
    assert notes_of_limit(2, 5, is_result_limited=False) == [
        "the current limit was reached at 2 of 5 points"
    ]
    assert notes_of_limit(0, 5, is_result_limited=False) == []
    assert notes_of_limit(0, 0, is_result_limited=True) == ["the current limit was reached"]
    assert is_limited({"limited": True})
    assert not is_limited({"limited": None})


def test_a_ramp_that_took_longer_than_its_rate_is_told() -> None:
    assert notes_of_slower(12.6, 9.6) == [
        "it took 12.6 s, 3 s by its rate: what is read takes the rest"
    ]
    assert notes_of_slower(12.6, 0.5) == []
    assert notes_of_slower(1_000, 3.0) == []
