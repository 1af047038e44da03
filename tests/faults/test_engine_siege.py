"""Clients that never read, never come back, never finish their request, all at one engine."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import time
from pathlib import Path

from edged.host import resident_bytes
from tests.bench.engine_process import EngineProcess, engine_process
from tests.promises import promise

SESSIONS = 3_000
SHARE = 1_000
UNREAD_STREAMS = 300
HALF_OPEN = 1_000
REVISION = "2025-06-18"
MOST_MIB = 64
ANSWER_S = 5.0
"""On a machine with nothing else to do it is milliseconds; what is meant is that it does answer."""
MEBIBYTE = 1024 * 1024
JSON = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": REVISION,
        "capabilities": {},
        "clientInfo": {"name": "siege", "version": "1"},
    },
}


class Besieger:
    def __init__(self, engine: EngineProcess, parts: contextlib.ExitStack) -> None:
        self.port = int(engine.ports["mcp_port"])
        self.path = str(engine.ports["mcp_path"])
        self.parts = parts

    def begin_sessions(self, count: int) -> list[str]:
        line = self.parts.enter_context(
            contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=30))
        )
        found = []
        for _ in range(count):
            line.request("POST", self.path, json.dumps(INITIALIZE), JSON)
            answer = line.getresponse()
            answer.read()
            assert answer.status == 200
            found.append(str(answer.headers["Mcp-Session-Id"]))
        return found

    def open_stream_and_never_read(self, session: str) -> None:
        self._send(
            f"GET {self.path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n"
            f"Accept: text/event-stream\r\nMcp-Session-Id: {session}\r\n"
            f"MCP-Protocol-Version: {REVISION}\r\n\r\n"
        )

    def send_half_a_request(self) -> None:
        self._send(
            f"POST {self.path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n"
            "Content-Type: application/json\r\nContent-Length: 4096\r\n\r\n{"
        )

    def _send(self, text: str) -> None:
        line = self.parts.enter_context(socket.create_connection(("127.0.0.1", self.port), 30))
        line.sendall(text.encode())


def mib_of(engine: EngineProcess) -> float:
    return (resident_bytes(engine.process.pid) or 0) / MEBIBYTE


@promise("mcp.siege-is-bounded")
def test_unread_streams_left_sessions_and_half_requests_cost_little_and_hold_nobody_up(
    tmp_path: Path,
) -> None:
    with engine_process(tmp_path, slowness=3) as engine, contextlib.ExitStack() as parts:
        engine.tool("get_status")
        before_mib = mib_of(engine)
        besieger = Besieger(engine, parts)
        sessions = besieger.begin_sessions(SESSIONS)
        assert len(set(sessions)) == SESSIONS
        for session in sessions[:UNREAD_STREAMS]:
            besieger.open_stream_and_never_read(session)
        for _ in range(HALF_OPEN):
            besieger.send_half_a_request()
        began = time.monotonic()
        assert not engine.tool("list_instruments")["is_error"]
        assert not engine.tool(
            "execute_command",
            instrument_id="psu1",
            command_name="set_voltage",
            parameters={"channel": 1, "voltage": 1},
        )["is_error"]
        assert time.monotonic() - began < ANSWER_S
        assert mib_of(engine) - before_mib < MOST_MIB
        status = engine.tool("get_status")["result"]
        # All come from one address, which may hold a tenth of MAX_SESSIONS.
        assert status["mcp"]["sessions"] == SHARE
    assert engine.process.returncode == 0
