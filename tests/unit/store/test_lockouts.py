from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from edged.errors import Failed, NotFound
from tests.bench.store_bench import StoreBench, running_store
from tests.promises import promise

ADDRESS = "USB0::0x1AB1::0x0E11::DP8::INSTR"


async def lock(store: StoreBench, address: str = ADDRESS, unit: str = "RIGOL|DP832|DP8") -> None:
    await store.lockouts.lock(address, unit=unit, reason="hands in the fixture", by="Kim")


@promise("lockout.persisted")
async def test_a_lockout_outlives_the_daemon_until_it_is_cleared(tmp_path: Path) -> None:
    async with running_store(tmp_path / "edged.db") as store:
        await lock(store)
    async with running_store(tmp_path / "edged.db") as store:
        found = store.lockouts.find(ADDRESS)
        assert found is not None
        assert (found.reason, found.by) == ("hands in the fixture", "Kim")
        assert await store.lockouts.clear(ADDRESS) == found
        assert store.lockouts.find(ADDRESS) is None
    async with running_store(tmp_path / "edged.db") as store:
        assert store.lockouts.all() == ()


async def test_the_unit_stays_locked_out_under_another_address(store: StoreBench) -> None:
    await lock(store)
    assert store.lockouts.find("TCPIP0::10.0.0.9::INSTR", "RIGOL|DP832|DP8") is not None
    assert store.lockouts.find("TCPIP0::10.0.0.9::INSTR", "RIGOL|DP832|DP9") is None
    assert store.lockouts.find("TCPIP0::10.0.0.9::INSTR") is None


async def test_clearing_what_is_not_locked_out_names_what_is(store: StoreBench) -> None:
    await lock(store)
    with pytest.raises(NotFound) as unknown:
        await store.lockouts.clear("ASRL1")
    assert unknown.value.data["locked_out"] == [ADDRESS]


async def test_a_lockout_that_comes_while_another_is_lifted_holds(tmp_path: Path) -> None:
    async with running_store(tmp_path / "edged.db") as store:
        await lock(store)
        lifting = asyncio.ensure_future(store.lockouts.clear(ADDRESS))
        locking = asyncio.ensure_future(
            store.lockouts.lock(ADDRESS, unit="", reason="not yet", by="Ann")
        )
        await asyncio.gather(lifting, locking)
        found = store.lockouts.find(ADDRESS)
        assert (found.by if found else "nobody") == "Ann"
    async with running_store(tmp_path / "edged.db") as store:
        assert [lockout.by for lockout in store.lockouts.all()] == ["Ann"]


async def test_watchers_hear_of_both(store: StoreBench) -> None:
    heard: list[int] = []
    unsubscribe = store.lockouts.subscribe(lambda: heard.append(len(store.lockouts.all())))
    await lock(store)
    await store.lockouts.clear(ADDRESS)
    unsubscribe()
    assert heard == [1, 0]


async def test_on_a_full_disk_a_lockout_is_in_force_and_written_when_it_heals(
    store: StoreBench,
) -> None:
    await store.fill_the_disk()
    refused = ""
    for number in range(500):
        try:
            await lock(store, f"{ADDRESS}{number}" + "x" * 900, unit="")
        except Failed as failure:
            refused = failure.message
            break
    assert "the disk is full" in refused
    last = store.lockouts.all()[-1].instrument_id
    assert store.lockouts.find(last) is not None
    store.free_the_disk()
    await store.healed()
    everything = store.lockouts.all()
    await store.database.stop()
    async with running_store(store.path) as again:
        assert sorted(again.lockouts.all(), key=lambda one: one.instrument_id) == sorted(
            everything, key=lambda one: one.instrument_id
        )


async def test_a_lockout_that_cannot_be_lifted_on_disk_stays(store: StoreBench) -> None:
    await lock(store)
    await store.database.stop()
    with pytest.raises(Failed):
        await store.lockouts.clear(ADDRESS)
    assert store.lockouts.find(ADDRESS) is not None
