from random import Random

import pytest

from edged_sim.scpi import ScpiError, SimCall, nearest_at_least


def call(*arguments: str, suffixes: tuple[int | None, ...] = ()) -> SimCall:
    return SimCall(header="X", suffixes=suffixes, arguments=arguments, now=0.0, random=Random(1))


def error_of(function: object, *arguments: object, **options: object) -> int:
    with pytest.raises(ScpiError) as caught:
        function(*arguments, **options)
    return caught.value.code


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5.0),
        ("5V", 5.0),
        ("500 mV", 0.5),
        ("1.5e1", 15.0),
        ("MIN", 0.0),
        ("maximum", 32.0),
        ("DEF", 1.0),
        (".5", 0.5),
    ],
)
def test_a_number_is_read_with_unit_multiplier_and_keywords(text: str, value: float) -> None:
    assert call(text).number(0, lowest=0, highest=32, default=1.0, unit="V") == value


def test_m_is_milli_but_before_hertz_mega() -> None:
    assert call("2MHZ").number(0, lowest=0, highest=1e9, unit="Hz") == 2e6
    assert call("2MV").number(0, lowest=0, highest=1e9, unit="V") == 2e-3


@pytest.mark.parametrize(
    ("text", "code"), [("33", -222), ("-1", -222), ("abc", -104), ("5A", -131), ("", -109)]
)
def test_a_number_that_cannot_be_is_the_error_that_scpi_gives_it(text: str, code: int) -> None:
    assert error_of(call(text).number, 0, lowest=0, highest=32, unit="V") == code


def test_a_missing_argument_is_missing() -> None:
    assert error_of(call().text, 0) == -109


def test_a_suffix_out_of_range_is_an_error_and_a_missing_one_is_the_default() -> None:
    assert error_of(call(suffixes=(4,)).suffix, highest=3) == -114
    assert call(suffixes=(None,)).suffix(default=2, highest=3) == 2


@pytest.mark.parametrize(
    ("text", "value"), [("ON", True), ("off", False), ("1", True), ("0", False), ("2", True)]
)
def test_booleans_are_words_or_numbers(text: str, value: bool) -> None:
    assert call(text).boolean(0) is value


def test_quotes_are_taken_off_and_doubled_ones_halved() -> None:
    assert call('"say ""hi"""').text(0) == 'say "hi"'


def test_a_choice_is_named_in_short_or_long_form() -> None:
    options = {"POSitive": "POS", "NEGative": "NEG"}
    assert call("pos").choice(0, options) == call("POSITIVE").choice(0, options) == "POS"
    assert error_of(call("POSI").choice, 0, options) == -224


def test_channel_lists_name_single_channels_and_ranges() -> None:
    assert call("(@1,3)").channels(0, highest=3) == (1, 3)
    assert call("(@1:3)").channels(0, highest=3) == (1, 2, 3)
    assert error_of(call("(@4)").channels, 0, highest=3) == -222
    assert error_of(call("1").channels, 0, highest=3) == -104


def test_the_next_step_up_is_taken() -> None:
    assert nearest_at_least(0.5, (0.1, 1.0, 10.0)) == 1.0
    assert nearest_at_least(99.0, (0.1, 1.0, 10.0)) == 10.0
