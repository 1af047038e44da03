"""The real MCP endpoint, in a process of its own, over what the official suites ask a server for.

Prints one line of JSON with the port when it is ready, and stays until its standard input closes::

    python -m tests.conformance.fixture_server
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from edged.actions.action import Progress
from edged.actions.tool import ToolCall
from edged.errors import ErrorCode, Failed
from tests.bench.fake_tools import Behaviour, FakeTools
from tests.bench.mcp_endpoint import running_endpoint
from tests.conformance.fixture_content import AUDIO, IMAGE, Shown, embedded, show_content
from tests.conformance.fixture_resources import FixtureResources

PAUSE_S = 0.05
SCHEMA_2020_12 = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
SCHEMA_OF_HEADERS = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "priority": {"type": "integer", "x-mcp-header": "Priority"},
        "verbose": {"type": "boolean", "x-mcp-header": "Verbose"},
        "query": {"type": "string"},
    },
    "required": ["region"],
}

CONTENT = {
    "test_image_content": Shown("A picture.", (IMAGE,)),
    "test_audio_content": Shown("A sound.", (AUDIO,)),
    "test_embedded_resource": Shown(
        "A resource.", (embedded("test://embedded-resource", "text/plain", "It is embedded."),)
    ),
    "test_multiple_content_types": Shown(
        "All of them.",
        (IMAGE, embedded("test://mixed-content-resource", "application/json", '{"value":123}')),
    ),
}


def fixture_tools() -> FakeTools:
    """The tools that the suites call by name."""
    tools = FakeTools()
    tools.add("test_simple_text", _simple_text)
    tools.add("test_tool_with_progress", _with_progress)
    tools.add("test_reconnection", _simple_text)
    tools.fails(
        "test_error_handling",
        Failed("This tool fails on purpose.", code=ErrorCode.INSTRUMENT_ERROR),
    )
    tools.add("json_schema_2020_12_tool", _simple_text, input_schema=SCHEMA_2020_12)
    tools.add("test_custom_headers", _simple_text, input_schema=SCHEMA_OF_HEADERS)
    for name, shown in CONTENT.items():
        tools.add(name, _showing(shown))
    # These two are watched for what they must not send: requests, and log messages unasked for.
    tools.add("test_streaming_elicitation", _with_progress)
    tools.add("test_logging_tool", _with_progress)
    tools.add("test_trigger_tool_change", lambda _: _change(tools))
    tools.gate.set()
    return tools


async def _simple_text(_: ToolCall) -> Any:
    return "This is a simple text."


def _showing(shown: Shown) -> Behaviour:
    async def show(_: ToolCall) -> Any:
        return shown

    return show


async def _with_progress(call: ToolCall) -> Any:
    for done in (0, 50, 100):
        if call.progress is not None:
            call.progress(Progress(progress=done, message="", total=100))
        await asyncio.sleep(PAUSE_S)
    return "done"


async def _change(tools: FakeTools) -> Any:
    tools.change()
    return "changed"


async def main() -> None:
    show_content()
    async with running_endpoint(tools=fixture_tools(), resources=FixtureResources()) as mcp:
        sys.stdout.write(json.dumps({"port": mcp.port}) + "\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
