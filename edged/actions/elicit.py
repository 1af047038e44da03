"""How the client of a call can be asked something while the call waits, or between two calls.

MCP calls that elicitation: a request of ours on the call's own stream (2025-06-18, 2025-11-25), or
an answer that asks and a call that is repeated (2026-07-28).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import ClassVar

from edged.actions.outcome import Done, OutcomeStatus

__all__ = ["Elicit", "InputRequired", "Round"]

Elicit = Callable[[str], Awaitable[bool | None]]
"""Shows a person a question: yes, no, or ``None`` where the client could not ask."""


@dataclass(frozen=True, slots=True)
class Round:
    """What a call brings along where asking takes a call of its own.

    Attributes:
        state: the ``requestState`` that it was given; empty at first.
        answer: the person's, by the client; ``None``: it brings none.
    """

    state: str = ""
    answer: bool | None = None


@dataclass(slots=True, kw_only=True)
class InputRequired(Done):
    """The call is to be repeated with a person's answer; nothing was sent.

    ``data`` is {message, request_state}: the question, and what the repeated call brings along.
    """

    status: ClassVar = OutcomeStatus.ASKED
