"""Stop all where a channel or a unit is selected before its output: by the bytes that go out."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from typing import Any

import pytest

from edged.actions.action import Purpose, SendLines, StopAll
from edged.profiles.abort import is_selecting, proofs_of, select
from edged.profiles.model import AbortStep, Profile
from edged.profiles.template import possible_values, render
from edged.runs.obey import obey
from tests.bench.driven_clock import DrivenClock
from tests.bench.fake_instruments import FakeInstrument, toy_profile
from tests.bench.shipped import shipped_library
from tests.bench.sweep_bench import DIRECT, SweepHouse
from tests.promises import promise

TWO = """
format: 1
profile_key: two_selected
manufacturer: Two
model: S2
instrument_class: power_supply
source: made up
match: {{idn: two}}
connection: {{errors: {{query: "SYST:ERR?", kind: queue}}}}
abort:
{abort}
commands:
  is_on: {{scpi: "OUTP?", returns: {{type: bool}}}}
"""
SELECTIONS = ("INST:NSEL {n}", "INST CH{n}", ":INSTrument:SELect OUT{n}", "ADR {n}", "CHAN {n}")


def entry(line: str, *, is_asked: bool = True, asks: str = ', ask: "OUTP?", expect: "^0$"') -> str:
    if is_asked and not asks:
        return f'  - "{line}"\n'
    return f'  - {{send: "{line}"{asks if is_asked else ", ask: none"}}}\n'


def abort_of(selecting: str, *, has_explicit_questions: bool = True) -> str:
    asks = ', ask: "OUTP?", expect: "^0$"' if has_explicit_questions else ""
    return "".join(
        entry(selecting.format(n=n), is_asked=False) + entry("OUTP OFF", asks=asks) for n in (1, 2)
    )


class Selected(FakeInstrument):
    """Two outputs behind one word; those in ``stuck`` stay on whatever they are told."""

    def __init__(self, profile: Profile, *stuck: str) -> None:
        super().__init__(id="S::two", profile=profile, alias="two")
        self.address = self.id
        self.stuck = stuck
        self.chosen = "?"
        self.is_on = {"1": True, "2": True}

    def _answer(self, step: Any) -> Any:
        text = getattr(step, "text", "")
        if text.startswith("OUTP OFF") and self.chosen not in self.stuck:
            self.is_on[self.chosen] = False
        elif text.startswith("OUTP?"):
            self.answers[text] = str(int(self.is_on[self.chosen]))
        elif text.endswith(("1", "2")):
            self.chosen = text[-1]
        return super()._answer(step)


@pytest.fixture
async def house(driven_clock: DrivenClock) -> AsyncIterator[SweepHouse]:
    house = SweepHouse(driven_clock)
    yield house
    await house.bench_stop.close()
    await house.sweeps.close(0.5)


async def stopped(house: SweepHouse, unit: Selected) -> dict[str, Any]:
    house.pool.instruments[:] = [unit]
    # Somebody has switched it on.
    house.told_on.note("Toy|S1|0001", unit.id, frozenset({"OUTP"}))
    outcome = await house.perform(
        StopAll(tool="bench__stop_all", caller=DIRECT, action_id=house.new_id())
    )
    assert outcome.error is None, outcome.error
    report: dict[str, Any] = outcome.data["instruments"][0]
    return {**report, "is_confirmed": outcome.data["is_confirmed"]}


@promise("stop-all.truth")
@promise("stop-all.selected")
@pytest.mark.parametrize("has_explicit_questions", [True, False])
@pytest.mark.parametrize("stuck", ["1", "2"])
@pytest.mark.parametrize("selecting", SELECTIONS)
async def test_an_output_that_does_not_obey_is_named_whichever_channel_was_selected_last(
    house: SweepHouse, selecting: str, stuck: str, *, has_explicit_questions: bool
) -> None:
    text = abort_of(selecting, has_explicit_questions=has_explicit_questions)
    unit = Selected(toy_profile(TWO.format(abort=text)), stuck)
    report = await stopped(house, unit)
    assert report["state"] == "failed"
    assert not report["is_confirmed"]
    assert report["unconfirmed"] == ["OUTP"]
    told = {one["query"]: one["is_as_wanted"] for one in report["confirmed"]}
    assert told == {f"{selecting.format(n=n)}; OUTP?": n != stuck for n in "12"}


@promise("stop-all.selected")
@pytest.mark.parametrize("selecting", SELECTIONS)
async def test_all_lines_that_switch_off_go_out_before_the_first_question(
    house: SweepHouse, selecting: str
) -> None:
    unit = Selected(toy_profile(TWO.format(abort=abort_of(selecting))))
    report = await stopped(house, unit)
    assert (report["state"], report["is_confirmed"]) == ("confirmed", True)
    one, two = (selecting.format(n=n) for n in (1, 2))
    off = [one, "OUTP OFF", two, "OUTP OFF"]
    assert unit.sent == [*off, "SYST:ERR?", one, "OUTP?", two, "OUTP?"]


@promise("stop-all.selected")
@pytest.mark.parametrize(
    ("abort", "stuck"),
    [
        # Nobody asks about the second output, which has the same name.
        (
            entry("INST:NSEL 1", is_asked=False)
            + entry("OUTP OFF")
            + entry("INST:NSEL 2", is_asked=False)
            + entry("OUTP OFF", is_asked=False),
            "2",
        ),
        # The first one is whichever was selected by somebody else.
        (entry("OUTP OFF") + entry("INST:NSEL 2", is_asked=False) + entry("OUTP OFF"), "1"),
        # Nobody knows that this selects.
        (
            entry("PORT 1", is_asked=False)
            + entry("OUTP OFF")
            + entry("PORT 2", is_asked=False)
            + entry("OUTP OFF"),
            "1",
        ),
    ],
)
async def test_where_the_selection_of_a_question_is_not_known_nothing_is_confirmed(
    house: SweepHouse, abort: str, stuck: str
) -> None:
    unit = Selected(toy_profile(TWO.format(abort=abort)), stuck)
    unit.chosen = "1"
    report = await stopped(house, unit)
    assert report["state"] == "taken"
    assert not report["is_confirmed"]
    assert "OUTP" in report["unconfirmed"]


class Ported(Selected):
    """Two outputs with a level each, behind a word that nobody knows to select."""

    def __init__(self, profile: Profile, *stuck: str) -> None:
        super().__init__(profile, *stuck)
        self.level = {"1": 5, "2": 5}

    def _answer(self, step: Any) -> Any:
        line = getattr(step, "text", "")
        for text in line.split(";"):
            header, _, value = text.partition(" ")
            held = {"OUTP": self.is_on, "VOLT": self.level}.get(header.rstrip("?"))
            if header in {"PORT", "CH", "USE"}:
                self.chosen = value
            elif held is not None and text.endswith("?"):
                self.answers[line] = str(int(held[self.chosen]))
            elif held is not None and self.chosen not in self.stuck:
                held[self.chosen] = 0
        return FakeInstrument._answer(self, step)


def asked(line: str, query: str) -> str:
    return f'  - {{send: "{line}", ask: "{query}", expect: "^0$"}}\n'


@promise("stop-all.truth")
@promise("stop-all.selected")
@pytest.mark.parametrize(
    ("abort", "stuck"),
    [
        # It stands in the line itself.
        (asked("PORT 1;OUTP OFF", "OUTP?") + asked("PORT 2;OUTP OFF", "OUTP?"), "1"),
        # One question for two lines that say different things.
        (asked("CH 1;OUTP OFF", "OUTP?") + asked("USE 2;OUTP 0", "OUTP?"), "1"),
        # Another question for each, of which the first is asked of the second output.
        (
            entry("PORT 1", is_asked=False)
            + asked("OUTP OFF", "OUTP?")
            + entry("PORT 2", is_asked=False)
            + asked("VOLT 0", "VOLT?"),
            "1",
        ),
        (
            asked("PORT 1;OUTP OFF", "OUTP?") + asked("PORT 2;VOLT 0", "VOLT?"),
            "1",
        ),
    ],
)
async def test_an_unknown_word_that_may_select_confirms_no_output_that_stays_on(
    house: SweepHouse, abort: str, stuck: str
) -> None:
    unit = Ported(toy_profile(TWO.format(abort=abort)), stuck)
    unit.chosen = "1"
    report = await stopped(house, unit)
    assert unit.is_on[stuck]
    assert not report["is_confirmed"], report


@promise("stop-all.selected")
async def test_the_channel_of_one_address_is_not_selected_at_another(house: SweepHouse) -> None:
    lines = ("ADR 6", "INST:NSEL 1", "OUTP OFF", "ADR 7", "INST:NSEL 1", "OUTP OFF")
    text = "".join(entry(line, is_asked=line == "OUTP OFF") for line in lines)
    unit = Selected(toy_profile(TWO.format(abort=text)))
    assert (await stopped(house, unit))["is_confirmed"]
    questions = [lines[0], lines[1], "OUTP?", lines[3], lines[4], "OUTP?"]
    assert unit.sent == [*lines, "SYST:ERR?", *questions]


def aborts(profile: Profile) -> list[tuple[AbortStep, ...]]:
    """The profile's own abort, and that of each sweep for every channel."""
    found = [profile.abort]
    for command in profile.commands.values():
        if command.sweep is None:
            continue
        channel = command.parameters.get("channel")
        for value in possible_values(channel) or (1,) if channel is not None else (1,):
            values = {"channel": value}
            found.append(
                tuple(
                    AbortStep(
                        send=render(step.send, command.parameters, values),
                        ask=render(step.ask, command.parameters, values) if step.ask else "",
                        expect=step.expect,
                        is_unaskable=step.is_unaskable,
                    )
                    for step in command.sweep.abort
                    if "{output}" not in step.send
                )
            )
    return [abort for abort in found if any(is_selecting(step.send) for step in abort)]


