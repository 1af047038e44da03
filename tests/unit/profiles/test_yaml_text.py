"""A profile with what it inherits, as text."""

from __future__ import annotations

from pathlib import Path

from edged.profiles.loading import load_profile, parse_profile, resolved_text

PROFILES = Path(__file__).parents[3] / "profiles"


def test_a_member_is_shown_with_what_it_inherits_and_where_that_stands() -> None:
    path = PROFILES / "rs_nge103b.yaml"
    text = resolved_text(path)
    assert "  # rs_hmp4040.yaml:" in text
    shown, loaded = parse_profile(text.replace('extends: "rs_hmp4040"\n', "")), load_profile(path)
    assert shown.commands == loaded.commands
    assert shown.sequences == loaded.sequences
    assert (shown.connection, shown.abort) == (loaded.connection, loaded.abort)


def test_a_profile_that_inherits_nothing_is_shown_as_it_means_itself() -> None:
    path = PROFILES / "rigol_dp832.yaml"
    text = resolved_text(path)
    assert ".yaml:" not in text
    assert parse_profile(text).commands == load_profile(path).commands
