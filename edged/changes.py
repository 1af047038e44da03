"""One number for all that lists tell: another one after anything of it has changed.

Whoever changes what an entry of list_instruments tells notes it here, behind the change; whoever
keeps a list compares the number that it was made under with the present one. The number is of the
process: a change in another engine of it has a list made once more, which is no fault. See decision
0032.
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
"""Of what list_instruments tells."""
