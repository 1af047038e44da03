"""Answers of real instruments, quirks and all, and of none."""

from __future__ import annotations

import json
import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.errors import ErrorCode, Failed
from edged.profiles.answers import matches, parse_answer, parse_preamble
from edged.profiles.frames import decode_codes
from edged.profiles.model import (
    AnswerField,
    BitField,
    BitsAnswer,
    FieldsAnswer,
    ImageAnswer,
    ListAnswer,
    Parameter,
    ParameterType,
    ScalarAnswer,
    WaveformAnswer,
)
from edged.scpi.answer_text import clean_text, leading_integer, plain_value
from edged.scpi.kinds import AnswerType
from edged.scpi.numbers import number_with_suffix
from tests.promises import promise

FLOAT, INT, STRING = AnswerType.FLOAT, AnswerType.INT, AnswerType.STRING
BOOL, SI = AnswerType.BOOL, AnswerType.SI


def value(kind: AnswerType, text: str, **fields: object) -> object:
    return parse_answer(ScalarAnswer(type=kind, **fields), text).value


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        (FLOAT, "+1.00000000E+01\n", 10.0),
        (FLOAT, "\r\n 5.0 \r\n", 5.0),
        (FLOAT, "\x005.0\r\n\x00\x00", 5.0),
        (FLOAT, ".5", 0.5),
        (INT, "+1", 1),
        (INT, "1.0E+00", 1),
        (INT, "#Q17", 15),
        (FLOAT, "#B101", 5.0),
        (INT, "#H1F", 31),
        (BOOL, "ON", True),
        (BOOL, "off", False),
        (BOOL, "0", False),
        (BOOL, " 1\r\n", True),
        (BOOL, "+1", True),
        (BOOL, "01", True),
        (BOOL, "5.000", True),
        (BOOL, "0.00000e+00", False),
        (BOOL, "-0", False),
        (BOOL, "+1.000000E+00", True),
        (BOOL, "True", True),
        (BOOL, "YES", True),
        (BOOL, "no", False),
        (BOOL, "ENABLED", True),
        (BOOL, "Disabled", False),
        (STRING, '"FRON"\n', "FRON"),
        (STRING, '"say ""hi"""', 'say "hi"'),
        (STRING, "Trig'd", "Trig'd"),
        (SI, "5.0V", 5.0),
        (SI, "1.00GSa/s", 1e9),  # Siglent SDS1000X-E SARA?
        (SI, "1000HZ", 1000.0),  # Siglent SDG BSWV?
        (SI, "500mV", 0.5),
        (SI, "14Mpts", 14e6),
    ],
)
def test_scalar_is_read_as_its_type_says(kind, text, expected):
    result = value(kind, text)

    assert result == expected
    assert type(result) is type(expected)


@promise("answer.is-its-type")
@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (FLOAT, ""),
        (FLOAT, "5.0V"),
        (FLOAT, "abc"),
        (FLOAT, "1e999"),
        (FLOAT, "1,2"),
        (INT, "1.5"),
        (FLOAT, "0x10"),
        (FLOAT, "5.5\n0"),
        (FLOAT, "5.5\r0"),
        (FLOAT, "5.5\n\n0"),
        (FLOAT, '"5.5\n0"'),
        (FLOAT, "5.5 0"),
        (FLOAT, "5.5;0"),
        (FLOAT, "9.9E37V"),
        (FLOAT, "5\x000"),
        (FLOAT, "5.5\x00"),
        (FLOAT, "5.5\x00\n"),
        (FLOAT, "5.5 \x00\r\n\x00"),
        (FLOAT, "5.5\x00\n0"),
        (INT, "1\x00"),
        (BOOL, "1\x00\n"),
        (SI, "5V\x00\n"),
        (FLOAT, "5\ufffd"),
        (FLOAT, "5\u00a0"),
        (FLOAT, "\u0665"),
        (FLOAT, "1" * 10_000),
        (INT, "0x10"),
        (INT, "+1\n+2"),
        (INT, "99999999999999999999999"),
        (INT, "9007199254740993.0"),
        (FLOAT, "-" * 300 + "5"),
        (FLOAT, "-."),
        (FLOAT, "-"),
        (FLOAT, "1.#"),
        (FLOAT, "NINFINITIES"),
        (BOOL, "maybe"),
        (BOOL, "1 V"),
        (BOOL, "Y"),
        (BOOL, "0x0"),
        (BOOL, "1\n0"),
        (STRING, "CC\nCV"),
        (STRING, "C\x00C"),
        (STRING, "CC\x00"),
        (STRING, "C\ufffdC"),
        (SI, "3 bananas"),
        (SI, "5V\n6V"),
        (SI, "5V 6V"),
    ],
)
def test_an_answer_of_another_type_is_a_bad_answer_that_is_shown(kind, text):
    with pytest.raises(Failed, match="answered") as caught:
        value(kind, text)

    assert caught.value.code is ErrorCode.BAD_ANSWER


