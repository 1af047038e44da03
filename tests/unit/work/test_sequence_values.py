import pytest

from edged.errors import Invalid
from edged.profiles.model import ForStep
from edged.profiles.step_values import (
    UNKNOWN,
    NotKnownYet,
    fill,
    loop_values,
    number,
    saved,
)


def test_a_name_alone_keeps_its_type() -> None:
    assert fill("{channel}", {"channel": 2}) == 2
    assert fill("{on}", {"on": True}) is True


def test_an_expression_in_braces_is_worked_out() -> None:
    assert fill("{v * 2}", {"v": 1.5}) == 3.0


def test_a_plain_text_is_itself() -> None:
    assert fill("SIN", {"SIN": 1}) == "SIN"


def test_what_depends_on_an_answer_is_not_known_before_it() -> None:
    with pytest.raises(NotKnownYet):
        fill("{v}", {"v": UNKNOWN})
    with pytest.raises(NotKnownYet):
        fill("v_voltage + 1", {"v": UNKNOWN}, is_bare=True)


def test_an_unknown_name_is_named() -> None:
    with pytest.raises(Invalid, match="volts"):
        fill("volts * 2", {"v": 1}, is_bare=True)


def test_a_missing_value_makes_the_expression_missing() -> None:
    assert fill("{v * 2}", {"v": None}) is None


def test_fields_of_an_answer_are_saved_by_name_and_field() -> None:
    assert saved("m", {"voltage": 1.0, "mode": "CV"}, 1.0) == {
        "m": 1.0,
        "m_voltage": 1.0,
        "m_mode": "CV",
    }


def test_a_linear_range_ends_exactly_on_its_last_value() -> None:
    step = ForStep(name="v", kind="lin", values=(0, "{top}", 4), steps=())
    assert list(loop_values(step, {"top": 0.3})) == [
        0,
        pytest.approx(0.1),
        pytest.approx(0.2),
        0.3,
    ]


def test_a_logarithmic_range_multiplies() -> None:
    step = ForStep(name="f", kind="log", values=(1, 1000, 4), steps=())
    assert list(loop_values(step, {})) == pytest.approx([1, 10, 100, 1000])


@pytest.mark.parametrize("values", [(0, 10, 3), (-1, 10, 3), (1, 10, 0), (1, 10, 100_001)])
def test_a_range_that_cannot_be_is_refused(values: tuple[object, ...]) -> None:
    with pytest.raises(Invalid):
        list(loop_values(ForStep(name="f", kind="log", values=values, steps=()), {}))


def test_a_count_that_is_no_number_is_refused() -> None:
    with pytest.raises(Invalid, match="not a number"):
        number("{x}", {"x": True}, "wait_ms")
