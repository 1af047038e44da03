"""Twenty edges on one NATS server, two hundred streams at once through one relay front.

All of it real: nats-server, ``edged relay``, and for each edge ``edged supervisor`` with its engine
on a simulated supply. Every supply holds another set-point, which ten streams an edge read twice a
second: a reading of another edge, a report under another token, a gap in the numbers or a missing
end would show. The same streams straight to the engines, for comparison.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from benchmarks.figures import Figure, parse_json_flag, percentile, tell
from tests.bench.mcp_client import McpClient
from tests.bench.nats_server import running_nats
from tests.bench.relay_chain import a_port, process
from tests.bench.sim_bench import SimBench, running_bench
from tests.bench.waiting import wait_for

EDGES = 20
STREAMS = 200
INTERVAL_MS = 500
DURATION_MS = 15_000
POINTS = DURATION_MS // INTERVAL_MS
CALLS = 500
READY_WITHIN_S = 180.0


@dataclass(slots=True)
class Seen:
    """What streams gave.

    Attributes:
        ages_ms: of each report, from the moment it was measured to its arrival.
        missing: points of the grid without a report; the engine skips some on a busy machine.
        wrong: reports out of order, of another stream or edge, and streams without their end.
    """

    ages_ms: list[float]
    missing: int = 0
    wrong: int = 0


def main() -> int:
    as_json = parse_json_flag(__doc__)
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        directory = Path(name)
        nats = stack.enter_context(running_nats(directory / "nats", a_port()))
        serve = ("dev-issuer", "serve", "--port", "0", "--directory", str(directory / "issuer"))
        issuer = stack.enter_context(process(directory / "issuer.log", *serve, reads_line=True))
        bench = stack.enter_context(running_bench("--instruments", f"psu*{EDGES}=rigol_dp832"))
        settings = {
            "RELAY_NATS_URL": nats.url,
            "RELAY_ISSUER": issuer["issuer"],
            "RELAY_JWKS_URL": issuer["jwks_url"],
        }
        words = [f"--set={key}={value}" for key, value in settings.items()]
        front = stack.enter_context(
            process(directory / "front.log", "relay", "--port", "0", *words, reads_line=True)
        )
        _start_edges(stack, directory, settings, bench)
        figures = asyncio.run(_measure(directory, issuer, front["port"]))
    return tell("the relay", figures, as_json=as_json)


def _start_edges(
    stack: contextlib.ExitStack, directory: Path, settings: dict[str, Any], bench: SimBench
) -> None:
    for number, name in enumerate(bench.instruments):
        own = {
            **settings,
            "EDGE_ID": f"edge-{number}",
            "STATE_DIR": str(_state(directory, number)),
            "DATA_DIR": str(directory / f"data-{number}"),
            "BENCH_FILE": str(directory / "bench.yaml"),
            "MCP_PORT": 0,
            "RPC_PORT": 0,
            "EXPOSE": [],
            "DISCOVERY": [],
            "INSTRUMENTS": [{"address": bench.address(name), "name": "psu"}],
        }
        config = directory / f"edge-{number}.yaml"
        config.write_text("\n".join(f"{key}: {json.dumps(value)}" for key, value in own.items()))
        log = directory / f"edge-{number}.log"
        stack.enter_context(process(log, "supervisor", "--config", str(config)))
    engines = [_state(directory, number) / "engine.json" for number in range(EDGES)]
    wait_for(lambda: all(path.exists() for path in engines), READY_WITHIN_S)


async def _measure(directory: Path, issuer: dict[str, str], front_port: int) -> tuple[Figure, ...]:
    direct, relayed, pids = [], [], []
    for number in range(EDGES):
        facts = json.loads((_state(directory, number) / "engine.json").read_text())
        pids.append(facts["pid"])
        direct.append(McpClient(facts["mcp_port"]))
        token = await _token(directory, issuer, number)
        headers = {"Authorization": f"Bearer {token}"}
        relayed.append(McpClient(front_port, path=f"/mcp/edge-{number}", headers=headers))
    await _set_up(direct, relayed)
    alone_direct, alone_relayed = await _calls(direct[0]), await _calls(relayed[0])
    near = await _streams(direct)
    far = await _streams(relayed)
    memory = sum(psutil.Process(pid).memory_info().rss for pid in pids) / len(pids) / 2**20
    return (
        Figure(name="a call, direct, p50", value=percentile(alone_direct, 0.5), unit="ms"),
        Figure(name="a call, relayed, p50", value=percentile(alone_relayed, 0.5), unit="ms"),
        *_ages(near, far),
        Figure(name="reports received, relayed", value=len(far.ages_ms), unit=""),
        Figure(name="points that engines skipped, direct", value=near.missing, unit=""),
        Figure(name="points that engines skipped, relayed", value=far.missing, unit=""),
        Figure(name="lost or crossed", value=near.wrong + far.wrong, unit="", bound=0),
        Figure(name="resident memory of an engine", value=memory, unit="MB"),
    )


def _ages(near: Seen, far: Seen) -> list[Figure]:
    middle, far_middle = percentile(near.ages_ms, 0.5), percentile(far.ages_ms, 0.5)
    return [
        Figure(name="age of a report, direct, p50", value=middle, unit="ms"),
        Figure(name="age of a report, relayed, p50", value=far_middle, unit="ms"),
        Figure(name="added at the median", value=far_middle - middle, unit="ms"),
        Figure(name="age, direct, p99", value=percentile(near.ages_ms, 0.99), unit="ms"),
        Figure(name="age, relayed, p99", value=percentile(far.ages_ms, 0.99), unit="ms"),
    ]


def _set_point(edge: int) -> float:
    return round(0.5 + edge / 4, 3)


async def _set_up(direct: list[McpClient], relayed: list[McpClient]) -> None:
    """Every supply to its own set-point, as soon as it is there; and every edge on the relay."""
    for edge, client in enumerate(direct):
        arguments = {
            "instrument_id": "psu",
            "command_name": "set_voltage",
            "parameters": {"channel": 1, "voltage": _set_point(edge)},
        }
        async with asyncio.timeout(READY_WITHIN_S):
            while (await client.call("execute_command", arguments)).get("isError", True):
                # One that was too slow for a busy machine's first look is looked at again.
                await client.call("scan_instruments")
            while (await relayed[edge].request("ping")).status != 200:  # noqa: ASYNC110
                await asyncio.sleep(0.1)


async def _token(directory: Path, issuer: dict[str, str], number: int) -> str:
    words = ["mint", "--sub", f"user{number}", "--edge", f"edge-{number}", "--danger"]
    words += ["--tools", "start_stream,list_profiles", "--issuer", issuer["issuer"]]
    made = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "edged",
        "dev-issuer",
        *words,
        "--directory",
        str(directory / "issuer"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    out, _ = await made.communicate()
    return out.decode().strip()


async def _calls(client: McpClient) -> list[float]:
    spent = []
    for _ in range(CALLS):
        began = time.perf_counter()
        await client.call("list_profiles")
        spent.append((time.perf_counter() - began) * 1e3)
    return spent


async def _streams(clients: list[McpClient]) -> Seen:
    """All streams at once, each begun a little later than the one before."""
    found = await asyncio.gather(
        *(_stream(clients[number % EDGES], number) for number in range(STREAMS))
    )
    return Seen(
        [age for one in found for age in one.ages_ms],
        sum(one.missing for one in found),
        sum(one.wrong for one in found),
    )


async def _stream(client: McpClient, mark: int) -> Seen:
    await asyncio.sleep(mark * INTERVAL_MS / 1000 / STREAMS)
    arguments = {
        "instrument_id": "psu",
        "command_name": "get_voltage",
        "parameters": {"channel": 1},
        "interval_ms": INTERVAL_MS,
        "duration_ms": DURATION_MS,
    }
    params = {"name": "start_stream", "arguments": arguments, "_meta": {"progressToken": mark}}
    line = await client.open_post(client.message("tools/call", params, request_id=f"s{mark}"))
    await line.read_head()
    seen, count = Seen([]), 0
    while (event := await line.next_event()) is not None:
        told = event.json()
        if "method" not in told:
            count = _end(seen, told, mark)
            continue
        arrived_ms = time.time() * 1e3  # noqa: TID251 - points carry the time of day
        point = json.loads(told["params"]["message"])
        expected = (mark, len(seen.ages_ms) + 1, _set_point(mark % EDGES))
        found = (told["params"]["progressToken"], told["params"]["progress"], point["value"])
        seen.wrong += found != expected
        seen.ages_ms.append(arrived_ms - point["timestamp_ms"])
    await line.close()
    seen.wrong += count != len(seen.ages_ms)
    return seen


def _end(seen: Seen, told: dict[str, Any], mark: int) -> int:
    """The final result: how many points there were, by the engine's own count."""
    if told.get("id") != f"s{mark}" or told.get("result", {}).get("isError", True):
        return -1
    result = json.loads(told["result"]["content"][0]["text"])
    seen.missing = POINTS - int(result["count"])
    return int(result["count"])


def _state(directory: Path, number: int) -> Path:
    return directory / f"state-{number}"


if __name__ == "__main__":
    sys.exit(main())