@promise("answer.bytes-came")
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("1.5\x06", r"1.5\x06"),
        ("\x021.5\x03\r\n", r"\x021.5\x03"),
        ("\ufeff1.5", r"\xfeff1.5"),
        ("1.5\x00", r"1.5\x00"),
        ("\x1b[2J1.5", r"\x1b[2J1.5"),
        ("5 \r\n6", "5   6"),
    ],
)
def test_a_bad_answer_shows_what_cannot_be_seen(text, shown):
    with pytest.raises(Failed) as caught:
        value(FLOAT, text)

    assert f'answered "{shown}"' in caught.value.message


@pytest.mark.parametrize(
    ("text", "flag"),
    [
        ("+9.90000000E+37", "over_range"),
        ("-9.9E37", "under_range"),
        ("9.91E37", "no_value"),
        ("****", "no_value"),
        ("nan", "no_value"),
        ("-INF", "under_range"),
        ("+1.#INF", "over_range"),
        ("-1.#INF00e+000", "under_range"),
        ("1.#QNAN", "no_value"),
        ("-1.#IND", "no_value"),
        ("-nan(ind)", "no_value"),
        ("+NaN", "no_value"),
        ("-Infinity", "under_range"),
        ("NINF", "under_range"),
        ("--.--", "no_value"),
        ("-.----", "no_value"),
        ("*****.**", "no_value"),
        ("OVLD", "over_range"),
        ("O.L", "over_range"),
        ("-OL", "under_range"),
        ("Overload", "over_range"),
    ],
)
def test_a_sentinel_is_none_with_a_flag_and_never_a_number(text, flag):
    answer = parse_answer(ScalarAnswer(type=FLOAT, unit="V"), text)

    assert (answer.value, answer.flag, answer.primary) == (None, flag, None)


def test_a_profile_may_name_its_own_sentinels():
    answer = parse_answer(ScalarAnswer(type=INT, sentinels=(-999.0,)), "-999")

    assert (answer.value, answer.flag) == (None, "no_value")


def test_wire_text_is_mapped_to_its_label_in_any_spelling():
    labels = {"0": "off", "1": "low", "CC": "current"}

    assert value(INT, "+1", map=labels) == "low"
    assert value(STRING, "cc", map=labels) == "current"
    assert value(INT, "7", map=labels) == 7
    assert value(BOOL, "CV", map={"CV": "true", "CC": "false"}) is True


def test_scale_works_on_the_value_and_the_commands_parameters():
    returns = ScalarAnswer(type=FLOAT, scale="value * gain")

    assert parse_answer(returns, "2.5", {"gain": 4.0}).value == 10.0
    with pytest.raises(Failed, match="cannot be scaled"):
        parse_answer(returns, "2.5")


def test_no_returns_gives_the_cleaned_text():
    assert parse_answer(None, "\x00SIGLENT\x1b[2J,\nSDG\r\n").value == "SIGLENT [2J, SDG"
    for text in ("SDG\x002042", "SDG\x00", "SDG\x00\n", "SDG\ufffd2042"):
        with pytest.raises(Failed) as caught:
            parse_answer(None, text)
        assert caught.value.code is ErrorCode.BAD_ANSWER


