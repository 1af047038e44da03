"""Names and attributes of what is told about an MCP operation. Pure.

Source: OpenTelemetry semantic conventions for generative AI, "Model Context Protocol" (status
development, as of August 2026); W3C Trace Context for ``traceparent``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from edged.record import record

DURATION: Final = "mcp.server.operation.duration"
DURATION_BUCKETS_S: Final = (
    0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0,
)  # fmt: skip
TOOL_ERROR: Final = "tool_error"
"""``error.type`` of a tool's result that is an error."""
MOST_CHARACTERS: Final = 512
"""What is taken of a text that a client sent: its id, its trace state."""
TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
CARRIED: Final = ("traceparent", "tracestate", "baggage")


@record
class OperationFacts:
    """One request, as telemetry tells of it.

    Attributes:
        tool: the tool that is called; empty for other methods, and for one that does not exist,
            so that no stranger's text becomes a name or a series of the histogram.
        request_id: the JSON-RPC id.
        resource_uri: of what is read.
        client: peer address.
        carrier: ``_meta`` of the request, with what it is a part of.
    """

    method: str
    tool: str = ""
    request_id: object = None
    protocol_version: str = ""
    session_id: str = ""
    resource_uri: str = ""
    client: str = ""
    carrier: Mapping[str, Any] | None = None


def span_name(facts: OperationFacts) -> str:
    """``{mcp.method.name} {gen_ai.tool.name}``."""
    return f"{facts.method} {facts.tool}" if facts.tool else facts.method


def measured_by(facts: OperationFacts) -> dict[str, str]:
    """Attributes of few values: those by which durations are told apart."""
    told = {
        "mcp.method.name": facts.method,
        "mcp.protocol.version": facts.protocol_version,
        "network.transport": "tcp",
        "network.protocol.name": "http",
    }
    if facts.tool:
        told["gen_ai.tool.name"] = facts.tool
        told["gen_ai.operation.name"] = "execute_tool"
    return {name: value for name, value in told.items() if value}


def attributes_of(facts: OperationFacts) -> dict[str, str]:
    """Attributes of the span."""
    told = {
        "mcp.session.id": facts.session_id,
        "mcp.resource.uri": facts.resource_uri[:MOST_CHARACTERS],
        "client.address": facts.client,
        "jsonrpc.request.id": "" if facts.request_id is None else str(facts.request_id),
    }
    return measured_by(facts) | {
        name: value[:MOST_CHARACTERS] for name, value in told.items() if value
    }


def carrier_of(meta: object) -> dict[str, str]:
    """What a request says it is a part of (SEP-414); empty where that is nothing that is one."""
    if not isinstance(meta, Mapping):
        return {}
    parent = meta.get("traceparent")
    if not isinstance(parent, str) or TRACEPARENT.fullmatch(parent) is None:
        return {}
    found = {name: meta.get(name) for name in CARRIED}
    return {
        name: text
        for name, text in found.items()
        if isinstance(text, str) and len(text) <= MOST_CHARACTERS
    }
