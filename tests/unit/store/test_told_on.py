"""What was told to put something out: kept until it is seen to be off, whatever happens between."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from edged.errors import Failed
from edged.profiles.match import parse_idn
from edged.runs.bench import Stores
from edged.runs.units import unit_of_instrument
from edged.store.database import Database
from tests.bench.driven_clock import DrivenClock
from tests.bench.store_bench import StoreBench, running_store
from tests.promises import promise

UNIT = "RIGOL|DP832|DP8"


@promise("stop-all.outlives")
async def test_what_was_told_is_known_to_the_next_life_until_it_is_seen_off(tmp_path: Path) -> None:
    async with running_store(tmp_path / "edged.db") as store:
        store.told_on.note(UNIT, "USB0::1::INSTR", {"OUTP CH1", "OUTP CH2"})
    async with running_store(tmp_path / "edged.db") as store:
        assert set(store.told_on.of(UNIT)) == {"OUTP CH1", "OUTP CH2"}
        told = store.told_on.told()[UNIT]
        assert told["instrument_id"] == "USB0::1::INSTR"
        assert told["outputs"] == ["OUTP CH1", "OUTP CH2"]
        store.told_on.clear(UNIT, {"OUTP CH1": 0})
    async with running_store(tmp_path / "edged.db") as store:
        assert set(store.told_on.turns()[UNIT]) == {"OUTP CH2"}
        store.told_on.clear(UNIT, store.told_on.of(UNIT))
    async with running_store(tmp_path / "edged.db") as store:
        assert store.told_on.turns() == {}


@promise("exit.leave")
async def test_what_the_previous_run_left_is_told_until_it_is_set_again_or_seen_off(
    tmp_path: Path,
) -> None:
    async with running_store(tmp_path / "edged.db") as store:
        store.told_on.note(UNIT, "USB0::1::INSTR", {"OUTP CH1", "OUTP CH2", "OUTP CH3"})
        assert store.told_on.told()[UNIT]["left"] == []
    async with running_store(tmp_path / "edged.db") as store:
        assert store.told_on.told()[UNIT]["left"] == ["OUTP CH1", "OUTP CH2", "OUTP CH3"]
        store.told_on.note(UNIT, "USB0::1::INSTR", {"OUTP CH1"})
        store.told_on.clear(UNIT, {"OUTP CH2": 0})
        told = store.told_on.told()[UNIT]
        assert (told["outputs"], told["left"]) == (["OUTP CH1", "OUTP CH3"], ["OUTP CH3"])


@promise("stop-all.outlives")
async def test_a_mark_is_on_disk_with_the_next_row_that_is_synced(store: StoreBench) -> None:
    store.told_on.note(UNIT, "USB0::1::INSTR", {"OUTP CH1"})
    await store.database.write(lambda connection: connection.execute("SELECT 1"), is_durable=True)

    def rows() -> list[tuple[str, str]]:
        with sqlite3.connect(store.path) as other:
            return other.execute("SELECT unit, output FROM told_on").fetchall()

    assert await asyncio.to_thread(rows) == [(UNIT, "OUTP CH1")]


async def test_an_answer_from_before_a_telling_takes_nothing_back(store: StoreBench) -> None:
    store.told_on.note(UNIT, "USB0::1::INSTR", {"OUTP CH1"})
    seen = store.told_on.of(UNIT)
    store.told_on.note(UNIT, "USB0::1::INSTR", {"OUTP CH1"})
    store.told_on.clear(UNIT, seen)
    assert set(store.told_on.of(UNIT)) == {"OUTP CH1"}
    store.told_on.clear(UNIT, store.told_on.of(UNIT))
    assert store.told_on.turns() == {}


async def test_a_full_disk_loses_no_mark(store: StoreBench) -> None:
    await store.fill_the_disk()
    store.told_on.note(UNIT, "USB0::1::INSTR", {f"OUTP CH{n}" for n in range(500)})
    with pytest.raises(Failed):
        await store.database.write(lambda connection: connection.execute("SELECT 1"))
    assert len(store.told_on.of(UNIT)) == 500
    store.free_the_disk()
    await store.healed()
    await store.database.write(lambda connection: connection.execute("SELECT 1"))
    stored = "SELECT count(*) FROM told_on"
    found = await store.database.read(lambda connection: connection.execute(stored).fetchone())
    assert found == (500,)


async def test_a_unit_is_told_under_the_id_by_which_it_is_met_now_with_what_is_off(
    tmp_path: Path,
) -> None:
    def met(instrument_id: str) -> Any:
        return SimpleNamespace(id=instrument_id, identity=parse_idn("RIGOL,DP832,DP8,1"))

    pool: Any = SimpleNamespace(subscribe=lambda _: None, known=lambda: ())
    config: Any = SimpleNamespace(state_dir=tmp_path, audit_retention_days=1)
    clock = DrivenClock()
    database = Database(path=tmp_path / "edged.db", clock=clock)
    stores = Stores(config, pool, clock, database)
    unit = unit_of_instrument(met("")).key
    stores.told_on.note(unit, "USB0::1::INSTR", {"OUTP CH1", "OUTP CH2"})

    def told() -> tuple[str, list[str]]:
        [entry] = stores.told_on_now(lambda _unit, outputs: "OUTP CH2" in outputs)
        return entry["instrument_id"], entry["off"]

    assert told() == ("USB0::1::INSTR", [])
    pool.known = lambda: (met("USB0::7::INSTR"),)
    assert told() == ("USB0::7::INSTR", ["OUTP CH2"])
    pool.known = lambda: (met("USB0::7::INSTR"), met("USB0::8::INSTR"))
    assert told()[1] == [], "of twins nobody knows which was told"
