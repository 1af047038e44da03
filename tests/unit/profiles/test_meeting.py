"""What a draft learns of an instrument, and how it leaves it."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.profiles.loading import parse_profile
from edged.profiles.model import Connection
from edged_author.drafting import draft_profile, key_of
from edged_author.meeting import UNKNOWN_COMMAND, meet
from tests.bench.talking_unit import Answer, TalkingUnit
from tests.promises import promise

NAME = "ACME,P1,42,1.0"
ANSWERS = st.text(st.characters(max_codepoint=255), max_size=30)
MAY_BE_SENT = {
    "*IDN?", "ID?", "VER?", "SYST:ERR?", "ERR?", "SYST:HELP:HEAD?", "*CLS", UNKNOWN_COMMAND,
}  # fmt: skip


def unit_with(answers: dict[str, Answer], unknown: Answer = None) -> TalkingUnit:
    return TalkingUnit({"*IDN?": NAME, **answers}, unknown)


@dataclass
class Queue:
    """Errors that are kept, asked for by one question; with its header where that is on."""

    header: str = ""
    errors: list[str] = field(default_factory=lambda: ['-113,"Undefined header"'] * 3)

    def next(self) -> str:
        return self.header + (self.errors.pop(0) if self.errors else '0,"No error"')


@promise("profile-new.harmless")
@given(st.dictionaries(st.sampled_from(sorted(MAY_BE_SENT)), ANSWERS), ANSWERS)
def test_nothing_is_sent_but_questions_cls_and_the_one_unknown_command(
    answers: dict[str, str], unknown: str
) -> None:
    unit = TalkingUnit(dict(answers), unknown)
    unit.hold(meet(Connection()))
    assert set(unit.said) <= MAY_BE_SENT


@promise("profile-new.harmless")
def test_where_its_owner_gives_a_question_nothing_else_is_sent() -> None:
    unit = TalkingUnit({"T": "\x01\x80\x8000f0"}, takes="\r", ends="\r")
    met = unit.hold(meet(Connection(), "T"))
    assert set(unit.said) == {"T"}
    assert (met.question, met.is_name, met.connection.write_termination) == ("T", False, "\r")
    assert "Only T was sent" in " ".join(met.unknown)


@pytest.mark.parametrize("query", ["SYST:ERR?", "ERR?"])
@pytest.mark.parametrize("header", ["", "SYST:ERR ", ":SYSTEM:ERROR ", "ERR "])
def test_a_queue_is_found_with_and_without_its_header_and_left_empty(
    query: str, header: str
) -> None:
    queue = Queue(header)
    met = unit_with({query: queue.next}).hold(meet(Connection()))
    assert met.error_query == query
    assert queue.errors == []


def test_an_instrument_that_only_ever_has_errors_is_not_asked_for_ever() -> None:
    unit = unit_with({"SYST:ERR?": '-350,"Queue overflow"'})
    assert unit.hold(meet(Connection())).error_query == "SYST:ERR?"
    assert len(unit.said) < 100


@pytest.mark.parametrize("reading", ["+1.0E+00", "12", "", "NACK", "ERROR"])
def test_what_is_no_entry_of_a_queue_is_none(reading: str) -> None:
    answers: dict[str, Answer] = {"SYST:ERR?": reading, "ERR?": reading}
    assert unit_with(answers).hold(meet(Connection())).error_query == ""


@promise("profile-new.acknowledge")
@pytest.mark.parametrize(("answer", "pattern"), [("OK", "^OK$"), ("", "^$"), ("=>", "^=>$")])
@pytest.mark.parametrize("unknown", [None, "?", "ERROR 3"])
def test_what_answers_cls_twice_alike_and_the_unknown_otherwise_is_an_acknowledgement(
    answer: str, pattern: str, unknown: str | None
) -> None:
    met = unit_with({"*CLS": answer}, unknown).hold(meet(Connection()))
    assert met.acknowledge == pattern
    assert not met.unknown


@promise("profile-new.acknowledge")
@pytest.mark.parametrize(
    ("answer", "pattern"),
    [("\x06", r"^\x06$"), (" OK ", "^OK$"), ("#" * 100, "^" + "#" * 60)],
)
def test_an_acknowledgement_is_drafted_as_it_is_compared_later(answer: str, pattern: str) -> None:
    met = unit_with({"*CLS": answer}, "\x15").hold(meet(Connection()))
    assert met.acknowledge == pattern
    drafted = parse_profile(draft_profile(met, "acme"))
    assert drafted.connection.acknowledge == pattern


@pytest.mark.parametrize("times", [1, 2, 10])
def test_what_it_sends_by_itself_is_told_unless_it_is_a_greeting(times: int) -> None:
    unit = TalkingUnit({"*IDN?": NAME}, unasked=(b"+12.3 g\r\n",) * times)
    met = unit.hold(meet(Connection()))
    assert ("without being asked" in " ".join(met.unknown)) is (times > 2)


@pytest.mark.parametrize("took_ms", [5.0, 1800.0])
def test_a_slow_instrument_is_given_more_time(took_ms: float) -> None:
    unit = unit_with({})
    unit.took_ms = took_ms
    met = unit.hold(meet(Connection()))
    assert met.connection.timeout_ms == (2000 if took_ms < 500 else 7500)


def test_what_frames_an_answer_is_no_part_of_its_name() -> None:
    unit = TalkingUnit({"VER": "\x02THERMO 3 SN 12\x03"})
    met = unit.hold(meet(Connection(), "VER"))
    drafted = parse_profile(draft_profile(met, key_of(met.name)))
    assert drafted.model == "3"
    assert drafted.connection.identify is not None
    assert drafted.connection.identify.expect == "THERMO [0-9]+ SN [0-9]+"


@promise("profile-new.acknowledge")
@pytest.mark.parametrize(
    "refusal", ["NACK", "\x15", "ERROR", "Error 5", "ERR", "NAK", "unknown command"]
)
@pytest.mark.parametrize("unknown", [None, "NACK", "ERROR"])
def test_a_refusal_is_no_acknowledgement(refusal: str, unknown: str | None) -> None:
    met = unit_with({"*CLS": refusal}, unknown).hold(meet(Connection()))
    assert met.acknowledge is None
    assert "could not be found out" in met.unknown[0]


@promise("profile-new.acknowledge")
def test_what_answers_everything_alike_or_never_twice_alike_cannot_be_known() -> None:
    for unit in (
        unit_with({"*CLS": "OK"}, "OK"),
        unit_with({"*CLS": map(str, itertools.count()).__next__}),
        unit_with({"*CLS": "*CLS"}, None),
        TalkingUnit({"*IDN?": NAME}, hangs_up_at=frozenset({"*CLS"})),
    ):
        met = unit.hold(meet(Connection()))
        assert met.acknowledge is None
        assert "could not be found out" in met.unknown[0]


def test_an_instrument_that_is_silent_to_what_it_is_told_acknowledges_nothing() -> None:
    met = unit_with({"SYST:ERR?": '0,"No error"'}).hold(meet(Connection()))
    assert met.acknowledge is None
    assert not met.unknown


@pytest.mark.parametrize("answer", ["NACK", "ERROR", "ERR 1", "ERR_3", "unknown command", "IDN?"])
def test_a_refusal_is_no_name_and_is_told_with_what_becomes_of_it(answer: str) -> None:
    met = TalkingUnit({}, answer).hold(meet(Connection()))
    assert (met.question, met.idn, met.is_name) == ("", "", False)
    assert answer in met.unknown[0]
    assert "set aside" in met.unknown[0]


@pytest.mark.parametrize(
    "name",
    ["KORADKA3005PV2.0", "*IDN GE Druck,PACE5000,10388796,DK0367", "ERROR LABS 2", NAME],
)
def test_names_are_told_from_refusals(name: str) -> None:
    met = TalkingUnit({"*IDN?": name}).hold(meet(Connection()))
    assert met.is_name is (name != "ERROR LABS 2")


@pytest.mark.parametrize("before", ["\n", "*IDN?\n", "\n*IDN?\n"])
def test_empty_lines_and_the_echo_before_a_name_are_passed_over(before: str) -> None:
    met = unit_with({"*IDN?": before + NAME}).hold(meet(Connection()))
    assert met.idn == NAME
    assert ("It echoes what it receives" in " ".join(met.unknown)) is ("IDN" in before)


def test_an_old_instrument_is_asked_by_its_own_question() -> None:
    met = TalkingUnit({"ID?": "HP3325A"}).hold(meet(Connection()))
    assert (met.question, met.idn) == ("ID?", "HP3325A")


@pytest.mark.parametrize("told", ["#9ab", "#", "#0", "#3x", "#10", "VOLT", "#16:VOLT?"])
def test_a_list_of_commands_that_is_no_block_is_none(told: str) -> None:
    met = unit_with({"SYST:HELP:HEAD?": told}).hold(meet(Connection()))
    assert met.headers == ((":VOLT?",) if told.startswith("#16") else ())


def test_of_silence_a_draft_says_that_nothing_was_heard() -> None:
    met = TalkingUnit({}).hold(meet(Connection()))
    assert not met.was_heard
    assert "did not answer at all" in met.unknown[-1]
