"""Rules of every revision: HTTP, JSON-RPC, origins. Cases for ``test_mcp_rules``."""

from __future__ import annotations

import json
from typing import Any

from tests.bench.mcp_client import OMIT
from tests.bench.mcp_rules import (
    ANY,
    EMPTY,
    LEGACY,
    V03,
    V06,
    V11,
    Case,
    call,
    error,
    modern_case,
    note,
    result,
)

JSON = {"content-type": "application/json"}
PING = call("ping")

UNUSABLE_ORIGINS = {
    "foreign": "http://evil.example.com",
    "null": "null",
    "ours with a foreign host behind an @": "http://localhost:8767@evil.example",
    "ours as a prefix": "http://localhost.evil.example",
}

HTTP = [
    *(
        Case(
            rule="http.origin",
            name=f"{name}, {verb}",
            verb=verb,
            message=PING,
            headers={"Origin": origin},
            status=403,
            body=error(-32600, None),
            has=JSON,
        )
        for name, origin in UNUSABLE_ORIGINS.items()
        for verb in ("POST", "GET", "DELETE")
    ),
    modern_case(
        "http.origin",
        "foreign, modern",
        call("tools/list"),
        more={"Origin": "http://evil.example.com"},
        status=403,
        body=error(-32600, None),
    ),
    Case(
        rule="http.origin",
        name="a loopback one is served",
        message=PING,
        headers={"Origin": "http://localhost:3000"},
        body=result(),
    ),
    Case(
        rule="http.origin",
        name="its own is served",
        message=PING,
        headers={"Host": "10.0.0.9:8767", "Origin": "http://10.0.0.9:8767"},
        body=result(),
    ),
    *(
        Case(
            rule="http.origin",
            name=f"a page of another loopback port, {verb}",
            verb=verb,
            message=PING,
            headers={"Origin": "http://localhost:3000", "Sec-Fetch-Site": "same-site"},
            status=403,
            body=error(-32600, None),
            has=JSON,
        )
        for verb in ("POST", "GET", "DELETE")
    ),
    Case(
        rule="http.host",
        name="a foreign name",
        message=PING,
        headers={"Host": "evil.example.com"},
        status=403,
        body=error(-32600, None),
        has=JSON,
    ),
    *(
        Case(
            rule="http.content-type",
            name=name,
            message=PING,
            headers={"Content-Type": value},
            status=415,
            body=error(-32600, None),
            has=JSON,
        )
        for name, value in {
            "none": OMIT,
            "text": "text/plain",
            "a form, as a web page may send it": "application/x-www-form-urlencoded",
        }.items()
    ),
    Case(
        rule="http.content-type",
        name="in capitals, with a charset",
        message=PING,
        headers={"Content-Type": "Application/JSON; Charset=UTF-8"},
        body=result(),
    ),
    *(
        Case(
            rule="http.accept",
            name=value,
            message=PING,
            headers={"Accept": value},
            body=result(),
            has={"content-type": kind},
        )
        for value, kind in {
            "*/*": "application/json",
            "application/json": "application/json",
            "text/event-stream": "text/event-stream",
            "application/json, text/event-stream": "application/json",
        }.items()
    ),
    Case(
        rule="http.accept",
        name="neither form",
        message=PING,
        headers={"Accept": "text/html"},
        status=406,
        body=error(-32600, None),
    ),
    *(
        Case(
            rule="http.verbs",
            name=verb,
            verb=verb,
            status=405,
            body=error(-32600, None),
            has={"allow": "GET, POST, DELETE", **JSON},
        )
        for verb in ("PUT", "PATCH", "OPTIONS", "TRACE")
    ),
    Case(
        rule="http.size",
        name="a body over 4 MiB",
        message=b" " * (4 * 1024 * 1024 + 1),
        status=413,
        body=error(-32600, None),
    ),
    Case(
        rule="http.size",
        name="nesting over 64 levels",
        message=b"[" * 10_000,
        status=400,
        body=error(-32700, None),
    ),
    Case(
        rule="http.size",
        name="over 20,000 values",
        message=b"[" + b"1," * 20_000 + b"1]",
        status=400,
        body=error(-32700, None),
    ),
]

