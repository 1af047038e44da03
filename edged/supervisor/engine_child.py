"""The engine as the supervisor's child: started, found by its engine.json, stopped, its words kept.

An engine may also be there already (started by its own unit, or left by a supervisor that was
killed): then that one is worked with, because a second one could not have the state directory. It
is not ended with the supervisor, who has not started it; one that hangs is.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, Final

from edged.clock import Clock
from edged.files import read_bytes
from edged.service import hurry, lock_holder, without_notification
from edged.supervisor.watchdog import Health

ENGINE_FILE: Final = "engine.json"
STOP_WITHIN_S: Final = 6.0
KILLED_WITHIN_S: Final = 2.0
LOOK_S: Final = 0.02
LOOK_FOREIGN_S: Final = 0.25
KEPT_OUTPUT: Final = 16
READ_BYTES: Final = 64 * 1024


def read_engine_file(state_dir: Path) -> tuple[int, Health] | None:
    """PID and ports of the engine that works with this state directory, or says so."""
    try:
        facts: dict[str, Any] = json.loads(read_bytes(state_dir / ENGINE_FILE))
        health = Health(
            rpc_port=int(facts["rpc_port"]) if facts["rpc_port"] else None,
            mcp_port=facts["mcp_port"],
            mcp_path=str(facts["mcp_path"]),
            hislip_port=facts.get("hislip_port"),
        )
        return int(facts["pid"]), health
    except (OSError, ValueError, KeyError, TypeError):
        return None


class EngineChild:
    """One life of the engine.

    Args:
        arguments: what follows ``edged engine --supervised``.
        state_dir: where it leaves its engine.json.
        out: takes what the engine writes, besides its last words being kept.
        clock: for waits.

    Attributes:
        pid: 0 before it is started.
        output: passes on what it writes. May outlast it: a child of its own that lives on a little
            holds its output open, and the next life does not wait for that.
    """

    def __init__(
        self, arguments: Sequence[str], *, state_dir: Path, out: IO[bytes], clock: Clock
    ) -> None:
        self._arguments = tuple(arguments)
        self._state_dir = state_dir
        self._out = out
        self._clock = clock
        self._process: asyncio.subprocess.Process | None = None
        self._last_words: deque[bytes] = deque(maxlen=KEPT_OUTPUT)
        self.pid = 0
        self.output: asyncio.Task[None] | None = None

    @property
    def is_ours(self) -> bool:
        """Whether it was started here."""
        return self._process is not None

    @property
    def last_words(self) -> str:
        """The end of what it wrote."""
        return b"".join(self._last_words)[-2_000:].decode("utf-8", "replace")

    async def start(self) -> None:
        """Start it, or take the one that is there."""
        there = read_engine_file(self._state_dir)
        if there is not None and lock_holder(self._state_dir) == str(there[0]):
            self.pid = there[0]
            return
        environ = dict(os.environ)
        without_notification(environ)
        if self._out.isatty():
            environ.setdefault("EDGED_LOG_FORMAT", "console")
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "edged",
            "engine",
            "--supervised",
            *self._arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=environ,
            creationflags=_creation_flags(),
        )
        self.pid = self._process.pid
        hurry(self.pid)
        self.output = asyncio.create_task(self._pass_words_on(), name="engine output")

    async def ready(self) -> Health:
        """Where it listens, as soon as it says so; waits for ever otherwise."""
        while True:
            found = read_engine_file(self._state_dir)
            if found is not None and found[0] == self.pid:
                return found[1]
            await self._clock.sleep(LOOK_S)

    async def ended(self) -> int:
        """Its exit status, when it is gone; of one that is no child of ours always 0."""
        if self._process is not None:
            return await self._process.wait()
        while lock_holder(self._state_dir) == str(self.pid):
            await self._clock.sleep(LOOK_FOREIGN_S)
        return 0

    async def stop(self) -> None:
        """Ask it to end; kill it if it does not.

        One that hangs at a disk stays in the kernel, killed or not: that is not waited for.
        """
        self._signal(_stop_signal())
        try:
            async with asyncio.timeout(STOP_WITHIN_S):
                await self.ended()
        except TimeoutError:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(KILLED_WITHIN_S):
                    await self.kill()

    async def kill(self) -> None:
        """End it now."""
        self._signal(_kill_signal())
        await self.ended()

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if self._process is not None:
                self._process.send_signal(number)
            elif self.pid:
                os.kill(self.pid, number)

    async def _pass_words_on(self) -> None:
        output = self._process.stdout if self._process is not None else None
        while output is not None and (words := await output.read(READ_BYTES)):
            self._last_words.append(words[-READ_BYTES // KEPT_OUTPUT :])
            with contextlib.suppress(OSError, ValueError):
                self._out.write(words)
                self._out.flush()


def _stop_signal() -> signal.Signals:
    """What asks a child to end."""
    if sys.platform == "win32":
        # SIGTERM is a kill there; Ctrl-Break asks.
        return signal.CTRL_BREAK_EVENT
    else:  # noqa: RET505 - mypy for Windows calls what follows a return unreachable
        return signal.SIGTERM


def _kill_signal() -> signal.Signals:
    """What ends it now."""
    if sys.platform == "win32":
        return signal.SIGTERM
    else:  # noqa: RET505 - as above
        return signal.SIGKILL


def _creation_flags() -> int:
    """Only a process group of its own gets a Ctrl-Break alone."""
    if sys.platform == "win32":
        return subprocess.CREATE_NEW_PROCESS_GROUP
    else:  # noqa: RET505 - as above
        return 0
