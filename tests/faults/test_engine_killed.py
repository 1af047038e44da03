"""kill -9 at twenty random moments during 2,000 mixed calls."""

from __future__ import annotations

from pathlib import Path

from tests.bench.killed_engine import kill_at_random
from tests.promises import promise


@promise("audit.intent-on-disk")
@promise("store.survives-kill")
async def test_two_thousand_calls_and_twenty_kills(tmp_path: Path) -> None:
    await kill_at_random(tmp_path, calls=2_000, kills=20, seed=7)
