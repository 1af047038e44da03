"""An agent of Pydantic AI with these calls for a model; see ``tests/bench/agent_clients.py``."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from orders import say
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel


async def main(url: str, calls: list[dict[str, Any]]) -> None:
    waiting, answers, tools = iter(calls), [], []

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        tools[:] = [
            {"name": one.name, "parameters": one.parameters_json_schema}
            for one in info.function_tools
        ]
        if len(messages) > 1:
            answers.extend(json.dumps(part.content) for part in messages[-1].parts)
        call = next(waiting, None)
        if call is None:
            return ModelResponse(parts=[TextPart("done")])
        return ModelResponse(parts=[ToolCallPart(call["name"], call["arguments"])])

    await Agent(FunctionModel(model), toolsets=[MCPToolset(url)]).run("Go.")
    say({"tools": tools, "answers": answers})


asyncio.run(main(sys.argv[1], json.loads(sys.argv[2])))
