"""Rules of the revisions with a handshake. Cases for ``test_mcp_rules``."""

from __future__ import annotations

from tests.bench.mcp_client import OMIT
from tests.bench.mcp_rules import (
    ANY,
    EMPTY,
    LEGACY,
    V03,
    V06,
    V11,
    V24,
    V26,
    Case,
    call,
    error,
    initialize,
    note,
    result,
)

PING = call("ping")
STREAM = {"Accept": "text/event-stream"}

RECOGNITION = [
    *(
        Case(
            rule="era.initialize",
            name=version,
            message=initialize(version),
            body=result(protocolVersion=version, serverInfo={"name": "edged"}),
            has={"mcp-session-id": ANY},
        )
        for version in LEGACY
    ),
    *(
        Case(
            rule="era.initialize",
            name=f"{version} is answered with the newest that has a handshake",
            message=initialize(version),
            body=result(protocolVersion=V11),
        )
        for version in ("2024-10-07", V26, "2099-01-01")
    ),
    Case(
        rule="era.forerunner",
        name="is opened by its own name",
        message=initialize(V24),
        body=result(protocolVersion=V24),
        has={"mcp-session-id": ANY},
    ),
    Case(
        rule="era.forerunner",
        name="has the rules of 2025-03-26, and its own name in the header",
        session=V24,
        message=[PING],
        headers={"MCP-Protocol-Version": V24},
        body=[[result()]],
    ),
    Case(
        rule="era.initialize",
        name="under a modern header",
        message=initialize(V06),
        headers={"MCP-Protocol-Version": V26},
        body=result(protocolVersion=V06),
    ),
    Case(
        rule="era.session-wins",
        name="over a header of another revision",
        session=V06,
        message=[PING],
        headers={"MCP-Protocol-Version": V03},
        status=400,
        body=error(-32600, None),
    ),
    Case(
        rule="era.session-wins",
        name="without any header",
        session=V06,
        message=[PING],
        headers={"MCP-Protocol-Version": OMIT},
        status=400,
        body=error(-32600, None),
    ),
    *(
        Case(
            rule="era.unknown-version",
            name=f"{version!r} in {session or 'no session'}",
            session=session,
            message=PING,
            headers={"MCP-Protocol-Version": version},
            status=400,
            body=error(-32022, supported=[*LEGACY, V26], requested=version),
        )
        for session in ("", *LEGACY)
        for version in ("2027-01-01", "2024-11-05", "1", "")
    ),
    *(
        Case(
            rule="era.by-body",
            name=f"initialize with the header {header!r} and {version}",
            message=initialize(version),
            headers={"MCP-Protocol-Version": header},
            body=result(protocolVersion=V11 if version == "2027-03-01" else version),
        )
        for version in (*LEGACY, V24, "2027-03-01")
        for header in ("2027-03-01", "2024-11-05", "DRAFT-2026-v1", "", V26, V03)
    ),
    Case(
        rule="era.header",
        name="2025-06-18 has no batches",
        message=[PING],
        headers={"MCP-Protocol-Version": V06},
        status=400,
        body=error(-32600, None),
    ),
    Case(
        rule="era.header",
        name="none is 2025-03-26, which has",
        message=[PING],
        body=[[result()]],
    ),
]

BATCHES = [
    Case(
        rule="batch.accepted",
        name="in a session, one array in its order",
        session=V03,
        message=[call("ping", 1), call("nonsense", 2), call("ping", "c")],
        body=[[result(1), error(-32601, 2), result("c")]],
        has={"content-type": "application/json"},
    ),
    Case(
        rule="batch.accepted",
        name="as a stream, a response for each request",
        session=V03,
        message=[call("ping", 1), call("ping", 2)],
        headers={"Accept": "text/event-stream"},
        body=[result(1), result(2)],
        has={"content-type": "text/event-stream"},
    ),
    Case(
        rule="batch.accepted",
        name="bad items are answered beside good ones",
        session=V03,
        message=[1, call("ping", 1)],
        body=[[error(-32600, None), result(1)]],
    ),
    Case(
        rule="batch.notifications",
        name="nothing to answer",
        session=V03,
        message=[note("notifications/initialized"), note("x/y")],
        status=202,
        body=EMPTY,
    ),
    Case(
        rule="batch.no-initialize",
        name="beside others",
        message=[PING, initialize(V03)],
        status=400,
        body=error(-32600),
        has={"mcp-session-id": None},
    ),
    Case(
        rule="batch.no-initialize",
        name="alone",
        message=[initialize(V03)],
        status=400,
        body=error(-32600),
    ),
    Case(rule="batch.empty", name="[]", message=[], status=400, body=error(-32600, None)),
    *(
        Case(
            rule="batch.removed",
            name=f"{version}, {name}",
            session=version,
            message=message,
            status=400,
            body=error(-32600, None),
        )
        for version in (V06, V11)
        for name, message in {"calls": [PING], "notes": [note("x/y")]}.items()
    ),
]

