"""The roads by which an answer is asked for on a bare line: typed, captured, raw and by a program.

Each is the conversation that the engine holds for it, without the engine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from edged.instruments.conversation import (
    Conversation,
    Reply,
    capture_conversation,
    command_conversation,
    listen_conversation,
    program_conversation,
    raw_conversation,
)
from edged.instruments.mailbox import Priority
from edged.profiles.answers import parse_answer
from edged.profiles.frames import Frame
from edged.profiles.model import Command, Connection, Returns, WaveformAnswer
from tests.bench.wired import Line


class Roads:
    """Asks on one line.

    Args:
        connection: that of the line.
    """

    def __init__(self, line: Line, connection: Connection) -> None:
        self.line = line
        self.connection = connection

    async def _hold(self, make: Callable[[], Conversation[Reply]]) -> Reply:
        return await self.line.actor.converse(
            make,
            unit=1,
            priority=Priority.COMMAND,
            timeout_s=self.connection.timeout_ms / 1000 + 5,
            name="test",
        )

    async def typed(self, text: str, returns: Returns) -> Any:
        """``execute_command`` of a query."""
        command = Command(name="get", scpi=(text,), is_query=True, returns=returns)
        reply = await self._hold(
            lambda: command_conversation(
                lines=(text,),
                command=command,
                connection=self.connection,
                read=lambda answer: parse_answer(returns, answer).value,
            )
        )
        return reply.value

    async def captured(self, text: str, form: WaveformAnswer) -> bytes:
        """``execute_command`` of a waveform: the bytes of its samples."""
        reply = await self._hold(
            lambda: capture_conversation(
                setup=(),
                preamble=(),
                data=text,
                connection=self.connection,
                framed=lambda _: Frame(form),
            )
        )
        assert reply.block is not None
        return bytes(reply.block)

    async def raw(self, text: str, *, asks: bool = True, is_known: bool = False) -> Reply:
        """``send_scpi``."""
        return await self._hold(
            lambda: raw_conversation(
                lines=(text,), asks=asks, connection=self.connection, is_known=is_known
            )
        )

    async def program(self, text: str, **more: Any) -> bytes:
        """A question of a VISA program."""
        reply = await self._hold(
            lambda: program_conversation(
                line=text,
                data=text.encode(),
                asks=True,
                connection=self.connection,
                timeout_s=self.connection.timeout_ms / 1000,
                is_known=False,
                **more,
            )
        )
        assert reply.block is not None
        return bytes(reply.block)

    async def written(self, text: str) -> Reply:
        """A write of a VISA program that nobody knows to be answered."""
        return await self._hold(
            lambda: program_conversation(
                line=text,
                data=text.encode(),
                asks=False,
                connection=self.connection,
                timeout_s=self.connection.timeout_ms / 1000,
                is_known=False,
                may_answer=True,
            )
        )

    async def listened(self, text: str) -> bytes:
        """A read of a program after its write."""
        future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self.line.actor.submit(
            lambda: listen_conversation(line=text, timeout_s=self.connection.timeout_ms / 1000),
            future,
            unit=1,
            priority=Priority.COMMAND,
            timeout_s=5.0,
            name="read",
            listens=True,
        )
        reply = await future
        assert reply.block is not None
        return bytes(reply.block)
