"""The MCP endpoint over one tool that reports as fast as it can.

Prints its port, ends with its standard input.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from edged.actions.action import Progress
from edged.actions.tool import ToolCall
from tests.bench.mcp_endpoint import running_endpoint

YIELD_EVERY = 50
ENCODE = json.JSONEncoder(separators=(",", ":")).encode


async def _report(call: ToolCall) -> Any:
    """What a stream does for each point: the point as JSON, with the stream's id."""
    wanted = int(call.arguments["events"])
    for number in range(1, wanted + 1):
        point = {"value": number / 7, "unit": "V", "timestamp_ms": 1_790_000_000_000 + number}
        if call.progress is not None:
            meta = {"stream_id": "mcp-0123456789"}
            call.progress(Progress(progress=number, message=ENCODE(point), meta=meta))
        if number % YIELD_EVERY == 0:
            await asyncio.sleep(0)
    return {"count": wanted}


async def main() -> None:
    async with running_endpoint() as endpoint:
        endpoint.tools.add("report", _report)
        sys.stdout.write(f"{endpoint.port}\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
