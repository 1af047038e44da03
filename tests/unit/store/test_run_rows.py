"""The rows of the record that belong to a run, in a record of any length."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from edged.store.audit import run_rows
from edged.store.audit.queries import AuditFilter
from edged.store.audit.row import Entry, Phase
from edged.store.audit.run_row import RunRows
from tests.bench.driven_clock import DrivenClock
from tests.bench.store_bench import StoreBench, entry, running_store

RUN = "sweep-1"
BEGUN_MS = 10_000_000


def act(
    action_id: str, phase: Phase = Phase.END, *, time_ms: int = BEGUN_MS, **fields: str
) -> Entry:
    return entry(action_id, phase, time_ms=time_ms)._replace(**{"outcome": "ok"} | fields)


def step(number: int, time_ms: int = BEGUN_MS) -> Entry:
    return act(f"s{number}", time_ms=time_ms, on_behalf_of=RUN, parent_id="a1")


async def rows_of(store: StoreBench, until_ms: int | None = BEGUN_MS + 1) -> RunRows:
    return await store.audit.of_run(RUN, since_ms=BEGUN_MS, until_ms=until_ms)


async def write_a_run(store: StoreBench, steps: int = 3) -> None:
    for number in range(5):
        store.audit.note(act(f"before{number}", time_ms=1_000))
    await store.audit.intend(act("a1", Phase.INTENT, tool="start_sweep", outcome=""))
    store.audit.note(act("b1", on_behalf_of=RUN, tool="settings"))
    for number in range(steps):
        store.audit.note(step(number))
        store.audit.note(act(f"other{number}", on_behalf_of="sweep-2", parent_id="a2"))
    store.audit.note(act("a1", tool="start_sweep"))
    looks = act("c1", tool="get_sweep_status")._replace(arguments={"sweep_id": RUN})
    stops = act("c2", tool="stop_sweep")._replace(arguments={"sweep_id": RUN})
    store.audit.note(looks)
    store.audit.note(stops)
    store.audit.note(act("c3", tool="stop_sweep")._replace(arguments={"sweep_id": "sweep-10"}))


async def test_what_began_it_what_it_did_and_who_stopped_it_are_its_rows(store: StoreBench) -> None:
    await write_a_run(store)
    found = await rows_of(store)
    assert [row.action_id for row in found.first] == ["a1", "b1", "s0", "s1", "s2", "a1", "c2"]
    assert found.total == 7
    assert found.last == ()
    assert found.is_whole
    rows = {row.seq: row for row in await store.audit.list(AuditFilter(after=0), limit=1_000)}
    assert all(rows[row.seq].hash == row.hash for row in found.first)
    newest = max(rows)
    assert (found.head_seq, found.head_hash) == (newest, rows[newest].hash)


async def test_a_long_run_is_told_by_its_ends_and_hashed_whole(
    store: StoreBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_rows, "ROWS_LOOKED_AT", 7)
    await write_a_run(store, steps=100)
    found = await rows_of(store)
    assert found.total == 104
    assert len(found.first) == len(found.last) == run_rows.MOST_SHOWN
    assert [row.action_id for row in found.first[:3]] == ["a1", "b1", "s0"]
    assert found.last[-1].action_id == "c2"
    belong = [
        row.hash
        for row in await store.audit.list(AuditFilter(after=0), limit=1_000)
        if row.on_behalf_of == RUN or row.action_id in ("a1", "c2")
    ]
    told = "".join(f"{digest}\n" for digest in belong)
    assert found.digest == hashlib.sha256(told.encode()).hexdigest()


async def test_a_run_without_rows_is_told_as_one(store: StoreBench) -> None:
    assert (await rows_of(store)).total == 0
    store.audit.note(act("other"))
    found = await rows_of(store)
    assert (found.total, found.digest, found.is_whole) == (0, "", True)
    assert found.head_seq > 0


async def test_rows_long_after_its_end_are_not_looked_at(
    store: StoreBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_rows, "ROWS_LOOKED_AT", 5)
    await write_a_run(store)
    for number in range(20):
        store.audit.note(act(f"later{number}", time_ms=BEGUN_MS + 2 * 86_400_000))
    store.audit.note(step(99, time_ms=BEGUN_MS + 2 * 86_400_000))
    ended, under_way = await rows_of(store), await rows_of(store, until_ms=None)
    assert ended.total == 7
    assert under_way.total == 8
    assert ended.is_whole


class Hurried(DrivenClock):
    """Each look at the time takes a second."""

    def monotonic(self) -> float:
        self.move(1.0)
        return super().monotonic()


async def test_a_record_too_long_to_be_searched_is_told_as_not_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_rows, "ROWS_LOOKED_AT", 2)
    async with running_store(tmp_path / "edged.db") as store:
        await write_a_run(store, steps=30)
        await store.database.flush()
        found = await run_rows.find_run_rows(
            store.database, RUN, since_ms=BEGUN_MS, until_ms=None, clock=Hurried()
        )
    assert not found.is_whole
    assert 0 < found.total < 34
