"""Clients of the comparison: one blocking line for latencies, the load generator for throughput."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.compare.servers import Server
from benchmarks.figures import percentile
from benchmarks.load_generator import open_session, request_bytes, whole_size

WRITTEN_WITHIN_S = 0.4
"""edged gathers rows of reads for 0.25 s before it writes them down."""
TURNS = 5
"""The machine's speed comes and goes within a second; whoever is compared shares it."""
ECHO = "aiohttp echo"
LIST: dict[str, Any] = {"jsonrpc": "2.0", "id": 0, "method": "tools/list"}


def call(tool: str, arguments: dict[str, Any], **params: Any) -> dict[str, Any]:
    """A tools/call; its id is filled in by whoever sends it."""
    params = {"name": tool, "arguments": arguments, **params}
    return {"jsonrpc": "2.0", "id": 0, "method": "tools/call", "params": params}


def body_of(message: dict[str, Any]) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode()


class Line:
    """One connection with a session of its own; blocking, so that it measures little of itself."""

    def __init__(self, server: Server) -> None:
        # An echo has no sessions.
        self._session = {} if server.name == ECHO else open_session(server.url)
        self._url = server.url
        self._socket = socket.create_connection(("127.0.0.1", server.port), 60)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._number = 1_000_000

    def post(self, message: dict[str, Any]) -> bytes:
        """The whole answer."""
        self._number += 1
        body = body_of({**message, "id": self._number})
        self._socket.sendall(request_bytes(self._url, body, self._session))
        answer = b""
        while True:
            piece = self._socket.recv(1 << 20)
            if not piece:
                raise SystemExit(f"{self._url} closed the connection: {answer[:300]!r}")
            answer += piece
            if whole_size(answer) is not None:
                break
        if not answer.startswith(b"HTTP/1.1 200") or b'"isError":true' in answer:
            raise SystemExit(f"{self._url} did not do it: {answer[:600]!r}")
        return answer

    def latencies_us(self, messages: Sequence[dict[str, Any]], seconds: float) -> list[float]:
        """How long each turn of all the messages took, for that many seconds."""
        for message in messages:
            self.post(message)
        found = []
        until = time.perf_counter() + seconds
        while (began := time.perf_counter()) < until:
            for message in messages:
                self.post(message)
            found.append((time.perf_counter() - began) * 1e6)
        return found

    def close(self) -> None:
        self._socket.close()


def paced_us(
    server: Server, message: dict[str, Any], *, every_s: float, seconds: float, idle: float
) -> float:
    """Processor time of a call, where one comes every so often and finds cold caches.

    Args:
        idle: what the server uses while nobody calls, of a core.
    """
    line = Line(server)
    try:
        line.post(message)
        before, began = server.cpu_s(), time.perf_counter()
        count = round(seconds / every_s)
        for number in range(1, count + 1):
            line.post(message)
            left_s = began + number * every_s - time.perf_counter()
            time.sleep(max(0.0, left_s))  # noqa: TID251 - the pace
        time.sleep(WRITTEN_WITHIN_S)  # noqa: TID251 - another process's threads
        spent_s = server.cpu_s() - before - idle * (time.perf_counter() - began)
    finally:
        line.close()
    return spent_s / count * 1e6


def median_us(server: Server, messages: Sequence[dict[str, Any]], seconds: float) -> float:
    """The median of one client alone."""
    line = Line(server)
    try:
        return percentile(line.latencies_us(messages, seconds), 0.5)
    finally:
        line.close()


def medians_us(
    work: Sequence[tuple[Server, Sequence[dict[str, Any]]]], seconds: float
) -> tuple[float, ...]:
    """The medians of servers that one client alone asks by turns, each so many seconds in all."""
    lines = [Line(server) for server, _ in work]
    found: list[list[float]] = [[] for _ in work]
    try:
        for _ in range(TURNS):
            for line, (_, messages), own in zip(lines, work, found, strict=True):
                own += line.latencies_us(messages, seconds / TURNS)
    finally:
        for line in lines:
            line.close()
    return tuple(percentile(own, 0.5) for own in found)


@contextlib.contextmanager
def _generator(
    server: Server, messages: Sequence[dict[str, Any]], *, clients: int, seconds: float
) -> Iterator[subprocess.Popen[bytes]]:
    with tempfile.NamedTemporaryFile() as body:
        Path(body.name).write_bytes(b"\n".join(map(body_of, messages)))
        words = [server.url, "--clients", str(clients), "--seconds", str(seconds), "--staged"]
        words += ["--body", body.name] + ([] if server.name == ECHO else ["--session"])
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.load_generator", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert process.stdout is not None
        try:
            if process.stdout.readline() != b"ready\n":
                raise SystemExit(f"no load came upon {server.name}")
            yield process
        finally:
            process.wait(seconds + 60)


def load(
    server: Server, messages: Sequence[dict[str, Any]], *, clients: int, seconds: float
) -> dict[str, float]:
    """Throughput, latencies, CPU a call of so many clients; each sends one of the messages."""
    with _generator(server, messages, clients=clients, seconds=seconds) as process:
        before = server.cpu_s()
        output, _ = process.communicate(b"\n")
        # What it writes down behind the answer belongs to the call.
        time.sleep(WRITTEN_WITHIN_S)  # noqa: TID251 - another process's threads
        spent_s = server.cpu_s() - before
    found: dict[str, float] = json.loads(output)
    if found["errors"] or not found["calls"]:
        raise SystemExit(f"{server.name} refused {found['errors']:.0f} of {found['calls']:.0f}")
    return {**found, "cpu_us": spent_s / found["calls"] * 1e6}


def p99_beside_load_us(
    server: Server, measured: dict[str, Any], beside: dict[str, Any], *, seconds: float
) -> float:
    """The 99th percentile of one client's calls beside 16 that call something else flat out."""
    line = Line(server)
    with _generator(server, [beside], clients=16, seconds=seconds + 1.0) as process:
        assert process.stdin is not None
        process.stdin.write(b"\n")
        process.stdin.flush()
        time.sleep(0.5)  # noqa: TID251 - the load rises
        found = line.latencies_us([measured], seconds)
        process.communicate()
    line.close()
    return percentile(found, 0.99)
