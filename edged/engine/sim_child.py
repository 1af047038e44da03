"""The simulated bench as the engine's child process.

The child ends when its standard input closes, so it never outlives the engine, even one that was
killed. It is launched before the engine loads its own floors, so that both get ready together.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from edged import files
from edged.errors import ErrorCode, Failed

READY_WITHIN_S: Final = 120.0
END_WITHIN_S: Final = 2.0
HIGHEST_PORT: Final = 65_535


class SimChild:
    """Starts ``edged sim`` at once, and knows later where its instruments listen.

    Args:
        arguments: command-line arguments of the simulated bench.
        ports: the file that keeps where they listen: a later life finds them there again.
    """

    def __init__(self, arguments: Sequence[str], ports: Path) -> None:
        self._ports = ports
        kept = [f"--kept-port={name}={port}" for name, port in _read_ports(ports).items()]
        self._process = self._start([*arguments, *kept])
        self.control_port = 0
        self.instruments: tuple[dict[str, Any], ...] = ()

    def _start(self, arguments: Sequence[str]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(  # noqa: S603 - our own module and interpreter
            [sys.executable, "-m", "edged.plugins", "sim", "edged_sim", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    async def wait_ready(self) -> None:
        """Read its one ready line.

        Raises:
            Failed: it ended or stayed silent; its own words are on standard error.
        """
        output = self._process.stdout
        try:
            async with asyncio.timeout(READY_WITHIN_S):
                line = await asyncio.to_thread(output.readline) if output else b""
            ready = json.loads(line)
        except (TimeoutError, ValueError) as error:
            raise Failed(
                "The simulated bench did not start.",
                code=ErrorCode.BIND_FAILED,
                remedy="Run `edged sim` by itself to see why.",
            ) from error
        self.control_port = ready["control"]
        self.instruments = tuple(ready["instruments"])
        found = {one["name"]: one["port"] for one in self.instruments if one["port"]}
        # Without the file a later life takes other ports, as a first one does.
        with contextlib.suppress(OSError, Failed):
            await asyncio.to_thread(files.write_atomically, self._ports, json.dumps(found))

    def end(self) -> None:
        """End it; returns when it is gone. May be called twice."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(END_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


def _read_ports(file: Path) -> dict[str, int]:
    """Name → port; empty where that cannot be read."""
    try:
        found = json.loads(files.read_text(file))
    except (OSError, ValueError, Failed):
        return {}
    ports = found.items() if isinstance(found, dict) else ()
    return {name: port for name, port in ports if type(port) is int and 0 < port <= HIGHEST_PORT}
