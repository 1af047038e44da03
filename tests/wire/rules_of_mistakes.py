"""What official servers were seen to get wrong, and ours must not. Cases for ``test_mcp_rules``."""

from __future__ import annotations

from tests.bench.mcp_client import OMIT
from tests.bench.mcp_rules import (
    ANY,
    LEGACY,
    V03,
    V06,
    V11,
    Case,
    call,
    error,
    initialize,
    modern_case,
    result,
)

PING = call("ping")
JSON = {"content-type": "application/json"}

MISTAKES = [
    Case(
        rule="mistake.no-batches",
        name="2025-03-26 must accept them",
        session=V03,
        message=[call("ping", 1), call("ping", 2)],
        body=[[result(1), result(2)]],
    ),
    Case(
        rule="mistake.null-id",
        name="not taken for a notification",
        message=call("ping", None),
        status=400,
        body=error(-32600, None),
    ),
    *(
        Case(
            rule="mistake.unknown-tool",
            name=f"a protocol error in {version}",
            session=version,
            message=call("tools/call", name="nope"),
            body=error(-32602),
        )
        for version in LEGACY
    ),
    *(
        modern_case(
            "mistake.routed-by-header",
            f"{header} over a modern body is no missing session",
            call("tools/list"),
            more={"MCP-Protocol-Version": value},
            status=400,
            body=error(-32020),
        )
        for header, value in {"2025-11-25": V11, "no header": OMIT}.items()
    ),
    *(
        Case(
            rule="mistake.list-changed-undeclared",
            name=version,
            message=initialize(version),
            body=result(capabilities={"tools": {"listChanged": True}}),
        )
        for version in LEGACY
    ),
    *(
        Case(
            rule="mistake.plain-text-refusals",
            name=name,
            message=PING,
            headers=headers,
            status=status,
            body=error(-32600, None),
            has=JSON,
        )
        for name, headers, status in (
            ("Origin", {"Origin": "http://evil.example"}, 403),
            ("Host", {"Host": "evil.example"}, 403),
            ("Content-Type", {"Content-Type": "text/plain"}, 415),
            ("Accept", {"Accept": "image/png"}, 406),
        )
    ),
    Case(
        rule="mistake.origin-prefix",
        name="the host is behind the @",
        message=PING,
        headers={"Origin": "http://localhost:8767@evil.example"},
        status=403,
        body=error(-32600, None),
    ),
    Case(
        rule="mistake.content-type-case",
        name="media types have none",
        message=PING,
        headers={"Content-Type": "Application/JSON; Charset=UTF-8"},
        body=result(),
    ),
    *(
        Case(
            rule="mistake.bad-json-accepted",
            name=name,
            message=body,
            status=400,
            body=error(-32700, None),
        )
        for name, body in {
            "NaN": b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":NaN}}',
            "-Infinity": b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":-Infinity}}',
            "bad UTF-8": b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"\xff"}}',
        }.items()
    ),
    Case(
        rule="mistake.shape-code",
        name="-32600, not -32602",
        message={"jsonrpc": "2.0", "id": 7, "method": 1},
        status=400,
        body=error(-32600),
    ),
    *(
        Case(
            rule="mistake.late-batches",
            name=f"{version} has none",
            session=version,
            message=[PING],
            status=400,
            body=error(-32600, None),
        )
        for version in (V06, V11)
    ),
    Case(
        rule="mistake.initialize-in-a-batch",
        name="opens no session",
        message=[initialize(V03)],
        status=400,
        body=error(-32600),
        has={"mcp-session-id": None},
    ),
    Case(
        rule="mistake.initialize-without-params",
        name="is the client's fault, not ours",
        message=call("initialize"),
        body=error(-32602),
    ),
    Case(
        rule="mistake.html",
        name="a parse error is JSON",
        message=b"<html>",
        status=400,
        body=error(-32700, None),
        has=JSON,
    ),
    Case(
        rule="mistake.unknown-session-400",
        name="404, so that clients initialize again",
        message=PING,
        headers={"Mcp-Session-Id": "gone"},
        status=404,
        body=error(-32600),
    ),
    Case(
        rule="mistake.stateless-legacy",
        name="initialize opens a session",
        message=initialize(V11),
        body=result(protocolVersion=V11),
        has={"mcp-session-id": ANY},
    ),
]
