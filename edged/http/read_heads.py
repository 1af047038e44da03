"""Heads of requests that the parser has read before, known by their bytes.

Between two messages aiohttp's parser has no state: what it made of some bytes it makes of the same
bytes again. So what is remembered is the parser's own verdict on a whole request that came alone;
no name and no number is read here. See decision 0032.
"""

from __future__ import annotations

from typing import Final

from aiohttp import hdrs
from aiohttp.http_parser import RawRequestMessage

HEAD_END: Final = b"\r\n\r\n"
MOST_HEADS: Final = 512
MOST_BYTES: Final = 1_024
"""Of one: half a megabyte in all."""
MOST_SEEN: Final = 4_096
NOT_KEPT: Final = (hdrs.AUTHORIZATION, hdrs.EXPECT)
"""A token is not kept in memory, and what is expected is answered before the body comes."""


class ReadHeads:
    """The verdicts: message and length of the body, by the bytes of the head."""

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[RawRequestMessage, int]] = {}
        # Hashes of those that were read once: most heads of tokens or ids never come again.
        self._seen: set[int] = set()

    def find(self, data: bytes) -> tuple[RawRequestMessage, bytes] | None:
        """The head and body of these bytes, where they are one request that is known."""
        end = data.find(HEAD_END) + len(HEAD_END)
        known = self._known.get(data[:end])
        if known is None or len(data) != end + known[1]:
            return None
        return known[0], data[end:]

    def learn(self, data: bytes, message: RawRequestMessage, body: bytes) -> bool:
        """Keep what the parser read in bytes that came between two messages, the second time.

        Args:
            message: the first that it found in them.
            body: its body, read to its end.

        Returns:
            Whether the bytes are that one request, so that the parser is between two again.
        """
        end = data.find(HEAD_END) + len(HEAD_END)
        if data[end:] != body:
            return False
        if self._may_keep(message) and body and end <= MOST_BYTES:
            self._keep(data[:end], message, len(body))
        return True

    @staticmethod
    def _may_keep(message: RawRequestMessage) -> bool:
        if message.method != hdrs.METH_POST or message.should_close:
            return False
        if message.chunked or message.upgrade:
            return False
        return not any(key in message.headers for key in NOT_KEPT)

    def _keep(self, head: bytes, message: RawRequestMessage, length: int) -> None:
        if hash(head) not in self._seen:
            if len(self._seen) >= MOST_SEEN:
                self._seen.clear()
            self._seen.add(hash(head))
            return
        if len(self._known) >= MOST_HEADS:
            del self._known[next(iter(self._known))]
        self._known[head] = message, length