@promise("answer.is-its-type")
def test_lines_that_mean_nothing_are_passed_over_where_the_profile_says_so():
    returns = ScalarAnswer(type=FLOAT, extra_lines=1)

    assert parse_answer(returns, "0.000067\n0").value == 0.000067  # Rigol DL3021
    assert parse_answer(returns, "0.000067").value == 0.000067
    with pytest.raises(Failed, match="3 lines"):
        parse_answer(returns, "0.000067\n0\n0")


def test_fields_by_index_carry_unit_and_primary():
    returns = FieldsAnswer(
        fields=(
            AnswerField(name="voltage", type=FLOAT, unit="V", index=0),
            AnswerField(name="current", type=FLOAT, unit="A", index=1),
            AnswerField(name="status", type=INT, index=-1),
        ),
        primary="current",
    )

    answer = parse_answer(returns, "5.001, 0.1, 9.9E37\n")

    assert answer.value == {"voltage": 5.001, "current": 0.1, "status": None}
    assert answer.flag == {"status": "over_range"}
    assert (answer.primary, answer.unit) == (0.1, "A")


def test_fields_by_key_pass_over_a_header_and_read_units():
    returns = FieldsAnswer(
        fields=(
            AnswerField(name="wave", type=STRING, key="WVTP"),
            AnswerField(name="frequency", type=SI, unit="Hz", key="FRQ"),
            AnswerField(name="amplitude", type=SI, unit="V", key="AMP"),
        )
    )

    answer = parse_answer(returns, "C1:BSWV WVTP,SINE,FRQ,1000HZ,OFST,0V")

    assert answer.value == {"wave": "SINE", "frequency": 1000.0, "amplitude": None}
    assert answer.flag == {"amplitude": "missing"}


def test_a_value_that_equals_a_key_is_not_taken_for_one():
    field = AnswerField(name="name", type=STRING, key="ARB")
    returns = FieldsAnswer(fields=(field,))

    assert parse_answer(returns, "WVTP,ARB,ARB,StairUp").value == {"name": "StairUp"}


def test_fields_of_a_quoted_list_and_by_pattern():
    returns = FieldsAnswer(
        fields=(
            AnswerField(name="wave", type=STRING, index=0),
            AnswerField(name="hertz", type=FLOAT, pattern=r",(\d+),"),
        )
    )

    assert parse_answer(returns, '"SIN,1000,5,0,0"').value == {"wave": "SIN", "hertz": 1000.0}


def test_separator_inside_quotes_parts_nothing():
    returns = FieldsAnswer(
        fields=(
            AnswerField(name="code", type=INT, index=0),
            AnswerField(name="text", type=STRING, index=1),
        )
    )

    assert parse_answer(returns, '-113,"Undefined, header"').value["text"] == "Undefined, header"


def test_a_list_that_is_too_short_or_has_no_field_at_all_is_a_bad_answer():
    by_index = FieldsAnswer(fields=(AnswerField(name="a", type=FLOAT, index=3),))
    by_key = FieldsAnswer(fields=(AnswerField(name="a", type=FLOAT, key="A"),))

    for returns in (by_index, by_key):
        with pytest.raises(Failed):
            parse_answer(returns, "1,2")


@pytest.mark.parametrize("text", ["1", "1,2,3", "1,2,"])
def test_a_list_of_another_length_is_a_bad_answer(text):
    pair = (AnswerField(name="a", type=FLOAT, index=0), AnswerField(name="b", type=FLOAT, index=1))

    with pytest.raises(Failed, match="pieces in place of 2"):
        parse_answer(FieldsAnswer(fields=pair, count=(2, 2)), text)
    with pytest.raises(Failed, match="The instrument"):
        parse_preamble(
            WaveformAnswer(
                data="D?",
                dtype="u1",
                byte_order="little",
                preamble_fields=pair,
                preamble_count=(2, 2),
            ),
            text,
        )


