"""Progress events a second over one connection: a tool that reports as fast as it can."""

from __future__ import annotations

import socket
import statistics
import sys
import time

from benchmarks.compare.clients import body_of, call
from benchmarks.compare.servers import Server, serving
from benchmarks.load_generator import open_session, request_bytes, whole_size

EVENTS = 10_000
LEAST_TURNS = 3
MARK = b"notifications/progress"


def progress_rates(theirs: Server, seconds: float) -> tuple[float, float]:
    """Ours and theirs, medians of calls by turns; each is warmed up by a call that is not counted.

    Ours is a process of its own, because no shipped tool reports as fast as it can.
    """
    with serving("edged", [sys.executable, "-m", "benchmarks.progress_server"]) as ours:
        servers = (ours, theirs)
        for server in servers:
            _rate(server)
        found: list[tuple[float, ...]] = []
        until = time.perf_counter() + seconds
        while len(found) < LEAST_TURNS or time.perf_counter() < until:
            found.append(tuple(map(_rate, servers)))
    ours_per_s, theirs_per_s = map(statistics.median, zip(*found, strict=True))
    return ours_per_s, theirs_per_s


def _rate(server: Server) -> float:
    session = open_session(server.url)
    message = call("report", {"events": EVENTS}, _meta={"progressToken": 1})
    request = request_bytes(server.url, body_of({**message, "id": 7}), session)
    with socket.create_connection(("127.0.0.1", server.port), 60) as line:
        line.sendall(request)
        pieces = [line.recv(1 << 16)]
        began = time.perf_counter()
        while whole_size(b"\r\n\r\n" + pieces[-1][-64:]) is None:
            pieces.append(line.recv(1 << 18))
        spent = time.perf_counter() - began
    events = b"".join(pieces).count(MARK)
    if events < EVENTS:
        raise SystemExit(f"{server.name}: only {events} of {EVENTS} events came")
    return events / spent
