from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest

from edged.profiles.authoring.checking import checking_section
from edged.profiles.authoring.markdown import profile_markdown
from edged.profiles.model import (
    ForStep,
    ImageAnswer,
    PollStep,
    Profile,
    QueryStep,
    Step,
    WaveformAnswer,
)
from tests.bench.fake_instruments import toy_profile
from tests.bench.shipped import shipped_library
from tests.promises import promise

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


def lines_of(profile: Profile) -> Iterator[str]:
    """Every line that a profile makes the daemon send, as it is written there."""
    connection = profile.connection
    yield from (*connection.on_connect, *(connection.on_connect_serial or ()))
    yield from (*connection.on_release, *profile.abort_lines)
    yield from filter(None, (connection.errors.query, connection.errors.detail))
    yield from (part.query for part in (connection.probe,) if part is not None)
    yield from (part.ask for part in (connection.identify, profile.acquisition) if part is not None)
    yield from (setting.get for setting in profile.settings.values())
    timer = profile.watchdog
    if timer is not None:
        yield from (*timer.delay, *timer.enable, *timer.disable, *timer.clear, *timer.feeds)
        yield timer.tripped.ask
    for command in profile.commands.values():
        yield from command.scpi
        match command.returns:
            case WaveformAnswer(setup=setup, preamble_queries=preamble, data=data):
                yield from (*setup, *preamble, data)
            case ImageAnswer(data=data):
                yield data
        yield from (
            part.query
            for part in (command.precondition, command.verify, command.complete, command.errors)
            if part is not None and part.query
        )
        if command.sweep is not None:
            yield from (command.sweep.setpoint, *(step.send for step in command.sweep.abort))
    for sequence in profile.sequences.values():
        yield from asked_by(sequence.steps)
        yield from asked_by(sequence.finally_steps)


def asked_by(steps: Iterable[Step]) -> Iterator[str]:
    for step in steps:
        match step:
            case QueryStep(query=line) | PollStep(poll=line, is_command=False):
                yield line
            case ForStep(steps=inner):
                yield from asked_by(inner)


@promise("profile.page")
@pytest.mark.parametrize("key", sorted(LIBRARY.profiles))
def test_every_line_that_is_sent_stands_where_it_is_held_against_the_manual(key: str) -> None:
    profile = LIBRARY.profiles[key]
    page = checking_section(profile)
    told = page.replace("\\|", "|")
    assert [line for line in lines_of(profile) if f"`{line}`" not in told] == []


@promise("profile.page")
def test_who_has_no_name_is_told_by_its_own_question_and_its_acknowledgements() -> None:
    page = checking_section(LIBRARY.profiles["lauda_integral"])
    assert "| ☐ | recognized by | `TYPE`, answered by" in page
    assert "| ☐ | acknowledges with | `^OK" in page
    assert "real answers" not in page
    row = "| ☐ | `read_buffer` | `TRCB? {channel},{first},{points}` | "
    lock_in = checking_section(LIBRARY.profiles["srs_sr830"])
    assert row in lock_in
    assert "f4 in numbers over points (without a header, `points` points)" in lock_in
    meter = checking_section(LIBRARY.profiles["oxford_itc503"])
    assert "`0` → none, `1` → heater" in meter, "what a digit of its status means"


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
