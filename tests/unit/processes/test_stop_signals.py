"""What asks a daemon to stop."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.promises import promise

SCRIPT = """
import asyncio, os, signal, sys
from edged.service import stop_requested

async def live():
    with stop_requested() as asked:
        os.kill(os.getpid(), getattr(signal, sys.argv[1]))
        try:
            await asyncio.wait_for(asked.wait(), float(sys.argv[3]))
            print("asked")
        except TimeoutError:
            print("not asked")

if sys.argv[2] == "nohup":
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
if sys.argv[2] == "blocked":
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
asyncio.run(live())
"""


@promise("shutdown.sweeps-aborted")
@pytest.mark.skipif(sys.platform == "win32", reason="a process there gets no such signals")
@pytest.mark.parametrize(
    ("name", "start", "within_s", "told"),
    [
        ("SIGTERM", "", "20", "asked"),
        ("SIGINT", "", "20", "asked"),
        ("SIGHUP", "", "20", "asked"),
        ("SIGHUP", "nohup", "0.05", "not asked"),
        ("SIGTERM", "nohup", "20", "asked"),
        # By a parent that waits for it itself.
        ("SIGTERM", "blocked", "20", "asked"),
    ],
)
def test_a_terminal_that_goes_asks_to_stop_unless_it_is_to_be_ignored(
    name: str, start: str, within_s: str, told: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, name, start, within_s],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, told, "")
