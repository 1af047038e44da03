"""The simulated bench for tests: ``SimBench`` has addresses, control calls and the byte log.

``running_bench`` has it in a thread of this process, ``bench_process`` in a process of its own; it
has ended when the context has.
"""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edged_sim.program import read_options, serving
from tests.bench.hosted import hosted
from tests.bench.waiting import HANGS_S

REPOSITORY = Path(__file__).resolve().parents[2]
COMMAND = (sys.executable, "-m", "edged_sim.program")


class SimError(AssertionError):
    """The bench answered a control call with an error."""


@dataclass(slots=True)
class SimBench:
    """A bench that runs. Every call is synchronous and bounded."""

    control_port: int
    instruments: dict[str, dict[str, Any]]

    def address(self, name: str) -> str:
        """The VISA address of an instrument."""
        return str(self.instruments[name]["address"])

    def port(self, name: str) -> int:
        """The loopback port of an instrument."""
        return int(self.instruments[name]["port"])

    def serial(self, name: str) -> str:
        """The serial number of an instrument."""
        return str(self.instruments[name]["serial"])

    def call(self, method: str, **params: Any) -> Any:
        """One call of the control port; raises SimError with its sentence."""
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        with socket.create_connection(("127.0.0.1", self.control_port), HANGS_S) as line:
            line.sendall(json.dumps(request).encode() + b"\n")
            with line.makefile("rb") as answers:
                reply = json.loads(answers.readline())
        if "error" in reply:
            raise SimError(reply["error"]["message"])
        return reply["result"]

    def fault(
        self, name: str, kind: str, *, seconds: float | None = None, count: int | None = None
    ) -> None:
        """Let a fault befall an instrument: see ``edged_sim.faults.FaultKind``."""
        self.call("fault", instrument=name, kind=kind, seconds=seconds, count=count)

    def clear(self, name: str = "") -> None:
        """End the faults of one instrument or of all."""
        self.call("clear", instrument=name)

    def state(self, name: str) -> dict[str, Any]:
        """Set-points and outputs of an instrument."""
        state: dict[str, Any] = self.call("state")["instruments"][name]["state"]
        return state

    def log(self, name: str = "", since: int = 0) -> list[dict[str, Any]]:
        """The byte log of one instrument or of all, oldest first."""
        entries: list[dict[str, Any]] = []
        while True:
            page = self.call("log", instrument=name, since=since)
            if not page["entries"]:
                return entries
            entries += page["entries"]
            since = page["next"]

    def mark(self) -> int:
        """A place in the log: ``received(name, since=mark)`` tells only what came after it."""
        last: int = self.call("log", since=2**53)["last"]
        return last

    def received(self, name: str, since: int = 0) -> list[str]:
        """The messages that reached an instrument, without line ends."""
        text = "".join(e["text"] for e in self.log(name, since) if e["direction"] == "in")
        return [line for line in text.splitlines() if line]

    def add(self, name: str, model: str, **options: Any) -> dict[str, Any]:
        """Put an instrument on the bench; what the ready line says of one."""
        added: dict[str, Any] = self.call("add", name=name, model=model, **options)
        self.instruments[name] = added
        return added

    def remove(self, name: str) -> None:
        """Take an instrument away."""
        self.call("remove", name=name)
        del self.instruments[name]

    def ask(self, name: str, message: str) -> str:
        """One question over a connection of its own."""
        with socket.create_connection(("127.0.0.1", self.port(name)), HANGS_S) as line:
            line.sendall(message.encode("ascii") + b"\n")
            with line.makefile("rb") as answers:
                return answers.readline().decode("latin-1").rstrip("\n")

    def tell(self, name: str, *messages: str) -> None:
        """Messages without answers; returns when the instrument has done them."""
        self.ask(name, "\n".join((*messages, "*OPC?")))


@dataclass(slots=True)
class SimProcess(SimBench):
    process: subprocess.Popen[bytes]

    def stop(self) -> int:
        """SIGTERM; the exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(HANGS_S)


@contextlib.contextmanager
def running_bench(*arguments: str) -> Iterator[SimBench]:
    """A bench with flags of ``edged sim``."""
    options = read_options(arguments)
    with hosted(lambda: serving(options)) as ready:
        yield SimBench(ready["control"], _by_name(ready))


def _by_name(ready: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return {entry["name"]: entry for entry in ready["instruments"]}


@contextlib.contextmanager
def bench_process(*arguments: str, command: Sequence[str] = COMMAND) -> Iterator[SimProcess]:
    """The same as a child process; ends it whatever happens."""
    process = subprocess.Popen(
        [*command, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=REPOSITORY,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    watchdog = threading.Timer(HANGS_S, process.kill)
    try:
        watchdog.start()
        line = process.stdout.readline()
        watchdog.cancel()
        if not line:
            raise AssertionError(f"the simulated bench ended with {process.wait(HANGS_S)}")
        ready = json.loads(line)
        yield SimProcess(ready["control"], _by_name(ready), process)
    finally:
        watchdog.cancel()
        watchdog.join()
        process.stdin.close()
        try:
            process.wait(HANGS_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
