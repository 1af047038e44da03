"""Spans and durations of operations, by the official OpenTelemetry SDK; its one importer.

A request is a span; below it the way of a tool's call through the daemon, and below that, for each
conversation that it holds with an instrument, the wait for the line and every exchange. What is
under way is found again by a context variable, so that steps of a sequence, in tasks of their own,
stand below the call that began them.

The SDK's own threads send, from queues that are bounded and drop what does not fit: nothing here
waits for a collector.
"""

from __future__ import annotations

import contextlib
import contextvars
import logging
import threading
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

import structlog

from edged.clock import Clock
from edged.telemetry.conventions import (
    DURATION,
    DURATION_BUCKETS_S,
    TOOL_ERROR,
    OperationFacts,
    attributes_of,
    carrier_of,
    measured_by,
    span_name,
)
from edged.telemetry.settings import TelemetryWish

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.metrics import Histogram
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span, Tracer

CLOSE_S: Final = 1.0
"""What the end of the daemon waits for a collector, at the most."""
TOLD_EACH_S: Final = 60.0
MOST_EXCHANGES: Final = 128
"""Exchanges of one conversation that get a span; a long one must not fill the queue."""

_UNDER_WAY: contextvars.ContextVar[OperationSpan | None] = contextvars.ContextVar(
    "edged_operation", default=None
)


def open_telemetry(wish: TelemetryWish, *, version: str, edge_id: str, clock: Clock) -> Telemetry:
    """Begin to export what was asked for.

    Where to, with which headers and how often is what the SDK reads from its variables.

    Raises:
        ImportError: the SDK or its exporter is not installed.
        Exception: whatever the SDK raises at a variable that it does not understand.
    """
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    _quieten("opentelemetry", clock)
    told = {"service.version": version, "service.instance.id": edge_id}
    resource = Resource.create()
    if str(resource.attributes.get("service.name", "")).startswith("unknown_service"):
        told["service.name"] = "edged"
    resource = resource.merge(Resource(told))
    readers = [PeriodicExportingMetricReader(OTLPMetricExporter())] if wish.metrics else []
    meters = MeterProvider(metric_readers=readers, resource=resource, shutdown_on_exit=False)
    tracers = TracerProvider(resource=resource, shutdown_on_exit=False)
    if wish.traces:
        tracers.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return Telemetry(tracers, meters, version=version, clock=clock)


class Telemetry:
    """Tells a collector of operations; made once, closed by the engine.

    Args:
        tracers, meters: with what sends on attached.
        version: edged's.

    Attributes:
        clock: for durations.
    """

    def __init__(
        self, tracers: TracerProvider, meters: MeterProvider, *, version: str, clock: Clock
    ) -> None:
        from opentelemetry import trace
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self.clock = clock
        self._tracers = tracers
        self._meters = meters
        self._trace = trace
        self._propagator = TraceContextTextMapPropagator()
        self._tracer: Tracer = tracers.get_tracer("edged", version)
        meter = meters.get_meter("edged", version)
        self._durations: Histogram = meter.create_histogram(
            DURATION,
            unit="s",
            description="How long an MCP request took, as the server saw it.",
            explicit_bucket_boundaries_advisory=DURATION_BUCKETS_S,
        )

    def begin(self, facts: OperationFacts) -> OperationSpan:
        """An operation has begun."""
        parent = self._propagator.extract(carrier_of(facts.carrier))
        span = self._tracer.start_span(
            span_name(facts),
            context=parent,
            kind=self._trace.SpanKind.SERVER,
            attributes=attributes_of(facts),
        )
        return OperationSpan(self, facts, span)

    def path(self) -> PathSpan | None:
        """The call of a tool goes its way now; ``None`` where no operation is under way."""
        operation = _UNDER_WAY.get()
        if operation is None:
            return None
        span = self._tracer.start_span("path", context=operation.context)
        operation.context = self.context_of(span)
        return PathSpan(operation, span)

    def line(self, name: str) -> LineSpans | None:
        """A conversation waits for its line; ``None`` where it belongs to no operation.

        Args:
            name: of the conversation.
        """
        operation = _UNDER_WAY.get()
        if operation is None or operation.is_over:
            return None
        return LineSpans(self, operation.context, name)

    def start(self, name: str, context: Context, attributes: Mapping[str, str | int]) -> Span:
        """A span below another."""
        return self._tracer.start_span(name, context=context, attributes=attributes)

    def context_of(self, span: Span) -> Context:
        """Where what stands below a span belongs."""
        return self._trace.set_span_in_context(span)

    def fail(self, span: Span, error_type: str) -> None:
        """A span ends by an error."""
        span.set_attribute("error.type", error_type)
        span.set_status(self._trace.StatusCode.ERROR)

    def measure(self, duration_s: float, attributes: Mapping[str, str]) -> None:
        """An operation is over."""
        self._durations.record(duration_s, attributes)

    def close(self) -> None:
        """Send what waits, for as long as ``CLOSE_S``; what has not gone by then is lost.

        Blocks for that long; not to be called on an event loop.
        """
        closing = threading.Thread(target=self._shut_down, name="edged-telemetry-end", daemon=True)
        closing.start()
        closing.join(CLOSE_S)

    def _shut_down(self) -> None:
        for provider in (self._tracers, self._meters):
            with contextlib.suppress(Exception):
                provider.shutdown()


