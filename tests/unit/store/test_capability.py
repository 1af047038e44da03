from __future__ import annotations

from pathlib import Path

import pytest

from edged.store import experience as capability_module
from edged.store.experience import CapabilityBook, Unit, unit_of
from edged.store.health import StoreState
from tests.bench.driven_clock import DrivenClock
from tests.bench.store_bench import StoreBench, running_store
from tests.promises import promise

UNIT = Unit("RIGOL|DP832|DP8A1", "00.01.16")


def note(book: CapabilityBook, unit: Unit = UNIT, command: str = "set_voltage") -> None:
    book.note(unit, command, is_ok=True, duration_ms=4.0)


async def test_calls_failures_and_latency_add_up(store: StoreBench) -> None:
    book = store.capability
    for _ in range(3):
        note(book)
    book.note(UNIT, "set_voltage", is_ok=False, duration_ms=5000.0, error="it stayed silent")
    told = book.of(UNIT)["set_voltage"].to_json()
    assert (told["calls"], told["failures"]) == (4, 1)
    assert told["last_error"] == "it stayed silent"
    assert told["last_success_ms"] > 0
    assert told["latency_ms"]["p95"] == pytest.approx(4.0, rel=0.1)


async def test_a_command_that_never_worked_has_no_latency(store: StoreBench) -> None:
    store.capability.note(UNIT, "beep", is_ok=False, duration_ms=9.0, error="no")
    told = store.capability.of(UNIT)["beep"].to_json()
    assert told["latency_ms"] is None
    assert told["last_success_ms"] is None


async def test_undefined_is_remembered_until_it_works_after_all(store: StoreBench) -> None:
    book = store.capability
    book.note(UNIT, "beep", is_ok=False, duration_ms=1.0, error="-113", is_undefined=True)
    book.note(UNIT, "beep", is_ok=False, duration_ms=1.0, error="it stayed silent")
    assert book.of(UNIT)["beep"].is_undefined
    note(book, command="beep")
    assert not book.of(UNIT)["beep"].is_undefined


@promise("capability.kept")
async def test_what_was_learned_survives_a_restart(tmp_path: Path) -> None:
    for life in range(1, 4):
        async with running_store(tmp_path / "edged.db") as store:
            note(store.capability)
            assert store.capability.of(UNIT)["set_voltage"].calls == life
    async with running_store(tmp_path / "edged.db") as store:
        told = store.capability.of(UNIT)["set_voltage"].to_json()
    assert told["latency_ms"]["p50"] == pytest.approx(4.0, rel=0.1)


async def test_other_firmware_makes_it_forget_also_on_disk(tmp_path: Path) -> None:
    newer = Unit(UNIT.key, "00.02.00")
    async with running_store(tmp_path / "edged.db") as store:
        note(store.capability)
        note(store.capability, Unit("other", "1"))
    async with running_store(tmp_path / "edged.db") as store:
        store.capability.seen(newer)
        assert store.capability.of(newer) == {}
        assert store.capability.of(UNIT) == {}
        assert store.capability.of(Unit("other", "1"))["set_voltage"].calls == 1
    async with running_store(tmp_path / "edged.db") as store:
        assert store.capability.of(newer) == {}
        note(store.capability, newer)
        assert store.capability.of(newer)["set_voltage"].calls == 1


async def test_a_busy_command_is_written_every_two_seconds_and_not_with_every_group(
    tmp_path: Path, driven_clock: DrivenClock
) -> None:
    async with running_store(tmp_path / "edged.db", driven_clock) as store:

        async def stored() -> int:
            await store.database.flush()
            count = "SELECT coalesce(sum(calls), 0) FROM capability"
            return int(await store.database.read(lambda c: c.execute(count).fetchone()[0]))

        driven_clock.move(3.0)
        note(store.capability)
        assert await stored() == 1
        note(store.capability)
        assert await stored() == 1
        driven_clock.move(2.0)
        assert await stored() == 2


async def test_counts_made_while_the_disk_was_full_are_written_later(
    tmp_path: Path, driven_clock: DrivenClock
) -> None:
    async with running_store(tmp_path / "edged.db", driven_clock) as store:
        await store.fill_the_disk()
        driven_clock.move(3.0)
        for number in range(300):
            note(store.capability, command=f"command_{number}" + "x" * 100)
        await store.database.flush()
        assert store.database.health.state is StoreState.FULL
        store.free_the_disk()
    async with running_store(tmp_path / "edged.db") as store:
        assert len(store.capability.of(UNIT)) == 300


async def test_units_without_end_do_not_fill_the_memory(
    store: StoreBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capability_module, "MAX_UNITS", 10)
    for number in range(50):
        note(store.capability, Unit(f"unit{number}", "1"))
    assert store.capability.of(Unit("unit0", "1")) == {}
    assert store.capability.of(Unit("unit49", "1"))["set_voltage"].calls == 1


def test_a_unit_without_serial_number_is_its_address() -> None:
    one = unit_of(manufacturer="M", model="X", serial="", firmware="1", instrument_id="ASRL1")
    two = unit_of(manufacturer="M", model="X", serial="", firmware="1", instrument_id="ASRL2")
    assert one.key != two.key
