"""The seam to the record: what the command path writes down, and when.

``Record`` is what the path needs; ``LogRecord`` here writes log lines. The rule is the same for
every record: the intent of a write stands before its first byte is sent, and every attempt gets its
end, refused ones included.
"""

from __future__ import annotations

from typing import Protocol

import structlog

from edged.actions.action import Action
from edged.actions.caller import Caller
from edged.actions.outcome import Outcome, OutcomeStatus
from edged.commands.target import Target
from edged.errors import EdgedError

__all__ = ["LogRecord", "Record"]


class Record(Protocol):
    """Where every attempt is written."""

    async def intend(self, action: Action, target: Target) -> None:
        """Write down that this write or dangerous command is about to be sent.

        Raises:
            Failed: STORE_FAILED, when it cannot be written; nothing may be sent then.
        """
        ...

    def conclude(self, action: Action, target: Target | None, outcome: Outcome) -> None:
        """Write down how an action ended. Never raises, never waits."""
        ...

    def refuse(self, caller: Caller, tool: str, error: EdgedError) -> None:
        """Write down an attempt that ended before there was an action (unknown tool, bad token)."""
        ...


class LogRecord:
    """A record that is the log."""

    def __init__(self) -> None:
        self._log = structlog.get_logger("edged.record")

    async def intend(self, action: Action, target: Target) -> None:
        """See ``Record``."""
        self._log.info(
            "intent",
            action_id=action.action_id,
            tool=action.tool,
            instrument_id=target.instrument_id,
            command=target.command_name,
            scpi=target.lines,
        )

    def conclude(self, action: Action, target: Target | None, outcome: Outcome) -> None:
        """See ``Record``. Reads that went well are logged at debug: they are the hot path."""
        is_quiet = outcome.status is OutcomeStatus.OK and (target is None or not target.is_write)
        write = self._log.debug if is_quiet else self._log.info
        write(
            "action",
            action_id=action.action_id,
            parent_id=action.parent_id,
            tool=action.tool,
            route=action.caller.route.value,
            remote=action.caller.remote,
            instrument_id=target.instrument_id if target else "",
            command=target.command_name if target else "",
            status=outcome.status.value,
            error=outcome.error.message if outcome.error else "",
            execution_time_ms=round(outcome.execution_time_ms, 3),
        )

    def refuse(self, caller: Caller, tool: str, error: EdgedError) -> None:
        """See ``Record``."""
        self._log.info(
            "refused",
            tool=tool,
            route=caller.route.value,
            remote=caller.remote,
            code=error.code.value,
            error=error.message,
        )
