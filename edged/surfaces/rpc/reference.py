"""``METHOD_TABLE``: what each of the daemon's own methods takes and gives, for checks and readers.

docs/rpc.md is made from it (``make docs``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType
from typing import Any, Final

from edged.actions.action import Check
from edged.actions.outcome import OutcomeStatus
from edged.profiles.arguments import Given, compile_given, compile_schema
from edged.record import record
from edged.runs.run_head import RunKind

Schema = dict[str, Any]


@record(kw_only=False)
class Method:
    """One method.

    Attributes:
        sentence: what it does.
        result: what it answers.
        schema: JSON Schema of its parameters.
        check: that schema, compiled; raises ``Invalid``.
        given: takes out what is optional and null, before the check.
    """

    sentence: str
    result: str
    schema: Schema
    check: Check = field(compare=False)
    given: Given = field(default=lambda params: params, compare=False)


def _text(description: str, most: int = 500, **more: Any) -> Schema:
    return {"type": "string", "maxLength": most, "description": description, **more}


def _whole(description: str, lowest: int, highest: int) -> Schema:
    return {
        "type": "integer",
        "minimum": lowest,
        "maximum": highest,
        "description": description,
    }


INSTRUMENT: Final = _text("the instrument's id, alias, serial number or address", minLength=1)
FAR_AHEAD: Final = 1 << 53
FILTER: Final[Mapping[str, Schema]] = MappingProxyType(
    {
        "instrument": _text("only rows of the instrument with this id"),
        "since_ms": _whole("only rows from then on (Unix epoch, ms)", 0, FAR_AHEAD),
        "until_ms": _whole("only rows up to then (Unix epoch, ms)", 0, FAR_AHEAD),
        "caller": _text("a session, address, subject, client, route, sweep, stream or sequence"),
        "tool": _text("only rows of this tool or method"),
        "outcome": _text(
            "only rows with this outcome", enum=["", *(status.value for status in OutcomeStatus)]
        ),
        "after": _whole("only rows with a greater number, oldest first", 0, FAR_AHEAD),
    }
)
ANYTHING: Final[Schema] = {"type": "object", "additionalProperties": True}
TOOL_ANSWER: Final = (
    "{is_error, result, error?: {code, message, remedy, data}, "
    "pictures?: [{mime, encoding, content}]}"
)


def _entry(
    name: str, sentence: str, result: str, /, *required: str, **properties: Schema
) -> tuple[str, Method]:
    schema: Schema = {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }
    check, given = compile_schema(name, schema), compile_given(schema)
    return name, Method(sentence, result, schema, check, given)


RESTART: Final = (
    "{state: none, waiting, restarting, given_up or cancelled; under_way: [text], left_s}"
)

METHOD_TABLE: Final[Mapping[str, Method]] = MappingProxyType(
    dict(
        (
            _entry("version", "Says which edged runs.", "{version}"),
            _entry("methods", "Names the daemon's own methods.", "{methods}"),
            _entry("tools/list", "Lists the tools with their input schemas.", "{tools}"),
            _entry(
                "tools/call",
                "Calls a tool. Each tool is also a method by its own name.",
                TOOL_ANSWER,
                "name",
                name=_text("the tool"),
                arguments=ANYTHING,
            ),
            (
                "status",
                Method("The tool get_status.", TOOL_ANSWER, ANYTHING, lambda _: None),
            ),
            (
                "instruments",
                Method("The tool list_instruments.", TOOL_ANSWER, ANYTHING, lambda _: None),
            ),
            ("scan", Method("The tool scan_instruments.", TOOL_ANSWER, ANYTHING, lambda _: None)),
            ("stop", Method("The tool bench__stop_all.", TOOL_ANSWER, ANYTHING, lambda _: None)),
            *(
                (
                    f"leases.{verb}",
                    Method(f"The tool bench__{verb}.", TOOL_ANSWER, ANYTHING, lambda _: None),
                )
                for verb in ("reserve", "renew", "release")
            ),
            _entry(
                "leases.list",
                "Lists what is reserved, with the ids: who has one has the instruments.",
                "{leases: [{lease_id, who, purpose, instruments, granted_ms, expires_ms}]}",
            ),
            _entry(
                "leases.break",
                "Ends a lease without its holder. There is no tool for this: only the owner does "
                "it, at the edge itself.",
                "{instruments, who}: what was ended",
                "lease_id",
                "reason",
                "by",
                lease_id=_text("its id, or an instrument that it reserves", minLength=1),
                reason=_text("why; written to the audit log", minLength=1),
                by=_text("who says so", 100, minLength=1),
            ),
            _entry(
                "approvals.list",
                "Lists what waits for a person's yes. `text` is what that person is shown "
                "everywhere: every line, or ranges that describe every line.",
                "{approvals: [{approval_id, instrument_id, instrument, tool, text, line_count, "
                "digest, who, ways, remark, expires_ms}]}; `remark` says why it cannot be answered "
                "by a way that the owner named",
            ),
            _entry(
                "approvals.show",
                "Gives every line of one question, 1000 at a time. A line that stands for many "
                "steps of a sweep says so.",
                "the question, with `lines`; `next_offset` where there are more",
                "approval_id",
                approval_id=_text("of the question", minLength=1),
                offset=_whole("the first line, from 0", 0, 1_000_000),
            ),
            *(
                _entry(
                    f"approvals.{verb}",
                    f"{meaning} There is no tool for this: a person does it, at the edge itself. "
                    "The first answer counts.",
                    "the question, with `verdict`",
                    "approval_id",
                    "by",
                    approval_id=_text("of the question", minLength=1),
                    by=_text("who says so", 100, minLength=1),
                )
                for verb, meaning in (
                    ("approve", "Lets what was asked about go out, exactly so and once."),
                    ("deny", "Refuses what was asked about."),
                )
            ),
            _entry(
                "audit.list",
                "Lists rows of the audit log, oldest first: the newest that fit, unless `after` is "
                "given.",
                "{rows}",
                limit=_whole("how many at most (100)", 1, 10_000),
                **FILTER,
            ),
            _entry(
                "audit.verify",
                "Walks the whole chain and says whether it is intact.",
                "{is_intact, rows, first_seq, last_seq, head_hash, problem_count, problems}",
            ),
            _entry(
                "audit.export",
                "Gives rows as text, a page at a time: ask again with `after` = `next_after`.",
                "{text, next_after: number or null}",
                format=_text("jsonl (the default) or csv", enum=["jsonl", "csv"]),
                **FILTER,
            ),
            _entry(
                "lockout.set",
                "Locks an instrument out at once, then stops what runs on it. Until that is "
                "cleared every write but safe commands is refused with the reason. Units that tell "
                "one serial number are locked out together.",
                "{instrument_id, unit, reason, by, since_ms, instrument_ids, is_present, "
                "is_persisted, remark, stopped, failures}",
                "instrument_id",
                "reason",
                "by",
                instrument_id=INSTRUMENT,
                reason=_text("the reason; shown to everybody who is refused", minLength=1),
                by=_text("who says so", 100, minLength=1),
            ),
            _entry(
                "lockout.clear",
                "Lifts a lockout. There is no tool for this: whoever locked it out does it here, "
                "at the edge itself.",
                "{instrument_id, unit, reason, by, since_ms, still_locked}: what was lifted",
                "instrument_id",
                instrument_id=INSTRUMENT,
            ),
            _entry(
                "stop.seen_off",
                "Takes back the doubt about an instrument that was told to switch an output on "
                "and cannot report that it is off: a person has looked. There is no tool for "
                "this.",
                "{instrument_id, outputs}: what was in doubt",
                "instrument_id",
                "by",
                instrument_id=INSTRUMENT,
                by=_text("who has looked", 100, minLength=1),
            ),
            _entry(
                "discovery",
                "How the buses are looked at, what was set aside and why, which profiles tie, "
                "which units tell one serial number, and every unit met since the start.",
                "{buses, hotplug, scans, rescan_interval_s, ties, twins, warnings, set_aside, "
                "seen: [{instrument_id, serial, serial_told, names, profile_name}]}",
            ),
            _entry(
                "restart.begin",
                "Restarts engine and supervisor as soon as nothing is under way; gives that up "
                "after a while. Only with a supervisor.",
                RESTART,
                within_s=_whole("give up after so many seconds (3600)", 1, 86_400),
            ),
            _entry(
                "restart.status",
                "How far that is; answers when it has changed, or after `wait_s`.",
                RESTART,
                wait_s=_whole("how long to wait for a change (0)", 0, 60),
            ),
            _entry("restart.cancel", "Takes it back.", RESTART),
            _entry(
                "relay.refresh_keys",
                "Fetches the issuer's keys now; one that is withdrawn there is no longer valid.",
                "{keys, age_s, error}",
            ),
            _entry("lockout.list", "Lists what is locked out.", "{lockouts}"),
            _entry(
                "trace",
                "The last exchanges on an instrument's line, oldest first.",
                "{instrument_id, exchanges: [{timestamp_ms, direction, text, bytes}]}",
                "instrument_id",
                instrument_id=INSTRUMENT,
            ),
            _entry(
                "runs.list",
                "Lists recordings, newest first.",
                "{runs}",
                limit=_whole("how many at most (100)", 1, 10_000),
                kind=_text(
                    "sweep, stream, sequence or experiment",
                    enum=["", *(kind.value for kind in RunKind)],
                ),
                instrument=_text("only recordings of this instrument"),
            ),
            _entry(
                "runs.show",
                "One recording: what its meta.json says, and its last rows.",
                "the recording",
                "run_id",
                run_id=_text("its id"),
                rows=_whole("how many rows at most (10)", 0, 10_000),
            ),
            _entry(
                "runs.export",
                "A recording's data, a piece at a time: ask again with `offset`.",
                "the piece",
                "run_id",
                run_id=_text("its id"),
                format=_text("csv (the default), jsonl, npz, nc, junit or openhtf"),
                offset=_whole("where to go on", 0, 1 << 62),
            ),
            _entry(
                "runs.draw",
                "A recording as a picture: its rows, or the newest of its waveforms.",
                "{run_id, mime, encoding, content}",
                "run_id",
                run_id=_text("its id"),
                x=_text("the column along the bottom"),
                y={"type": "array", "items": {"type": "string"}, "description": "columns to draw"},
            ),
            _entry(
                "runs.report",
                "A recording as one file for those who were not there: plots, units, settings, "
                "limits, who and when, the hashes of its data and of its rows in the audit log. At "
                "most 16 MiB.",
                "{run_id, format, name, mime, encoding, content}",
                "run_id",
                run_id=_text("its id"),
                format=_text("html, the only one", enum=["html"]),
            ),
            _entry("runs.status", "How recording is: budget, what is open.", "the status"),
            _entry(
                "streams.show",
                "State of a stream, with its newest points.",
                "the stream",
                "stream_id",
                stream_id=_text("its id"),
                after=_whole("only points with a greater number", 0, 1 << 62),
            ),
            _entry(
                "pictures.show",
                "A captured picture that was too large for a tool's result.",
                "{picture_id, mime, encoding, content}",
                "picture_id",
                picture_id=_text("its id, which the result told"),
            ),
        )
    )
)

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
