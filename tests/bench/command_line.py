"""``edged VERB …`` for tests: here in this process, which costs a tenth of a new interpreter.

What a verb does to its process is not seen this way: signals, the terminal, its exit while others
write. Tests of that start one themselves. Nor can it be done on a thread, or on an event loop that
runs, because standard output is one for all: there a process is started, as for a program that
stays.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

from edged.cli.main import main
from tests.bench.waiting import HANGS_S

STAYING = frozenset({"dev-issuer", "engine", "relay", "sim", "stream", "supervisor"})
# For a doctor of whom a test wants something else: it looks through every profile, for two seconds.
NO_PROFILES = {"EDGED_PROFILE_DIRS": "[]"}


def edged(
    *words: str, environ: Mapping[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """One command line and what came of it.

    Args:
        words: what follows ``edged``.
        environ: variables besides those of this process.
        cwd: where, if not here; a process then.
    """
    if cwd is not None or (words[:1] and words[0] in STAYING) or not _is_free():
        return subprocess.run(
            [sys.executable, "-m", "edged", *words],
            capture_output=True,
            text=True,
            timeout=HANGS_S,
            check=False,
            stdin=subprocess.DEVNULL,
            cwd=cwd,
            env={**os.environ, **(environ or {})},
        )
    errors = io.StringIO()
    with (
        # A file, because some verbs ask for its number.
        tempfile.TemporaryFile("w+", encoding="utf-8") as out,
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(errors),
        _environment(environ or {}),
    ):
        try:
            status = main(words)
        except SystemExit as end:  # argparse's
            status = end.code if isinstance(end.code, int) else 1
        out.seek(0)
        return subprocess.CompletedProcess(words, int(status), out.read(), errors.getvalue())


def _is_free() -> bool:
    if threading.current_thread() is not threading.main_thread():
        return False
    with contextlib.suppress(RuntimeError):
        return asyncio.get_running_loop() is None
    return True


@contextlib.contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
