"""Rules of 2026-07-28. Cases for ``test_mcp_rules``."""

from __future__ import annotations

from typing import Any

from tests.bench.mcp_client import CAPABILITIES_KEY, OMIT, VERSION_KEY
from tests.bench.mcp_rules import (
    ANY,
    EMPTY,
    LEGACY,
    V03,
    V11,
    V26,
    Case,
    call,
    error,
    modern_case,
    note,
    result,
)

LIST = call("tools/list")
ECHO = call("tools/call", name="echo", arguments={})
SERVER = {"io.modelcontextprotocol/serverInfo": {"name": "edged", "version": ANY}}


def with_meta(message: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """The message with a ``_meta`` of its own; ``None`` leaves a key out."""
    meta = {VERSION_KEY: V26, CAPABILITIES_KEY: {}} | {
        {"version": VERSION_KEY, "capabilities": CAPABILITIES_KEY}[key]: value
        for key, value in changes.items()
    }
    kept = {key: value for key, value in meta.items() if value is not None}
    return {**message, "params": {**message.get("params", {}), "_meta": kept}}


def headers(version: str = V26, method: str = "tools/list", **more: str) -> dict[str, str]:
    return {"MCP-Protocol-Version": version, "Mcp-Method": method, **more}


RECOGNITION = [
    modern_case("modern.by-meta", "is served", ECHO, body=result(isError=False)),
    *(
        modern_case(
            "modern.by-meta",
            f"over a header of {version or 'nothing'}",
            LIST,
            more={"MCP-Protocol-Version": version or OMIT},
            status=400,
            body=error(-32020),
        )
        for version in ("", V03, V11, "2027-01-01")
    ),
    modern_case(
        "modern.by-meta",
        "over a live session of another revision",
        LIST,
        more={"MCP-Protocol-Version": V11},
        session=V11,
        status=400,
        body=error(-32020),
    ),
    Case(
        rule="modern.by-header",
        name="without meta",
        message=LIST,
        headers=headers(),
        status=400,
        body=error(-32602),
    ),
]

LADDER = [
    Case(
        rule="ladder.1-parse",
        name="no JSON",
        message=b"{",
        headers=headers(),
        status=400,
        body=error(-32700, None),
    ),
    Case(
        rule="ladder.1-parse",
        name="an array",
        message=[with_meta(LIST)],
        headers=headers(),
        status=400,
        body=error(-32600, None),
    ),
    Case(
        rule="ladder.1-parse",
        name="an answer",
        message={"jsonrpc": "2.0", "id": 7, "result": {}},
        headers=headers(),
        status=400,
        body=error(-32600, None),
    ),
    *(
        Case(
            rule="ladder.2-meta",
            name=name,
            message=message,
            headers=headers(),
            status=400,
            body=error(-32602),
        )
        for name, message in {
            "no version": with_meta(LIST, version=None),
            "a version that is no text": with_meta(LIST, version=5),
            "no capabilities": with_meta(LIST, capabilities=None),
            "capabilities that are a list": with_meta(LIST, capabilities=[]),
        }.items()
    ),
    modern_case("ladder.2-meta", "clientInfo may be left out", LIST, body=result(tools=ANY)),
    *(
        modern_case("ladder.3-headers", name, message, more=more, status=400, body=error(-32020))
        for name, message, more in (
            ("no Mcp-Method", LIST, {"Mcp-Method": OMIT}),
            ("another Mcp-Method", LIST, {"Mcp-Method": "tools/call"}),
            ("Mcp-Method in capitals", LIST, {"Mcp-Method": "TOOLS/LIST"}),
            ("no Mcp-Name", ECHO, {"Mcp-Name": OMIT}),
            ("another Mcp-Name", ECHO, {"Mcp-Name": "Echo"}),
            ("broken Base64", ECHO, {"Mcp-Name": "=?base64?ZWNo!!!?="}),
            ("Base64 of something else", ECHO, {"Mcp-Name": "=?base64?ZWNobw?="}),
            ("no Mcp-Name of a resource", call("resources/read", uri="x:y"), {"Mcp-Name": OMIT}),
        )
    ),
    modern_case(
        "header.forms",
        "names in any case",
        LIST,
        more={"Mcp-Method": OMIT, "mCP-mETHOD": "tools/list"},
        body=result(tools=ANY),
    ),
    modern_case(
        "header.forms",
        "blanks around",
        ECHO,
        more={"Mcp-Name": "  echo\t"},
        body=result(isError=False),
    ),
    modern_case(
        "header.forms",
        "in Base64",
        ECHO,
        more={"Mcp-Name": "=?base64?ZWNobw==?="},
        body=result(isError=False),
    ),
    modern_case(
        "header.parameters",
        "repeated",
        call("tools/call", name="marked", arguments={"region": "west"}),
        more={"Mcp-Param-Region": "west"},
        body=result(isError=False),
    ),
    modern_case(
        "header.parameters",
        "null expects none",
        call("tools/call", name="marked", arguments={"region": None}),
        body=result(isError=False),
    ),
    *(
        modern_case(
            "header.parameters",
            name,
            call("tools/call", name="marked", arguments={"region": "west"}),
            more={"Mcp-Param-Region": value},
            status=400,
            body=error(-32020, header="Mcp-Param-Region"),
        )
        for name, value in {"missing": OMIT, "another": "east", "broken": "=?base64?w!?="}.items()
    ),
    *(
        modern_case(
            "era.by-body",
            f"server/discover with the header {header!r}",
            call("server/discover"),
            more={"MCP-Protocol-Version": header},
            body=result(supportedVersions=ANY),
        )
        for header in ("2027-03-01", "2024-11-05", "", V11, OMIT)
    ),
    Case(
        rule="ladder.3-headers",
        name="server/discover of a version that is not served",
        message=with_meta(call("server/discover"), version="v999.0.0"),
        headers=headers(method="server/discover"),
        status=400,
        body=error(-32020),
    ),
    Case(
        rule="ladder.4-version",
        name="unknown, said twice",
        message=with_meta(LIST, version="2027-01-01"),
        headers=headers("2027-01-01"),
        status=400,
        body=error(-32022, supported=[*LEGACY, V26], requested="2027-01-01"),
    ),
    Case(
        rule="ladder.4-version",
        name="one with a handshake",
        message=with_meta(LIST, version=V11),
        headers=headers(V11),
        status=400,
        body=error(-32022, supported=[*LEGACY, V26], requested=V11),
    ),
    Case(
        rule="ladder.4-version",
        name="headers are judged first",
        message=with_meta(LIST, version="2027-01-01"),
        headers=headers("2027-01-01", method="x"),
        status=400,
        body=error(-32020),
    ),
    *(
        modern_case("ladder.5-method", method, call(method), status=404, body=error(-32601))
        for method in (
            "initialize",
            "ping",
            "logging/setLevel",
            "resources/subscribe",
            "resources/unsubscribe",
            "tasks/list",
            "nonsense",
        )
    ),
    modern_case(
        "ladder.7-params",
        "unknown tool",
        call("tools/call", name="nope"),
        status=400,
        body=error(-32602),
    ),
    modern_case(
        "ladder.7-params",
        "bad arguments are a result",
        call("tools/call", name="picky", arguments={"a": 1}),
        body=result(isError=True, resultType="complete"),
    ),
    modern_case(
        "ladder.7-params",
        "a cursor that is none of ours",
        call("tools/list", cursor="x"),
        status=400,
        body=error(-32602),
    ),
    modern_case(
        "resources.not-found",
        "2026-07-28",
        call("resources/read", uri="test://nothing"),
        status=400,
        body=error(-32602),
    ),
]

RESULTS = [
    *(
        modern_case(
            "result.type",
            message["method"],
            message,
            body=result(resultType="complete", _meta=SERVER),
        )
        for message in (
            LIST,
            ECHO,
            call("server/discover"),
            call("resources/list"),
            call("resources/templates/list"),
        )
    ),
    *(
        modern_case(
            "result.caching", message["method"], message, body=result(ttlMs=0, cacheScope="private")
        )
        for message in (
            LIST,
            call("server/discover"),
            call("resources/list"),
            call("resources/templates/list"),
        )
    ),
    modern_case(
        "discover.exists",
        "says all four, and what it can",
        call("server/discover"),
        body=result(
            supportedVersions=[*LEGACY, V26],
            capabilities={"tools": {"listChanged": True}},
        ),
    ),
    modern_case(
        "modern.no-session",
        "a session id is passed over, and none is made",
        ECHO,
        more={"Mcp-Session-Id": "gone", "Last-Event-ID": "x-1"},
        body=result(isError=False),
        has={"mcp-session-id": None},
    ),
    *(
        Case(
            rule="modern.no-get",
            name=verb,
            verb=verb,
            headers={"MCP-Protocol-Version": V26, "Accept": "text/event-stream"},
            status=405,
            body=error(-32600, None),
            has={"allow": "POST"},
        )
        for verb in ("GET", "DELETE")
    ),
    Case(
        rule="modern.notification",
        name="taken and dropped",
        message=note("notifications/cancelled", requestId=1),
        headers=headers(method="notifications/cancelled"),
        status=202,
        body=EMPTY,
    ),
    modern_case(
        "modern.json-first",
        "nothing was notified, so it is JSON",
        ECHO,
        body=result(isError=False),
        has={"content-type": "application/json"},
    ),
]
