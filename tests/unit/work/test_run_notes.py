"""What is said of runs beside their rows: what is true of them, and misleads."""

from __future__ import annotations

from dataclasses import replace

from edged.runs.notes import (
    MOST_NOTES,
    Pace,
    PointNotes,
    is_limited,
    notes_of_fewer,
    notes_of_limit,
    why_slower,
)

SLOW = Pace(took_s=12.6, behind_s=9.6, asked_s=0.1, write_s=0.02, read_s=0.45, is_each_step=True)
"""A ramp whose readings take longer than its steps may."""


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
    assert notes_of_fewer(0, 4, 1.0, 0.0, "2 bytes came") == [
        "4 points were asked for, 0 came",
        "the last one that failed: 2 bytes came",
    ]


def test_a_limit_that_was_reached_is_told_of_a_table_and_of_a_result() -> None:
    assert notes_of_limit(2, 5, is_result_limited=False) == [
        "the current limit was reached at 2 of 5 points"
    ]
    assert notes_of_limit(0, 5, is_result_limited=False) == []
    assert notes_of_limit(0, 0, is_result_limited=True) == ["the current limit was reached"]
    assert is_limited({"limited": True})
    assert not is_limited({"limited": None})


def test_a_ramp_that_is_slower_than_asked_says_what_takes_its_time() -> None:
    assert why_slower(SLOW) == "readings take 0.45 s a step, 0.1 s were asked for"
    assert why_slower(replace(SLOW, is_each_step=False)) == (
        "readings take 0.45 s a point, and the ramp waits for each"
    )
    slow_writes = replace(SLOW, write_s=0.3, read_s=0.0)
    assert why_slower(slow_writes) == "writes take 0.3 s a step, 0.1 s were asked for"
    both = replace(SLOW, write_s=0.06, read_s=0.08)
    assert why_slower(both) == "writes and readings take 0.14 s a step, 0.1 s were asked for"
    # Something that is neither, such as a step that hangs now.
    assert why_slower(replace(SLOW, read_s=0.01)) == "it took 12.6 s, 3 s by its rate"


def test_a_ramp_that_is_late_by_little_says_nothing_of_it() -> None:
    assert why_slower(replace(SLOW, behind_s=0.5)) == ""
    assert why_slower(replace(SLOW, took_s=1_000, behind_s=3.0)) == ""
