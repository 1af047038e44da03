"""A load generator in a process of its own: keep-alive MCP clients that make one request on and on.

``python -m benchmarks.load_generator URL --clients 16 --seconds 3 --body FILE`` prints a JSON line:
calls, calls_per_s, p50_us, p99_us, errors. With ``--session`` each client opens a session first, as
real ones do. A file of several lines has a body for each client, in turn. Where the body has
``"id":0`` each request gets an id of its own. With ``--staged`` it says ``ready`` once sessions are
open and each client has had an answer, and goes on at a line of input. It speaks just enough
HTTP/1.1 to cost little itself: responses with Content-Length, or chunks that end in one
read; anything else is an error.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from benchmarks.figures import percentile

REVISION = "2025-06-18"
NO_ID = b'"id":0'
FIRST_ID = 1_000_000
"""Ids have seven digits, so that every request is of one length."""


class Client(asyncio.Protocol):
    """One connection: sends the next request when the answer to the last one is whole."""

    def __init__(self, request: bytes, until: float, latencies: list[float]) -> None:
        self.before, self.mark, self.after = request.partition(NO_ID)
        self.number = FIRST_ID
        self.until = until
        self.latencies = latencies
        self.buffer = b""
        self.errors = 0
        self.sent_at = 0.0
        self.ended = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self._send()

    def _send(self) -> None:
        self.sent_at = time.perf_counter()
        if not self.mark:
            self.transport.write(self.before)
            return
        self.number += 1
        self.transport.write(b'%b"id":%d%b' % (self.before, self.number, self.after))

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        size = whole_size(self.buffer)
        if size is None:
            return
        now = time.perf_counter()
        self.latencies.append(now - self.sent_at)
        if not self.buffer.startswith(b"HTTP/1.1 200"):
            self.errors += 1
        self.buffer = self.buffer[size:]
        if now < self.until:
            self._send()
        else:
            self.transport.close()

    def connection_lost(self, _error: Exception | None) -> None:
        if not self.ended.done():
            self.ended.set_result(self.errors)


def whole_size(buffer: bytes) -> int | None:
    """The length of the response that the buffer begins with, once all of it is there."""
    head_end = buffer.find(b"\r\n\r\n")
    if head_end < 0:
        return None
    head = buffer[:head_end].lower()
    found = head.find(b"\r\ncontent-length:")
    if found < 0:
        end = buffer.find(b"\r\n0\r\n\r\n", head_end)
        return end + 7 if end >= 0 else None
    length = int(head[found + 17 :].split(b"\r\n", 1)[0])
    size = head_end + 4 + length
    return size if len(buffer) >= size else None


def request_bytes(url: str, body: bytes, headers: dict[str, str]) -> bytes:
    """One POST, ready to be sent."""
    parts = urlsplit(url)
    lines = [f"POST {parts.path or '/'} HTTP/1.1", f"Host: {parts.netloc}"]
    every = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        **headers,
        "Content-Length": str(len(body) + (6 if NO_ID in body else 0)),
    }
    lines += [f"{name}: {value}" for name, value in every.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


def open_session(url: str) -> dict[str, str]:
    """The headers of a new session."""
    parts = urlsplit(url)
    line = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=30)
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
    }
    params = {
        "protocolVersion": REVISION,
        "capabilities": {},
        "clientInfo": {"name": "load", "version": "1"},
    }
    opening = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    line.request("POST", parts.path, json.dumps(opening), headers)
    answer = line.getresponse()
    answer.read()
    session = {
        "Mcp-Session-Id": answer.getheader("Mcp-Session-Id", ""),
        "MCP-Protocol-Version": REVISION,
    }
    note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    line.request("POST", parts.path, json.dumps(note), headers | session)
    line.getresponse().read()
    line.close()
    return session


async def load(
    url: str,
    bodies: Sequence[bytes],
    *,
    clients: int,
    seconds: float,
    headers: dict[str, str],
    has_sessions: bool = False,
    stage: Callable[[], None] | None = None,
) -> dict[str, float]:
    """Load for so long; see the module for the result.

    Args:
        stage: called when everybody is warm; blocks until the load may begin.
    """
    parts = urlsplit(url)
    loop, latencies = asyncio.get_running_loop(), list[float]()
    own = [open_session(url) if has_sessions else {} for _ in range(clients)]
    requests = [
        request_bytes(url, bodies[number % len(bodies)], headers | session)
        for number, session in enumerate(own)
    ]
    if stage is not None:
        await run(loop, parts, [Client(r, 0.0, []) for r in requests])
        stage()
    began = time.perf_counter()
    errors = await run(loop, parts, [Client(r, began + seconds, latencies) for r in requests])
    spent = time.perf_counter() - began
    return {
        "calls": len(latencies),
        "calls_per_s": len(latencies) / spent,
        "p50_us": percentile(latencies, 0.5) * 1e6,
        "p99_us": percentile(latencies, 0.99) * 1e6,
        "errors": errors,
    }


async def run(
    loop: asyncio.AbstractEventLoop, parts: SplitResult, clients: Sequence[Client]
) -> int:
    """Connect the clients and wait until each has ended; gives how many answers were errors."""
    for client in clients:
        await loop.create_connection(
            lambda client=client: client,  # type: ignore[misc]
            parts.hostname,
            parts.port,
        )
    return sum(await asyncio.gather(*(client.ended for client in clients)))


def wait_for_go() -> None:
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--body", type=Path, required=True)
    parser.add_argument("--header", action="append", default=[])
    parser.add_argument("--session", action="store_true", help="a session for each client")
    parser.add_argument("--staged", action="store_true", help="get ready, and wait for a line")
    options = parser.parse_args()
    headers = dict(header.split(": ", 1) for header in options.header)
    found = asyncio.run(
        load(
            options.url,
            options.body.read_bytes().splitlines(),
            clients=options.clients,
            seconds=options.seconds,
            headers=headers,
            has_sessions=options.session,
            stage=wait_for_go if options.staged else None,
        )
    )
    sys.stdout.write(json.dumps(found) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
