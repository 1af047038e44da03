"""Twenty edges on one NATS server, two hundred streams at once through one relay front.

A real nats-server and a real ``edged relay``; edges (carrier and MCP endpoint, without
instruments) and clients share one process. Each stream reports ten times a second with its own mark
and the time; the client checks that nothing was lost or crossed, and takes how old each report is.
The same streams straight to the endpoints, for comparison.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.figures import Figure, parse_json_flag, percentile, tell
from edged.actions.action import Progress
from edged.auth.keys import HttpJwksSource, KeyBook
from edged.auth.verifier import Verifier
from edged.clock import SystemClock
from edged.config import LogFormat, LogLevel
from edged.log import set_up_logging
from edged.relay.carrier import Carrier, EngineAddress
from edged.relay.link import LinkSettings, NatsLink
from edged.surfaces.mcp.relay_guard import RelayGuard
from edged.tools.tool import ToolCall
from tests.bench.mcp_client import McpClient
from tests.bench.mcp_endpoint import Endpoint, running_endpoint
from tests.bench.nats_server import running_nats
from tests.bench.relay_chain import process

EDGES = 20
STREAMS = 200
POINTS = 50
EVERY_S = 0.1
CALLS = 300
CLOCK = SystemClock()


def main() -> int:
    as_json = parse_json_flag(__doc__)
    set_up_logging(LogLevel.ERROR, LogFormat.JSON)
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        directory = Path(name)
        nats = stack.enter_context(running_nats(directory / "nats", _free_port()))
        serve = ("dev-issuer", "serve", "--port", "0", "--directory", str(directory / "issuer"))
        told = stack.enter_context(process(directory / "issuer.log", *serve, reads_line=True))
        settings = {
            "RELAY_NATS_URL": nats.url,
            "RELAY_ISSUER": told["issuer"],
            "RELAY_JWKS_URL": told["jwks_url"],
        }
        words = [f"--set={key}={value}" for key, value in settings.items()]
        front = stack.enter_context(
            process(directory / "front.log", "relay", "--port", "0", *words, reads_line=True)
        )
        figures = asyncio.run(_measure(directory, nats.url, told, front["port"]))
    return tell("the relay", figures, as_json=as_json)


async def _measure(
    directory: Path, nats_url: str, issuer: dict[str, str], front_port: int
) -> tuple[Figure, ...]:
    async with contextlib.AsyncExitStack() as stack:
        book = KeyBook(
            HttpJwksSource(issuer["jwks_url"]), url=issuer["jwks_url"], state_dir=None, clock=CLOCK
        )
        verifier = Verifier(book, issuer=issuer["issuer"], clock=CLOCK)
        edges = [await _edge(stack, f"edge-{n}", nats_url, verifier) for n in range(EDGES)]
        relayed = [
            McpClient(
                front_port,
                path=f"/mcp/edge-{n}",
                headers={"Authorization": f"Bearer {await _token(directory, issuer, n)}"},
            )
            for n in range(EDGES)
        ]
        direct = [edge.client() for edge in edges]
        alone_direct, alone_relayed = await _calls(direct[0]), await _calls(relayed[0])
        near, near_bad = await _streams(direct)
        far, far_bad = await _streams(relayed)
    return (
        Figure(name="a call, direct, p50", value=percentile(alone_direct, 0.5), unit="ms"),
        Figure(name="a call, relayed, p50", value=percentile(alone_relayed, 0.5), unit="ms"),
        Figure(name="age of a report, direct, p50", value=percentile(near, 0.5), unit="ms"),
        Figure(name="age of a report, relayed, p50", value=percentile(far, 0.5), unit="ms"),
        Figure(name="age of a report, relayed, p99", value=percentile(far, 0.99), unit="ms"),
        Figure(name="reports received, relayed", value=len(far), unit=""),
        Figure(name="lost or crossed", value=near_bad + far_bad, unit="", bound=0),
    )


async def _edge(
    stack: contextlib.AsyncExitStack, edge_id: str, nats_url: str, verifier: Verifier
) -> Endpoint:
    guard = RelayGuard(verifier=verifier, edge_id=edge_id, refuse=lambda *_: None, clock=CLOCK)
    endpoint = await stack.enter_async_context(running_endpoint(guard=guard))
    endpoint.tools.add("ticks", _ticks)
    link = NatsLink(LinkSettings(url=nats_url), clock=CLOCK)
    stack.push_async_callback(link.close)
    await link.open()
    carrier = Carrier(
        link,
        edge_id=edge_id,
        engine=lambda: EngineAddress(endpoint.port, "/mcp"),
        peer_header=lambda peer: ("Edged-Peer", f"- {peer}"),
        clock=CLOCK,
    )
    await carrier.start()
    stack.push_async_callback(carrier.stop)
    await link.flush()
    return endpoint


async def _ticks(call: ToolCall) -> Any:
    """Reports with the mark that came as its argument, and the time."""
    for number in range(1, POINTS + 1):
        message = json.dumps([call.arguments["mark"], time.perf_counter()])
        if call.progress is not None:
            call.progress(Progress(progress=number, message=message))
        await asyncio.sleep(EVERY_S)
    return {"mark": call.arguments["mark"]}


async def _token(directory: Path, issuer: dict[str, str], number: int) -> str:
    words = ["mint", "--sub", f"user{number}", "--edge", f"edge-{number}", "--tools", "ticks,echo"]
    words += ["--issuer", issuer["issuer"], "--directory", str(directory / "issuer")]
    made = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "edged",
        "dev-issuer",
        *words,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    out, _ = await made.communicate()
    return out.decode().strip()


async def _calls(client: McpClient) -> list[float]:
    spent = []
    for _ in range(CALLS):
        began = time.perf_counter()
        await client.call("echo")
        spent.append((time.perf_counter() - began) * 1e3)
    return spent


async def _streams(clients: list[McpClient]) -> tuple[list[float], int]:
    """Ages of all reports in ms, and how many were lost or another stream's."""
    results = await asyncio.gather(
        *(_stream(clients[number % len(clients)], number) for number in range(STREAMS))
    )
    ages = [age for result, _ in results for age in result]
    return ages, sum(bad for _, bad in results)


async def _stream(client: McpClient, mark: int) -> tuple[list[float], int]:
    message = client.message(
        "tools/call",
        {"name": "ticks", "arguments": {"mark": mark}, "_meta": {"progressToken": mark}},
        request_id=f"s{mark}",
    )
    line = await client.open_post(message)
    await line.read_head()
    ages, bad, expected = [], 0, 1
    while (event := await line.next_event()) is not None:
        told = event.json()
        if "result" in told:
            bad += told["id"] != f"s{mark}"
            continue
        found, sent_at = json.loads(told["params"]["message"])
        bad += found != mark or told["params"]["progress"] != expected
        expected += 1
        ages.append((time.perf_counter() - sent_at) * 1e3)
    await line.close()
    return ages, bad + (POINTS - len(ages))


def _free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


if __name__ == "__main__":
    sys.exit(main())
