"""Asking for a name where old answers may come first: no order of them ends out of step."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.errors import ErrorCode, Failed
from edged.instruments.conversation import (
    Ask,
    Listen,
)
from edged.instruments.identify import (
    identify_again,
)

IDN = "ACME,PSU1,A001,1.0"
OLD = st.sampled_from(["+1.5E0", "0", '-100,"Command error"', "", "LATE", "A,B"])


def talk(arriving: list[str], owed: int = 0) -> tuple[str, list[str]]:
    """The name that is found, and what is still on its way after it."""
    waiting = list(arriving)
    conversation = identify_again(lambda idn: idn == IDN, owed=owed)
    step = next(conversation)
    assert step == Ask("*IDN?")
    answer: str | None = waiting.pop(0) if waiting else ""
    while True:
        try:
            step = conversation.send(answer)
        except StopIteration as end:
            return end.value, waiting
        assert isinstance(step, Listen)
        answer = waiting.pop(0) if waiting else None


@given(st.lists(OLD, max_size=20))
def test_old_answers_are_passed_over_and_nothing_is_left(old: list[str]) -> None:
    assert talk([*old, IDN]) == (IDN, [])


@given(st.lists(OLD, max_size=5), st.integers(0, 3))
def test_names_that_were_owed_are_fetched_too(old: list[str], owed: int) -> None:
    assert talk([*old, IDN, *[IDN] * owed], owed) == (IDN, [])


def test_another_unit_is_told_and_silence_after_an_old_answer_is_no_name() -> None:
    assert talk(["OTHER,X,1,1"]) == ("OTHER,X,1,1", [])
    assert talk(["+1.5", "OTHER,X,1,1"]) == ("OTHER,X,1,1", [])
    with pytest.raises(Failed) as caught:
        talk(["+1.5"])
    assert caught.value.code is ErrorCode.BAD_ANSWER
