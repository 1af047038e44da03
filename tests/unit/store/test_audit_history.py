"""Who did what: each call once, the newest first, of a record of any length."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from edged.store.audit import history
from edged.store.audit.history import CallFilter, Calls
from edged.store.audit.row import Entry, Phase
from tests.bench.store_bench import StoreBench, entry, running_store


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[StoreBench]:
    async with running_store(tmp_path / "edged.db") as running:
        yield running


def call(
    action_id: str, phase: Phase = Phase.END, *, time_ms: int = 1_000_000, **fields: str
) -> Entry:
    made = entry(action_id, phase, time_ms=time_ms)
    outcome = "" if phase is Phase.INTENT else "ok"
    return made._replace(**{"command": "set_voltage", "outcome": outcome} | fields)


async def asked(
    store: StoreBench,
    *,
    limit: int = 50,
    since_ms: int = 0,
    hidden: str = "",
    before: int = 0,
    **wanted: str,
) -> Calls:
    return await store.audit.calls(
        CallFilter(since_ms=since_ms, before=before, **wanted),
        limit=limit,
        may_see=lambda row: row.action_id != hidden,
    )


def ids(found: Calls) -> list[str]:
    return [row.action_id for row in found.rows]


async def test_intent_and_end_are_one_call_and_the_newest_is_first(store: StoreBench) -> None:
    for name in ("a1", "a2"):
        await store.audit.intend(call(name, Phase.INTENT))
        store.audit.note(call(name))
    store.audit.note(call("a3", Phase.REFUSAL, outcome="refused", error="No."))
    await store.audit.intend(call("a4", Phase.INTENT))
    store.audit.event("engine.stopped", "Nobody called for that.")
    found = await asked(store)
    assert ids(found) == ["a4", "a3", "a2", "a1"]
    assert [row.phase for row in found.rows] == ["intent", "refusal", "end", "end"]
    assert not found.has_more


async def test_what_a_run_does_is_one_row_for_each_of_its_commands(store: StoreBench) -> None:
    for step in range(30):
        for command in ("set_voltage", "measure"):
            name = f"s{step}-{command}"
            run = {"parent_id": "run", "on_behalf_of": "sweep-1", "command": command}
            if command == "set_voltage":
                await store.audit.intend(call(name, Phase.INTENT, **run))
            store.audit.note(call(name, **run))
    store.audit.note(call("run", tool="start_sweep"))
    assert ids(await asked(store)) == ["run", "s29-measure", "s29-set_voltage"]


async def test_it_is_narrowed_by_instrument_command_outcome_and_age(store: StoreBench) -> None:
    store.audit.note(call("old", time_ms=500))
    store.audit.note(call("other", instrument="DMM::1"))
    store.audit.note(call("asked", command="measure"))
    store.audit.note(call("bad", outcome="failed"))
    here = entry("x", Phase.END).instrument
    assert ids(await asked(store)) == ["bad", "asked", "other", "old"]
    assert ids(await asked(store, since_ms=501)) == ["bad", "asked", "other"]
    assert ids(await asked(store, instrument=here)) == ["bad", "asked", "old"]
    assert ids(await asked(store, command="set_voltage")) == ["bad", "other", "old"]
    assert ids(await asked(store, outcome="failed")) == ["bad"]
    assert ids(await asked(store, hidden="bad")) == ["asked", "other", "old"]


async def test_more_is_said_only_where_another_call_fits(store: StoreBench) -> None:
    for number in range(4):
        await store.audit.intend(call(f"a{number}", Phase.INTENT))
        store.audit.note(call(f"a{number}"))
    found = await asked(store, limit=3)
    assert (ids(found), found.has_more) == (["a3", "a2", "a1"], True)
    assert not (await asked(store, limit=4)).has_more
    assert not (await asked(store, limit=3, hidden="a0")).has_more


@pytest.mark.parametrize("limit", [1, 2, 3, 7])
async def test_one_goes_on_behind_the_oldest_and_meets_each_call_once(
    store: StoreBench, limit: int
) -> None:
    names = [f"a{number}" for number in range(8)]
    for name in names:
        await store.audit.intend(call(name, Phase.INTENT))
    for name in names:
        store.audit.note(call(name))
    met: list[str] = []
    before = 0
    while True:
        found = await asked(store, limit=limit, before=before)
        met += ids(found)
        assert len(found.rows) <= limit
        if not found.has_more:
            break
        before = found.next_before
    assert met == names[::-1]


async def test_what_a_check_asks_each_unit_is_no_call_of_its_own(store: StoreBench) -> None:
    check = {"tool": "bench__check", "command": ""}
    for name in ("u1", "u2"):
        store.audit.note(call(name, parent_id="c1", **check))
    store.audit.note(call("c1", **check))
    assert ids(await asked(store)) == ["c1"]


@pytest.mark.parametrize(("looked_at", "in_page"), [(3, 2), (7, 500), (20_000, 5)])
async def test_a_search_goes_on_over_pages(
    store: StoreBench, monkeypatch: pytest.MonkeyPatch, looked_at: int, in_page: int
) -> None:
    monkeypatch.setattr(history, "ROWS_LOOKED_AT", looked_at)
    monkeypatch.setattr(history, "ROWS_IN_PAGE", in_page)
    for number in range(60):
        store.audit.note(call(f"a{number}", command="set" if number % 20 == 0 else "get"))
    assert ids(await asked(store, command="set")) == ["a40", "a20", "a0"]
    assert len((await asked(store, limit=60)).rows) == 60


async def test_a_search_that_takes_too_long_says_that_there_may_be_more(
    store: StoreBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "ROWS_LOOKED_AT", 5)
    monkeypatch.setattr(history, "LONGEST_S", -1.0)
    for number in range(20):
        store.audit.note(call(f"a{number}"))
    found = await asked(store, command="never")
    assert (found.rows, found.has_more) == ([], True)


async def test_a_record_without_a_row_of_that_time_is_not_searched(store: StoreBench) -> None:
    store.audit.note(call("a1"))
    found = await asked(store, since_ms=10**15)
    assert (found.rows, found.has_more) == ([], False)
