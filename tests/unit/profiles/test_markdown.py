from __future__ import annotations

import pytest

from edged.profiles.authoring.markdown import profile_markdown
from tests.bench.fake_instruments import toy_profile
from tests.bench.shipped import shipped_library

LIBRARY = shipped_library()


@pytest.mark.parametrize("key", sorted(LIBRARY.profiles))
def test_a_page_names_every_command_sequence_and_argument_in_few_kilobytes(key: str) -> None:
    profile = LIBRARY.profiles[key]
    page = profile_markdown(profile)
    for command in (*profile.commands.values(), *profile.sequences.values()):
        assert f"### `{command.name}`" in page
        for name in command.parameters:
            assert f"- `{name}`: " in page
    assert len(page) < 24_000
    assert page.count("\n# ") == 0
    assert page.endswith("\n")


def test_limits_units_choices_and_danger_are_said() -> None:
    page = profile_markdown(LIBRARY.profiles["rigol_dp832"])
    assert "- `voltage`: float, 0 to 32 V." in page
    assert "  - with `channel` 3: at most 5.3 V" in page
    assert "### `output_on` (dangerous)" in page
    assert "Made safe by `:OUTP CH1,OFF`" in page
    scope = profile_markdown(LIBRARY.profiles["rigol_ds1054z"])
    assert "fetch_waveform hands it out" in scope


def test_what_only_a_sweep_may_move_is_marked() -> None:
    page = profile_markdown(toy_profile())
    assert "### `ramp_voltage` (" in page
    assert "only by a sweep" in page