def test_bits_are_masked_shifted_and_labelled():
    returns = BitsAnswer(
        base=16,
        fields=(
            BitField(name="mode", mask=0b1100, map={"1": "independent", "2": "parallel"}),
            BitField(name="is_on", mask=0b10000),
            BitField(name="rest", mask=0b11),
        ),
    )

    assert parse_answer(returns, "0x14\n").value == {
        "mode": "independent",
        "is_on": True,
        "rest": 0,
    }
    for text in ("ON", "0x14\n0", "0x14 1", "0x", "-14"):
        with pytest.raises(Failed, match="answered"):
            parse_answer(returns, text)


def test_decimal_status_word_is_read_in_base_ten():
    returns = BitsAnswer(base=10, fields=(BitField(name="bit", mask=16),))

    assert parse_answer(returns, "+16").value == {"bit": True}
    assert parse_answer(returns, "#H10").value == {"bit": True}
    for text in ("0x10", "16.5", "-16", "16\n0"):
        with pytest.raises(Failed):
            parse_answer(returns, text)


def test_preamble_fields_must_all_be_there():
    answer = WaveformAnswer(
        data=":WAV:DATA?",
        dtype="u1",
        byte_order="little",
        preamble_fields=(
            AnswerField(name="points", type=INT, index=2),
            AnswerField(name="xinc", type=FLOAT, index=4),
        ),
    )

    assert parse_preamble(answer, "0,0,1200,1,1e-6") == {"points": 1200, "xinc": 1e-6}
    with pytest.raises(Failed, match="lacks xinc"):
        parse_preamble(answer, "0,0,1200,1,9.9e37")


def test_text_where_a_block_is_due_is_a_bad_answer():
    with pytest.raises(Failed):
        parse_answer(ImageAnswer(mime="image/png", data="X?"), "text")


@pytest.mark.parametrize(
    ("wanted", "text", "tolerance", "is_held"),
    [
        (5.0, "5.0019", 0.002, True),
        (5.0, "5.003", 0.002, False),
        (5.0, "5.000V\n", 0.002, True),
        (0.5, "500mV", 0.001, True),
        (0.3, "0.1", 0.2, True),
        (True, "ON", 0.0, True),
        (True, "0", 0.0, False),
        ("VOLT", "VOLTAGE", 0.0, True),
        ("VOLT", "CURR", 0.0, False),
        (5.0, "garbage", 1.0, False),
    ],
)
def test_readback_is_compared_within_tolerance_or_as_a_word(wanted, text, tolerance, is_held):
    assert matches(None, wanted, text, tolerance) is is_held


def test_readback_of_a_label_is_compared_with_its_wire_value_and_its_label():
    mode = Parameter(name="m", type=ParameterType.ENUM, options=("amps",), map={"amps": "CURR"})
    returns = ScalarAnswer(type=STRING, map={"CC": "amps"})

    assert matches(None, "amps", "CURRENT", 0, parameter=mode)
    assert matches(returns, "amps", "CC", 0, parameter=mode)
    assert not matches(returns, "amps", "CV", 0, parameter=mode)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("10 kOhm", 10e3),
        ("4.7m", 0.0047),
        ("10MHZ", 10e6),
        ("500MV", 0.5),
        ("5MAHZ", 5e6),
        ("1mHz", 0.001),
        ("2.3G", 2.3e9),
        ("5pA", 5e-12),
        ("1F", 1.0),
        ("100 %", 100.0),
        ("1e999V", None),
        ("V", None),
        ("1 2", None),
    ],
)
def test_suffix_means_what_benches_mean(text, number):
    assert number_with_suffix(text) == number


def test_leading_integer_is_all_that_is_trusted_of_an_error_entry():
    assert leading_integer('+0,"No error"') == 0
    assert leading_integer("0  No Error") == 0
    assert leading_integer('-113,"Undefined header"') == -113
    assert leading_integer("none") is None


