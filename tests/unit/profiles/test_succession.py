"""From the profiles in force to those read anew."""

from __future__ import annotations

from pathlib import Path

from edged.profiles.library import succeeded
from edged.profiles.loading import load_library

TEXT = """\
format: 1
profile_key: {key}
manufacturer: Acme
model: One
instrument_class: other
source: "a test"
match: {{idn: 'acme,{key}'}}
commands: {{ask: {{scpi: "A?"}}}}
"""


def write(directory: Path, key: str, more: str = "") -> Path:
    directory.mkdir(exist_ok=True)
    path = directory / f"{key}.yaml"
    path.write_text(TEXT.format(key=key) + more)
    return path


def test_a_broken_file_leaves_its_old_profile_and_the_others_are_new(tmp_path: Path) -> None:
    broken, other = write(tmp_path, "broken"), write(tmp_path, "other")
    before = load_library([tmp_path])
    broken.write_text(broken.read_text() + "colour: red\n")
    other.write_text(other.read_text() + "version: 2\n")
    library, kept = succeeded(before, load_library([tmp_path]))
    assert kept == ("broken",)
    assert library.profiles["broken"] is before.profiles["broken"]
    assert library.profiles["other"].version == 2
    assert len(library.complaints) == 1


def test_a_file_that_is_gone_takes_its_profile_along(tmp_path: Path) -> None:
    gone = write(tmp_path, "gone")
    write(tmp_path, "stays")
    before = load_library([tmp_path])
    gone.unlink()
    library, kept = succeeded(before, load_library([tmp_path]))
    assert (list(library.profiles), kept) == (["stays"], ())


def test_a_broken_family_leaves_the_old_of_all_who_extend_it(tmp_path: Path) -> None:
    family = write(tmp_path, "family")
    (tmp_path / "member.yaml").write_text(
        "format: 1\nprofile_key: member\nmodel: Two\nextends: family\nmatch: {idn: two}\n"
    )
    before = load_library([tmp_path])
    family.write_text(family.read_text() + "commands: {}\n")
    library, kept = succeeded(before, load_library([tmp_path]))
    assert kept == ("family", "member")
    assert library.profiles == before.profiles


def test_a_new_override_that_is_broken_leaves_what_it_was_to_replace(tmp_path: Path) -> None:
    first, second = tmp_path / "1", tmp_path / "2"
    write(first, "acme")
    second.mkdir()
    before = load_library([first, second])
    (second / "acme.yaml").write_text("format: 1\n")
    library, kept = succeeded(before, load_library([first, second]))
    assert kept == ("acme",)
    assert library.profiles["acme"] is before.profiles["acme"]
