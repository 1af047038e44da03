"""The whole relay route in real processes, from the issuer to the simulated bench."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.bench.engine_process import REPOSITORY
from tests.bench.mcp_client import Answer
from tests.bench.nats_server import USERS, NatsServer, running_nats
from tests.bench.waiting import HANGS_S, wait_for

EDGE = "edge-1"
EDGED = (sys.executable, "-m", "edged")


@dataclass
class Chain:
    """What a test works with."""

    directory: Path
    nats: NatsServer
    issuer_url: str
    supervisor: subprocess.Popen[bytes] | None = None
    front_ports: list[int] = field(default_factory=list)

    @property
    def state_dir(self) -> Path:
        return self.directory / "state"

    def url(self, front: int = 0, edge: str = EDGE) -> str:
        return f"http://127.0.0.1:{self.front_ports[front]}/mcp/{edge}"

    def token(
        self,
        *tools: str,
        danger: bool = False,
        sub: str = "ada",
        edge: str = EDGE,
        lives_s: int = 300,
    ) -> str:
        words = ["mint", "--sub", sub, "--edge", edge, "--issuer", self.issuer_url]
        words += ["--tools", ",".join(tools), "--directory", str(self.directory / "issuer")]
        words += ["--lives-s", str(lives_s)]
        words += ["--danger"] if danger else []
        done = subprocess.run(
            [*EDGED, "dev-issuer", *words], capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    def fleet_token(self, *tools: str, edges: str = EDGE, danger: bool = False) -> str:
        directory = self.directory / "issuer"
        return fleet_token(directory, self.issuer_url, *tools, edges=edges, danger=danger)

    def fleet_url(self, front: int = 0) -> str:
        return f"http://127.0.0.1:{self.front_ports[front]}/mcp"

    def fleet(self, token: str, front: int = 0) -> list[dict[str, Any]]:
        """The edges of GET /fleet."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.front_ports[front]}/fleet",
            headers={"Accept": "application/json", "Authorization": f"Bearer {token}"},
        )
        with urllib.request.urlopen(request, timeout=HANGS_S) as reply:
            edges: list[dict[str, Any]] = json.load(reply)["edges"]
            return edges

    def ask_fleet(self, token: str, name: str, front: int = 0, /, **arguments: Any) -> Any:
        """The whole answer of a tool of the fleet."""
        params = {"name": name, "arguments": arguments}
        return self.post(token, "tools/call", url=self.fleet_url(front), **params)[1]

    def post(
        self, token: str, method: str, front: int = 0, url: str = "", **params: Any
    ) -> tuple[int, Any]:
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        request = urllib.request.Request(
            url or self.url(front),
            body.encode(),
            {
                "Content-Type": "application/json",
                "Accept": "application/json, text/event-stream",
                "MCP-Protocol-Version": "2025-11-25",
                "Authorization": f"Bearer {token}",
            },
        )
        try:
            with urllib.request.urlopen(request, timeout=HANGS_S) as reply:
                return reply.status, Answer.of(reply).messages()[-1]
        except urllib.error.HTTPError as refused:
            return refused.code, Answer.of(refused).messages()[-1]

    def rpc_tool(self, name: str) -> Any:
        """A tool called at the edge itself: {is_error, result}."""
        port = json.loads((self.state_dir / "engine.json").read_text())["rpc_port"]
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name}}
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/rpc",
            json.dumps(call).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=HANGS_S) as reply:
            return json.load(reply)["result"]

    def engine_pid(self) -> int:
        return int(json.loads((self.state_dir / "engine.json").read_text())["pid"])


def fleet_token(directory: Path, issuer: str, *tools: str, edges: str, danger: bool = False) -> str:
    """A token for these edges, by the issuer whose key lies there."""
    words = ["mint", "--sub", "ada", "--fleet", edges, "--issuer", issuer]
    words += ["--tools", ",".join(tools), "--directory", str(directory)]
    words += ["--danger"] if danger else []
    done = subprocess.run(
        [*EDGED, "dev-issuer", *words], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def a_port() -> int:
    """A port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


@contextlib.contextmanager
def process(log: Path, *words: str, reads_line: bool = False) -> Iterator[Any]:
    """A program of edged; with ``reads_line`` its first line of output, as JSON."""
    with log.open("ab") as errors:
        made = subprocess.Popen(
            [*EDGED, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if reads_line else errors,
            stderr=errors,
            cwd=REPOSITORY,
            env={**os.environ},
        )
    try:
        if reads_line:
            assert made.stdout is not None
            line = made.stdout.readline()
            assert line, log.read_text()
            yield json.loads(line)
        else:
            yield made
    finally:
        if made.poll() is None:
            made.send_signal(signal.SIGTERM)
        try:
            made.wait(HANGS_S)
        except subprocess.TimeoutExpired:
            made.kill()
            made.wait()
        if made.stdout is not None:
            made.stdout.close()


@contextlib.contextmanager
def running_chain(
    directory: Path,
    ports: Callable[[], int],
    *,
    fronts: int = 2,
    edge_arguments: tuple[str, ...] = ("--sim",),
    users: str = USERS,
    front_settings: Mapping[str, Any] = {},
    edge_settings: Mapping[str, Any] = {},
    front_port: int = 0,
    issuer_options: tuple[str, ...] = (),
) -> Iterator[Chain]:
    """Everything started; the first call through it has been answered.

    Args:
        front_port: of the only front, where its own URL has to be known.
    """
    with contextlib.ExitStack() as stack:
        nats = stack.enter_context(
            running_nats(directory / "nats", ports(), is_guarded=True, users=users)
        )
        serve = ("dev-issuer", "serve", "--port", "0", "--directory", str(directory / "issuer"))
        serve += issuer_options
        told = stack.enter_context(process(directory / "issuer.log", *serve, reads_line=True))
        chain = Chain(directory, nats, told["issuer"])
        common = {
            "RELAY_NATS_URL": nats.url,
            "RELAY_CA_FILE": str(nats.ca_file),
            "RELAY_ISSUER": told["issuer"],
            "RELAY_JWKS_URL": told["jwks_url"],
        }
        front_config = _write(
            directory / "front.yaml",
            {**common, "RELAY_CREDENTIALS": str(nats.credentials("front")), **front_settings},
        )
        for number in range(fronts):
            words = ("relay", "--config", str(front_config), "--port", str(front_port))
            log = directory / f"front{number}.log"
            ready = stack.enter_context(process(log, *words, reads_line=True))
            chain.front_ports.append(ready["port"])
        edge_config = _write(
            directory / "edge.yaml",
            {
                **common,
                "RELAY_CREDENTIALS": str(nats.credentials(EDGE)),
                "EDGE_ID": EDGE,
                "MCP_PORT": 0,
                "RPC_PORT": 0,
                "STATE_DIR": str(chain.state_dir),
                "BENCH_FILE": str(directory / "bench.yaml"),
                "EXPOSE": [],
                **edge_settings,
            },
        )
        words = ("supervisor", "--config", str(edge_config), "--", *edge_arguments)
        chain.supervisor = stack.enter_context(process(directory / "supervisor.log", *words))
        token = chain.token("get_status")
        wait_for(lambda: chain.post(token, "ping")[0] == 200)
        yield chain


def _write(path: Path, settings: dict[str, Any]) -> Path:
    # JSON is YAML, so no YAML writer is needed here.
    path.write_text("\n".join(f"{key}: {json.dumps(value)}" for key, value in settings.items()))
    return path
