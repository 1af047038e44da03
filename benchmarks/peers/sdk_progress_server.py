"""A server of the official Python SDK 1.x with the same tool.

Run in a virtual environment of its own. Stateless, which is the lightest it can be; prints its
port, ends with standard input.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading

import uvicorn
from mcp.server.fastmcp import Context, FastMCP

server = FastMCP("peer", stateless_http=True)


@server.tool()
async def report(events: int, ctx: Context) -> dict[str, int]:  # type: ignore[type-arg]
    """Report as fast as it can."""
    for number in range(1, events + 1):
        point = {"value": number / 7, "unit": "V", "timestamp_ms": 1_790_000_000_000 + number}
        await ctx.report_progress(number, None, json.dumps(point, separators=(",", ":")))
    return {"count": events}


def end_with_stdin() -> None:
    sys.stdin.read()
    os._exit(0)


listener = socket.create_server(("127.0.0.1", 0))
sys.stdout.write(f"{listener.getsockname()[1]}\n")
sys.stdout.flush()
threading.Thread(target=end_with_stdin, daemon=True).start()
uvicorn.Server(uvicorn.Config(server.streamable_http_app(), log_level="critical")).run([listener])
