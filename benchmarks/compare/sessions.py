"""Many sessions: with open streams, opened and ended over and over, and abandoned."""

from __future__ import annotations

import http.client
import json
import resource
import selectors
import socket
import time
from typing import Any

from benchmarks.compare.many import order
from benchmarks.compare.measures import Figures
from benchmarks.compare.servers import Server, engine, simulator
from benchmarks.load_generator import REVISION, open_session
from tests.bench.engine_process import EngineProcess

STREAMS = 1_100
CHURNED = 10_000
WARMED_UP = 1_000
ABANDONED = 300
IDLE_S = 2
SETTLED_S = 2.0
GIVE_UP_S = 30.0
NEWS = b"tools/list_changed"


def free_port() -> int:
    """Nobody listens there now."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def streams() -> Figures:
    """Memory of each open stream, how news spread, and whether an instrument still opens."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8_192), hard))
    later = free_port()
    address = f"TCPIP0::127.0.0.1::{later}::SOCKET"
    with (
        simulator("--instruments", "psu1=rigol_dp832") as bench,
        # One address has at most a tenth of them.
        engine(
            bench, more=[{"address": address, "name": "psu2"}], MAX_SESSIONS=10 * STREAMS + 100
        ) as (ours, process),
    ):
        _open_and_close(ours, 50)
        # What the first call brings with it once is no session's.
        process.tool("get_status")
        time.sleep(SETTLED_S)  # noqa: TID251 - another process
        before_kb = ours.rss_kb()
        readers = [open_stream(ours) for _ in range(STREAMS)]
        kb = (ours.rss_kb() - before_kb) / STREAMS
        order(bench, "add", name="psu2", model="rigol_dp832", port=later)
        process.tool("scan_instruments")
        spread_ms = _spread_ms(readers)
        opens = _is_connected(process, "psu2")
        for reader in readers:
            reader.close()
    return {"sessions.kb": kb, "sessions.news_ms": spread_ms, "sessions.opens": float(opens)}


def churn(count: int = CHURNED) -> Figures:
    """Growth of each of so many sessions, opened and ended; and what abandoned ones leave."""
    with simulator("--instruments", "psu1=rigol_dp832") as bench:
        with engine(bench) as (ours, _):
            # The first thousand fill caches that are bounded.
            _open_and_close(ours, WARMED_UP)
            before_kb = ours.rss_kb()
            began = time.perf_counter()
            _open_and_close(ours, count)
            per_s = count / (time.perf_counter() - began)
            kb = (ours.rss_kb() - before_kb) / count
        with engine(bench, SESSION_IDLE_SEC=IDLE_S) as (ours, process):
            for _ in range(ABANDONED):
                open_session(ours.url)
            left = _sessions_left(process)
    return {"churn.kb": kb, "churn.per_s": per_s, "churn.left": float(left)}


def _open_and_close(server: Server, count: int) -> None:
    line = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    params = {
        "protocolVersion": REVISION,
        "capabilities": {},
        "clientInfo": {"name": "churn", "version": "1"},
    }
    opening = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    for _ in range(count):
        line.request("POST", "/mcp", opening, headers)
        answer = line.getresponse()
        answer.read()
        session = {"Mcp-Session-Id": answer.headers["Mcp-Session-Id"]}
        line.request("DELETE", "/mcp", headers=session)
        line.getresponse().read()
    line.close()


def open_stream(server: Server) -> socket.socket:
    """The GET stream of a new session, its head read."""
    session = open_session(server.url)
    reader = socket.create_connection(("127.0.0.1", server.port), 30)
    lines = [
        "GET /mcp HTTP/1.1",
        f"Host: 127.0.0.1:{server.port}",
        "Accept: text/event-stream",
        *(f"{name}: {value}" for name, value in session.items()),
    ]
    reader.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
    head = reader.recv(4_096)
    assert head.startswith(b"HTTP/1.1 200"), head
    return reader


def _spread_ms(readers: list[socket.socket]) -> float:
    """From the first reader who hears the news to the last."""
    with selectors.DefaultSelector() as selector:
        for reader in readers:
            reader.setblocking(False)
            selector.register(reader, selectors.EVENT_READ)
        waiting, heard = len(readers), list[float]()
        give_up = time.monotonic() + GIVE_UP_S
        while waiting and time.monotonic() < give_up:
            for key, _ in selector.select(1.0):
                assert isinstance(key.fileobj, socket.socket)
                if NEWS in key.fileobj.recv(65_536):
                    heard.append(time.perf_counter())
                    selector.unregister(key.fileobj)
                    waiting -= 1
    if waiting:
        raise SystemExit(f"{waiting} of {len(readers)} streams did not hear the news")
    return (heard[-1] - heard[0]) * 1e3


def _is_connected(process: EngineProcess, name: str) -> bool:
    give_up = time.monotonic() + GIVE_UP_S
    while time.monotonic() < give_up:
        found: list[dict[str, Any]] = process.tool("list_instruments")["result"]
        if any(entry["alias"] == name and entry["is_connected"] for entry in found):
            return True
        time.sleep(0.1)  # noqa: TID251 - another process
    return False


def _sessions_left(process: EngineProcess) -> int:
    give_up = time.monotonic() + IDLE_S * 4 + 5
    while time.monotonic() < give_up:
        left = int(process.tool("get_status")["result"]["mcp"]["sessions"])
        if left == 0:
            break
        time.sleep(0.2)  # noqa: TID251 - another process
    return left
