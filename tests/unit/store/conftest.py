from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.bench.store_bench import StoreBench, running_store


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[StoreBench]:
    async with running_store(tmp_path / "edged.db") as running:
        yield running
