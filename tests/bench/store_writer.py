"""A program that writes to a store until it is killed, and says on stdout what it was promised.

Run as ``python -m tests.bench.store_writer DATABASE``. Each line is a promise kept before it was
said: ``intent <action id>`` is on disk; ``step <number>`` is in the journal; ``lock <id>`` holds.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
from pathlib import Path

import structlog

from edged.store.audit.row import Phase
from edged.store.experience import Unit
from edged.store.journal import JournalEntry, JournalKind
from tests.bench.store_bench import StoreBench, entry


def say(text: str) -> None:
    # One write, so that a kill never leaves half a line.
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


async def act(store: StoreBench, name: str) -> None:
    """What a call that writes does, and reads beside it."""
    for number in itertools.count():
        action_id = f"{name}-{number}"
        await store.audit.intend(entry(action_id, Phase.INTENT))
        say(f"intent {action_id}")
        store.audit.note(entry(action_id, is_weighty=True))
        for _ in range(5):
            store.audit.note(entry(f"{action_id}-read"))
            store.capability.note(Unit("u", "1"), "measure", is_ok=True, duration_ms=1.0)


async def sweep(store: StoreBench, sweep_id: str) -> None:
    await store.journal.begin(
        JournalEntry(id=sweep_id, kind=JournalKind.SWEEP, instrument_id="S::1")
    )
    say(f"begun {sweep_id}")
    for step in itertools.count(1):
        await store.journal.update(sweep_id, {"last_step": step}, is_forced=True)
        say(f"step {step}")


async def main(path: Path) -> None:
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    store = StoreBench(path)
    await store.database.start()
    await store.lockouts.lock("S::9", unit="", reason="hands", by="Kim")
    say("lock S::9")
    life = store.clock.wall_ms()
    await asyncio.gather(
        *(act(store, f"{life}-{number}") for number in range(4)), sweep(store, f"sweep-{life}")
    )


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
