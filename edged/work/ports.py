"""What long work is given at start-up: how to act, and how to ask whether it could.

Both are the command path's (floor 4); long work does not know that, it knows these types.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from edged.actions.action import Action
from edged.actions.outcome import Outcome

__all__ = ["NewId", "Perform", "Precheck"]

Perform = Callable[[Action], Awaitable[Outcome]]
"""Performs an action and never raises an ``EdgedError``: what went wrong is in the outcome."""

NewId = Callable[[], str]
"""A fresh action id, unique in the audit."""


class Precheck(Protocol):
    """Judges an action as the path would, and sends nothing."""

    def __call__(self, action: Action) -> None:
        """Raises what ``Perform`` would have put into the outcome before sending a byte."""
        ...
