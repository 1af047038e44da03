"""A session of fastmcp's client; see ``orders.py``."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from fastmcp import Client
from fastmcp.client.messages import MessageHandler
from orders import Changes, given_up, keep, obey, say


class Listener(MessageHandler):
    def __init__(self, changes: Changes) -> None:
        super().__init__()
        self.changes = changes

    async def on_tool_list_changed(self, _message: Any) -> None:
        self.changes.note()


async def main(url: str, mode: str) -> None:
    changes = Changes()
    async with Client(url, message_handler=Listener(changes), mode=mode, cache=False) as client:
        say({"protocol": str(client.protocol_version), "server": client.server_info.name})

        async def tool_list(_order: dict[str, Any]) -> Any:
            return [tool.name for tool in await client.list_tools()]

        async def call(order: dict[str, Any]) -> Any:
            result = await client.call_tool(order["name"], order["arguments"], raise_on_error=False)
            return {"is_error": result.is_error, "text": result.content[0].text}

        async def progress(order: dict[str, Any]) -> Any:
            seen: list[Any] = []

            async def note(done: float, _total: float | None, message: str | None) -> None:
                seen.append([done, message])

            result = await client.call_tool(
                order["name"], order["arguments"], progress_handler=note
            )
            return {"progress": seen, "text": result.content[0].text}

        async def cancel(order: dict[str, Any]) -> Any:
            return await given_up(
                client.call_tool(order["name"], order["arguments"]), order["after_s"]
            )

        await obey(
            {
                "list": tool_list,
                "call": call,
                "progress": progress,
                "cancel": cancel,
                "wait_list_changed": changes.wait,
            }
        )


asyncio.run(keep(lambda: main(sys.argv[1], sys.argv[2])))
