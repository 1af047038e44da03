"""``edged`` under a profiler that notes which files of ``edged`` are entered, all threads.

SIGUSR1 begins a note, SIGUSR2 writes it to the file that ENTERED_FILE names. Run before the words
that run the program: ``python -m benchmarks.peers.profiled_engine python -m edged.cli.main …``.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import threading
from pathlib import Path
from typing import Any

entered: set[str] = set()


def note(frame: Any, event: str, _argument: Any) -> None:
    if event == "call":
        entered.add(frame.f_code.co_filename)


def begin(*_: Any) -> None:
    entered.clear()


def write(*_: Any) -> None:
    target = Path(os.environ["ENTERED_FILE"])
    whole = target.with_suffix(".new")
    whole.write_text("\n".join(sorted(entered)))
    whole.replace(target)


if __name__ == "__main__":
    signal.signal(signal.SIGUSR1, begin)
    signal.signal(signal.SIGUSR2, write)
    threading.setprofile(note)
    sys.setprofile(note)
    sys.argv = ["edged", *sys.argv[4:]]
    runpy.run_module("edged.cli.main", run_name="__main__", alter_sys=True)