SESSIONS = [
    *(
        Case(
            rule="session.unknown-404",
            name=f"{verb}, {name}",
            verb=verb,
            message=message if verb == "POST" else None,
            headers={"Mcp-Session-Id": "gone", **(STREAM if verb == "GET" else {})},
            status=404,
            body=error(-32600, 7 if verb == "POST" and name == "a call" else None),
        )
        for verb, name, message in (
            ("POST", "a call", PING),
            ("POST", "a notification", note("notifications/initialized")),
            ("POST", "a batch", [PING]),
            ("GET", "a stream", None),
            ("DELETE", "an end", None),
        )
    ),
    Case(
        rule="session.stale-initialize",
        name="a session that is gone",
        message=initialize(V11),
        headers={"Mcp-Session-Id": "gone"},
        body=result(protocolVersion=V11),
        has={"mcp-session-id": ANY},
    ),
    *(
        Case(
            rule="session.id-only-on-initialize",
            name=version,
            session=version,
            message=PING,
            body=result(),
            has={"mcp-session-id": None},
        )
        for version in LEGACY
    ),
    Case(
        rule="session.one-shot",
        name="a tool without a session",
        message=call("tools/call", name="echo", arguments={"a": 1}),
        body=result(isError=False),
        has={"mcp-session-id": None},
    ),
    *(
        Case(
            rule="session.delete",
            name=version,
            session=version,
            verb="DELETE",
            status=200,
            body=EMPTY,
        )
        for version in LEGACY
    ),
    Case(
        rule="get.plain",
        name="no session, no Accept of streams",
        verb="GET",
        headers={"Accept": "*/*"},
        status=400,
        body=error(-32600, None),
    ),
    Case(
        rule="get.plain",
        name="as a browser asks",
        verb="GET",
        headers={"Accept": "text/html"},
        status=406,
        body=error(-32600, None),
    ),
    *(
        Case(rule="ping.empty", name=version, session=version, message=PING, body=result())
        for version in LEGACY
    ),
    *(
        Case(
            rule="request.json",
            name=version,
            session=version,
            message=call("tools/call", name="echo"),
            body=result(content=[{"type": "text", "text": ANY}]),
            has={"content-type": "application/json"},
        )
        for version in LEGACY
    ),
    *(
        Case(
            rule="request.stream",
            name=version,
            session=version,
            message=call("tools/call", name="echo"),
            headers=STREAM,
            body=[result(isError=False)],
            has={"content-type": "text/event-stream", "x-accel-buffering": "no"},
        )
        for version in LEGACY
    ),
]

TOOLS = [
    Case(
        rule="tools.structured",
        name="2025-03-26 has none",
        session=V03,
        message=call("tools/call", name="things"),
        body=result(content=[{"type": "text", "text": '[{"name":"a"},{"name":"b"}]'}]),
    ),
    *(
        Case(
            rule="tools.structured",
            name=f"{version} wraps a list",
            session=version,
            message=call("tools/call", name="things"),
            body=result(structuredContent={"things": [{"name": "a"}, {"name": "b"}]}),
        )
        for version in (V06, V11)
    ),
    *(
        Case(
            rule="tools.bad-arguments",
            name=version,
            session=version,
            message=call("tools/call", name="picky", arguments={"a": 1}),
            body=error(-32602),
        )
        for version in (V03, V06)
    ),
    Case(
        rule="tools.bad-arguments",
        name="2025-11-25: a result, so that a model can correct itself",
        session=V11,
        message=call("tools/call", name="picky", arguments={"a": 1}),
        body=result(isError=True),
    ),
    *(
        Case(
            rule="tools.call-shape",
            name=name,
            session=V11,
            message={"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params},
            body=error(-32602),
        )
        for name, params in {
            "no name": {},
            "a name that is no text": {"name": 7},
            "arguments that are no object": {"name": "echo", "arguments": [1]},
            "a token that is no text and no integer": {
                "name": "echo",
                "_meta": {"progressToken": 1.5},
            },
        }.items()
    ),
    Case(
        rule="resources.not-found",
        name="2025-11-25",
        session=V11,
        message=call("resources/read", uri="test://nothing"),
        body=error(-32002),
    ),
]
