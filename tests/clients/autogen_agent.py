"""AutoGen's tools of an MCP server; see ``tests/bench/agent_clients.py``."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from autogen_core import CancellationToken
from autogen_ext.tools.mcp import (
    StreamableHttpServerParams,
    create_mcp_server_session,
    mcp_server_tools,
)
from orders import say


async def main(url: str, calls: list[dict[str, Any]]) -> None:
    server, answers = StreamableHttpServerParams(url=url), []
    async with create_mcp_server_session(server) as session:
        await session.initialize()
        found = await mcp_server_tools(server, session=session)
        tools = {tool.name: tool for tool in found}
        for call in calls:
            tool = tools[call["name"]]
            try:
                result = await tool.run_json(call["arguments"], CancellationToken())
                answers.append(tool.return_value_as_string(result))
            except Exception as error:  # noqa: BLE001 - what its agent is shown
                answers.append(str(error))
    say({"tools": [tool.schema for tool in tools.values()], "answers": answers})


asyncio.run(main(sys.argv[1], json.loads(sys.argv[2])))
