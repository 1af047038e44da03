"""One call by three ways: straight to the edge, by the relay, and by the fleet's endpoint.

All of it real: nats-server, two ``edged relay``, one ``edged supervisor`` with its engine on the
simulated bench. The same cached tool (list_instruments) by turns, so that whatever else the machine
does meets all ways alike; then many clients at once over both fronts, for what the chain carries.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from benchmarks.figures import Figure, parse_json_flag, percentile, tell
from tests.bench.mcp_client import Connection, McpClient
from tests.bench.relay_chain import EDGE, Chain, a_port, running_chain
from tests.bench.waiting import wait_for

ROUNDS = 400
CLIENTS = 32
FLAT_OUT_S = 6.0
TOOL = "list_instruments"
VERSION = "2025-11-25"


def main() -> int:
    as_json = parse_json_flag(__doc__)
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        chain = stack.enter_context(
            running_chain(Path(name), a_port, fronts=2, edge_settings={"RELAY_FLEET": True})
        )
        listing = chain.fleet_token("fleet__list_edges")
        wait_for(lambda: all(chain.fleet(listing, front) for front in (0, 1)))
        figures = asyncio.run(_measure(chain))
    return tell("the fleet beside the relay and the direct route", figures, as_json=as_json)


class Caller:
    """One client on one connection that stays open."""

    def __init__(self, client: McpClient, tool: str, arguments: dict[str, str]) -> None:
        self._client = client
        self._message = client.message("tools/call", {"name": tool, "arguments": arguments})
        self._connection: Connection | None = None

    async def call(self) -> float:
        """Milliseconds that one call took."""
        if self._connection is None:
            self._connection = await Connection.to(self._client.port)
        body = json.dumps(self._message).encode()
        began = time.perf_counter()
        self._connection.send(self._client.bytes_of("POST", body))
        answer = await self._connection.read_answer()
        spent_ms = (time.perf_counter() - began) * 1e3
        assert answer.status == 200, answer
        assert answer.json()["result"].get("isError") is not True, answer
        return spent_ms

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.close()


async def _measure(chain: Chain) -> list[Figure]:
    ways: dict[str, Callable[[int], Caller]] = {
        "direct": lambda _number: _direct(chain),
        "relayed": lambda number: _relayed(chain, number % 2),
        "fleet": lambda number: _fleet(chain, number % 2),
    }
    spent: dict[str, list[float]] = {name: [] for name in ways}
    callers = {name: [make(0), make(1)] for name, make in ways.items()}
    for number in range(ROUNDS):
        for name, both in callers.items():
            took_ms = await both[number % 2].call()
            if number >= ROUNDS // 10:
                spent[name].append(took_ms)
    for both in callers.values():
        for caller in both:
            await caller.close()
    p50 = {name: percentile(values, 0.5) for name, values in spent.items()}
    figures = [
        Figure(name=f"a call, {name}, {share}", value=percentile(spent[name], at), unit="ms")
        for name in ways
        for share, at in (("p50", 0.5), ("p99", 0.99))
    ]
    figures.append(
        Figure(
            name="the fleet over the relay, p50",
            value=p50["fleet"] - p50["relayed"],
            unit="ms",
            bound=3,
        )
    )
    for name, make in ways.items():
        rate = await _flat_out(make)
        figures.append(Figure(name=f"calls of {CLIENTS} clients, {name}", value=rate, unit="/s"))
    return figures


async def _flat_out(make: Callable[[int], Caller]) -> float:
    callers = [make(number) for number in range(CLIENTS)]
    until = time.monotonic() + FLAT_OUT_S

    async def work(caller: Caller) -> int:
        count = 0
        while time.monotonic() < until:
            await caller.call()
            count += 1
        await caller.close()
        return count

    works: list[Awaitable[int]] = [work(caller) for caller in callers]
    return sum(await asyncio.gather(*works)) / FLAT_OUT_S


def _direct(chain: Chain) -> Caller:
    port = json.loads((chain.state_dir / "engine.json").read_text())["mcp_port"]
    return Caller(McpClient(port, version=VERSION), TOOL, {})


def _relayed(chain: Chain, front: int) -> Caller:
    headers = {"Authorization": f"Bearer {_token(chain, 'relay')}"}
    port = chain.front_ports[front]
    client = McpClient(port, path=f"/mcp/{EDGE}", version=VERSION, headers=headers)
    return Caller(client, TOOL, {})


def _fleet(chain: Chain, front: int) -> Caller:
    headers = {"Authorization": f"Bearer {_token(chain, 'fleet')}"}
    client = McpClient(chain.front_ports[front], version=VERSION, headers=headers)
    return Caller(client, "fleet__call", {"edge_id": EDGE, "tool": TOOL})


TOKENS: dict[str, str] = {}


def _token(chain: Chain, kind: str) -> str:
    """One token each for all clients: making one takes a process."""
    if kind not in TOKENS:
        made = chain.token(TOOL) if kind == "relay" else chain.fleet_token("fleet__call", TOOL)
        TOKENS[kind] = made
    return TOKENS[kind]


if __name__ == "__main__":
    raise SystemExit(main())
