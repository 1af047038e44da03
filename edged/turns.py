"""Whether a line of an instrument waits for bytes on the event loop.

Its bytes go before requests: while one waits, what has come on an HTTP connection is served at the
loop's next turn, behind the bytes of instruments that came in the same turn, and one request of a
connection at a time. All engines of a process share the number.
"""

from __future__ import annotations

from typing import Final


class Turns:
    """On the event loop only.

    Attributes:
        waiting: lines that have asked, and wait.
    """

    __slots__ = ("waiting",)

    def __init__(self) -> None:
        self.waiting = 0


TURNS: Final = Turns()
