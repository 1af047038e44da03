"""``ROWS``: what is compared, what must hold and what is wished for beyond it.

A row is a ratio of two medians; ``at_least`` says which way it has to lie of its bounds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    key: str
    text: str
    must: float
    goal: float
    unit: str = "x"
    at_least: bool = False
    is_bounded: bool = True

    def holds(self, value: float) -> bool:
        return value >= self.must if self.at_least else value <= self.must

    def reaches(self, value: float) -> bool:
        return value >= self.goal if self.at_least else value <= self.goal


ROWS: Final = (
    Row("cached.sdk", "cached tool, 16 clients: calls/s, Python SDK 2", 9, 12, at_least=True),
    Row("cached.fastmcp", "the same, fastmcp", 0, 0, at_least=True, is_bounded=False),
    Row("cached.ts", "the same, TypeScript SDK", 4.5, 6, at_least=True),
    Row("cached.ts_too", "the same, on a Node from a wheel", 0, 0, at_least=True, is_bounded=False),
    Row("cached.echo", "the same, bare aiohttp echo", 0.55, 0.75, at_least=True),
    Row("cached.cpu", "CPU of get_status, 16 clients, bare aiohttp echo", 0.6, 0.4),
    Row("cached.list", "CPU of list_instruments, 16 clients, the echo", 0.6, 0.4),
    Row("cached.one", "CPU of list_instruments, one client, the echo", 0.6, 0.4),
    Row("paced.list", "the same, one call every 8 ms (cold), the echo", 0.6, 0.5),
    Row("list.sdk", "tools/list of 500 tools: median, Python SDK 2", 30, 45, at_least=True),
    Row("hardware.added", "hardware query: median added to bare PyVISA, SDK 2's", 0.15, 0.15),
    Row("hardware.added.fastmcp", "the same, fastmcp's", math.inf, math.inf, is_bounded=False),
    Row("hardware.added.ts", "the same, TypeScript SDK's", 0.3, 0.3),
    Row("price.query", "CPU of a query, 0.8 of an echo and a bare query together", 1.3, 1.3),
    Row("price.write", "CPU of a write with verify and error query, a query", 2.2, 2.2),
    Row("many.own", "32 instruments of 5 ms, 32 clients: own rate with one", 24, 24, at_least=True),
    Row("many.sdk", "the same, Python SDK 2", 8, 8, at_least=True),
    Row("beside.sdk", "hardware query's p99 beside 16 cached clients, SDK 2's", 0.08, 0.08),
    Row("beside.own", "the same, its own p99 alone", 4, 4),
    Row("hung.others", "others' p99 while one instrument hangs, without", 1.5, 1.2),
    Row("sessions.kb", "1,100 sessions with open streams: memory of each", 20, 12, "KB"),
    Row("sessions.news", "list_changed reaches the last of them", 40, 20, "ms"),
    Row("sessions.opens", "a new instrument still opens (1 = yes)", 1, 1, "", at_least=True),
    Row("progress.sdk", "progress events/s of one stream, Python SDK 2", 6, 10, at_least=True),
    Row("waveform.sdk", "4,096 points captured and fetched: median, SDK 2's", 0.5, 0.35),
    Row("waveform.bare", "the same, a bare PyVISA program's", 1.5, 1.5),
    Row("start.sdk", "start to first initialize with 3 instruments, SDK 2's", 0.6, 0.5),
    Row("idle.sdk", "resident memory after it, SDK 2's", 0.9, 0.8),
    Row("idle.mb", "resident memory after it", 49, 45, "MB"),
    Row("status.python", "CPU of `edged status`, `python -c pass`", 2, 1.8),
    Row("churn.kb", "10,000 sessions opened and ended: growth of each", 0.5, 0.1, "KB"),
    Row("churn.left", "abandoned sessions left after expiry", 0, 0, ""),
)
