"""From figures to the ratios of ``ROWS``; one whose figures are missing is missing too. Pure."""

from __future__ import annotations

from collections.abc import Mapping

Figures = Mapping[str, float]

QUOTIENTS = {
    "cached.sdk": ("cached.ours.per_s", "cached.sdk.per_s"),
    "cached.fastmcp": ("cached.ours.per_s", "cached.fastmcp.per_s"),
    "cached.ts": ("cached.ours.per_s", "cached.ts.per_s"),
    "cached.ts_too": ("cached.ours.per_s", "cached.ts_too.per_s"),
    "cached.echo": ("cached.ours.per_s", "cached.echo.per_s"),
    "cached.cpu": ("cached.ours.cpu_us", "cached.echo.cpu_us"),
    "cached.list": ("cached.list.cpu_us", "cached.echo.cpu_us"),
    "cached.one": ("one.list.cpu_us", "one.echo.cpu_us"),
    "paced.list": ("paced.list_us", "paced.echo_us"),
    "list.sdk": ("list.sdk_us", "list.ours_us"),
    "many.own": ("many.ours_per_s", "many.one_per_s"),
    "many.sdk": ("many.ours_per_s", "many.sdk_per_s"),
    "beside.sdk": ("beside.ours_us", "beside.sdk_us"),
    "beside.own": ("beside.ours_us", "beside.alone_us"),
    "hung.others": ("hung.ill_us", "hung.well_us"),
    "progress.sdk": ("progress.ours_per_s", "progress.sdk_per_s"),
    "waveform.sdk": ("waveform.ours_us", "waveform.sdk_us"),
    "waveform.bare": ("waveform.ours_us", "waveform.bare_us"),
    "start.sdk": ("start.ours_ms", "start.sdk_ms"),
    "idle.sdk": ("idle.ours_mb", "idle.sdk_mb"),
    "status.python": ("status.ours_ms", "status.python_ms"),
}
ADDED = {
    "hardware.added": "hardware.sdk_us",
    "hardware.added.fastmcp": "hardware.fastmcp_us",
    "hardware.added.ts": "hardware.ts_us",
}
"""Whose median each is held against; a bare query is taken off both."""
SAME = {
    "idle.mb": "idle.ours_mb",
    "sessions.kb": "sessions.kb",
    "sessions.news": "sessions.news_ms",
    "sessions.opens": "sessions.opens",
    "churn.kb": "churn.kb",
    "churn.left": "churn.left",
}


ECHO_SHARE = 0.8
"""Of an echo's processor time: what the HTTP of a query may cost."""


def price_ratios(figures: Figures) -> dict[str, float]:
    """Of processor time: a query beside what it is made of, and a write beside a query."""
    if "price.query_us" not in figures:
        return {}
    parts = ECHO_SHARE * figures["price.echo_us"] + figures["price.bare_us"]
    return {
        "price.query": figures["price.query_us"] / parts,
        "price.write": figures["price.write_us"] / figures["price.query_us"],
    }


def ratios_of(figures: Figures) -> dict[str, float]:
    """By the keys of ``ROWS``."""
    found = {
        key: figures[above] / figures[below]
        for key, (above, below) in QUOTIENTS.items()
        if above in figures and below in figures
    }
    found |= {key: figures[name] for key, name in SAME.items() if name in figures}
    found |= price_ratios(figures)
    bare = figures["hardware.bare_us"]
    added = figures["hardware.ours_us"] - bare
    for key, theirs in ADDED.items():
        if theirs in figures:
            found[key] = added / (figures[theirs] - bare)
    return found
