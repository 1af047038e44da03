"""A bench machine and a client, each in a network namespace of its own, as one program.

Run as ``unshare -rn python -m tests.faults.network_bench DIRECTORY``; prints what was seen as one
JSON object. The bench machine has 10.77.0.1 (private) and 203.0.113.1 (not); the client .2 of each.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import psutil

from tests.bench.waiting import HANGS_S

REPOSITORY = Path(__file__).resolve().parents[2]
PORT = 8767
ALL_OF_IT_S = 800
INITIALIZE = json.dumps(
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-03-26",
            "capabilities": {},
            "clientInfo": {"name": "curl", "version": "1"},
        },
    }
)


def ip(*words: str, of: int = 0) -> None:
    inside = ["nsenter", "-t", str(of), "-n"] if of else []
    subprocess.run([*inside, "ip", *words], check=True)


class Client:
    """Somebody on the private network."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(["unshare", "-n", "sleep", "3600"])
        own = Path("/proc/self/ns/net").readlink()
        while Path(f"/proc/{self.process.pid}/ns/net").readlink() == own:
            time.sleep(0.01)  # noqa: TID251

    def post(self, host: str, *headers: str, body: str = INITIALIZE) -> tuple[int, float, Any]:
        """Status, seconds, JSON body."""
        return post(host, *headers, body=body, of=self.process.pid)


def post(host: str, *headers: str, body: str = INITIALIZE, of: int = 0) -> tuple[int, float, Any]:
    """The status, the seconds that the request itself took, and the answer."""
    inside = ["nsenter", "-t", str(of), "-n"] if of else []
    options = [word for header in headers for word in ("-H", header)]
    done = subprocess.run(
        [
            *inside,
            "curl",
            "-s",
            "-m",
            f"{HANGS_S:g}",
            "-w",
            "\n%{http_code} %{time_total}",
            "-d",
            body,
            "-H",
            "Content-Type: application/json",
            "-H",
            "Accept: application/json, text/event-stream",
            *options,
            f"http://{host}:{PORT}/mcp",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    text, _, told = done.stdout.rpartition("\n")
    status, took_s = told.split()
    return int(status), float(took_s), json.loads(text) if text else None


def wait_for(what: Any, within_s: float = HANGS_S) -> float:
    began = time.monotonic()
    while not what():
        if time.monotonic() - began > within_s:
            raise AssertionError("it did not happen in time")
        time.sleep(0.02)  # noqa: TID251
    return time.monotonic() - began


def engine_pid(state: Path) -> int:
    return int(json.loads((state / "engine.json").read_text())["pid"])


@contextlib.contextmanager
def two_machines(
    directory: Path, environment: Mapping[str, str] = MappingProxyType({})
) -> Iterator[tuple[Client, subprocess.Popen[bytes], Path]]:
    """A client, a supervisor on the bench machine, and its state directory."""
    state = directory / "state"
    ip("link", "set", "lo", "up")
    client = Client()
    ip("link", "add", "bench0", "type", "veth", "peer", "name", "client0")
    ip("link", "set", "client0", "netns", str(client.process.pid))
    for network in ("10.77.0", "203.0.113"):
        ip("addr", "add", f"{network}.1/24", "dev", "bench0")
        ip("addr", "add", f"{network}.2/24", "dev", "client0", of=client.process.pid)
    ip("link", "set", "bench0", "up")
    ip("link", "set", "client0", "up", of=client.process.pid)
    log = (directory / "supervisor.log").open("wb")
    supervisor = subprocess.Popen(
        [sys.executable, "-m", "edged", "supervisor", "--state-dir", str(state), "--", "--sim"],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        cwd=REPOSITORY,
        env={**os.environ, **environment},
    )
    try:
        yield client, supervisor, state
    finally:
        supervisor.send_signal(signal.SIGTERM)
        supervisor.wait(HANGS_S)
        client.process.kill()
        client.process.wait()


def main(directory: Path) -> dict[str, Any]:
    with two_machines(directory) as (client, supervisor, state):
        return watch(client, supervisor, state)


def watch(client: Client, supervisor: subprocess.Popen[bytes], state: Path) -> dict[str, Any]:
    seen: dict[str, Any] = {}
    wait_for(lambda: client.post("10.77.0.1")[0] == 200)
    name = os.uname().nodename
    seen["by ip"] = client.post("10.77.0.1")
    seen["by name"] = client.post("10.77.0.1", f"Host: {name}:{PORT}")
    seen["foreign host"] = client.post("10.77.0.1", "Host: evil.example")
    seen["foreign origin"] = client.post("10.77.0.1", "Origin: http://evil.example")
    seen["outside"] = client.post("203.0.113.1")
    descriptors = psutil.Process(supervisor.pid).num_fds()

    def is_answered_for() -> bool:
        """Whether it was away for both; on a busy machine the next one may be there before them."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(engine_pid(state), signal.SIGKILL)
        seen["away, private"] = client.post("10.77.0.1")
        seen["away, loopback"] = post("127.0.0.1")
        return seen["away, private"][0] == seen["away, loopback"][0] == 503

    wait_for(is_answered_for)
    more = [ask for _ in range(50) for ask in (client.post("10.77.0.1"), post("127.0.0.1"))]
    away = [seen["away, private"], seen["away, loopback"], *more]
    seen["median s"] = statistics.median(took for status, took, _ in away if status == 503)
    seen["back after s"] = wait_for(lambda: client.post("10.77.0.1")[0] == 200)
    wait_for(lambda: post("127.0.0.1")[0] == 200)
    seen["descriptors grown by"] = psutil.Process(supervisor.pid).num_fds() - descriptors
    ip("addr", "add", "10.99.0.1/32", "dev", "bench0")
    listening = state / "supervisor.json"
    seen["new address after s"] = wait_for(lambda: "10.99.0.1" in listening.read_text())
    hung = engine_pid(state)
    os.kill(hung, signal.SIGSTOP)
    wait_for(lambda: not psutil.pid_exists(hung))
    seen["back after hang s"] = wait_for(lambda: client.post("10.77.0.1")[0] == 200)
    return seen


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(Path(sys.argv[1]))))
