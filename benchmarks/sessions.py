"""What ten thousand abandoned MCP sessions leave in the engine's memory.

A real engine on a simulated bench, with a short SESSION_IDLE_SEC. Each session is opened, lists the
tools, makes a call whose answer can be resumed, and every tenth opens its stream of news; then its
client goes away without a word. Measured is the resident memory before, with all of them, and after
they have expired. A smaller round first brings the engine to its working size; the whole is done
twice, since what grows would grow again.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

from benchmarks.figures import Figure, parse_json_flag, tell
from tests.bench.engine_process import EngineProcess, engine_process
from tests.bench.mcp_client import McpClient

SESSIONS = 10_000
WARM_SESSIONS = 500
CLIENTS_AT_ONCE = 16
STREAM_EVERY = 10
IDLE_S = 60
"""Longer than it takes to open them all, so that all are there at once."""
GIVE_UP_S = 240.0
MB = 1024 * 1024


def main() -> int:
    as_json = parse_json_flag(__doc__)
    # One address may have a tenth.
    config = {"SESSION_IDLE_SEC": IDLE_S, "MAX_SESSIONS": 10 * SESSIONS}
    with (
        tempfile.TemporaryDirectory() as directory,
        engine_process(Path(directory), config=config) as engine,
    ):
        asyncio.run(_abandon(engine, WARM_SESSIONS))
        _wait_for_expiry(engine)
        before = _memory(engine)
        took, held, most, after = _round(engine)
        _, _, _, again = _round(engine)
    figures = (
        Figure(name="sessions held at once", value=held, unit=""),
        Figure(name="time to open and abandon them", value=took, unit="s"),
        Figure(name="resident memory before", value=before, unit="MB"),
        Figure(name="with all sessions", value=most, unit="MB"),
        Figure(name="after they expired", value=after, unit="MB"),
        Figure(name="after a second ten thousand", value=again, unit="MB"),
        Figure(name="left over", value=100 * (after - before) / before, unit="%", bound=20.0),
        Figure(
            name="left over after both", value=100 * (again - before) / before, unit="%", bound=20.0
        ),
    )
    if held < SESSIONS:
        sys.stderr.write("some had expired before all were open; the machine is too slow\n")
        return 1
    return tell(f"{SESSIONS} sessions opened and abandoned", figures, as_json=as_json)


def _round(engine: EngineProcess) -> tuple[float, int, float, float]:
    """Seconds to open them, how many were there, memory with them, and memory without."""
    began = time.perf_counter()
    asyncio.run(_abandon(engine, SESSIONS))
    took = time.perf_counter() - began
    held, most = _sessions(engine), _memory(engine)
    _wait_for_expiry(engine)
    return took, held, most, _memory(engine)


async def _abandon(engine: EngineProcess, count: int) -> None:
    numbers = iter(range(count))

    async def client() -> None:
        for number in numbers:
            await _one_session(engine.ports["mcp_port"], number)

    await asyncio.gather(*(client() for _ in range(CLIENTS_AT_ONCE)))


async def _one_session(port: int, number: int) -> None:
    session = McpClient(port)
    await session.initialize("2025-11-25")
    await session.request("tools/list")
    await session.post(session.tool_call("list_instruments", token=0))
    if number % STREAM_EVERY == 0:
        stream = await session.open_stream()
        stream.abort()


def _status(engine: EngineProcess) -> dict[str, Any]:
    told: dict[str, Any] = engine.tool("get_status")["result"]["mcp"]
    return told


def _sessions(engine: EngineProcess) -> int:
    return int(_status(engine)["sessions"])


def _wait_for_expiry(engine: EngineProcess) -> None:
    deadline = time.monotonic() + GIVE_UP_S
    while _sessions(engine):
        if time.monotonic() > deadline:
            raise SystemExit(f"sessions did not expire: {json.dumps(_status(engine))}")
        time.sleep(1)  # noqa: TID251 - another process is waited for


def _memory(engine: EngineProcess) -> float:
    return float(psutil.Process(engine.process.pid).memory_info().rss) / MB


if __name__ == "__main__":
    sys.exit(main())
