"""The tools that LangChain's agents have of an MCP server; see ``tests/bench/agent_clients.py``.

Its adapter opens a session for each call.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from langchain_core.utils.function_calling import convert_to_openai_tool
from langchain_mcp_adapters.client import MultiServerMCPClient
from orders import say


async def main(url: str, calls: list[dict[str, Any]]) -> None:
    client = MultiServerMCPClient({"bench": {"transport": "streamable_http", "url": url}})
    tools = {tool.name: tool for tool in await client.get_tools()}
    declared = [convert_to_openai_tool(tool)["function"] for tool in tools.values()]
    results = [await tools[call["name"]].ainvoke(call["arguments"]) for call in calls]
    answers = ["".join(part.get("text", "") for part in result) for result in results]
    say({"tools": declared, "answers": answers})


asyncio.run(main(sys.argv[1], json.loads(sys.argv[2])))
