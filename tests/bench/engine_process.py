"""A real engine in a process of its own, on a simulated bench, for tests.

``running_engine`` waits until engine.json tells the ports and every address has answered or not.
The process is always gone when the context ends; what it wrote to standard error stays in
``engine.log``.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

READY_WITHIN_S = 60.0
ANSWERED_WITHIN_S = 10.0
ENDED_WITHIN_S = 6.0
POLL_S = 0.02
REPOSITORY = Path(__file__).resolve().parents[2]


@dataclass(slots=True)
class EngineProcess:
    process: subprocess.Popen[bytes]
    state_dir: Path
    log: Path
    ports: dict[str, Any]
    token: str = ""

    @property
    def mcp_url(self) -> str:
        return f"http://127.0.0.1:{self.ports['mcp_port']}{self.ports['mcp_path']}"

    @property
    def rpc_url(self) -> str:
        return f"http://127.0.0.1:{self.ports['rpc_port']}/rpc"

    def rpc(self, method: str, **params: Any) -> Any:
        """One RPC call; raises AssertionError on a JSON-RPC error."""
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        headers = {"Content-Type": "application/json"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        request = urllib.request.Request(self.rpc_url, body.encode(), headers)
        with urllib.request.urlopen(request, timeout=30) as answer:
            reply = json.load(answer)
        assert "error" not in reply, reply
        return reply["result"]

    def tool(self, name: str, **arguments: Any) -> Any:
        """One tool call over RPC: {is_error, result, error?}."""
        return self.rpc("tools/call", name=name, arguments=arguments)

    def sim(self, method: str, **params: Any) -> Any:
        """One call of the simulated bench's control port."""
        import socket

        with socket.create_connection(("127.0.0.1", self.ports["sim_control_port"]), 5) as line:
            line.sendall(
                json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
                + b"\n"
            )
            with line.makefile("rb") as answers:
                reply = json.loads(answers.readline())
        assert "error" not in reply, reply
        return reply["result"]

    def stop(self, within_s: float = ENDED_WITHIN_S) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(within_s)


@contextlib.contextmanager
def running_engine(
    directory: Path,
    *arguments: str,
    sim: bool = True,
    config: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    command: Sequence[str] = (sys.executable, "-m", "edged.cli.main"),
    slowness: float = 1.0,
) -> Iterator[EngineProcess]:
    """Start an engine with free ports and its state in ``directory``.

    Args:
        slowness: how many times the usual it may take to start and to end.
    """
    state_dir = directory / "state"
    settings = {
        "MCP_PORT": 0,
        "RPC_PORT": 0,
        "STATE_DIR": str(state_dir),
        "DATA_DIR": str(directory / "data"),
        "BENCH_FILE": str(directory / "bench.yaml"),
        "DISCOVERY": [],
        # A process each at every start; who tests wrappers names them.
        "SDK_WRAPPER_DIRS": [],
        **(config or {}),
    }
    config_file = directory / "edged.yaml"
    # JSON is YAML, so no YAML writer is needed here.
    config_file.write_text(
        "\n".join(f"{key}: {json.dumps(value)}" for key, value in settings.items())
    )
    log = directory / "engine.log"
    with log.open("ab") as errors:
        begins_at = errors.tell()
        process = subprocess.Popen(
            [*command, "engine", "--config", str(config_file)]
            + (["--sim"] if sim else [])
            + list(arguments),
            stdin=subprocess.DEVNULL,
            stdout=errors,
            stderr=errors,
            cwd=REPOSITORY,
            env={**os.environ, **(environment or {})},
        )
        try:
            engine = EngineProcess(
                process,
                state_dir,
                log,
                _wait_ready(process, state_dir, log, READY_WITHIN_S * slowness),
            )
            entries = settings.get("INSTRUMENTS", ())
            _wait_answered(
                engine,
                begins_at,
                configured=len(entries),
                within_s=ANSWERED_WITHIN_S * slowness,
            )
            yield engine
        finally:
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(ENDED_WITHIN_S * slowness)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()


def _wait_ready(
    process: subprocess.Popen[bytes], state_dir: Path, log: Path, within_s: float
) -> dict[str, Any]:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        with contextlib.suppress(OSError, ValueError):
            ports = json.loads((state_dir / "engine.json").read_text())
            if ports["pid"] == process.pid:
                return ports
        time.sleep(POLL_S)  # noqa: TID251 - a real process has no event to wait for
    raise AssertionError(f"the engine did not get ready:\n{log.read_text(errors='replace')}")


def _wait_answered(
    engine: EngineProcess, begins_at: int, *, configured: int, within_s: float
) -> None:
    """On a busy machine an engine is ready before its instruments have answered; a test is not.

    Goes by the log, so that nothing is asked of the engine. What never answers is not waited for
    longer than it takes to be told.
    """
    wanted = configured
    if engine.ports["sim_control_port"]:
        wanted += len(engine.sim("state")["instruments"])
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline and engine.process.poll() is None:
        with engine.log.open("rb") as file:
            file.seek(begins_at)
            if len(_told_of(file.read())) >= wanted:
                return
        time.sleep(POLL_S)  # noqa: TID251 - a real process has no event to wait for


def _told_of(log: bytes) -> set[str]:
    """Addresses at which somebody answered, or nobody did."""
    found = set()
    for line in log.splitlines():
        with contextlib.suppress(ValueError):
            told = json.loads(line)
            if told.get("event") in {"instrument_registered", "address_unknown"}:
                found.add(told.get("id") or told.get("address"))
            elif told.get("event") == "instrument_alternative":
                found.add(told["address"])
    return found
