"""Kills a real engine at random moments during mixed calls, and looks at what it left.

The simulated bench lives on beside it: what reached an instrument is in its byte log.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp

from edged.store.audit.verify import verify_file
from tests.bench.engine_process import EngineProcess, engine_process
from tests.bench.sim_bench import SimBench, running_bench
from tests.bench.waiting import HANGS_S

CALLS_AT_ONCE = 4


async def _call(engine: EngineProcess, session: aiohttp.ClientSession, number: int) -> None:
    """A write with a value that no other call has, a read, a refusal or a raw line."""
    volts = round(1 + number / 1000, 3)
    tool, arguments = {
        0: ("execute_command", command("set_voltage", channel=1, voltage=volts)),
        1: ("execute_command", command("measure_voltage", channel=1)),
        2: ("execute_command", command("set_voltage", channel=1, voltage=99)),
        3: ("send_scpi", {"instrument_id": "psu1", "scpi_command": f":SOUR2:VOLT {volts}"}),
    }[number % 4]
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    params = {"name": tool, "arguments": arguments}
    async with session.post(engine.rpc_url, json={**body, "params": params}) as reply:
        await reply.read()


def command(name: str, **parameters: Any) -> dict[str, Any]:
    return {"instrument_id": "psu1", "command_name": name, "parameters": parameters}


async def _mixed_calls(engine: EngineProcess, numbers: list[int]) -> None:
    """All of them, some at once, until the engine is gone."""
    waiting = iter(numbers)

    async def worker(session: aiohttp.ClientSession) -> None:
        for number in waiting:
            await _call(engine, session, number)

    async with aiohttp.ClientSession() as session:
        with contextlib.suppress(aiohttp.ClientError, ConnectionError):
            await asyncio.gather(*(worker(session) for _ in range(CALLS_AT_ONCE)))


async def _until_connected(engine: EngineProcess) -> None:
    def is_connected() -> bool:
        return any(entry["is_connected"] for entry in engine.tool("list_instruments")["result"])

    await _until(is_connected)


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(HANGS_S):
        while not await asyncio.to_thread(condition):
            await asyncio.sleep(0.05)


def writes_in_log(bench: SimBench) -> list[str]:
    return [line for line in bench.received("psu1") if ":VOLT " in line and "?" not in line]


def intents(database: Path) -> list[str]:
    with contextlib.closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as kept:
        rows = kept.execute("SELECT scpi FROM audit WHERE phase = 'intent'").fetchall()
    return [line for (scpi,) in rows for line in scpi.split("\n")]


async def kill_at_random(directory: Path, *, calls: int, kills: int, seed: int) -> None:
    """Run that many calls over that many lives, each but the last ended by SIGKILL."""
    chance = random.Random(seed)
    per_life = calls // kills
    with running_bench("--instruments", "psu1", "--seed", "1") as bench:
        config = {"INSTRUMENTS": [{"address": bench.address("psu1"), "name": "psu1"}]}
        for life in range(kills):
            with engine_process(directory, sim=False, config=config) as engine:
                numbers = list(range(life * per_life, (life + 1) * per_life))
                if life == 0:
                    await _until_connected(engine)
                calling = asyncio.create_task(_mixed_calls(engine, numbers))
                if life == 0:
                    # However long a busy machine takes: a kill before all writes tries nothing.
                    await _until(lambda: bool(writes_in_log(bench)))
                await asyncio.sleep(chance.uniform(0.02, 0.1 + per_life / 400))
                engine.process.kill()
                engine.process.wait()
                await calling
            database = engine.state_dir / "edged.db"
            report = verify_file(database)
            assert report.is_intact, report.problems
            intended = set(intents(database))
            missing = [line for line in writes_in_log(bench) if line not in intended]
            assert not missing, f"sent without an intent: {missing[:5]}"
        assert writes_in_log(bench), "no write got through: nothing was tried"
        with engine_process(directory, sim=False, config=config) as engine:
            assert engine.rpc("audit.verify")["is_intact"]
            assert json.dumps(engine.tool("get_status"))
