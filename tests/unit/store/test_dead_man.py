"""Which timers were left running: known to the next life, before its store has even opened."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

from edged.store.dead_man import ArmedUnit, read_armed
from tests.bench.store_bench import running_store

UNIT = ArmedUnit(
    instrument_id="TCPIP0::10.0.0.7::5025::SOCKET",
    unit="KEYSIGHT|N6702C|MY1",
    payload={"address": "TCPIP0::10.0.0.7::5025::SOCKET", "limit_s": 10},
)


async def test_what_was_armed_is_known_to_the_next_life_until_it_was_told_to_stop(
    tmp_path: Path,
) -> None:
    path = tmp_path / "edged.db"
    async with running_store(path) as store:
        store.armed.note(UNIT)
        await store.database.write(lambda _connection: None, is_durable=True)
        assert await asyncio.to_thread(read_armed, path) == (UNIT,)
    assert read_armed(path) == (UNIT,)
    async with running_store(path) as store:
        assert store.armed.all() == (UNIT,)
        assert store.armed.find("ASRL1::INSTR", UNIT.unit) == UNIT
        store.armed.remove(UNIT.instrument_id)
        await store.database.write(lambda _connection: None, is_durable=True)
    assert read_armed(path) == ()


async def test_a_spoiled_row_and_a_database_of_before_stop_no_start(tmp_path: Path) -> None:
    path = tmp_path / "edged.db"
    assert read_armed(path) == ()
    async with running_store(path):
        pass
    with sqlite3.connect(path) as connection:
        connection.execute("INSERT INTO dead_man VALUES ('psu1', 'A|B|C', '{')")
    connection.close()
    [spoiled] = read_armed(path)
    assert spoiled.payload == {}
