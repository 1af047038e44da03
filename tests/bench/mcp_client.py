"""A small MCP client on bare sockets: says exactly what a test wants said, and hides nothing."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPResponse
from typing import Any
from urllib.error import HTTPError

from tests.bench.waiting import HANGS_S

BOTH = "application/json, text/event-stream"
VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
MODERN = "2026-07-28"


@dataclass(frozen=True)
class Answer:
    """A whole HTTP answer; header names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @classmethod
    def of(cls, reply: HTTPResponse | HTTPError) -> Answer:
        """As the standard library's client has it."""
        headers = {name.lower(): value for name, value in reply.headers.items()}
        return cls(reply.status or 0, headers, reply.read())

    def json(self) -> Any:
        assert self.headers["content-type"] == "application/json", self
        return json.loads(self.body)

    @property
    def error_code(self) -> int:
        code: int = self.json()["error"]["code"]
        return code

    def messages(self) -> list[Any]:
        """The JSON-RPC messages in it, whichever form it has."""
        if self.headers.get("content-type") == "text/event-stream":
            return [event.json() for event in parse_events(self.body) if event.data]
        return [self.json()]


@dataclass(frozen=True)
class Event:
    """One server-sent event, or (with nothing but ``comment``) a comment."""

    data: str = ""
    name: str = ""
    id: str = ""
    comment: str = ""

    def json(self) -> Any:
        return json.loads(self.data)


def parse_events(text: bytes) -> list[Event]:
    return [parse_event(block) for block in text.split(b"\n\n") if block]


def parse_event(block: bytes) -> Event:
    fields: dict[str, list[str]] = {"data": [], "event": [], "id": [], "": []}
    for line in block.decode("ascii").split("\n"):
        key, _, value = line.partition(":")
        fields.setdefault(key, []).append(value.removeprefix(" "))
    return Event(
        data="\n".join(fields["data"]),
        name="".join(fields["event"]),
        id="".join(fields["id"]),
        comment="".join(fields[""]),
    )


