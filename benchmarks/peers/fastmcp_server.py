"""A server of ``fastmcp`` with its defaults; run in an environment of its own."""

from __future__ import annotations

from fastmcp import FastMCP

from benchmarks.peers.python_tools import add_tools, serve, start

bench, _ = start()
server = FastMCP("peer")
add_tools(server.tool, bench)
serve(server.http_app())