def test_plain_value_is_a_number_where_it_can_be():
    assert plain_value("+1\n") == 1
    assert plain_value('"READY"') == "READY"
    for text in ("1\n0", "READY\x00NOT", "READ\ufffd"):
        with pytest.raises(Failed):
            plain_value(text)


@given(st.text(max_size=400))
def test_cleaned_text_is_printable_and_bounded(text):
    shown = clean_text(text)

    assert len(shown) <= 200
    assert shown.isprintable()


ANSWERS = st.one_of(
    st.text(max_size=60),
    st.text(alphabet='0123456789.,+-eE"#;VmkHzONF \n\x00', max_size=40),
    st.floats().map(str),
)
RETURNS = st.sampled_from(
    [
        None,
        *(ScalarAnswer(type=kind, unit="V") for kind in AnswerType),
        ScalarAnswer(type=FLOAT, scale="1 / value"),
        FieldsAnswer(
            fields=(
                AnswerField(name="a", type=SI, index=0),
                AnswerField(name="b", type=BOOL, key="V"),
                AnswerField(name="c", type=INT, pattern=r"(\d+)"),
            )
        ),
        BitsAnswer(base=10, fields=(BitField(name="a", mask=3),)),
    ]
)


@given(RETURNS, ANSWERS)
def test_any_text_is_an_answer_or_a_bad_answer(returns, text):
    try:
        answer = parse_answer(returns, text)
    except Failed as error:
        code = error.code
    else:
        json.dumps([answer.value, answer.flag], allow_nan=False)
        assert answer.primary is None or math.isfinite(answer.primary)
        return
    assert code is ErrorCode.BAD_ANSWER


SPELLED = st.one_of(
    st.tuples(st.just(FLOAT), st.floats(allow_nan=False, allow_infinity=False, width=32)),
    st.tuples(st.just(SI), st.integers(-(10**9), 10**9)),
    st.tuples(st.just(INT), st.integers(-(2**63), 2**63)),
    st.tuples(st.just(BOOL), st.booleans()),
    st.tuples(st.just(STRING), st.text(alphabet="ABCxyz019:._-", min_size=1, max_size=30)),
)
WIRE = {BOOL: {True: ("1", "ON", "on"), False: ("0", "OFF", "Off")}}


@given(SPELLED, st.data())
def test_what_a_type_takes_comes_back_as_it_was_meant(typed, data):
    kind, meant = typed
    text = data.draw(st.sampled_from(WIRE[kind][meant])) if kind is BOOL else str(meant)
    before = data.draw(st.text(alphabet=" \r\n\x00", max_size=4))
    behind = data.draw(st.from_regex(r"[ \r\n]{0,3}(?:[\r\n][ \r\n\x00]{0,4})?", fullmatch=True))

    answer = parse_answer(ScalarAnswer(type=kind, sentinels=()), before + text + behind)

    assert (answer.value, answer.flag) == (meant, None)
    assert type(answer.value) is (float if kind is SI else type(meant))


@promise("answer.is-its-type")
@given(
    SPELLED.filter(lambda typed: typed[0] is not STRING),
    st.one_of(
        st.text(min_size=1, max_size=8).filter(lambda text: bool(text.strip(" \t\r\n\x00"))),
        st.sampled_from(
            [
                "\n0",
                "\r1",
                "\x001",
                "\x00",
                " \x00\n",
                "\ufffd",
                ";1",
                ",1",
                " 1",
                "\n5.5",
                "x",
                "\t0",
            ]
        ),
    ),
)
def test_nothing_with_something_behind_it_is_taken_for_the_value(typed, garbage):
    kind, meant = typed
    text = str(int(meant)) if kind is BOOL else str(meant)
    try:
        answer = parse_answer(ScalarAnswer(type=kind, sentinels=()), text + garbage)
    except Failed as error:
        code = error.code
    else:
        # More digits make another number, and a prefix another size; both are one number again.
        whole = text + garbage.strip(" \t\r\n\x00")
        spelled = number_with_suffix(whole) if kind is SI else float(whole)
        assert answer.value == (bool(spelled) if kind is BOOL else pytest.approx(spelled))
        assert set(whole) <= set("0123456789+-.eE") or kind is SI
        return
    assert code is ErrorCode.BAD_ANSWER


