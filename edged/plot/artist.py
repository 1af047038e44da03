"""Has pictures drawn: one process a picture, one at a time, each with a deadline.

What it draws with is an extra of the package (``plot``); where that is not installed, a picture is
refused with a sentence that says so.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from edged.errors import Conflict, ErrorCode, Failed
from edged.files import make_directory
from edged.plot.figure import Figure

DEADLINE_S: Final = 100.0
"""A picture takes about a second of processor time, and the first one on a machine waits for a list
of its fonts. On a busy small computer that is a minute; what takes longer hangs."""
MAX_WAITING: Final = 8
MAX_PNG_BYTES: Final = 8 * 1024 * 1024
PNG: Final = b"\x89PNG\r\n"
LAST_WORDS: Final = 300


def _is_installed() -> bool:
    return importlib.util.find_spec("matplotlib") is not None


class Artist:
    """Has figures drawn.

    Args:
        cache_dir: where the library may keep what it knows of this machine's fonts.
        is_installed: whether there is anything to draw with.
        command: the program that draws.
        deadline_s: how long one picture may take.
    """

    def __init__(
        self,
        *,
        cache_dir: Path,
        is_installed: Callable[[], bool] = _is_installed,
        command: Sequence[str] = (sys.executable, "-m", "edged.plot.draw"),
        deadline_s: float = DEADLINE_S,
    ) -> None:
        self._cache_dir = cache_dir
        self._is_installed = is_installed
        self._command = tuple(command)
        self._deadline_s = deadline_s
        self._turn = asyncio.Lock()
        self._waiting = 0

    @property
    def is_installed(self) -> bool:
        """There is something to draw with."""
        return self._is_installed()

    async def draw(self, figure: Figure) -> bytes:
        """The picture as PNG.

        Raises:
            Conflict: BUSY, too many wait for theirs.
            Failed: DRAWING_FAILED, there is nothing to draw with, or it did not.
        """
        if not self._is_installed():
            raise Failed(
                "Pictures are drawn by matplotlib, which is not installed on the bench's computer.",
                code=ErrorCode.DRAWING_FAILED,
                remedy="Its owner installs matplotlib there (Debian: the package "
                "python3-matplotlib; Python: the extra edged[plot]). Until then take the numbers.",
            )
        if self._waiting >= MAX_WAITING:
            raise Conflict(
                f"{MAX_WAITING} pictures wait to be drawn already.", remedy="Ask again in a moment."
            )
        self._waiting += 1
        try:
            async with self._turn:
                drawn = await self._draw(figure.encode())
        finally:
            self._waiting -= 1
        picture, said = drawn
        if not picture.startswith(PNG) or len(picture) > MAX_PNG_BYTES:
            last = said.decode("utf-8", "replace").strip()[-LAST_WORDS:].splitlines()[-1:]
            raise Failed(
                f"The picture was not drawn: {last[0] if last else 'no reason was given'}",
                code=ErrorCode.DRAWING_FAILED,
                remedy="Ask for another format.",
            )
        return picture

    async def _draw(self, wanted: bytes) -> tuple[bytes, bytes]:
        """What the program wrote, and what it said."""
        environ = {**os.environ, "MPLBACKEND": "agg"}
        # Behind a link, or where it cannot be made, nothing is kept for the library.
        with contextlib.suppress(OSError):
            await asyncio.to_thread(make_directory, self._cache_dir)
            environ["MPLCONFIGDIR"] = str(self._cache_dir)
        process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environ,
        )
        try:
            async with asyncio.timeout(self._deadline_s):
                return await process.communicate(wanted)
        except TimeoutError:
            raise Failed(
                f"The picture was not drawn within {self._deadline_s:g} s.",
                code=ErrorCode.DRAWING_FAILED,
                remedy="Ask for another format.",
            ) from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
