from __future__ import annotations

import asyncio
import csv
import io
import json
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from edged.errors import ErrorCode, Failed
from edged.store.audit import book as audit_module
from edged.store.audit.book import ROWS_AT_A_STRETCH
from edged.store.audit.chain import Chain
from edged.store.audit.queries import AuditFilter, ExportForm
from edged.store.audit.row import AuditRow, Phase
from edged.store.health import StoreState
from tests.bench.store_bench import StoreBench, entry, running_store, until
from tests.promises import promise

ALL = AuditFilter()
OTHER = "USB0::0x1AB1::0x0E11::DP8::INSTR"


async def ids(store: StoreBench, wanted: AuditFilter = ALL, **more: int) -> list[str]:
    rows = await store.audit.list(wanted, **more)
    return [row.action_id for row in rows if row.phase != "event"]


@promise("audit.intent-on-disk")
async def test_an_intent_is_on_disk_when_it_returns(store: StoreBench) -> None:
    await store.audit.intend(entry("a1", Phase.INTENT))
    count = "SELECT count(*) FROM audit WHERE action_id = 'a1' AND phase = 'intent'"
    assert await store.database.read(lambda c: c.execute(count).fetchone()) == (1,)


async def test_rows_stand_in_the_order_in_which_they_were_noted(store: StoreBench) -> None:
    store.audit.note(entry("a1"))
    await store.audit.intend(entry("a2", Phase.INTENT))
    store.audit.note(entry("a3"))
    assert await ids(store) == ["a1", "a2", "a3"]
    assert (await store.audit.verify()).is_intact


async def test_intents_at_the_same_time_share_one_chain(store: StoreBench) -> None:
    names = [f"a{number}" for number in range(200)]
    await asyncio.gather(*(store.audit.intend(entry(name, Phase.INTENT)) for name in names))
    assert sorted(await ids(store, limit=500)) == sorted(names)
    assert (await store.audit.verify()).is_intact


