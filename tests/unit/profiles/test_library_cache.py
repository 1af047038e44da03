import hashlib
import os
import pickle
import subprocess
import sys
import tracemalloc
import zlib
from pathlib import Path

import pytest

from edged import patterns
from edged.errors import Failed
from edged.profiles import library as packed
from edged.profiles import loading as loader
from edged.profiles.library import succeeded, unpack
from edged.profiles.library_cache import CACHE, load_cached_library, read_library, warm
from edged.profiles.loading import load_library
from edged.profiles.match import find_profile
from edged.profiles.model import head_of
from tests.bench.fake_instruments import PROFILE
from tests.promises import promise

BROKEN = "format: 1\nprofile_key: broken\n"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    profiles = tmp_path / "profiles"
    profiles.mkdir()
    (profiles / "toy_supply.yaml").write_text(PROFILE)
    (profiles / "broken.yaml").write_text(BROKEN)
    return profiles


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the files that were parsed."""
    names: list[str] = []
    parse = loader.parse_file

    def seen(text: str, path: Path) -> object:
        names.append(path.name)
        return parse(text, path)

    monkeypatch.setattr(loader, "parse_file", seen)
    return names


def test_the_cache_gives_what_reading_gives_complaints_included(
    directory: Path, tmp_path: Path
) -> None:
    cache = tmp_path / "state" / "profiles.cache"
    first = load_cached_library([directory], cache)
    assert cache.exists()
    again = load_cached_library([directory], cache)
    assert again == first == load_library([directory])
    assert {complaint.path for complaint in again.complaints} == {str(directory / "broken.yaml")}


def test_a_second_start_reads_no_yaml(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "profiles.cache"
    load_cached_library([directory], cache)

    def never(_directories: object) -> object:
        raise AssertionError("the files were read again")

    monkeypatch.setattr(loader, "load_library", never)
    assert "toy_supply" in load_cached_library([directory], cache).profiles


def test_a_command_reads_what_the_engine_kept_makes_each_profile_once_and_writes_nothing(
    directory: Path, tmp_path: Path, parsed: list[str]
) -> None:
    state = tmp_path / "state"
    load_cached_library([directory], state / CACHE)
    before = {path: path.stat().st_mtime_ns for path in state.iterdir()}
    parsed.clear()
    library = read_library([directory], state)
    assert not parsed
    assert library == load_library([directory])
    assert library.profiles["toy_supply"] is library.profiles["toy_supply"]
    # A profile that changed since is read from its file, and the engine's cache is left alone.
    (directory / "toy_supply.yaml").write_text(PROFILE.replace("max: 30", "max: 20"))
    changed = read_library([directory], state).profiles["toy_supply"]
    assert changed.commands["set_voltage"].parameters["voltage"].max == 20
    assert {path: path.stat().st_mtime_ns for path in state.iterdir()} == before


def test_a_command_beside_an_engine_that_never_ran_leaves_no_state_directory(
    directory: Path, tmp_path: Path
) -> None:
    assert read_library([directory], tmp_path / "state") == load_library([directory])
    assert not (tmp_path / "state").exists()


def test_a_changed_added_or_removed_file_is_read_anew(directory: Path, tmp_path: Path) -> None:
    cache = tmp_path / "profiles.cache"
    load_cached_library([directory], cache)
    (directory / "toy_supply.yaml").write_text(PROFILE.replace("max: 30", "max: 20"))
    changed = load_cached_library([directory], cache).profiles["toy_supply"]
    assert changed.commands["set_voltage"].parameters["voltage"].max == 20
    (directory / "broken.yaml").unlink()
    assert load_cached_library([directory], cache).complaints == ()
    (directory / "toy_supply.yaml").unlink()
    assert load_cached_library([directory], cache).profiles == {}


def test_of_many_files_only_the_one_that_changed_is_parsed(
    directory: Path, tmp_path: Path, parsed: list[str]
) -> None:
    cache = tmp_path / "profiles.cache"
    other = PROFILE.replace("toy_supply", "other_supply")
    (directory / "other_supply.yaml").write_text(other)
    load_cached_library([directory], cache)
    parsed.clear()
    (directory / "other_supply.yaml").write_text(other.replace("max: 30", "max: 20"))
    again = load_cached_library([directory], cache)
    assert parsed == ["other_supply.yaml"]
    assert again == load_library([directory])
    # And whoever extends what has changed changes with it.
    child = (
        "format: 1\nprofile_key: child\nmodel: C1\nextends: other_supply\nmatch: {idn: 'c,c1'}\n"
    )
    (directory / "child.yaml").write_text(child)
    load_cached_library([directory], cache)
    (directory / "other_supply.yaml").write_text(other.replace("max: 30", "max: 10"))
    parsed.clear()
    found = load_cached_library([directory], cache)
    assert parsed == ["other_supply.yaml"]
    assert found.profiles["child"].commands["set_voltage"].parameters["voltage"].max == 10
    # The same text under another name is another file: complaints say where.
    (directory / "broken.yaml").rename(directory / "worse.yaml")
    moved = load_cached_library([directory], cache)
    assert {complaint.path for complaint in moved.complaints} == {str(directory / "worse.yaml")}


def test_who_has_more_directories_than_the_warmed_one_parses_only_those(
    directory: Path, tmp_path: Path, parsed: list[str]
) -> None:
    warm(directory)
    own = tmp_path / "own"
    own.mkdir()
    (own / "own_supply.yaml").write_text(PROFILE.replace("toy_supply", "own_supply"))
    parsed.clear()
    found = load_cached_library([directory, own], tmp_path / "profiles.cache")
    assert set(parsed) == {"own_supply.yaml"}
    assert found == load_library([directory, own])


@pytest.mark.parametrize("damage", [b"", b"garbage", b"\x00" * 80])
def test_damaged_trees_are_as_good_as_none(directory: Path, tmp_path: Path, damage: bytes) -> None:
    cache = tmp_path / "profiles.cache"
    load_cached_library([directory], cache)
    trees = tmp_path / "profiles.cache.trees"
    assert trees.exists()
    trees.write_bytes(damage and trees.read_bytes()[:64] + damage)
    (directory / "broken.yaml").unlink()
    assert load_cached_library([directory], cache) == load_library([directory])


@pytest.mark.parametrize("cut", [0, 10, 32, 40, 200])
def test_a_damaged_cache_is_as_good_as_none(directory: Path, tmp_path: Path, cut: int) -> None:
    cache = tmp_path / "profiles.cache"
    load_cached_library([directory], cache)
    cache.write_bytes(cache.read_bytes()[:cut] + b"\x00garbage")
    assert "toy_supply" in load_cached_library([directory], cache).profiles


def test_a_cache_damaged_inside_a_profile_is_as_good_as_none(
    directory: Path, tmp_path: Path
) -> None:
    cache = tmp_path / "profiles.cache"
    load_cached_library([directory], cache)
    data = bytearray(cache.read_bytes())
    data[-40] ^= 1
    cache.write_bytes(data)
    library = load_cached_library([directory], cache)
    assert library.profiles["toy_supply"].commands
    assert cache.read_bytes() != bytes(data)


def test_what_is_known_of_a_profile_without_unpacking_it_is_what_it_says(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = load_cached_library([directory], tmp_path / "profiles.cache")
    expected = head_of(load_library([directory]).profiles["toy_supply"])

    def never(_data: bytes) -> object:
        raise AssertionError("a profile was unpacked")

    monkeypatch.setattr(packed, "unpack", never)
    assert library.heads == {"toy_supply": expected}
    assert find_profile("TOY,S1,0001,1.0", None, library.heads.values()).profile == expected
    assert list(library.profiles) == ["toy_supply"]
    assert "toy_supply" in library.profiles


def test_instruments_of_one_model_share_its_profile_and_readers_take_it_away_with_them(
    directory: Path, tmp_path: Path
) -> None:
    library = load_cached_library([directory], tmp_path / "profiles.cache")
    read = library.profiles["toy_supply"]
    assert library.profiles["toy_supply"] is not read
    worked = library.chosen("toy_supply")
    assert worked == read
    assert library.chosen("toy_supply") is worked
    assert library.profiles["toy_supply"] is worked
    assert library.chosen("none") is None


def test_a_profile_that_was_broken_meanwhile_stays_beside_packed_ones(
    directory: Path, tmp_path: Path
) -> None:
    cache = tmp_path / "profiles.cache"
    (directory / "other.yaml").write_text(PROFILE.replace("toy_supply", "other"))
    before = load_cached_library([directory], cache)
    (directory / "toy_supply.yaml").write_text(BROKEN.replace("broken", "toy_supply"))
    library, kept = succeeded(before, load_cached_library([directory], cache))
    assert kept == ("toy_supply",)
    assert library.profiles == before.profiles
    assert library.heads == before.heads
    assert library.chosen("toy_supply") is library.chosen("toy_supply")


def test_nothing_but_values_of_profiles_is_taken_from_a_cache(
    directory: Path, tmp_path: Path
) -> None:
    cache = tmp_path / "profiles.cache"
    load_cached_library([directory], cache)
    key = cache.read_bytes()[:32]  # then the digest of what follows

    class Evil:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return Path.touch, (str(tmp_path / "pwned"),)

    evil = zlib.compress(pickle.dumps(Evil()))
    cache.write_bytes(key + hashlib.sha256(evil).digest() + evil)
    assert "toy_supply" in load_cached_library([directory], cache).profiles
    with pytest.raises(pickle.UnpicklingError):
        unpack(evil)
    assert not (tmp_path / "pwned").exists()


def test_a_state_directory_that_cannot_be_written_costs_speed_alone(
    directory: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    library = load_cached_library([directory], tmp_path / "file" / "profiles.cache")
    assert "toy_supply" in library.profiles


def test_a_warmed_directory_is_read_by_no_start_at_all(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = warm(directory)
    assert place.parent == directory
    expected = load_library([directory])

    def never(_directories: object) -> object:
        raise AssertionError("the files were read again")

    monkeypatch.setattr(loader, "load_library", never)
    assert load_cached_library([directory], tmp_path / "none" / "profiles.cache") == expected


def test_a_warmed_directory_that_was_changed_since_is_read_anew(
    directory: Path, tmp_path: Path
) -> None:
    warm(directory)
    (directory / "toy_supply.yaml").write_text(PROFILE.replace("max: 30", "max: 20"))
    library = load_cached_library([directory], tmp_path / "profiles.cache")
    assert library.profiles["toy_supply"].commands["set_voltage"].parameters["voltage"].max == 20


def test_a_fifo_among_the_profiles_is_not_waited_for(tmp_path: Path) -> None:
    directory = tmp_path / "profiles"
    directory.mkdir()
    os.mkfifo(directory / "fifo.yaml")
    (directory / "device.yaml").symlink_to("/dev/zero")
    for _ in range(2):
        library = load_cached_library([directory], tmp_path / "cache")
        assert [complaint.message for complaint in library.complaints] == [
            "This is not a regular file."
        ] * 2


MORE = 300
KEPT_PER_PROFILE = 2_500
"""Bytes of its head; packed it has some thousands, unpacked some hundred thousands."""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A directory of many profiles, and the cache of a start that has parsed them."""
    place = tmp_path_factory.mktemp("large")
    directory = place / "profiles"
    directory.mkdir()
    (directory / "toy_supply.yaml").write_text(PROFILE)
    for number in range(MORE):
        name = f"more_{number:03d}"
        match = f"{{idn: 'maker{number} ,s1', examples: ['MAKER{number} ,S1,0001,1.0']}}"
        text = f"format: 1\nprofile_key: {name}\nmodel: S1\nextends: toy_supply\nmatch: {match}\n"
        (directory / f"{name}.yaml").write_text(text)
    load_cached_library([directory], place / CACHE)
    return directory, place / CACHE


