"""Programs that speak HiSLIP and an agent at one unit at once; ends, kills and hangs among them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.bench.engine_process import REPOSITORY
from tests.bench.hislip_program import HislipEnded, HislipProgram
from tests.bench.numbered import TRANSPORTS, value_of
from tests.bench.numbered_trial import Bench, Trial, client_of, numbered_engine
from tests.bench.sim_bench import running_bench
from tests.bench.supervised import supervised
from tests.bench.waiting import wait_for
from tests.promises import promise

SERVING = {"VISA_SERVER": ["hislip"], "HISLIP_PORT": 0}
QUESTIONS = 3_400
"""Of each of the three."""
UNIT = 1


def asker(bench_port: int, first: int, count: int, *more: str) -> list[str]:
    words = [bench_port, f"hislip_n{UNIT}", UNIT, first, count]
    return [sys.executable, "-m", "tests.bench.hislip_asker", *map(str, words), *more]


@contextlib.asynccontextmanager
async def one_unit(directory: Path, transport: str) -> AsyncIterator[Bench]:
    trial = Trial(
        unit=UNIT,
        transport=transport,
        fault="nothing",
        road="typed",
        clients=1,
        is_odd=False,
        seed=23,
    )
    async with numbered_engine(directory, [trial], ("queue",), more=SERVING) as bench:
        yield bench


async def started(command: list[str]) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *command, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


async def ask_as_an_agent(bench: Bench, first: int, count: int) -> list[str]:
    """What came back wrong, or not at all."""
    client = await client_of(bench.engine, bench.words)
    wrong = []
    try:
        for number in range(first, first + count):
            done, told = await client.call(
                "execute_command",
                {
                    "instrument_id": f"n{UNIT}",
                    "command_name": "read",
                    "parameters": {"number": number},
                },
            )
            if not done or told["data"] != value_of(UNIT, number):
                wrong.append(f"{number}: {told}")
    finally:
        await client.close()
    return wrong


@promise("hislip.not-crossed")
@pytest.mark.parametrize("transport", ["socket", "hislip"])
async def test_two_programs_and_an_agent_get_their_own_answers(
    transport: str, tmp_path: Path
) -> None:
    assert transport in TRANSPORTS
    async with one_unit(tmp_path, transport) as bench:
        port = bench.engine.ports["hislip_port"]
        programs = [await started(asker(port, first, QUESTIONS)) for first in (100_000, 300_000)]
        wrong = await ask_as_an_agent(bench, 500_000, QUESTIONS)
        for program in programs:
            out, errors = await program.communicate()
            assert program.returncode == 0, errors.decode()
            told = json.loads(out)
            assert told == {"asked": QUESTIONS, "wrong": 0, "examples": []}
        assert wrong == []


@promise("hislip.not-crossed")
@promise("hislip.locks")
async def test_a_program_that_is_killed_leaves_neither_question_nor_lock(tmp_path: Path) -> None:
    async with one_unit(tmp_path, "socket") as bench:
        port = bench.engine.ports["hislip_port"]
        for first in (100_000, 200_000, 300_000):
            program = await started(asker(port, first, 0, "--lock"))
            assert program.stdout is not None
            assert await program.stdout.readline() == b"ready\n"
            program.send_signal(signal.SIGKILL)
            await program.communicate()
            wrong = await ask_as_an_agent(bench, first + 50_000, 20)
            assert wrong == []
            assert await asyncio.to_thread(nobody_holds, bench)


def nobody_holds(bench: Bench) -> bool:
    def told() -> bool:
        status = bench.engine.tool("get_status")["result"]
        return not status["leases"] and not status["visa"]["programs"]

    return wait_for(told) < 5


@promise("hislip.supervised")
def test_an_engine_that_is_killed_or_hangs_ends_its_programs_and_takes_them_again(
    tmp_path: Path,
) -> None:
    with running_bench("--instruments", "psu1") as bench:
        config = {**SERVING, "EXPOSE_VISA": True, "EXPOSE": []}
        with supervised(tmp_path, bench, config=config) as supervisor:
            wait_for(supervisor.connected)
            port = supervisor.facts()["hislip_port"]
            for end in (signal.SIGKILL, signal.SIGSTOP):
                with HislipProgram.open(port, "hislip_psu1") as program:
                    assert program.query(":SOUR1:VOLT?")
                    pid = supervisor.facts()["pid"]
                    os.kill(pid, end)
                    with pytest.raises((HislipEnded, OSError)):
                        program.query(":SOUR1:VOLT?", within_s=30)
                wait_for(lambda gone=pid: supervisor.facts().get("pid", gone) != gone)
                wait_for(supervisor.connected)
                # The port that the system chose is the same.
                assert supervisor.facts()["hislip_port"] == port


@promise("hislip.bounds")
async def test_programs_that_come_and_go_by_the_hundred_leave_nothing(tmp_path: Path) -> None:
    async with one_unit(tmp_path, "socket") as bench:
        port = bench.engine.ports["hislip_port"]
        asking = asyncio.create_task(ask_as_an_agent(bench, 500_000, 300))

        def come_and_go() -> None:
            for number in range(200):
                program = HislipProgram.open(port, f"hislip_n{UNIT}")
                if number % 4 == 0:
                    program.write(f"READ? {number}")
                    program.sync.reset()
                    program.asynchronous.reset()
                elif number % 4 == 1:
                    program.sync.socket.sendall(b"HS\x06")
                    program.close()
                elif number % 4 == 2:
                    program.sync.socket.sendall(os.urandom(100))
                    program.close()
                else:
                    assert float(program.query(f"READ? {number}")) == value_of(UNIT, number)
                    program.close()

        await asyncio.to_thread(come_and_go)
        assert await asking == []
        assert await asyncio.to_thread(nobody_holds, bench)
