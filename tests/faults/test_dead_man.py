"""A supply whose output is on, and nobody left who could switch it off: it does that by itself.

The engine and the bench are real processes. What is true of the output is told by the bench's
control port, which feeds nothing.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.bench.engine_process import EngineProcess, engine_process
from tests.bench.fault_proxy import FaultProxy
from tests.bench.guarded_supply import (
    command,
    dead_men,
    done,
    engine_on,
    is_on,
    is_running,
    switch_on,
)
from tests.bench.sim_bench import SimBench, running_bench
from tests.bench.waiting import wait_for
from tests.promises import promise

LIMIT_S = 3.0
SLACK_S = 1.0
ENABLE = "OUTP:PROT:WDOG ON"
ON = "OUTP ON,(@1)"

# Each line has a thread of its own, as on Windows; SIGUSR1 hangs the loop for good.
HANGS = """
import signal, sys, threading
from edged.transports.visa import VisaLibrary
made = VisaLibrary.__init__
def on_threads(self, *values, **named):
    made(self, *values, **named)
    self.is_on_loop = False
VisaLibrary.__init__ = on_threads
signal.signal(signal.SIGUSR1, lambda *_: threading.Event().wait(120))
from edged.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def bench() -> Iterator[SimBench]:
    with running_bench("--instruments", "psu1=keysight_n6700") as running:
        yield running


def goes_off_in_time(bench: SimBench, engine: EngineProcess, how: Callable[[], None]) -> float:
    """How long it took from then on, of an output that was on for longer than its timer runs."""
    until = time.monotonic() + 1.5 * LIMIT_S
    wait_for(lambda: time.monotonic() > until)
    assert is_on(bench)
    how()
    took_s = wait_for(lambda: not is_on(bench))
    assert bench.state("psu1")["watchdog"]["is_tripped"]
    assert took_s <= LIMIT_S + SLACK_S
    return took_s


@promise("dead-man.off-by-itself")
def test_after_a_kill_without_a_restart_it_is_off(bench: SimBench, tmp_path: Path) -> None:
    with engine_on(tmp_path, bench, LIMIT_S, engine_process) as engine:
        switch_on(engine)
        goes_off_in_time(bench, engine, engine.process.kill)


@promise("dead-man.off-by-itself")
def test_of_an_engine_that_stands_still_it_is_off_and_told_when_that_goes_on(
    bench: SimBench, tmp_path: Path
) -> None:
    with engine_on(tmp_path, bench, LIMIT_S, engine_process) as engine:
        switch_on(engine)
        try:
            goes_off_in_time(bench, engine, lambda: engine.process.send_signal(signal.SIGSTOP))
        finally:
            engine.process.send_signal(signal.SIGCONT)
        wait_for(lambda: [one["state"] for one in dead_men(engine)] == ["tripped"])
        assert not is_on(bench)


@promise("dead-man.off-by-itself")
@promise("dead-man.sick-engine")
def test_of_a_loop_that_hangs_while_its_lines_have_work_it_is_off(tmp_path: Path) -> None:
    with running_bench("--instruments", "dmm1=keysight_34461a") as bench:
        bench.add("psu1", "keysight_n6700", latency_ms=150)
        hangs = (sys.executable, "-c", HANGS)
        with engine_on(tmp_path, bench, LIMIT_S, engine_process, command=hangs) as engine:
            switch_on(engine)
            asking = threading.Event()
            with concurrent.futures.ThreadPoolExecutor(80) as callers:

                def ask() -> None:
                    while not asking.is_set():
                        # The loop hangs by then.
                        with contextlib.suppress(Exception):
                            command(engine, "measure_voltage")

                for _ in range(80):
                    callers.submit(ask)
                try:
                    wait_for(lambda: bench.received("psu1").count("MEAS:VOLT? (@1)") > 20)
                    assert is_on(bench)
                    engine.process.send_signal(signal.SIGUSR1)
                    begun = time.monotonic()
                    wait_for(lambda: not is_on(bench))
                    assert time.monotonic() - begun <= LIMIT_S + SLACK_S
                finally:
                    asking.set()
                    engine.process.kill()


@promise("dead-man.off-by-itself")
async def test_of_a_line_that_hangs_it_is_off(bench: SimBench, tmp_path: Path) -> None:
    async with FaultProxy(bench.port("psu1")) as proxy:
        bench.instruments["psu1"]["address"] = f"TCPIP::127.0.0.1::{proxy.port}::SOCKET"

        def drive() -> threading.Event:
            with engine_on(tmp_path, bench, LIMIT_S, engine_process) as engine:
                switch_on(engine)
                loop.call_soon_threadsafe(switched_on.set)
                is_off.wait(30)
            return is_off

        loop, switched_on, is_off = asyncio.get_running_loop(), asyncio.Event(), threading.Event()
        driving = asyncio.create_task(asyncio.to_thread(drive))
        async with asyncio.timeout(40):
            await switched_on.wait()
            assert await asyncio.to_thread(is_on, bench)
            proxy.is_black_hole = True
            begun = time.monotonic()
            await asyncio.to_thread(wait_for, lambda: not is_on(bench))
            assert time.monotonic() - begun <= LIMIT_S + SLACK_S
            is_off.set()
            await driving


@promise("dead-man.off-by-itself")
def test_a_supply_that_was_switched_off_and_on_gets_its_timer_before_it_is_on_again(
    bench: SimBench, tmp_path: Path
) -> None:
    with engine_on(tmp_path, bench, LIMIT_S, engine_process) as engine:
        switch_on(engine)
        begun = bench.mark()
        bench.call("power_cycle", instrument="psu1")
        assert not is_running(bench)
        assert not is_on(bench)

        def switched_on_again() -> bool:
            return not command(engine, "output_on")["is_error"]

        wait_for(switched_on_again)
        assert is_running(bench)
        heard = bench.received("psu1", since=begun)
        assert heard.index(ENABLE) < heard.index(ON)
        goes_off_in_time(bench, engine, engine.process.kill)


@promise("dead-man.ordinary-work")
def test_engines_that_end_and_begin_anew_never_trip_it(bench: SimBench, tmp_path: Path) -> None:
    """Orderly ends and kills; the long one is ``python -m benchmarks.dead_man``."""
    limit_s = 10.0
    for life in range(4):
        with engine_on(tmp_path, bench, limit_s, engine_process) as engine:
            if life == 0:
                switch_on(engine)
            done(command(engine, "measure_voltage"))
            assert is_on(bench)
            assert is_running(bench)
            if life % 2:
                os.kill(engine.process.pid, signal.SIGKILL)
                engine.process.wait()
            else:
                assert engine.stop() == 0
    told: dict[str, Any] = bench.state("psu1")
    assert told["ch1"]["is_on"]
    assert not told["watchdog"]["is_tripped"]
