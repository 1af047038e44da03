"""What is sent after a crash before the daemon is loaded: the journal's file and a simulated bench.

The tests are not asynchronous: first aid comes before the engine's loop.
"""

import asyncio
import itertools
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edged.clock import SystemClock
from edged.engine.life import first_aid
from edged.instruments.dead_man import Words
from edged.profiles.format.connection_facts import connection_facts
from edged.profiles.match import parse_idn
from edged.profiles.model import Connection
from edged.runs.left_work import LeftWork
from edged.runs.units import unit_of_identity
from edged.store.dead_man import ArmedUnit
from edged.store.journal import JournalEntry, JournalKind, read_left
from tests.bench.shipped import shipped_library
from tests.bench.sim_bench import SimBench, running_bench
from tests.bench.store_bench import running_store
from tests.bench.waiting import OwnTime
from tests.promises import promise


@pytest.fixture(scope="module")
def bench() -> Iterator[SimBench]:
    with running_bench("--instruments", "psu1") as running:
        yield running


def leave(
    bench: SimBench, path: Path, *, name: str = "psu1", unit: str = "", **payload: Any
) -> None:
    """What a sweep of the first channel has in the journal."""
    address = bench.address(name)
    entry = JournalEntry(
        id=f"sweep-{name}",
        kind=JournalKind.SWEEP,
        instrument_id=address,
        unit=unit or f"RIGOL TECHNOLOGIES|DP832A|{bench.serial(name)}",
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
    assert not found["sweep-psu1"].needs_attention
    assert [entry.id for entry in read_left(tmp_path / "edged.db")] == ["sweep-psu1"]


def test_another_unit_at_that_address_gets_its_name_asked_and_no_more(
    bench: SimBench, tmp_path: Path
) -> None:
    mark = bench.mark()
    facts = connection_facts(Connection())
    leave(bench, tmp_path / "edged.db", unit="RIGOL TECHNOLOGIES|DP832A|OTHER", connection=facts)
    found = aid(tmp_path)
    assert bench.received("psu1", since=mark) == ["*IDN?"]
    assert "another unit" in found["sweep-psu1"].reason


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


@promise("crash.first-aid")
def test_what_was_left_at_two_addresses_is_made_safe_at_both(tmp_path: Path) -> None:
    with running_bench("--instruments", "psu1,psu2=rigol_dp832") as both:
        for name in ("psu1", "psu2"):
            facts = connection_facts(Connection())
            leave(both, tmp_path / "edged.db", name=name, connection=facts)
        aid(tmp_path)
        for name in ("psu1", "psu2"):
            assert ":OUTP CH1,OFF" in both.received(name)


@promise("dead-man.restart")
def test_while_a_unit_that_hangs_is_visited_the_others_are_fed_again(tmp_path: Path) -> None:
    with running_bench("--instruments", "psu1=keysight_n6700,psu2=keysight_n6700") as both:
        profile = shipped_library().profiles["keysight_n6700"]
        assert profile.watchdog is not None
        left = [
            ArmedUnit(
                instrument_id=both.address(name),
                unit=unit_of_identity(parse_idn(both.ask(name, "*IDN?")), name).key,
                payload={
                    "address": both.address(name),
                    "connection": connection_facts(profile.connection),
                    **Words(profile.watchdog, 3.0).facts(),
                },
            )
            for name in ("psu1", "psu2")
        ]

        async def write() -> None:
            async with running_store(tmp_path / "edged.db") as store:
                for unit in left:
                    store.armed.note(unit)

        asyncio.run(write())
        both.fault("psu2", "freeze")
        mark = both.mark()
        with OwnTime() as own:
            began = time.monotonic()
            aid(tmp_path)
            lost_s = time.monotonic() - began - own.seconds()
        times = [e["t"] for e in both.log("psu1", mark) if e["direction"] == "in"]
        gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
        assert len(times) > 3
        assert max(gaps) < 1.0 + lost_s, "but for what a busy machine takes"
