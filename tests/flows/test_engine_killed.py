"""kill -9 of a real engine in the middle of mixed calls: the short version of tests/faults."""

from __future__ import annotations

from pathlib import Path

from tests.bench.killed_engine import kill_at_random
from tests.promises import promise


@promise("audit.intent-on-disk")
@promise("store.survives-kill")
async def test_after_kill_the_chain_is_whole_and_no_write_lacks_its_intent(tmp_path: Path) -> None:
    await kill_at_random(tmp_path, calls=60, kills=1, seed=1)
