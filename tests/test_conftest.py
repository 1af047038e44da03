"""The net of conftest.py catches what it is hung up for."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]
ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("import socket; leak.append(socket.socket())", "left behind: socket"),
        (
            "import threading; e = threading.Event(); leak.append(e)\n"
            "    threading.Thread(target=e.wait, args=(20,), name='edged-x', daemon=True).start()",
            "left behind: thread edged-x",
        ),
        (
            "import subprocess, sys\n"
            "    leak.append(subprocess.Popen([sys.executable, '-c', 'input()'],"
            " stdin=subprocess.PIPE))",
            "left behind: process",
        ),
        (
            "import asyncio\n"
            "    leak.append(asyncio.get_running_loop().create_task(asyncio.sleep(60)))",
            "tasks left behind",
        ),
    ],
)
def test_what_a_test_leaves_behind_fails_it(
    pytester: pytest.Pytester, body: str, said: str
) -> None:
    keyword = "async def" if "asyncio" in body else "def"
    pytester.makepyfile(test_leaks=f"leak = []\n\n{keyword} test_leaks():\n    {body}\n")
    pytester.makeconftest(
        "from tests.conftest import *\n"
        "import pytest\n"
        "@pytest.fixture(scope='session', autouse=True)\n"
        "def tidy():\n"
        "    yield\n"
        "    import test_leaks\n"
        "    for thing in test_leaks.leak:\n"
        "        for name in ('close', 'set', 'kill'):\n"
        "            getattr(thing, name, int)()\n"
        "        if hasattr(thing, 'communicate'): thing.communicate()\n"
    )
    result = pytester.runpytest_subprocess(
        "-c/dev/null", f"-opythonpath={ROOT} .", "-oasyncio_mode=auto", "-pno:randomly", "-q"
    )
    result.stdout.fnmatch_lines([f"*{said}*"])


def test_a_tidy_test_passes(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        "async def test_tidy(driven_clock, free_port):\n"
        "    assert free_port() != free_port()\n"
        "    await driven_clock.advance(1)\n"
    )
    pytester.makeconftest("from tests.conftest import *\n")
    result = pytester.runpytest_subprocess(
        "-c/dev/null", f"-opythonpath={ROOT} .", "-oasyncio_mode=auto", "-pno:randomly", "-q"
    )
    result.assert_outcomes(passed=1)
