"""A session of the official Python SDK's client 1.x; see ``orders.py``."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import mcp.types as types
from mcp import ClientSession
from mcp.client.streamable_http import streamablehttp_client
from orders import Changes, Person, given_up, keep, obey, say


async def main(url: str, token: str) -> None:
    changes, person = Changes(), Person()
    headers = {"Authorization": f"Bearer {token}"} if token else {}

    async def on_message(message: Any) -> None:
        if isinstance(message, types.ServerNotification) and isinstance(
            message.root, types.ToolListChangedNotification
        ):
            changes.note()

    async def on_question(_context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        return types.ElicitResult(**person.asked(params.message))

    async with (
        streamablehttp_client(url, headers=headers) as (reading, writing, _),
        ClientSession(
            reading, writing, message_handler=on_message, elicitation_callback=on_question
        ) as session,
    ):
        first = await session.initialize()
        say({"protocol": first.protocolVersion, "server": first.serverInfo.name})

        async def tool_list(_order: dict[str, Any]) -> Any:
            return [tool.name for tool in (await session.list_tools()).tools]

        async def call(order: dict[str, Any]) -> Any:
            result = await session.call_tool(order["name"], order["arguments"])
            return {"is_error": result.isError, "text": result.content[0].text}

        async def progress(order: dict[str, Any]) -> Any:
            seen: list[Any] = []

            async def note(done: float, _total: float | None, message: str | None) -> None:
                seen.append([done, message])

            result = await session.call_tool(
                order["name"], order["arguments"], progress_callback=note
            )
            return {"progress": seen, "text": result.content[0].text}

        async def cancel(order: dict[str, Any]) -> Any:
            # This client only stops waiting; the server hears of it when the program says so.
            params = types.CancelledNotificationParams(requestId=session._request_id)
            how = await given_up(
                session.call_tool(order["name"], order["arguments"]), order["after_s"]
            )
            note = types.CancelledNotification(method="notifications/cancelled", params=params)
            await session.send_notification(types.ClientNotification(note))
            return how

        await obey(
            {
                "list": tool_list,
                "call": call,
                "progress": progress,
                "cancel": cancel,
                "wait_list_changed": changes.wait,
                "person": person.told,
            }
        )


asyncio.run(keep(lambda: main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "")))