def listed(text: str, **keys: object) -> object:
    return parse_answer(ListAnswer(**keys), text).value


@pytest.mark.parametrize(
    ("keys", "text", "expected"),
    [
        ({}, "1.5,-2,+3.0E+00\n", [1.5, -2.0, 3.0]),
        ({}, "#231+2.87536000E-04,+3.18000000E-01\n", [2.87536e-4, 0.318]),
        ({}, "#231+2.87536000E-04,+3.18000000E-01", [2.87536e-4, 0.318]),
        ({}, "#10\n", []),
        ({}, "1,2,\r\n", [1.0, 2.0]),  # SR830 TRCA?
        ({}, '"1,2"', [1.0, 2.0]),
        ({"type": INT}, "1,2.0,#H1F", [1, 2, 31]),
        ({"type": STRING}, '"CH1","CH,2",', ["CH1", "CH,2", ""]),
        ({"type": STRING}, "", []),
        ({"type": BOOL}, "0,1,ON", [False, True, True]),
        ({"type": SI, "unit": "V"}, "5mV,1 V", [0.005, 1.0]),
        ({"separator": " "}, "1  2\t3", [1.0, 2.0, 3.0]),
        ({"separator": ";", "decimal": ","}, "-1,2;+0,001", [-1.2, 0.001]),
        ({"lines": 3}, "1,0\n2,0\n\n3,0\n", [1.0, 0.0, 2.0, 0.0, 3.0, 0.0]),
        ({"lines": None}, "1\r\n2\r\n3", [1.0, 2.0, 3.0]),
        ({"lines": None, "type": STRING, "separator": "\t"}, "#15a,b\nc", ["a,b", "c"]),
        ({"scale": "value * 2", "count": (2, 3)}, "1,2", [2.0, 4.0]),
        ({"map": {"1": "on"}, "type": STRING}, "1,2", ["on", "2"]),
    ],
)
def test_a_list_is_read_as_many_values(keys, text, expected):
    assert listed(text, **keys) == expected


@pytest.mark.parametrize(
    ("keys", "text", "told"),
    [
        ({}, "", "has 0 lines in place of 1"),
        ({}, "1,,2", "value 1"),
        ({}, "1,2,,", "value 2"),
        ({}, "1;2", "value 0"),
        ({}, "1,2\n3,4\n", "has 2 lines in place of 1"),
        ({"lines": 3}, "1\n2\n", "has 2 lines in place of 3"),
        ({"lines": 3}, "1\n2\n3\n4\n", "has 4 lines in place of 3"),
        ({"count": (3, 3)}, "1,2", "2 pieces in place of 3"),
        ({}, "#231+2.87536000E-04,+3.18", "not of type float"),
        ({"separator": ";", "decimal": ","}, "1.5;2", "value 0"),
        ({}, "1\x00,2", "holds a NUL"),
        ({}, "1,2\x00", "holds a NUL"),
    ],
)
def test_a_list_of_another_form_is_a_bad_answer_that_is_shown(keys, text, told):
    with pytest.raises(Failed, match=told) as caught:
        listed(text, **keys)
    assert caught.value.code is ErrorCode.BAD_ANSWER
    assert "answered" in caught.value.message


def test_values_that_are_missing_in_a_list_are_told_by_their_place():
    answer = parse_answer(ListAnswer(unit="V"), "1,9.9E37,-9.9E37,9.91E37")
    assert answer.value == [1.0, None, None, None]
    assert answer.flag == {"1": "over_range", "2": "under_range", "3": "no_value"}
    assert (answer.unit, answer.primary) == ("V", None)


