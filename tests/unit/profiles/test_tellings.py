"""What a line tells an output, whatever number it ends in."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from edged.profiles.abort import ANY_NUMBER, _tellings, tellings

HEADS = st.one_of(
    st.sampled_from(
        [":SOUR1:VOLT ", "VOLT CH2,", "OUT1 ", "OUT0 1,", "INST:NSEL ", "INST 1;VOLT ", "ADR ", "*"]
    ),
    st.text(alphabet=":;,? \t\r\n\"'#(@)*OUT01VOLT.", max_size=24),
)
NUMBERS = st.one_of(
    st.decimals(allow_nan=False, allow_infinity=False).map(str),
    st.sampled_from(["0", "1", "-1.50", "+2", ".5", "1.", "7777777", "1E3"]),
)


@given(head=HEADS, number=NUMBERS)
@example(head="OUT0 ", number="0")
@example(head=" ", number="0")
@example(head=": ,", number="0")
@example(head="T,", number="0")
@example(head="L 0 ", number="0")
@example(head="VOLT 7777777,", number="3")
@example(head=" ", number="0")
@example(head="VOLT;  ", number="0")
@example(head="VOLT ", number=ANY_NUMBER)
def test_a_number_changes_nothing_but_the_value(head: str, number: str) -> None:
    assert tellings(head + number) == _tellings.__wrapped__(head + number)
