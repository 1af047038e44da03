"""Frameworks for agents load every tool of a bench, and read every answer whole."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.bench.agent_clients import AGENTS, GEMINI, agent
from tests.bench.engine import Engine, running_engine
from tests.promises import promise

CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("rigol_dp832__set_voltage", {"channel": 1, "voltage": 1.5}),
    (
        "execute_command",
        {
            "instrument_id": "psu1",
            "command_name": "measure_voltage",
            "parameters": {"channel": 1},
        },
    ),
    (
        "start_sweep",
        {
            "instrument_id": "psu1",
            "command_name": "set_voltage",
            "parameters": {"channel": 1},
            "target_value": 3,
            "sweep_rate": 1,
            "dry_run": True,
        },
    ),
    ("get_sweep_status", {"sweep_id": "nosuch"}),
    ("execute_command", {"instrument_id": "nosuch", "command_name": "measure_voltage"}),
)
SCHEMA = {
    "type", "format", "title", "description", "nullable", "enum", "items", "maxItems", "minItems",
    "properties", "required", "minimum", "maximum", "minLength", "maxLength", "pattern", "default",
    "anyOf", "propertyOrdering", "example", "minProperties", "maxProperties",
}  # fmt: skip
"""Members of a schema in a function declaration, by Google's reference of the Gemini API."""


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with running_engine(tmp_path_factory.mktemp("agents"), "--instruments", "psu1,dmm1") as one:
        yield one


@promise("clients.agents")
@pytest.mark.parametrize("name", AGENTS)
def test_an_agent_loads_every_tool_and_reads_every_answer_whole(engine: Engine, name: str) -> None:
    found = agent(name, engine.mcp_url, *CALLS)
    listed = {tool["name"] for tool in engine.rpc("tools/list")["tools"]}
    assert {tool["name"] for tool in found["tools"]} == listed
    written, measured, rehearsed, unknown_sweep, unknown_unit = map(plain, found["answers"])
    assert '"readback": 1.5' in written
    assert '"unit": "V"' in measured
    assert '"would_send"' in rehearsed
    assert "There is no sweep 'nosuch'" in unknown_sweep
    assert "bench__runs has the data of all" in unknown_sweep
    assert "no instrument 'nosuch'" in unknown_unit
    if name in GEMINI:
        for tool in found["tools"]:
            is_one_of_gemini(tool.get("parameters", {}), tool["name"])


@promise("lease.without-a-session")
def test_an_agent_with_a_session_for_each_call_presents_its_lease(engine: Engine) -> None:
    write = {"channel": 1, "voltage": 1.0}
    wanted = {"instruments": ["psu1"]}
    reserved, refused = agent(
        "langchain",
        engine.mcp_url,
        ("bench__reserve", wanted),
        ("rigol_dp832__set_voltage", write),
    )["answers"]
    lease = json.loads(reserved)
    assert "as the argument `lease` of every call that writes" in lease["how"]
    assert "present its id as the argument `lease`" in refused
    presented = {"lease": lease["lease_id"]}
    written, _ = agent(
        "langchain",
        engine.mcp_url,
        ("rigol_dp832__set_voltage", {**write, **presented}),
        ("bench__release", {"lease_id": lease["lease_id"]}),
    )["answers"]
    assert json.loads(written)["data"]["readback"] == 1.0


def plain(answer: str) -> str:
    """Of an answer in any wrapping: no escapes, one space behind a colon, double quotes."""
    return answer.replace("\\", "").replace('":', '": ').replace('":  ', '": ')


def is_one_of_gemini(schema: dict[str, Any], where: str) -> None:
    assert schema.keys() <= SCHEMA, (where, schema.keys() - SCHEMA)
    assert isinstance(schema.get("type", ""), str), where
    for name, inner in schema.get("properties", {}).items():
        is_one_of_gemini(inner, f"{where}.{name}")
    if "items" in schema:
        is_one_of_gemini(schema["items"], f"{where}[]")
