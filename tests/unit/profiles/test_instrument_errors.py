"""What instruments say about their errors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.scpi.errors import parse_error
from edged.scpi.kinds import ErrorKind


@pytest.mark.parametrize(
    "answer", ['+0,"No error"\n', '0,"No error"', "0  No Error", "+0", "", "No Error."]
)
def test_no_error_is_known_in_every_spelling(answer):
    assert not parse_error(ErrorKind.QUEUE, answer).is_error


def test_queue_entry_keeps_its_code_and_text():
    error = parse_error(ErrorKind.QUEUE, '-222,"Data out of range; 61"\n')

    assert (error.code, error.is_error, error.is_undefined) == (-222, True, False)
    assert "Data out of range" in error.text


@pytest.mark.parametrize("header", ["SYST:ERR ", ":SYSTEM:ERROR:NEXT ", "ERR ", "SYST:ERR?  "])
def test_the_header_of_the_question_before_an_entry_is_passed_over(header):
    assert not parse_error(ErrorKind.QUEUE, f"{header}0, No error").is_error
    error = parse_error(ErrorKind.QUEUE, f'{header}-222,"Data out of range"')
    assert (error.code, error.text) == (-222, '-222,"Data out of range"')


def test_undefined_header_is_told_apart():
    assert parse_error(ErrorKind.QUEUE, '-113,"Undefined header"').is_undefined


def test_event_status_bits_are_named_and_harmless_ones_are_no_error():
    assert parse_error(ErrorKind.ESR, "48").text == "execution error, command error (ESR 48)"
    assert parse_error(ErrorKind.ESR, "32").is_undefined
    assert not parse_error(ErrorKind.ESR, "129").is_error


def test_bare_code_is_an_error_unless_it_is_zero():
    assert parse_error(ErrorKind.CODE, "7").is_error
    assert not parse_error(ErrorKind.CODE, "0").is_error


def test_an_entry_without_number_is_an_error_with_its_text():
    error = parse_error(ErrorKind.QUEUE, "Command error!\x07")

    assert (error.code, error.text) == (None, "Command error!")


@given(st.sampled_from(list(ErrorKind)), st.text(max_size=300))
def test_any_text_is_read_without_raising_and_shown_short(kind, answer):
    error = parse_error(kind, answer)

    assert len(error.text) <= 200
    assert error.text.isprintable()


def test_a_code_is_known_behind_the_header_that_a_scope_puts_before_it():
    assert not parse_error(ErrorKind.CODE, "EXR 0").is_error
    assert parse_error(ErrorKind.CODE, "EXR 21").text == "error 21"


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ("-2.85000e+02\tTSP Syntax error\t2.0e+01", -285),
        ("-285\tTSP Syntax error", -285),
        ("+7.000E+00", 7),
        ("7.0", 7),
        ("-113;Undefined header", -113),
        ("0x10", 16),
        ("#H10", 16),
        ('"#B101"', 5),
        ("1.5", 1),
        ("1E99", 1),
    ],
)
def test_a_code_is_read_in_every_form_of_a_number(answer: str, code: int) -> None:
    assert parse_error(ErrorKind.QUEUE, answer).code == code
    assert parse_error(ErrorKind.CODE, answer).code == code


@pytest.mark.parametrize(
    "answer", ["0.00000e+00\tQueue Is Empty", "0\tNo error", "+0.0E+0", "0.0", "0x0000", "#H0"]
)
@pytest.mark.parametrize("kind", [ErrorKind.QUEUE, ErrorKind.CODE, ErrorKind.ESR])
def test_no_error_is_known_in_every_form_of_a_number(kind: ErrorKind, answer: str) -> None:
    assert not parse_error(kind, answer).is_error


@pytest.mark.parametrize(
    ("pattern", "none", "answer", "told"),
    [
        (r"^E(?P<code>[0-9]+)", "", "E01", (1, "error 1", False)),
        (r"^E(?P<code>[0-9]+)", "", "E00", (0, "", False)),
        (r"^E(?P<code>[0-9]+)", "^OK$", "OK", (0, "", False)),
        (r"^E(?P<code>[0-9]+)", "", "C01", (None, "C01", True)),
        (r"^1TE(?P<code>[A-Z@])", "^1TE@", "1TE@", (0, "", False)),
        (r"^1TE(?P<code>[A-Z@])", "^1TE@", "1TEC", (None, "error C", False)),
        (r"^E(?P<code>\d+) (?P<text>.+)$", "", "E12 too hot", (12, "12, too hot", False)),
        (r"^(?P<text>[^:]+): (?P<code>-?\d+)$", "", "Bad: -113", (-113, "-113, Bad", False)),
        ("", "^READY$", "READY", (0, "", False)),
        ("", "^READY$", '-113,"Odd"', (-113, '-113,"Odd"', False)),
    ],
)
def test_a_profile_describes_other_forms(
    pattern: str, none: str, answer: str, told: tuple[int | None, str, bool]
) -> None:
    error = parse_error(ErrorKind.CODE if pattern else ErrorKind.QUEUE, answer, pattern, none)
    assert (error.code, error.text, error.is_odd) == told
    assert error.is_error is bool(error.text)
