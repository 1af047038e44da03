"""Progress events a second over one connection: this endpoint and the official Python SDK's server.

Each is a process of its own with a tool that reports as fast as it can; the reader is one bare
socket that counts events. The two take turns. The peer needs ``.venv-clients/mcp1`` (make clients)
and is left out where that is missing.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from benchmarks.figures import Figure, parse_json_flag, percentile, tell
from tests.bench.engine_process import REPOSITORY

EVENTS = 20_000
ROUNDS = 3
PEER_PYTHON = REPOSITORY / ".venv-clients" / "mcp1" / "bin" / "python"
OURS = [sys.executable, "-m", "benchmarks.progress_server"]
PEER = [str(PEER_PYTHON), "-m", "benchmarks.peers.sdk_progress_server"]
MARK = b"notifications/progress"


def main() -> int:
    as_json = parse_json_flag(__doc__ or "")
    rates: dict[str, list[float]] = {"edged": [], "sdk": []}
    with _serving(OURS) as ours:
        if PEER_PYTHON.exists():
            with _serving(PEER) as peer:
                for _ in range(ROUNDS):
                    rates["edged"].append(_rate(ours))
                    rates["sdk"].append(_rate(peer))
        else:
            rates["edged"] = [_rate(ours) for _ in range(ROUNDS)]
    mine = percentile(rates["edged"], 0.5)
    figures = [Figure(name="edged", value=mine, unit="/s")]
    if rates["sdk"]:
        peers = percentile(rates["sdk"], 0.5)
        figures.append(Figure(name="official Python SDK 1.x", value=peers, unit="/s"))
        figures.append(Figure(name="times the SDK's rate", value=mine / peers, unit="x"))
    return tell(f"progress events over one connection, {EVENTS} a call", figures, as_json=as_json)


@contextmanager
def _serving(command: list[str]) -> Iterator[int]:
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=REPOSITORY
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        port = int(process.stdout.readline())
        _wait_for(lambda: socket.create_connection(("127.0.0.1", port), 5).close())
        yield port
    finally:
        process.stdin.close()
        process.wait(10)


def _wait_for(attempt: Callable[[], None]) -> None:
    deadline = time.monotonic() + 10
    while True:
        try:
            return attempt()
        except OSError:
            if time.monotonic() > deadline:
                raise


def _rate(port: int) -> float:
    """Events a second from the first byte of the stream to the last event."""
    params = {
        "name": "report",
        "arguments": {"events": EVENTS},
        "_meta": {"progressToken": 1},
    }
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    request = (
        f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
        "Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2025-03-26\r\n"
        f"Connection: close\r\nContent-Length: {len(body)}\r\n\r\n{body}"
    )
    with socket.create_connection(("127.0.0.1", port), 30) as line:
        line.sendall(request.encode())
        data = bytearray(line.recv(1 << 16))
        began = time.perf_counter()
        while piece := line.recv(1 << 18):
            data += piece
        spent = time.perf_counter() - began
    events = data.count(MARK)
    if events < EVENTS:
        sys.stderr.write(f"only {events} of {EVENTS} events came; {data[-300:]!r}\n")
    return events / spent


if __name__ == "__main__":
    raise SystemExit(main())
