"""docs/rpc.md, from the rows of methods (``make docs``)."""

from __future__ import annotations

from typing import Final

from edged.surfaces.rpc.methods import METHOD_TABLE
from edged.surfaces.rpc.own_methods import ANYTHING, Schema

HEAD: Final = """# The RPC interface

<!-- Made by `make docs` from edged/surfaces/rpc/reference.py; do not edit. -->

The RPC interface lets programs of the owner do everything that the engine can do; the command line
uses it. Get the status of the engine:

```sh
curl -s -H 'Content-Type: application/json' http://127.0.0.1:8766/rpc \\
  -d '{"jsonrpc": "2.0", "id": 1, "method": "get_status", "params": {}}'
```

**Requests.** Send `POST /rpc` to `127.0.0.1:RPC_PORT`, with one JSON-RPC 2.0 request and
`Content-Type: application/json`. The port in use is in `STATE_DIR/engine.json`.

**Who can call.** If INBOUND_AUTH_TOKEN is set: callers with `Authorization: Bearer <token>` (others
get 401). If it is not set: callers on loopback with a loopback Host. A request with an Origin other
than this port's own gets 403, also one of another port of this machine; there is no CORS. The same
applies to `/events`, `/healthz` and `/metrics`. Every call has a row in the audit log
(docs/audit.md), including refused ones.

**Answers.** The result of the method, or a JSON-RPC error: -32601 for an unknown method, -32602 for
everything that could not be done (`error.data` is {code, message, remedy, data}), -32603 for a bug
in edged, with an id that is in the log. A tool returns {is_error, result, error?}, so a failed call
also has its result.

## Methods

Every tool is a method with the same name, and its arguments are the params. Null for an optional
argument means that it is omitted. In addition there are these methods:
"""

TAIL: Final = """
## `/events`: events of the engine

This is a WebSocket. Send `{"jsonrpc": "2.0", "id": 1, "method": "subscribe", "params": {"topics":
["audit"]}}` (and `unsubscribe`), or name topics in the URL: `/events?topics=instrument,sweep`.
Events come as notifications:
`{"method": "event", "params": {"topic", "event", "time_ms", "data"}}`.

| topic | events |
|---|---|
| instrument | `arrived`, `left`, `changed` with the instrument; `lockouts` with all lockouts |
| sweep | `changed` with the sweep's status |
| stream | `started`, `point` (with its `number` from 1), `ended` with the stream's id |
| audit | `row` with each row when it is on disk |
| value | `values`, at most four times a second: a list of measurements by any caller |

A measurement is {instrument_id, command, value, unit, time_ms}; some have `parameters`, `column`.
At most a thousand events wait for a reader. Further events are not sent, but counted:
`{"method": "missed", "params": {"count", "topics": {topic: count}}}`. 64 readers may be connected.

## `/proof`: is it the engine?

After an engine has died, any program of this machine can listen on its port. Before you send
INBOUND_AUTH_TOKEN, request `GET /proof?nonce=N` without it, on the same connection. N is 64 random
hexadecimal digits. The engine answers with the hexadecimal HMAC-SHA256 of the text
`edged-rpc 127.0.0.1:PORT N`; the key is the text in `STATE_DIR/rpc_key`, which only the engine's
user can read. Compare it. The command line does this before it sends the token or the id of a
lease.

While another program has the port, `rpc_port` in `engine.json` is null and `rpc_error` says why.

## `/alive`, `/healthz` and `/metrics`

`GET /alive` answers 204 to everybody, without content and without a row; the supervisor requests it
every second. `GET /healthz` answers 200 with {status: ok or degraded, version, uptime_s, store,
loop_lag_s} while the engine is running; degraded means that the database cannot be written.
`GET /metrics` is in Prometheus' text format:

| family | |
|---|---|
| `edged_info` | the version that runs |
| `edged_calls` | attempts on the command path, by kind, route and outcome |
| `edged_tool_calls` | calls of tools from outside, by tool and outcome |
| `edged_call_duration_seconds` | how long attempts took, by kind |
| `edged_faults` | bugs of edged that callers met |
| `edged_instruments` | listed instruments by their `state`, as list_instruments tells it |
| `edged_lockouts` | instruments locked out |
| `edged_interlocks_tripped` | interlocks that have tripped and were not cleared |
| `edged_units_told_on` | units that were switched on and not confirmed off since |
| `edged_sessions`, `edged_mcp_connections` | MCP sessions, open connections of the MCP endpoint |
| `edged_event_readers` | readers of `/events` |
| `edged_streams`, `edged_sweeps` | those that run |
| `edged_event_loop_lag_seconds` | how long the event loop took to answer, last |
| `edged_event_loop_worst_lag_seconds` | the longest it ever took |
| `edged_audit_rows_waiting` | rows of the audit log that are not on disk yet |
| `edged_audit_lag_seconds` | age of the oldest of them |
| `edged_audit_rows_lost` | rows that were only counted |
| `edged_store_healthy` | 1 while the database can be written |
"""


def reference() -> str:
    """docs/rpc.md."""
    parts = [HEAD]
    for name, method in METHOD_TABLE.items():
        parts.append(f"\n### `{name}`\n\n{method.sentence}\n")
        properties = method.schema.get("properties", {})
        required = set(method.schema.get("required", ()))
        if properties:
            parts.append("\n| parameter | type | |\n|---|---|---|\n")
            parts += [
                _row(parameter, schema, is_required=parameter in required)
                for parameter, schema in properties.items()
            ]
        elif method.schema is ANYTHING:
            parts.append("\nParameters: the tool's arguments.\n")
        parts.append(f"\nResult: {method.result}\n")
    return "".join((*parts, TAIL))


def _row(name: str, schema: Schema, *, is_required: bool) -> str:
    needed = " (required)" if is_required else ""
    return f"| {name}{needed} | {schema['type']} | {schema.get('description', '')} |\n"


if __name__ == "__main__":
    import sys

    sys.stdout.write(reference())
