"""A disk that really is full: a small tmpfs for root; anybody else gets a quota of SQLite's own."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from edged.errors import Failed
from edged.store.audit.queries import AuditFilter
from edged.store.audit.row import Phase
from edged.store.health import StoreState
from tests.bench.store_bench import StoreBench, entry, running_store
from tests.promises import promise

SIZE_BYTES = 1024 * 1024
# A file system that is written full to its last page; a mount needs root.
CAN_MOUNT = sys.platform == "linux" and os.geteuid() == 0


@dataclass
class SmallDisk:
    store: StoreBench
    fill: Callable[[], Awaitable[None]]
    free: Callable[[], None]


@contextlib.contextmanager
def mounted(place: Path) -> Iterator[Path]:
    place.mkdir()
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SIZE_BYTES}", "tmpfs", str(place)], check=True
    )
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


@pytest.fixture
async def disk(tmp_path: Path) -> AsyncIterator[SmallDisk]:
    if not CAN_MOUNT:
        async with running_store(tmp_path / "edged.db") as store:

            async def limit() -> None:
                # A quota holds for one life of the store: after a stop there is none to set.
                with contextlib.suppress(Failed):
                    await store.fill_the_disk()

            yield SmallDisk(store, limit, store.free_the_disk)
        return
    with mounted(tmp_path / "disk") as place:
        async with running_store(place / "edged.db") as store:
            ballast = place / "ballast"

            async def fill() -> None:
                with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
                    while True:
                        file.write(b"x" * 1024)

            yield SmallDisk(store, fill, lambda: ballast.unlink())


@promise("store.heals")
async def test_intents_are_refused_while_it_is_full_and_nothing_else_is_lost(
    disk: SmallDisk,
) -> None:
    store = disk.store
    await store.audit.intend(entry("before", Phase.INTENT))
    await disk.fill()
    taken = await _intend_until_refused(store)
    assert store.database.health.state is StoreState.FULL
    for number in range(100):
        store.audit.note(entry(f"read{number}"))
    with pytest.raises(Failed, match="the disk is full"):
        await store.audit.intend(entry("refused", Phase.INTENT, error="x" * 900))
    disk.free()
    await store.healed()
    await store.audit.intend(entry("after", Phase.INTENT))
    rows = await store.audit.list(AuditFilter(), limit=10_000)
    found = [row.action_id for row in rows if row.phase != "event"]
    assert found == ["before", *taken, *(f"read{number}" for number in range(100)), "after"]
    assert (await store.audit.verify()).is_intact
    assert store.database.health.state is StoreState.HEALTHY


async def test_lists_can_be_read_while_it_is_full(disk: SmallDisk) -> None:
    await disk.store.audit.intend(entry("before", Phase.INTENT))
    await disk.fill()
    await _intend_until_refused(disk.store)
    rows = await disk.store.audit.list(AuditFilter(), limit=10_000)
    assert "before" in [row.action_id for row in rows]
    assert (await disk.store.audit.verify()).is_intact


@pytest.mark.parametrize("is_left_open", [False, True])
async def test_a_store_that_starts_on_a_full_disk_knows_its_lockouts(
    disk: SmallDisk, *, is_left_open: bool
) -> None:
    path = disk.store.path
    await disk.store.lockouts.lock("S::1", unit="", reason="hands inside", by="Kim")
    log = path.with_name(f"{path.name}-wal").read_bytes()
    await disk.store.database.stop()
    if is_left_open:
        # As a killed engine leaves it: the newest rows in the log only.
        path.with_name(f"{path.name}-wal").write_bytes(log)
    await disk.fill()
    async with running_store(path) as again:
        assert [lockout.by for lockout in again.lockouts.all()] == ["Kim"]
        disk.free()
        await again.healed()
        await again.audit.intend(entry("after", Phase.INTENT))
        assert again.database.health.is_healthy


async def _intend_until_refused(store: StoreBench) -> list[str]:
    """The ids of what was taken before the disk was full to the last byte."""
    taken: list[str] = []
    for number in range(2000):
        try:
            await store.audit.intend(entry(f"fill{number}", Phase.INTENT, error="x" * 900))
        except Failed:
            return taken
        taken.append(f"fill{number}")
    raise AssertionError("the disk never was full")