class Connection:
    """One TCP connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._buffer = b""

    @classmethod
    async def to(cls, port: int, host: str = "127.0.0.1") -> Connection:
        return cls(*await asyncio.open_connection(host, port, limit=16 * 1024 * 1024))

    async def __aenter__(self) -> Connection:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    def half_close(self) -> None:
        self.writer.write_eof()

    async def close(self) -> None:
        self.writer.close()
        with contextlib.suppress(ConnectionError):
            await self.writer.wait_closed()

    def abort(self) -> None:
        self.writer.transport.abort()

    async def read_head(self) -> tuple[int, dict[str, str]]:
        async with asyncio.timeout(HANGS_S):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.rstrip("\r\n").split("\r\n")
        pairs = (line.partition(":") for line in lines)
        return int(first.split(" ")[1]), {key.lower(): value.strip() for key, _, value in pairs}

    async def read_answer(self) -> Answer:
        status, headers = await self.read_head()
        async with asyncio.timeout(HANGS_S):
            if headers.get("transfer-encoding") == "chunked":
                body = b""
                while chunk := await self.read_chunk():
                    body += chunk
            elif "content-length" in headers:
                body = await self.reader.readexactly(int(headers["content-length"]))
            else:
                body = await self.reader.read()
        return Answer(status, headers, body)

    async def read_chunk(self) -> bytes:
        size = int(await self.reader.readuntil(b"\r\n"), 16)
        data = await self.reader.readexactly(size + 2)
        return data[:-2]

    async def read_rest(self) -> bytes:
        """Everything until the server closes."""
        async with asyncio.timeout(HANGS_S):
            try:
                return await self.reader.read()
            except ConnectionError:
                return b""

    async def next_event(self, *, comments: bool = False) -> Event | None:
        """The next event of a stream whose head was read; ``None`` at its end."""
        async with asyncio.timeout(HANGS_S):
            while True:
                while b"\n\n" not in self._buffer:
                    chunk = await self.read_chunk()
                    if not chunk:
                        return None
                    self._buffer += chunk
                block, _, self._buffer = self._buffer.partition(b"\n\n")
                event = parse_event(block)
                if comments or not event.comment:
                    return event


@dataclass
class McpClient:
    """Talks to one endpoint; each request on a connection of its own.

    Attributes:
        session_id: sent with each request once there is one.
        client_info: who it says it is.
        version: sent as MCP-Protocol-Version if not empty.
        capabilities: what it says that it can do.
    """

    port: int
    path: str = "/mcp"
    session_id: str = ""
    version: str = ""
    next_id: int = 1
    headers: dict[str, str] = field(default_factory=dict)
    host: str = "127.0.0.1"
    client_info: Mapping[str, str] = field(default_factory=lambda: {"name": "test", "version": "1"})
    capabilities: Mapping[str, Any] = field(default_factory=dict)

    async def initialize(self, version: str = "2025-03-26") -> Answer:
        answer = await self.request(
            "initialize",
            {
                "protocolVersion": version,
                "capabilities": dict(self.capabilities),
                "clientInfo": dict(self.client_info),
            },
        )
        self.session_id = answer.headers.get("mcp-session-id", "")
        if version != "2025-03-26":
            self.version = version
        await self.notify("notifications/initialized")
        return answer

    async def request(
        self, method: str, params: Mapping[str, Any] | None = None, *, request_id: Any = None
    ) -> Answer:
        return await self.post(self.message(method, params, request_id=request_id))

    async def call(self, tool: str, arguments: Mapping[str, Any] | None = None) -> Any:
        """The result of a tool, or the error object."""
        answer = await self.request("tools/call", {"name": tool, "arguments": arguments or {}})
        reply = answer.messages()[-1]
        return reply["result"] if "result" in reply else reply["error"]

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> Answer:
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = params
        return await self.post(message)

    async def post(self, message: Any, headers: Mapping[str, str] | None = None) -> Answer:
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        return await self.send("POST", body, headers)

    async def send(
        self, verb: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> Answer:
        async with await Connection.to(self.port, self.host) as connection:
            connection.send(self.bytes_of(verb, body, headers))
            return await connection.read_answer()

    async def open_post(self, message: Any, headers: Mapping[str, str] | None = None) -> Connection:
        """Send a POST and leave the connection open, nothing read."""
        connection = await Connection.to(self.port, self.host)
        connection.send(self.bytes_of("POST", json.dumps(message).encode(), headers))
        return connection

    async def open_stream(self, last_event_id: str = "") -> Connection:
        """A GET stream whose head says 200."""
        connection = await Connection.to(self.port, self.host)
        more = {"Last-Event-ID": last_event_id} if last_event_id else {}
        connection.send(self.bytes_of("GET", headers={"Accept": "text/event-stream", **more}))
        status, headers = await connection.read_head()
        assert status == 200, status
        assert headers["content-type"] == "text/event-stream"
        return connection

    def message(
        self, method: str, params: Mapping[str, Any] | None = None, *, request_id: Any = None
    ) -> dict[str, Any]:
        if request_id is None:
            request_id, self.next_id = self.next_id, self.next_id + 1
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": request_id, "method": method}
        if params is not None:
            message["params"] = dict(params)
        return message

    def tool_call(self, tool: str, *, token: Any = None, request_id: Any = None) -> dict[str, Any]:
        params: dict[str, Any] = {"name": tool, "arguments": {}}
        if token is not None:
            params["_meta"] = {"progressToken": token}
        return self.message("tools/call", params, request_id=request_id)

    def bytes_of(
        self, verb: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> bytes:
        """One request; a header given as empty by ``headers`` is left out."""
        lines = {"Host": f"127.0.0.1:{self.port}", "Accept": BOTH}
        if verb == "POST":
            lines |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
        if self.session_id:
            lines["Mcp-Session-Id"] = self.session_id
        if self.version:
            lines["MCP-Protocol-Version"] = self.version
        lines |= self.headers | dict(headers or {})
        head = [f"{verb} {self.path} HTTP/1.1"]
        head += [f"{name}: {value}" for name, value in lines.items() if value != OMIT]
        return "\r\n".join(head).encode("utf-8", "surrogateescape") + b"\r\n\r\n" + body


OMIT = "\0omit"


def modern(message: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """A request as 2026-07-28 wants it, and the headers that repeat it."""
    params = dict(message.get("params", {}))
    meta = dict(params.get("_meta", {}))
    params["_meta"] = {VERSION_KEY: MODERN, CAPABILITIES_KEY: {}, **meta}
    headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": message["method"]}
    for key in ("name", "uri"):
        if key in params:
            headers["Mcp-Name"] = params[key]
    return {**message, "params": params}, headers
