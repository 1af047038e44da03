"""Telemetry of one engine: begun where the environment asks for it, ended within a second."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import structlog

from edged import __version__
from edged.actions.outcome import Outcome, OutcomeStatus, Tell
from edged.actions.tool import ToolCall
from edged.clock import Clock
from edged.commands.pending import Pending
from edged.surfaces.mcp.seams import Dispatcher
from edged.telemetry.settings import PACKAGE, wish_of
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


if TYPE_CHECKING:
    from edged.instruments.trace import JobWatchOf
    from edged.telemetry.spans import Telemetry


class EngineTelemetry:
    """What the engine exports.

    Args:
        environment: of the process; OTEL_EXPORTER_OTLP_ENDPOINT and its like are read from it.

    Attributes:
        telemetry: who is told; ``None`` while nothing is exported.
    """

    def __init__(self, environment: Mapping[str, str], *, edge_id: str, clock: Clock) -> None:
        self._wish = wish_of(environment)
        self.telemetry: Telemetry | None = None
        self._problem = self._wish.complaint
        if self._wish.is_asked:
            self._open(edge_id, clock)

    def _open(self, edge_id: str, clock: Clock) -> None:
        log = structlog.get_logger("edged.telemetry")
        if self._wish.complaint:
            log.warning("telemetry_not_understood", complaint=self._wish.complaint)
        if not (self._wish.traces or self._wish.metrics):
            return
        try:
            from edged.telemetry.spans import open_telemetry

            self.telemetry = open_telemetry(
                self._wish, version=__version__, edge_id=edge_id, clock=clock
            )
        except ImportError:
            self._problem = (
                "The OpenTelemetry SDK is not installed. Install it: pip install "
                f"'{PACKAGE}', or unset OTEL_EXPORTER_OTLP_ENDPOINT."
            )
            log.warning("telemetry_missing", remedy=self._problem)
        except Exception as unusable:  # noqa: BLE001 - what the SDK refuses must not end the engine
            self._problem = f"OpenTelemetry did not begin: {type(unusable).__name__}: {unusable}"
            log.warning("telemetry_unusable", error=self._problem)

    @property
    def watch_of(self) -> JobWatchOf | None:
        """Who wants to be told of jobs on lines."""
        return self.telemetry.line if self.telemetry is not None else None

    def around(self, dispatcher: ToolDispatcher) -> Dispatcher:
        """Who takes calls of the MCP surface: the dispatcher, watched while that is exported."""
        if self.telemetry is None:
            return dispatcher
        from edged.engine.telemetry import TracedDispatcher

        return TracedDispatcher(dispatcher, self.telemetry)

    def status(self) -> dict[str, Any]:
        """For get_status: {is_on, endpoint, problem}."""
        return {
            "is_on": self.telemetry is not None,
            "endpoint": self._wish.endpoint,
            "problem": self._problem,
        }

    async def stop(self) -> None:
        """Send what waits, for a second at the most."""
        if self.telemetry is not None:
            await asyncio.to_thread(self.telemetry.close)
