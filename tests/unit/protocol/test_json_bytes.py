import contextlib
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.protocol import jsonrpc
from edged.protocol.jsonrpc import (
    MAX_VALUES,
    BadJsonError,
    VerbatimText,
    decode,
    encode,
    encode_long,
    quote,
)
from tests.promises import promise

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


class _Unread(json.JSONDecoder):
    """Stands for the reader of a body that must be refused before it is read."""

    def decode(self, s: str, *_: object) -> object:
        raise AssertionError(f"{len(s)} characters were read")


@promise("mcp.bounded-bodies")
@pytest.mark.parametrize(
    "body",
    [
        b"[" + b",".join([b"1"] * (MAX_VALUES + 1)) + b"]",
        b"[" + b",".join([b'""'] * (MAX_VALUES + 1)) + b"]",
        b"{" + b",".join(b'"%d":1' % number for number in range(MAX_VALUES + 1)) + b"}",
        b"[" + b",".join([b"[]"] * (MAX_VALUES + 1)) + b"]",
        b"[" + b",".join([b'{"a":{}}'] * (MAX_VALUES // 2 + 1)) + b"]",
        b'{"a\\\\":[' + b",".join([b'"\\\\"'] * (MAX_VALUES + 1)) + b"]}",
        b'"' * (5 * MAX_VALUES) + b"," * (MAX_VALUES + 1),
    ],
    ids=["numbers", "texts", "members", "lists", "objects", "escapes", "quotes"],
)
def test_a_body_of_too_many_values_is_refused_before_it_is_read(
    body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jsonrpc, "_DECODER", _Unread())

    with pytest.raises(BadJsonError, match=f"more than {MAX_VALUES} values"):
        decode(body)


@promise("mcp.bounded-bodies")
@pytest.mark.parametrize(
    "value",
    [
        "1,[2],{" * 100_000,
        {"a": '\\"[,"' * 100_000, "b\\": "[,"},
        list(range(MAX_VALUES - 1)),
        {str(number): "a" for number in range(MAX_VALUES - 1)},
    ],
    ids=["a text", "escapes", "a list", "an object"],
)
def test_what_only_looks_like_many_values_is_read(value: object) -> None:
    assert decode(json.dumps(value).encode()) == value


@given(VALUES, st.integers(1, 12))
def test_values_are_counted_as_a_reader_counts_them(value: object, most: int) -> None:
    body = json.dumps(value).encode()
    is_more = _count(value) > most
    with pytest.raises(BadJsonError) if is_more else contextlib.nullcontext():
        jsonrpc._check_extent(body, most)


def _count(value: object) -> int:
    """Values in a list or object, and in those in it; an empty one counts as if it had one."""
    if not isinstance(value, dict | list):
        return 0
    inner = value.values() if isinstance(value, dict) else value
    return max(1, len(value)) + sum(map(_count, inner))
