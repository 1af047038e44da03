"""A program of PyVISA's that does what programs should not: ``@edged`` and the bench must bear it.

``python -m tests.bench.visa_attacker HOW URL`` works the unit ``psu1``, which answers ``ECHO? n``
with n, and prints one line of JSON about what it met.
"""

from __future__ import annotations

import contextlib
import faulthandler
import itertools
import json
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pyvisa
from pyvisa.resources import MessageBasedResource

THREADS: Final = 16
EACH: Final = 100
OPENS: Final = 1_000
MANAGERS: Final = 100
BREAKS: Final = 300
HANGS_S: Final = 90.0
UNITS: Final = 60


def main(how: str, url: str) -> int:
    told = HOWS[how](url)
    print(json.dumps(told), flush=True)  # noqa: T201
    return 0


def manager(url: str) -> pyvisa.ResourceManager:
    return pyvisa.ResourceManager(f"{url}@edged")


def opened(rm: pyvisa.ResourceManager) -> MessageBasedResource:
    unit = rm.open_resource("psu1", read_termination="\n", timeout=30_000)
    assert isinstance(unit, MessageBasedResource)
    return unit


def crossed(unit: MessageBasedResource, first: int, count: int = EACH) -> list[tuple[int, str]]:
    """The questions that got another answer than their own."""
    asked = ((n, unit.query(f"ECHO? {n}")) for n in range(first, first + count))
    return [(number, answer) for number, answer in asked if answer != str(number)]


def refusal(work: Callable[[], object]) -> str:
    """What VISA's error says; empty where there is none."""
    try:
        work()
    except pyvisa.VisaIOError as error:
        return str(error)
    return ""


def threads(url: str) -> Any:
    """Sixteen threads with one manager, each with the unit open for itself."""
    rm = manager(url)

    def one(number: int) -> list[tuple[int, str]]:
        with opened(rm) as unit:
            return crossed(unit, number * 10_000)

    with ThreadPoolExecutor(THREADS) as pool:
        found = list(pool.map(one, range(1, THREADS + 1)))
    rm.close()
    return {"right": THREADS * EACH - sum(map(len, found)), "crossed": found}


def forks(url: str) -> Any:
    """A child that goes on with what its parent has open: locked, asked, and busy in a thread."""
    rm = manager(url)
    locked, asking, busy = opened(rm), opened(rm), opened(rm)
    locked.lock_excl()
    is_over = threading.Event()
    found: list[tuple[int, str]] = []

    def go_on() -> None:
        for number in itertools.count(5_000_000, EACH):
            if is_over.is_set():
                return
            found.extend(crossed(busy, number, 10))

    thread = threading.Thread(target=go_on)
    thread.start()
    crossed(asking, 1)
    asking.write("ECHO? 1")
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        told = {
            "asked": refusal(asking.read),
            "locked": refusal(lambda: locked.query("ECHO? 2")),
        }
        # The thread may have been in the middle of a question.
        refusal(lambda: busy.query("ECHO? 3"))
        os.write(writing, json.dumps(told).encode() + b"\n")
        crosses = [crossed(unit, 2_000_000) for unit in (asking, locked, busy)]
        os.write(writing, json.dumps(crosses).encode() + b"\n")
        # As a child ends that knows nothing of its parent: what it has copies of is closed.
        rm.close()
        os._exit(0)
    os.close(writing)
    answer = asking.read()
    with os.fdopen(reading) as lines:
        told = json.loads(lines.readline())
        found += crossed(asking, 3_000_000)
        crosses = json.loads(lines.readline())
    _, status = os.waitpid(child, 0)
    is_over.set()
    thread.join()
    found += crossed(locked, 4_000_000) + crossed(asking, 4_500_000)
    locked.unlock()
    rm.close()
    return {
        "answer": answer,
        "child": told,
        "crossed_in_child": crosses,
        "crossed": found,
        "status": status,
    }


def opens(url: str) -> Any:
    """A thousand opens and closes, and managers that come and go; what they leave behind."""
    rm = manager(url)
    with opened(rm) as unit:
        crossed(unit, 1)
    before = _left() | _kept(rm)
    for number in range(OPENS):
        with opened(rm) as unit:
            assert not crossed(unit, number, 1)
    after = _left() | _kept(rm)
    rm.close()
    for _ in range(MANAGERS):
        rm = manager(url)
        opened(rm)
        rm.close()
    # Those of a manager are gone as well by then.
    for thread in threading.enumerate():
        if thread is not threading.current_thread():
            thread.join(10)
    return {"before": before, "after": after, "at_last": _left()}


def _kept(rm: pyvisa.ResourceManager) -> dict[str, int]:
    """What PyVISA remembers of handles."""
    return {"statuses": len(rm.visalib._last_status_in_session)}


def _left() -> dict[str, int]:
    sockets = 0
    for file in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            sockets += str(file.readlink()).startswith("socket:")
    return {"sockets": sockets, "threads": threading.active_count()}


def breaks(url: str) -> Any:
    """Ctrl+C at any moment of a question; the next one gets its own answer."""
    unit = opened(manager(url))
    chance = random.Random(23)
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    began_s = time.monotonic()
    found = crossed(unit, 2_000_000)
    takes_s = (time.monotonic() - began_s) / EACH
    broken = 0
    for number in range(BREAKS):
        broken += _is_broken(unit, f"ECHO? {number}", chance.uniform(0.01, 1) * takes_s)
        found += crossed(unit, number + 1_000_000, 1)
    return {"broken": broken, "crossed": found}


def _is_broken(unit: MessageBasedResource, question: str, after_s: float) -> bool:
    """Ask, and be interrupted once so long after; whether that was in time."""
    try:
        signal.setitimer(signal.ITIMER_REAL, after_s)
        try:
            unit.query(question)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        return True
    return False


def broken_off(url: str) -> Any:
    """One Ctrl+C from outside, while the unit takes its time."""
    unit = opened(manager(url))
    is_broken = False
    try:
        unit.query("DELAY? 1")
    except KeyboardInterrupt:
        is_broken = True
    return {"is_broken": is_broken, "answers": [unit.query(f"ECHO? {n}") for n in range(5)]}


def ends(url: str) -> Any:
    """It ends with a lock, and a question that it never reads."""
    _locked_and_asking(url)
    return {}


def fails(url: str) -> Any:
    """The same, with an exception that nobody catches."""
    _locked_and_asking(url)
    raise RuntimeError("as it happens to programs")


def vanishes(url: str) -> Any:
    """The same, without so much as a word of Python's."""
    _locked_and_asking(url)
    os._exit(0)


KEPT: Final[list[MessageBasedResource]] = []


def _locked_and_asking(url: str) -> None:
    rm = manager(url)
    KEPT.extend((opened(rm), opened(rm)))
    KEPT[0].lock_excl()
    KEPT[1].write("ECHO? 1")


def vanishes_with_much(url: str) -> Any:
    """It has the unit open many times, and is gone."""
    rm = manager(url)
    KEPT.extend(opened(rm) for _ in range(UNITS))
    os._exit(0)


HOWS: Final[dict[str, Callable[[str], Any]]] = {
    made.__name__: made
    for made in (
        threads,
        forks,
        opens,
        breaks,
        broken_off,
        ends,
        fails,
        vanishes,
        vanishes_with_much,
    )
}


if __name__ == "__main__":
    # One that hangs says where, before whoever waits for it gives up.
    faulthandler.dump_traceback_later(HANGS_S, exit=True)
    raise SystemExit(main(sys.argv[1], sys.argv[2]))
