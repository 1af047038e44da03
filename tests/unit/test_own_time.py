"""The time that a bound is judged by is that of the process, and not of a machine under load."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from tests.bench.waiting import OwnTime, wait_for

STOPPED_S = 0.6
SCRIPT = """
import time
from tests.bench.waiting import OwnTime
with OwnTime() as own:
    began = time.monotonic()
    print("begun", flush=True)
    input()
    print(own.seconds(), time.monotonic() - began, flush=True)
"""


def test_own_time_goes_on_while_a_test_waits() -> None:
    with OwnTime() as own:
        began = time.monotonic()
        wait_for(lambda: own.seconds() > 0.1)
        assert time.monotonic() - began > 0.1


@pytest.mark.skipif(sys.platform == "win32", reason="processes are not stopped there")
def test_own_time_stands_still_while_the_process_does() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as held:
        assert held.stdin is not None
        assert held.stdout is not None
        assert held.stdout.readline() == "begun\n"
        os.kill(held.pid, signal.SIGSTOP)
        time.sleep(STOPPED_S)  # noqa: TID251 - what is tried is time
        os.kill(held.pid, signal.SIGCONT)
        held.stdin.write("\n")
        held.stdin.flush()
        own_s, passed_s = map(float, held.stdout.readline().split())
    assert passed_s >= STOPPED_S
    assert own_s <= passed_s - STOPPED_S + 0.1
