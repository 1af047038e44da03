"""How the client of a call is asked something while the call waits, or between two calls.

MCP calls that elicitation: a request of ours on the call's own stream (2025-06-18, 2025-11-25), or
an answer that asks and a call that is repeated (2026-07-28).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import ClassVar, Protocol

from edged.actions.outcome import Done, OutcomeStatus
from edged.record import record

Elicit = Callable[[str], Awaitable[bool | None]]
"""Shows a person a question: yes, no, or ``None`` where the client could not ask."""


@record(kw_only=False)
class Round:
    """What a call brings along where asking takes a call of its own.

    Attributes:
        state: the ``requestState`` that it was given; empty at first.
        answer: the person's, by the client; ``None``: it brings none.
    """

    state: str = ""
    answer: bool | None = None


class CallClient(Protocol):
    """The client of a call, as far as the call's own way reaches it."""

    @property
    def is_here(self) -> bool:
        """Whether it still waits for the answer, as far as that is known."""
        ...

    def watch(self) -> None:
        """From now on its going is noticed soon."""
        ...

    def elicit(self) -> Elicit | None:
        """How a person is asked while the call waits; ``None`` where that cannot be."""
        ...

    def round(self) -> Round | None:
        """What it brings along where asking takes a call of its own; ``None`` where it does not."""
        ...


@record(frozen=False)
class InputRequired(Done):
    """The call is to be repeated with a person's answer; nothing was sent.

    ``data`` is {message, request_state}: the question, and what the repeated call brings along.
    """

    status: ClassVar = OutcomeStatus.ASKED
