"""A session of the official Python SDK's client 1.x; run in its own virtual environment.

Commands come as JSON lines on standard input, answers go out as JSON lines, in order:
``{"do": "list"}``, ``{"do": "call", "name": …, "arguments": {…}}``,
``{"do": "wait_list_changed", "within_s": …}``, ``{"do": "end"}``.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import mcp.types as types
from mcp import ClientSession
from mcp.client.streamable_http import streamablehttp_client


class Talk:
    def __init__(self, session: ClientSession, changed: asyncio.Event) -> None:
        self.session = session
        self.changed = changed

    async def do(self, order: dict[str, Any]) -> Any:
        match order["do"]:
            case "list":
                listed = await self.session.list_tools()
                return [tool.name for tool in listed.tools]
            case "call":
                result = await self.session.call_tool(order["name"], order["arguments"])
                return {"is_error": result.isError, "text": result.content[0].text}
            case "watch":
                heard: list[tuple[float, str | None]] = []

                async def note(progress: float, _total: float | None, text: str | None) -> None:
                    heard.append((progress, text))

                result = await self.session.call_tool(
                    order["name"], order["arguments"], progress_callback=note
                )
                return {"text": result.content[0].text, "heard": heard}
            case "wait_list_changed":
                async with asyncio.timeout(order["within_s"]):
                    await self.changed.wait()
                self.changed.clear()
                return True
        raise ValueError(order)


async def main(url: str) -> None:
    changed = asyncio.Event()

    async def on_message(message: Any) -> None:
        if isinstance(message, types.ServerNotification) and isinstance(
            message.root, types.ToolListChangedNotification
        ):
            changed.set()

    async with (
        streamablehttp_client(url) as (reading, writing, _),
        ClientSession(reading, writing, message_handler=on_message) as session,
    ):
        first = await session.initialize()
        say({"protocol": first.protocolVersion, "server": first.serverInfo.name})
        talk = Talk(session, changed)
        while True:
            line = await asyncio.to_thread(sys.stdin.readline)
            order = json.loads(line or '{"do": "end"}')
            if order["do"] == "end":
                break
            try:
                say({"ok": await talk.do(order)})
            except Exception as error:  # noqa: BLE001 - the test reads what went wrong
                say({"error": repr(error)})


def say(value: Any) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


asyncio.run(main(sys.argv[1]))
