"""A load generator in a process of its own: keep-alive clients that post one body again and again.

``python -m benchmarks.load_generator URL --clients 16 --seconds 3 --body FILE`` prints a JSON line:
calls, calls_per_s, p50_us, p99_us, errors. It speaks just enough HTTP/1.1 to cost little itself:
responses with Content-Length, or chunks that end in one read; anything else is an error.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.figures import percentile


class Client(asyncio.Protocol):
    """One connection: sends the next request when the answer to the last one is whole."""

    def __init__(self, request: bytes, until: float, latencies: list[float]) -> None:
        self.request = request
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
        self.transport.write(self.request)

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
        "Content-Length": str(len(body)),
    }
    lines += [f"{name}: {value}" for name, value in every.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


async def load(
    url: str, body: bytes, *, clients: int, seconds: float, headers: dict[str, str]
) -> dict[str, float]:
    """Run the clients for that long; see the module for the result."""
    parts = urlsplit(url)
    loop, latencies = asyncio.get_running_loop(), list[float]()
    request = request_bytes(url, body, headers)
    began = time.perf_counter()
    protocols = [
        (
            await loop.create_connection(
                lambda: Client(request, began + seconds, latencies), parts.hostname, parts.port
            )
        )[1]
        for _ in range(clients)
    ]
    errors = sum(await asyncio.gather(*(protocol.ended for protocol in protocols)))
    spent = time.perf_counter() - began
    return {
        "calls": len(latencies),
        "calls_per_s": len(latencies) / spent,
        "p50_us": percentile(latencies, 0.5) * 1e6,
        "p99_us": percentile(latencies, 0.99) * 1e6,
        "errors": errors,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--body", type=Path, required=True)
    parser.add_argument("--header", action="append", default=[])
    options = parser.parse_args()
    headers = dict(header.split(": ", 1) for header in options.header)
    found = asyncio.run(
        load(
            options.url,
            options.body.read_bytes(),
            clients=options.clients,
            seconds=options.seconds,
            headers=headers,
        )
    )
    sys.stdout.write(json.dumps(found) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
