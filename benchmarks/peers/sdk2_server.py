"""A server of the official Python SDK 2.x with its defaults; run in an environment of its own."""

from __future__ import annotations

from mcp.server import MCPServer
from mcp.server.mcpserver import Context

from benchmarks.peers.python_tools import add_many, add_tools, point, serve, start

bench, more_tools = start()
server = MCPServer("peer")
add_tools(server.add_tool, bench)
add_many(server.add_tool, more_tools)


@server.tool()
async def report(events: int, ctx: Context) -> dict[str, int]:  # type: ignore[type-arg]
    """Report as fast as it can."""
    for number in range(1, events + 1):
        await ctx.report_progress(number, None, point(number))
    return {"count": events}


serve(server.streamable_http_app())
