"""MCP Apps: which tools are shown by which page, and how a client is told. Pure.

An app is one HTML file that a host puts into a frame of the chat; it has its data by ``tools/call``
over postMessage, and nothing else. A host that knows none of this shows the tool's text.

Source: SEP-1865, ``modelcontextprotocol/ext-apps``, specification 2026-01-26; docs/app.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from edged.protocol.jsonrpc import JsonObject

EXTENSION: Final = "io.modelcontextprotocol/ui"
MIME_TYPE: Final = "text/html;profile=mcp-app"
BENCH_APP: Final = "ui://edged/bench"
RUN_APP: Final = "ui://edged/run"
_APP_OF: Final[Mapping[str, str]] = MappingProxyType(
    {
        "get_status": BENCH_APP,
        "list_instruments": BENCH_APP,
        "start_sweep": RUN_APP,
        "get_sweep_status": RUN_APP,
        "start_stream": RUN_APP,
        "fetch_waveform": RUN_APP,
        "bench__runs": RUN_APP,
    }
)


def capability() -> JsonObject:
    """``extensions`` of the server's capabilities."""
    return {EXTENSION: {"mimeTypes": [MIME_TYPE]}}


def tool_meta(tool: str) -> JsonObject | None:
    """``_meta`` of a tool's entry in the list; ``None`` where no app shows its results.

    The flat key is what older hosts read.
    """
    uri = _APP_OF.get(tool)
    return {"ui": {"resourceUri": uri}, "ui/resourceUri": uri} if uri else None
