"""Request heads that were judged before, known again by their bytes.

A client sends the same head over and over. The first time aiohttp parses it and ``protocol`` judges
it; both are pure functions of the bytes, so after that the bytes alone say what came of it. Kept
are only heads that passed, of requests whose framing is plain: a Content-Length or nothing, no
``Expect``, no ``Transfer-Encoding``, no token; and only from the second time on, so that sessions
that come, ask a thing or two and are abandoned fill no memory.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from edged.protocol.http_rules import Accepted
from edged.surfaces.mcp.tool_list import Choice

__all__ = ["HEAD_END", "HeadBook", "KnownHead", "body_size"]

HEAD_END: Final = b"\r\n\r\n"
MAX_HEADS: Final = 2_048
"""A thousand sessions with two lengths of body each; 2 KB or so a head."""
MAX_HEAD_BYTES: Final = 2_048
_LENGTH_NAME: Final = re.compile(rb"\r\ncontent-length", re.IGNORECASE)
_LENGTH: Final = re.compile(
    rb"\r\ncontent-length:[ \t]*([0-9]{1,9})[ \t]*(?=\r\n|\Z)", re.IGNORECASE
)
# Other framings, folded lines, and line ends that readers disagree about.
_ODD: Final = re.compile(
    rb"\r\n(?:transfer-encoding|expect|upgrade|trailer)|\r\n[ \t]|(?<!\r)\n|\r(?!\n)|\0",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownHead:
    """What came of a head.

    Attributes:
        accepted: the verdict.
        choice: what its query chooses of tools/list.
        body_bytes: how long the body after it is.
    """

    accepted: Accepted
    choice: Choice
    body_bytes: int


class HeadBook:
    """The heads that are known."""

    def __init__(self) -> None:
        self._heads: dict[bytes, KnownHead] = {}
        # Hashes of heads that came once; two heads with one hash do no harm.
        self._seen_once: dict[int, None] = {}
        self.find = self._heads.get

    def learn(self, head: bytes, accepted: Accepted, choice: Choice) -> None:
        """Remember a head (without the empty line) that passed; an unusual one is not kept."""
        if not self._is_back(head):
            return
        size = body_size(head)
        if size is None or len(head) > MAX_HEAD_BYTES:
            return
        if len(self._heads) >= MAX_HEADS:
            del self._heads[next(iter(self._heads))]
        self._heads[head] = KnownHead(accepted=accepted, choice=choice, body_bytes=size)

    def _is_back(self, head: bytes) -> bool:
        """Whether it came before; at its first time that is noted."""
        key = hash(head)
        if key in self._seen_once:
            del self._seen_once[key]
            return True
        if len(self._seen_once) >= MAX_HEADS:
            del self._seen_once[next(iter(self._seen_once))]
        self._seen_once[key] = None
        return False


def body_size(head: bytes) -> int | None:
    """How many bytes of body follow a head; ``None`` where only a real parser should say."""
    if _ODD.search(head) is not None:
        return None
    lengths = _LENGTH.findall(head)
    if len(lengths) != len(_LENGTH_NAME.findall(head)) or len(lengths) > 1:
        return None
    return int(lengths[0]) if lengths else 0