class OperationSpan:
    """One request under way.

    Attributes:
        context: where what is below it belongs.
        is_over: it has been answered.
    """

    def __init__(self, telemetry: Telemetry, facts: OperationFacts, span: Span) -> None:
        self.telemetry = telemetry
        self.context = telemetry.context_of(span)
        self.is_over = False
        self._facts = facts
        self._span = span
        self._began = telemetry.clock.monotonic()
        self._error = ""

    @contextlib.contextmanager
    def current(self) -> Iterator[None]:
        """What is begun in here, and in tasks that are made here, belongs to it."""
        token = _UNDER_WAY.set(self)
        try:
            yield
        finally:
            _UNDER_WAY.reset(token)

    def note_tool_error(self) -> None:
        """The tool's result is an error."""
        self._error = TOOL_ERROR

    def end(self, error_type: str = "") -> None:
        """It is answered; only the first time counts.

        Args:
            error_type: the JSON-RPC code of an answer that is an error; empty otherwise.
        """
        if self.is_over:
            return
        self.is_over = True
        error = error_type or self._error
        measured = measured_by(self._facts)
        if error:
            measured["error.type"] = error
            self.telemetry.fail(self._span, error)
        self._span.end()
        self.telemetry.measure(self.telemetry.clock.monotonic() - self._began, measured)


class PathSpan:
    """A call on its way through the daemon: judged, recorded, run."""

    def __init__(self, operation: OperationSpan, span: Span) -> None:
        self._operation = operation
        self._span = span

    def end(self, *, is_error: bool) -> None:
        """Its outcome is known."""
        if is_error:
            self._operation.telemetry.fail(self._span, TOOL_ERROR)
            self._operation.note_tool_error()
        self._span.end()


class LineSpans:
    """One conversation with an instrument: its wait for the line, and its exchanges.

    Made on the loop; told of what happens by whatever serves the line.
    """

    def __init__(self, telemetry: Telemetry, context: Context, name: str) -> None:
        self._telemetry = telemetry
        self._context = context
        self._wait: Span | None = telemetry.start("wait for the line", context, {"edged.job": name})
        self._exchange: Span | None = None
        self._count = 0

    def taken(self) -> None:
        """Its turn has come, or nobody waits for it any more."""
        wait, self._wait = self._wait, None
        if wait is not None:
            wait.end()

    def sent(self, size: int) -> None:
        """A line goes out."""
        self._end_exchange()
        self._count += 1
        if self._count <= MOST_EXCHANGES:
            sizes = {"edged.sent_bytes": size}
            self._exchange = self._telemetry.start("exchange", self._context, sizes)

    def received(self, size: int) -> None:
        """An answer, or a part of one, has come."""
        if self._exchange is not None:
            self._exchange.set_attribute("edged.received_bytes", size)
        self._end_exchange()

    def over(self) -> None:
        """The conversation has ended, or never began."""
        self.taken()
        self._end_exchange()

    def _end_exchange(self) -> None:
        if self._exchange is not None:
            self._exchange.end()
            self._exchange = None


class _Occasional(logging.Handler):
    """Hands on a library's warnings, at most one in ``TOLD_EACH_S``: a collector may be away."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(logging.WARNING)
        self._clock = clock
        self._told_at = float("-inf")

    def emit(self, record: logging.LogRecord) -> None:
        now = self._clock.monotonic()
        if now - self._told_at < TOLD_EACH_S:
            return
        self._told_at = now
        text = record.getMessage()[:300]
        structlog.get_logger("edged.telemetry").warning("telemetry_not_sent", error=text)


def _quieten(library: str, clock: Clock) -> None:
    logger = logging.getLogger(library)
    logger.propagate = False
    logger.handlers[:] = [_Occasional(clock)]