SELECTING = {key: profile for key, profile in shipped_library().profiles.items() if aborts(profile)}


def test_some_shipped_profiles_select() -> None:
    assert {"keithley_2231a_30_3", "rs_hmp4040", "rs_nge103b"} <= set(SELECTING)


@promise("stop-all.selected")
@pytest.mark.parametrize("key", sorted(SELECTING))
async def test_every_shipped_abort_asks_about_an_output_under_its_own_selection(
    house: SweepHouse, key: str
) -> None:
    profile = SELECTING[key]
    for abort in aborts(profile):
        unit = FakeInstrument(id="S::1", profile=profile)
        house.pool.instruments[:] = [unit]
        lines, proofs = tuple(step.send for step in abort), proofs_of(profile, abort)
        action = house_lines(house, lines)
        await obey(house.perform, action, proofs)
        sent_under = under_selection(unit.sent[: len(lines)])
        asked_under = under_selection(unit.sent[len(lines) :])
        assert unit.sent[: len(lines)] == list(lines)
        for step in abort:
            if step.ask:
                selections = {selected for line, selected in sent_under if line == step.send}
                asked = {selected for line, selected in asked_under if line == step.ask}
                assert selections <= asked, (step, unit.sent)


def under_selection(sent: list[str]) -> list[tuple[str, tuple[str, ...]]]:
    """Each line with the selection in force."""
    selections = itertools.accumulate(sent, select, initial=())
    return list(zip(sent, itertools.islice(selections, 1, None), strict=True))


def house_lines(house: SweepHouse, lines: tuple[str, ...]) -> SendLines:
    return SendLines(
        tool="bench__stop_all",
        caller=DIRECT,
        action_id=house.new_id(),
        instrument_id="S::1",
        lines=lines,
        purpose=Purpose.ABORT,
    )
