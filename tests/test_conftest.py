"""The net of conftest.py catches what it is hung up for."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]
ROOT = Path(__file__).parent.parent

LEAKS = """
import asyncio, socket, subprocess, sys, threading
leak = []

async def test_tidy(driven_clock, free_port):
    assert free_port() != free_port()
    await driven_clock.advance(1)

def test_socket():
    leak.append(socket.socket())

def test_thread():
    over = threading.Event()
    leak.append(over)
    threading.Thread(target=over.wait, args=(20,), name='edged-x', daemon=True).start()

def test_process():
    leak.append(subprocess.Popen([sys.executable, '-c', 'input()'], stdin=subprocess.PIPE))

async def test_task():
    leak.append(asyncio.get_running_loop().create_task(asyncio.sleep(60)))
"""
TIDY = """
from tests.bench import leaks
leaks.GRACE_S = 0.3  # what is left behind here stays
from tests.conftest import *
import pytest

@pytest.fixture(scope='session', autouse=True)
def tidy():
    yield
    import test_leaks
    for thing in test_leaks.leak:
        for name in ('close', 'set', 'kill'):
            getattr(thing, name, int)()
        if hasattr(thing, 'communicate'):
            thing.communicate()
"""
SAID = {
    "socket": "left behind: socket",
    "thread": "left behind: thread edged-x",
    "process": "left behind: process",
    "task": "tasks left behind",
}


def test_what_a_test_leaves_behind_fails_it_and_no_other(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_leaks=LEAKS)
    pytester.makeconftest(TIDY)
    result = pytester.runpytest_subprocess(
        "-c/dev/null", f"-opythonpath={ROOT} .", "-oasyncio_mode=auto", "-pno:randomly", "-q", "-rE"
    )
    result.assert_outcomes(passed=5, errors=len(SAID))
    for name, said in SAID.items():
        result.stdout.fnmatch_lines([f"*ERROR*test_{name} - *{said}*"])
