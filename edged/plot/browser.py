"""Has a page printed by a browser that is installed: one process a page, each with a deadline.

The page is a whole one without scripts that fetches nothing, and the browser gets no network for
it, no profile but an empty one of its own, and no home.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from edged.errors import ErrorCode, Failed

__all__ = ["NAMES", "PrintingBrowser", "find_browser"]

NAMES: Final = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
    "microsoft-edge",
    "msedge",
)
"""Browsers that print by the same flags, in the order in which they are looked for."""
DEADLINE_S: Final = 60.0
"""A Raspberry Pi takes some ten seconds to start one."""
MAX_PDF_BYTES: Final = 32 * 1024 * 1024
PDF: Final = b"%PDF-"
FLAGS: Final = (
    "--headless",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-breakpad",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-sync",
    "--no-default-browser-check",
    "--no-first-run",
    "--no-pdf-header-footer",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--password-store=basic",
)
WORDS_KEPT: Final = ("PATH", "LANG", "LC_ALL", "TZ", "SYSTEMROOT", "PROGRAMFILES", "TEMP", "TMPDIR")


def find_browser() -> str:
    """The program of a browser that can print; empty where none is on PATH."""
    return next(filter(None, map(shutil.which, NAMES)), "")


class PrintingBrowser:
    """Has pages printed.

    Args:
        find: the program; empty where there is none.
        deadline_s: how long one page may take.
    """

    def __init__(
        self, *, find: Callable[[], str] = find_browser, deadline_s: float = DEADLINE_S
    ) -> None:
        self._find = find
        self._deadline_s = deadline_s

    @property
    def is_installed(self) -> bool:
        """There is one."""
        return bool(self._find())

    async def print(self, page: bytes) -> bytes:
        """A page as PDF.

        Args:
            page: HTML that needs nothing besides.

        Raises:
            Failed: DRAWING_FAILED, there is none, or it did not.
        """
        program = self._find()
        if not program:
            raise _failed("no browser is installed")
        making = asyncio.ensure_future(asyncio.to_thread(_new_place, page))
        try:
            place = await asyncio.shield(making)
            status = await self._run(program, place)
            printed = await asyncio.to_thread(_read, place / "page.pdf")
        finally:
            # Also where whoever waits goes away while it is made.
            await asyncio.shield(_remove(making))
        if not printed.startswith(PDF) or len(printed) > MAX_PDF_BYTES:
            # What it says on its way is about desktops, not about this.
            raise _failed(f"{Path(program).name} ended with status {status} and made no PDF")
        return printed

    async def _run(self, program: str, place: Path) -> int:
        """Its exit status; it and all that it started have ended."""
        try:
            process = await asyncio.create_subprocess_exec(
                program,
                *_flags(place),
                (place / "page.html").as_uri(),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
                env=_environ(place),
                # A process group of its own: a browser is many processes.
                start_new_session=sys.platform != "win32",
            )
        except OSError as error:
            raise _failed(f"{program} cannot be started: {error.strerror}") from error
        try:
            async with asyncio.timeout(self._deadline_s):
                return await process.wait()
        except TimeoutError:
            raise _failed(
                f"{Path(program).name} did not print it within {self._deadline_s:g} s"
            ) from None
        finally:
            _kill_group(process)
            await process.wait()


def _new_place(page: bytes) -> Path:
    place = Path(tempfile.mkdtemp(prefix="edged-print-"))
    (place / "page.html").write_bytes(page)
    return place


async def _remove(making: asyncio.Future[Path]) -> None:
    with contextlib.suppress(OSError):
        await asyncio.to_thread(shutil.rmtree, await making, ignore_errors=True)


def _read(path: Path) -> bytes:
    with contextlib.suppress(OSError), path.open("rb") as file:
        return file.read(MAX_PDF_BYTES + 1)
    return b""


def _flags(place: Path) -> list[str]:
    own = [f"--user-data-dir={place / 'profile'}", f"--print-to-pdf={place / 'page.pdf'}"]
    # It refuses to keep itself in for root, who has nothing to keep it in with; the page is ours.
    is_root = sys.platform != "win32" and os.geteuid() == 0
    return [*FLAGS, *(["--no-sandbox"] if is_root else []), *own]


def _environ(place: Path) -> dict[str, str]:
    kept = {name: os.environ[name] for name in WORDS_KEPT if name in os.environ}
    home = str(place)
    return {**kept, "HOME": home, "XDG_CONFIG_HOME": home, "XDG_CACHE_HOME": home}


def _kill_group(process: asyncio.subprocess.Process) -> None:
    """What it started may outlive it, also where it ended well."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if sys.platform != "win32":
            os.killpg(process.pid, signal.SIGKILL)
        elif process.returncode is None:
            process.kill()


def _failed(why: str) -> Failed:
    return Failed(
        f"The page was not printed: {why}.",
        code=ErrorCode.DRAWING_FAILED,
        remedy="Take the HTML, which any browser prints.",
    )
