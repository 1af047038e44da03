"""A look into the body of a request that is being refused: its id, and what it asked for.

Whoever has no good token gets no memory for a body. The refusal wants the request's id all the
same, and the audit the tool; so a small body is read for them, and a large one is not.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from edged.protocol.jsonrpc import BadMessage, Batch, Message, Request, RequestId, parse

__all__ = ["Glance", "id_of", "parsed"]


class Glance:
    """Looks once, when it is asked.

    Args:
        read: gives the body, empty where it is not small or does not come soon.

    Attributes:
        request_id: of the request, once it was looked at and where it could be read.
    """

    def __init__(self, read: Callable[[], Awaitable[bytes]]) -> None:
        self._read = read
        self.request_id: RequestId | None = None

    async def asked(self) -> str:
        """The tool or method that is asked for; empty where that cannot be read."""
        message, bad = parsed(await self._read())
        self.request_id = bad.request_id if bad else id_of(message)
        if not isinstance(message, Request):
            return ""
        name = message.params.get("name") if message.method == "tools/call" else None
        return name if isinstance(name, str) else message.method


def parsed(body: bytes) -> tuple[Message | Batch | None, BadMessage | None]:
    """The message of a body, or what is wrong with it."""
    try:
        return parse(body), None
    except BadMessage as bad:
        return None, bad


def id_of(message: Message | Batch | None) -> RequestId | None:
    """The id of a request; ``None`` of anything else."""
    return message.id if isinstance(message, Request) else None
