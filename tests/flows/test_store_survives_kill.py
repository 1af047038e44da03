"""kill -9 in the middle of writing: what was promised is there, and the chain is whole."""

from __future__ import annotations

import asyncio
import random
import sys
from pathlib import Path

from edged.store.audit.queries import AuditFilter
from tests.bench.store_bench import running_store
from tests.bench.waiting import HANGS_S
from tests.promises import promise

ROOT = Path(__file__).parents[2]
LIVES = 8
MOST_PROMISES = 400


async def one_life(path: Path, promises: int) -> list[str]:
    """Let the program write until it has said that many things, then kill it; what it said."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.bench.store_writer",
        str(path),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdout is not None
    said: list[str] = []
    try:
        async with asyncio.timeout(HANGS_S):
            for _ in range(promises):
                line = await process.stdout.readline()
                assert line, "the program ended by itself"
                said.append(line.decode().strip())
    finally:
        process.kill()
    rest = await process.stdout.read()
    await process.wait()
    # A pipe may hold half a line at its end; what stands before it was said.
    return [*said, *rest.decode().split("\n")[:-1]]


@promise("store.survives-kill")
async def test_after_kill_9_every_promise_is_kept_and_the_chain_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "edged.db"
    chance = random.Random(5)
    for _ in range(LIVES):
        said = [line.split() for line in await one_life(path, chance.randint(1, MOST_PROMISES))]
        steps = [int(what) for kind, what in said if kind == "step"]
        begun = [what for kind, what in said if kind == "begun"]
        async with running_store(path) as store:
            report = await store.audit.verify()
            assert report.problems == ()
            rows = await store.audit.list(AuditFilter(), limit=10_000)
            assert {lockout.instrument_id for lockout in store.lockouts.all()} == {"S::9"}
            left = {entry.id: entry for entry in store.journal.unfinished()}
            for sweep_id in begun:
                assert int(left[sweep_id].payload.get("last_step", 0)) >= max(steps, default=0)
            for sweep_id in left:
                await store.journal.finish(sweep_id)
        intents = {row.action_id for row in rows if row.phase == "intent"}
        assert {what for kind, what in said if kind == "intent"} <= intents
