"""The same tools for both Python peers: ``add_tools(server, …)``, and how either is run."""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
from collections.abc import Callable
from typing import Any

import uvicorn

from benchmarks.peers.visa_bench import STATUS, VisaBench, read_arguments


def add_tools(add: Callable[[Callable[..., Any]], object], bench: VisaBench) -> None:
    """Plain functions go to a thread in both libraries."""

    async def get_status() -> dict[str, Any]:
        """Say how the bench is."""
        return STATUS

    def query(instrument: int, command: str) -> dict[str, str]:
        """Ask an instrument."""
        return {"response": bench.query(instrument, command)}

    def capture_waveform(instrument: int, points: int) -> dict[str, int]:
        """Capture points of the scope's memory."""
        return {"y_length": bench.capture(instrument, points)}

    def fetch_waveform() -> dict[str, str]:
        """Hand out what was captured."""
        return {"y_data": bench.fetch()}

    for tool in (get_status, query, capture_waveform, fetch_waveform):
        add(tool)


def add_many(add: Callable[..., object], count: int) -> None:
    """Tools like those that instruments have, which do nothing."""
    for number in range(count):

        def set_value(channel: int, value: float, mode: str = "normal") -> dict[str, float | str]:
            """Set a value of one channel of this instrument, within the limits of its profile."""
            return {"channel": channel, "value": value, "mode": mode}

        add(set_value, name=f"rigol_dp832_{number}__set_value")


def point(number: int) -> str:
    """The text of one progress report, as our streams have it."""
    told = {"value": number / 7, "unit": "V", "timestamp_ms": 1_790_000_000_000 + number}
    return json.dumps(told, separators=(",", ":"))


def start() -> tuple[VisaBench, int]:
    """The bench with its instruments opened, and how many more tools are wanted."""
    arguments = read_arguments()
    bench = VisaBench(arguments.ports)
    bench.open_all()
    return bench, arguments.more_tools


def serve(app: Any) -> None:
    """Print the port, serve until standard input ends."""
    # Said to be TCP, as uvicorn's own would be: else asyncio leaves Nagle's algorithm on.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen(2_048)
    sys.stdout.write(f"{listener.getsockname()[1]}\n")
    sys.stdout.flush()

    def end_with_stdin() -> None:
        sys.stdin.read()
        os._exit(0)

    threading.Thread(target=end_with_stdin, daemon=True).start()
    uvicorn.Server(uvicorn.Config(app, log_level="critical")).run([listener])
