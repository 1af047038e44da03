"""A session of the official Python SDK's client 2.x, stateless or legacy; see ``orders.py``."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from typing import Any

import mcp_types as types
from mcp import MCPError
from mcp.client import Client
from orders import Changes, Person, given_up, keep, obey, say


async def main(url: str, mode: str) -> None:
    changes, person = Changes(), Person()

    async def on_message(message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification) or isinstance(
            getattr(message, "root", None), types.ToolListChangedNotification
        ):
            changes.note()

    async def on_question(_context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        return types.ElicitResult(**person.asked(params.message))

    async with (
        Client(
            url,
            mode=mode,
            message_handler=on_message,
            elicitation_callback=on_question,
            cache=None,
        ) as client,
        contextlib.AsyncExitStack() as stack,
    ):
        if mode != "legacy":
            subscription = await stack.enter_async_context(client.listen(tools_list_changed=True))
            watching = asyncio.ensure_future(watch(subscription, changes))
            stack.callback(watching.cancel)
        say({"protocol": client.protocol_version, "server": client.server_info.name})
        await obey(
            {
                "list": lambda _order: tool_list(client),
                "call": lambda order: call(client, order),
                "answer": lambda order: answer(client, order),
                "progress": lambda order: progress(client, order),
                "cancel": lambda order: given_up(
                    client.call_tool(order["name"], order["arguments"]), order["after_s"]
                ),
                "wait_list_changed": changes.wait,
                "person": person.told,
            }
        )


async def watch(subscription: Any, changes: Changes) -> None:
    async for _event in subscription:
        changes.note()


async def tool_list(client: Client) -> Any:
    return [tool.name for tool in (await client.list_tools(cache_mode="refresh")).tools]


async def call(client: Client, order: dict[str, Any]) -> Any:
    result = await client.call_tool(order["name"], order["arguments"])
    return {"is_error": bool(result.is_error), "text": result.content[0].text}


async def answer(client: Client, order: dict[str, Any]) -> str:
    """What a host shows its model: the text of the result, or the error of the protocol."""
    try:
        result = await client.call_tool(order["name"], order["arguments"])
    except MCPError as error:
        return f"error {error.code}: {error.message}"
    return result.content[0].text


async def progress(client: Client, order: dict[str, Any]) -> Any:
    seen: list[Any] = []

    async def note(done: float, _total: float | None, message: str | None) -> None:
        seen.append([done, message])

    result = await client.call_tool(order["name"], order["arguments"], progress_callback=note)
    return {"progress": seen, "text": result.content[0].text}


asyncio.run(keep(lambda: main(sys.argv[1], sys.argv[2])))
