"""Numbers that differ after any change: of what list_instruments shows, of what judges a call.

Code that changes such a thing calls ``note`` after the change; code that keeps what was made of it
compares the number from before that was made with the present one. All engines of a process share
the numbers, so a change in one makes the others build and judge again. See decision 0032.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Final


class ChangeCount:
    """Any thread may note and compare. Both are in C: a query notes several changes.

    Attributes:
        note: something was changed just now.
        mark: another one after each change.
    """

    __slots__ = ("mark", "note")

    def __init__(self) -> None:
        count = itertools.count()
        self.note: Callable[[], object] = count.__next__
        self.mark: Callable[[], str] = count.__repr__


TOLD: Final = ChangeCount()
"""For what list_instruments shows."""
RULES: Final = ChangeCount()
"""For what decides whether a plain query may be sent, to which unit, and by which lines."""
