"""A number that differs after any change of what list_instruments shows.

Code that changes something shown there calls ``note`` after the change; code that keeps a list
compares the number from before the list was made with the present one. All engines of a process
share the number, so a change in one makes the others build their list again. See decision 0032.
"""

from __future__ import annotations

import itertools
from typing import Final

__all__ = ["TOLD", "Changes"]


class Changes:
    """Any thread may note and compare.

    Attributes:
        mark: never the same twice, whichever thread noted last.
    """

    __slots__ = ("_marks", "mark")

    def __init__(self) -> None:
        self._marks = itertools.count(1)
        self.mark = 0

    def note(self) -> None:
        """Something was changed just now."""
        self.mark = next(self._marks)


TOLD: Final = Changes()
"""For what list_instruments shows."""
