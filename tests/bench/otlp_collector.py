"""A collector of OpenTelemetry data over HTTP, for tests: it keeps what it is sent.

It can be told to hang, as one that is overloaded does.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from aiohttp.test_utils import RawTestServer
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.bench.hosted import hosted
from tests.bench.waiting import HANGS_S


@dataclass(frozen=True, slots=True)
class CollectedSpan:
    name: str
    trace_id: str
    span_id: str
    parent_id: str
    kind: int
    status: int
    attributes: dict[str, Any]
    begin_ns: int
    end_ns: int


@dataclass
class Collector:
    """What has come."""

    port: int = 0
    spans: list[CollectedSpan] = field(default_factory=list)
    histograms: dict[str, list[Any]] = field(default_factory=dict)
    resource: dict[str, Any] = field(default_factory=dict)
    hangs: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)
    asked: threading.Event = field(default_factory=threading.Event)
    came: threading.Condition = field(default_factory=threading.Condition)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def environment(self) -> dict[str, str]:
        """What makes an engine send here, soon."""
        return {
            "OTEL_EXPORTER_OTLP_ENDPOINT": self.url,
            "OTEL_BSP_SCHEDULE_DELAY": "50",
            "OTEL_METRIC_EXPORT_INTERVAL": "200",
        }

    def take(self, path: str, body: bytes) -> None:
        if path == "/v1/traces":
            for group in ExportTraceServiceRequest.FromString(body).resource_spans:
                self.resource = attributes(group.resource.attributes)
                for scope in group.scope_spans:
                    self.spans += [collected(span) for span in scope.spans]
        elif path == "/v1/metrics":
            for group in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                for scope in group.scope_metrics:
                    for metric in scope.metrics:
                        self.histograms[metric.name] = list(metric.histogram.data_points)

    def until(self, count: int, name: str) -> list[CollectedSpan]:
        """So many spans of that name."""
        self.wait_for(lambda: len(self.named(name)) >= count)
        return self.named(name)

    def named(self, name: str) -> list[CollectedSpan]:
        return [span for span in self.spans if span.name == name]

    def wait_for(self, is_so: Callable[[], bool]) -> None:
        with self.came:
            has_come = self.came.wait_for(is_so, HANGS_S)
        assert has_come, (sorted({span.name for span in self.spans}), self.histograms)

    def below(self, parent: CollectedSpan) -> list[CollectedSpan]:
        """Its children, in their order."""
        found = [span for span in self.spans if span.parent_id == parent.span_id]
        return sorted(found, key=lambda span: span.begin_ns)


def collected(span: Any) -> CollectedSpan:
    return CollectedSpan(
        name=span.name,
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex(),
        kind=span.kind,
        status=span.status.code,
        attributes=attributes(span.attributes),
        begin_ns=span.start_time_unix_nano,
        end_ns=span.end_time_unix_nano,
    )


def attributes(found: Any) -> dict[str, Any]:
    told = {}
    for one in found:
        kind = one.value.WhichOneof("value")
        told[one.key] = getattr(one.value, kind)
    return told


def collecting() -> AbstractContextManager[Collector]:
    """A collector on a free port."""
    return hosted(_collecting)


@asynccontextmanager
async def _collecting() -> AsyncIterator[Collector]:
    collector = Collector()

    async def take(request: web.BaseRequest) -> web.Response:
        body = await request.read()
        collector.asked.set()
        if collector.hangs.is_set():
            await asyncio.to_thread(collector.released.wait)
        with collector.came:
            collector.take(request.path, body)
            collector.came.notify_all()
        return web.Response()

    async with RawTestServer(take) as server:
        collector.port = server.port
        try:
            yield collector
        finally:
            collector.released.set()
