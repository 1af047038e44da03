"""A serial port: one end of a pty pair, under a name that outlives power cycles. Not on Windows."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

from edged.errors import Invalid
from edged_sim.wires.stream import Host, LineFramer, Visit

READ_BYTES: Final = 65_536
FULL_RETRY_S: Final = 0.002
"""A pty holds 4 KiB; so soon it is looked whether the reader has taken some."""


class SerialWire:
    """See ``Wire`` and ``Mouth``: one line, one reader, no telling whether anybody is there."""

    is_stream = True

    def __init__(self, host: Host) -> None:
        self._host = host
        self._folder: Path | None = None
        # The instrument's end, and the reader's, which is held open so that ours stays usable.
        self._ours = -1
        self._theirs = -1
        self._visit: Visit | None = None
        self._messages: asyncio.Queue[bytes] = asyncio.Queue()
        self._tasks: set[asyncio.Task[None]] = set()
        self._framer = LineFramer(host.message_end)

    @property
    def address(self) -> str:
        return f"ASRL{self._path}::INSTR"

    @property
    def port(self) -> int:
        return 0

    @property
    def is_listening(self) -> bool:
        return self._ours >= 0

    async def open(self, port: int) -> None:
        if "openpty" not in vars(os):
            raise Invalid("A simulated serial port needs ptys, which Windows has not.")
        if port:
            raise Invalid("A serial port has no TCP port.")
        self._folder = Path(tempfile.mkdtemp(prefix="edged-sim-"))
        await self.power_on()

    async def power_on(self) -> None:
        if self._ours < 0 and self._folder is not None:
            self._plug_in()

    def power_off(self) -> None:
        """See ``Wire``: the port is gone, as when a USB adapter is pulled out."""
        if self._ours < 0:
            return
        self._path.unlink(missing_ok=True)
        asyncio.get_running_loop().remove_reader(self._ours)
        for descriptor in (self._ours, self._theirs):
            os.close(descriptor)
        self._ours = self._theirs = -1
        visit, self._visit = self._visit, None
        if visit is not None:
            self._spawn(visit.stop())

    async def close(self) -> None:
        self.power_off()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    async def say(self, data: bytes, *, is_end: bool, tag: int) -> None:  # noqa: ARG002 - the seam's
        end = self._host.serial_end
        rest = data.rstrip(b"\r\n") + end if is_end and end else data
        while rest and self._ours >= 0:
            try:
                rest = rest[os.write(self._ours, rest) :]
            except BlockingIOError:
                await asyncio.sleep(FULL_RETRY_S)

    def end(self) -> None:
        """See ``Mouth``: a serial line does not end."""

    def reset(self) -> None:
        """See ``Mouth``: the port goes and comes back, as a USB adapter that browns out."""
        self.power_off()
        self._plug_in()

    @property
    def _path(self) -> Path:
        return (self._folder or Path()) / self._host.name

    def _plug_in(self) -> None:
        if sys.platform != "win32":
            import tty

            self._ours, self._theirs = os.openpty()
            tty.setraw(self._theirs)
            os.set_blocking(self._ours, False)
            self._path.symlink_to(os.ttyname(self._theirs))
        self._framer = LineFramer(self._host.message_end)
        self._messages = asyncio.Queue()
        self._visit = self._host.join(self)
        if self._visit is not None:
            self._spawn(self._feed(self._visit, self._messages))
        asyncio.get_running_loop().add_reader(self._ours, self._arrived)

    def _arrived(self) -> None:
        with contextlib.suppress(OSError):
            data = os.read(self._ours, READ_BYTES)
            if self._visit is not None:
                self._visit.arrived(data)
            for message in self._framer.feed(data):
                self._messages.put_nowait(message)

    @staticmethod
    async def _feed(visit: Visit, messages: asyncio.Queue[bytes]) -> None:
        while True:
            await visit.hear(await messages.get())

    def _spawn(self, work: object) -> None:
        task = asyncio.get_running_loop().create_task(work)  # type: ignore[arg-type, var-annotated]
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
