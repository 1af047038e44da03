"""A thousand edges on one machine: what a front and the NATS server carry of their announcements.

A real nats-server and a real ``edged relay``; the edges are simulated, each with a connection of
its own and ten units, and every announcement says something new (the costliest case). Then the same
edges saying the same again, the whole table as JSON, an instrument looked for, and all of them
stopped. Last, announcements as fast as the server takes them, for the sum of 10,000 edges.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

from benchmarks.figures import Figure, parse_json_flag, percentile, tell
from tests.bench.edge_herd import Herd, word
from tests.bench.mcp_client import Answer, McpClient
from tests.bench.nats_server import running_nats
from tests.bench.relay_chain import a_port, fleet_token, process

EDGES = 1_000
MEASURED_S = 30.0
SETTLED_S = 12.0
FLOOD = 50_000
TOOLS = ("fleet__list_edges", "fleet__find_instrument", "fleet__stop_everywhere", "bench__stop_all")


def main() -> int:
    as_json = parse_json_flag(__doc__)
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        directory = Path(name)
        nats = stack.enter_context(running_nats(directory / "nats", a_port()))
        serve = ("dev-issuer", "serve", "--port", "0", "--directory", str(directory / "issuer"))
        issuer = stack.enter_context(process(directory / "issuer.log", *serve, reads_line=True))
        settings = {
            "RELAY_NATS_URL": nats.url,
            "RELAY_ISSUER": issuer["issuer"],
            "RELAY_JWKS_URL": issuer["jwks_url"],
            "FLEET_ALL": "true",
            "LOG_LEVEL": "warning",
        }
        words = [f"--set={key}={value}" for key, value in settings.items()]
        front = stack.enter_context(
            process(directory / "front.log", "relay", "--port", "0", *words, reads_line=True)
        )
        token = fleet_token(directory / "issuer", issuer["issuer"], *TOOLS, edges="*")
        figures = asyncio.run(_measure(nats.port, front["port"], token))
    return tell("a thousand edges", figures, as_json=as_json)


class Watched:
    """One process: its memory, and what it takes of a core."""

    def __init__(self, port: int) -> None:
        owner = next(
            c.pid
            for c in psutil.net_connections("tcp4")
            if c.status == "LISTEN" and c.laddr.port == port
        )
        self._process = psutil.Process(owner)
        self._began = (0.0, 0.0)

    @property
    def mib(self) -> float:
        return float(self._process.memory_info().rss) / 2**20

    def begin(self) -> None:
        self._began = (time.monotonic(), self._spent_s())

    def percent(self) -> float:
        began_s, spent_s = self._began
        return 100 * (self._spent_s() - spent_s) / (time.monotonic() - began_s)

    def _spent_s(self) -> float:
        times = self._process.cpu_times()
        return float(times.user + times.system)


async def _measure(nats_port: int, front_port: int, token: str) -> list[Figure]:
    front, broker = Watched(front_port), Watched(nats_port)
    await listed(front_port, token)
    front.begin()
    await asyncio.sleep(SETTLED_S)
    idle_percent, idle_mib = front.percent(), front.mib
    herd = Herd(nats_port, EDGES)
    await herd.start()
    await asyncio.sleep(SETTLED_S)
    front.begin()
    broker.begin()
    before = herd.announced
    await asyncio.sleep(MEASURED_S)
    percent, broker_percent = front.percent(), broker.percent()
    rate = (herd.announced - before) / MEASURED_S
    size = herd.announced_bytes / herd.announced
    added_mib, broker_mib = front.mib - idle_mib, broker.mib
    herd.changes = False
    await asyncio.sleep(SETTLED_S)
    front.begin()
    await asyncio.sleep(MEASURED_S)
    same_percent = front.percent()
    figures = [
        Figure(name="edges heard", value=await count_here(front_port, token), unit=""),
        Figure(name="announcements", value=rate, unit="/s"),
        Figure(name="an announcement", value=size / 1024, unit="KiB"),
        Figure(name="the front, idle", value=idle_percent, unit="%"),
        Figure(name="the front, all of it new", value=percent, unit="%", bound=5),
        Figure(name="the front, the same again", value=same_percent, unit="%", bound=5),
        Figure(name="the front's memory over idle", value=added_mib, unit="MiB", bound=50),
        Figure(name="the NATS server", value=broker_percent, unit="%"),
        Figure(name="the NATS server's memory", value=broker_mib, unit="MiB"),
        *await _asked(front_port, token),
    ]
    figures.append(
        Figure(name="the front's memory in the end", value=front.mib - idle_mib, unit="MiB")
    )
    await herd.stop()
    return [*figures, *await _flood(nats_port, broker)]


async def _asked(port: int, token: str) -> list[Figure]:
    spent = []
    for _ in range(10):
        began = time.perf_counter()
        body = (await listed(port, token)).body
        spent.append((time.perf_counter() - began) * 1e3)
    client = McpClient(port, version="2025-11-25", headers={"Authorization": f"Bearer {token}"})
    found = []
    for _ in range(10):
        began = time.perf_counter()
        await client.call("fleet__find_instrument", {"model": "DP832", "free": True})
        found.append((time.perf_counter() - began) * 1e3)
    began = time.perf_counter()
    stopped = (await client.call("fleet__stop_everywhere"))["structuredContent"]
    took_s = time.perf_counter() - began
    confirmed = sum(row["is_confirmed"] for row in stopped["edges"])
    return [
        Figure(name="GET /fleet, p50", value=percentile(spent, 0.5), unit="ms"),
        Figure(name="GET /fleet", value=len(body) / 2**20, unit="MiB"),
        Figure(name="fleet__find_instrument, p50", value=percentile(found, 0.5), unit="ms"),
        Figure(name="fleet__stop_everywhere", value=took_s, unit="s", bound=3),
        Figure(name="edges that confirmed", value=confirmed, unit=""),
    ]


async def listed(port: int, token: str) -> Answer:
    """GET /fleet."""
    client = McpClient(port, path="/fleet", headers={"Authorization": f"Bearer {token}"})
    return await client.send("GET", headers={"Accept": "application/json"})


async def count_here(port: int, token: str) -> int:
    """How many edges are here, by that."""
    edges: list[Any] = json.loads((await listed(port, token)).body)["edges"]
    return sum(edge["state"] == "here" for edge in edges)


async def _flood(port: int, broker: Watched) -> list[Figure]:
    """Announcements from one connection to one subscriber that reads and forgets."""
    reader, listener = await asyncio.open_connection("127.0.0.1", port)
    listener.write(b'CONNECT {"verbose":false}\r\nSUB edged.*.up.here 1\r\nPING\r\n')
    while (await reader.readline()) != b"PONG\r\n":
        pass
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b'CONNECT {"verbose":false}\r\n')
    data = word(1, 1)
    piece = b"".join(
        b"PUB edged.edge-%d.up.here %d\r\n%b\r\n" % (number, len(data), data)
        for number in range(100)
    )
    wanted = FLOOD * len(data)
    broker.begin()
    began = time.monotonic()

    async def write() -> None:
        for _ in range(FLOOD // 100):
            writer.write(piece)
            await writer.drain()

    writing = asyncio.create_task(write())
    seen = 0
    while seen < wanted:
        seen += len(await reader.read(1 << 20))
    took_s = time.monotonic() - began
    percent = broker.percent()
    await writing
    for one in (writer, listener):
        one.transport.abort()
    return [
        Figure(name="a flood through the NATS server", value=FLOOD / took_s, unit="/s"),
        Figure(name="the NATS server in the flood", value=percent, unit="%"),
    ]


if __name__ == "__main__":
    raise SystemExit(main())
