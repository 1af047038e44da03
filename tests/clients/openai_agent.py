"""The tools that OpenAI's agents have of an MCP server; see ``tests/bench/agent_clients.py``."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from agents.mcp import MCPServerStreamableHttp, MCPUtil
from orders import say


async def main(url: str, calls: list[dict[str, Any]]) -> None:
    async with MCPServerStreamableHttp(params={"url": url}) as server:
        tools = [
            MCPUtil.to_function_tool(tool, server, convert_schemas_to_strict=True)
            for tool in await server.list_tools()
        ]
        results = [await server.call_tool(call["name"], call["arguments"]) for call in calls]
    declared = [{"name": tool.name, "parameters": tool.params_json_schema} for tool in tools]
    answers = ["".join(part.text for part in result.content) for result in results]
    say({"tools": declared, "answers": answers})


asyncio.run(main(sys.argv[1], json.loads(sys.argv[2])))
