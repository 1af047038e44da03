"""Semantic Kernel's plugin of an MCP server; see ``tests/bench/agent_clients.py``."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from orders import say
from semantic_kernel import Kernel
from semantic_kernel.connectors.ai.function_calling_utils import (
    kernel_function_metadata_to_function_call_format,
)
from semantic_kernel.connectors.mcp import MCPStreamableHttpPlugin


async def main(url: str, calls: list[dict[str, Any]]) -> None:
    kernel, answers = Kernel(), []
    async with MCPStreamableHttpPlugin(name="bench", url=url, load_prompts=False) as plugin:
        functions = kernel.add_plugin(plugin)
        for call in calls:
            try:
                result = await kernel.invoke(functions[call["name"]], **call["arguments"])
                answers.append("".join(str(part) for part in result.value))
            except Exception as error:  # noqa: BLE001 - what its agent is shown
                answers.append(f"{error} {error.__cause__}")
        tools = [
            kernel_function_metadata_to_function_call_format(one)["function"]
            for one in kernel.get_full_list_of_function_metadata()
        ]
    for tool in tools:
        tool["name"] = tool["name"].removeprefix("bench-")
    say({"tools": tools, "answers": answers})


asyncio.run(main(sys.argv[1], json.loads(sys.argv[2])))
