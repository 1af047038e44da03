"""What every client script shares: orders come as JSON lines, answers go as JSON lines.

Runs in the client's own virtual environment, so it uses the standard library alone.

``{"do": "list"}``, ``{"do": "call", "name", "arguments"}``, ``{"do": "progress"}`` with the same,
``{"do": "cancel", "name", "arguments", "after_s"}``, ``{"do": "wait_list_changed", "within_s"}``,
``{"do": "person", "says"}`` (what a person answers from now on; gives what was asked till then),
``{"do": "reconnect"}`` (answered by another greeting), ``{"do": "end"}``.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any

Handler = Callable[[dict[str, Any]], Awaitable[Any]]


def say(value: Any) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


class NextConnection(Exception):
    """The order was to connect anew."""


async def keep(connection: Callable[[], Awaitable[None]]) -> None:
    """Connect as often as ordered; what a dead connection says when it is left is no news."""
    while True:
        try:
            return await connection()
        except BaseException as left:
            if not _is_next(left):
                raise


def _is_next(left: BaseException) -> bool:
    if isinstance(left, BaseExceptionGroup):
        return any(_is_next(inner) for inner in left.exceptions)
    return isinstance(left, NextConnection) or (
        left.__context__ is not None and _is_next(left.__context__)
    )


async def obey(handlers: dict[str, Handler]) -> None:
    """Carry out one order after the other until the end."""
    while True:
        line = await asyncio.to_thread(sys.stdin.readline)
        order = json.loads(line or '{"do": "end"}')
        if order["do"] == "end":
            return
        if order["do"] == "reconnect":
            raise NextConnection
        try:
            say({"ok": await handlers[order["do"]](order)})
        except Exception as error:  # noqa: BLE001 - the test reads what went wrong
            say({"error": repr(error)})


class Changes:
    """Remembers that the tool list changed."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def note(self) -> None:
        self._event.set()

    async def wait(self, order: dict[str, Any]) -> bool:
        async with asyncio.timeout(order["within_s"]):
            await self._event.wait()
        self._event.clear()
        return True


class Person:
    """Who is asked by the client: says always the same, and remembers what was asked."""

    def __init__(self) -> None:
        self.says: dict[str, Any] = {"action": "decline"}
        self._asked: list[str] = []

    def asked(self, message: str) -> dict[str, Any]:
        self._asked.append(message)
        return self.says

    async def told(self, order: dict[str, Any]) -> list[str]:
        self.says, asked, self._asked = order["says"], self._asked, []
        return asked


async def given_up(call: Awaitable[Any], after_s: float) -> str:
    """Cancel a call in mid-flight the way a program does: by cancelling its task."""
    task = asyncio.ensure_future(call)
    done, _ = await asyncio.wait({task}, timeout=after_s)
    if done:
        return "it had ended"
    task.cancel()
    await asyncio.wait({task}, timeout=5)
    return "cancelled" if task.done() else "still running"