async def test_many_rows_are_made_and_written_a_few_at_a_stretch(
    store: StoreBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that the event loop, which wants the interpreter, never waits for all of them."""
    written: list[int] = []
    append = Chain.append

    def noted(chain: Chain, connection: sqlite3.Connection, rows: Iterable[Any]) -> None:
        rows = list(rows)
        written.append(len(rows))
        append(chain, connection, rows)

    monkeypatch.setattr(Chain, "append", noted)
    names = [f"a{number}" for number in range(1_000)]
    for name in names:
        store.audit.note(entry(name))
    assert await ids(store, limit=2_000) == names
    assert max(written) <= ROWS_AT_A_STRETCH
    assert (await store.audit.verify()).is_intact


async def test_the_chain_goes_on_over_a_restart(tmp_path: Path) -> None:
    for life in range(3):
        async with running_store(tmp_path / "edged.db") as store:
            store.audit.note(entry(f"life{life}"))
    async with running_store(tmp_path / "edged.db") as store:
        assert await ids(store) == ["life0", "life1", "life2"]
        assert (await store.audit.verify()).is_intact


async def test_the_first_row_tells_of_the_beginning(store: StoreBench) -> None:
    first = (await store.audit.list(ALL))[0]
    assert (first.seq, first.phase, first.tool) == (1, "event", "database")
    assert first.to_json()["parameters"] == {"text": "A new database was begun."}


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (AuditFilter(instrument=OTHER), ["b"]),
        (AuditFilter(since_ms=1_790_000_001_000), ["c", "d"]),
        (AuditFilter(until_ms=1_790_000_000_000), ["a", "b"]),
        (AuditFilter(caller="user:kim"), ["c"]),
        (AuditFilter(caller="192.168.1.7"), ["a", "b", "d"]),
        (AuditFilter(caller="192.168.1.7:40112"), ["a", "b", "d"]),
        (AuditFilter(caller="192.168.1."), []),
        (AuditFilter(caller="relay"), ["c"]),
        (AuditFilter(caller="sweep-1"), ["d"]),
        (AuditFilter(tool="stop_sweep"), ["d"]),
        (AuditFilter(outcome="refused"), ["b"]),
        (AuditFilter(instrument="' OR 1 = 1 --"), []),
        (AuditFilter(caller="%"), []),
    ],
)
async def test_a_list_holds_what_fits(
    store: StoreBench, wanted: AuditFilter, found: list[str]
) -> None:
    store.audit.note(entry("a"))
    store.audit.note(entry("b", Phase.REFUSAL, instrument=OTHER, outcome="refused"))
    store.audit.note(
        entry("c", time_ms=1_790_000_001_000, subject="user:kim", route="relay", remote="1.2.3.4")
    )
    store.audit.note(
        entry("d", time_ms=1_790_000_002_000, tool="stop_sweep", on_behalf_of="sweep-1")
    )
    assert await ids(store, wanted) == found


async def test_a_list_gives_the_newest_rows_unless_it_is_told_where_to_go_on(
    store: StoreBench,
) -> None:
    for number in range(10):
        store.audit.note(entry(f"a{number}"))
    assert await ids(store, limit=3) == ["a7", "a8", "a9"]
    first = (await store.audit.list(ALL, limit=100))[1]
    rows = await store.audit.list(AuditFilter(after=first.seq), limit=2)
    assert [row.action_id for row in rows] == ["a1", "a2"]


async def test_followers_get_rows_once_they_are_on_disk(store: StoreBench) -> None:
    await store.database.flush()
    followed: list[AuditRow] = []

    def follow(rows: tuple[AuditRow, ...]) -> None:
        followed.extend(rows)

    unsubscribe = store.audit.subscribe(follow)
    store.audit.note(entry("a1"))
    await store.audit.intend(entry("a2", Phase.INTENT))
    await until(store.audit.subscribe, lambda: len(followed) == 2) if len(followed) < 2 else None
    unsubscribe()
    await store.audit.intend(entry("a3", Phase.INTENT))
    assert followed == (await store.audit.list(ALL))[-3:-1]


async def test_an_export_holds_every_row_as_it_is(store: StoreBench) -> None:
    for number in range(1200):
        store.audit.note(entry(f"a{number}"))
    text = "".join([part async for part in store.audit.export(ExportForm.JSONL, ALL)])
    rows = [json.loads(line) for line in text.splitlines()]
    assert [row["seq"] for row in rows] == list(range(1, 1202))
    assert rows[5]["parameters"] == {"channel": 1, "voltage": 3.3}
    assert rows[5]["prev"] == rows[4]["hash"]


async def test_an_export_to_a_spreadsheet_holds_no_formulas(store: StoreBench) -> None:
    store.audit.note(entry("a1", tool='=HYPERLINK("http://x")', scpi=("+1", '"quoted", and more')))
    wanted = AuditFilter(after=1)
    text = "".join([part async for part in store.audit.export(ExportForm.CSV, wanted)])
    (row,) = csv.DictReader(io.StringIO(text))
    assert row["tool"].startswith("'=")
    assert row["scpi"] == '\'+1\n"quoted", and more'


async def test_old_rows_go_and_the_chain_stays_whole(
    store: StoreBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_module, "ROWS_REMOVED", 40)
    await store.database.flush()
    now_ms = store.clock.wall_ms()
    for number in range(100):
        store.audit.note(entry(f"a{number}", time_ms=now_ms + number))
    await store.database.flush()
    removed = await store.audit.retire(now_ms + 90)
    assert removed == 91
    assert await ids(store) == [f"a{number}" for number in range(90, 100)]
    assert (await store.audit.verify()).is_intact
    assert await store.audit.retire(now_ms + 90) == 0
    assert (await store.audit.verify()).is_intact


async def test_a_full_disk_refuses_intents_and_keeps_the_rest_until_it_heals(
    store: StoreBench,
) -> None:
    await store.fill_the_disk()
    refused = await _refused(store)
    assert refused.code is ErrorCode.STORE_FAILED
    assert "the disk is full" in refused.message
    for number in range(300):
        store.audit.note(entry(f"read{number}"))
    store.audit.note(entry("safe", is_weighty=True))
    await store.has_state(StoreState.FULL)
    assert store.audit.waiting >= 301
    store.free_the_disk()
    await store.healed()
    found = await ids(store, limit=10_000)
    assert found[-301:] == [*(f"read{number}" for number in range(300)), "safe"]
    assert "refused-last" not in found
    rows = await store.audit.list(ALL, limit=10_000)
    events = [row.parameters for row in rows if row.phase == "event"]
    assert "Nothing could be written" in events[-1]
    assert (await store.audit.verify()).is_intact


async def test_rows_of_reads_beyond_the_bound_are_counted_and_writes_still_kept(
    store: StoreBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_module, "LIGHT_LIMIT", 50)
    monkeypatch.setattr(audit_module, "WEIGHTY_LIMIT", 60)
    await store.fill_the_disk()
    await _refused(store)
    for number in range(80):
        store.audit.note(entry(f"read{number}"))
    for number in range(5):
        store.audit.note(entry(f"write{number}", is_weighty=True))
    assert store.audit.lost >= 30
    store.free_the_disk()
    await store.healed()
    rows = await store.audit.list(ALL, limit=1000)
    assert [row.action_id for row in rows if row.action_id.startswith("write")] == [
        f"write{number}" for number in range(5)
    ]
    (summary,) = [row for row in rows if row.tool == "audit.lost"]
    assert f"{store.audit.lost} rows" in summary.parameters
    assert (await store.audit.verify()).is_intact


async def test_noting_never_raises_even_when_the_store_has_stopped(tmp_path: Path) -> None:
    async with running_store(tmp_path / "edged.db") as store:
        pass
    store.audit.note(entry("late"))
    with pytest.raises(Failed):
        await store.audit.intend(entry("late", Phase.INTENT))


async def test_rows_inserted_behind_our_back_break_nothing_and_are_found(
    store: StoreBench,
) -> None:
    await store.audit.intend(entry("a1", Phase.INTENT))
    await store.database.write(
        lambda c: c.execute(
            "INSERT INTO audit_full SELECT seq + 1, time_ms, phase, 'forged', parent_id, "
            "on_behalf_of, route, session, remote, subject, client, tool, scope, instrument, "
            "command, parameters, scpi, outcome, code, error, duration_ms, prev, hash "
            "FROM audit ORDER BY seq DESC LIMIT 1"
        )
    )
    with pytest.raises(Failed):
        await store.audit.intend(entry("a2", Phase.INTENT))
    await store.audit.intend(entry("a3", Phase.INTENT))
    report = await store.audit.verify()
    forged = next(row for row in await store.audit.list(ALL) if row.action_id == "forged")
    assert [problem.seq for problem in report.problems] == [forged.seq]


async def _refused(store: StoreBench) -> Failed:
    """Intend until the disk is full; the last one, refused, is ``refused-last``."""
    for number in range(200):
        try:
            await store.audit.intend(entry(f"a{number}", Phase.INTENT, error="x" * 900))
        except Failed:
            break
    with pytest.raises(Failed) as refused:
        await store.audit.intend(entry("refused-last", Phase.INTENT, error="x" * 900))
    return refused.value
