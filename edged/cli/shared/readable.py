"""What people call an instrument, and times as they read them; ``--json`` has ids and milliseconds.

"15:18:44" is today, "yesterday 15:18" the day before, "2026-11-23 15:18" any other day: local time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from edged.clock import SystemClock, ago
from edged.surfaces.rpc.client import RpcClient

if TYPE_CHECKING:
    from datetime import datetime

Name = Callable[[Any], Any]
"""Gives what people call the instrument of an id."""


def namer(client: RpcClient) -> Name:
    """``aliased``, by what the engine tells of its instruments."""
    return aliased(client.call_tool("list_instruments").value)


def aliased(instruments: Iterable[Mapping[str, Any]]) -> Name:
    """What gives an instrument's alias for its id, and the id itself where there is none."""
    aliases = {one["id"]: one["alias"] for one in instruments if one.get("alias")}
    # Old rows may hold anything, also what cannot be looked up.
    return lambda name: aliases.get(name, name) if isinstance(name, str) else name


def under_way(client: RpcClient, runs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Runs of get_status, or lockouts, with the name of their ``instrument`` and ``since`` when."""
    name = namer(client)
    return [{**run, "instrument": name(run["instrument_id"]), "since": since(run)} for run in runs]


def local_time(time_ms: Any, now_ms: int | None = None) -> str:
    """A time of Unix epoch milliseconds; what is none is shown as it is.

    Args:
        now_ms: what "today" goes by; the clock of this machine unless it is given.
    """
    try:
        time = _local(time_ms)
    except (TypeError, ValueError, OverflowError, OSError):
        return "" if time_ms is None else str(time_ms)
    today = _local(SystemClock().wall_ms() if now_ms is None else now_ms).date()
    if time.date() == today:
        return f"{time:%H:%M:%S}"
    if (today - time.date()).days == 1:
        return f"yesterday {time:%H:%M}"
    return f"{time:%Y-%m-%d %H:%M}"


def since(row: Mapping[str, Any]) -> str:
    """``15:18:44 (3 min ago)``: since when something is so; empty where nobody knows."""
    began_ms = row.get("started_ms", row.get("since_ms"))
    if not isinstance(began_ms, int):
        return ""
    now_ms = SystemClock().wall_ms()
    return f"{local_time(began_ms, now_ms)} ({ago((now_ms - began_ms) / 1_000)})"


def _local(time_ms: float) -> datetime:
    from datetime import UTC, datetime  # for rows that have times

    return datetime.fromtimestamp(time_ms / 1000, UTC).astimezone()