@promise("profile.library-costs-nothing")
def test_of_a_large_library_only_the_heads_are_in_memory(large: tuple[Path, Path]) -> None:
    directory, cache = large
    tracemalloc.start()
    try:
        library = load_cached_library([directory], cache)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(library.profiles) > MORE
    assert kept < len(library.profiles) * KEPT_PER_PROFILE


@promise("profile.library-costs-nothing")
def test_who_looks_for_a_profile_unpacks_and_compiles_none_of_the_others(
    large: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, cache = large
    library = load_cached_library([directory], cache)
    unpacked = []
    monkeypatch.setattr(packed, "unpack", lambda data: unpacked.append(data) or unpack(data))
    before = patterns.compiled.cache_info().misses
    example = library.heads["toy_supply"].match.examples[0]
    assert find_profile(example, None, library.heads.values()).profile is not None
    assert patterns.compiled.cache_info().misses <= before + 1
    assert unpacked == []
    assert library.chosen("toy_supply") is not None
    assert len(unpacked) == 1


@promise("profile.library-costs-nothing")
def test_a_cache_that_is_written_anew_leaves_a_running_engine_its_own(
    directory: Path, tmp_path: Path
) -> None:
    cache = tmp_path / "profiles.cache"
    load_cached_library([directory], cache)
    library = load_cached_library([directory], cache)
    (directory / "toy_supply.yaml").write_text(PROFILE.replace("max: 30", "max: 20"))
    load_cached_library([directory], cache)
    cache.unlink()
    voltage = library.profiles["toy_supply"].commands["set_voltage"].parameters["voltage"]
    assert voltage.max == 30


def test_a_cache_that_somebody_cuts_short_is_told_in_words(directory: Path, tmp_path: Path) -> None:
    cache = tmp_path / "profiles.cache"
    load_cached_library([directory], cache)
    library = load_cached_library([directory], cache)
    os.truncate(cache, 100)
    with pytest.raises(Failed, match="cannot be read any more"):
        library.chosen("toy_supply")


@promise("profile.library-costs-nothing")
def test_edged_status_reads_no_profile() -> None:
    program = "import sys, edged.cli.status; print([m for m in sys.modules if 'profiles' in m])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stdout.strip() == "[]"
