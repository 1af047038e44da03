"""Content-Type and Accept, as clients really write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.protocol.http_rules import JSON_TYPE, SSE_TYPE, accepts, is_json_type


@pytest.mark.parametrize(
    "value",
    [
        "application/json",
        "Application/JSON; Charset=UTF-8",
        'application/json;charset="utf-8"',
        "application/json ; charset=utf8",
        "application/json; profile=x",
        "application/json;",
    ],
)
def test_json_in_utf_8_passes_however_it_is_written(value: str) -> None:
    assert is_json_type(value)


@pytest.mark.parametrize(
    "value",
    [
        "",
        "json",
        "text/plain",
        "text/plain; application/json",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/json-rpc",
        "application/vnd.api+json",
        "application/json; charset=utf-16",
        "application/json; charset=bogus",
        "application/json; charset=hex",
        "application/json; charset=",
        "application/json; charset=utf-8; charset=utf-16",
        "application/json, text/plain",
        "application/json text/plain",
        "application/*",
    ],
)
def test_any_other_body_does_not(value: str) -> None:
    assert not is_json_type(value)


@pytest.mark.parametrize(
    ("accept", "wants_json", "wants_sse"),
    [
        (None, True, True),
        ("", True, True),
        ("*/*", True, True),
        ("application/json, text/event-stream", True, True),
        ("text/event-stream,application/json;q=0.1", True, True),
        ("application/json", True, False),
        ("text/event-stream", False, True),
        ("TEXT/Event-Stream", False, True),
        ("application/*", True, False),
        ("text/*", False, True),
        ("*/*;q=0", False, False),
        ("*/*, text/event-stream;q=0", True, False),
        ("application/json;q=0.000, */*;q=0.5", False, True),
        ("application/json;version=1;q=0, text/event-stream", False, True),
        ("text/html, application/xml;q=0.9", False, False),
        ("garbage, application/json", True, False),
        (";;;,,,", False, False),
    ],
)
def test_accept_says_what_the_answer_may_be(
    accept: str | None, wants_json: bool, wants_sse: bool
) -> None:
    assert (accepts(accept, JSON_TYPE), accepts(accept, SSE_TYPE)) == (wants_json, wants_sse)


@given(st.text(alphabet='ab/*;=q0.1," \t', max_size=60))
def test_no_header_text_is_an_error(text: str) -> None:
    is_json_type(text)
    accepts(text, JSON_TYPE)


def test_a_header_made_to_backtrack_is_judged_at_once() -> None:
    assert not is_json_type("a/b" + ";  " * 10_000 + "!@")
    assert not accepts("a/b;x=" + '"\\' * 10_000, JSON_TYPE)
