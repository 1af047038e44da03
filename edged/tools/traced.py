"""The dispatcher with a span of telemetry around each call's way through the daemon."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edged.actions.outcome import Outcome, OutcomeStatus, Tell
from edged.actions.tool import ToolCall
from edged.commands.pending import Pending
from edged.tools.dispatcher import ToolDispatcher

if TYPE_CHECKING:
    from edged.telemetry.spans import PathSpan, Telemetry


class TracedDispatcher:
    """Takes calls by tool name, and tells telemetry of them; see ``ToolDispatcher``."""

    def __init__(self, dispatcher: ToolDispatcher, telemetry: Telemetry) -> None:
        self._dispatcher = dispatcher
        self._telemetry = telemetry

    def begin(self, call: ToolCall, tell: Tell) -> Outcome | Pending:
        span = self._telemetry.path()
        if span is None:
            return self._dispatcher.begin(call, tell)

        def over(outcome: Outcome | None) -> None:
            _end(span, outcome)
            tell(outcome)

        begun = self._dispatcher.begin(call, over)
        if isinstance(begun, Outcome):
            _end(span, begun)
        return begun


def _end(span: PathSpan, outcome: Outcome | None) -> None:
    """A call that was cancelled is no error of its tool."""
    is_error = outcome is not None and outcome.status in (
        OutcomeStatus.REFUSED,
        OutcomeStatus.FAILED,
    )
    span.end(is_error=is_error)
