import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.protocol.jsonrpc import VerbatimText, decode, encode, encode_long, quote

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)  # fmt: skip


@given(VALUES)
def test_the_encoder_that_is_built_once_writes_what_the_library_writes(value: object) -> None:
    expected = json.dumps(value, separators=(",", ":"), allow_nan=False).encode("ascii")
    assert encode(value) == expected
    assert encode(value) == expected


@given(st.text())
def test_a_quoted_text_is_that_text_as_json(text: str) -> None:
    assert quote(text).encode("ascii") == encode(text)


@pytest.mark.parametrize("value", [math.nan, [math.inf], {"a": -math.inf}])
def test_what_is_no_number_in_json_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="JSON"):
        encode(value)


def test_a_value_without_a_json_form_is_refused() -> None:
    with pytest.raises(TypeError):
        encode({"a": object()})
    assert decode(encode({"a": [1.0, "é"]})) == {"a": [1.0, "é"]}


@pytest.mark.parametrize(
    "value",
    [
        {"y_data": VerbatimText("QUJD")},
        {"is_error": False, "result": {"a": [1], "y_data": VerbatimText("QUJD"), "z": None}},
        {"contents": [{"blob": VerbatimText("QUJD")}, {"blob": VerbatimText("")}, {"text": "x"}]},
        {"nothing": "long"},
        [],
        None,
    ],
)
def test_a_long_text_is_put_in_whole_and_the_rest_is_as_ever(value: object) -> None:
    assert encode_long(value) == encode(value)


def test_nobody_looks_through_a_long_text() -> None:
    """It would stand on the event loop for a second; what were to be escaped shows it."""
    assert encode_long({"blob": VerbatimText('"')}) == b'{"blob":"""}'
