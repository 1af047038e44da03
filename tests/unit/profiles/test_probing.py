"""How an unknown instrument has to be spoken to is found out by one harmless question."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from edged.errors import ErrorCode, Failed
from edged.profiles.match import parse_idn
from edged.profiles.model import Connection
from edged_author.probing import (
    BAUD_RATES,
    FRAMES,
    find_message_settings,
    find_settings,
    flow_of,
)
from tests.bench.talking_unit import TalkingUnit
from tests.promises import promise

NAME = "ACME,P1,42,1.0"
ENDS = ("\n", "\r", "\r\n")


@promise("probe.finds")
@given(
    takes=st.sampled_from(ENDS),
    ends=st.sampled_from(ENDS),
    rate=st.sampled_from(BAUD_RATES),
    frame=st.sampled_from(FRAMES),
)
def test_speed_frame_and_line_ends_of_a_serial_instrument_are_found(
    takes: str, ends: str, rate: int, frame: tuple[int, str, int]
) -> None:
    # In the minute that there is, one so strict that a CR spoils its line is met at 8N1 alone.
    assume(takes != "\n" or frame == FRAMES[0])
    unit = TalkingUnit({"*IDN?": NAME}, takes=takes, ends=ends, port=(rate, *frame))
    found = unit.hold(find_settings("*IDN?", Connection(), is_serial=True))
    wire = found.connection
    assert (wire.baud_rate, wire.data_bits, wire.parity, wire.stop_bits) == (rate, *frame)
    assert (wire.write_termination, wire.read_termination) == (takes, ends)
    assert found.answer == NAME


@pytest.mark.parametrize("is_serial", [True, False])
def test_line_feed_and_then_carriage_return_is_found(is_serial: bool) -> None:
    # libsigrok#70: the GW Instek GDM-8251A, which has no serial number either.
    unit = TalkingUnit({"*IDN?": "GWInstek,GDM8251A,,1.0"}, takes="\n", ends="\n\r")
    found = unit.hold(find_settings("*IDN?", Connection(), is_serial=is_serial))
    assert found.connection.read_termination == "\n\r"
    assert parse_idn(found.answer).serial == ""


@promise("probe.harmless")
def test_nothing_is_sent_but_the_one_question() -> None:
    unit = TalkingUnit({"VERSION": "JULABO F25"}, takes="\r", ends="\r\n", rest_ms=30)
    unit.hold(find_settings("VERSION", Connection(), is_serial=False))
    assert set(unit.said) == {"VERSION"}


@pytest.mark.parametrize(("rest_ms", "gap_ms"), [(0, 0), (5, 20), (40, 100), (180, 400)])
def test_the_rest_that_it_needs_between_lines_is_found_with_a_margin(
    rest_ms: float, gap_ms: int
) -> None:
    unit = TalkingUnit({"*IDN?": NAME}, rest_ms=rest_ms)
    found = unit.hold(find_settings("*IDN?", Connection(), is_serial=False))
    assert found.connection.min_gap_ms == gap_ms
    assert not found.doubts


def test_what_answers_reliably_at_no_pause_is_told_as_a_doubt() -> None:
    unit = TalkingUnit({"*IDN?": NAME}, rest_ms=5_000)
    found = unit.hold(find_settings("*IDN?", Connection(), is_serial=False))
    assert "does not answer *IDN? reliably" in found.doubts[0]


def test_a_line_end_that_its_owner_gives_is_held_to() -> None:
    """Some have neither CR nor LF."""
    given = Connection(read_termination=";", write_termination=";")
    unit = TalkingUnit({"ID": "ID020"}, takes=";", ends=";")
    found = unit.hold(find_settings("ID", given, is_serial=False))
    assert not found.doubts
    assert found.answer == "ID020"
    wire = found.connection
    assert (wire.read_termination, wire.write_termination) == (";", ";")


def test_what_sends_by_itself_is_told_as_a_doubt() -> None:
    unit = TalkingUnit({"*IDN?": NAME}, unasked=(b"+12.3 g\r\n",) * 10)
    found = unit.hold(find_settings("*IDN?", Connection(), is_serial=False))
    assert "without being asked" in found.doubts[0]


def test_an_answer_without_a_line_end_is_told_as_a_doubt() -> None:
    unit = TalkingUnit({"*IDN?": NAME}, ends="")
    found = unit.hold(find_settings("*IDN?", Connection(), is_serial=False))
    assert "No line end came" in found.doubts[0]


def test_a_slow_instrument_gets_a_longer_time_limit() -> None:
    unit = TalkingUnit({"*IDN?": NAME}, took_ms=900)
    found = unit.hold(find_message_settings("*IDN?", Connection()))
    assert flow_of(found.connection) == {"timeout_ms": 4000}


def test_what_is_known_already_is_tried_and_no_speed_besides() -> None:
    unit = TalkingUnit({"*IDN?": NAME}, port=(19_200, 8, "none", 1))
    known = Connection(baud_rate=19_200, data_bits=8, parity="none", stop_bits=1)
    found = unit.hold(find_settings("*IDN?", known, is_serial=True))
    assert found.answer == NAME
    assert {tried.baud_rate for tried in unit.tried} == {19_200}


@pytest.mark.parametrize("is_serial", [False, True])
def test_silence_says_what_to_do(is_serial: bool) -> None:
    unit = TalkingUnit({})
    with pytest.raises(Failed, match="No setting that was tried") as failed:
        unit.hold(find_settings("*IDN?", Connection(), is_serial=is_serial))
    assert failed.value.code is ErrorCode.TIMEOUT
    assert "--ask" in failed.value.remedy
