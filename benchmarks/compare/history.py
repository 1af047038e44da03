"""What was measured before: a line of JSON a run in docs/, and who fell since."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.compare.rows import ROWS
from benchmarks.compare.servers import nodes
from benchmarks.page import commit, machine, put
from tests.bench.engine_process import REPOSITORY

HISTORY = "docs/benchmarks-history.jsonl"
FALL = 0.2
"""A fall by more than this share is told; less is noise."""


def last_entry() -> Mapping[str, float]:
    """The ratios of the latest line; none when there is no line yet."""
    path = REPOSITORY / HISTORY
    lines = path.read_text().splitlines() if path.exists() else []
    return json.loads(lines[-1])["ratios"] if lines else {}


def fallen(ratios: Mapping[str, float], before: Mapping[str, float]) -> Iterator[str]:
    """A sentence for each ratio that got worse by more than ``FALL``."""
    for row in ROWS:
        now, then = ratios.get(row.key), before.get(row.key)
        # What is beyond the goal may wander there; a share of next to nothing says nothing.
        if now is None or not then or not row.is_bounded or row.reaches(now):
            continue
        share = (then - now) / then if row.at_least else (now - then) / then
        if share > FALL:
            yield f"FELL: {row.text}: {then:.2f} → {now:.2f} {row.unit}".rstrip()


def write_json(
    path: Path, ratios: Mapping[str, float], figures: Mapping[str, float], *, rounds: int
) -> None:
    """All that was measured, for programs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    bounds = {row.key: {"must": row.must, "goal": row.goal} for row in ROWS if row.is_bounded}
    told = _head(rounds) | {"ratios": dict(ratios), "bounds": bounds, "figures": dict(figures)}
    path.write_text(json.dumps(told, indent=1) + "\n")


def add_entry(ratios: Mapping[str, float], *, rounds: int) -> None:
    """A line for this run."""
    told = _head(rounds) | {"ratios": {key: round(value, 3) for key, value in ratios.items()}}
    with (REPOSITORY / HISTORY).open("a") as history:
        history.write(json.dumps(told) + "\n")


def write_table(ratios: Mapping[str, float]) -> None:
    """Put the ratios where people read them."""
    head = _head(0)
    node = " and ".join(f"{version} ({origin})" for origin, version in head["node"].items())
    lines = [
        f"{head['commit']}, {head['time']}, {machine()}, Node {node or 'not there'}:",
        "",
        "| work, and against what | measured | must | goal |",
        "|---|---|---|---|",
    ]
    for row in ROWS:
        if row.key not in ratios:
            lines.append(f"| {row.text} | not measured | | |")
            continue
        value, sign = ratios[row.key], "≥" if row.at_least else "≤"
        verdict = "" if row.holds(value) else " **not kept**"
        bounds = f"{sign} {row.must:g} | {sign} {row.goal:g}" if row.is_bounded else " | "
        lines.append(f"| {row.text} | {value:.2f} {row.unit}{verdict} | {bounds} |")
    put("make bench", lines)


def _head(rounds: int) -> dict[str, Any]:
    return {
        "commit": commit(),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "node": {node.origin: node.version for node in nodes()},
        "rounds": rounds,
    }
