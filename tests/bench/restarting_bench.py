"""A bench whose engine can be stopped and started again at the same address."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

from tests.bench.engine import Engine, running_engine
from tests.bench.sim_bench import SimBench, running_bench

SCANS = 10


class RestartingBench:
    """Two supplies of one kind, the second switched off; the simulation outlives the engine.

    Attributes:
        sim: the simulated bench.
        engine: the present engine.
    """

    def __init__(self, sim: SimBench, directory: Path, stack: contextlib.ExitStack) -> None:
        self.sim = sim
        self._directory = directory
        self._stack = stack
        self._port = _free_port()
        self.engine = self._start()

    @property
    def mcp_url(self) -> str:
        return self.engine.mcp_url

    def restart(self) -> None:
        """Another engine at the same address; sessions of the first are unknown to it."""
        self._stack.close()
        self.engine = self._start()

    def plug(self) -> None:
        """The second supply comes; a busy machine may need a second look to see it."""
        self.sim.clear("psu2")
        for _ in range(SCANS):
            self.engine.tool("scan_instruments")
            if len(self.engine.tool("list_instruments")["result"]) == 2:
                return

    def unplug(self) -> None:
        """It goes; the engine notices within GONE_AFTER_SEC."""
        self.sim.fault("psu2", "refuse")

    def _start(self) -> Engine:
        config = {
            "MCP_PORT": self._port,
            "INSTRUMENTS": [
                {"address": self.sim.address("psu1"), "name": "psu1"},
                {"address": self.sim.address("psu2"), "name": "psu2"},
            ],
            "GONE_AFTER_SEC": 1,
        }
        return self._stack.enter_context(running_engine(self._directory, sim=False, config=config))


@contextlib.contextmanager
def two_supplies() -> Iterator[SimBench]:
    with running_bench("--instruments", "psu1=rigol_dp832,psu2=rigol_dp832") as sim:
        yield sim


@contextlib.contextmanager
def restarting_bench(sim: SimBench, directory: Path) -> Iterator[RestartingBench]:
    with contextlib.ExitStack() as stack:
        sim.fault("psu2", "refuse")
        yield RestartingBench(sim, directory, stack)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