@given(st.lists(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1), min_size=1))
def test_any_numbers_come_back_from_lines_and_from_blocks(rows):
    lines = "\n".join(",".join(map(repr, row)) for row in rows)
    wanted = [number for row in rows for number in row]
    form = ListAnswer(lines=len(rows), sentinels=())
    length = str(len(lines))
    for text in (lines, lines + "\r\n", f"#{len(length)}{length}{lines}\n"):
        assert parse_answer(form, text).value == wanted


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("#215CH1,CH2\nNow,1,2\n", "CH1,CH2\nNow,1,2"),
        ("#216CH1,CH2\nNow,1,2\n\n", "CH1,CH2\nNow,1,2\n"),
        ("#210a:\r\n  b\tc\x01", "a:\r\n  b\tc "),
        ("#15hello", "hello"),
        ("#16a\r\nb\r\n\n", "a\r\nb\r\n"),
        ("#14é\n1\r\n", "é\n1"),  # of UTF-8 the bytes are counted
        ("#13é\n1\r\n", "é\n1"),
        ("#10\n", ""),
        ("#1 is a name", "#1 is a name"),
        ("#15hello;2", "#15hello;2"),
        ("#215hello", "#215hello"),
    ],
)
def test_a_text_in_a_block_is_what_is_inside_with_its_lines(text, expected):
    assert value(STRING, text) == expected


def test_numbers_and_fields_are_read_inside_of_a_block_too():
    assert value(FLOAT, "#3005+1.25\n") == 1.25
    fields = FieldsAnswer(
        fields=(
            AnswerField(name="a", type=FLOAT, index=0),
            AnswerField(name="b", type=INT, pattern=r"^[^,]+,(\d)"),
        )
    )
    assert parse_answer(fields, "#14-1,2").value == {"a": -1.0, "b": 2}


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [(FLOAT, "-1,2", -1.2), (SI, "+0,001 mA", 1e-6), (SI, "-1,2 V", -1.2), (INT, "5,0", 5)],
)
def test_a_decimal_comma_is_read_where_the_profile_says_so(kind, text, expected):
    unit = text.rpartition(" ")[2][-1:] if kind is SI else ""
    assert value(kind, text, decimal=",", unit=unit) == pytest.approx(expected)
    with pytest.raises(Failed):
        value(kind, text, unit=unit)
    with pytest.raises(Failed):
        value(kind, text.replace(",", "."), decimal=",", unit=unit)


@pytest.mark.parametrize("answered", ["+1", "1.0", "ON", "True", "yes", "ENABLED", "1.00000E+00"])
@pytest.mark.parametrize("wire", ["1", "ON", "TRUE"])
def test_a_switch_is_confirmed_by_any_word_or_number_of_its_state(answered, wire):
    switch = Parameter(name="on", type=ParameterType.BOOL, map={"true": wire, "false": "0"})
    assert matches(None, True, answered, 0, parameter=switch)
    assert not matches(None, False, answered, 0, parameter=switch)
    speed = Parameter(name="speed", type=ParameterType.ENUM, options=("a",), map={"a": "X2"})
    assert not matches(None, "a", answered, 0, parameter=speed)


@pytest.mark.parametrize(
    ("dtype", "order", "data", "expected"),
    [
        ("i4", "big", bytes.fromhex("0A0D0A0D FFFFFFFF"), [0x0A0D0A0D, -1]),
        ("i4", "little", bytes.fromhex("00000080"), [-(2**31)]),
        ("u4", "little", bytes.fromhex("FFFFFFFF 01000000"), [2**32 - 1, 1]),
        ("m2e2", "little", struct.pack("<4h", 24576, 110, -16384, 111), [1.5, -2.0]),
        ("m2e2", "big", struct.pack(">4h", 1, 0, 0, 248), [2.0**-124, 0.0]),
    ],
)
def test_samples_of_four_bytes_are_whole_numbers_or_mantissas_with_exponents(
    dtype: str, order: str, data: bytes, expected: list[float]
) -> None:
    assert list(decode_codes(data, dtype, order)) == expected


def test_an_exponent_out_of_range_is_a_bad_answer() -> None:
    with pytest.raises(Failed, match="exponent 32767"):
        decode_codes(struct.pack("<2h", 1, 32767), "m2e2", "little")
