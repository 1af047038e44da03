"""Writes edged.dashboard.json, the Grafana dashboard, so that nobody edits its JSON by hand.

python packaging/observability/make_dashboard.py > packaging/observability/edged.dashboard.json
"""

from __future__ import annotations

import json
import sys
from typing import Any, Final

DATASOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
HERE: Final = 'instance=~"$instance"'
ROWS: Final[tuple[tuple[tuple[str, str, str, str, str], ...], ...]] = (
    # A row of panels each: kind, title, unit, query, legend.
    (
        ("stat", "Benches that answer", "none", f'sum(up{{job="edged", {HERE}}})', ""),
        ("stat", "Interlocks tripped", "none", f"sum(edged_interlocks_tripped{{{HERE}}})", ""),
        ("stat", "Units told on", "none", f"sum(edged_units_told_on{{{HERE}}})", ""),
        ("stat", "Lockouts", "none", f"sum(edged_lockouts{{{HERE}}})", ""),
        ("stat", "Record written", "none", f"min(edged_store_healthy{{{HERE}}})", ""),
    ),
    (
        (
            "timeseries", "Instruments by state", "none",
            f"sum by (instance, state) (edged_instruments{{{HERE}}})", "{{instance}} {{state}}",
        ),
        (
            "timeseries", "Sweeps and streams that run", "none",
            f"edged_sweeps{{{HERE}}} + edged_streams{{{HERE}}}", "{{instance}}",
        ),
    ),
    (
        (
            "timeseries", "Tool calls by outcome", "reqps",
            f"sum by (outcome) (rate(edged_tool_calls_total{{{HERE}}}[$__rate_interval]))",
            "{{outcome}}",
        ),
        (
            "timeseries", "The ten tools called most", "reqps",
            f"topk(10, sum by (tool) (rate(edged_tool_calls_total{{{HERE}}}[$__rate_interval])))",
            "{{tool}}",
        ),
    ),
    (
        (
            "timeseries", "How long calls took: 95 % of them", "s",
            "histogram_quantile(0.95, sum by (le, kind) "
            f"(rate(edged_call_duration_seconds_bucket{{{HERE}}}[$__rate_interval])))",
            "{{kind}}",
        ),
        (
            "timeseries", "Event loop: how late", "s",
            f"edged_event_loop_lag_seconds{{{HERE}}}", "{{instance}}",
        ),
    ),
    (
        (
            "timeseries", "Record: age of the oldest row that is not on disk", "s",
            f"edged_audit_lag_seconds{{{HERE}}}", "{{instance}}",
        ),
        (
            "timeseries", "Sessions and readers of events", "none",
            f"edged_sessions{{{HERE}}} + edged_event_readers{{{HERE}}}", "{{instance}}",
        ),
    ),
)  # fmt: skip
WIDTH: Final = 24
HEIGHTS: Final = {"stat": 4, "timeseries": 8}
BAD: Final = {"Interlocks tripped": 1, "Lockouts": 1}
"""From how many on a number is shown in red."""


def dashboard() -> dict[str, Any]:
    """The whole of it, as Grafana imports it."""
    panels = []
    top = 0
    for row in ROWS:
        height = max(HEIGHTS[kind] for kind, *_ in row)
        sizes = [WIDTH // len(row)] * len(row)
        sizes[-1] = WIDTH - sum(sizes[:-1])
        left = 0
        for (kind, title, unit, query, legend), width in zip(row, sizes, strict=True):
            place = {"h": height, "w": width, "x": left, "y": top}
            panels.append(panel(len(panels) + 1, kind, title, unit, query, legend, place))
            left += width
        top += height
    return {
        "uid": "edged-benches",
        "title": "edged: benches",
        "description": "Instruments, runs and calls of benches that run edged.",
        "tags": ["edged", "lab"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "refresh": "10s",
        "time": {"from": "now-6h", "to": "now"},
        "timezone": "browser",
        "templating": {"list": [source(), instances()]},
        "annotations": {"list": []},
        "panels": panels,
    }


def panel(
    number: int, kind: str, title: str, unit: str, query: str, legend: str, place: dict[str, int]
) -> dict[str, Any]:
    """One panel with one query."""
    target = {
        "datasource": DATASOURCE,
        "editorMode": "code",
        "expr": query,
        "legendFormat": legend or "__auto",
        "range": kind == "timeseries",
        "instant": kind == "stat",
        "refId": "A",
    }
    steps: list[dict[str, Any]] = [{"color": "green", "value": None}]
    if title in BAD:
        steps.append({"color": "red", "value": BAD[title]})
    if title == "Record written":
        steps = [{"color": "red", "value": None}, {"color": "green", "value": 1}]
    defaults = {"unit": unit, "min": 0, "thresholds": {"mode": "absolute", "steps": steps}}
    return {
        "id": number,
        "type": kind,
        "title": title,
        "datasource": DATASOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "targets": [target],
    }


def source() -> dict[str, Any]:
    """The variable by which Grafana asks for its Prometheus."""
    return {
        "name": "datasource",
        "label": "Prometheus",
        "type": "datasource",
        "query": "prometheus",
    }


def instances() -> dict[str, Any]:
    """The variable that chooses benches."""
    query = 'label_values(up{job="edged"}, instance)'
    return {
        "name": "instance",
        "label": "Bench",
        "type": "query",
        "datasource": DATASOURCE,
        "query": {"query": query, "refId": "instances"},
        "refresh": 2,
        "includeAll": True,
        "multi": True,
        "current": {"text": ["All"], "value": ["$__all"]},
    }


if __name__ == "__main__":
    json.dump(dashboard(), sys.stdout, indent=1)
    sys.stdout.write("\n")
