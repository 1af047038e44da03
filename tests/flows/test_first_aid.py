"""What is sent after a crash before the daemon is loaded: the journal's file and a simulated bench.

The tests are not asynchronous: first aid comes before the engine's loop.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edged.clock import SystemClock
from edged.engine.life import first_aid
from edged.profiles.format.connection_facts import connection_facts
from edged.profiles.model import Connection
from edged.runs.left_work import LeftWork
from edged.store.journal import JournalEntry, JournalKind, read_left
from tests.bench.sim_bench import SimBench, running_bench
from tests.bench.store_bench import running_store
from tests.promises import promise


@pytest.fixture(scope="module")
def bench() -> Iterator[SimBench]:
    with running_bench("--instruments", "psu1") as running:
        yield running


def leave(bench: SimBench, path: Path, *, unit: str = "", **payload: Any) -> None:
    """What a sweep of the first channel has in the journal."""
    address = bench.address("psu1")
    entry = JournalEntry(
        id="sweep-1",
        kind=JournalKind.SWEEP,
        instrument_id=address,
        unit=unit or f"RIGOL TECHNOLOGIES|DP832A|{bench.serial('psu1')}",
        payload={"address": address, "abort": [":OUTP CH1,OFF"], **payload},
    )

    async def write() -> None:
        async with running_store(path) as store:
            await store.journal.begin(entry)

    asyncio.run(write())


def aid(directory: Path) -> dict[str, LeftWork]:
    found = first_aid(directory, visa_library="@py", abort_within_s=120, clock=SystemClock())
    return dict(found)


@promise("crash.first-aid")
def test_what_a_sweep_left_is_made_safe_and_its_row_stays_for_the_store(
    bench: SimBench, tmp_path: Path
) -> None:
    mark = bench.mark()
    leave(bench, tmp_path / "edged.db", connection=connection_facts(Connection()))
    found = aid(tmp_path)
    assert bench.received("psu1", since=mark) == ["*IDN?", ":OUTP CH1,OFF"]
    assert not found["sweep-1"].needs_attention
    assert [entry.id for entry in read_left(tmp_path / "edged.db")] == ["sweep-1"]


def test_another_unit_at_that_address_gets_its_name_asked_and_no_more(
    bench: SimBench, tmp_path: Path
) -> None:
    mark = bench.mark()
    facts = connection_facts(Connection())
    leave(bench, tmp_path / "edged.db", unit="RIGOL TECHNOLOGIES|DP832A|OTHER", connection=facts)
    found = aid(tmp_path)
    assert bench.received("psu1", since=mark) == ["*IDN?"]
    assert "another unit" in found["sweep-1"].reason


def test_a_row_that_does_not_say_how_to_speak_is_left_to_the_daemon(
    bench: SimBench, tmp_path: Path
) -> None:
    mark = bench.mark()
    leave(bench, tmp_path / "edged.db")
    assert aid(tmp_path) == {}
    assert bench.received("psu1", since=mark) == []


@pytest.mark.parametrize("content", [None, b"", b"no database"])
def test_without_a_database_that_can_be_read_nothing_is_done(
    tmp_path: Path, content: bytes | None
) -> None:
    if content is not None:
        (tmp_path / "edged.db").write_bytes(content)
    assert aid(tmp_path) == {}
    assert list(tmp_path.iterdir()) == ([] if content is None else [tmp_path / "edged.db"])
