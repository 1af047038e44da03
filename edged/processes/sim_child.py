"""The simulated bench as the engine's child process.

The child ends when its standard input closes, so it never outlives the engine, even one that was
killed.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from typing import Any, Final

from edged.errors import ErrorCode, Failed

__all__ = ["SimChild"]

READY_WITHIN_S: Final = 20.0
END_WITHIN_S: Final = 2.0


class SimChild:
    """Starts ``edged sim`` and knows where its instruments listen.

    Args:
        arguments: command-line arguments of the simulated bench.
    """

    def __init__(self, arguments: Sequence[str]) -> None:
        self._arguments = tuple(arguments)
        self._process: asyncio.subprocess.Process | None = None
        self.control_port = 0
        self.instruments: tuple[dict[str, Any], ...] = ()

    async def start(self) -> None:
        """Start it and read its one ready line.

        Raises:
            Failed: it ended or stayed silent; its own words are on standard error.
        """
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "edged.processes.sim",
            *self._arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(READY_WITHIN_S):
                line = await self._process.stdout.readline() if self._process.stdout else b""
            ready = json.loads(line)
        except (TimeoutError, ValueError) as error:
            await self.stop()
            raise Failed(
                "The simulated bench did not start.",
                code=ErrorCode.BIND_FAILED,
                remedy="Run `edged sim` by itself to see why.",
            ) from error
        self.control_port = ready["control"]
        self.instruments = tuple(ready["instruments"])

    async def stop(self) -> None:
        """End it; returns when it is gone."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        try:
            async with asyncio.timeout(END_WITHIN_S):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
