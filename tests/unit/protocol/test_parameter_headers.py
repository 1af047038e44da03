"""Arguments and the headers that repeat them (MCP 2026-07-28, custom headers of tools)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.protocol.recognition import decode_value, disagreement

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "channel": {"type": "integer", "x-mcp-header": "Channel"},
        "on": {"type": "boolean", "x-mcp-header": "On"},
        "volts": {"type": "number", "x-mcp-header": "Volts"},
        "where": {
            "type": "object",
            "properties": {"bench": {"type": "string", "x-mcp-header": "Bench"}},
        },
        "many": {"type": "array", "items": {"type": "string", "x-mcp-header": "Item"}},
        "plain": {"type": "string"},
    },
}

AGREE: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "nothing given": ({}, {}),
    "null expects no header": ({"region": None}, {}),
    "text": ({"region": "west"}, {"mcp-param-region": "west"}),
    "text in Base64": ({"region": "Ω "}, {"mcp-param-region": "=?base64?zqkg?="}),
    "half a wrapping means itself": (
        {"region": "=?base64?zqkg"},
        {"mcp-param-region": "=?base64?zqkg"},
    ),
    "Base64 without wrapping means itself": ({"region": "zqkg"}, {"mcp-param-region": "zqkg"}),
    "integers are compared as numbers": ({"channel": 42}, {"mcp-param-channel": "42.0"}),
    "true": ({"on": True}, {"mcp-param-on": "true"}),
    "inside an object": ({"where": {"bench": "b7"}}, {"mcp-param-bench": "b7"}),
    "number may not be marked": ({"volts": 1.5}, {}),
    "what is reached through items is not marked": ({"many": ["a"]}, {}),
    "a header for nothing": ({"plain": "x"}, {"mcp-param-region": "west"}),
}

DISAGREE: dict[str, tuple[dict[str, Any], dict[str, str], str]] = {
    "missing": ({"region": "west"}, {}, "Mcp-Param-Region"),
    "another text": ({"region": "west"}, {"mcp-param-region": "West"}, "Mcp-Param-Region"),
    "broken Base64": ({"region": "H"}, {"mcp-param-region": "=?base64?SGV!?="}, "Mcp-Param-Region"),
    "cut Base64": (
        {"region": "Hello"},
        {"mcp-param-region": "=?base64?SGVsbG8?="},
        "Mcp-Param-Region",
    ),
    "no text in Base64": (
        {"region": "H"},
        {"mcp-param-region": "=?base64?/w==?="},
        "Mcp-Param-Region",
    ),
    "another number": ({"channel": 42}, {"mcp-param-channel": "4"}, "Mcp-Param-Channel"),
    "no number": ({"channel": 42}, {"mcp-param-channel": "x"}, "Mcp-Param-Channel"),
    "1 for true": ({"on": True}, {"mcp-param-on": "1"}, "Mcp-Param-On"),
    "an object for a text": ({"region": {}}, {"mcp-param-region": "{}"}, "Mcp-Param-Region"),
    "inside an object": ({"where": {"bench": "b7"}}, {}, "Mcp-Param-Bench"),
}


@pytest.mark.parametrize(("arguments", "headers"), AGREE.values(), ids=AGREE.keys())
def test_headers_that_repeat_the_arguments_pass(
    arguments: dict[str, Any], headers: dict[str, str]
) -> None:
    assert disagreement(SCHEMA, arguments, headers) == ""


@pytest.mark.parametrize(("arguments", "headers", "name"), DISAGREE.values(), ids=DISAGREE.keys())
def test_the_first_header_that_disagrees_is_named(
    arguments: dict[str, Any], headers: dict[str, str], name: str
) -> None:
    assert disagreement(SCHEMA, arguments, headers) == name


def test_a_schema_that_holds_itself_is_not_followed_for_ever() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {}}
    schema["properties"]["again"] = schema
    assert disagreement(schema, {"again": {"again": {}}}, {}) == ""


@given(st.text())
def test_no_header_text_is_an_error(text: str) -> None:
    decode_value(text)
    decode_value(f"=?base64?{text}?=")
