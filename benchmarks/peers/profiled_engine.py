"""``edged`` under a profiler that counts the Python functions that are called, by thread.

SIGUSR1 begins a count, SIGUSR2 writes it to the file that COUNT_FILE names, as JSON: ``loop`` and
``others`` (calls on the main thread, where the loop runs, and on all others), each an object of
``FILE:FUNCTION`` with the number of its calls. Run before the words that run the program:
``python -m benchmarks.peers.profiled_engine python -m edged.cli.main …``.
"""

from __future__ import annotations

import json
import os
import runpy
import signal
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

calls: dict[str, Counter[Any]] = {"loop": Counter(), "others": Counter()}


def counted_on(thread: str) -> Any:
    counter = calls[thread]

    def count(frame: Any, event: str, _argument: Any) -> None:
        if event == "call" and (code := frame.f_code).co_filename != __file__:
            counter[code] += 1

    return count


def begin(*_: Any) -> None:
    for counter in calls.values():
        counter.clear()


def write(*_: Any) -> None:
    sys.setprofile(None)
    target = Path(os.environ["COUNT_FILE"])
    whole = target.with_suffix(".new")
    whole.write_text(json.dumps({name: named(counter) for name, counter in calls.items()}))
    whole.replace(target)
    sys.setprofile(ON_LOOP)


def named(counter: Counter[Any]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for code, count in counter.copy().items():
        found[f"{code.co_filename}:{code.co_qualname}"] += count
    return found


ON_LOOP = counted_on("loop")

if __name__ == "__main__":
    signal.signal(signal.SIGUSR1, begin)
    signal.signal(signal.SIGUSR2, write)
    threading.setprofile(counted_on("others"))
    sys.setprofile(ON_LOOP)
    sys.argv = ["edged", *sys.argv[4:]]
    runpy.run_module("edged.cli.main", run_name="__main__", alter_sys=True)
