"""prompts/list and prompts/get, in every revision."""

from __future__ import annotations

import re
from typing import Any

import pytest

from edged.operations.table import bench_tools, static_tools
from edged.surfaces.mcp.prompts import PROMPTS
from tests.bench.mcp_endpoint import Endpoint
from tests.promises import promise

LEGACY = ("2025-03-26", "2025-06-18", "2025-11-25")
GIVEN = {"instrument": "psu1", "stop_v": "5", "current_limit_a": "0.1"}


async def got(mcp: Endpoint, **params: Any) -> Any:
    client = await mcp.session("2025-11-25")
    return (await client.request("prompts/get", params)).json()


@promise("mcp.prompts")
@pytest.mark.parametrize("version", LEGACY)
async def test_prompts_are_declared_and_listed(mcp: Endpoint, version: str) -> None:
    client = mcp.client()
    opened = (await client.initialize(version)).json()["result"]
    assert opened["capabilities"]["prompts"] == {}
    listed = (await client.request("prompts/list")).json()["result"]["prompts"]
    names = [
        "check_bench",
        "iv_curve",
        "overnight_log",
        "bode_plot",
        "write_experiment",
        "write_profile",
    ]
    assert [entry["name"] for entry in listed] == names
    for entry in listed:
        assert ("title" in entry) == (version != "2025-03-26")
        assert all(set(a) == {"name", "description", "required"} for a in entry["arguments"])


@promise("mcp.prompts")
async def test_a_prompt_is_filled_in(mcp: Endpoint) -> None:
    result = (await got(mcp, name="iv_curve", arguments=GIVEN))["result"]
    (message,) = result["messages"]
    assert (message["role"], message["content"]["type"]) == ("user", "text")
    assert "psu1: from 0 V to 5 V in 21 points, current limit 0.1 A" in message["content"]["text"]


@pytest.mark.parametrize(
    ("params", "told"),
    [
        ({"name": "nothing"}, "no prompt 'nothing'"),
        ({"name": 5}, "name must be a string"),
        ({"name": "iv_curve", "arguments": []}, "arguments must be an object"),
        ({"name": "iv_curve"}, "needs instrument, stop_v, current_limit_a"),
        ({"name": "iv_curve", "arguments": GIVEN | {"x": "1"}}, "no argument 'x'"),
        ({"name": "iv_curve", "arguments": GIVEN | {"points": 5}}, "points is a text"),
        ({"name": "check_bench", "arguments": {"{0}": "a"}}, "no argument"),
    ],
)
async def test_what_cannot_be_filled_in_is_told(
    mcp: Endpoint, params: dict[str, Any], told: str
) -> None:
    error = (await got(mcp, **params))["error"]
    assert error["code"] == -32602
    assert told in error["message"]


async def test_an_argument_that_looks_like_a_blank_stays_as_it_is(mcp: Endpoint) -> None:
    result = (await got(mcp, name="iv_curve", arguments=GIVEN | {"instrument": "{stop_v}"}))[
        "result"
    ]
    assert "with {stop_v}: from" in result["messages"][0]["content"]["text"]


async def test_nothing_is_completed_for_a_prompts_argument(mcp: Endpoint) -> None:
    client = await mcp.session("2025-11-25")
    asked = {
        "ref": {"type": "ref/prompt", "name": "iv_curve"},
        "argument": {"name": "instrument", "value": "p"},
    }
    completion = (await client.request("completion/complete", asked)).json()["result"]["completion"]
    assert completion["values"] == []


def test_prompts_name_only_tools_and_arguments_that_there_are() -> None:
    tools = (*static_tools(), *bench_tools())
    arguments = {name for tool in tools for name in tool.input_schema["properties"]}
    known = {tool.name for tool in tools} | arguments | {"dry_run", "iv_curve"}
    for prompt in PROMPTS.values():
        blank = re.sub(r"\{\w+\}", "", prompt.text)
        assert set(re.findall(r"\b[a-z]+_\w+", blank)) <= known, prompt.name


def test_a_log_that_goes_on_overnight_is_detached() -> None:
    assert "detach true" in PROMPTS["overnight_log"].text