NO_JSON = {
    "nothing": b"",
    "cut": b'{"jsonrpc":"2.0",',
    "no UTF-8": b'{"jsonrpc":"2.0","id":1,"method":"\xff"}',
    "UTF-16": json.dumps(PING).encode("utf-16"),
    "NaN": b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":NaN}}',
    "Infinity": b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":Infinity}}',
    "a number that is no finite one": b'{"jsonrpc":"2.0","id":1e400,"method":"ping"}',
}
NO_ID: dict[str, Any] = {
    "null": None,
    "true": True,
    "a fraction": 1.5,
    "a list": [],
    "an object": {},
}
NO_MESSAGE: dict[str, tuple[Any, Any]] = {
    "a number": (1, None),
    "a text": ("ping", None),
    "an empty object": ({}, None),
    "without a version": ({"id": 7, "method": "ping"}, 7),
    "another version": ({"jsonrpc": "1.0", "id": 7, "method": "ping"}, 7),
    "a method that is no text": ({"jsonrpc": "2.0", "id": 7, "method": 1}, 7),
    "call and answer at once": ({"jsonrpc": "2.0", "id": 7, "method": "ping", "result": {}}, 7),
}

JSON_RPC = [
    *(
        Case(
            rule="rpc.parse-error",
            name=name,
            message=message,
            status=400,
            body=error(-32700, None),
            has=JSON,
        )
        for name, message in NO_JSON.items()
    ),
    *(
        Case(
            rule="rpc.id",
            name=f"{name} is refused and no notification",
            message=call("ping", bad),
            status=400,
            body=error(-32600, None),
            has=JSON,
        )
        for name, bad in NO_ID.items()
    ),
    *(
        Case(
            rule="rpc.id",
            name=f"{good!r} comes back as it was",
            message=call("ping", good),
            body={"id": good, "result": {}},
        )
        for good in (0, -1, 2**53, "", "7", "Ω")
    ),
    *(
        Case(
            rule="rpc.shape",
            name=name,
            message=message,
            status=400,
            body=error(-32600, request_id),
            has=JSON,
        )
        for name, (message, request_id) in NO_MESSAGE.items()
    ),
    *(
        Case(
            rule="rpc.notification",
            name=f"{name}, {version}",
            session=version,
            message=message,
            status=202,
            body=EMPTY,
        )
        for version in LEGACY
        for name, message in {
            "initialized": note("notifications/initialized"),
            "unknown": note("notifications/unheard_of"),
            "a client's answer": {"jsonrpc": "2.0", "id": 5, "result": {}},
            "a client's error": {"jsonrpc": "2.0", "id": 5, "error": {"code": 1, "message": "x"}},
        }.items()
    ),
    *(
        Case(
            rule="rpc.unknown-method",
            name=f"{method}, {version}",
            session=version,
            message=call(method),
            body=error(-32601),
        )
        for version in (V03, V06, V11)
        for method in ("nonsense", "logging/setLevel", "tasks/list")
    ),
    *(
        Case(
            rule="rpc.params",
            name=name,
            message={"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params},
            status=400,
            body=error(-32602),
        )
        for name, params in {
            "positional": ["echo"],
            "text": "x",
            "number": 5,
            "false": False,
        }.items()
    ),
    *(
        Case(
            rule="rpc.params",
            name=f"null is absent, {session or 'no session'}",
            session=session,
            message={"jsonrpc": "2.0", "id": 7, "method": "tools/list", "params": None},
            body=result(tools=ANY),
        )
        for session in ("", *LEGACY)
    ),
    Case(
        rule="rpc.params",
        name="null is absent in a notification",
        session=V11,
        message={"jsonrpc": "2.0", "method": "notifications/initialized", "params": None},
        status=202,
        body=EMPTY,
    ),
    Case(
        rule="rpc.byte-order-mark",
        name="before a ping",
        message=b"\xef\xbb\xbf" + json.dumps(PING).encode(),
        body=result(),
    ),
    Case(
        rule="rpc.params",
        name="initialize without any",
        message=call("initialize"),
        body=error(-32602),
    ),
    Case(
        rule="tools.unknown",
        name="no session",
        message=call("tools/call", name="nope"),
        body=error(-32602),
    ),
    *(
        Case(
            rule="tools.unknown",
            name=version,
            session=version,
            message=call("tools/call", name="nope"),
            body={"error": {"code": -32602, "message": ANY}},
        )
        for version in LEGACY
    ),
]
