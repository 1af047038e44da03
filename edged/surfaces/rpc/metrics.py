"""``/metrics`` in Prometheus' text format, made when it is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from edged import __version__
from edged.commands.record import BUCKETS_S, CountedRecord, Latencies
from edged.surfaces.rpc.figures import MetricFigure


class MetricsPage:
    """The page.

    Args:
        counts: of calls.
        figures: everything else.
    """

    content_type = CONTENT_TYPE_LATEST

    def __init__(self, counts: CountedRecord, figures: Sequence[MetricFigure]) -> None:
        self._counts = counts
        self._figures = tuple(figures)
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def render(self) -> bytes:
        """The page as it is now."""
        return bytes(generate_latest(self._registry))

    def collect(self) -> Iterator[Metric]:
        """What prometheus_client asks of a collector."""
        about = GaugeMetricFamily("edged_info", "The program that runs.", labels=["version"])
        about.add_metric([__version__], 1)
        yield about
        yield self._calls()
        yield self._tools()
        yield self._latencies()
        faults = CounterMetricFamily("edged_faults", "Bugs of edged that calls ran into.")
        faults.add_metric([], self._counts.faults)
        yield faults
        yield from map(_family, self._figures)

    def _calls(self) -> Metric:
        family = CounterMetricFamily(
            "edged_calls",
            "Attempts on the command path, nested ones included.",
            labels=["kind", "route", "outcome"],
        )
        for labels, count in self._counts.calls.items():
            family.add_metric(labels, count)
        return family

    def _tools(self) -> Metric:
        family = CounterMetricFamily(
            "edged_tool_calls", "Calls of tools from outside.", labels=["tool", "outcome"]
        )
        for labels, count in self._counts.tools.items():
            family.add_metric(labels, count)
        return family

    def _latencies(self) -> Metric:
        family = HistogramMetricFamily(
            "edged_call_duration_seconds",
            "How long attempts took on the command path.",
            labels=["kind"],
        )
        for kind, latencies in self._counts.latencies.items():
            family.add_metric([kind], _buckets(latencies), sum_value=latencies.sum_s)
        return family


def _buckets(latencies: Latencies) -> list[tuple[str, float]]:
    """Cumulative, as Prometheus has them."""
    total, buckets = 0, []
    for bound, count in zip((*map(str, BUCKETS_S), "+Inf"), latencies.counts, strict=True):
        total += count
        buckets.append((bound, float(total)))
    return buckets


def _family(figure: MetricFigure) -> Metric:
    kind = CounterMetricFamily if figure.is_total else GaugeMetricFamily
    family = kind(
        f"edged_{figure.name}", figure.help, labels=[figure.label] if figure.label else []
    )
    value = figure.read()
    if isinstance(value, Mapping):
        for label, number in value.items():
            family.add_metric([label], number)
    else:
        family.add_metric([], value)
    return family
