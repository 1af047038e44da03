"""The bench file as it holds: what it says, or what it said when it was good last."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import pytest

from edged.errors import Invalid
from edged.profiles.library import ProfileLibrary
from edged.store.bench_copy import BenchCopy, BenchReading
from tests.bench.fake_instruments import toy_profile
from tests.promises import promise

LIBRARY = ProfileLibrary(profiles={"toy_supply": toy_profile()})
LIMITED = "format: 1\nSN1: {limits: {set_voltage: {voltage: {max: 5}}}}\n"
BROKEN = "format: 1\nSN1: {limitz: {}}\n"
EMPTY = "format: 1\n"


class Place:
    """A bench file and a state directory, looked at by one engine after another."""

    def __init__(self, directory: Path) -> None:
        self.file = directory / "bench.yaml"
        self.state = directory / "state"
        self.now_ms = 1_000

    def write(self, text: str) -> None:
        self.file.write_text(text)

    def start(self) -> tuple[BenchCopy, BenchReading]:
        """What an engine does when it starts."""
        copy = BenchCopy(self.file, self.state)
        reading = copy.read(LIBRARY)
        copy.keep(reading, self.now_ms)
        return copy, reading

    def reload(self, copy: BenchCopy, before: BenchReading) -> BenchReading:
        """What it does when it sees a change."""
        reading = copy.read(LIBRARY, before.bench)
        copy.keep(reading, self.now_ms)
        return reading


def maximum(reading: BenchReading) -> float | None:
    limits = reading.bench.rules_for("SN1").limits
    return limits["set_voltage"]["voltage"].max if limits else None


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def make_broken(place: Place) -> None:
    place.write(BROKEN)


def make_nothing(place: Place) -> None:
    place.write("")


def make_gone(place: Place) -> None:
    place.file.unlink()


def make_dangling(place: Place) -> None:
    place.file.unlink()
    place.file.symlink_to(place.file.parent / "nowhere.yaml")


def make_directory(place: Place) -> None:
    place.file.unlink()
    place.file.mkdir()


def make_binary(place: Place) -> None:
    place.file.write_bytes(b"format: 1\n\xff\xfe")


FAULTS = [make_broken, make_nothing, make_gone, make_dangling, make_directory, make_binary]


@promise("owner.file-lost-lifts-nothing")
@pytest.mark.parametrize("spoil", FAULTS)
def test_while_an_engine_runs_the_last_good_state_stays(place: Place, spoil: object) -> None:
    place.write(LIMITED)
    copy, reading = place.start()
    assert (maximum(reading), reading.fault, copy.since_ms) == (5, "", None)
    spoil(place)  # type: ignore[operator]
    place.now_ms = 7_000
    reading = place.reload(copy, reading)
    assert maximum(reading) == 5
    assert str(place.file) in reading.fault
    assert copy.since_ms == 7_000
    place.now_ms = 8_000
    assert maximum(place.reload(copy, reading)) == 5
    assert copy.since_ms == 7_000


@promise("owner.file-lost-lifts-nothing")
@pytest.mark.parametrize("spoil", FAULTS)
def test_over_a_restart_the_last_good_state_stays(place: Place, spoil: object) -> None:
    place.write(LIMITED)
    place.start()
    spoil(place)  # type: ignore[operator]
    place.now_ms = 7_000
    place.start()
    place.now_ms = 9_000
    copy, reading = place.start()
    assert maximum(reading) == 5
    assert reading.fault
    assert (copy.since_ms, BenchCopy(place.file, place.state).faulty_since()) == (7_000, 7_000)


@promise("owner.file-lost-lifts-nothing")
def test_only_an_empty_file_of_the_owners_lifts_limits(place: Place) -> None:
    place.write(LIMITED)
    copy, reading = place.start()
    place.file.unlink()
    reading = place.reload(copy, reading)
    place.write(EMPTY)
    reading = place.reload(copy, reading)
    assert (maximum(reading), reading.fault, copy.since_ms) == (None, "", None)
    _, reading = place.start()
    assert (maximum(reading), reading.fault) == (None, "")


def test_a_file_that_never_was_there_is_no_fault(place: Place) -> None:
    for _ in range(2):
        copy, reading = place.start()
        assert (reading.bench.units, reading.fault, copy.since_ms) == ({}, "", None)
        reading = place.reload(copy, reading)
        assert reading.fault == ""
    assert not place.state.exists()
    place.write(LIMITED)
    assert maximum(place.reload(copy, reading)) == 5


@pytest.mark.parametrize("spoil", [f for f in FAULTS if f is not make_gone])
def test_without_a_good_state_nothing_starts(place: Place, spoil: object) -> None:
    place.write(LIMITED)
    spoil(place)  # type: ignore[operator]
    with pytest.raises(Invalid):
        place.start()


def test_a_copy_that_is_spoilt_itself_lifts_nothing_either(place: Place) -> None:
    place.write(LIMITED)
    copy, _ = place.start()
    place.file.unlink()
    copy.copy.write_text("format:")
    with pytest.raises(Invalid) as refused:
        place.start()
    assert "Nor can the copy of its last good state be used" in refused.value.message


@promise("owner.file-lost-lifts-nothing")
def test_a_folder_that_cannot_be_entered_is_no_missing_file(tmp_path: Path) -> None:
    folder = tmp_path / "etc"
    folder.mkdir()
    place = Place(folder)
    place.state = tmp_path / "state"
    place.write(LIMITED)
    place.start()
    folder.rename(tmp_path / "away")
    folder.symlink_to(folder)
    _, reading = place.start()
    assert maximum(reading) == 5
    assert "cannot be read" in reading.fault


def test_the_copy_is_the_owners_alone_and_of_one_path(place: Place, tmp_path: Path) -> None:
    place.write(LIMITED)
    copy, _ = place.start()
    assert copy.copy.read_text() == LIMITED
    if sys.platform != "win32":
        assert stat.S_IMODE(copy.copy.stat().st_mode) == 0o600
    other = BenchCopy(tmp_path / "other" / "bench.yaml", place.state)
    assert other.copy != copy.copy
    assert other.read(LIBRARY).bench.units == {}
    assert (other.place(), copy.place()) == (other.path, copy.path)
    place.file.unlink()
    assert copy.place() == copy.copy


def test_a_copy_that_cannot_be_written_is_told_and_tried_again(place: Place) -> None:
    place.write(LIMITED)
    place.state.write_text("a file where the directory should be")
    copy, reading = place.start()
    assert maximum(reading) == 5
    assert str(copy.copy) in copy.unkept
    place.state.unlink()
    copy.keep(reading, place.now_ms)
    assert copy.unkept == ""
    assert copy.copy.read_text() == LIMITED


def test_a_glance_sees_that_a_file_in_a_fault_is_well_again(place: Place) -> None:
    place.write(LIMITED)
    copy, _ = place.start()
    place.write(BROKEN)
    before = copy.peek()
    assert copy.peek() == before
    place.write(LIMITED)
    assert copy.peek() != before
