"""What a report says of a run, and what it says is missing."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.runs.report.facts import Material, report_of
from edged.runs.report.parts import PlottedFigure
from edged.store.audit.run_row import RunRows
from tests.bench.reported import (
    BEGUN_MS,
    STANDING,
    headings,
    material_of,
    meta_of,
    section_of,
    unit_of,
    whole_report,
)
from tests.promises import promise

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)


def test_who_when_and_why_stand_at_its_head_in_utc_and_in_local_time() -> None:
    told = section_of(whole_report(), "Run").splitlines()
    assert "Started by: anna (client a notebook, from 10.0.0.7:1, by way of mcp)" in told
    assert "Began: 2026-09-21 14:13:20.000 UTC · 2026-09-21 16:13:20 CEST (UTC+02:00)" in told
    assert "Ended: 2026-09-21 14:14:21.500 UTC · 2026-09-21 16:14:21 CEST (UTC+02:00)" in told
    assert "Took: 61.500 s" in told
    assert "State: completed" in told
    assert "Why it ended: target reached" in told
    assert "a limit was reached" in told
    assert "Rows: 30" in told


def test_parameters_are_told_with_the_units_of_what_was_swept() -> None:
    told = section_of(whole_report(), "Parameters").splitlines()
    assert told == [
        "channel: 1",
        "voltage: 5",
        "target_value: 5 V",
        "sweep_rate: 0.5 V/s",
        "measured: measure of dmm1 (range auto)",
    ]


@promise("report.calibration")
def test_each_unit_stands_there_with_serial_number_firmware_and_calibration() -> None:
    told = section_of(whole_report(), "Instruments")
    assert "psu1 | MAKER model of psu1 | SER-psu1 | 1.0 | 2026-01-31 overdue | rack 2" in told
    assert "dmm1 | MAKER model of dmm1 | SER-dmm1 | 1.0 | 2027-01-31 | rack 2" in told
    assert "! psu1 was due for calibration on 2026-01-31, before this run ended." in told
    assert told.count("!") == 1


@promise("report.calibration")
@pytest.mark.parametrize(
    ("noted", "now", "told"),
    [
        ("2026-09-20", None, "2026-09-20 overdue"),
        ("2026-09-21", None, "2026-09-21"),
        (None, date(2026, 9, 20), "2026-09-20 overdue (said after the run)"),
        (None, date(2027, 9, 20), "2027-09-20 (said after the run)"),
        ("2027-01-01", date(2026, 1, 1), "2027-01-01"),
        ("yesterday", None, "not known"),
        (None, None, "not known"),
    ],
)
def test_a_calibration_counts_as_the_bench_file_said_it_when_it_was_measured(
    noted: str | None, now: date | None, told: str
) -> None:
    unit = unit_of("TCPIP::psu", "psu1", calibration_due=noted)
    dues = {} if now is None else {"TCPIP::psu": now}
    material = material_of(meta=meta_of(instruments=[unit]))
    report = report_of(material, replace(STANDING, dues=dues))
    assert f"| 1.0 | {told} | rack 2 |" in section_of(report, "Instruments")


def test_a_calibration_that_has_passed_since_is_no_fault_of_the_run() -> None:
    unit = unit_of("TCPIP::psu", "psu1", calibration_due="2026-10-01")
    later = replace(STANDING, now_ms=BEGUN_MS + 90 * 86_400_000)
    told = section_of(
        report_of(material_of(meta=meta_of(instruments=[unit])), later), "Instruments"
    )
    assert "2026-10-01 in time; past by now" in told
    assert "!" not in told


def test_settings_and_limits_are_told_for_each_unit_those_of_the_run_first() -> None:
    report = whole_report()
    settings = section_of(report, "Settings read from the instruments")
    assert "output | channel 1: on; channel 2: off" in settings
    assert "current | not read (no answer)" in settings
    limits = section_of(report, "Limits in force").splitlines()
    assert limits[2:4] == ["set_voltage | voltage: 0 to 12; mode: CV, CC", "other | level: up to 3"]


def test_the_table_is_told_by_its_ends_with_the_number_of_rows() -> None:
    told = section_of(whole_report(), "Data").splitlines()
    assert told[0] == "The first 2 and the last 1 of 30 rows."
    assert told[1:5] == ["t (s) | set (V)", "0.1 | 0", "0.2 | 2.5", "9 | 5"]
    assert "set (V) | 3 | 2.5 | 1 | 0 | 5" in told


def test_a_table_of_many_columns_is_told_in_several() -> None:
    names = tuple(f"c{n}" for n in range(20))
    extract = replace(material_of().extract, columns=names, first=(names,), last=(), total=1)
    told = section_of(whole_report(extract=extract), "Data").splitlines()
    assert [line for line in told if line.startswith("c") and "mean" not in line] == [
        " | ".join(names[begin : begin + 9]) for begin in (0, 0, 9, 9, 18, 18)
    ]


def test_hashes_versions_and_the_state_of_the_clock_stand_there_as_evidence() -> None:
    told = section_of(whole_report(), "Evidence")
    assert f"data.csv | 1,234 | {'cd' * 32}" in told
    assert f"7 | 2026-09-21 14:13:20.000 | start_sweep | ok | {'ab' * 32}" in told
    assert "ef" * 32 in told
    assert f"99: {'01' * 32}" in told
    assert "Recorded by: edged 9.9.8" in told
    assert "Reported by: edged 9.9.9" in told
    assert "Its clock: synchronized when the run began (adjtimex)" in told


def test_a_clock_that_nobody_kept_right_is_told() -> None:
    meta = meta_of(clock={"is_synchronized": False, "source": "adjtimex"})
    assert "NOT synchronized" in section_of(whole_report(meta=meta), "Evidence")


@promise("report.says-what-is-missing")
def test_what_is_whole_lacks_nothing() -> None:
    assert "What is not known" not in headings(whole_report())


@promise("report.says-what-is-missing")
def test_what_a_run_of_a_dead_daemon_lacks_is_said_plainly() -> None:
    unit = unit_of("TCPIP::psu", "psu1", settings=None, serial="", firmware="")
    meta = meta_of(
        status="running", ended_ms=None, summary={}, statistics=None, instruments=[unit], clock=None
    )
    report = whole_report(meta=meta, record=RunRows())
    assert "State: failed" in section_of(report, "Run")
    assert "Ended: not known" in section_of(report, "Run")
    missing = section_of(report, "What is not known")
    for word in (
        "The daemon that recorded it ended before it did",
        "When it ended.",
        "The serial number of psu1",
        "The firmware of psu1",
        "When psu1 is due for calibration",
        "The settings of psu1",
        "Statistics of its columns",
        "Whether the computer's clock was kept right.",
        "there are none of it (any more)",
    ):
        assert word in missing, word


def test_what_is_still_under_way_is_no_failure() -> None:
    meta = meta_of(status="running", ended_ms=None, summary={})
    report = report_of(material_of(meta=meta), replace(STANDING, is_open=True))
    told = section_of(report, "Run")
    assert "State: running" in told
    assert "Ended: it was still under way" in told
    assert "What is not known" not in headings(report)


def test_a_clock_that_was_set_back_makes_no_negative_time() -> None:
    report = whole_report(meta=meta_of(ended_ms=BEGUN_MS - 5_000))
    assert "Took" not in section_of(report, "Run")
    assert "clock was set back" in section_of(report, "What is not known")


def test_a_record_that_is_too_long_to_be_searched_is_not_told_as_whole() -> None:
    report = whole_report(record=RunRows(is_whole=False))
    assert "too long to be searched whole" in section_of(report, "What is not known")


def test_a_record_that_cannot_be_read_is_told() -> None:
    report = whole_report(unread="The database cannot be read.")
    assert "The database cannot be read." in section_of(report, "What is not known")


def test_what_cannot_be_drawn_is_told_in_place_of_the_picture() -> None:
    report = whole_report(figures=(), undrawn="This recording is too long to draw.")
    assert "too long to draw" in section_of(report, "Plots")
    parts = [part for section in whole_report().sections for part in section.parts]
    assert len([part for part in parts if isinstance(part, PlottedFigure)]) == 1


@given(st.dictionaries(st.sampled_from(sorted(meta_of())), JSON, max_size=6), JSON)
def test_whatever_stands_in_meta_json_makes_a_report(meta: dict[str, object], unit: object) -> None:
    report_of(Material(run_id="x", meta=meta, path="/x"), STANDING)
    broken = meta_of(instruments=[unit_of("a", "b") | unit if isinstance(unit, dict) else unit])
    report_of(Material(run_id="x", meta={**broken, **meta}, path="/x"), STANDING)
    lone = unit_of("a", "b", settings=unit, limits=unit, profile=unit, calibration_due=unit)
    report_of(Material(run_id="x", meta=meta_of(instruments=[lone]), path="/x"), STANDING)
