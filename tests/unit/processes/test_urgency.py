"""How a new engine goes before other programs, and stops doing so."""

from __future__ import annotations

import subprocess
import sys

from edged.service import hurry
from tests.bench.waiting import HANGS_S

SCRIPT = """
import os
from edged.service import calm, hurry
started = os.getpriority(os.PRIO_PROCESS, 0)
os.setpriority(os.PRIO_PROCESS, 0, started + 3)
hurry(os.getpid())
hurried = os.getpriority(os.PRIO_PROCESS, 0)
calm()
print(hurried - started in (-7, 3), os.getpriority(os.PRIO_PROCESS, 0) - started)
"""


def test_whoever_hurried_shares_again_as_its_parent_does() -> None:
    # With the privilege ten steps; without it none, and no complaint. The way back needs one
    # where it was not hurried; as a child that starts as nice as its parent it has it or not.
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=HANGS_S, check=True
    )
    is_as_expected, left = done.stdout.split()
    assert is_as_expected == "True"
    assert int(left) in {0, 3}


def test_a_program_that_is_gone_is_no_trouble() -> None:
    hurry(2**22 + 1)
