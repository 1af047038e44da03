"""Whether a peer tells its status byte, so that none is asked in vain again and again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from edged.instruments.link import LinkTimeout

__all__ = ["MESSAGE_AVAILABLE", "StatusQuery"]

MESSAGE_AVAILABLE: Final = 0x10
"""MAV of IEEE 488.2: an answer waits to be read."""


class StatusQuery:
    """Asks by way of a link, and remembers who does not know the question.

    Who refused is asked again on the next connection, which may be to another instrument. Who was
    silent has cost a time limit, and maybe the connection: the next one is spared the question,
    the one after that is not.
    """

    def __init__(self) -> None:
        self._is_refused = False
        self._was_silent = False

    def opened(self) -> None:
        """Another connection."""
        self._is_refused, self._was_silent = self._was_silent, False

    def ask(self, query: Callable[[], int | None]) -> int | None:
        """What ``query`` gives, unless it was refused before; its None is a refusal.

        Raises:
            LinkError: as ``query`` does.
        """
        if self._is_refused:
            return None
        try:
            status = query()
        except LinkTimeout:
            self._is_refused = self._was_silent = True
            raise
        self._is_refused = status is None
        return status
